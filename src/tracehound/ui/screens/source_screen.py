"""Screen of a source file at the line of an event, in colors, and the dialog that chooses among several lines.

The file is read before and never executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import OptionList

from tracehound.draw.event_colors import ColorPalette, Hue
from tracehound.draw.glyphs import Glyphs
from tracehound.system.user_dirs import current_dir
from tracehound.ui.bindings import keys
from tracehound.ui.source_files import SourceLine
from tracehound.ui.terminal.outside_programs import copy_to_clipboard, open_in_editor
from tracehound.ui.themes import appearance_of
from tracehound.ui.widgets.base_screens import DismissOnceScreen, ListDialog
from tracehound.ui.widgets.boxes_and_scroll_bars import simplify_scroll_bars
from tracehound.ui.widgets.status_bars import HeaderBar, KeyBar

MAX_HIGHLIGHTED = 1 << 19
"""Characters of the largest file that is colored, which takes about a second."""

TOKEN_HUES: tuple[tuple[object, Hue], ...] = (
    (String.Doc, "gray"),
    (Comment, "gray"),
    (String, "green"),
    (Number, "orange"),
    (Keyword, "violet"),
    (Operator.Word, "violet"),
    (Name.Function, "blue"),
    (Name.Class, "blue"),
    (Name.Builtin, "cyan"),
    (Name.Decorator, "yellow"),
    (Name.Exception, "red"),
)
"""Sorts of tokens and what they look like; the first that fits counts."""

StyledText = tuple[str, Style]


def highlight_source(name: str, lines: Sequence[str], palette: ColorPalette) -> list[list[StyledText]]:
    """The lines of a file called `name`, in pieces; whole where its language is unknown or it is too long."""
    lexer = _lexer_for_file(name) if sum(map(len, lines)) <= MAX_HIGHLIGHTED else None
    if lexer is None:
        return [[(line, Style.null())] for line in lines]
    made: list[list[StyledText]] = [[]]
    for sort, text in lexer.get_tokens("\n".join(lines)):
        style = _token_style(sort, palette)
        for number, part in enumerate(text.split("\n")):
            made += [[]] if number else []
            made[-1] += [(part, style)] if part else []
    return made


def _lexer_for_file(name: str) -> Lexer | None:
    """Without the habit of dropping empty lines at the beginning, which would shift all others."""
    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _token_style(sort: object, palette: ColorPalette) -> Style:
    hue = next(_token_hues(sort), None)
    color = palette.shades[hue][0] if hue is not None and palette.shades else None
    return Style(color=color, bold=sort in Keyword or None, italic=sort in Comment or None)


def _token_hues(sort: object) -> Iterator[Hue]:
    return (hue for kind, hue in TOKEN_HUES if sort in kind)  # type: ignore[operator]  # a token type holds those under it


class SourcePage(Struct, frozen=True):
    """A source file with its lines, the current line (from 1) and the name of the function there."""

    path: Path
    lines: Sequence[str]
    line: int
    what: str = ""


class CodeView(ScrollView, can_focus=True, inherit_bindings=False):
    """Numbered lines of code, the current one marked."""

    ALLOW_SELECT = False
    BINDING_GROUP_TITLE = "Source"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.textual_bindings("source")]
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

    def __init__(self, page: SourcePage, glyphs: Glyphs) -> None:
        super().__init__()
        self._page = page
        self._glyphs = glyphs
        self._styled_lines: list[list[StyledText]] = []
        self._height = 0

    def on_mount(self) -> None:
        """Highlight the code, and scroll to the current line."""
        simplify_scroll_bars(self, self._glyphs)
        self._highlight_code()
        widest = max(map(cell_len, self._page.lines), default=0)
        self.virtual_size = Size(widest + self._gutter_width + 1, len(self._page.lines))
        self.call_after_refresh(self.action_show_line)

    def render_line(self, y: int) -> Strip:
        """Draw mark, number and code."""
        width, number = self.size.width, self.scroll_offset.y + y
        if number >= len(self._styled_lines):
            return Strip.blank(width, self.rich_style)
        marked = number + 1 == self._page.line
        ground = self.get_component_rich_style("code-view--line", partial=False) if marked else self.rich_style
        name = "code-view--mark" if marked else "code-view--number"
        style = ground + self.get_component_rich_style(name)
        mark = self._glyphs.cursor if marked else " "
        head = Strip([Segment(f"{mark}{number + 1:>{self._gutter_width - 3}}  ", style)])
        code = [Segment(self._glyphs.to_alphabet(text), ground + look) for text, look in self._styled_lines[number]]
        left, room = self.scroll_offset.x, max(0, width - self._gutter_width)
        body = Strip(code).crop_extend(left, left + room, ground)
        return Strip([*head, *body]).adjust_cell_length(width, ground)

    def on_resize(self, event: events.Resize) -> None:
        """Keep the current line visible if it was."""
        line, top, before = self._page.line - 1, self.scroll_offset.y, self._height
        self._height = event.size.height
        if top <= line < top + before and not line < top + self._height:
            self.action_show_line()

    @property
    def _gutter_width(self) -> int:
        """Width left of the code: mark, number and two spaces."""
        return max(4, len(str(len(self._page.lines)))) + 3

    def _highlight_code(self) -> None:
        palette = appearance_of(self.app, self._glyphs).palette
        self._styled_lines = highlight_source(self._page.path.name, self._page.lines, palette)

    def notify_style_update(self) -> None:
        """Highlight the code again with the new theme."""
        super().notify_style_update()
        if self._styled_lines:
            self._highlight_code()
            self.refresh()

    def action_scroll_by(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=lines, animate=False)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by pages."""
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
        """Scroll the current line to the middle."""
        self.scroll_to(0, self._page.line - 1 - self.size.height // 2, animate=False)

    def action_edit(self) -> None:
        """Open the file in the user's editor."""
        open_in_editor(self.app, self._page.path, self._page.line)

    def action_copy_place(self) -> None:
        """Copy file name and line number."""
        copy_to_clipboard(self.app, f"{self._page.path}:{self._page.line}")

    def action_dismiss(self) -> None:
        """Close the screen."""
        self.screen.dismiss()


class SourceScreen(DismissOnceScreen[None]):
    """Source code between a header and the key bar."""

    DEFAULT_CSS = "SourceScreen { layout: vertical; background: $background; }"

    def __init__(self, page: SourcePage, glyphs: Glyphs) -> None:
        super().__init__()
        self._header = HeaderBar(glyphs)
        self._code = CodeView(page, glyphs)
        self._keys = KeyBar(glyphs)
        self._page = page

    def compose(self) -> ComposeResult:
        """Yield header, code and key bar."""
        yield self._header
        yield self._code
        yield self._keys

    def on_mount(self) -> None:
        """Show file name, line and function in the header."""
        page = self._page
        self._header.title = page.path.name
        self._header.facts = (f"line {page.line:,}", *([page.what] if page.what else []), _folder_text(page.path))
        if page.line > len(page.lines):
            self._header.news = f"the file has {len(page.lines):,} lines: another version?"
        self._keys.group = "source"
        self._code.focus()

    async def on_key_bar_key_clicked(self, message: KeyBar.KeyClicked) -> None:
        """Run the clicked key."""
        if message.key.group == "source":
            await self._code.run_action(message.key.action)


def _folder_text(path: Path) -> str:
    """Folder of a file, relative to the current one if it is inside."""
    current = current_dir()
    return str(path.parent.relative_to(current) if current and path.is_relative_to(current) else path.parent)


class SourceLineDialog(ListDialog[SourceLine | None]):
    """Source lines of an event, innermost first. Returns the chosen one, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "close", tooltip="Choose none", id="choice.close"),
    ]
    DEFAULT_CSS = "SourceLineDialog > Vertical { width: 120; max-width: 90%; }"

    def __init__(self, lines: Sequence[SourceLine], glyphs: Glyphs) -> None:
        super().__init__(glyphs)
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """Yield the list."""
        with Vertical() as box:
            box.border_title = "Source lines, innermost first"
            yield self.options

    def on_mount(self) -> None:
        """Add an option for each line."""
        look = appearance_of(self.app, self._glyphs)
        self.options.add_options([_option_text(line, look.words) for line in self._lines])

    @on(OptionList.OptionSelected)
    def _dismiss_with_line(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self._lines[message.option_index])


def _option_text(line: SourceLine, words: Callable[[str], str]) -> Text:
    """Function and place, as in ``forward  model.py:12``."""
    place = Text(words(f"{line.file}:{line.line}"))
    return Text.assemble((words(line.what), "bold"), "  ", place) if line.what else place
