"""The same collective of all ranks under each other: who came when, who waited, and the one that was waited for.

Owns which collective is shown and which rank is under the cursor. What they look like in characters is for
`draw.arrivals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import polars as pl
from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.analysis.result import Result
from tracehound.draw import in_full
from tracehound.draw.arrivals import HEAD, Line, Meeting, Sort, bar, head
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.sheet import Section
from tracehound.draw.wrap import paragraphs
from tracehound.ui.bindings.keys import bindings
from tracehound.ui.wording import words
from tracehound.ui.wording.tones import tones

Span = tuple[int, int]

_KINDS: Final[Mapping[str, str]] = {"wait": "sync", "transfer": "collective"}


class ArrivalsPane(Widget, can_focus=True, inherit_bindings=False):
    """A bar for each rank, the first to come on top: first it waits, then it transfers."""

    BINDINGS = bindings("arrivals")
    BINDING_GROUP_TITLE = "Arrivals"
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"arrivals-pane--{part}" for part in ("title", "dim", "cursor", "last")}
    DEFAULT_CSS = """
    ArrivalsPane {
        height: 1fr; width: 1fr; color: $text;
        & > .arrivals-pane--title { color: $text; text-style: bold; }
        & > .arrivals-pane--dim { color: $text-muted; }
        & > .arrivals-pane--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
        & > .arrivals-pane--last { color: $warning; text-style: bold; }
        &:ansi > .arrivals-pane--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
        &:nocolor > .arrivals-pane--cursor { text-style: reverse; }
    }
    """

    place: reactive[int] = reactive(0)
    """Which collective is shown, in the order of first arrivals."""
    cursor: reactive[int] = reactive(0)
    """Which rank is under the cursor, in the order of arrivals."""

    @dataclass
    class Chosen(Message):
        """Somebody wants to see the call of a rank in the timeline."""

        row: dict[str, Any]

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-arrivals")
        self._glyphs = glyphs
        self._result: Result | None = None
        self._told = ""
        self._scope = ""
        self._numbers: list[int] = []
        self._known: tuple[int, Meeting] | None = None

    # -- what it shows

    def show(self, result: Result, window: Span | None, why_empty: str, so_far: str = "") -> None:
        """Show a result of `window`; `why_empty` stands in place of bars, `so_far` says how much it is about."""
        here, on_last = self._here, self.meeting is None or self.cursor == len(self.meeting.rows) - 1
        self._result, self._known = result, None
        self._numbers = result.table["number"].unique(maintain_order=True).to_list()
        self._told = why_empty if result.table.is_empty() else ""
        self._scope = " ".join(filter(None, [words.scope(window) if window is not None else "", so_far]))
        kept = self._rows.filter(pl.col("event") == here) if here is not None else self._rows.clear()
        if kept.height:
            self.place = self._numbers.index(kept["number"][0])
            self._put(here, on_last=on_last)
        else:
            self.action_latest()
        self.refresh()

    def _put(self, event: int | None, *, on_last: bool) -> None:
        """Keep the cursor on a call, unless it was on the last to come: then on who is that now."""
        calls = [row["event"] for row in self.meeting.rows] if self.meeting is not None else []
        self.cursor = calls.index(event) if event in calls and not on_last else len(calls) - 1

    def fail(self, message: str) -> None:
        """Say in one line why there is no result."""
        self.forget()
        self._told = message
        self.refresh()

    def wait(self, message: str) -> None:
        """Say that a result is on its way; what is shown stays until then."""
        if self._result is None:
            self._told = message
            self.refresh()

    def forget(self) -> None:
        """Show no result, since its rows mean something else now."""
        self._result, self._known, self._numbers = None, None, []
        self.refresh()

    @property
    def _rows(self) -> pl.DataFrame:
        return pl.DataFrame() if self._result is None else self._result.table

    @property
    def rowless(self) -> bool:
        """Whether there is no call."""
        return not self._numbers

    @property
    def meeting(self) -> Meeting | None:
        """The collective that is shown."""
        if not self._numbers:
            return None
        if self._known is None or self._known[0] != self.place:
            rows = self._rows.filter(pl.col("number") == self._numbers[self.place]).rows(named=True)
            self._known = (self.place, Meeting(rows, self.place, len(self._numbers)))
        return self._known[1]

    @property
    def in_full(self) -> list[Section]:
        """All that is said of what is shown, and of the call under the cursor."""
        if self._result is None:
            return [in_full.notes(("Arrivals",), (self._told,))]
        head = [self._result.title, *filter(None, (self._scope, self._result.cut))]
        shown = replace(self._result, table=self._rows.filter(pl.col("event") == self._here))
        return in_full.in_full(self._result, head, shown, 0)

    @property
    def _here(self) -> int | None:
        """The call under the cursor."""
        return self.meeting.rows[self.cursor]["event"] if self.meeting is not None else None

    # -- drawing

    def render_line(self, y: int) -> Strip:
        """The head, then a rank on each line."""
        width, meeting = self.size.width, self.meeting
        line: Line = []
        if meeting is None:
            lines = paragraphs(self._told, max(1, width - 2))
            line = [(f" {self._glyphs.words(lines[y])}", "dim")] if y < len(lines) else []
        elif y < HEAD:
            line = head(meeting, self._glyphs, width - len(self._scope) - 1 if y == 0 else width)[y]
            line = [*line, (f" {self._glyphs.words(self._scope)}", "last")] if y == 0 and self._scope else line
        elif (number := self._top + y - HEAD) < len(meeting.rows):
            under = "cursor" if number == self.cursor and self.has_focus else "plain"
            line = bar(meeting, number, self._glyphs, width, under)  # type: ignore[arg-type]  # one of the two
        return Strip([Segment(text, self._style(sort)) for text, sort in line]).adjust_cell_length(
            width, self.rich_style
        )

    def _style(self, sort: Sort) -> Style:
        if sort in _KINDS:
            return self.rich_style + tones(self.app, self._glyphs).kind(_KINDS[sort])
        if sort == "plain":
            return self.rich_style
        return self.get_component_rich_style(f"arrivals-pane--{sort}", partial=False)

    @property
    def _page(self) -> int:
        return max(self.size.height - HEAD, 1)

    @property
    def _top(self) -> int:
        """The rank on the first line: as few are hidden above as keep the cursor in sight."""
        return max(0, self.cursor - self._page + 1)

    # -- moving

    def validate_place(self, place: int) -> int:
        """Keep to the collectives there are."""
        return max(0, min(place, len(self._numbers) - 1))

    def watch_place(self) -> None:
        """Of another collective the cursor is on the rank that came last."""
        self.cursor = len(self.meeting.rows) - 1 if self.meeting is not None else 0

    def validate_cursor(self, cursor: int) -> int:
        """Keep to the ranks there are."""
        return max(0, min(cursor, len(self.meeting.rows) - 1 if self.meeting is not None else 0))

    def focus_pane(self) -> None:
        """Take the keys."""
        self.focus()

    def on_focus(self) -> None:
        """The cursor is in sight."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor is not in sight."""
        self.refresh()

    def action_collective(self, by: int) -> None:
        """To the next collective, or the one before."""
        self.place += by

    def action_latest(self) -> None:
        """To the collective at which a rank was latest."""
        if self._rows.height:
            number = self._rows["number"].gather(self._rows["late"].arg_max() or 0)[0]
            self.place = self._numbers.index(number)
            self.watch_place()

    def action_move(self, by: int) -> None:
        """To another rank."""
        self.cursor += by

    def action_page(self, by: int) -> None:
        """A page of ranks up or down."""
        self.cursor += by * self._page

    def action_end(self, where: int) -> None:
        """To the first rank that came, or the last."""
        self.cursor = 0 if where < 0 or self.meeting is None else len(self.meeting.rows) - 1

    def action_choose(self) -> None:
        """Show the call of the rank under the cursor in the timeline."""
        if self.meeting is not None:
            self.post_message(self.Chosen(dict(self.meeting.rows[self.cursor])))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there; the second time, show the call in the timeline."""
        number = self._top + event.y - HEAD
        if self.meeting is not None and event.y >= HEAD and number < len(self.meeting.rows):
            self.cursor = number
            if event.chain > 1:
                self.action_choose()
