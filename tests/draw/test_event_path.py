"""A path in the lanes: which slices are on it, and how a line looks that it goes through."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.draw.glyphs import ASCII, MONO, UNICODE
from tracehound.draw.lane_cells import (
    CellForm,
    CriticalPathIntervals,
    cell_bounds,
    decode_style,
    draw_lane_row,
    mark_event_path,
)
from tracehound.draw.lane_rows import LaneRow, build_lane_rows
from tracehound.model.trace import KIND


def frame(*slices: tuple[int, int, int]) -> pl.DataFrame:
    """Slices of a lane: start, end, depth."""
    names = pl.Series("name", [f"slice {number}" for number in range(len(slices))], dtype=pl.Categorical)
    return pl.DataFrame(
        {
            "start": [start for start, _, _ in slices],
            "end": [end for _, end, _ in slices],
            "depth": pl.Series([depth for *_, depth in slices], dtype=pl.Int16),
            "kind": pl.Series(["op"] * len(slices), dtype=KIND),
            "name": names,
        }
    )


def path(*stretches: tuple[int, int, int]) -> CriticalPathIntervals:
    """Stretches: event, start, end."""
    return CriticalPathIntervals(*(np.array(column, np.int64) for column in zip(*stretches, strict=True)))


def row(*bounds: tuple[int, int]) -> LaneRow:
    return build_lane_rows(frame(*((start, end, 0) for start, end in bounds))).rows[0]


def test_a_stretch_belongs_to_the_row_of_its_event_and_is_cut_to_it() -> None:
    slices = build_lane_rows(frame((0, 100, 0), (10, 40, 1), (50, 90, 1)), 7)
    lane = 3 << 32
    found = path((lane + 8, 5, 30), (lane + 9, 60, 200), (lane + 7, 40, 50), ((4 << 32) + 8, 10, 20))
    inner = found.intervals_on_row(lane, slices.rows[1], slices.first)
    assert [bounds.tolist() for bounds in inner] == [[10, 60], [30, 90]]
    outer = found.intervals_on_row(lane, slices.rows[0], slices.first)
    assert [bounds.tolist() for bounds in outer] == [[40], [50]]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=8),
)
def test_stretches_are_those_of_a_slow_search(lengths: list[int], chosen: list[tuple[int, int, int]]) -> None:
    ends = np.cumsum(lengths).tolist()
    bounds = list(zip([0, *ends[:-1]], ends, strict=True))
    found = path(*((event, start, start + size) for event, start, size in chosen)).intervals_on_row(0, row(*bounds), 0)
    slow = [
        (max(start, bounds[event][0]), min(start + size, bounds[event][1]))
        for event, start, size in chosen
        if event < len(bounds) and max(start, bounds[event][0]) < min(start + size, bounds[event][1])
    ]
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == slow


@pytest.mark.parametrize("glyphs", [UNICODE, MONO, ASCII])
def test_what_is_not_on_the_path_steps_back(glyphs) -> None:
    slices = row((0, 40), (40, 80))
    bounds = cell_bounds(0, 100, 20)
    cells = draw_lane_row(slices, bounds, glyphs, lambda indices: ["" for _ in indices])
    on = mark_event_path(cells, (np.array([40]), np.array([80])), bounds, glyphs)
    faded = [decode_style(code).faded for code in on.styles.tolist()]
    assert faded == [*[True] * 8, *[False] * 12], "where nothing is, nothing steps back"
    assert on.text[8] == glyphs.path
    assert list(on.text[:8]) == list(cells.text[:8])


def test_a_part_of_a_bar_stays_and_the_rest_of_it_steps_back() -> None:
    bounds = cell_bounds(0, 100, 20)
    cells = draw_lane_row(row((0, 100)), bounds, UNICODE, lambda indices: ["name" for _ in indices])
    on = mark_event_path(cells, (np.array([50]), np.array([60])), bounds, UNICODE)
    assert [decode_style(code).faded for code in on.styles.tolist()] == [*[True] * 10, False, False, *[True] * 8]
    assert "name" in "".join(on.text)


def test_the_shortest_slice_of_a_path_shows() -> None:
    bounds = cell_bounds(0, 1000, 10)
    cells = draw_lane_row(row((501, 502)), bounds, UNICODE, lambda indices: ["" for _ in indices])
    on = mark_event_path(cells, (np.array([501]), np.array([502])), bounds, UNICODE)
    assert on.text[5] == UNICODE.path
    assert decode_style(int(on.styles[5])) == (CellForm.FILL, "op", 0, False, False)


def test_a_path_out_of_sight_marks_nothing() -> None:
    bounds = cell_bounds(0, 100, 10)
    cells = draw_lane_row(row((0, 50)), bounds, UNICODE, lambda indices: ["" for _ in indices])
    on = mark_event_path(cells, (np.array([500]), np.array([600])), bounds, UNICODE)
    assert list(on.text) == list(cells.text)
    assert [decode_style(code).faded for code in on.styles.tolist()] == [*[True] * 5, *[False] * 5]
