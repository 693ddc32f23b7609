"""Pane with the rank map: a heat map of ranks by steps, with a cursor, zoom, and facts of the cell under the cursor.

Owns the visible part and the cursor. The screen owns the chosen settings; `draw` has the characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.ranks.rank_step_values import (
    BY_SETTING,
    VALUE_SETTING,
    VALUES,
    headline_note,
    shown_value,
)
from tracehound.analysis.result import Result
from tracehound.draw import result_details
from tracehound.draw.charts.rank_heat_map import (
    ORDER_NAMES,
    VALUE_NAMES,
    MapLine,
    MapStyle,
    describe_bins,
    describe_cell,
    draw_axis,
    draw_legend,
    label_width,
    map_line,
)
from tracehound.draw.charts.rank_matrix import (
    MapBins,
    MapView,
    RankMapData,
    RankMatrix,
    bin_map,
    keep_cursor_visible,
    move_cursor,
    worst_in_bins,
    zoom_map,
)
from tracehound.draw.event_colors import Hue
from tracehound.draw.fact_layout import FactSection
from tracehound.draw.glyphs import UNICODE, Glyphs, to_ascii
from tracehound.draw.notes import note_text
from tracehound.draw.text_wrapping import shorten_at_word, wrap_paragraphs
from tracehound.model.units import count_noun
from tracehound.ui.bindings.keys import textual_bindings
from tracehound.ui.themes import appearance_of
from tracehound.ui.widgets.cursor_list import DrawnResult
from tracehound.ui.wording import messages

TimeWindow = tuple[int, int]

LEVEL_HUES: Final[Mapping[str, Hue]] = {
    "level0": "gray", "level1": "cyan", "level2": "yellow", "level3": "orange", "level4": "red",
}  # fmt: skip
"""The color of each level; its glyph alone tells the level, too."""

HEAD_LINES: Final = 3
"""Lines above the ranks: title, headline, and axis."""

FOOT_LINES: Final = 2
"""Lines below them: legend, and the cell under the cursor."""

NAME: Final = "rank_map"


class RankMapPane(DrawnResult, can_focus=True, inherit_bindings=False):
    """A line for each rank, or for each bin of ranks, with a cell for each step or bin of steps."""

    BINDINGS = textual_bindings("map")
    BINDING_GROUP_TITLE = "Rank map"
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"rank-map-pane--{part}" for part in ("title", "focus", "dim", "headline", "cursor")
    }
    DEFAULT_CSS = """
    RankMapPane {
        height: 1fr; width: 1fr; color: $text;
        & > .rank-map-pane--title { color: $text; text-style: bold; }
        & > .rank-map-pane--focus { color: $accent; text-style: bold; }
        & > .rank-map-pane--headline { color: $text; text-style: bold; }
        & > .rank-map-pane--dim { color: $text-muted; }
        & > .rank-map-pane--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
        &:ansi > .rank-map-pane--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
        &:nocolor > .rank-map-pane--cursor { text-style: reverse; }
    }
    """

    view: reactive[MapView] = reactive(MapView(), repaint=False)
    """The visible part of the map, and the cursor."""
    given: reactive[ChosenSettings] = reactive((), repaint=False)
    """The chosen settings."""

    @dataclass
    class CellChosen(Message):
        """The user wants to see a step of a rank in the timeline; the row has rank, step, start and duration."""

        row: dict[str, Any]

    @dataclass
    class SettingsChanged(Message):
        """The user wants another value or order."""

        given: ChosenSettings

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=f"pane-{NAME}")
        self._glyphs = glyphs
        self._data: RankMapData | None = None
        self._matrix: RankMatrix | None = None
        self._headlines: dict[str, str] = {}
        self._scope_text = ""
        self._cursor_moved = False
        self._cached_levels: tuple[object, npt.NDArray[np.int8]] | None = None

    # -- what it shows

    def show(self, result: Result, window: TimeWindow | None, why_empty: str, so_far: str = "") -> None:
        """Show a result of `window`.

        `why_empty` replaces the map if there are no rows; `so_far` says how much of the trace is read.
        """
        self._result = result
        self._data = RankMapData(self._table) if result.table.height else None
        self._headlines.clear()
        self._message = why_empty if result.table.is_empty() else ""
        scope = messages.table_scope_text(window) if window is not None else ""
        self._scope_text = " ".join(filter(None, [scope, so_far]))
        self._use_settings()
        self.awaits_rows = False
        self.call_after_refresh(self._prepare_next_value)

    @property
    def _table(self) -> pl.DataFrame:
        """All rows of the result."""
        if self._result is None:
            return pl.DataFrame()
        return self._result.uncut_table

    def watch_given(self) -> None:
        """Show the chosen value in the chosen order."""
        self._use_settings()

    def _use_settings(self) -> None:
        """Show the value and the order of the settings; the cursor stays on its rank and step."""
        old = self._matrix
        self._matrix, self._cached_levels = None, None
        if self._data is not None:
            value = shown_value(self.given)
            self._matrix = matrix = self._data.matrix(value, BY_SETTING.value_in(self.given))
            self._prepare_headline(value)
            row, column = self._cursor_cell(old, matrix)
            self.view = self._visible(replace(self.view, row=row, column=column))
        self.refresh()

    def _prepare_headline(self, value: str) -> None:
        """Compute the headline of a value, once for each result."""
        if value not in self._headlines:
            self._headlines[value] = note_text(headline_note(self._table, value))

    def _prepare_next_value(self) -> None:
        """Prepare a value that was not shown yet, then the next one: so no key waits for it."""
        value = next((each for each in VALUES if each not in self._headlines), None)
        if self._data is not None and value is not None:
            self._prepare_headline(value)
            for by in BY_SETTING.choices:
                self._data.matrix(value, by)
            self.call_after_refresh(self._prepare_next_value)

    def _cursor_cell(self, old: RankMatrix | None, new: RankMatrix) -> tuple[int, int]:
        """Cell for the cursor in the new matrix: its rank and step if it was moved, else the one that stands out."""
        kept = None
        if old is not None and self._cursor_moved:
            kept = new.find_cell(int(old.ranks[self.view.row]), int(old.steps[self.view.column]))
        return kept or new.standout_cell or (0, 0)

    def clear_result(self) -> None:
        """Remove the result, since its rows no longer mean the same."""
        self._data, self._matrix = None, None
        super().clear_result()

    @property
    def has_no_rows(self) -> bool:
        """True without a step."""
        return self._matrix is None

    @property
    def full_text(self) -> list[FactSection]:
        """All notes of the result, and the step under the cursor, as sections of text."""
        if self._result is None:
            return [result_details.notes_section(("Rank map",), (self._message,))]
        head = [self._result.title, *filter(None, (self._scope_text,))]
        row = self._cursor_table_row
        shown = replace(self._result, table=self._table.clear() if row is None else self._table[row])
        return result_details.result_sections(self._result, head, shown, 0)

    @property
    def _cursor_table_row(self) -> int | None:
        """Row of the table for the worst cell under the cursor; None without one."""
        matrix = self._matrix
        if matrix is None:
            return None
        bins, view = self._bins(matrix, self.view), self.view
        rows, columns = bins.rows_of(bins.row_bin(view.row)), bins.columns_of(bins.column_bin(view.column))
        at = matrix.worst_cell(rows, columns) or (view.row, view.column)
        row = int(matrix.table_rows[at])
        return None if row < 0 else row

    # -- drawing

    @property
    def _labels(self) -> int:
        return 0 if self._matrix is None else label_width(self._matrix, self.size.width)

    @property
    def _room(self) -> tuple[int, int]:
        """Lines and characters for the cells; the first two cells of a line are for the cursor's mark and a gap."""
        return max(self.size.height - HEAD_LINES - FOOT_LINES, 1), max(self.size.width - self._labels - 2, 1)

    def _bins(self, matrix: RankMatrix, view: MapView) -> MapBins:
        return bin_map(matrix, view, *self._room)

    def _visible(self, view: MapView) -> MapView:
        return view if self._matrix is None else keep_cursor_visible(self._matrix, view, *self._room)

    def _levels(self, matrix: RankMatrix, bins: MapBins) -> npt.NDArray[np.int8]:
        """The levels of all visible cells, computed once for each visible part."""
        key = (bins.row_edges.tobytes(), bins.column_edges.tobytes())
        if self._cached_levels is None or self._cached_levels[0] != key:
            self._cached_levels = (key, matrix.levels(worst_in_bins(matrix, bins)))
        return self._cached_levels[1]

    def render_line(self, y: int) -> Strip:
        """Draw the title, the headline, the axis, a line of the map, the legend or the cell under the cursor."""
        width, matrix = self.size.width, self._matrix
        line: MapLine = []
        if matrix is None:
            lines = wrap_paragraphs(self._message, max(1, width - 2))
            line = [(f" {lines[y]}", "dim")] if y < len(lines) else []
        elif y < HEAD_LINES:
            line = self._head_line(matrix, y, width)
        elif y >= self.size.height - FOOT_LINES:
            line = self._foot_line(matrix, y - self.size.height + FOOT_LINES, width)
        else:
            line = self._rank_line(matrix, y - HEAD_LINES)
        segments = [Segment(self._text(text), self._style_of(sort)) for text, sort in line]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _text(self, text: str) -> str:
        """The text in the alphabet."""
        return to_ascii(text) if self._glyphs.name == "ascii" else text

    def _head_line(self, matrix: RankMatrix, y: int, width: int) -> MapLine:
        dot = f" {self._glyphs.dot} "
        bins = self._bins(matrix, self.view)
        if y == 0:
            (ranks, steps) = matrix.shape
            facts = [VALUE_NAMES[matrix.value], ORDER_NAMES[matrix.by], describe_bins(bins), self._scope_text]
            size = f"{count_noun(ranks, 'rank')} x {count_noun(steps, 'step')}"
            title, room = " Rank map", width - len(" Rank map") - len(dot)
            words = messages.fit_parts([*filter(None, facts), size], room, self._glyphs.dot)
            return [(title, "title"), (self._glyphs.cut(f"{dot}{words}", width - len(title)), "dim")]
        if y == 1:
            return [(self._glyphs.to_alphabet(shorten_at_word(f" {self._headlines[matrix.value]}", width)), "headline")]
        return [(" ", "plain"), *draw_axis(matrix, bins, self._labels, self.view.column, self._glyphs.focus)]

    def _foot_line(self, matrix: RankMatrix, y: int, width: int) -> MapLine:
        if y == 0:
            return draw_legend(matrix, width)
        facts = describe_cell(matrix, self.view, self._bins(matrix, self.view))
        return [
            (
                self._glyphs.cut(messages.fit_parts([f" {facts[0]}", *facts[1:]], width, self._glyphs.dot), width),
                "plain",
            )
        ]

    def _rank_line(self, matrix: RankMatrix, number: int) -> MapLine:
        bins = self._bins(matrix, self.view)
        if number >= bins.counts[0]:
            return []
        drawn = map_line(matrix, bins, self._levels(matrix, bins), number, self._labels)
        if number != bins.row_bin(self.view.row):
            return [(" ", "plain"), *drawn]
        (label, _), *cells = drawn
        at = bins.column_bin(self.view.column) * bins.cell
        marked: MapStyle = "cursor" if self.has_focus else "plain"
        return [(self._glyphs.cursor, marked), (label, marked), *_mark_cells(cells, at, at + bins.cell)]

    def _style_of(self, sort: MapStyle) -> Style:
        if sort == "plain":
            return self.rich_style
        if sort in LEVEL_HUES:
            color = appearance_of(self.app, self._glyphs).palette.hue_color(LEVEL_HUES[sort])
            return self.rich_style + (Style(color=color) if color is not None else Style.null())
        part = "focus" if sort == "title" and self.has_focus else sort
        return self.get_component_rich_style(f"rank-map-pane--{part}", partial=False)

    # -- moving

    def watch_view(self, old: MapView, new: MapView) -> None:
        """Redraw the lines of the cursor; all lines if another part is visible."""
        if self._matrix is None or (old.zoom, old.top, old.left) != (new.zoom, new.top, new.left):
            self.refresh()
            return
        bins = self._bins(self._matrix, new)
        lines = {HEAD_LINES - 1, self.size.height - 1, *(HEAD_LINES + bins.row_bin(each.row) for each in (old, new))}
        self.refresh(*(Region(0, y, self.size.width, 1) for y in lines))

    def focus_pane(self) -> None:
        """Take the focus."""
        self.focus()

    def on_focus(self) -> None:
        """Redraw with the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Redraw without the cursor."""
        self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        self.view = self._visible(self.view)
        self.refresh()

    def action_move(self, lines: int, cells: int) -> None:
        """Move the cursor by lines and cells."""
        if self._matrix is not None:
            bins = self._bins(self._matrix, self.view)
            self._go(move_cursor(self._matrix, self.view, bins, lines, cells))

    def _go(self, view: MapView) -> None:
        """Show a view that the user chose, with its cursor visible."""
        self._cursor_moved = True
        self.view = self._visible(view)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages of lines."""
        self.action_move(by * self._room[0], 0)

    def action_end(self, where: int) -> None:
        """Go to the first rank (-1), or the last (1)."""
        if self._matrix is not None:
            self._go(replace(self.view, row=0 if where < 0 else len(self._matrix.ranks) - 1))

    def action_worst(self) -> None:
        """Go to the rank and step that is worst against the median of its step."""
        cell = self._matrix.standout_cell if self._matrix is not None else None
        if cell is not None:
            self._go(replace(self.view, row=cell[0], column=cell[1]))

    def action_zoom(self, by: int) -> None:
        """Zoom in (1) or out (-1)."""
        if self._matrix is not None:
            self._go(zoom_map(self._matrix, self.view, by, *self._room))

    def action_fit(self) -> None:
        """Show all ranks and steps."""
        self.view = self._visible(replace(self.view, zoom=0))

    def action_value(self) -> None:
        """Show the next value; without chosen kernels theirs is left out."""
        values = [each for each in VALUES if each != "kernel" or dict(self.given).get("kernel")]
        now = shown_value(self.given)
        after = values[(values.index(now) + 1) % len(values)] if now in values else values[0]
        self._choose("value", after, VALUE_SETTING.default)

    def action_order(self) -> None:
        """Show the ranks in the next order."""
        orders = BY_SETTING.choices
        after = orders[(orders.index(BY_SETTING.value_in(self.given)) + 1) % len(orders)]
        self._choose("by", after, BY_SETTING.default)

    def _choose(self, name: str, chosen: str, usual: str) -> None:
        given = {**dict(self.given), name: chosen}
        if chosen == usual and not given.get("kernel"):
            del given[name]
        self.post_message(self.SettingsChanged(tuple(sorted(given.items()))))

    def action_choose(self) -> None:
        """Show the step of the rank under the cursor in the timeline."""
        number = self._cursor_table_row
        if number is not None:
            row = self._table.row(number, named=True)
            self.post_message(self.CellChosen({**row, "duration": row["step_time"]}))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked cell; a double click shows its step in the timeline."""
        matrix = self._matrix
        if matrix is None:
            return
        bins = self._bins(matrix, self.view)
        line, cell = event.y - HEAD_LINES, (event.x - self._labels - 2) // bins.cell
        if 0 <= line < bins.counts[0] and 0 <= cell < bins.counts[1]:
            row, column = int(bins.row_edges[line]), int(bins.column_edges[cell])
            self._go(replace(self.view, row=row, column=column))
            if event.chain > 1:
                self.action_choose()


def _mark_cells(line: MapLine, start: int, end: int) -> MapLine:
    """The pieces of a line, with the characters from `start` to `end` in the style of the cursor."""
    marked: MapLine = []
    at = 0
    for text, sort in line:
        low, high = (min(max(edge - at, 0), len(text)) for edge in (start, end))
        pieces: MapLine = [(text[:low], sort), (text[low:high], "cursor"), (text[high:], sort)]
        marked += [piece for piece in pieces if piece[0]]
        at += len(text)
    return marked
