"""Sentences on lines of so many cells.

Owns where a line ends. Knows no table.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

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
