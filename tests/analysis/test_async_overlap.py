"""Async overlap: what is in flight, what is hidden, what the core waits for; never the sum of what overlaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, beside, stream
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window

CORE = Lane("XLA Ops", 0, "ops", work=True)


def op(number: int, name: str, category: str, operand: str) -> dict[str, object]:
    return {
        "op": number, "name": name, "category": category, "module": "jit_f", "program": 1, "framework": None,
        "source": None, "text": f"%{name} = f32[4]{{0}} {category}(f32[4]{{0}} %{operand})", "flops": None,
        "bytes_accessed": None,
    }  # fmt: skip


OPS = [
    op(0, "all-gather-start.1", "all-gather-start", "a"),
    op(1, "all-gather-done.7", "all-gather-done", "all-gather-start.1"),
    op(2, "all-gather-start.2", "all-gather-start", "a"),
    op(3, "all-gather-done.8", "all-gather-done", "all-gather-start.2"),
    op(4, "all-reduce.3", "all-reduce", "a"),
    op(5, "slice-start.5", "async-start", "a"),
    op(6, "slice-done.5", "async-done", "slice-start.5"),
    op(7, "fusion", "loop fusion", "a"),
]
TIMES = ("windows", "in_flight", "exposed", "hidden")


def run_async_overlap(trace: Trace, window: Window | None = None, by: str = "kind") -> Result:
    return run_analysis(get_analysis("async_overlap"), trace, window, Options(given=(("by", by),)))


def layered_ops() -> Building:
    """Two gathers in flight at once, a reduction of one op, and a slice fetched ahead."""
    b = Building(format="xplane", ops=OPS)
    b.event(CORE, "all-gather-start.1", 0, 1, "collective", op=0)
    b.event(CORE, "all-gather-start.2", 1, 2, "collective", op=2)
    b.event(CORE, "fusion", 2, 12, "op", op=7)
    b.event(CORE, "all-gather-done.7", 12, 15, "collective", op=1)
    b.event(CORE, "slice-start.5", 15, 16, "op", op=5)
    b.event(CORE, "all-gather-done.8", 16, 20, "collective", op=3)
    b.event(CORE, "all-reduce.3", 20, 30, "collective", op=4)
    b.event(CORE, "slice-done.5", 30, 32, "op", op=6)
    b.event(CORE, "fusion", 32, 40, "op", op=7)
    return b


def test_kinds_of_a_rank() -> None:
    result = run_async_overlap(layered_ops().trace())
    rows = {row["kind"]: [row["count"], row["paired"], *(row[name] // US for name in TIMES)]
            for row in result.table.rows(named=True)}  # fmt: skip
    assert rows == {
        "all-reduce": [1, 0, 10, 10, 10, 0],
        "all-gather": [2, 2, 15 + 19, 20, 9, 11],
        "slice": [1, 1, 17, 17, 3, 14],
    }
    assert result.table["kind"].to_list() == ["all-reduce", "all-gather", "slice"]
    assert result.table["exposed_share"].to_list() == pytest.approx([10 / 40, 9 / 40, 3 / 40])
    assert note_texts(result.notes)[0] == "exposed: 22.0 us, 55.0 % of 40.0 us device time on 1 rank"


def test_ops_that_tie_come_in_the_order_of_their_modules() -> None:
    b, modules = Building(format="xplane"), ["jit_e", "jit_b", "jit_d", "jit_a", "jit_f", "jit_c"]
    for number, module in enumerate(modules):
        b.ops.append({**op(number, "all-reduce.3", "all-reduce", "a"), "module": module})
        b.event(CORE, "all-reduce.3", 100 * number, 100 * number + 10, "collective", op=number)
    assert run_async_overlap(b.trace(), by="op").table["module"].to_list() == sorted(modules)


def test_single_ops_over_all_ranks() -> None:
    table = run_async_overlap(layered_ops().trace(), by="op").table
    assert [
        (name, kind, *(value // US for value in times))
        for name, kind, *times in table.select("name", "kind", *TIMES).iter_rows()
    ] == [
        ("all-reduce.3", "all-reduce", 10, 10, 10, 0),
        ("all-gather-start.2", "all-gather", 19, 19, 5, 14),
        ("all-gather-start.1", "all-gather", 15, 15, 4, 11),
        ("slice-start.5", "slice", 17, 17, 3, 14),
    ]


def test_a_window_clips_both_sides() -> None:
    table = run_async_overlap(layered_ops().trace(), Window(10 * US, 18 * US)).table
    (gathers,) = (row for row in table.rows(named=True) if row["kind"] == "all-gather")
    assert [gathers[name] // US for name in TIMES] == [5 + 8, 8, 5, 3]


def test_what_is_in_flight_over_the_whole_window_is_hidden_there() -> None:
    trace = layered_ops().trace()
    row = run_async_overlap(trace, Window(3 * US, 9 * US)).table.row(0, named=True)
    assert [row[name] // US for name in TIMES] == [12, 6, 0, 6]
    assert trace.event(row["event"])["name"] == "all-gather-start.2"


def test_devices_that_are_drawn_as_one_do_not_count_twice() -> None:
    b = Building(format="xplane", ops=OPS)
    for start in (0, 2):
        b.event(CORE, "all-reduce.3", start, start + 10, "collective", op=4)
    row = run_async_overlap(b.trace()).table.row(0, named=True)
    assert [row[name] // US for name in TIMES] == [20, 12, 12, 0]


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        (
            5,
            (
                "rank 0 holds several devices (the file does not tell which of them ran an HLO op): "
                "communication of one during computation of another counts as exposed"
            ),
        ),
        (10, "exposed: 10.0 us, 50.0 % of 20.0 us device time on 1 rank"),
    ],
)
def test_what_several_devices_in_one_expose_is_no_verdict(begun: int, told: str) -> None:
    note, *_ = note_texts(run_async_overlap(beside(begun).trace()).notes)
    assert note.startswith(told)
    assert note.endswith(
        "rank 0 holds several devices (the file does not tell which of them ran an HLO op): "
        "communication of one during computation of another counts as exposed"
    ) == (begun < 10)


def test_where_there_is_nothing_the_reason_is_said() -> None:
    b = Building()
    b.event(stream(), "ncclDevKernel_AllReduce", 0, 5, "collective")
    assert (
        "a PyTorch trace has no HLO ops; overlap shows what its streams hide"
        in note_texts(run_async_overlap(b.trace()).notes)[0]
    )
    b = Building(format="xplane", ops=OPS)
    b.event(CORE, "fusion", 0, 5, "op", op=7)
    assert "no asynchronous HLO op" in note_texts(run_async_overlap(b.trace()).notes)[0]


@given(st.lists(st.tuples(st.sampled_from("gsrf"), st.integers(1, 9)), min_size=1, max_size=20))
def test_all_of_it_against_instants(work: list[tuple[str, int]]) -> None:
    """`g` starts a gather, `s` waits for the oldest one, `r` is a reduction, `f` a fusion."""
    b = Building(format="xplane", ops=OPS)
    waiting, flying, alone, at = list[int](), set[int](), set[int](), 0
    windows = 0
    for what, length in work:
        until = at + length
        if what == "g":
            b.event(CORE, "all-gather-start.1", at, until, "collective", op=0)
            waiting.append(at)
        elif what == "s" and waiting:
            b.event(CORE, "all-gather-done.7", at, until, "collective", op=1)
            begun = waiting.pop(0)
            flying |= set(range(begun, until))
            alone |= set(range(at, until))
            windows += until - begun
        else:
            b.event(CORE, "fusion", at, until, "op", op=7)
        at = until
    started = [(at_, length) for at_, (what, length) in zip(_starts(work), work, strict=True) if what == "g"]
    for begun, length in started:
        alone |= set(range(begun, begun + length))
        if begun in waiting:  # never waited for: it is a collective of one op
            flying |= set(range(begun, begun + length))
            windows += length
    table = run_async_overlap(b.trace()).table
    if not started:
        assert table.is_empty()
        return
    row = table.row(0, named=True)
    assert [row[name] // US for name in TIMES] == [windows, len(flying), len(alone), len(flying - alone)]


def _starts(work: list[tuple[str, int]]) -> list[int]:
    starts, at = [], 0
    for _, length in work:
        starts.append(at)
        at += length
    return starts
