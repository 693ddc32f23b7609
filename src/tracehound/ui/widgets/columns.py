"""Which columns of a result fit on a line of a pane, and how wide each is.

Owns the widths. Knows nothing of widgets or colours: words come from `draw.cells`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from tracehound.analysis.result import TEXTS, Column
from tracehound.analysis.trees import depths, stem
from tracehound.draw.apart import MOST, apart, fitted
from tracehound.draw.cells import COMPARED, alignment, cell, heading, naming, telling, valued, void, weighed
from tracehound.draw.indents import STEP, indents
from tracehound.draw.table import NAMED, compared
from tracehound.ui.state.sheet import ASIDE

SAMPLE = 200
"""Rows that are looked at to find how wide a column is, besides those with its extreme values."""

GAP = 2

MOVED = 24
"""Cells by which the deepest names of a tree are moved in, as far as the width of their column goes."""

MARK = 2
"""Cells of the mark before a tree's name, which says whether the row is folded."""

READABLE, NARROWEST = 20, 8
"""Widths of a text column below which rather other columns go, and below which it is not cut."""

HEADED = 12
"""The heading of numbers is not cut below this width."""


class Placed(Struct, frozen=True):
    """A column, and where on the line it stands; one of them `names` the rows.

    `short` has what stands for a text that does not fit, different from what stands for the other texts.
    """

    column: Column
    left: int
    width: int
    names: bool = False
    short: Mapping[str, str] = MappingProxyType({})

    def fits(self, text: str, lead: str = "") -> str:
        """`text` in exactly the column's width, after what leads in; by its short form where there is one."""
        text = text if lead else self.short.get(text, text)
        text = fitted(lead + fitted(text, max(1, self.width - cell_len(lead))), self.width)
        pad = " " * (self.width - cell_len(text))
        return pad + text if alignment(self.column) == "right" else text + pad


class Needed(Struct, frozen=True):
    """A column, the cells that its heading and words need, and how many different values its rows have.

    `words` are the cells that its words alone need, `deepest` is the level of its deepest row, -1 where its words are
    not moved in. It is `void` where it measures nothing in any row, or has the same word in all, and nobody wants it.
    """

    column: Column
    width: int
    distinct: int
    words: int
    deepest: int = -1
    void: bool = False

    def lead(self, line: int) -> int:
        """Cells that words are moved in at most, and their mark, on a line of so many."""
        return len(indents(self.deepest, line).of(self.deepest)) + MARK if self.deepest >= 0 else 0


def needed(columns: Sequence[Column], rows: pl.DataFrame, wanted: Collection[str] = ()) -> tuple[Needed, ...]:
    """What the columns that have values need, whatever the width of a line is; some are `wanted` though void."""
    shown = valued([column for column in columns if column.unit not in ASIDE], rows)
    return tuple(_needed(column, rows[column.name], wanted) for column in telling(weighed(shown, rows), rows))


def _needed(column: Column, values: pl.Series, wanted: Collection[str]) -> Needed:
    words, tells = _width(column, values), column.name in wanted or not (void(column, values) or _same(column, values))
    width = max(words, cell_len(heading(column)))
    return Needed(column, width, values.head(SAMPLE).n_unique(), words, void=not tells)


def _same(column: Column, values: pl.Series) -> bool:
    """Whether a text says the same of every row, and so nothing of any; what is found of rows may be so of all."""
    return column.unit == "text" and not column.found and len(values) > 1 and values.n_unique() == 1


def moved(columns: Sequence[Needed], rows: pl.DataFrame, every: Sequence[Column]) -> tuple[Needed, ...]:
    """The same for rows of a tree, whose names are moved in; `every` column of the result tells how far."""
    deep, name = depths(rows, every), stem(every)
    if deep is None or name is None or not deep.any():
        return tuple(columns)
    leads = np.minimum(deep * STEP, MOVED) + MARK
    farthest = int(np.argmax(leads + rows[name.name].str.len_chars().fill_null(0).to_numpy()))
    deepest, words = int(deep.max()), int(leads[farthest]) + cell_len(cell(name, rows[name.name][farthest]))
    return tuple(
        replace(needs, width=max(needs.width, words), deepest=deepest) if needs.column.name == name.name else needs
        for needs in columns
    )


def place(columns: Sequence[Needed], width: int) -> tuple[Placed, ...]:
    """The columns that a line of `width` cells shows.

    Void ones make way first, then those that are not brief, of each the last ones first. Text is cut before a column
    goes, first where few rows differ, but the one that says what a row is about last and not below `NAMED` cells or a
    third of the line; it shares these with a brief one that tells rows of one name apart, and with the verdict of a
    comparison, two thirds for each. Headings
    of numbers are cut where all columns fit then. What still does not fit reaches beyond the edge; texts before it take
    the cells that it leaves blank.
    """
    widths = {needs.column.name: needs.width for needs in columns}
    leads = {needs.column.name: needs.lead(width) for needs in columns}
    shown = [needs.column for needs in columns]
    names = naming(shown, {needs.column.name: needs.distinct for needs in columns})
    floors = _floors(columns, names, width)
    least = {c.name: max(READABLE, floors[c.name]) + leads[c.name] for c in shown}
    empty = sorted((needs.column for needs in reversed(columns) if needs.void), key=lambda column: column.brief)
    others = [column for column in shown if not column.brief and column.name != names and column not in empty]
    for column in (*empty, *reversed(others)):
        if _line(shown, {c.name: _cut(c, widths[c.name], least[c.name]) for c in shown}) > width and len(shown) > 1:
            shown = [other for other in shown if other is not column]
    texts = [needs for needs in columns if needs.column in shown and needs.column.unit in TEXTS]
    for words in (READABLE, NARROWEST):
        for needs in sorted(texts, key=lambda needs: (needs.column.name == names, needs.distinct)):
            name, spare = needs.column.name, width - _line(shown, widths)
            widths[name] = max(min(widths[name], max(words, floors[name]) + leads[name]), widths[name] + min(0, spare))
    kept = [needs for needs in columns if needs.column in shown]
    widths |= _headed(kept, widths, width)
    widths |= _grown(kept, widths, names, width)
    result, left = [], 0
    for column in shown:
        result.append(Placed(column, left, widths[column.name], column.name == names))
        left += widths[column.name] + GAP
    return tuple(result)


def _floors(columns: Sequence[Needed], names: str, width: int) -> dict[str, int]:
    """The cells that each column keeps whatever words are cut to."""
    many = max((needs.distinct for needs in columns if needs.column.name == names), default=0)
    brief = (needs for needs in columns if needs.column.brief and needs.column.unit == "text")
    tells = {needs.column.name for needs in brief if names == "name" and needs.distinct > many}
    tells |= {needs.column.name for needs in columns if compared(needs.column) and needs.column.unit in TEXTS}
    least = min(NAMED, width // 3) * 2 // 3 if tells else min(NAMED, width // 3)
    return {needs.column.name: least if needs.column.name in {names, *tells} else 0 for needs in columns}


def _headed(columns: Sequence[Needed], widths: Mapping[str, int], width: int) -> dict[str, int]:
    """The widths of columns of numbers whose headings are cut so that all columns fit; none where none do even so."""
    over = _line([needs.column for needs in columns], widths) - width
    numbers = [needs for needs in columns if needs.column.unit not in TEXTS]
    gains = {needs.column.name: max(0, needs.width - max(needs.words, HEADED)) for needs in numbers}
    found: dict[str, int] = {}
    for name in sorted(gains, key=lambda name: -gains[name]) if 0 < over <= sum(gains.values()) else ():
        gain = min(gains[name], over)
        found[name], over = widths[name] - gain, over - gain
    return found


def _grown(columns: Sequence[Needed], widths: Mapping[str, int], names: str, width: int) -> dict[str, int]:
    """The widths of texts that are cut before blank cells: the name grows first, and stays in place yet."""
    ends = list(accumulate(widths[needs.column.name] + GAP for needs in columns))
    seen = [needs for needs, end in zip(columns, ends, strict=True) if end - GAP <= width]
    order = [needs.column.name for needs in seen]
    spare = width + GAP - (ends[len(seen) - 1] if seen else width + GAP)
    end = ends[order.index(names)] - GAP if names in order else 0
    stays = width * 2 // 3 - end if 0 < end * 3 <= width * 2 else spare
    found: dict[str, int] = {}
    texts = [needs for needs in seen if needs.column.unit in TEXTS]
    for needs in sorted(texts, key=lambda needs: (needs.column.name != names, -needs.distinct)):
        name = needs.column.name
        before = names in order and order.index(name) <= order.index(names)
        gain = max(0, min(needs.width - widths[name], spare, stays if before else spare))
        found[name], spare, stays = widths[name] + gain, spare - gain, stays - (gain if before else 0)
    return found


def told_apart(places: Sequence[Placed], rows: pl.DataFrame) -> tuple[Placed, ...]:
    """The same, with the names that are cut cut so that those of different rows stay different."""
    return tuple(_told_apart(placed, rows[placed.column.name]) for placed in places)


def _told_apart(placed: Placed, values: pl.Series) -> Placed:
    if placed.column.unit != "text" or len(values) > COMPARED:
        return placed
    different = values.unique().drop_nulls()
    if len(different) > MOST:
        return placed
    texts = [cell(placed.column, value) for value in different]
    if all(cell_len(text) <= placed.width for text in texts):
        return placed
    return replace(placed, short=apart(texts, placed.width))


def arranged(columns: Sequence[Needed], rows: pl.DataFrame, width: int) -> tuple[Placed, ...]:
    """The columns of these rows that a line shows, with different names told apart.

    A column of names takes no more cells than what stands for them: a kernel without its template leaves some.
    """
    places = told_apart(place(columns, width), rows)
    trees = {needs.column.name for needs in columns if needs.deepest >= 0}
    cut = {placed.column.name: placed for placed in places if placed.short and placed.column.name not in trees}
    taken = {name: cells for name, placed in cut.items() if (cells := _taken(placed)) < placed.width}
    if not taken:
        return places
    modest = [replace(needs, width=taken.get(needs.column.name, needs.width)) for needs in columns]
    again = told_apart(place(modest, width), rows)
    same = [placed.width == taken.get(placed.column.name) for placed in again]
    return tuple(
        replace(placed, short=cut[placed.column.name].short) if kept else placed
        for placed, kept in zip(again, same, strict=True)
    )


def _taken(placed: Placed) -> int:
    """The cells that the heading of a column and its short names need."""
    return max(map(cell_len, (heading(placed.column), *placed.short.values())))


def sighted(places: Sequence[Placed], left: int, width: int) -> tuple[Placed, ...]:
    """The columns that are in sight as a whole, and where, when a line of `width` cells is scrolled `left` cells.

    What says what a row is about, and what stands before it, stays where it is, unless little room would be left.
    """
    end = fixed(places, width)
    stay = [placed for placed in places if placed.left + placed.width <= end]
    low = end + GAP if stay else 0
    others = [replace(placed, left=placed.left - left) for placed in places[len(stay) :] if placed.left - left >= low]
    whole = [placed for placed in others if placed.left + placed.width <= width]
    return (*stay, *(whole or others[:1]))  # one that is wider than the line is cut


def scrolled(places: Sequence[Placed], name: str, left: int, width: int) -> int:
    """How far such a line has to be scrolled, from `left` on, for the column of that name to be in sight."""
    end = fixed(places, width)
    for placed in places:
        if placed.column.name == name and placed.left >= end:
            return min(placed.left - (end + GAP if end else 0), max(left, placed.left + placed.width - width))
    return left


def fixed(places: Sequence[Placed], width: int) -> int:
    """The cells of a line of `width` that do not scroll: up to the end of the names, 0 where that is too far."""
    end = next((placed.left + placed.width for placed in places if placed.names), 0)
    return end if end * 3 <= width * 2 else 0


def _width(column: Column, values: pl.Series) -> int:
    """Cells that the words of the first rows and those of the extreme values need."""
    sample = [*values.head(SAMPLE).to_list(), *_extremes(values)]
    return max((cell_len(cell(column, value)) for value in sample), default=0)


def _extremes(values: pl.Series) -> list[object]:
    """The least and the largest number, or the longest text, wherever they stand."""
    if values.dtype.is_numeric():
        return [values.min(), values.max()]
    if values.dtype == pl.String:
        longest = values.str.len_bytes().arg_max()
        return [] if longest is None else [values[longest]]
    return []


def _cut(column: Column, width: int, most: int) -> int:
    return min(width, most) if column.unit in TEXTS else width


def _line(columns: Sequence[Column], widths: Mapping[str, int]) -> int:
    return sum(widths[column.name] for column in columns) + GAP * (len(columns) - 1)
