"""All that the selected event carries.

Owns the layout of labels and values. Knows no trace: the screen brings the facts, and later the args.
"""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui import keys
from tracehound.ui.facts import Facts
from tracehound.ui.widgets.plain_bars import suit

NOTHING = "no event selected: Enter or a click in the timeline selects one"


class DetailsPane(VerticalScroll, can_focus=True, inherit_bindings=False):
    """Labels and values of one event, wrapped and never cut."""

    ALLOW_SELECT = True
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("details")]
    BINDING_GROUP_TITLE = "Details"
    COMPONENT_CLASSES: ClassVar[set[str]] = {"details-pane--label", "details-pane--title"}
    DEFAULT_CSS = """
    DetailsPane {
        height: 1fr; width: 1fr; padding: 0 1; scrollbar-size-vertical: 1;
        & > Static { width: 1fr; }
        & > .details-pane--label { color: $text-muted; }
        & > .details-pane--title { color: $text; text-style: bold; }
    }
    """

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-details")
        self.event: int | None = None
        self._glyphs = glyphs
        self._body = Static(NOTHING, markup=False)

    def compose(self) -> ComposeResult:
        """One text."""
        yield self._body

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self, self._glyphs)

    def expect(self, event: int) -> None:
        """What is shown next is about this event."""
        self.event = event
        self.scroll_home(animate=False)

    def show(self, facts: Facts, args: Facts | None, failure: str = "") -> None:
        """Show the facts of the event, and its args as the file has them (None: still being decoded)."""
        label = self.get_component_rich_style("details-pane--label")
        title = self.get_component_rich_style("details-pane--title")
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True, min_width=11, max_width=16)
        grid.add_column(ratio=1, overflow="fold")
        for index, (name, value) in enumerate(facts):
            grid.add_row(self._text(name, label), self._text(value, title if index == 0 else ""))
        heading = "decoding its args" if args is None and not failure else failure or ("in the file" if args else "")
        if heading:
            grid.add_row(Text(""), Text(""))
            grid.add_row(self._text(heading, title), Text(""))
        for name, value in args or ():
            grid.add_row(self._text(name, label), self._text(value))
        self._body.update(grid)

    def clear(self) -> None:
        """Show no event."""
        self.event = None
        self._body.update(NOTHING)

    def action_scroll_by(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=lines, animate=False)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is visible."""
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def _text(self, words: str, style: Style | str = "") -> Text:
        lines = "\n".join(self._glyphs.words(line) for line in words.split("\n"))
        return Text(lines, style=style)
