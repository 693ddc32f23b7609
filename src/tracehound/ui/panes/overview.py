"""The overview: what a trace is about on one page, and the way from each part of it to its pane.

Owns the parts, which of them is under the cursor, and their looks. What they say is for `draw.dashboard`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.analysis import ANALYSES
from tracehound.analysis.result import Result
from tracehound.draw import dashboard, in_full
from tracehound.draw.dashboard import Line, Place, Said, Sort
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.notes import note_texts
from tracehound.draw.plain import in_ascii
from tracehound.draw.sheet import Section
from tracehound.ui.bindings.keys import bindings
from tracehound.ui.wording import words
from tracehound.ui.wording.tones import tones

Span = tuple[int, int]

PARTS: Final[tuple[str, ...]] = tuple(
    name
    for name in ("findings", "breakdown", "steps", "ops", "health")
    if any(analysis.name == name for analysis in ANALYSES)
)
"""The analyses that have a part of the page: those of these that there are."""

_KINDS: Final[Mapping[str, str]] = {"compute": "kernel", "communication": "collective", "copy": "copy"}
_EXPECTED: Final = 4
"""Lines that a part has until it is known what it says."""


NARROWED = "in the window"
"""What a title says of the selected window; which it is stands in the header."""


class Slot:
    """What one part of the page shows: a result, or why there is none."""

    def __init__(self, name: str, page: OverviewPane) -> None:
        self.name = name
        self.result: Result | None = None
        self.said = ""
        self.window: Span | None = None
        self.so_far = ""
        self._page = page

    def show(self, result: Result, window: Span | None, why_empty: str, so_far: str = "") -> None:
        """Show a result of `window`; `why_empty` stands in place of rows, `so_far` says how much it is about."""
        self.result = result
        self.said = why_empty if result.table.is_empty() else ""
        self.window, self.so_far = window, so_far
        self._page.refresh()

    def fail(self, message: str) -> None:
        """Say in one line why there is no result."""
        self.result, self.said = None, message
        self._page.refresh()

    def wait(self, message: str) -> None:
        """Say that a result is on its way; what is shown stays until then."""
        if self.result is None:
            self.said = message
            self._page.refresh()

    def forget(self) -> None:
        """Show no result, since its rows mean something else now."""
        self.result = None
        self._page.refresh()

    @property
    def wish(self) -> int:
        """The lines that it would fill."""
        return dashboard.wanted(self.result) if self.result is not None and not self.said else _EXPECTED

    @property
    def in_full(self) -> list[Section]:
        """All that is said of the part."""
        if self.result is None:
            return [in_full.notes((self.name,), (self.said,))]
        head = (self.result.title, words.scope(self.window), *filter(None, (self.so_far, self.result.cut)))
        return [in_full.notes(head, note_texts(self.result.notes))]

    def drawn(self, width: int, height: int) -> Said:
        """What it says, in so many cells."""
        if self.result is None or self.said:
            return dashboard.told(self.said, width, height, "warn" if self.result is None else "dim")
        return dashboard.drawn(self.result, width, height)


class OverviewPane(Widget, can_focus=True, inherit_bindings=False):
    """Steps, breakdown, top ops, findings and health beside each other; each title names the key of its pane."""

    BINDINGS = bindings("overview")
    BINDING_GROUP_TITLE = "Overview"
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"overview-pane--{part}" for part in ("title", "key", "cursor", "dim", "bad", "warn", "scope", "bar")
    }
    DEFAULT_CSS = """
    OverviewPane {
        height: 1fr; width: 1fr; color: $text;
        & > .overview-pane--title { color: $text; text-style: bold; }
        & > .overview-pane--key { color: $primary; text-style: bold; }
        & > .overview-pane--cursor { background: $primary; color: $background; text-style: bold; }
        & > .overview-pane--dim { color: $text-muted; }
        & > .overview-pane--bad { color: $error; text-style: bold; }
        & > .overview-pane--warn { color: $warning; }
        & > .overview-pane--scope { color: $accent; text-style: bold; }
        & > .overview-pane--bar { color: $primary; }
        &:ansi > .overview-pane--cursor { background: ansi_default; color: ansi_default; text-style: bold reverse; }
        &:nocolor > .overview-pane--cursor { text-style: bold reverse; }
        &:nocolor > .overview-pane--bad { text-style: bold underline; }
        &:nocolor > .overview-pane--warn { text-style: bold; }
    }
    """

    part: reactive[str] = reactive(PARTS[0])
    """The part under the cursor."""
    keys: reactive[Mapping[str, str]] = reactive(dict)
    """What is to be pressed for the pane of each part."""

    @dataclass
    class Chosen(Message):
        """Somebody wants all of a part."""

        pane: str

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-overview")
        self.slots = {f"overview/{name}": Slot(name, self) for name in PARTS}
        self._glyphs = glyphs

    # -- drawing

    @property
    def _places(self) -> list[Place]:
        wishes = {slot.name: slot.wish for slot in self.slots.values()}
        return dashboard.placed(wishes, self.size.width - 1, self.size.height)

    def render_line(self, y: int) -> Strip:
        """The lines of the parts that stand beside each other here."""
        segments = list[Segment]()
        at = 0
        for place in self._places:
            if place.top <= y < place.top + place.height:
                pad = place.left + 1 - at
                line = self._line(place, y - place.top)
                strip = Strip(line).adjust_cell_length(place.width, self.rich_style)
                segments += [Segment(" " * pad, self.rich_style), *strip]
                at = place.left + 1 + place.width
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _line(self, place: Place, y: int) -> list[Segment]:
        slot = self.slots[f"overview/{place.part}"]
        said = slot.drawn(place.width, place.height - 1)
        if y == 0:
            return self._title(place, slot, said.note)
        line: Line = said.lines[y - 1] if y - 1 < len(said.lines) else []
        return [Segment(self._words(text), self._style(sort)) for text, sort in line]

    def _words(self, text: str) -> str:
        return in_ascii(text) if self._glyphs.name == "ascii" else text

    def _title(self, place: Place, slot: Slot, note: str) -> list[Segment]:
        style = partial(self.get_component_rich_style, partial=False)
        under = self.has_focus and place.part == self.part
        title = f"{place.part[0].upper()}{place.part[1:].replace('_', ' ')}"
        title = "Top ops" if place.part == "ops" else title
        dim = style("overview-pane--dim")
        key = self.keys.get(place.part, "")
        segments = [Segment(f" {key} " if key else " ", style(f"overview-pane--{'cursor' if under else 'key'}"))]
        segments.append(Segment(f"{title} ", style(f"overview-pane--{'cursor' if under else 'title'}")))
        if slot.window is not None:
            segments.append(Segment(f" {NARROWED}", style("overview-pane--scope")))
        more = [self._words(text) for text in (note, slot.so_far) if text]
        left = place.width - sum(segment.cell_length for segment in segments) - 2
        said = self._glyphs.cut(f" {self._glyphs.dot} ".join(more), left) if more and left > 6 else ""
        segments.append(Segment(f" {said} " if said else " ", dim))
        left = place.width - sum(segment.cell_length for segment in segments)
        return [*segments, Segment(self._glyphs.rule * max(0, left), dim)]

    def _style(self, sort: Sort) -> Style:
        """The style of a piece of a line."""
        if sort in _KINDS:
            return self.rich_style + tones(self.app, self._glyphs).kind(_KINDS[sort])
        if sort in ("plain", "strong"):
            return self.rich_style + Style(bold=sort == "strong")
        name = {"idle": "dim", "slow": "bad"}.get(sort, sort)
        return self.get_component_rich_style(f"overview-pane--{name}", partial=False)

    # -- moving

    def focus_pane(self) -> None:
        """Take the keys."""
        self.focus()

    def on_focus(self) -> None:
        """The cursor is in sight."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor is not in sight."""
        self.refresh()

    def action_move(self, right: int, down: int) -> None:
        """To the part beside, below or above."""
        places = self._places
        here = next((place for place in places if place.part == self.part), None)
        if here is None:
            self.part = places[0].part if places else self.part
            return
        ahead = [place for place in places if _ahead(here, place, right, down)]
        if ahead:
            nearest = min(ahead, key=lambda place: (abs(place.left - here.left), abs(place.top - here.top)))
            self.part = nearest.part

    def action_choose(self) -> None:
        """Show all of the part under the cursor."""
        self.post_message(self.Chosen(self.part))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there; on the title, or the second time, show all of it."""
        for place in self._places:
            inside = place.left <= event.x - 1 < place.left + place.width
            if inside and place.top <= event.y < place.top + place.height:
                self.part = place.part
                if event.y == place.top or event.chain > 1:
                    self.action_choose()


def _ahead(here: Place, there: Place, right: int, down: int) -> bool:
    """Whether a place lies in a direction from another."""
    if right:
        return (there.left - here.left) * right > 0
    return there.left == here.left and (there.top - here.top) * down > 0
