"""Overlap of kernel types and of any two groups: computed by hand, and instant by instant."""

from __future__ import annotations

import csv

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, beside, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.cell_text import format_column
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window
from tracehound.report import ReportStyle, build_header, find_writer


def run_analysis_named(analysis: str, trace: Trace, window: Window | None = None, **given: str) -> Result:
    return run_analysis(get_analysis(analysis), trace, window, Options(None, tuple(sorted(given.items()))))


def types(trace: Trace, window: Window | None = None, **given: str) -> dict[tuple[int | None, str], int]:
    table = run_analysis_named("kernel_types", trace, window, **given).table
    return {(row["rank"], row["type"]): row["time"] for row in table.rows(named=True)}


def overlap(trace: Trace, window: Window | None = None, **given: str) -> dict[int | None, tuple[int, int, int]]:
    table = run_analysis_named("overlap", trace, window, **given).table
    return {row["rank"]: (row["first"], row["second"], row["both"]) for row in table.rows(named=True)}


@pytest.fixture
def busy() -> Trace:
    """Computation from 0 to 30, communication from 20 to 60, a copy from 25 to 28 and from 50 to 70."""
    b = Building()
    b.event(stream(), "gemm", 0, 30)
    b.event(stream(0, 20), "my_exchange", 20, 60, "collective")
    b.event(stream(0, 9), "Memcpy HtoD", 25, 28, "copy")
    b.event(stream(0, 9), "Memcpy HtoD", 50, 70, "copy")
    b.event(thread(), "aten::mm", 0, 500, "op")
    return b.trace()


def test_every_mix_of_types(busy: Trace) -> None:
    assert types(busy) == {
        (0, "computation"): 20 * US,
        (0, "computation and communication"): 7 * US,
        (0, "computation and communication and memory"): 3 * US,
        (0, "communication"): 20 * US,
        (0, "communication and memory"): 10 * US,
        (0, "memory"): 10 * US,
    }


def test_shares_are_of_the_busy_time(busy: Trace) -> None:
    table = run_analysis_named("kernel_types", busy).table
    assert table["share"].sum() == pytest.approx(1)
    assert table["share"][0] == pytest.approx(20 / 70)


def test_communication_behind_computation(busy: Trace) -> None:
    result = run_analysis_named("overlap", busy)
    (row,) = result.table.rows(named=True)
    assert [row[name] / US for name in ("first", "second", "both", "exposed")] == [40, 30, 10, 30]
    assert (row["hidden"], row["covered"]) == (0.25, pytest.approx(1 / 3))
    assert note_texts(result.notes) == ("25.0 % of communication time overlaps with computation",)


@pytest.mark.parametrize(
    ("given", "both"),
    [
        ({"first": "memory", "second": "communication"}, 13),
        ({"first": "gemm", "second": "collective"}, 10),
        ({"first": "^my_", "second": "memcpy"}, 13),
        ({"first": "^MY_", "second": "gem{2}$"}, 10),
        ({"first": "mine", "second": "copy", "classes": "mine:exchange|gemm"}, 13),
        ({"classes": "computation:exchange"}, 0),
    ],
)
def test_any_two_groups(busy: Trace, given: dict[str, str], both: int) -> None:
    assert [lengths[2] / US for lengths in overlap(busy, **given).values()] == [both]


@pytest.mark.parametrize("name", ["normalization", "normalisation"])
def test_a_group_has_its_older_name_too(name: str) -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 30)
    b.event(stream(0, 8), "rms_norm", 10, 15)
    assert overlap(b.trace(), first=name, second="gemm") == {0: (5 * US, 30 * US, 5 * US)}
    assert overlap(b.trace(), first=name, second="gemm", classes=f"{name}:gem+") == {0: (30 * US, 0, 0)}


def test_what_is_in_both_groups_does_not_overlap_itself() -> None:
    """A norm runs beside the product from 10 to 15, and alone from 30 to 35."""
    b = Building()
    b.event(stream(), "gemm", 0, 30)
    b.event(stream(0, 8), "rms_norm", 10, 15)
    b.event(stream(0, 8), "rms_norm", 30, 35)
    assert overlap(b.trace(), first="gemm", second="computation") == {0: (30 * US, 10 * US, 5 * US)}
    assert overlap(b.trace(), first="computation", second="gemm") == {0: (35 * US, 0, 0)}


def test_classes_of_ones_own_move_kernels_to_another_type(busy: Trace) -> None:
    assert types(busy, classes="memory:exchange") == {
        (0, "computation"): 20 * US,
        (0, "computation and memory"): 10 * US,
        (0, "memory"): 40 * US,
    }


def test_a_window_clips(busy: Trace) -> None:
    assert overlap(busy, Window(10 * US, 25 * US)) == {0: (5 * US, 15 * US, 5 * US)}
    assert types(busy, Window(60 * US, 65 * US)) == {(0, "memory"): 5 * US}


def test_ranks_are_summed_up() -> None:
    b = Building()
    b.event(stream(0), "gemm", 0, 10)
    b.event(stream(0, 20), "nccl", 5, 10, "collective")
    b.event(stream(1), "gemm", 0, 10)
    b.event(stream(1, 20), "nccl", 10, 25, "collective")
    trace = b.trace()
    assert overlap(trace) == {
        None: (20 * US, 20 * US, 5 * US), 0: (5 * US, 10 * US, 5 * US), 1: (15 * US, 10 * US, 0),
    }  # fmt: skip
    assert types(trace)[None, "computation"] == 15 * US


def test_hlo_categories_are_groups() -> None:
    b = Building()
    ops = Lane("XLA Ops", 0, "ops", work=True)
    b.event(ops, "while", 0, 100, "op", op=0)
    b.event(ops, "dot.1", 20, 60, "op", op=1)
    b.ops = [{"op": 0, "name": "while", "category": "while"}, {"op": 1, "name": "dot.1", "category": "dot"}]
    assert overlap(b.trace(), first="dot", second="while") == {0: (40 * US, 60 * US, 0)}


@pytest.mark.parametrize("begun", [5, 10])
def test_what_several_devices_in_one_hide_is_no_verdict(begun: int) -> None:
    (note,) = note_texts(run_analysis_named("overlap", beside(begun).trace()).notes)
    merged, alone = (
        (
            "rank 0 holds several devices (the file does not tell which of them ran an HLO op): "
            "communication of one during computation of another counts as hidden"
        ),
        "0 % of communication time overlaps",
    )
    assert note.startswith(merged if begun < 10 else alone)
    assert note.endswith(
        "rank 0 holds several devices (the file does not tell which of them ran an HLO op): "
        "communication of one during computation of another counts as hidden"
    ) == (begun < 10)


def test_why_there_is_nothing() -> None:
    b = Building()
    b.event(thread(), "aten::mm", 0, 10, "op")
    assert note_texts(run_analysis_named("overlap", b.trace()).notes) == (
        "no communication and no computation ran on a device",
    )
    assert note_texts(run_analysis_named("kernel_types", b.trace()).notes) == ("no device work was recorded",)
    b.event(stream(), "gemm", 0, 10)
    assert note_texts(run_analysis_named("overlap", b.trace()).notes) == ("no communication ran on a device",)


def test_what_is_no_group_is_said() -> None:
    for setting in get_analysis("overlap").settings[:2]:
        with pytest.raises(TracehoundError, match="not a regular expression"):
            setting.read("(")


KINDS = st.sampled_from(["kernel", "collective", "copy", "memset"])
EVENTS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), KINDS, st.integers(0, 30), st.integers(0, 9)), max_size=14
)
TYPE = {"kernel": "computation", "collective": "communication", "copy": "memory", "memset": "memory"}


@given(EVENTS, st.one_of(st.none(), st.tuples(st.integers(0, 20), st.integers(1, 20))))
def test_every_instant(events: list[tuple[int, int, str, int, int]], bounds: tuple[int, int] | None) -> None:
    b = Building(unit=1)
    for rank in (0, 1):
        b.event(stream(rank, 1), "first", 0, 1)
    for rank, number, kind, start, length in events:
        b.event(stream(rank, number), "k", start, start + length, kind)
    trace = b.trace()
    window = Window(bounds[0], sum(bounds)) if bounds else Window()
    low, high = window.clip_bounds(*trace.span)
    found = {key: time for key, time in types(trace, window).items() if key[0] is not None}
    expected: dict[tuple[int, str], int] = {}
    both = {0: 0, 1: 0}
    for rank in (0, 1):
        mine = [("computation", 0, 1)] + [(TYPE[k], s, s + n) for r, _, k, s, n in events if r == rank]
        for t in range(low, high):
            running = {name for name, start, end in mine if start <= t < end}
            mix = " and ".join(name for name in ("computation", "communication", "memory") if name in running)
            if mix:
                expected[rank, mix] = expected.get((rank, mix), 0) + 1
            both[rank] += {"computation", "communication"} <= running
    assert found == expected
    for rank, lengths in overlap(trace, window).items():
        assert lengths[2] == (sum(both.values()) if rank is None else both[rank])


@pytest.mark.parametrize("analysis", ["kernel_types", "overlap"])
def test_the_sum_of_all_ranks_cannot_be_taken_for_a_rank(analysis: str) -> None:
    b = Building()
    for rank in (0, 1):
        b.event(stream(rank), "gemm", 0, 40)
        b.event(stream(rank, 20), "nccl", 20, 60, "collective")
    trace = b.trace()
    result = run_analysis_named(analysis, trace)
    assert result.table["rank"].unique().sort().to_list() == [None, 0, 1]
    assert set(format_column(result, result.column("rank"))) == {"all", "0", "1"}
    lines = [
        line.text for line in find_writer("csv").write_result(build_header(trace, Window()), result, ReportStyle())
    ]
    rows = list(csv.DictReader("\n".join(lines).splitlines()))
    time = "time_ps" if analysis == "kernel_types" else "first_ps"
    assert {row["rank"] for row in rows} == {"0", "1"}
    summed = result.table.filter(pl.col("rank").is_null())[time.removesuffix("_ps")].sum()
    assert sum(int(row[time]) for row in rows) == summed > 0
