"""How a counter's samples look."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tracehound.draw.counter_graph import CounterSeries, draw_graph_line
from tracehound.draw.glyphs import ASCII, UNICODE, Glyphs
from tracehound.draw.lane_cells import CellForm, cell_bounds, decode_style, shade_range


def graph(*samples: tuple[int, float], unit: str = "") -> CounterSeries:
    return CounterSeries(
        np.array([t for t, _ in samples], np.int64), np.array([v for _, v in samples], np.float64), unit
    )


def drawn(of: CounterSeries, start: int, end: int, width: int, rows: int = 1, glyphs: Glyphs = UNICODE) -> list[str]:
    return ["".join(draw_graph_line(of, cell_bounds(start, end, width), glyphs, row, rows).text) for row in range(rows)]


def test_a_value_holds_until_the_next_sample() -> None:
    assert drawn(graph((2, 8), (4, 1), (6, 0), (8, 4)), 0, 10, 10) == ["  ██▁▁__▄▄"]


def test_without_color_or_blocks_it_is_a_ramp() -> None:
    assert drawn(graph((0, 0), (1, 1), (2, 2), (3, 4), (4, 8)), 0, 5, 5, glyphs=ASCII) == ["_.:=@"]


def test_a_cell_shows_the_most_that_is_in_it_and_says_where_it_was_less() -> None:
    cells = draw_graph_line(graph((0, 1), (12, 8), (13, 1), (20, 4)), cell_bounds(0, 30, 3), UNICODE, 0, 1)
    assert "".join(cells.text) == "▁█▄"
    assert [decode_style(code)[:3] for code in cells.styles.tolist()] == [
        (CellForm.GRAPH, "kernel", 0), (CellForm.GRAPH, "kernel", 1), (CellForm.GRAPH, "kernel", 0),
    ]  # fmt: skip


def test_a_peak_shorter_than_anything_shows() -> None:
    assert drawn(graph((0, 0), (500, 9), (500, 0)), 0, 1000, 4) == ["__█_"]


def test_a_large_graph_stands_on_its_lines() -> None:
    assert drawn(graph((0, 0), (1, 1), (2, 8), (3, 16)), 0, 4, 4, rows=2) == ["   █", "_▁██"]


def test_the_scale_has_all_of_the_run_and_zero() -> None:
    of = graph((0, 4), (10, 8), (20, -8))
    assert of.scale == (-8.0, 8.0)
    assert drawn(of, 0, 10, 2) == ["▆▆"]
    assert drawn(of, 20, 30, 2) == ["__"]
    assert graph((0, 5), (1, 7)).scale == (0.0, 7.0)
    assert drawn(graph((0, 0.0)), 0, 2, 2) == ["__"]


def test_numbers_as_huge_as_they_get() -> None:
    assert drawn(graph((0, -1.7e308), (1, 0), (2, 1.7e308)), 0, 3, 3) == ["_▄█"]


def test_a_value_ends_with_its_recording() -> None:
    """Beside a longer one it is not known what came after."""
    short = replace(graph((2, 8), (4, 1)), until=6)
    assert drawn(short, 0, 10, 10) == ["  ██▁▁▁   "]
    assert (short.value_at(6), short.value_at(7), short.range_between(7, 9)) == (1.0, None, None)


def test_nothing_is_drawn_before_the_first_sample_and_of_none() -> None:
    assert drawn(graph((100, 1)), 0, 50, 3) == ["   "]
    assert drawn(graph(), 0, 50, 3) == ["   "]
    assert graph().value_at(5) is None
    assert graph((10, 1)).range_between(0, 10) is None


def test_values_and_changes() -> None:
    of = graph((10, 1), (20, 1), (30, 2), (30, 3), unit="bytes")
    assert [of.value_at(time) for time in (9, 10, 29, 30, 99)] == [None, 1.0, 1.0, 3.0, 3.0]
    assert of.range_between(25, 31) == (1.0, 3.0)
    assert of.range_between(40, 50) == (3.0, 3.0)
    assert [of.next_change(time, 1) for time in (0, 10, 30)] == [10, 30, None]
    assert [of.next_change(time, -1) for time in (99, 30, 10)] == [30, 10, None]


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("bytes", 1536.0, "1.50 KiB"),
        ("", 0.5, "0.5"),
        ("GB/s", 12.5, "12.5 GB/s"),
        ("%", 42.7, "42.7 %"),
        ("%", 39.0925, "39.1 %"),
        ("", 1e300, "1e+300"),
    ],
)
def test_words(unit: str, value: float, expected: str) -> None:
    assert graph(unit=unit).format_value(value) == expected


def test_a_selected_range_lies_under_it() -> None:
    cells = shade_range(draw_graph_line(graph((0, 1)), cell_bounds(0, 4, 4), UNICODE, 0, 1), 1, 3)
    assert [decode_style(code).shaded for code in cells.styles.tolist()] == [False, True, True, False]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(-5, 9)), max_size=30),
    st.integers(0, 50),
    st.integers(1, 40),
    st.integers(1, 12),
)
def test_extremes_are_those_of_a_slow_walk(found: list[tuple[int, float]], start: int, length: int, width: int) -> None:
    samples = sorted(found, key=lambda sample: sample[0])
    bounds = cell_bounds(start, start + length, width)
    low, high = graph(*samples).extremes_per_cell(bounds)
    for cell in range(width):
        begin, end = int(bounds[cell]), int(bounds[cell + 1])
        inside = [value for time, value in samples if begin <= time < end]
        held = [value for time, value in samples if time <= begin]
        values = [*held[-1:], *inside] if end > begin else []
        if end > begin:
            assert (np.isnan(low[cell]), np.isnan(high[cell])) == (not values, not values)
            if values:
                assert (low[cell], high[cell]) == (min(values), max(values))
