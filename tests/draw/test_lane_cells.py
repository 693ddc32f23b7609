"""Rows of slices as characters: exact lines, and random ones against a slow and obvious version."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracehound.draw.glyphs import ASCII, MONO, UNICODE, Glyphs
from tracehound.draw.lane_cells import (
    MIN_BAR_CELLS,
    CellForm,
    LaneCells,
    cell_bounds,
    decode_style,
    draw_lane_row,
    mark_selected_event,
    shade_range,
)
from tracehound.draw.lane_rows import LaneRow
from tracehound.model.trace import KIND_CODES, KINDS

Slice = tuple[int, int, str]


def row(*slices: Slice) -> LaneRow:
    start, end, kind = zip(*slices, strict=True) if slices else ((), (), ())
    codes = [KIND_CODES[k] for k in kind]
    ints = np.array(start, np.int64), np.array(end, np.int64)
    return LaneRow(*ints, np.array(codes, np.uint8), np.arange(len(codes), dtype=np.uint32))


def drawn(slices: Sequence[Slice], window: tuple[int, int], width: int, glyphs: Glyphs = UNICODE) -> LaneCells:
    return draw_lane_row(
        row(*slices), cell_bounds(*window, width), glyphs, lambda indices: [f"ev{i}_name" for i in indices]
    )


def text(cells: LaneCells) -> str:
    return "".join(cells.text.tolist())


def kinds(cells: LaneCells) -> list[str]:
    return [decode_style(code).kind if code else "" for code in cells.styles.tolist()]


def test_a_bar_with_its_name_and_two_too_small_for_one() -> None:
    cells = drawn([(0, 100, "kernel"), (110, 115, "copy"), (120, 140, "kernel")], (0, 200), 20)
    assert text(cells) == "▏ev0_name  ▄██      "
    assert kinds(cells) == ["kernel"] * 10 + ["", "copy", "kernel", "kernel"] + [""] * 6


def test_a_numbered_name_that_does_not_fit_is_its_number() -> None:
    for name, shown in (("ProfilerStep#7", "▏#7"), ("ProfilerStep#12345678", "▏"), ("Step#7", "▏Step#7")):
        cells = draw_lane_row(
            row((0, 80, "step")), cell_bounds(0, 200, 20), UNICODE, lambda found, name=name: [name] * len(found)
        )
        assert text(cells).rstrip() == shown


def test_the_same_in_letters() -> None:
    cells = drawn(
        [(0, 100, "kernel"), (110, 114, "copy"), (120, 140, "kernel"), (150, 151, "sync")], (0, 200), 20, ASCII
    )
    assert text(cells) == "|ev0_name  yKK .    "


def test_a_bar_too_short_for_a_name_shows_its_letter_where_there_is_no_color() -> None:
    assert text(drawn([(20, 60, "collective")], (0, 100), 10, MONO)) == "  ▏CCC    "
    assert text(drawn([(20, 60, "collective")], (0, 100), 10)) == "  ▏       "


def test_a_slice_that_began_earlier_says_so() -> None:
    assert text(drawn([(0, 100, "kernel")], (50, 150), 20)) == "‹ev0_name           "


def test_a_name_that_does_not_fit_loses_its_namespace_first() -> None:
    cells = draw_lane_row(row((0, 80, "op")), cell_bounds(0, 100, 10), UNICODE, lambda _: ["aten::layer_norm"])
    assert text(cells) == "▏layer_n  "


def test_wide_characters_keep_the_columns() -> None:
    cells = draw_lane_row(row((0, 80, "op")), cell_bounds(0, 100, 10), UNICODE, lambda _: ["训练步骤"])
    assert len(cells.text) == 10
    assert text(cells) == "▏训练步   "


def test_an_instant_is_visible_however_far_away() -> None:
    cells = drawn([(500_000, 500_001, "sync")], (0, 10**12), 10)
    assert text(cells) == "▁" + " " * 9


def test_a_short_slice_beside_a_bar_keeps_its_cell() -> None:
    cells = drawn([(0, 97, "kernel"), (98, 99, "copy")], (0, 200), 20)
    assert text(cells) == "▏ev0_name▁          "
    assert kinds(cells)[9] == "copy"


def test_the_selected_bar_and_the_selected_speck() -> None:
    slices = row((0, 100, "kernel"), (120, 125, "copy"))
    bounds = cell_bounds(0, 200, 20)
    cells = draw_lane_row(slices, bounds, ASCII, lambda indices: [f"ev{i}" for i in indices])
    assert text(mark_selected_event(cells, slices, 0, bounds, ASCII)) == "[ev0     ]  y       "
    assert text(mark_selected_event(cells, slices, 1, bounds, ASCII)) == "|ev0        @       "
    chosen = mark_selected_event(cells, slices, 1, bounds, ASCII)
    assert [i for i, code in enumerate(chosen.styles.tolist()) if decode_style(code).form is CellForm.CHOSEN] == [12]
    assert mark_selected_event(cells, slices, 1, cell_bounds(0, 100, 20), ASCII) is cells


def test_shading_leaves_bars_alone() -> None:
    cells = shade_range(drawn([(0, 100, "kernel"), (120, 125, "copy")], (0, 200), 20), 8, 14)
    assert [i for i, code in enumerate(cells.styles.tolist()) if decode_style(code).shaded] == [10, 11, 12, 13]


def test_runs_join_cells_of_equal_looks() -> None:
    cells = drawn([(0, 50, "kernel"), (50, 100, "kernel")], (0, 100), 10)
    assert [run for run, _ in cells.runs()] == ["▏    ", "▏    "]
    assert [run for run, _ in drawn([], (0, 100), 10).runs()] == [" " * 10]


@st.composite
def lanes(draw: st.DrawFn) -> list[Slice]:
    at, slices = 0, []
    for gap, length, kind in draw(
        st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90), st.sampled_from(KINDS[:5])), max_size=40)
    ):
        slices.append((at + gap, at + gap + length, kind))
        at += gap + length
    return slices


@given(lanes(), st.integers(-100, 800), st.integers(60, 3000), st.integers(4, 60))
def test_cells_against_a_slow_version(slices: list[Slice], start: int, length: int, width: int) -> None:
    bounds = cell_bounds(start, start + length, width).tolist()
    cells = drawn(slices, (start, start + length), width)
    bars = {bar.event_index: bar for bar in cells.bars}
    assert set(bars) == {
        i for i, s in enumerate(slices) if nearest(bounds, s[1]) - nearest(bounds, s[0]) >= MIN_BAR_CELLS
    }
    owned = {cell for bar in cells.bars for cell in range(bar.first, bar.last)}
    for cell in set(range(width)) - owned:
        low, high = bounds[cell], bounds[cell + 1]
        inside = dict.fromkeys(KINDS, 0)
        for index, (s, e, kind) in enumerate(slices):
            if index not in bars:
                inside[kind] += max(0, min(e, high) - max(s, low))
        level = math.ceil(8 * sum(inside.values()) / (high - low))
        assert cells.text[cell] == " ▁▂▃▄▅▆▇█"[level]
        if level:
            assert decode_style(int(cells.styles[cell])).kind == max(KINDS, key=inside.__getitem__)


@given(lanes(), st.integers(-100, 800), st.integers(60, 3000), st.integers(4, 60))
def test_nothing_is_invisible(slices: list[Slice], start: int, length: int, width: int) -> None:
    bounds = cell_bounds(start, start + length, width).tolist()
    cells = drawn(slices, (start, start + length), width)
    bars = {bar.event_index for bar in cells.bars}
    for index, (s, e, _) in enumerate(slices):
        if index in bars or e <= start or s >= start + length:
            continue
        touched = [c for c in range(width) if s < bounds[c + 1] and e > bounds[c]]
        assert all(decode_style(int(cells.styles[cell])).form is CellForm.FILL for cell in touched)


def nearest(bounds: list[int], time: int) -> int:
    """The nearest bound; of two as near, the later."""
    return min(range(len(bounds)), key=lambda i: (abs(bounds[i] - time), -i))
