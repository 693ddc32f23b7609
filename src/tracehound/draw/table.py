"""A result -> aligned lines of text for a width, for the text report.

Owns which columns a width has room for, what is cut and how that is said. Knows nothing of streams, colours or forms.
Nothing ever wraps: a row is one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from tracehound.analysis.result import Column, Result
from tracehound.analysis.trees import depths, stem
from tracehound.draw.apart import apart, fitted
from tracehound.draw.cells import (
    alignment,
    covers,
    heading,
    meanings,
    naming,
    readable,
    telling,
    valued,
    void,
    weighed,
    words,
)
from tracehound.draw.indents import indents
from tracehound.draw.notes import note_texts
from tracehound.draw.wrap import wrap
from tracehound.errors import printable
from tracehound.units import TimeUnit, instant, middle

Role = Literal["title", "caption", "head", "row", "detail", "note"]

GAP = "  "
INDENT = "    "
READABLE = 24
"""Words are not cut further than this, in characters, while a column that is not brief could make way."""

NARROWEST = 10
"""Words are not cut further than this while any other column could make way."""

VERDICT = 18
"""What is to be thought of a change has so many, likewise."""

NAMED = 24
"""The words that say what a row is about have so many cells, or a third of the line, while others could make way."""

UNLIMITED = 1 << 30
"""A width that every table has room in."""


class Line(Struct, frozen=True):
    """One line and what it is, so that a face can give it a look."""

    text: str
    role: Role = "row"


class _Block(Struct, frozen=True):
    """A column's words, below a heading of one or two lines, and how wide they are; in a tree with what leads in.

    They keep `floor` cells whatever words are cut to. It is `void` where it measures nothing in any row.
    """

    column: Column
    head: tuple[str, str]
    cells: list[str]
    width: int
    leads: Sequence[str] = ()
    floor: int = 0
    void: bool = False

    def least(self, words: int) -> int:
        """How narrow it may be drawn where words may be cut to so many characters; numbers are never cut."""
        if alignment(self.column) == "right":
            return self.width
        return min(self.width, max(words, self.floor) + max(map(len, self.leads), default=0))

    def drawn(self, room: int) -> list[str]:
        """The words of all rows in so many cells: different ones are told apart, what leads in is cut after them."""
        if self.leads:
            both = zip(self.leads, self.cells, strict=True)
            return [lead + fitted(cell, max(1, room - len(lead))) for lead, cell in both]
        if room >= self.width:
            return self.cells
        short = apart(self.cells, room)
        return [short[cell] for cell in self.cells]


class _Layout(Struct, frozen=True):
    """What stands side by side, what of every row takes lines of its own, and what there is no room for."""

    beside: list[_Block]
    below: list[list[str]]
    missing: list[_Block]


def table(result: Result, width: int, unit: TimeUnit = "auto") -> list[Line]:
    """Title, header, rows and notes of a result, in lines of at most `width` characters."""
    layout = _layout(result, width, unit)
    texts = []
    if not result.table.is_empty():
        texts += _missing(layout.missing, "in these rows" if result.cut else "")
        texts += meanings([block.column for block in layout.beside])
    return [*caption(result, width, unit), *_rows(layout, width), *notes([*texts, *note_texts(result.notes)], width)]


def caption(result: Result, width: int, unit: TimeUnit = "auto") -> list[Line]:
    """The title with the window and how many rows there are of how many."""
    facts = [result.title]
    if result.window is not None:
        facts.append(f"window {instant(result.window[0], unit)} to {instant(result.window[1], unit)}")
    facts.extend([result.cut] if result.cut else [])
    return [Line(line, "title") for line in wrapped(" · ".join(facts), width)]


def body(result: Result, width: int, unit: TimeUnit = "auto") -> list[Line]:
    """Header and rows; a word in their place when there are none.

    Columns that measure nothing in any row make way first, then those that are not `brief` (what tells rows of one name
    apart is, see `telling`, and what takes a good part of their time, see `weighed`), then words are cut in the middle,
    then columns go from the right, the one by which the rows come last (a change and its verdict, too); the words that
    say what a row is about are cut last. What host threads did takes lines of its own below its row where not
    everything fits side by side; so do sentences, below the whole of what they are about where that is cut.
    """
    return _rows(_layout(result, width, unit), width)


def notes(texts: Sequence[str], width: int) -> list[Line]:
    """What is to be known of a table, below it."""
    return [Line(line, "note") for text in texts for line in wrapped(text, width)]


def wrapped(text: str, width: int) -> list[str]:
    """A sentence on lines of at most `width` cells; continued lines are indented."""
    return wrap(printable(text), max(width, 8), "  ") or [""]


def _layout(result: Result, width: int, unit: TimeUnit) -> _Layout:
    stands, leads = stem(result.columns), _leads(result, width)
    told = telling(weighed(valued(readable(result), result.table), result.table), result.table)
    below = _prose(result, [column for column in told if column.unit == "prose"], width)
    blocks = [
        replace(
            _block(column, words(result, column, unit), leads if column is stands else ()),
            void=void(column, result.table[column.name]),
        )
        for column in told
        if column.unit != "prose"
    ]
    if sum(block.width for block in blocks) + len(GAP) * (len(blocks) - 1) <= width:
        return _Layout(blocks, below, [])
    host = [block.column.name for block in blocks if block.column.unit == "host"] if width >= READABLE else []
    beside = _named([block for block in blocks if block.column.name not in host], width)
    kept = _kept(beside, width, _leading(result))
    below = [covers(value, width - len(INDENT)) for value in result.table[host[0]].to_list()] if host else below
    below = _whole(kept, below, width) if below and not host else below
    return _Layout(kept, below, [block for block in beside if block not in kept])


def _missing(blocks: Sequence[_Block], where: str) -> list[str]:
    """What there is no room for; by itself what would be seen to be nothing, `where` not all rows are here."""
    told = []
    empty = f"no room for, and empty {where}" if where else "no room for, and nothing in"
    for what, void_ones in (("no room for", False), (empty, True)):
        names = [heading(block.column) for block in blocks if block.void is void_ones]
        told += [f"{what}: {', '.join(names)}"] if names else []
    return told


def _whole(blocks: Sequence[_Block], below: Sequence[list[str]], width: int) -> list[list[str]]:
    """What is below the rows, with the words of the first column above it where they are cut."""
    room = _widths(blocks, width)[0]
    cut = ([cell] if cell_len(cell) > room else [] for cell in blocks[0].cells)
    broken = ([line for cell in cells for line in wrap(cell, max(width - len(INDENT), 8))] for cells in cut)
    return [[*words, *lines] for words, lines in zip(broken, below, strict=True)]


def _named(blocks: Sequence[_Block], width: int) -> list[_Block]:
    """The blocks, of which those that say what a row is about, and what is to be thought of it, keep their cells."""
    name = naming([block.column for block in blocks], {block.column.name: len({*block.cells}) for block in blocks})
    kept = [(block, NAMED if block.column.name == name else VERDICT * compared(block.column)) for block in blocks]
    return [replace(block, floor=min(floor, width // 3)) for block, floor in kept]


def _prose(result: Result, columns: Sequence[Column], width: int) -> list[list[str]]:
    """The sentences of every row, each behind the name of its column."""
    if not columns:
        return []
    room = max(len(heading(column)) for column in columns) + len(GAP)
    found: list[list[str]] = [[] for _ in range(result.table.height)]
    for column in columns:
        for lines, value in zip(found, result.table[column.name].to_list(), strict=True):
            broken = wrap(printable(value or ""), max(width - len(INDENT) - room, 8))
            heads = [heading(column), *("" for _ in broken[1:])]
            lines.extend(f"{head:<{room}}{text}" for head, text in zip(heads, broken, strict=False))
    return found


def _leads(result: Result, width: int) -> list[str]:
    """What stands before the names of a tree's rows; nothing where the result is none."""
    deep = depths(result.table, result.columns)
    if deep is None or not len(deep):
        return []
    chosen = indents(int(deep.max()), width)
    return [chosen.of(depth) for depth in deep.tolist()]


def _block(column: Column, cells: list[str], leads: Sequence[str] = ()) -> _Block:
    """A column as wide as its cells; its heading breaks at a space where that makes it narrower."""
    sizes = (
        map(cell_len, cells)
        if not leads
        else (len(lead) + cell_len(cell) for lead, cell in zip(leads, cells, strict=True))
    )
    whole, widest = heading(column), max(sizes, default=0)
    above, _, below = whole.rpartition(" ")
    head = (above, below) if above and cell_len(whole) > widest else ("", whole)
    return _Block(column, head, cells, max(widest, *map(cell_len, head)), leads)


def _rows(layout: _Layout, width: int) -> list[Line]:
    blocks = layout.beside
    if not blocks or not blocks[0].cells:
        return [Line(middle("  nothing to show", width), "caption")]
    widths = _widths(blocks, width)
    heads = [_row([block.head[n] for block in blocks], blocks, widths, width) for n in (0, 1)]
    lines = [Line(head, "head") for head in heads if head]
    columns = [block.drawn(room) for block, room in zip(blocks, widths, strict=True)]
    for number, cells in enumerate(zip(*columns, strict=True)):
        lines.append(Line(_row(cells, blocks, widths, width)))
        if layout.below:
            lines += [Line(_clipped(f"{INDENT}{text}", width), "detail") for text in layout.below[number]]
    return lines


def _clipped(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _leading(result: Result) -> str:
    """The column of times by which the rows come, the longest first; empty where they come otherwise."""
    if result.table.height < 2:
        return ""
    times = [column.name for column in result.columns if column.unit == "time" and column.brief]
    return next((name for name in times if result.table[name].is_sorted(descending=True, nulls_last=True)), "")


def _kept(blocks: Sequence[_Block], width: int, leading: str) -> list[_Block]:
    """The blocks that fit side by side; at least the first. The `leading` column goes last."""
    kept = list(blocks)
    empty = sorted((block for block in blocks if block.void), key=lambda block: not block.column.brief)
    others = [block for block in blocks if not (block.void or block.column.brief)]
    brief = [block for block in blocks if block.column.brief and not block.void]
    brief.sort(key=lambda block: not (block is blocks[0] or block.column.name == leading or compared(block.column)))
    for going, least in ((empty, READABLE), (others, READABLE), (brief, NARROWEST)):
        for block in reversed(going):
            if _needed(kept, least) > width and len(kept) > 1:
                kept = [other for other in kept if other is not block]
    return kept


def compared(column: Column) -> bool:
    """Whether it is what two runs are compared for: a change, or what is to be thought of it."""
    return column.unit == "difference" or column.name == "verdict"


def _needed(blocks: Sequence[_Block], words: int) -> int:
    return sum(block.least(words) for block in blocks) + len(GAP) * (len(blocks) - 1)


def _widths(blocks: Sequence[_Block], width: int) -> list[int]:
    """How wide each block is drawn: words are cut to one width, the widest that lets all fit."""
    low, high = 1, max(block.width for block in blocks)
    while low < high:
        between = (low + high + 1) // 2
        low, high = (between, high) if _needed(blocks, between) <= width else (low, between - 1)
    return [block.least(low) for block in blocks]


def _row(cells: Sequence[str], blocks: Sequence[_Block], widths: Sequence[int], width: int) -> str:
    parts = []
    for text, block, room in zip(cells, blocks, widths, strict=True):
        fit = fitted(text, room)
        space = " " * (room - cell_len(fit))
        parts.append(space + fit if alignment(block.column) == "right" else fit + space)
    line = GAP.join(parts).rstrip()
    return line if cell_len(line) <= width else middle(line, width)
