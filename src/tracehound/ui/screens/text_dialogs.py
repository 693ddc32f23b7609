"""Dialogs with text: the help page, and all notes of a pane.

The table of keys and the palette supply the help; callers supply the notes.
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

from tracehound.draw.event_colors import KIND_LETTERS, kind_legend
from tracehound.draw.fact_layout import FactSection
from tracehound.draw.glyphs import Glyphs
from tracehound.ui.bindings.keys import GROUP_TITLES, KEYS, Key
from tracehound.ui.bindings.keys import Group as KeyGroup
from tracehound.ui.themes import Appearance, appearance_of
from tracehound.ui.widgets.base_screens import TextDialog

HELP_COLUMNS: tuple[tuple[KeyGroup, ...], ...] = (
    ("everywhere", "comparison", "overview", "details", "prompt"),
    ("timeline", "lanes", "table"),
    ("arrivals", "map", "flame", "hlo", "source"),
)
"""Groups of keys in each column."""

TIMELINE_GROUPS: tuple[KeyGroup, ...] = ("timeline", "lanes")
"""Groups of keys that work while the timeline has the focus."""


BAR_LEGEND: Final = (
    "Bars: a full one of a share is 100 % of what it is a share of;\n"
    "of times and other amounts it is the largest one.\n"
)
"""Meaning of a full bar."""


LETTER_LEGEND: Final = "Capital: more than half of the cell; small: less; a point: little.\n"
"""Meaning of small and capital letters in lanes."""


class HelpScreen(TextDialog):
    """All keys, grouped by where they work, and the meaning of letters and colors."""

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
        """`here` is the group of the focused widget; its keys come first."""
        super().__init__(glyphs)
        self._focused_group = here
        self._table = table

    def compose(self) -> ComposeResult:
        """Yield columns if there is space, else one below the other.

        The legend of letters comes first if letters are used.
        """
        look = appearance_of(self.app, self._glyphs)
        with Vertical() as box:
            box.border_title = "Keys"
            with self.page, Horizontal():
                for number, groups in enumerate(_arrange_columns(self._focused_group)):
                    kinds: list[RenderableType] = (
                        [_kind_legend(look, self._glyphs), Text(BAR_LEGEND)] if number == 0 else []
                    )
                    pages = self._group_tables(groups)
                    yield Static(Group(*kinds, *pages) if self._glyphs.fill == "letter" else Group(*pages, *kinds))
            yield Label(look.words("Esc closes this page · the mouse does as much: click, drag a range, wheel"))

    def _group_tables(self, groups: Sequence[KeyGroup]) -> list[Table]:
        """A table of keys for each group."""
        known = {key.group for key in self._table}
        return [self._group_table(group) for group in groups if group in known]

    def _group_table(self, group: KeyGroup) -> Table:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True, min_width=12)
        grid.add_column()
        grid.add_row(Text(GROUP_TITLES[group], "bold underline"), "")
        for key in self._table:
            if key.group == group:
                grid.add_row(Text(key.display_text(self._glyphs.name), "bold"), Text(key.meaning))
        grid.add_row("", "")
        return grid


def _arrange_columns(here: KeyGroup) -> list[tuple[KeyGroup, ...]]:
    """`HELP_COLUMNS` with the focused group first."""
    first = TIMELINE_GROUPS if here in TIMELINE_GROUPS else (here,)
    rest = [tuple(group for group in groups if group not in first) for groups in HELP_COLUMNS]
    return [(*first, *rest[0]), *rest[1:]]


def _kind_legend(look: Appearance, glyphs: Glyphs) -> RenderableType:
    """Letter, color and name of every kind, two in a line."""
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(Text("Kinds", "bold underline"), "")
    kinds = [Text(f"{letter}  {kind}", look.kind_style(kind)) for letter, kind in kind_legend(KIND_LETTERS)]
    half = (len(kinds) + 1) // 2
    for index in range(half):
        grid.add_row(kinds[index], kinds[index + half] if index + half < len(kinds) else "")
    return grid if glyphs.fill != "letter" else Group(grid, Text(LETTER_LEGEND))


class FullTextScreen(TextDialog):
    """Sections under their titles, with wrapped lines."""

    def __init__(self, title: str, sections: Sequence[FactSection], glyphs: Glyphs) -> None:
        super().__init__(glyphs)
        self._title = title
        self._sections = sections

    def compose(self) -> ComposeResult:
        """Yield the sections and the key help."""
        with Vertical() as box:
            box.border_title = self._glyphs.to_alphabet(self._title)
            with self.page:
                yield Static(Group(*(part for section in self._sections for part in self._render_section(section))))
            yield Label(self._glyphs.to_alphabet("Esc closes this page"))

    def _render_section(self, section: FactSection) -> list[Text | Table]:
        """A title, its facts, and an empty line."""
        labeled = any(fact.label for fact in section.facts)
        grid = Table.grid(padding=(0, 2 if labeled else 1, 0, 0))
        grid.add_column(style="bold")
        grid.add_column()
        for fact in section.facts:
            label = self._glyphs.to_alphabet(fact.label) if labeled else self._glyphs.dot
            grid.add_row(Text(label), Text(self._glyphs.to_alphabet(fact.words)))
        return [Text(self._glyphs.to_alphabet(section.title), "bold underline"), grid, Text()]
