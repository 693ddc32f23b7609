"""Charts have exactly the size asked for, keep spikes and carry no colors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tracehound.draw.charts import analysis_charts, primitives, stacked_bars
from tracehound.draw.glyphs import to_ascii


def test_a_bar_shows_eighths_and_a_little_is_not_nothing() -> None:
    assert primitives.draw_bar(0.5, 4) == "██  "
    assert primitives.draw_bar(0.3125, 2) == "▋ "
    assert primitives.draw_bar(1e-9, 3) == "▏  "
    assert primitives.draw_bar(0, 3) == "   "
    assert primitives.draw_bar(7, 3) == "███"
    assert primitives.draw_bar(float("nan"), 3) == "   "


def test_the_parts_of_a_stacked_bar_fill_it_exactly() -> None:
    assert primitives.draw_stacked_bar([0.5, 0.25, 0.25], "abc", 8) == "aaaabbcc"
    assert primitives.draw_stacked_bar([1 / 3] * 3, "abc", 10) == "aaabbbbccc"
    assert primitives.draw_stacked_bar([0.5, float("nan")], "ab", 4) == "aa  "
    assert primitives.draw_stacked_bar([0.9, 0.9], "ab", 10) == "aaaaaaaaab"


@pytest.mark.parametrize(("width", "height"), [(40, 8), (80, 12), (200, 30)])
def test_a_curve_has_the_size_asked_for_and_no_colors(width: int, height: int) -> None:
    x = np.arange(1000)
    lines = primitives.draw_curve(x, np.sin(x / 50), width, height)
    assert [len(line) for line in lines] == [width] * height
    assert all(line.isprintable() for line in lines)


def test_two_curves_do_not_share_a_figure() -> None:
    first = primitives.draw_curve([0, 1, 2], [0, 1, 0], 40, 8)
    primitives.draw_curve([0, 1, 2], [5, 1, 9], 60, 12)
    assert primitives.draw_curve([0, 1, 2], [0, 1, 0], 40, 8) == first


def test_ticks_are_those_of_the_caller() -> None:
    lines = primitives.draw_curve([0, 10], [0, 5], 40, 8, ticks=[(0, "0 s"), (10, "9 ms")], marks=[(5, "five")])
    assert "0 s" in lines[-1]
    assert "9 ms" in lines[-1]
    assert lines[0].startswith("five")


def test_nothing_to_draw_draws_nothing() -> None:
    assert primitives.draw_curve([], [], 40, 8) == []
    assert primitives.draw_curve([1], [float("nan")], 40, 8) == []
    assert primitives.draw_curve([1, 2], [1, 2], 4, 8) == []
    with pytest.raises(ValueError, match="2 places for 1"):
        primitives.draw_curve([1, 2], [1], 40, 8)


def test_thinning_keeps_the_ends_and_the_spike() -> None:
    x = np.arange(100_000, dtype=np.float64)
    y = np.zeros(100_000)
    y[77_777], y[5] = 9.0, -3.0
    places, values = primitives.thin_points(x, y, 50)
    assert len(places) <= 100
    assert (values.max(), values.min()) == (9.0, -3.0)
    assert places[values.argmax()] == 77_777
    assert (np.diff(places) > 0).all()


def test_few_points_are_left_alone() -> None:
    x = np.array([1.0, 2.0, 3.0])
    assert primitives.thin_points(x, x, 50)[0].tolist() == [1, 2, 3]


def test_ascii_is_as_wide_as_what_it_replaces() -> None:
    lines = primitives.draw_curve(np.arange(200), np.arange(200) % 7, 60, 10)
    for line in lines:
        assert to_ascii(line).isascii()
        assert len(to_ascii(line)) == len(line)
    assert to_ascii("12 µs – a…b · 中") == "12 us - a~b - ??"
    assert to_ascii("██▌ ▏") == "### ."


def test_a_cloud_has_its_points_before_its_lines() -> None:
    drawn = primitives.draw_points([(0, 0, "a"), (2, 2, "b"), (1, 1, "c"), (1, 1, "d")], [[(0, 0), (2, 2)]], 40, 12)
    assert len(drawn) == 12
    assert {len(row) for row in drawn} == {40}
    rows = {glyph: number for number, row in enumerate(drawn) for glyph in "abd" if glyph in row}
    assert rows["b"] < rows["d"] < rows["a"]
    assert "c" not in "".join(drawn), "of two points on one character the last is seen"
    assert "•" in "".join(drawn)


def test_a_cloud_names_its_ticks() -> None:
    drawn = primitives.draw_points(
        [(0, 0, "a"), (2, 2, "b")], [], 40, 12, ticks=[(0, "zero"), (2, "hundred")], marks=[(2, "top")]
    )
    assert "zero" in drawn[-1]
    assert any(row.startswith("top") for row in drawn)


def test_no_cloud_without_points_or_room() -> None:
    assert (
        primitives.draw_points([], [], 40, 12)
        == primitives.draw_points([(0, 0, "a")], [], 15, 12)
        == primitives.draw_points([(0, 0, "a")], [], 40, 3)
        == []
    )


@pytest.mark.parametrize(
    "glyphs",
    [
        analysis_charts.BREAKDOWN_GLYPHS.values(),
        stacked_bars.STEP_PART_GLYPHS.values(),
        [*stacked_bars.STEP_TIME_GLYPHS.values()],
        stacked_bars.DIVISION_GLYPHS,
    ],
)
def test_every_part_of_a_bar_has_a_sign_of_its_own_in_ascii_too(glyphs: Iterable[str]) -> None:
    signs = [*map(to_ascii, glyphs)]
    assert len({*signs}) == len(signs)
    assert "".join(signs).isascii()
