"""Charts of results: exactly the size asked for, true to their numbers, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from results import every_unit
from tracehound.analysis import get_analysis
from tracehound.analysis.result import Column, Result, empty_table
from tracehound.draw.charts import analysis_charts, histograms
from tracehound.draw.glyphs import to_ascii

MS = 10**9


def steps(count: int) -> Result:
    columns = (Column("step", "count", ""), Column("rank", "count", ""), Column("duration", "time", ""))
    rows = [(step, rank, (10 + step + 5 * rank) * MS) for step in range(count) for rank in (0, 1)]
    table = pl.DataFrame(rows, schema=["step", "rank", "duration"], orient="row")
    return Result("steps", "Steps", columns, table, table.height)


def breakdown(ranks: int) -> Result:
    names = [f"{name}_share" for name in analysis_charts.BREAKDOWN_GLYPHS]
    columns = (Column("rank", "count", ""), *(Column(name, "share", "", "span") for name in names))
    table = pl.DataFrame([(rank, 0.5, 0.25, 0.0, 0.25) for rank in range(ranks)], schema=["rank", *names], orient="row")
    return Result("breakdown", "Breakdown", columns, table, ranks)


@pytest.mark.parametrize("size", [(78, 8), (40, 4), (200, 30)])
@pytest.mark.parametrize("result", [steps(20), breakdown(9), every_unit()], ids=["steps", "breakdown", "bars"])
def test_a_chart_has_the_size_asked_for(result: Result, size: tuple[int, int]) -> None:
    lines = analysis_charts.draw_chart(result, "", 0, size)
    assert lines
    assert len(lines) <= size[1]
    for line in lines:
        assert cell_len(line) == size[0]
        assert line.isprintable()
        assert to_ascii(line).isascii()


def test_steps_are_a_curve_of_the_slowest_rank() -> None:
    lines = analysis_charts.draw_chart(steps(20), "", 0, (78, 8))
    assert lines[0].startswith("34.0 ms")
    assert lines[-4].startswith("    0 s")
    assert lines[-1].rstrip() == "slowest rank's length of each step, by number of the step"
    assert analysis_charts.draw_step_lengths(steps(2), 0, (78, 8)) == []
    assert "step 0" in analysis_charts.draw_chart(steps(2), "", 0, (78, 8))[0], "two steps are rather bars"


def test_steps_that_hardly_differ_have_a_scale_of_their_own_that_is_told() -> None:
    near = steps(20)
    near = replace(near, table=near.table.with_columns(pl.col("duration") + 1000 * MS))
    for width in (40, 64, 78):
        lines = analysis_charts.draw_chart(near, "", 0, (width, 8))
        assert lines[-4].startswith("1.01 s")
        assert lines[-1].startswith("scale from 1.01 s, not 0")
    alike = replace(near, table=near.table.with_columns(duration=pl.lit(7 * MS)))
    assert analysis_charts.draw_chart(alike, "", 0, (78, 8))[-4].startswith("    0 s")


def test_a_breakdown_is_a_divided_bar_for_each_rank() -> None:
    lines = analysis_charts.draw_chart(breakdown(9), "", 0, (47, 5))
    assert lines[0] == "rank 0 " + "█" * 20 + "▓" * 10 + "∙" * 10
    assert "5 more ranks" in lines[-1]
    assert analysis_charts.draw_chart(breakdown(9), "", 8, (47, 5))[3].startswith("rank 8"), (
        "the cursor's rank is in sight"
    )
    assert len(lines) == 5


def test_bars_are_about_the_cursor_and_of_the_column_that_matters() -> None:
    columns = (Column("name", "text", ""), Column("self", "time", "own time"), Column("count", "count", "executions"))
    table = pl.DataFrame(
        {"name": [f"op{n}" for n in range(50)], "self": [MS * n for n in range(50)], "count": [7] * 50}
    )
    result = Result("gaps", "Gaps", columns, table, 50)
    lines = analysis_charts.draw_chart(result, "", 49, (60, 6))
    assert [line.split()[0] for line in lines[:-1]] == ["op45", "op46", "op47", "op48", "op49"]
    assert lines[-2].endswith("49.00 ms")
    assert lines[-2].count("█") > lines[0].count("█")
    assert "self: own time" in lines[-1]
    assert "count: executions" in analysis_charts.draw_chart(result, "count", 0, (60, 6))[-1]


def test_a_histogram_counts_every_length() -> None:
    lengths = np.array([10] * 30 + [20] * 60, np.int64) * 10**6
    lines = histograms.draw_histogram(lengths, (60, 8))
    assert [len(line) for line in lines] == [60] * 8
    assert lines[0].strip() == "█" * (60 // 19)
    assert lines[-2].startswith("10.0 us")
    assert lines[-2].rstrip().endswith("20.0 us")
    assert "90 executions, median 20.0 us, p99 20.0 us" in lines[-1]


def test_lengths_of_very_different_sizes_have_a_logarithmic_scale() -> None:
    once = histograms.draw_histogram(np.array([760_000], np.int64), (60, 8))
    assert (once[-2].split(), once[-1].strip()) == (["760", "ns"], "1 execution")
    alike = histograms.draw_histogram(np.full(3, 760_000, np.int64), (60, 8), "lengths of work")
    assert alike[-2].split() == ["760", "ns"]
    assert "3 lengths of work, median 760 ns" in alike[-1]
    wide = histograms.draw_histogram(np.array([1, 10, 100, 1000], np.int64) * 10**6, (90, 8))
    assert "log scale" in wide[-1]
    assert "31.6 us" in wide[-2], "the geometric mean is in the middle"
    assert "log scale" not in histograms.draw_histogram(np.array([0, 10**9]), (90, 8))[-1]
    near = histograms.draw_histogram(np.array([194_400_000_000, 194_403_000_000, 194_410_000_000]), (60, 8))
    assert near[-2].split("  ")[0] == "194 ms"
    assert near[-2].split()[2:] == ["+5.00", "us", "+10.0", "us"]


@pytest.mark.parametrize("size", [(10, 8), (78, 1), (0, 0)])
def test_no_room_is_no_chart(size: tuple[int, int]) -> None:
    assert analysis_charts.draw_chart(breakdown(3), "", 0, size) == []
    assert histograms.draw_histogram(np.array([5]), size) == []


def test_nothing_is_no_chart() -> None:
    assert analysis_charts.draw_chart(breakdown(0), "", 0, (78, 8)) == []
    assert histograms.draw_histogram(np.array([], np.int64), (78, 8)) == []
    assert len(histograms.draw_histogram(np.array([5]), (78, 8))) == 8


def _judged(**peaks: float | None) -> Result:
    """One op under the roof of its device, or under none."""
    columns = get_analysis("roofline").columns
    row = {"name": "dot", "self": 10**9, "share": 1.0, "intensity": 100.0, "rate": 1e12, "efficiency": 0.5, **peaks}
    table = pl.DataFrame([row], schema=empty_table(columns).schema)
    return Result("roofline", "Roofline", columns, table, 1)


def test_bars_in_place_of_a_roofline_say_why() -> None:
    known, unknown = _judged(peak=2e12, memory_peak=1e11), _judged(peak=None, memory_peak=None)
    small, large = (78, 6), (78, 12)
    assert not any("too little room" in line for line in analysis_charts.draw_chart(known, "self", 0, large))
    for result, size, why in ((known, small, "too little room for the roofline"), (unknown, large, "no peak is known")):
        lines = analysis_charts.draw_chart(result, "self", 0, size)
        assert why in lines[-1]
        assert "…" not in lines[-1]
        assert len(lines) <= size[1]
        assert any("█" in line for line in lines)
