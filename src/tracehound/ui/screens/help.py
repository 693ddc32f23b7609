"""The page of keys.

Owns its layout; what it says comes from the table of keys and from the palette.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Label, Static

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.palette import LETTERS, legend
from tracehound.ui.keys import KEYS, TITLES, Key
from tracehound.ui.keys import Group as KeyGroup
from tracehound.ui.screens.framed import Framed
from tracehound.ui.tones import Tones, tones
from tracehound.ui.widgets.plain_bars import suit

COLUMNS: tuple[tuple[KeyGroup, ...], ...] = (
    ("everywhere", "comparison", "overview", "details", "prompt"),
    ("timeline", "lanes", "table"),
    ("arrivals", "flame", "hlo", "source"),
)
"""The groups of keys that stand under each other."""

LANES: tuple[KeyGroup, ...] = ("timeline", "lanes")
"""Both work while the timeline has the focus."""


class HelpScreen(Framed[None]):
    """Every key, by where it works, and what the letters and colours mean."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "close", tooltip="Back to the explorer", id="help.close"),
        Binding("down,j,s", "scroll(1)", show=False, tooltip="A line down", id="help.down"),
        Binding("up,k,w", "scroll(-1)", show=False, tooltip="A line up", id="help.up"),
        Binding("pagedown,space", "page(1)", show=False, tooltip="A page down", id="help.page_down"),
        Binding("pageup", "page(-1)", show=False, tooltip="A page up", id="help.page_up"),
        Binding("home,g", "first", show=False, tooltip="To the top", id="help.first"),
        Binding("end,G", "last", show=False, tooltip="To the end", id="help.last"),
    ]
    DEFAULT_CSS = """
    HelpScreen > Vertical { width: 78; height: 90%; }
    HelpScreen VerticalScroll { scrollbar-size-vertical: 1; background: $panel; }
    HelpScreen VerticalScroll > Horizontal { height: auto; layout: vertical; }
    HelpScreen Static { width: 1fr; height: auto; padding-right: 1; }
    HelpScreen.-wide > Vertical { width: 160; }
    HelpScreen.-wide VerticalScroll > Horizontal { layout: horizontal; }
    """

    def __init__(self, glyphs: Glyphs, table: Sequence[Key] = KEYS, here: KeyGroup = "everywhere") -> None:
        """`here` is the group that has the focus: its keys stand first."""
        super().__init__()
        self._here = here
        self._table = table
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        """Columns where there is room, else one under the other."""
        look = tones(self.app, self._glyphs)
        with Vertical() as box:
            box.border_title = "Keys"
            with VerticalScroll(can_focus=False), Horizontal():
                for number, groups in enumerate(_columns(self._here)):
                    kinds = [_kinds(look)] if number == 0 else []
                    yield Static(Group(*self._pages(groups), *kinds))
            yield Label(look.words("Esc closes this page · the mouse does as much: click, drag a range, wheel"))

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self.query_one(VerticalScroll), self._glyphs)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by what is visible."""
        self.action_scroll(by * max(1, self.query_one(VerticalScroll).size.height - 1))

    def action_first(self) -> None:
        """To the first line."""
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_last(self) -> None:
        """To the last line."""
        self.query_one(VerticalScroll).scroll_end(animate=False)

    def _pages(self, groups: Sequence[KeyGroup]) -> list[Table]:
        """A page for each group that has keys here."""
        known = {key.group for key in self._table}
        return [self._page(group) for group in groups if group in known]

    def _page(self, group: KeyGroup) -> Table:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True, min_width=12)
        grid.add_column()
        grid.add_row(Text(TITLES[group], "bold underline"), "")
        for key in self._table:
            if key.group == group:
                grid.add_row(Text(key.written(self._glyphs.name), "bold"), Text(key.meaning))
        grid.add_row("", "")
        return grid


def _columns(here: KeyGroup) -> list[tuple[KeyGroup, ...]]:
    """`COLUMNS`, with what has the focus above the first of them."""
    first = LANES if here in LANES else (here,)
    rest = [tuple(group for group in groups if group not in first) for groups in COLUMNS]
    return [(*first, *rest[0]), *rest[1:]]


def _kinds(look: Tones) -> Table:
    """The legend: the letter, the colour and the name of every kind, two on a line."""
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(Text("Kinds", "bold underline"), "")
    kinds = [Text(f"{letter}  {kind}", look.kind(kind)) for letter, kind in legend(LETTERS)]
    half = (len(kinds) + 1) // 2
    for index in range(half):
        grid.add_row(kinds[index], kinds[index + half] if index + half < len(kinds) else "")
    return grid
