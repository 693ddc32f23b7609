"""The rank map as a matrix: orders, the scale, bins, zoom, and the cursor that is always visible."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.rank_map import COLUMNS
from tracehound.analysis.result import empty_table
from tracehound.draw.charts.rank_matrix import (
    LEVELS,
    MapView,
    RankMapData,
    RankMatrix,
    bin_map,
    keep_cursor_visible,
    move_cursor,
    worst_in_bins,
    zoom_map,
)

SECOND = 10**12


def table(ranks: int, steps: int, slow: int = 1, **more: Any) -> pl.DataFrame:
    """Ranks whose steps take 1 s, but 1.5 s on the slow one, which is busy 50 % of the time and late by 0.5 s."""
    rows = [
        {
            "rank": rank,
            "host": f"node{rank // 2}",
            "device": "GPU 0",
            "step": step + 10,
            "start": 2 * step * SECOND,
            "step_time": SECOND + SECOND // 2 * (rank == slow),
            "busy": 0.5 if rank == slow else 0.9,
            "late": SECOND // 2 * (rank == slow),
            "partial": False,
            "inferred": False,
        }
        for rank in range(ranks)
        for step in range(steps)
    ]
    return pl.DataFrame(rows, schema=empty_table(COLUMNS).schema).with_columns(**more)


def matrix(ranks: int, steps: int, value: str = "step_time", by: str = "rank") -> RankMatrix:
    return RankMapData(table(ranks, steps)).matrix(value, by)


def test_a_cell_for_each_rank_and_step() -> None:
    rows = table(3, 2).filter((pl.col("rank") != 2) | (pl.col("step") != 11)).sample(fraction=1, shuffle=True, seed=1)
    found = RankMapData(rows).matrix("step_time", "rank")
    assert (found.ranks.tolist(), found.steps.tolist(), found.hosts) == (
        [0, 1, 2],
        [10, 11],
        ("node0", "node0", "node1"),
    )
    assert np.array_equal(found.values / SECOND, [[1, 1], [1.5, 1.5], [1, np.nan]], equal_nan=True)
    assert found.has_gaps
    assert found.table_rows[2, 1] == -1
    assert rows.row(int(found.table_rows[1, 0]), named=True)["rank"] == 1


@pytest.mark.parametrize(("value", "worst"), [("step_time", 1.5 * SECOND), ("busy", 0.5), ("late", 0.5 * SECOND)])
def test_the_slow_rank_stands_out_in_every_value(value: str, worst: float) -> None:
    found = matrix(8, 3, value, "value")
    assert found.ranks[0] == 1
    assert found.values[0, 0] == worst
    assert found.standout_cell == (0, 0)
    levels = found.levels(found.badness)
    assert (levels[0] == LEVELS - 1).all()
    assert (levels[1:] == 0).all()


def test_a_slow_first_step_and_noise_do_not_hide_the_slow_rank() -> None:
    rows = table(64, 20).with_columns(step_time=pl.when(pl.col("step") == 10).then(60 * SECOND).otherwise("step_time"))
    found = RankMapData(rows).matrix("step_time", "rank")
    levels = found.levels(found.badness)
    assert (levels[1] == LEVELS - 1).all()
    assert (levels[2:, 1:] == 0).all()
    assert found.standout_cell is not None
    assert found.ranks[found.standout_cell[0]] == 1
    quiet = RankMapData(table(8, 5, slow=-1).with_columns(step_time=SECOND + pl.col("rank") * SECOND // 500))
    even = quiet.matrix("step_time", "rank")
    assert (even.levels(even.badness) == 0).all(), "differences of 1.4 % look like none"


def test_bins_show_their_worst_value() -> None:
    found = matrix(1024, 100)
    bins = bin_map(found, MapView(), 40, 60)
    assert bins.sizes == (32, 2)
    worst = worst_in_bins(found, bins)
    assert worst.shape == (32, 50)
    assert (worst[0] == 1.5 * SECOND).all()
    assert (worst[1:] == SECOND).all()


def test_zooming_in_leads_to_the_worst_rank_of_a_cell() -> None:
    found, room = matrix(1024, 100), (10, 60)
    view = MapView()
    for _ in range(20):
        view = zoom_map(found, view, 1, *room)
    bins = bin_map(found, view, *room)
    assert bins.sizes == (1, 1)
    assert found.ranks[view.row] == 1
    assert zoom_map(found, view, 1, *room) == view, "each rank and step has its own cell"
    for _ in range(20):
        view = zoom_map(found, view, -1, *room)
    assert bin_map(found, view, *room).sizes == (104, 2)
    assert (view.zoom, view.top, view.left) == (0, 0, 0)


def test_no_rank_is_between_two_parts_of_the_map() -> None:
    """Half of five ranks in one line: the line has four of them, or the last."""
    found = matrix(5, 1)
    for row, shown in ((3, [0, 4]), (4, [4, 5])):
        assert bin_map(found, MapView(zoom=1, top=4, row=row), 1, 1).row_edges.tolist() == shown


MOVES = st.lists(st.sampled_from(["left", "right", "up", "down", "page", "back", "in", "out", "all"]), max_size=25)


@given(st.integers(1, 90), st.integers(1, 70), st.integers(1, 30), st.integers(1, 60), MOVES)
def test_the_cursor_is_always_in_a_bin_of_the_visible_part(
    ranks: int, steps: int, lines: int, width: int, moves: list[str]
) -> None:
    values = np.arange(ranks * steps, dtype=float).reshape(ranks, steps)
    found = RankMatrix(
        "step_time",
        "rank",
        np.arange(ranks),
        ("",) * ranks,
        ("",) * ranks,
        np.arange(steps),
        values,
        values.astype(int),
        (0, 1),
        values[0],
    )
    ways = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0), "page": (lines, 0), "back": (-lines, 0)}
    view = keep_cursor_visible(found, MapView(), lines, width)
    for move in moves:
        before = view
        if move in ways:
            moved = move_cursor(found, view, bin_map(found, view, lines, width), *ways[move])
            view = keep_cursor_visible(found, moved, lines, width)
        elif move == "all":
            view = keep_cursor_visible(found, MapView(row=view.row, column=view.column), lines, width)
        else:
            view = zoom_map(found, view, 1 if move == "in" else -1, lines, width)
        bins = bin_map(found, view, lines, width)
        assert (np.diff(bins.row_edges) > 0).all()
        assert (np.diff(bins.column_edges) > 0).all()
        assert bins.row_edges[0] <= view.row < bins.row_edges[-1]
        assert bins.column_edges[0] <= view.column < bins.column_edges[-1]
        assert bins.counts[0] <= lines
        assert bins.counts[1] * bins.cell <= width
        assert worst_in_bins(found, bins).shape == bins.counts
        if move == "right" and before.column < steps - bins.sizes[1]:
            assert view.column > before.column
