"""What is said above a table, on as many lines as it may take.

Owns where these lines end, what the pieces of a line are, and the sign that something is left out. Knows no result and
no colour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.sheet import wrapped

Sort = Literal["title", "scope", "plain", "more"]
"""What a piece is: of the first part, of the second, of another one, or the key that shows what is left out."""


ROOMY: Final = 60
"""Cells of a line from which it is said in words what the key does."""


_TIE: Final = "\N{NO-BREAK SPACE}"
_COUNTED: Final = re.compile(r"(?<=\d) (?=[^\W\d]|%)")


class Piece(NamedTuple):
    """Some words of a line, and what they are."""

    words: str
    sort: Sort


def needed(parts: Sequence[str], glyphs: Glyphs, width: int) -> int:
    """How many lines of `width` cells the parts take."""
    return len(wrapped(_joined(parts, glyphs), width, width))


def drawn(parts: Sequence[str], glyphs: Glyphs, size: tuple[int, int], key: str = "") -> list[list[Piece]]:
    """The parts with dots between them, on lines of a width; where their height is too little, with a sign and a key.

    `size` is width and height in cells, `key` what is to be pressed for what is left out.
    """
    width, height = size
    whole = _joined(parts, glyphs)
    spans = wrapped(whole, width, width)
    ends = [len(_joined(parts[:many], glyphs)) for many in (1, 2)]
    if len(spans) <= height:
        return [_pieces(whole, span, ends) for span in spans]
    said = f" {key} shows all" if width >= ROOMY else f" {key}"
    sign = [Piece(glyphs.ellipsis, "plain"), *([Piece(said, "more")] if key else [])]
    start = spans[height - 1][0]
    kept = set_cell_size(whole[start:], max(0, width - sum(cell_len(piece.words) for piece in sign))).rstrip()
    last = _pieces(whole, (start, start + len(kept)), ends)
    return [*(_pieces(whole, span, ends) for span in spans[: height - 1]), [*last, *sign]]


def _joined(parts: Sequence[str], glyphs: Glyphs) -> str:
    """The parts in a row; no line ends before a dot, nor between a number and its unit or what it counts."""
    words = (" ".join(glyphs.words(part).split()) for part in parts)
    return f"{_TIE}{glyphs.dot} ".join(_COUNTED.sub(_TIE, each) for each in words)


def _pieces(whole: str, span: tuple[int, int], ends: Sequence[int]) -> list[Piece]:
    """A stretch of the whole, cut where its first and its second part end."""
    start, end = span
    edges: list[tuple[int, Sort]] = [(ends[0], "title"), (ends[1], "scope"), (len(whole), "plain")]
    pieces = list[Piece]()
    for edge, sort in edges:
        if start < min(edge, end):
            pieces.append(Piece(whole[start : min(edge, end)].replace(_TIE, " "), sort))
            start = min(edge, end)
    return pieces
