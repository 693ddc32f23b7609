"""The ruler: ticks, the selected range, the steps."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.draw.glyphs import ASCII, UNICODE
from tracehound.draw.lane_cells import LaneCells, cell_bounds, draw_lane_row
from tracehound.draw.ruler import (
    MIN_TICK_SPACING,
    build_steps_row,
    cells_of_range,
    choose_ticks,
    draw_ruler,
    step_names,
)
from tracehound.model.trace import STEPS
from tracehound.model.units import PS_PER_UNIT

US, MS, S = PS_PER_UNIT["us"], PS_PER_UNIT["ms"], PS_PER_UNIT["s"]


def text(cells: LaneCells) -> str:
    return "".join(cells.text.tolist())


def test_round_times() -> None:
    assert text(draw_ruler(cell_bounds(0, 100 * MS, 50), None, None, ASCII)) == "|0 ms" + " " * 20 + "|50 ms" + " " * 19


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (0, 100 * MS, ["0 ms", "50 ms"]),
        (0, 900, ["0.0 ns", "0.5 ns"]),
        (0, 4 * US, ["0 us", "2 us"]),
        (100 * US, 104 * US, ["100 us", "102 us"]),
        (363 * S, 363 * S + 4 * US, ["363,000.000 ms", "363,000.002 ms"]),
        (0, 363 * S, ["0 s", "200 s"]),
        (-10 * MS, 30 * MS, ["0 ms", "20 ms"]),
    ],
)
def test_units_suit_the_scale(start: int, end: int, words: list[str]) -> None:
    marks = choose_ticks(start, end, 40)
    assert [marks.tick_time_text(time) for time in marks.between(start, end)] == words


@given(st.integers(0, 10**16), st.integers(1000, 10**16), st.integers(20, 300))
def test_ticks_have_room_and_say_the_exact_time(start: int, length: int, width: int) -> None:
    marks = choose_ticks(start, start + length, width)
    assert marks.every * width >= MIN_TICK_SPACING * length
    for time in list(marks.between(start, start + length))[:5]:
        number, unit = marks.tick_time_text(time).split()
        whole, _, decimals = number.replace(",", "").partition(".")
        assert int(whole + decimals) * PS_PER_UNIT[unit] == time * 10 ** len(decimals)


def test_a_range_with_its_length_inside() -> None:
    line = draw_ruler(cell_bounds(0, 100 * MS, 50), None, (20 * MS, 60 * MS), ASCII)
    assert text(line) == "|0 ms     [---- 40.00 ms ----]                    "


def test_a_range_too_narrow_for_its_length() -> None:
    line = draw_ruler(cell_bounds(0, 100 * MS, 50), None, (20 * MS, 26 * MS), ASCII)
    assert text(line)[:25] == "|0 ms     [-] 6.000 ms   "


def test_the_focus_stands_beside_the_length_of_a_range() -> None:
    line = draw_ruler(cell_bounds(0, 100 * MS, 50), 40 * MS, (20 * MS, 60 * MS), ASCII)
    assert text(line)[10:40] == "[---------v--------] 40.00 ms "
    line = draw_ruler(cell_bounds(0, 100 * MS, 50), 40 * MS, (10 * MS, 90 * MS), ASCII)
    assert text(line)[5:45] == "[--------------v 80.00 ms -------------]"
    line = draw_ruler(cell_bounds(0, 100 * MS, 50), 48 * MS, (10 * MS, 70 * MS), ASCII)
    assert text(line)[5:35] == "[-------- 60.00 ms v---------]"


def test_the_focus_hides_no_half_of_a_time() -> None:
    line = draw_ruler(cell_bounds(0, 100 * MS, 50), 4 * MS, None, ASCII)
    assert text(line)[:10] == "| v       "


def test_cells_of_a_range() -> None:
    bounds = cell_bounds(0, 100, 10)
    assert cells_of_range(bounds, 20, 40) == (2, 4)
    assert cells_of_range(bounds, 25, 26) == (2, 3)
    assert cells_of_range(bounds, -50, 10) == (0, 1)
    assert cells_of_range(bounds, 100, 120) is None
    assert cells_of_range(bounds, -5, -1) is None


def steps(rows: list[tuple[int, str, int, int, bool]]) -> pl.DataFrame:
    columns = ("step", "name", "start", "end", "inferred")
    full = [dict.fromkeys(STEPS) | dict(zip(columns, row, strict=True)) for row in rows]
    return pl.DataFrame(full, schema=STEPS)


def test_the_band_of_steps() -> None:
    frame = steps([(4, "ProfilerStep#4", 100, 200, False), (3, "ProfilerStep#3", 0, 100, False)])
    band = draw_lane_row(build_steps_row(frame), cell_bounds(0, 200, 40), UNICODE, step_names(frame, UNICODE))
    assert text(band) == "▏ProfilerStep#3     ▏ProfilerStep#4     "


def test_an_inferred_step_says_so() -> None:
    frame = steps([(3, "jit_train", 0, 100, True), (4, "train", 100, 200, False)])
    assert step_names(frame, UNICODE)([0, 1]) == ["≈step 3", "step 4"]
    assert step_names(frame, ASCII)([0]) == ["~step 3"]


def test_steps_that_overlap_are_cut_at_the_next() -> None:
    frame = steps([(3, "s", 0, 150, False), (4, "s", 100, 200, False), (4, "s", 100, 210, False)])
    row = build_steps_row(frame)
    assert (row.start.tolist(), row.end.tolist()) == ([0, 100], [100, 200])
