"""The three lines that frame the explorer: what is open, which pane is shown, which keys matter.

Own what fits on them. Each is one line, drawn only when what it says changes.
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
from tracehound.ui.bindings.keys import KEYS, OF_EVENT, OF_GROUPED, OF_MATCHED, OF_ROWS, Group, Key, footer
from tracehound.ui.wording import words

SAID = 4.0
"""Seconds for which something that is said stands in the place of the keys."""

EVENT = 24
"""Cells that the selected event takes in the header, at least: what is said of a window makes way for it."""

TITLE = 12
"""Cells that the name of what is open has in the header, at least."""


class HeaderBar(Widget):
    """What is open, what is selected, where a walk is, and how far the reading is."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"header-bar--name", "header-bar--window", "header-bar--news"}
    DEFAULT_CSS = """
    HeaderBar {
        height: 1; background: $panel; color: $text-muted;
        & > .header-bar--name { color: $primary; text-style: bold; }
        & > .header-bar--window { color: $accent; text-style: bold; }
        & > .header-bar--news { color: $text; }
        &:nocolor > .header-bar--window { text-style: bold underline; }
    }
    """

    title: reactive[str] = reactive("")
    """The name of the trace."""
    facts: reactive[tuple[str, ...]] = reactive(())
    """What it is, the most telling first."""
    window: reactive[str] = reactive("")
    """The selected window, in words; empty without one."""
    event: reactive[tuple[str, ...]] = reactive(())
    """The selected event: its name, and what is known of it; empty without one."""
    place: reactive[str] = reactive("")
    """Where in a walk one is."""
    news: reactive[str] = reactive("")
    """How far the reading is; while there is any it stands in the place's stead."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """Name and window always, then as much of the rest as fits; news stand on the right."""
        del y
        width, dot = self.size.width, self._glyphs.dot
        name, window, news = (
            self.get_component_rich_style(f"header-bar--{part}", partial=False) for part in ("name", "window", "news")
        )
        told = self._glyphs.cut(self.news or self.place, max(0, width - TITLE - 4))
        right = f" {told} " if told else ""
        room = width - cell_len(right) - 1
        title = self._glyphs.cut(self.title, TITLE if self.window and width < 100 else max(TITLE, room // 3))
        rest = room - cell_len(title) - 3
        hint = [self.window, "tables narrowed", "Esc clears"] if self.window else []
        chosen = self._glyphs.words(words.joined(hint, rest - (EVENT + 3 if self.event else 0), dot))
        rest -= cell_len(chosen) + 3 if chosen else 0
        about = self._about(rest, dot)
        segments = [Segment(f" {title}", name)]
        segments += [Segment(f"  {chosen}", window)] if chosen else []
        segments += [Segment(f" {dot} {about}" if chosen else f"  {about}", self.rich_style)] if about else []
        strip = Strip(segments).adjust_cell_length(max(0, width - cell_len(right)), self.rich_style)
        return Strip([*strip, Segment(right, news)]).adjust_cell_length(width, self.rich_style)

    def _about(self, room: int, dot: str) -> str:
        """The selected event, or what is open, in so many cells."""
        if self.event and room >= EVENT:
            return words.named([self._glyphs.words(part) for part in self.event], room, dot)
        facts = [self._glyphs.words(fact) for fact in self.facts]
        return words.joined([fact for fact in facts if cell_len(fact) <= room], room, dot)


class Tab(Struct, frozen=True):
    """One pane in the row of tabs: the key that shows it, and a short name for narrow screens."""

    pane: str
    key: str
    brief: str = ""


MENU = "menu"
"""The pane that the last tab names: all that there is."""


class TabBar(Widget):
    """The panes under the timeline; the active one is marked. The last tab, at the right, opens the menu."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"tab-bar--key", "tab-bar--active"}
    DEFAULT_CSS = """
    TabBar {
        height: 1; background: $panel; color: $text-muted;
        & > .tab-bar--key { color: $primary; }
        & > .tab-bar--active { background: $primary; color: $background; text-style: bold; }
        &:ansi > .tab-bar--active { background: ansi_default; color: ansi_default; text-style: bold reverse; }
        &:nocolor > .tab-bar--active { text-style: bold reverse; }
    }
    """

    tabs: reactive[tuple[Tab, ...]] = reactive(())
    """What has a place of its own."""
    others: reactive[tuple[Tab, ...]] = reactive(())
    """What has one only while it is shown."""
    menu: reactive[Tab | None] = reactive(None)
    """The tab of the menu."""
    active: reactive[str] = reactive("")
    """The pane that is shown."""

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        pane: str

    def render_line(self, y: int) -> Strip:
        """All tabs on one line, that of the menu at its end."""
        del y
        key, active = (self.get_component_rich_style(f"tab-bar--{part}", partial=False) for part in ("key", "active"))
        segments = list[Segment]()
        for tab, name in self._named():
            if tab.pane == self.active:
                segments.append(Segment(f" {tab.key} {name} ", active))
            else:
                segments += [Segment(f" {tab.key} ", key), Segment(f"{name} ", self.rich_style)]
        if self.menu is None:
            return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)
        last = [Segment(f" {self.menu.key} ", key), Segment(f"{self.menu.brief} ", self.rich_style)]
        strip = Strip(segments).adjust_cell_length(max(0, self._room), self.rich_style)
        return Strip([*strip, *last]).adjust_cell_length(self.size.width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Tell which tab it was."""
        left = 0
        if event.x >= self._room:
            self.post_message(self.Chosen(MENU))
            return
        for tab, name in self._named():
            left += _length([(tab, name)])
            if event.x < left:
                self.post_message(self.Chosen(tab.pane))
                return

    @property
    def _room(self) -> int:
        """The cells that are left for the tabs."""
        return self.size.width - (_length([(self.menu, self.menu.brief)]) if self.menu is not None else 0)

    def _named(self) -> list[tuple[Tab, str]]:
        """The tabs with their names, shortened where all do not fit; the last that still do not are left out."""
        tabs = [*self.tabs, *(tab for tab in self.others if tab.pane == self.active)]
        full = [(tab, tab.pane.replace("_", " ")) for tab in tabs]
        if _length(full) <= self._room:
            return full
        named = [(tab, tab.brief or name) for tab, name in full]
        for each in reversed(named):
            if _length(named) > self._room and each[0].pane != self.active:
                named = [other for other in named if other is not each]
        return named


def _length(named: list[tuple[Tab, str]]) -> int:
    return sum(len(name) + len(tab.key) + 3 for tab, name in named)


async def follow(screen: Screen[None], key: Key) -> None:
    """Do what a key does that was clicked: for the whole screen, or for what has the keys on it."""
    target = screen if key.group == "everywhere" or screen.focused is None else screen.focused
    await target.run_action(key.action)


def _clauses(said: str, width: int) -> str:
    """As many clauses of what is said as fit, unless that is not even half of a line."""
    while cell_len(said) > width and (end := max(said.rfind(", "), said.rfind("; "))) > width // 2:
        said = said[:end]
    return said


class KeyBar(Widget):
    """The keys that matter now; a click does what the key does."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-bar--key"}
    DEFAULT_CSS = """
    KeyBar {
        height: 1; background: $panel; color: $text-muted;
        & > .key-bar--key { color: $accent; text-style: bold; }
    }
    """

    group: reactive[Group] = reactive("timeline")
    """Where the focus is."""
    bare: reactive[bool] = reactive(default=True)
    """Whether no event is selected."""
    grouped: reactive[bool] = reactive(default=False)
    """Whether rows of what is shown can be of another sort."""
    rowless: reactive[bool] = reactive(default=False)
    """Whether what has the keys could show rows and has none."""
    matched: reactive[bool] = reactive(default=False)
    """Whether the ops of two runs stand under each other."""
    said: reactive[str] = reactive("")
    """What is said in the place of the keys, for a while or until the next key that does something."""

    @dataclass
    class Pressed(Message):
        """A key was clicked."""

        key: Key

    def __init__(self, glyphs: Glyphs = UNICODE, table: Sequence[Key] = KEYS) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._table = table
        self._silence: Timer | None = None

    def render_line(self, y: int) -> Strip:
        """What is said, else as many keys as fit; those of every pane come last."""
        del y
        if self.said:
            words = self._glyphs.cut(_clauses(self.said, self.size.width - 1), max(1, self.size.width - 1))
            return Strip([Segment(f" {words}", self.rich_style)]).adjust_cell_length(self.size.width, self.rich_style)
        style = self.get_component_rich_style("key-bar--key", partial=False)
        segments = list[Segment]()
        for _, shown, label in self._fitting():
            segments += [Segment(f" {shown}", style), Segment(f" {label} ", self.rich_style)]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Tell which key it was."""
        left = 0
        for key, shown, label in self._fitting() if not self.said else ():
            left += cell_len(shown) + cell_len(label) + 3
            if event.x < left:
                self.post_message(self.Pressed(key))
                return

    def say(self, words: str) -> None:
        """Say something, for a while."""
        self.said = words
        if self._silence is not None:
            self._silence.stop()
        self._silence = self.set_timer(SAID, self.hush)

    def hush(self) -> None:
        """Show the keys again: what was said is about what was done before."""
        self.said = ""

    def _fitting(self) -> list[tuple[Key, str, str]]:
        """The keys that there is room for, each with what is written of it; those of every pane come first."""
        idle = (
            *(OF_EVENT if self.bare else ()), *(() if self.grouped else OF_GROUPED), *(OF_ROWS if self.rowless else ()),
            *(() if self.matched else OF_MATCHED),
        )  # fmt: skip
        keys = [key for key in footer(self._table, self.group) if key.id not in idle]
        general, room = self._first([key for key in keys if key.group == "everywhere"], self.size.width)
        chosen, _ = self._first([key for key in keys if key.group != "everywhere"], room)
        return [(key, self._shown(key), key.label) for key in (*chosen, *general)]

    def _first(self, keys: Sequence[Key], room: int) -> tuple[list[Key], int]:
        """Those of the keys that fit whole, the first ones first, and the room that they leave."""
        chosen = list[Key]()
        for key in keys:
            if self._width(key) <= room:
                chosen.append(key)
                room -= self._width(key)
        return chosen, room

    def _width(self, key: Key) -> int:
        return cell_len(self._shown(key)) + cell_len(key.label) + 3

    def _shown(self, key: Key) -> str:
        return key.written(self._glyphs.name).split()[0]
