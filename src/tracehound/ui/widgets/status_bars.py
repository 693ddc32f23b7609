"""Header bar, tab bar and key bar of a screen.

Each is one line, redrawn only when its text changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.text_wrapping import shorten_at_word
from tracehound.ui.bindings.keys import (
    KEYS,
    NEED_EVENT,
    NEED_GROUPING,
    NEED_MATCHED_OPS,
    NEED_ROWS,
    Group,
    Key,
    footer_keys,
)
from tracehound.ui.wording import messages

MESSAGE_SECONDS = 4.0
"""Seconds for which a message replaces the keys."""

MIN_EVENT_WIDTH = 24
"""Least width of the selected event in the header; text on the window yields to it."""

MIN_TITLE_WIDTH = 12
"""Least width of the trace's name in the header."""

TALL_SCREEN = 36
"""Lines of a screen from which the top finding has a line of its own in the header."""


def header_lines(screen_lines: int) -> int:
    """Lines of the header on a screen of so many lines."""
    return 2 if screen_lines >= TALL_SCREEN else 1


class HeaderBar(Widget):
    """Name of the trace, top finding, selected window and event, position in a walk, and progress of the reading."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"header-bar--{part}" for part in ("name", "window", "finding", "cost", "news")
    }
    DEFAULT_CSS = """
    HeaderBar {
        height: 1; background: $panel; color: $text-muted;
        & > .header-bar--name { color: $primary; text-style: bold; }
        & > .header-bar--window { color: $accent; text-style: bold; }
        & > .header-bar--finding { color: $text; }
        & > .header-bar--cost { color: $text; text-style: bold; }
        & > .header-bar--news { color: $text; }
        &:nocolor > .header-bar--window { text-style: bold underline; }
    }
    """

    title: reactive[str] = reactive("")
    """Name of the trace."""
    facts: reactive[tuple[str, ...]] = reactive(())
    """Facts of the trace, the most important first."""
    alerts: reactive[tuple[str, ...]] = reactive(())
    """Those of the facts that the top finding never replaces."""
    window: reactive[str] = reactive("")
    """Selected window, in words; empty without one."""
    finding: reactive[tuple[str, ...]] = reactive(())
    """What costs most in the run: its cost at length and in short, and its title, or a text alone; empty if that is
    not known."""
    event: reactive[tuple[str, ...]] = reactive(())
    """Selected event: its name and facts; empty without one."""
    place: reactive[str] = reactive("")
    """Position in a walk."""
    news: reactive[str] = reactive("")
    """Progress of the reading; it replaces the position."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """Draw name and window always, then as much of the rest as fits; progress is at the right.

        The top finding is on the second line if there is one, else in the place of the facts of the trace.
        """
        if y:
            return self._finding_line()
        width, dot = self.size.width, self._glyphs.dot
        name, window, news = (
            self.get_component_rich_style(f"header-bar--{part}", partial=False) for part in ("name", "window", "news")
        )
        told = self._glyphs.cut(self.news or self.place, max(0, width - MIN_TITLE_WIDTH - 4))
        right = f" {told} " if told else ""
        room = width - cell_len(right) - 1
        title = self._glyphs.cut(
            self.title, MIN_TITLE_WIDTH if self.window and width < 100 else max(MIN_TITLE_WIDTH, room // 3)
        )
        rest = room - cell_len(title) - 3
        hint = [self.window, "filtered to window", "Esc clears"] if self.window else []
        chosen = self._glyphs.to_alphabet(
            messages.fit_parts(hint, rest - (MIN_EVENT_WIDTH + 3 if self.event else 0), dot)
        )
        rest -= cell_len(chosen) + 3 if chosen else 0
        segments = [Segment(f" {title}", name)]
        segments += [Segment(f"  {chosen}", window)] if chosen else []
        if self.size.height < 2 and self.finding and not self.window and not self.event:
            alerts = "".join(f"{self._glyphs.to_alphabet(alert)} {dot} " for alert in self.alerts)
            rest -= cell_len(alerts)
            segments += [Segment(f"  {alerts}", self.rich_style), *self._finding_segments(rest)]
            segments += self._facts_beside(rest, dot)
        else:
            about = self._event_or_facts(rest, dot)
            segments += [Segment(f" {dot} {about}" if chosen else f"  {about}", self.rich_style)] if about else []
        strip = Strip(segments).adjust_cell_length(max(0, width - cell_len(right)), self.rich_style)
        return Strip([*strip, Segment(right, news)]).adjust_cell_length(width, self.rich_style)

    def _finding_line(self) -> Strip:
        """The second line: the top finding, and of what it is where a window is selected."""
        label = f" {'Whole run' if self.window else 'Top finding'}: "
        if self.finding in ((), (messages.NO_FINDINGS,)):
            label = " "
        segments = [Segment(label, self.rich_style), *self._finding_segments(self.size.width - len(label) - 1)]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _finding_segments(self, room: int) -> list[Segment]:
        """Cost and title of the top finding in `room` cells. The title is cut behind a word, and the base left out."""
        cost_style, style = (
            self.get_component_rich_style(f"header-bar--{part}", partial=False) for part in ("cost", "finding")
        )
        *costs, title = (self._glyphs.to_alphabet(part) for part in self.finding or ("",))
        if not costs:
            return [Segment(shorten_at_word(title, room, self._glyphs.ellipsis), style)]
        cost = next((cost for cost in costs if cell_len(cost) + cell_len(title) + 2 <= room), costs[-1])
        words = shorten_at_word(title, max(0, room - cell_len(cost) - 2), self._glyphs.ellipsis)
        return [Segment(cost, cost_style), Segment(f": {words}" if words else "", style)]

    def _facts_beside(self, room: int, dot: str) -> list[Segment]:
        """Facts of the trace behind the top finding, if there is room for the first."""
        left = room - sum(segment.cell_length for segment in self._finding_segments(room)) - 3
        facts = [self._glyphs.to_alphabet(fact) for fact in self.facts if fact not in self.alerts]
        words = messages.fit_parts(facts, left, dot) if facts and cell_len(facts[0]) <= left else ""
        return [Segment(f" {dot} {words}", self.rich_style)] if words else []

    def _event_or_facts(self, room: int, dot: str) -> str:
        """Selected event, or facts of the trace, in `room` cells."""
        if self.event and room >= MIN_EVENT_WIDTH:
            return messages.fit_name_and_parts([self._glyphs.to_alphabet(part) for part in self.event], room, dot)
        facts = [self._glyphs.to_alphabet(fact) for fact in self.facts]
        return messages.fit_parts([fact for fact in facts if cell_len(fact) <= room], room, dot)


class Tab(Struct, frozen=True):
    """Tab of one pane: the key that shows it, and a short name for narrow screens."""

    pane: str
    key: str
    brief: str = ""


MENU_TAB = "menu"
"""Name of the last tab, which opens the menu."""


class TabBar(Widget):
    """Tabs of the panes under the timeline; the active one is marked. The last, at the right, opens the menu."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"tab-bar--key", "tab-bar--active", "tab-bar--focus"}
    DEFAULT_CSS = """
    TabBar {
        height: 1; background: $panel; color: $text-muted;
        & > .tab-bar--key { color: $primary; }
        & > .tab-bar--active { background: $primary 25%; color: $text; text-style: bold; }
        & > .tab-bar--focus { background: $accent; color: $background; text-style: bold; }
        &:ansi > .tab-bar--active { background: ansi_default; color: ansi_default; text-style: bold underline; }
        &:ansi > .tab-bar--focus { background: ansi_default; color: ansi_default; text-style: bold reverse; }
        &:nocolor > .tab-bar--active { text-style: bold underline; }
        &:nocolor > .tab-bar--focus { text-style: bold reverse; }
    }
    """

    tabs: reactive[tuple[Tab, ...]] = reactive(())
    """Tabs that are always shown."""
    others: reactive[tuple[Tab, ...]] = reactive(())
    """Tabs that are shown only while they are active."""
    menu: reactive[Tab | None] = reactive(None)
    """Tab of the menu."""
    active: reactive[str] = reactive("")
    """Name of the active pane."""
    has_keys: reactive[bool] = reactive(default=False)
    """True if the active pane has the focus."""

    @dataclass
    class TabClicked(Message):
        """A tab was clicked."""

        pane: str

    def render_line(self, y: int) -> Strip:
        """Draw all tabs in one line, that of the menu at its end."""
        del y
        parts = ("key", "focus" if self.has_keys else "active")
        key, active = (self.get_component_rich_style(f"tab-bar--{part}", partial=False) for part in parts)
        segments = list[Segment]()
        for tab, name in self._fitting_tabs():
            if tab.pane == self.active:
                segments.append(Segment(f" {tab.key} {name} ", active))
            else:
                segments += [Segment(f" {tab.key} ", key), Segment(f"{name} ", self.rich_style)]
        if self.menu is None:
            return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)
        last = [Segment(f" {self.menu.key} ", key), Segment(f"{self.menu.brief} ", self.rich_style)]
        strip = Strip(segments).adjust_cell_length(max(0, self._tabs_room), self.rich_style)
        return Strip([*strip, *last]).adjust_cell_length(self.size.width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Post the clicked tab."""
        left = 0
        if event.x >= self._tabs_room:
            self.post_message(self.TabClicked(MENU_TAB))
            return
        for tab, name in self._fitting_tabs():
            left += _tabs_width([(tab, name)])
            if event.x < left:
                self.post_message(self.TabClicked(tab.pane))
                return

    @property
    def _tabs_room(self) -> int:
        """Width that is left for the tabs."""
        return self.size.width - (_tabs_width([(self.menu, self.menu.brief)]) if self.menu is not None else 0)

    def _fitting_tabs(self) -> list[tuple[Tab, str]]:
        """Tabs with their names. If they do not fit, names are shortened first, then the last tabs are left out."""
        tabs = [*self.tabs, *(tab for tab in self.others if tab.pane == self.active)]
        full = [(tab, tab.pane.replace("_", " ")) for tab in tabs]
        if _tabs_width(full) <= self._tabs_room:
            return full
        named = [(tab, tab.brief or name) for tab, name in full]
        for each in reversed(named):
            if _tabs_width(named) > self._tabs_room and each[0].pane != self.active:
                named = [other for other in named if other is not each]
        return named


def _tabs_width(named: list[tuple[Tab, str]]) -> int:
    return sum(len(name) + len(tab.key) + 3 for tab, name in named)


async def run_clicked_key(screen: Screen[None], key: Key) -> None:
    """Run the action of a clicked key, on the screen or on the focused widget."""
    target = screen if key.group == "everywhere" or screen.focused is None else screen.focused
    await target.run_action(key.action)


def _cut_to_clauses(said: str, width: int) -> str:
    """Cut a message after a clause that fits, unless less than half of a line is left."""
    while cell_len(said) > width and (end := max(said.rfind(", "), said.rfind("; "))) > width // 2:
        said = said[:end]
    return said


class KeyBar(Widget):
    """Keys that matter now; a click runs a key."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-bar--key"}
    DEFAULT_CSS = """
    KeyBar {
        height: 1; background: $panel; color: $text-muted;
        & > .key-bar--key { color: $accent; text-style: bold; }
    }
    """

    group: reactive[Group] = reactive("timeline")
    """Group of keys of the focused widget."""
    no_event: reactive[bool] = reactive(default=True)
    """True without a selected event."""
    can_regroup: reactive[bool] = reactive(default=False)
    """True if rows of the active pane can be regrouped."""
    has_no_rows: reactive[bool] = reactive(default=False)
    """True if the focused widget can have rows and has none."""
    ops_matched: reactive[bool] = reactive(default=False)
    """True while the ops of two runs are shown under each other."""
    message: reactive[str] = reactive("")
    """Message in place of the keys, for some seconds or until the next action."""

    @dataclass
    class KeyClicked(Message):
        """A key was clicked."""

        key: Key

    def __init__(self, glyphs: Glyphs = UNICODE, table: Sequence[Key] = KEYS) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._table = table
        self._message_timer: Timer | None = None

    def render_line(self, y: int) -> Strip:
        """Draw the message, else as many keys as fit, those of every pane last."""
        del y
        if self.message:
            words = self._glyphs.cut(_cut_to_clauses(self.message, self.size.width - 1), max(1, self.size.width - 1))
            return Strip([Segment(f" {words}", self.rich_style)]).adjust_cell_length(self.size.width, self.rich_style)
        style = self.get_component_rich_style("key-bar--key", partial=False)
        segments = list[Segment]()
        for _, shown, label in self._fitting_keys():
            segments += [Segment(f" {shown}", style), Segment(f" {label} ", self.rich_style)]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Post the clicked key."""
        left = 0
        for key, shown, label in self._fitting_keys() if not self.message else ():
            left += cell_len(shown) + cell_len(label) + 3
            if event.x < left:
                self.post_message(self.KeyClicked(key))
                return

    def say(self, words: str) -> None:
        """Show a message for some seconds."""
        self.message = words
        if self._message_timer is not None:
            self._message_timer.stop()
        self._message_timer = self.set_timer(MESSAGE_SECONDS, self.clear_message)

    def clear_message(self) -> None:
        """Show the keys again: the message concerned the last action."""
        self.message = ""

    def _fitting_keys(self) -> list[tuple[Key, str, str]]:
        """Keys that fit, each with its text and label; those of every pane take precedence, and are drawn last."""
        useless = (
            *(NEED_EVENT if self.no_event else ()), *(() if self.can_regroup else NEED_GROUPING),
            *(NEED_ROWS if self.has_no_rows else ()),
            *(() if self.ops_matched else NEED_MATCHED_OPS),
        )  # fmt: skip
        keys = [key for key in footer_keys(self._table, self.group) if key.id not in useless]
        general, room = self._take_fitting([key for key in keys if key.group == "everywhere"], self.size.width)
        chosen, _ = self._take_fitting([key for key in keys if key.group != "everywhere"], room)
        return [(key, self._key_text(key), key.label) for key in (*chosen, *general)]

    def _take_fitting(self, keys: Sequence[Key], room: int) -> tuple[list[Key], int]:
        """Keys that fit, taken in order, and the remaining width."""
        chosen = list[Key]()
        for key in keys:
            if self._key_width(key) <= room:
                chosen.append(key)
                room -= self._key_width(key)
        return chosen, room

    def _key_width(self, key: Key) -> int:
        return cell_len(self._key_text(key)) + cell_len(key.label) + 3

    def _key_text(self, key: Key) -> str:
        return key.display_text(self._glyphs.name).split()[0]
