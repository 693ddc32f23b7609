"""The page of keys.

Owns its layout; what it says comes from the table of keys and from the palette.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Label, Static

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.palette import LETTERS, legend
from tracehound.ui.bindings.keys import KEYS, TITLES, Key
from tracehound.ui.bindings.keys import Group as KeyGroup
from tracehound.ui.screens.framed import Paged
from tracehound.ui.wording.tones import Tones, tones

COLUMNS: tuple[tuple[KeyGroup, ...], ...] = (
    ("everywhere", "comparison", "overview", "details", "prompt"),
    ("timeline", "lanes", "table"),
    ("arrivals", "flame", "hlo", "source"),
)
"""The groups of keys that stand under each other."""

LANES: tuple[KeyGroup, ...] = ("timeline", "lanes")
"""Both work while the timeline has the focus."""


BARS: Final = (
    "Bars: a full one of a share is 100 % of what it is a share of;\n"
    "of times and other amounts it is the largest one.\n"
)
"""What a full bar stands for."""


SIZES: Final = "Capital: more than half of the cell; small: less; a point: little.\n"
"""What the letters in lanes say beside the kind."""


class HelpScreen(Paged):
    """Every key, by where it works, and what the letters and colours mean."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "dismiss", show=False, tooltip="Back to the explorer", id="help.close"),
    ]
    DEFAULT_CSS = """
    HelpScreen > Vertical { width: 78; height: 90%; }
    HelpScreen VerticalScroll > Horizontal { height: auto; layout: vertical; }
    HelpScreen.-wide > Vertical { width: 160; }
    HelpScreen.-wide VerticalScroll > Horizontal { layout: horizontal; }
    """

    def __init__(self, glyphs: Glyphs, table: Sequence[Key] = KEYS, here: KeyGroup = "everywhere") -> None:
        """`here` is the group that has the focus: its keys stand first."""
        super().__init__(glyphs)
        self._here = here
        self._table = table

    def compose(self) -> ComposeResult:
        """Columns where there is room, else one under the other; what letters mean stands first where there are any."""
        look = tones(self.app, self._glyphs)
        with Vertical() as box:
            box.border_title = "Keys"
            with self.page, Horizontal():
                for number, groups in enumerate(_columns(self._here)):
                    kinds: list[RenderableType] = [_kinds(look, self._glyphs), Text(BARS)] if number == 0 else []
                    pages = self._pages(groups)
                    yield Static(Group(*kinds, *pages) if self._glyphs.fill == "letter" else Group(*pages, *kinds))
            yield Label(look.words("Esc closes this page · the mouse does as much: click, drag a range, wheel"))

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


def _kinds(look: Tones, glyphs: Glyphs) -> RenderableType:
    """The legend: the letter, the colour and the name of every kind, two on a line."""
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(Text("Kinds", "bold underline"), "")
    kinds = [Text(f"{letter}  {kind}", look.kind(kind)) for letter, kind in legend(LETTERS)]
    half = (len(kinds) + 1) // 2
    for index in range(half):
        grid.add_row(kinds[index], kinds[index + half] if index + half < len(kinds) else "")
    return grid if glyphs.fill != "letter" else Group(grid, Text(SIZES))
