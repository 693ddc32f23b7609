"""Screens that stand in a frame before what they are about: pages to read, and lists to choose from.

Own the frame, how a page or a list in it looks, and the keys that move in it. Know nothing of what is in it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, Final, Literal

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Click
from textual.screen import ModalScreen
from textual.widgets import OptionList

from tracehound.draw.glyphs import Glyphs
from tracehound.ui.screens.leaving import LeftOnce
from tracehound.ui.screens.safe_screen import Answer
from tracehound.ui.widgets.plain_bars import suit

WIDTH: Final = 90
"""Cells of a frame, where the screen has them and nothing else is said."""

EDGES: Final = 5
"""Cells of those that the frame, the blanks in it, and a scroll bar take."""


class Framed(ModalScreen[Answer], LeftOnce[Answer]):
    """A box in the middle of the screen, as high as what is in it."""

    DEFAULT_CSS = f"""
    Framed {{ align: center middle; background: $background 60%; }}
    Framed > Vertical {{
        width: {WIDTH}; max-width: 100%; height: auto; max-height: 90%; padding: 0 1;
        background: $panel; border: round $primary; border-title-color: $primary;
    }}
    Framed Label {{ color: $text-muted; }}
    """


class Paged(Framed[None]):
    """A page to read, which scrolls where it is longer than the screen is high."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close", tooltip="Back to the explorer", id="page.close"),
        Binding("down,j,s", "scroll(1)", show=False, tooltip="A line down", id="page.down"),
        Binding("up,k,w", "scroll(-1)", show=False, tooltip="A line up", id="page.up"),
        Binding("pagedown,space", "page(1)", show=False, tooltip="A page down", id="page.page_down"),
        Binding("pageup", "page(-1)", show=False, tooltip="A page up", id="page.page_up"),
        Binding("home,g", "first", show=False, tooltip="To the top", id="page.first"),
        Binding("end,G", "last", show=False, tooltip="To the end", id="page.last"),
    ]
    DEFAULT_CSS = """
    Paged VerticalScroll { scrollbar-size-vertical: 1; background: $panel; }
    Paged Static { width: 1fr; height: auto; padding-right: 1; }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.page = VerticalScroll(can_focus=False)
        self._glyphs = glyphs

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self.page, self._glyphs)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.page.scroll_relative(y=lines, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by what is visible."""
        self.action_scroll(by * max(1, self.page.size.height - 1))

    def action_first(self) -> None:
        """To the first line."""
        self.page.scroll_home(animate=False)

    def action_last(self) -> None:
        """To the last line."""
        self.page.scroll_end(animate=False)


class Options(OptionList):
    """The lines of a list, for keys and clicks that come before it is laid out, or after its lines have changed."""

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        with suppress(KeyError):  # of a line that Textual knows no place of
            super()._move_page(direction)

    async def _on_click(self, event: Click) -> None:
        """Choose nothing by a click on a line that is gone; Textual does the rest."""
        if event.style.meta.get("option", -1) >= self.option_count:
            event.prevent_default()


class Listed(Framed[Answer]):
    """A list to choose from, which whoever has it fills when it is mounted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,s", "move(1)", show=False, tooltip="Next line", id="list.down"),
        Binding("k,w", "move(-1)", show=False, tooltip="Line before", id="list.up"),
    ]
    DEFAULT_CSS = """
    Listed OptionList, Listed OptionList:focus {
        height: auto; max-height: 1fr; border: none; padding: 0; background: $panel; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.options = Options(markup=False)
        self._glyphs = glyphs

    @property
    def room(self) -> int:
        """Cells of a line."""
        return max(24, min(WIDTH, self.app.size.width) - EDGES)

    def on_mount(self) -> None:
        """The scroll bar of the alphabet, the keys, and the first line for the list."""
        suit(self.options, self._glyphs)
        self.options.focus()
        self.options.highlighted = 0

    def action_move(self, by: int) -> None:
        """Go to another line."""
        (self.options.action_cursor_down if by > 0 else self.options.action_cursor_up)()
