"""Labeled values as the lines of a sheet, and the matches of a search in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from rich.cells import cell_len

from tracehound.draw.text_wrapping import wrap_spans

SheetRole = Literal["title", "label", "value", "found", "here"]
"""The role of a piece of a line: `found` is a match of a search, `here` the current one."""

MOST_LABEL_CELLS = 20
"""Cells of labels at most; a longer one stands above its value."""

HANGING_INDENT = 2
"""Indentation of the second line of a value if the label leaves no room."""


class Fact(Struct, frozen=True):
    """A label (may be empty) and its value, which can have several lines. Both are printable but for line ends."""

    label: str
    words: str


class FactSection(Struct, frozen=True):
    """Facts under a title, which may be empty."""

    title: str
    facts: tuple[Fact, ...]


class FactMatch(Struct, frozen=True):
    """A match in the label or the words of the fact with this number."""

    fact: int
    part: Literal["label", "words"]
    start: int
    end: int


class FactLine(Struct, frozen=True):
    """One line: a title, or a part of a fact's label and of its words; `fact` is -1 without a fact.

    `label` and `words` are (start, end) in the text of the fact; `left` is the column where the words begin.
    """

    title: str = ""
    fact: int = -1
    label: tuple[int, int] = (0, 0)
    words: tuple[int, int] = (0, 0)
    left: int = 0


class FactLayout(Struct, frozen=True):
    """Sections laid out for a width. `facts` are those of all sections, in order."""

    facts: tuple[Fact, ...]
    lines: tuple[FactLine, ...]

    def line_of(self, match: FactMatch) -> int:
        """The line on which a match begins."""
        spans = ((y, line) for y, line in enumerate(self.lines) if line.fact == match.fact)
        within = (y for y, line in spans if getattr(line, match.part)[1] > match.start)
        return next(within, 0)

    def pieces(self, y: int, matches: Sequence[FactMatch], here: int) -> Iterator[tuple[str, SheetRole]]:
        """The pieces of a line, from its left end; `here` is the number of the current match."""
        line = self.lines[y]
        if line.fact < 0:
            yield line.title, "title"
            return
        fact = self.facts[line.fact]
        roles: dict[str, list[tuple[int, int, SheetRole]]] = {"label": [], "words": []}
        for number, match in enumerate(matches):
            if match.fact == line.fact:
                roles[match.part].append((match.start, match.end, "here" if number == here else "found"))
        yield from _split_at_matches(fact.label, line.label, roles["label"], "label")
        taken = cell_len(fact.label[slice(*line.label)])
        yield " " * max(0, line.left - taken), "value"
        yield from _split_at_matches(fact.words, line.words, roles["words"], "value")


def lay_out_sheet(sections: Sequence[FactSection], width: int) -> FactLayout:
    """Sections one below the other in `width` cells; labels of a section are aligned."""
    facts, lines = list[Fact](), list[FactLine]()
    for section in sections:
        if not section.facts and not section.title:
            continue
        if lines:
            lines.append(FactLine())
        if section.title:
            lines.append(FactLine(section.title))
        left = _value_column(section.facts, width)
        for fact in section.facts:
            lines += _fact_lines(len(facts), fact, left, max(1, width))
            facts.append(fact)
    return FactLayout(tuple(facts), tuple(lines))


def find_matches(facts: Sequence[Fact], needle: str) -> list[FactMatch]:
    """All matches of `needle` in labels and words, case-insensitive, in order."""
    low = needle.casefold()
    found = list[FactMatch]()
    for number, fact in enumerate(facts):
        found += [FactMatch(number, "label", *span) for span in _find_needle_spans(fact.label, low)]
        found += [FactMatch(number, "words", *span) for span in _find_needle_spans(fact.words, low)]
    return found


def _value_column(facts: Sequence[Fact], width: int) -> int:
    """The column where values begin."""
    most = min(MOST_LABEL_CELLS, max(0, width // 2 - 2))
    longest = max((size for fact in facts if (size := cell_len(fact.label)) <= most), default=0)
    return longest + 2 if longest else HANGING_INDENT if any(fact.label for fact in facts) else 0


def _fact_lines(number: int, fact: Fact, left: int, width: int) -> Iterator[FactLine]:
    label = cell_len(fact.label)
    beside = label + 2 <= left or not label
    if not beside:
        for span in wrap_spans(fact.label, width, width):
            yield FactLine(fact=number, label=span)
    hang = 0 if left else HANGING_INDENT
    for index, span in enumerate(wrap_spans(fact.words, width - left, width - left - hang)):
        shown = (0, len(fact.label)) if beside and index == 0 else (0, 0)
        nested = hang if index and fact.words[span[0] - 1 : span[0]] != "\n" else 0
        yield FactLine(fact=number, label=shown, words=span, left=left + nested)


def _find_needle_spans(text: str, low: str) -> Iterator[tuple[int, int]]:
    """Spans of a needle in lower case. A text whose lower case is longer is compared as it is."""
    folded = text.casefold()
    folded = folded if len(folded) == len(text) else text
    at = folded.find(low) if low else -1
    while at >= 0:
        yield at, at + len(low)
        at = folded.find(low, at + len(low))


def _split_at_matches(
    text: str, span: tuple[int, int], found: Sequence[tuple[int, int, SheetRole]], role: SheetRole
) -> Iterator[tuple[str, SheetRole]]:
    """A part of a text, cut at the ends of matches."""
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
