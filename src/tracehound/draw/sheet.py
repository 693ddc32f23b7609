"""Labelled values -> the lines of a sheet.

Owns where labels and values stand, where a value is broken, and which parts of a line a search found. Knows no colours
and nothing of where the values come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from rich.cells import cell_len, chop_cells

Role = Literal["title", "label", "value", "found", "here"]
"""What a piece of a line is: `found` is what a search found, `here` where it is now."""

LABELS = 20
"""Cells that labels take at most; a longer one stands above its value."""

NEST = 2
"""Cells by which the second line of a value stands further in than the first, where the label leaves no room."""

BREAKS = (" ", ",;/", ":.(){}[]=<>_-")
"""A line ends after one of these where it can, the first sort before the others."""


class Fact(Struct, frozen=True):
    """A label (may be empty) and its value, whose lines stay lines. Both are printable but for those line ends."""

    label: str
    words: str


class Section(Struct, frozen=True):
    """Facts under a title, which may be empty."""

    title: str
    facts: tuple[Fact, ...]


class Match(Struct, frozen=True):
    """A part of the label or of the words of the fact with this number."""

    fact: int
    part: Literal["label", "words"]
    start: int
    end: int


class SheetLine(Struct, frozen=True):
    """One line: a title, or a part of a fact's label and of its words; `fact` is -1 where it is about none.

    `label` and `words` are (start, end) in the text of the fact; `left` is the column where the words begin.
    """

    title: str = ""
    fact: int = -1
    label: tuple[int, int] = (0, 0)
    words: tuple[int, int] = (0, 0)
    left: int = 0


class Sheet(Struct, frozen=True):
    """Sections laid out for a width. `facts` are those of all sections, in order."""

    facts: tuple[Fact, ...]
    lines: tuple[SheetLine, ...]

    def line_of(self, match: Match) -> int:
        """The line on which a match begins."""
        spans = ((y, line) for y, line in enumerate(self.lines) if line.fact == match.fact)
        within = (y for y, line in spans if getattr(line, match.part)[1] > match.start)
        return next(within, 0)

    def pieces(self, y: int, matches: Sequence[Match], here: int) -> Iterator[tuple[str, Role]]:
        """What stands on a line, from its left end; `here` is the number of the match where a walk is."""
        line = self.lines[y]
        if line.fact < 0:
            yield line.title, "title"
            return
        fact = self.facts[line.fact]
        roles: dict[str, list[tuple[int, int, Role]]] = {"label": [], "words": []}
        for number, match in enumerate(matches):
            if match.fact == line.fact:
                roles[match.part].append((match.start, match.end, "here" if number == here else "found"))
        yield from _marked(fact.label, line.label, roles["label"], "label")
        taken = cell_len(fact.label[slice(*line.label)])
        yield " " * max(0, line.left - taken), "value"
        yield from _marked(fact.words, line.words, roles["words"], "value")


def laid_out(sections: Sequence[Section], width: int) -> Sheet:
    """Sections one under the other, each with its labels on one edge, in `width` cells."""
    facts, lines = list[Fact](), list[SheetLine]()
    for section in sections:
        if not section.facts and not section.title:
            continue
        if lines:
            lines.append(SheetLine())
        if section.title:
            lines.append(SheetLine(section.title))
        left = _left(section.facts, width)
        for fact in section.facts:
            lines += _lines(len(facts), fact, left, max(1, width))
            facts.append(fact)
    return Sheet(tuple(facts), tuple(lines))


def matches(facts: Sequence[Fact], needle: str) -> list[Match]:
    """Where `needle` stands in labels and words, in any case, in order."""
    low = needle.casefold()
    found = list[Match]()
    for number, fact in enumerate(facts):
        found += [Match(number, "label", *span) for span in _spans(fact.label, low)]
        found += [Match(number, "words", *span) for span in _spans(fact.words, low)]
    return found


def wrapped(words: str, first: int, rest: int) -> list[tuple[int, int]]:
    """The lines of `words` as (start, end) in them: the first of `first` cells at most, the others of `rest`.

    Ends of lines stay; a longer line is broken after a space or a sign where there is one in its second half.
    """
    spans, start = list[tuple[int, int]](), 0
    for line in words.split("\n"):
        end = start + len(line)
        at = start
        while True:
            room = max(1, rest if spans else first)
            reach = at + _fitting(words[at:end], room)
            if reach >= end:
                spans.append((at, end))
                break
            cut = _break(words, at, reach)
            spans.append((at, cut))
            at = cut + (words[cut] == " ")
        start = end + 1
    return spans


def _left(facts: Sequence[Fact], width: int) -> int:
    """The column where values begin."""
    most = min(LABELS, max(0, width // 2 - 2))
    longest = max((size for fact in facts if (size := cell_len(fact.label)) <= most), default=0)
    return longest + 2 if longest else NEST if any(fact.label for fact in facts) else 0


def _lines(number: int, fact: Fact, left: int, width: int) -> Iterator[SheetLine]:
    label = cell_len(fact.label)
    beside = label + 2 <= left or not label
    if not beside:
        for span in wrapped(fact.label, width, width):
            yield SheetLine(fact=number, label=span)
    hang = 0 if left else NEST
    for place, span in enumerate(wrapped(fact.words, width - left, width - left - hang)):
        shown = (0, len(fact.label)) if beside and place == 0 else (0, 0)
        nested = hang if place and fact.words[span[0] - 1 : span[0]] != "\n" else 0
        yield SheetLine(fact=number, label=shown, words=span, left=left + nested)


def _fitting(words: str, room: int) -> int:
    """How many characters of `words` fit in so many cells; one at least."""
    head = words[: room + 1]
    if head.isascii():
        return min(len(head), room) or 1
    return max(1, len(chop_cells(words[: room * 2], room)[0])) if words else 0


def _break(words: str, start: int, reach: int) -> int:
    """Where a line that begins at `start` ends, at `reach` at the latest."""
    if words[reach] == " ":
        return reach
    half = start + (reach - start) // 2
    for signs in BREAKS:
        cut = max(words.rfind(sign, half, reach) for sign in signs)
        if cut > half:
            return cut if signs == " " else cut + 1
    return reach


def _spans(text: str, low: str) -> Iterator[tuple[int, int]]:
    """Where a needle in small letters stands; letters whose small form is longer are taken as they are."""
    folded = text.casefold()
    folded = folded if len(folded) == len(text) else text
    at = folded.find(low) if low else -1
    while at >= 0:
        yield at, at + len(low)
        at = folded.find(low, at + len(low))


def _marked(
    text: str, span: tuple[int, int], found: Sequence[tuple[int, int, Role]], role: Role
) -> Iterator[tuple[str, Role]]:
    """A part of a text, cut where matches begin and end."""
    at, last = span
    for start, end, kind in found:
        low, high = max(at, start), min(last, end)
        if low < high:
            if at < low:
                yield text[at:low], role
            yield text[low:high], kind
            at = high
    if at < last:
        yield text[at:last], role
