"""A source file, at the line of an event.

Owns how lines of code stand on the screen. The file was found and read before; it is never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tracehound.draw.glyphs import Glyphs
from tracehound.home import here
from tracehound.ui.bindings import keys
from tracehound.ui.screens.leaving import LeftOnce
from tracehound.ui.source.colours import Piece, coloured
from tracehound.ui.terminal.outside import copy, edit
from tracehound.ui.widgets.bars import HeaderBar, KeyBar
from tracehound.ui.widgets.plain_bars import suit
from tracehound.ui.wording.tones import tones


class Page(Struct, frozen=True):
    """What is shown: a file, its lines, the line (from 1) that it is about and the function there."""

    path: Path
    lines: Sequence[str]
    line: int
    what: str = ""


class CodeView(ScrollView, can_focus=True, inherit_bindings=False):
    """Numbered lines; one of them is marked."""

    ALLOW_SELECT = False
    BINDING_GROUP_TITLE = "Source"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("source")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"code-view--number", "code-view--line", "code-view--mark"}
    DEFAULT_CSS = """
    CodeView {
        height: 1fr; width: 1fr; background: $background; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
        & > .code-view--number { color: $foreground 45%; }
        & > .code-view--mark { color: $accent; text-style: bold; }
        & > .code-view--line { background: $accent 18%; }
        &:ansi > .code-view--line { background: ansi_default; text-style: bold underline; }
        &:ansi > .code-view--number { color: ansi_bright_black; }
        &:nocolor > .code-view--line { text-style: reverse; }
        &:nocolor > .code-view--mark { text-style: bold reverse; }
    }
    """

    def __init__(self, page: Page, glyphs: Glyphs) -> None:
        super().__init__()
        self._page = page
        self._glyphs = glyphs
        self._pieces: list[list[Piece]] = []
        self._height = 0

    def on_mount(self) -> None:
        """Colour the code, and go to the line."""
        suit(self, self._glyphs)
        self._paint()
        widest = max(map(cell_len, self._page.lines), default=0)
        self.virtual_size = Size(widest + self._gutter + 1, len(self._page.lines))
        self.call_after_refresh(self.action_show_line)

    def render_line(self, y: int) -> Strip:
        """Mark, number and code."""
        width, number = self.size.width, self.scroll_offset.y + y
        if number >= len(self._pieces):
            return Strip.blank(width, self.rich_style)
        marked = number + 1 == self._page.line
        ground = self.get_component_rich_style("code-view--line", partial=False) if marked else self.rich_style
        name = "code-view--mark" if marked else "code-view--number"
        style = ground + self.get_component_rich_style(name)
        mark = self._glyphs.cursor if marked else " "
        head = Strip([Segment(f"{mark}{number + 1:>{self._gutter - 3}}  ", style)])
        code = [Segment(self._glyphs.words(text), ground + look) for text, look in self._pieces[number]]
        left, room = self.scroll_offset.x, max(0, width - self._gutter)
        body = Strip(code).crop_extend(left, left + room, ground)
        return Strip([*head, *body]).adjust_cell_length(width, ground)

    def on_resize(self, event: events.Resize) -> None:
        """The line of the event stays in sight, if it was."""
        line, top, before = self._page.line - 1, self.scroll_offset.y, self._height
        self._height = event.size.height
        if top <= line < top + before and not line < top + self._height:
            self.action_show_line()

    @property
    def _gutter(self) -> int:
        """Cells left of the code: a mark, the number, two spaces."""
        return max(4, len(str(len(self._page.lines)))) + 3

    def _paint(self) -> None:
        palette = tones(self.app, self._glyphs).palette
        self._pieces = coloured(self._page.path.name, self._page.lines, palette)

    def notify_style_update(self) -> None:
        """Another theme: other colours."""
        super().notify_style_update()
        if self._pieces:
            self._paint()
            self.refresh()

    def action_scroll_by(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=lines, animate=False)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is visible."""
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def action_scroll_aside(self, cells: int) -> None:
        """Scroll sideways."""
        self.scroll_relative(x=cells, animate=False)

    def action_scroll_home(self) -> None:
        """Go to the first line."""
        self.scroll_to(0, 0, animate=False)

    def action_scroll_end(self) -> None:
        """Go to the last line."""
        self.scroll_to(0, len(self._page.lines), animate=False)

    def action_show_line(self) -> None:
        """Put the line of the event in the middle."""
        self.scroll_to(0, self._page.line - 1 - self.size.height // 2, animate=False)

    def action_edit(self) -> None:
        """Open it in the user's editor."""
        edit(self.app, self._page.path, self._page.line)

    def action_copy_place(self) -> None:
        """Copy file and line."""
        copy(self.app, f"{self._page.path}:{self._page.line}")

    def action_dismiss(self) -> None:
        """Back to the explorer."""
        self.screen.dismiss()


class SourceScreen(LeftOnce[None]):
    """The code between a header that says what it is and the keys that matter."""

    DEFAULT_CSS = "SourceScreen { layout: vertical; background: $background; }"

    def __init__(self, page: Page, glyphs: Glyphs) -> None:
        super().__init__()
        self._header = HeaderBar(glyphs)
        self._code = CodeView(page, glyphs)
        self._keys = KeyBar(glyphs)
        self._page = page

    def compose(self) -> ComposeResult:
        """Header, code, keys."""
        yield self._header
        yield self._code
        yield self._keys

    def on_mount(self) -> None:
        """Say what it is."""
        page = self._page
        self._header.title = page.path.name
        self._header.facts = (f"line {page.line:,}", *([page.what] if page.what else []), _folder(page.path))
        if page.line > len(page.lines):
            self._header.news = f"the file has {len(page.lines):,} lines: another version?"
        self._keys.group = "source"
        self._code.focus()

    async def on_key_bar_pressed(self, message: KeyBar.Pressed) -> None:
        """A click does what the key does."""
        if message.key.group == "source":
            await self._code.run_action(message.key.action)


def _folder(path: Path) -> str:
    """Where a file lies; from here, where that is shorter."""
    current = here()
    return str(path.parent.relative_to(current) if current and path.is_relative_to(current) else path.parent)
