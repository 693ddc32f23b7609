"""Sentences on lines of so many cells.

Owns where a line ends. Knows no table.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.cells import cell_len

from tracehound.draw.sheet import wrapped


def paragraphs(text: str, width: int) -> list[str]:
    """The lines of a text, each of them on as many lines of at most `width` cells as it takes."""
    return [line for paragraph in text.split("\n") for line in wrap(paragraph, width)]


def joined(parts: Sequence[str], width: int) -> str:
    """As many of the parts as fit on a line, the first ones first, with commas between them."""
    fit = len(parts)
    while fit > 1 and cell_len(", ".join(parts[:fit])) > width:
        fit -= 1
    return ", ".join(parts[:fit])


def flowed(words: Sequence[str], width: int) -> list[str]:
    """The words on lines of at most `width` cells, each whole (one that is longer has a line of its own)."""
    lines: list[str] = []
    for each in words:
        if lines and cell_len(lines[-1]) + 2 + cell_len(each) <= width:
            lines[-1] += f"  {each}"
        else:
            lines.append(each)
    return lines


def wrap(text: str, width: int, hang: str = "") -> list[str]:
    """The words of a text on lines of at most `width` cells, the second and later ones behind `hang`."""
    if cell_len(text) == len(text):
        return textwrap.wrap(text, width, subsequent_indent=hang)
    words = " ".join(text.split())
    if not cell_len(words):
        return []
    first, *rest = (words[low:high] for low, high in wrapped(words, width, width - cell_len(hang)))
    return [first, *(hang + line for line in rest)]


class _Block(Struct):
    """Words that go on from line to line behind `lead`, which is before the first; `written` is as long as the last."""

    lead: str
    words: str
    written: int


_WRITTEN: Final = 120
"""How wide the texts are that this program has of itself."""

_TITLED: Final = re.compile(r"(\s*\S.*?\s{2,})(\S.*)")
"""A line of two columns: a name, and what is said of it."""


def fitted(text: str, width: int) -> str:
    """A text written on lines of 120 cells, on lines of at most `width`.

    Sentences flow on where they were broken, and what is said of a name stays beside it, or goes below it where there
    is little room. Blank lines and the beginnings of lines stay.
    """
    if width >= _WRITTEN:
        return text
    blocks = list[_Block]()
    for line in text.split("\n"):
        titled = _TITLED.fullmatch(line)
        words = line.lstrip()
        lead = titled[1] if titled else line[: len(line) - len(words)]
        before = blocks[-1] if blocks else _Block("", "", 0)
        broken = before.written + 1 + len(words.partition(" ")[0]) > _WRITTEN
        if words and before.words and not titled and len(lead) == len(before.lead) and broken:
            before.words, before.written = f"{before.words} {words}", len(line)
        else:
            blocks.append(_Block(lead, titled[2] if titled else words, len(line)))
    return "\n".join(line for block in blocks for line in _on_lines(block, width))


def _on_lines(block: _Block, width: int) -> list[str]:
    lead, above = block.lead, list[str]()
    if lead.strip() and 2 * len(lead) > width:
        above, lead = [lead.rstrip()], " " * _BELOW
    lines = textwrap.wrap(
        block.words,
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*above, *(lines or [""])]


_BELOW: Final = 6
"""How far in what is said of a name stands that stands below it."""
