"""Overview of a trace on one page: sections that lead to their panes.

Owns the sections, the cursor and the styles. `draw.dashboard` has the contents.
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
from tracehound.draw import overview_panels, result_details
from tracehound.draw.fact_layout import FactSection
from tracehound.draw.glyphs import UNICODE, Glyphs, to_ascii
from tracehound.draw.notes import note_texts
from tracehound.draw.overview_panels import OverviewPanel, PanelArea, PanelLine, PanelStyle
from tracehound.draw.text_wrapping import shorten_at_word
from tracehound.ui.bindings.keys import textual_bindings
from tracehound.ui.themes import appearance_of
from tracehound.ui.wording import messages

TimeWindow = tuple[int, int]

OVERVIEW_ANALYSES: Final[tuple[str, ...]] = tuple(
    name
    for name in ("findings", "breakdown", "steps", "ops", "health")
    if any(analysis.name == name for analysis in ANALYSES)
)
"""Analyses with a section of the page, as far as they exist."""

_TEXT_KINDS: Final[Mapping[str, str]] = {"compute": "kernel", "communication": "collective", "copy": "copy"}
_EXPECTED_LINES: Final = 4
"""Lines of a section before its result is known."""


MIN_NOTE_WIDTH: Final = 6
"""Least width of the note beside a title."""

WIDE_TITLE: Final = 44
"""Width of a section from which its title has whole words on the window."""

WINDOW_TEXT = "in the window"
"""Text of a title while a window is selected; the header bar has its times."""


class OverviewSection:
    """One section of the page: a result, or a message why there is none."""

    def __init__(self, name: str, page: OverviewPane) -> None:
        self.name = name
        self.result: Result | None = None
        self.message = ""
        self.window: TimeWindow | None = None
        self.so_far = ""
        self._pane = page

    def show(self, result: Result, window: TimeWindow | None, why_empty: str, so_far: str = "") -> None:
        """Show a result of `window`.

        `why_empty` replaces the rows if there are none; `so_far` says how much of the trace is read.
        """
        self.result = result
        self.message = why_empty if result.table.is_empty() else ""
        self.window, self.so_far = window, so_far
        self._pane.refresh()

    def show_failure(self, message: str) -> None:
        """Show why there is no result, in one line."""
        self.result, self.message = None, message
        self._pane.refresh()

    def show_waiting(self, message: str) -> None:
        """Show that a result is being computed, unless one is shown."""
        if self.result is None:
            self.message = message
            self._pane.refresh()

    def clear_result(self) -> None:
        """Remove the result, since its rows no longer mean the same."""
        self.result = None
        self._pane.refresh()

    @property
    def wanted_lines(self) -> int:
        """Lines that it would fill."""
        return (
            overview_panels.count_wanted_lines(self.result)
            if self.result is not None and not self.message
            else _EXPECTED_LINES
        )

    @property
    def full_text(self) -> list[FactSection]:
        """All notes of the section, as sections of text."""
        if self.result is None:
            return [result_details.notes_section((self.name,), (self.message,))]
        head = (
            self.result.title,
            messages.table_scope_text(self.window),
            *filter(None, (self.so_far, self.result.shown_rows_text)),
        )
        return [result_details.notes_section(head, note_texts(self.result.notes))]

    def draw(self, width: int, height: int) -> OverviewPanel:
        """Draw it in `width` by `height` cells."""
        if self.result is None or self.message:
            return overview_panels.draw_message_panel(
                self.message, width, height, "warn" if self.result is None else "dim"
            )
        return overview_panels.draw_panel(self.result, width, height, windowed=self.window is not None)


class OverviewPane(Widget, can_focus=True, inherit_bindings=False):
    """Steps, breakdown, top ops, findings and health side by side; each title names the key of its pane."""

    BINDINGS = textual_bindings("overview")
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
        & > .overview-pane--cursor { background: $accent; color: $background; text-style: bold; }
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

    part: reactive[str] = reactive(OVERVIEW_ANALYSES[0])
    """Section under the cursor."""
    keys: reactive[Mapping[str, str]] = reactive(dict)
    """Key that shows the pane of each section."""

    @dataclass
    class SectionChosen(Message):
        """The user wants to see the pane of a section."""

        pane: str

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-overview")
        self.sections = {f"overview/{name}": OverviewSection(name, self) for name in OVERVIEW_ANALYSES}
        self._glyphs = glyphs

    # -- drawing

    @property
    def _section_areas(self) -> list[PanelArea]:
        wishes = {section.name: section.wanted_lines for section in self.sections.values()}
        return overview_panels.place_panels(wishes, self.size.width - 1, self.size.height)

    def render_line(self, y: int) -> Strip:
        """Draw one line through all sections that lie side by side."""
        segments = list[Segment]()
        at = 0
        for place in self._section_areas:
            if place.top <= y < place.top + place.height:
                pad = place.left + 1 - at
                line = self._section_line(place, y - place.top)
                strip = Strip(line).adjust_cell_length(place.width, self.rich_style)
                segments += [Segment(" " * pad, self.rich_style), *strip]
                at = place.left + 1 + place.width
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _section_line(self, place: PanelArea, y: int) -> list[Segment]:
        section = self.sections[f"overview/{place.part}"]
        said = section.draw(place.width, place.height - 1)
        if y == 0:
            return self._section_title(place, section, said.note)
        line: PanelLine = said.lines[y - 1] if y - 1 < len(said.lines) else []
        return [Segment(self._in_alphabet(text), self._style_of(sort)) for text, sort in line]

    def _in_alphabet(self, text: str) -> str:
        return to_ascii(text) if self._glyphs.name == "ascii" else text

    def _section_title(self, place: PanelArea, section: OverviewSection, note: str) -> list[Segment]:
        style = partial(self.get_component_rich_style, partial=False)
        under = self.has_focus and place.part == self.part
        title = f"{place.part[0].upper()}{place.part[1:].replace('_', ' ')}"
        title = "Top ops" if place.part == "ops" else title
        dim = style("overview-pane--dim")
        key = self.keys.get(place.part, "")
        segments = [Segment(f" {key} " if key else " ", style(f"overview-pane--{'cursor' if under else 'key'}"))]
        segments.append(Segment(f"{title} ", style(f"overview-pane--{'cursor' if under else 'title'}")))
        if section.window is not None:
            words = WINDOW_TEXT if place.width >= WIDE_TITLE else WINDOW_TEXT.rpartition(" ")[2]
            segments.append(Segment(f" {words}", style("overview-pane--scope")))
        more = [self._in_alphabet(part) for part in (*note.split(", "), section.so_far) if part]
        left = place.width - sum(segment.cell_length for segment in segments) - 2
        said = messages.fit_parts(more, left, self._glyphs.dot) if more and left > MIN_NOTE_WIDTH else ""
        said = shorten_at_word(said, left, self._glyphs.ellipsis)
        segments.append(Segment(f" {said} " if said else " ", dim))
        left = place.width - sum(segment.cell_length for segment in segments)
        return [*segments, Segment(self._glyphs.rule * max(0, left), dim)]

    def _style_of(self, sort: PanelStyle) -> Style:
        """Style of a text."""
        if sort in _TEXT_KINDS:
            return self.rich_style + appearance_of(self.app, self._glyphs).kind_style(_TEXT_KINDS[sort])
        if sort in ("plain", "strong"):
            return self.rich_style + Style(bold=sort == "strong")
        if sort == "headline":
            return self.get_component_rich_style("overview-pane--title", partial=False)
        name = {"idle": "dim", "slow": "bad"}.get(sort, sort)
        return self.get_component_rich_style(f"overview-pane--{name}", partial=False)

    # -- moving

    def focus_pane(self) -> None:
        """Take the focus."""
        self.focus()

    def on_focus(self) -> None:
        """Redraw with the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Redraw without the cursor."""
        self.refresh()

    def action_move(self, right: int, down: int) -> None:
        """Move the cursor to the section beside, below or above."""
        places = self._section_areas
        here = next((place for place in places if place.part == self.part), None)
        if here is None:
            self.part = places[0].part if places else self.part
            return
        ahead = [place for place in places if _lies_in_direction(here, place, right, down)]
        if ahead:
            nearest = min(ahead, key=lambda place: (abs(place.left - here.left), abs(place.top - here.top)))
            self.part = nearest.part

    def action_choose(self) -> None:
        """Show the pane of the section under the cursor."""
        self.post_message(self.SectionChosen(self.part))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked section; a click on the title or a double click shows its pane."""
        for place in self._section_areas:
            inside = place.left <= event.x - 1 < place.left + place.width
            if inside and place.top <= event.y < place.top + place.height:
                self.part = place.part
                if event.y == place.top or event.chain > 1:
                    self.action_choose()


def _lies_in_direction(here: PanelArea, there: PanelArea, right: int, down: int) -> bool:
    """True if `there` lies in this direction from `here`."""
    if right:
        return (there.left - here.left) * right > 0
    return there.left == here.left and (there.top - here.top) * down > 0
