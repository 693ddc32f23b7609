"""All that is said of what a pane shows, on a page.

Owns its layout. Knows no result: it is given what is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label, Static

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.sheet import Section
from tracehound.ui.screens.framed import Paged


class InFullScreen(Paged):
    """Sections under their titles, each line of them broken where the frame ends."""

    def __init__(self, title: str, sections: Sequence[Section], glyphs: Glyphs) -> None:
        super().__init__(glyphs)
        self._title = title
        self._sections = sections

    def compose(self) -> ComposeResult:
        """The sections, and how the page is left."""
        with Vertical() as box:
            box.border_title = self._glyphs.words(self._title)
            with self.page:
                yield Static(Group(*(part for section in self._sections for part in self._drawn(section))))
            yield Label(self._glyphs.words("Esc closes this page"))

    def _drawn(self, section: Section) -> list[Text | Table]:
        """A title, its facts, and a line of air."""
        labelled = any(fact.label for fact in section.facts)
        grid = Table.grid(padding=(0, 2 if labelled else 1, 0, 0))
        grid.add_column(style="bold")
        grid.add_column()
        for fact in section.facts:
            label = self._glyphs.words(fact.label) if labelled else self._glyphs.dot
            grid.add_row(Text(label), Text(self._glyphs.words(fact.words)))
        return [Text(self._glyphs.words(section.title), "bold underline"), grid, Text()]
