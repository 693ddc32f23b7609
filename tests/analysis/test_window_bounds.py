"""A window of steps: every rank has the time of its own, wherever those of the others lie."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace
from polars.testing import assert_frame_equal

from building import US, Building, Lane, stream, thread
from exporting import opened, written
from jobs import Rank, asked, job
from short import first, some
from tracehound.analysis import ANALYSES, Analysis, Options, get_analysis, run_analysis
from tracehound.analysis.rank_trace import rank_traces
from tracehound.analysis.timing import other_step_work
from tracehound.analysis.window_bounds import lane_windows, rank_windows
from tracehound.draw.notes import note_text, note_texts
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window
from tracehound.query import answer_query, prepare_query
from tracehound.report import summarize_trace
from tracehound.report.window_arguments import parse_window

LENGTH = 100
STEPS = (5, 6, 7, 8)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Two ranks whose clocks are a step apart: when rank 1 is in step 5, rank 0 is in step 6.

    A step computes for 10 us for each of its number, and communicates for 5.
    """
    ranks = []
    for rank in (0, 1):
        of = Rank(rank, clock=rank * LENGTH)
        for number in STEPS:
            start = (number - STEPS[0]) * LENGTH
            of.step(number, start, start + LENGTH)
            of.host("aten::mm", start + 2, start + 30)
            of.kernel("gemm", start + 3, start + 5, start + 5 + 10 * number)
            of.collective(start + 20, start + 90, start + 95, Seq=number)
        ranks.append(of)
    return job(tmp_path_factory.mktemp("apart"), *ranks)


def test_a_window_of_a_step_is_of_each_rank_its_own(apart: Trace) -> None:
    window = parse_window(apart, steps="6")
    assert window == Window(100 * US, 300 * US, steps=(6,))
    assert rank_windows(apart, window) == {0: (100 * US, 200 * US), 1: (200 * US, 300 * US)}
    lanes = apart.lanes.select("lane", "host").iter_rows()
    assert lane_windows(apart, window) == {
        lane: ((100 + 100 * host) * US, (200 + 100 * host) * US) for lane, host in lanes
    }, "a rank has a host of its own here"


def test_within_the_bounds_of_the_window(apart: Trace) -> None:
    window = Window(150 * US, 220 * US, steps=(6,))
    assert rank_windows(apart, window) == {0: (150 * US, 200 * US), 1: (200 * US, 220 * US)}


def test_a_rank_without_the_step_is_in_no_window_of_it(apart: Trace) -> None:
    (lacking,) = apart.lanes.filter(pl.col("rank") == 1, pl.col("name") == "stream 7")["lane"].to_list()
    trace = _without(apart, rank=1, step=8)
    assert parse_window(trace, steps="8") == Window(300 * US, 400 * US, (0,), steps=(8,))
    assert parse_window(trace, steps="7-8") == Window(200 * US, 400 * US, steps=(7, 8))
    assert list(rank_windows(trace, Window(steps=(8,)))) == [0]
    assert lacking not in lane_windows(trace, Window(steps=(8,)))
    assert asked("breakdown", trace, Window(steps=(8,))).table["rank"].to_list() == [0]


def _without(trace: Trace, rank: int, step: int) -> Trace:
    return replace(trace, steps=trace.steps.filter(~((pl.col("host") == rank) & (pl.col("step") == step))))


@pytest.mark.thorough
@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda each: each.name)
@pytest.mark.parametrize("steps", first(1, ("6", "5-6")))
def test_every_rank_is_seen_as_if_it_were_alone(apart: Trace, analysis: Analysis, steps: str) -> None:
    together = [analysis.per_rank(share, Options()) for share in rank_traces(apart, parse_window(apart, steps=steps))]
    alone = [
        analysis.per_rank(share, Options())
        for rank in ("0", "1")
        for share in rank_traces(apart, parse_window(apart, ranks=rank, steps=steps))
    ]
    for found, expected in zip(together, alone, strict=True):
        assert_frame_equal(found, expected, check_row_order=False)


@pytest.mark.parametrize(
    ("analysis", "given"),
    [
        ("steps", {}),
        ("step_parts", {}),
        ("breakdown", {"by": "step"}),
        ("utilization", {"by": "step"}),
        ("distributed", {"by": "step"}),
    ],
)
def test_tables_of_steps_have_the_step_alone(apart: Trace, analysis: str, given: dict[str, str]) -> None:
    table = asked(analysis, apart, parse_window(apart, steps="6"), **given).table
    assert table.select("step", "rank").rows() == [(6, 0), (6, 1)]


def test_averages_are_of_the_step_alone(apart: Trace) -> None:
    window = parse_window(apart, steps="6")
    parts = asked("step_parts", apart, window, by="part").table.filter(part="kernel")
    assert parts.select("rank", "mean", "max").rows() == [(rank, 60 * US, 60 * US) for rank in (0, 1)]
    assert asked("breakdown", apart, window).table["compute"].to_list() == [60 * US, 60 * US]
    assert asked("breakdown", apart, window).table["span"].to_list() == [100 * US, 100 * US]
    host = asked("host", apart, window).table
    assert host.group_by("host").agg(pl.col("share").sum())["share"].to_list() == pytest.approx([1, 1])


def test_steps_that_do_not_follow_one_another(apart: Trace) -> None:
    with pytest.raises(TracehoundError, match="steps 5, 7 are no stretch of time: step 6 lies between") as refused:
        parse_window(apart, steps="5,7")
    assert refused.value.remedy == "take all, 5-7, or ask once for each stretch"
    with pytest.raises(TracehoundError, match="steps 5, 8 are no stretch of time: steps 6-7 lie between"):
        parse_window(apart, steps="first,last")
    table = asked("steps", apart, parse_window(apart, steps="7,6")).table
    assert table.select("step", "rank").rows() == [(6, 0), (6, 1), (7, 0), (7, 1)]


def test_work_that_outlasts_its_mark_is_of_its_own_step_alone(tmp_path: Path) -> None:
    """The device is two steps behind its host: when step 2 is marked, the work of step 1 runs."""
    of = Rank(0, world=1)
    for number in (1, 2, 3):
        start = 20 * number
        of.step(number, start, start + 20)
        of.kernel("gemm", start + 1, 100 * number, 100 * number + 80)
    trace = job(tmp_path, of)
    window = parse_window(trace, steps="2")
    for analysis, given in (("utilization", {"by": "step"}), ("step_parts", {})):
        assert asked(analysis, trace, window, **given).table["step"].to_list() == [2], analysis


def test_a_host_has_one_window_for_all_ranks_that_it_drives() -> None:
    """Two devices of one host whose executions are apart: each has its own, its threads are seen over both."""
    b = Building(format="xplane")
    for rank in (0, 1):
        modules, ops = Lane("XLA Modules", rank, "modules"), Lane("XLA Ops", rank, "ops", work=True)
        for number in range(4):
            start = 100 * number + 50 * rank
            b.event(modules, "jit_step", start, start + 90, "module")
            b.event(ops, "dot", start, start + 40, "op")
    b.event(thread(), "wait", 100, 240, "sync")
    trace = b.trace()
    window = parse_window(trace, steps="1")
    assert rank_windows(trace, window) == {0: (100 * US, 200 * US), 1: (150 * US, 250 * US)}
    assert asked("breakdown", trace, window).table["compute"].to_list() == [40 * US, 40 * US]
    rows = asked("host", trace, window).table.select("event", "time").rows()
    assert rows == [("wait", 140 * US), ("(nothing recorded)", 10 * US)]


@pytest.mark.thorough
def test_queries_and_exports_have_each_ranks_own_step(apart: Trace, tmp_path: Path) -> None:
    window = parse_window(apart, steps="6")
    found = answer_query(
        prepare_query("SELECT rank, name, start FROM events WHERE kind IN ('op', 'step') ORDER BY start"), apart, window
    )
    own = [("ProfilerStep#6", 0), ("aten::mm", 2)]
    expected = [(rank, name, (100 * (rank + 1) + start) * US) for rank in (0, 1) for name, start in own]
    assert found.table.rows() == expected
    marks = answer_query(prepare_query("SELECT host, step FROM marks ORDER BY host"), apart, window).table
    assert marks["step"].to_list() == [6, 6]
    for form in ("json", "parquet"):
        out = tmp_path / f"out.{form}"
        written(apart, out, window, form)
        names = pl.read_parquet(out)["name"] if form == "parquet" else opened(out).events().collect()["name"]
        marked = names.cast(pl.String).to_list()
        assert sorted(name for name in marked if name.startswith("Profiler")) == ["ProfilerStep#6"] * 2, form


def said(trace: Trace, window: Window) -> str:
    """What is said of the work of other steps; "" where nothing is."""
    note = other_step_work.other_steps_note(trace, window)
    return "" if note is None else note_text(note)


@pytest.mark.parametrize(
    ("late", "told"),
    some(
        [(0, ""), (1, ""), (20, "20.0 %"), (40, "40.0 %"), (100, "100 %")],
        [(20, "20.0 %"), (40, "40.0 %")],
    ),
)
def test_a_device_that_works_on_other_steps_is_told_of(late: int, told: str) -> None:
    b = Building()
    for number in range(4):
        b.event(thread(), f"ProfilerStep#{number}", number * 100, number * 100 + 100, "step", step=number)
        b.event(thread(), "cudaLaunchKernel", number * 100 + 1, number * 100 + 2, "runtime", correlation=number)
        b.event(
            Lane("stream 7", 0, "stream", work=True),
            "k",
            number * 100 + late,
            number * 100 + late + 100,
            correlation=number,
        )
    trace = b.trace()
    words = said(trace, Window(steps=(2,)))
    assert words.partition(" of the device work")[0] == told
    assert (f"and {told} of the work that step 2 launched ran outside of this window" in words) == bool(told)
    assert other_step_work.other_steps_share(trace, Window(steps=(2,))) == (late / 100 if late > 25 else 0)
    assert not said(trace, Window(0, 200 * US))
    assert (
        "--step uses its marks" in "".join(note_texts(summarize_trace(trace, Window(steps=(2,))).results[0].notes))
    ) == bool(told)


def test_work_of_a_step_that_runs_after_it_is_told_of_where_no_other_step_has_any() -> None:
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 100, "step", step=1)
    for number, start in enumerate((60, 90)):
        b.event(thread(), "cudaLaunchKernel", number, number + 1, "runtime", correlation=number)
        b.event(Lane("stream 7", 0, "stream", work=True), "k", start, start + 30, correlation=number)
    trace, window = b.trace(), Window(steps=(1,))
    told = said(trace, window)
    assert told.startswith(
        "33.3 % of the work that step 1 launched ran outside of this window: the host runs ahead, and "
        "--step uses its marks; steps, step_parts and critical_path count a step to the end of its "
        "work; --window 0us..120us has all of it"
    )
    noted = {
        name: other_step_work.with_other_steps_note(run_analysis(get_analysis(name), trace, window), trace, window)
        for name in ("ops", "steps")
    }
    assert told in note_texts(noted["ops"].notes)
    assert told not in note_texts(noted["steps"].notes)


@pytest.mark.parametrize(("label", "launches", "told"), [("GPU 0", 1, "25.0 %"), ("GPU 0", 0, ""), ("CPU", 1, "")])
def test_work_that_nothing_is_known_to_have_launched_is_told_of(label: str, launches: int, told: str) -> None:
    """Where no launch is recorded, and on a CPU, what began in a step is that step's."""
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 100, "step", step=1)
    for number in range(launches):
        b.event(thread(), "cudaLaunchKernel", 1, 2, "runtime", correlation=number)
    b.event(stream(), "k", 10, 40, correlation=0)
    b.event(stream(), "k", 50, 60)
    built = b.trace()
    ranks = built.ranks.with_columns(pl.lit(label).alias("label"))
    words = said(replace(built, ranks=ranks), Window(steps=(1,)))
    assert words.partition(" of the device work in this window has no known launch")[0] == told
