"""How lengths are spread: a histogram on one rank, boxes on several, and what launches cost."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

from tracehound.analysis.result import Column, Result
from tracehound.draw.charts import histograms
from tracehound.draw.glyphs import to_ascii

US = 10**6


def lengths(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten of 10 to 19 us on each rank; on the last one they take four times as long."""
    each = np.arange(10, 20) * US
    found = [each * (4 if rank == ranks - 1 and ranks > 1 else 1) for rank in range(ranks)]
    return np.concatenate(found), np.repeat(np.arange(ranks), 10)


def test_one_rank_is_a_histogram() -> None:
    lines = histograms.draw_length_spread(*lengths(1), set(), (70, 8))
    assert "10 executions, median 14.5 us" in lines[-1]
    assert not any("rank" in line for line in lines)


def test_several_ranks_have_a_box_each_and_those_apart_a_sign() -> None:
    lines = histograms.draw_rank_boxes(*lengths(3), {2}, (70, 8))
    assert [line.split()[:2] for line in lines[:3]] == [["rank", "0"], ["rank", "1"], ["rank", "2"]]
    assert lines[0].rstrip().endswith("14.5 us")
    assert lines[2].startswith("rank 2 !")
    assert lines[2].index("█") > lines[0].rindex("─"), "its median is beyond the longest of the others"
    assert lines[3].startswith("! stands out")


@pytest.mark.parametrize(("width", "ends"), [(70, "40.0 us"), (62, "40.0 us"), (48, "to p99")])
def test_what_the_boxes_are_is_said_whole_or_not_at_all(width: int, ends: str) -> None:
    each, ranks = np.array([10, 40] * 4) * US, np.repeat(np.arange(2), 4)
    told = histograms.draw_rank_boxes(each, ranks, set(), (width, 4))[-1].rstrip()
    assert told.startswith("shortest ─ middle half ▒ median █ to p99")
    assert told.endswith(ends)


def test_of_many_ranks_those_apart_come_first() -> None:
    found, ranks = lengths(64)
    lines = histograms.draw_rank_boxes(found * (1 + ranks), ranks, {0}, (70, 4))
    assert any(line.startswith("rank 0 !") for line in lines)
    assert "more ranks" in lines[-1]


def test_many_ranks_that_are_alike_share_a_box() -> None:
    lines = histograms.draw_rank_boxes(*lengths(64), {63}, (70, 4))
    assert [line.split("  ")[0].strip() for line in lines[:-1]] == ["ranks 0-62", "rank 63 !"]


def test_what_launches_cost_is_of_the_row_alone() -> None:
    columns = tuple(Column(name, "time", "") for name in ("delay", "device_time", "call_time"))
    rows = [(0, "launch", 5 * US, 9 * US, 3 * US)] * 4 + [(0, "copy", 7 * US, 1 * US, 2 * US)] * 3
    table = pl.DataFrame(rows, schema=["rank", "call", "delay", "device_time", "call_time"], orient="row")
    every = Result("launches", "Launches", columns, table, table.height)
    lines = histograms.draw_launch_histograms(every, {"rank": 0, "call": "copy"}, (60, 18))
    told = [line for line in lines if "median" in line]
    assert [line.split(",")[0] for line in told] == ["3 delays of work", "3 lengths of work", "3 calls"]
    assert "median 7.00 us" in told[0]
    assert histograms.draw_launch_histograms(every, {"rank": 1, "call": "copy"}, (60, 18)) == []


def test_what_is_said_of_launches_is_said_whole_on_a_small_screen() -> None:
    columns = tuple(Column(name, "time", "") for name in ("delay", "device_time", "call_time"))
    rows = [(0, "launch", length, length, length) for length in (1.5 * US, *[123.4 * US] * 4_320, 98_760 * US)]
    names = {"rank": pl.Int64, "call": pl.String, **{column.name: pl.Float64 for column in columns}}
    table = pl.DataFrame(rows, schema=names, orient="row").cast({column.name: pl.Int64 for column in columns})
    every = Result("launches", "Launches", columns, table, table.height)
    lines = histograms.draw_launch_histograms(every, {"rank": 0, "call": "launch"}, (78, 18))
    told = [line.rstrip() for line in lines if "median" in line]
    whole = "median 123 us, p99 123 us, log scale, highest 4,320"
    assert told == [f"4,322 {what}, {whole}" for what in ("delays of work", "lengths of work", "calls")]


@pytest.mark.parametrize("ranks", [1, 2, 64])
@pytest.mark.parametrize("size", [(30, 4), (47, 12), (90, 30), (8, 2)])
def test_a_chart_has_the_size_asked_for(ranks: int, size: tuple[int, int]) -> None:
    lines = histograms.draw_length_spread(*lengths(ranks), {0}, size)
    assert len(lines) <= size[1]
    for line in lines:
        assert cell_len(line) == size[0]
        assert to_ascii(line).isascii()
