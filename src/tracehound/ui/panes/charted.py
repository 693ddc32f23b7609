"""A table and its chart: beside it where there is room, or instead of all rows but one.

Owns which of these it is, and that the chart follows what is shown and the row under the cursor. Knows no trace: what
a chart needs beyond the table is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from textual import events, on
from textual.app import ComposeResult
from textual.message import Message

from tracehound.analysis.result import Result
from tracehound.analysis.settings import Given
from tracehound.draw import plots, spreads
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.sentences import prose, sentences
from tracehound.draw.wrap import paragraphs
from tracehound.ui.state.sheet import Sheet
from tracehound.ui.widgets.chart_view import ChartView
from tracehound.ui.widgets.plain_box import Line
from tracehound.ui.widgets.result_table import ResultTable

Span = tuple[int, int]
Mode = Literal["table", "beside", "below", "chart"]

MANY: Final = ("ops", "kernels", "annotations", "collectives", "search", "slices")
"""Results whose rows stand for many events each: their chart shows the lengths of those of the row under the cursor."""

ALSO: Final[Mapping[str, Given]] = MappingProxyType({"launches": (("by", "launch"),)})
"""Results whose chart is made of another result of the same analysis: what is to be chosen for it."""

PLAIN: Final = ("overview", "host", "search", "query", "gaps")
"""Results that are shown without a chart until somebody asks for it."""

ROOM: Final = 124
"""Cells from which a chart stands beside the table."""

LINES: Final = 6
"""How many lines a row in sentences has below the table, at least, where there is no room beside it."""

ROWS: Final = 3
"""How many rows stay in sight above it."""

FULL: Final = 1 << 16
"""More lines than any room has."""

MEASURED: Final = 64
"""So many rows are looked at for the longest."""


class ChartedTable(Line):
    """A table, and a chart when there is one."""

    DEFAULT_CSS = "ChartedTable ResultTable { height: 1fr; width: 2fr; } ChartedTable ChartView { width: 1fr; }"

    @dataclass
    class LengthsAsked(Message):
        """The user looks at how long the events that this row counts took, in a window."""

        charted: ChartedTable
        row: Mapping[str, Any]
        window: Span | None

    @dataclass
    class Measured(Message):
        """The lengths of the events that a row counts, in ps, and the rank of each (-1: none)."""

        row: Mapping[str, Any]
        lengths: npt.NDArray[np.int64]
        ranks: npt.NDArray[np.int64]

    @dataclass
    class AlsoAsked(Message):
        """The chart needs another result of an analysis."""

        charted: ChartedTable
        analysis: str
        given: Given
        window: Span | None

    @dataclass
    class Also(Message):
        """Another result of an analysis, for the window that it was asked for."""

        result: Result
        window: Span | None

    @dataclass
    class Failed(Message):
        """What the chart needs cannot be had, and why."""

        words: str

    def __init__(self, glyphs: Glyphs = UNICODE, aside: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.table = ResultTable(glyphs, aside)
        self.chart = ChartView(glyphs)
        self.window: Span | None = None
        self.key = ""
        """What is to be pressed for all that a row says, where there is no room for it."""
        self._chosen: Mode | None = None
        self._laid: Mode = "table"
        self._also: tuple[Result, Span | None, Result] | None = None
        self._drawn: tuple[Sheet, str, int] | None = None
        self._measuring: Mapping[str, Any] | None = None

    def compose(self) -> ComposeResult:
        """The table; the chart joins when it is shown for the first time."""
        yield self.table

    @property
    def mode(self) -> Mode:
        """What is shown: what the user chose, where there is room for it, else what suits."""
        room = self.size.width >= ROOM
        if self._chosen is not None and self._chosen in self._modes:
            return self._chosen
        result = self.table.result
        plain = result is None or result.analysis in PLAIN or result.table.is_empty()
        return "table" if plain or not (room or self._sentences) else self._modes[0]

    @property
    def _sentences(self) -> bool:
        """Whether the rows hold sentences, which are read in full outside the table."""
        return self.table.result is not None and bool(prose(self.table.result))

    @property
    def _modes(self) -> tuple[Mode, ...]:
        """What there is room for, in the order in which one follows the other."""
        if self.size.width >= ROOM:
            return ("beside", "chart", "table")
        return ("below", "table") if self._sentences else ("table", "chart")

    @property
    def charted(self) -> bool:
        """Whether there is a chart."""
        return self.chart.is_attached and bool(self.chart.display)

    async def switch(self) -> None:
        """Table with a chart beside it, the chart, the table: on to the next of these that there is room for."""
        modes, mode = self._modes, self.mode
        self._chosen = modes[(modes.index(mode) + 1) % len(modes)]
        await self.lay()

    async def lay(self) -> None:
        """Share the room as the mode says."""
        mode = self.mode
        if mode != self._laid:
            self._laid = mode
            if mode != "table" and not self.chart.is_attached:
                await self.mount(self.chart, after=self.table)
            self.chart.display = mode != "table"
            self.styles.layout = "horizontal" if mode in ("table", "beside") else "vertical"
            self.table.styles.height = ResultTable.HEADER + 1 if mode == "chart" else "1fr"
            self.table.styles.width = "2fr" if mode in ("table", "beside") else "1fr"
            self.chart.styles.width = "1fr"
            self.table.call_after_refresh(self.table.reveal)
        self.chart.styles.height = self._lines_below if mode == "below" else "1fr"
        self.draw()

    @property
    def wanted(self) -> tuple[int, int]:
        """How many lines all of it fills, and with how many it can do; a chart fills any number."""
        mode, result = self.mode, self.table.result
        rows = 0 if result is None else result.table.height
        if mode == "below":
            return ResultTable.HEADER + rows + self._longest, ResultTable.HEADER + min(rows, ROWS) + LINES
        return (FULL if mode != "table" or not rows else ResultTable.HEADER + rows), 0

    @property
    def _longest(self) -> int:
        """How many lines the longest row in sentences takes."""
        result, width = self.table.result, max(1, self.size.width - 2)
        if result is None:
            return 0
        sizes = (len(sentences(result, row, (width, FULL))) for row in range(min(result.table.height, MEASURED)))
        return max(sizes, default=0)

    @property
    def _lines_below(self) -> int:
        """How many lines a row in sentences has below the table: those that are free, else up to half of all."""
        room, longest = self.size.height - ResultTable.HEADER, self._longest
        rows = 0 if self.table.result is None else self.table.result.table.height
        if room - rows > longest:
            return room - rows - 1
        return max(1, room - rows, min(longest, max(LINES, room // 2), room - min(rows, ROWS)))

    async def on_resize(self, event: events.Resize) -> None:
        """There may be room for a chart now, or none any more."""
        del event
        await self.lay()

    # -- what is drawn

    def draw(self) -> None:
        """Draw what is shown, or what the row under the cursor stands for; without rows say why there are none."""
        shown = self.table.sheet
        if not self.charted:
            return
        if shown is None or shown.seen.is_empty():
            self._drawn = None
            self.chart.draws = partial(_said, self.table.empty)
            return
        analysis, row = shown.result.analysis, self.table.row
        self._measuring = None
        if analysis in MANY and row is not None and isinstance(row.get("event"), int):
            self.chart.draws = None
            self._measuring = row
            self._ask(self.LengthsAsked(self, row, self.window))
        elif analysis in ALSO and row is not None:
            self._draw_also(shown.result)
        else:
            self._draw_rows(shown)

    def _draw_rows(self, shown: Sheet) -> None:
        """Draw the rows in their order, unless they are drawn already."""
        column = self.table.column or (self.table.order or ("",))[0]
        cursor = self.table.cursor if plots.follows(shown.result) else 0
        if self._drawn != (shown, column, cursor) or self.chart.draws is None:
            self._drawn = (shown, column, cursor)
            seen = replace(shown.result, table=shown.seen)
            self.chart.draws = (
                partial(sentences, seen, cursor, more=self.key)
                if self._sentences
                else partial(plots.plot, seen, column, cursor)
            )

    def _draw_also(self, result: Result) -> None:
        """Draw the row under the cursor by means of another result, which is asked for once."""
        if self._also is None or self._also[:2] != (result, self.window):
            self.chart.draws = None
            self._ask(self.AlsoAsked(self, result.analysis, ALSO[result.analysis], self.window))
        elif (row := self.table.row) is not None:
            self.chart.draws = partial(spreads.launches, self._also[2], row)

    def _ask(self, message: Message) -> None:
        """Tell the screen; without a sender of its own it would stop at a parent that had us drawn."""
        self.post_message(message.set_sender(self))

    @on(Measured)
    def _measured(self, message: Measured) -> None:
        message.stop()
        if message.row is self._measuring:
            apart = {int(rank) for rank in str(message.row.get("outliers") or "").split(", ") if rank.isdigit()}
            self.chart.draws = partial(spreads.spread, message.lengths, message.ranks, apart)

    @on(Also)
    def _came(self, message: Also) -> None:
        message.stop()
        result = self.table.result
        if result is not None and message.window == self.window:
            self._also = (result, message.window, message.result)
            self.draw()

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        message.stop()
        if self.chart.draws is None:
            self.chart.draws = partial(_said, message.words)


def _said(words: str, size: tuple[int, int]) -> list[str]:
    """Words in place of a chart."""
    return paragraphs(words, max(1, size[0]))[: size[1]]
