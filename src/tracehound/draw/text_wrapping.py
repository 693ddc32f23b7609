"""Text broken into lines of a width: sentences, captions above tables, and texts of this program."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from rich.cells import cell_len, chop_cells, set_cell_size

from tracehound.draw.glyphs import Glyphs
from tracehound.model.units import count_noun

BREAK_CHARACTERS = (" ", ",;/", ":.(){}[]=<>_-")
"""A line ends after one of these if possible; earlier groups are preferred."""


_WRITTEN_WIDTH: Final = 120
"""Width of the texts in this program's sources."""

_TWO_COLUMN_LINE: Final = re.compile(r"(\s*\S.*?\s{2,})(\S.*)")
"""A line of two columns: a name and its description."""

_BELOW_INDENT: Final = 6
"""Indentation of a description below its name."""

CaptionStyle = Literal["title", "scope", "plain", "headline", "more"]
"""The style of a piece: first part, second part, another part, the headline, or the key that shows what is left out."""

WIDE_CAPTION: Final = 60
"""Width from which the caption says in words what the key does."""

_NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}"

_SPACE_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=[^\W\d]|%)")


def wrap_paragraphs(text: str, width: int) -> list[str]:
    """The lines of a text, each wrapped to lines of at most `width` cells."""
    return [line for paragraph in text.split("\n") for line in wrap_text(paragraph, width)]


def join_fitting_parts(parts: Sequence[str], width: int) -> str:
    """As many parts as fit on a line, from the first on, separated by commas."""
    fit = len(parts)
    while fit > 1 and cell_len(", ".join(parts[:fit])) > width:
        fit -= 1
    return ", ".join(parts[:fit])


def flow_words(words: Sequence[str], width: int) -> list[str]:
    """The words on lines of at most `width` cells, never broken (a longer one has a line of its own)."""
    lines: list[str] = []
    for each in words:
        if lines and cell_len(lines[-1]) + 2 + cell_len(each) <= width:
            lines[-1] += f"  {each}"
        else:
            lines.append(each)
    return lines


def wrap_text(text: str, width: int, hang: str = "") -> list[str]:
    """The words of a text on lines of at most `width` cells, with `hang` before all lines but the first."""
    if cell_len(text) == len(text):
        return textwrap.wrap(text, width, subsequent_indent=hang)
    words = " ".join(text.split())
    if not cell_len(words):
        return []
    first, *rest = (words[low:high] for low, high in wrap_spans(words, width, width - cell_len(hang)))
    return [first, *(hang + line for line in rest)]


def wrap_spans(words: str, first: int, rest: int) -> list[tuple[int, int]]:
    """The lines of `words` as (start, end) in them: the first of at most `first` cells, the others of `rest`.

    Line ends stay. A longer line is broken after a space or another break character in its second half, if there is
    one.
    """
    spans, start = list[tuple[int, int]](), 0
    for line in words.split("\n"):
        end = start + len(line)
        at = start
        while True:
            room = max(1, rest if spans else first)
            reach = at + _count_fitting_characters(words[at:end], room)
            if reach >= end:
                spans.append((at, end))
                break
            cut = _find_break(words, at, reach)
            spans.append((at, cut))
            at = cut + (words[cut] == " ")
        start = end + 1
    return spans


def _count_fitting_characters(words: str, room: int) -> int:
    """The number of characters of `words` that fit in so many cells, at least one."""
    head = words[: room + 1]
    if head.isascii():
        return min(len(head), room) or 1
    return max(1, len(chop_cells(words[: room * 2], room)[0])) if words else 0


def _find_break(words: str, start: int, reach: int) -> int:
    """The end of a line that begins at `start`, at most `reach`."""
    if words[reach] == " ":
        return reach
    half = start + (reach - start) // 2
    for characters in BREAK_CHARACTERS:
        cut = max(words.rfind(character, half, reach) for character in characters)
        if cut > half:
            return cut if characters == " " else cut + 1
    return reach


def shorten_at_word(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells: what is left out at its end begins with a word, if a word fits at all."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - cell_len(ellipsis))
    head = set_cell_size(text, room)
    cut = head if text[len(head) : len(head) + 1] == " " else head.rpartition(" ")[0]
    return f"{(cut or head).rstrip(' ,;:(-')}{ellipsis}" if width > 0 else ""


class _Paragraph(Struct):
    """Words that continue over lines behind `lead`, which precedes the first; `written` is the length of the last."""

    lead: str
    words: str
    written: int


def rewrap_text(text: str, width: int) -> str:
    """A text written on lines of 120 cells, on lines of at most `width`.

    Broken sentences are joined. The description of a name stays beside it, or goes below it if there is little room.
    Blank lines and the beginnings of lines stay.
    """
    if width >= _WRITTEN_WIDTH:
        return text
    blocks = list[_Paragraph]()
    for line in text.split("\n"):
        titled = _TWO_COLUMN_LINE.fullmatch(line)
        words = line.lstrip()
        lead = titled[1] if titled else line[: len(line) - len(words)]
        before = blocks[-1] if blocks else _Paragraph("", "", 0)
        broken = before.written + 1 + len(words.partition(" ")[0]) > _WRITTEN_WIDTH
        if words and before.words and not titled and len(lead) == len(before.lead) and broken:
            before.words, before.written = f"{before.words} {words}", len(line)
        else:
            blocks.append(_Paragraph(lead, titled[2] if titled else words, len(line)))
    return "\n".join(line for block in blocks for line in _wrap_paragraph(block, width))


def _wrap_paragraph(block: _Paragraph, width: int) -> list[str]:
    lead, above = block.lead, list[str]()
    if lead.strip() and 2 * len(lead) > width:
        above, lead = [lead.rstrip()], " " * _BELOW_INDENT
    lines = textwrap.wrap(
        block.words,
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*above, *(lines or [""])]


class CaptionPiece(NamedTuple):
    """Some words of a line, and their style."""

    words: str
    sort: CaptionStyle


CaptionLine = list[CaptionPiece]


class CaptionText(Struct, frozen=True):
    """Texts above a table: title, scope and number of rows; the note that matters; and all other notes."""

    heading: tuple[str, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()


class CaptionLayout(Struct, frozen=True):
    """An alphabet, the width of the lines, and the key that shows what is left out."""

    glyphs: Glyphs
    width: int
    key: str = ""

    def count_lines(self, text: CaptionText) -> int:
        """The number of lines that a caption takes."""
        return len(self.lay_out(text, _UNBOUNDED_LINES))

    def lay_out(self, text: CaptionText, height: int) -> list[CaptionLine]:
        """A caption on at most `height` lines: the heading, then the headline.

        A single note stands at the end of the heading if all of that fits on a line; else notes are only counted
        there. On one line the headline follows title and scope.
        """
        counted = self._note_count(len(text.notes))
        if height < 2 and text.headline:
            return self._heading_lines((*text.heading[:2], text.headline, *text.heading[2:], *counted), 1)
        headline = self._headline_lines(text.headline)
        whole = self._heading_lines((*text.heading, *text.notes), _UNBOUNDED_LINES) if len(text.notes) == 1 else []
        room = max(1, height - len(headline))
        heading = whole if len(whole) == 1 else self._heading_lines((*text.heading, *counted), room)
        return self._cut_lines([*heading, *headline], height)

    def _cut_lines(self, lines: list[CaptionLine], height: int) -> list[CaptionLine]:
        """The first lines, with an ellipsis at the end of the last where others follow."""
        if len(lines) <= height:
            return lines
        *before, last = lines[height - 1]
        ellipsis = self.glyphs.ellipsis
        room = self.width - cell_len(ellipsis) - sum(cell_len(piece.words) for piece in before)
        words = last.words if cell_len(last.words) <= room else set_cell_size(last.words, max(0, room))
        return [*lines[: height - 1], [*before, CaptionPiece(f"{words.rstrip()}{ellipsis}", last.sort)]]

    def _note_count(self, notes: int) -> tuple[str, ...]:
        """The number of notes, and the key that shows them."""
        return (f"{count_noun(notes, 'note')}{f' ({self.key})' if self.key else ''}",) if notes else ()

    def _headline_lines(self, words: str) -> list[CaptionLine]:
        text = _join_caption_parts((words,), self.glyphs)
        spans = wrap_spans(text, self.width, self.width) if text else []
        return [[CaptionPiece(text[start:end].replace(_NO_BREAK_SPACE, " "), "headline")] for start, end in spans]

    def _heading_lines(self, parts: Sequence[str], height: int) -> list[CaptionLine]:
        """The parts, separated by dots. If they do not fit the height, with an ellipsis and the key."""
        text = _join_caption_parts(parts, self.glyphs)
        spans = wrap_spans(text, self.width, self.width)
        ends = [len(_join_caption_parts(parts[:many], self.glyphs)) for many in (1, 2)]
        if len(spans) <= height:
            return [_split_caption_line(text, span, ends) for span in spans]
        key_text = f" {self.key} shows all" if self.width >= WIDE_CAPTION else f" {self.key}"
        ellipsis = [
            CaptionPiece(self.glyphs.ellipsis, "plain"),
            *([CaptionPiece(key_text, "more")] if self.key else []),
        ]
        start = spans[height - 1][0]
        room = max(0, self.width - sum(cell_len(piece.words) for piece in ellipsis))
        fitting = set_cell_size(text[start:], room).rstrip()
        last = _split_caption_line(text, (start, start + len(fitting)), ends)
        return [*(_split_caption_line(text, span, ends) for span in spans[: height - 1]), [*last, *ellipsis]]


_UNBOUNDED_LINES: Final = 1 << 16


def _join_caption_parts(parts: Sequence[str], glyphs: Glyphs) -> str:
    """The parts in a row. No line ends before a dot, or between a number and its unit."""
    words = (" ".join(glyphs.to_alphabet(part).split()) for part in parts)
    return f"{_NO_BREAK_SPACE}{glyphs.dot} ".join(_SPACE_BEFORE_UNIT.sub(_NO_BREAK_SPACE, each) for each in words)


def _split_caption_line(text: str, span: tuple[int, int], ends: Sequence[int]) -> list[CaptionPiece]:
    """A range of the text, cut at the ends of its first and second part."""
    start, end = span
    edges: list[tuple[int, CaptionStyle]] = [(ends[0], "title"), (ends[1], "scope"), (len(text), "plain")]
    pieces = list[CaptionPiece]()
    for edge, sort in edges:
        if start < min(edge, end):
            pieces.append(CaptionPiece(text[start : min(edge, end)].replace(_NO_BREAK_SPACE, " "), sort))
            start = min(edge, end)
    return pieces
