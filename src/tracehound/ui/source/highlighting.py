"""Source code in the colours of the timeline.

Owns which part of code has which hue: the same palette as the kinds of events, so that sixteen colours and none work as
they do everywhere. The language is told by the file's name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound
from rich.style import Style

from tracehound.draw.event_colors import ColorPalette, Hue

MAX_HIGHLIGHTED = 1 << 19
"""Characters of the largest file that is coloured, which takes about a second."""

TOKEN_HUES: tuple[tuple[object, Hue], ...] = (
    (String.Doc, "grey"),
    (Comment, "grey"),
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
    colour = palette.shades[hue][0] if hue is not None and palette.shades else None
    return Style(color=colour, bold=sort in Keyword or None, italic=sort in Comment or None)


def _token_hues(sort: object) -> Iterator[Hue]:
    return (hue for kind, hue in TOKEN_HUES if sort in kind)  # type: ignore[operator]  # a token type holds those under it
