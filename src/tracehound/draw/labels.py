"""Rows of a result -> what they are called beside a chart, so that they are told apart.

Owns which columns that takes, and how they share the room. Knows no chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import polars as pl
from rich.cells import cell_len, set_cell_size

from tracehound.analysis.result import Column, Result, Unit
from tracehound.analysis.trees import depths
from tracehound.draw.apart import apart
from tracehound.draw.cells import NOTHING, cell, heading, readable, valued

KEYS: Final = ("rank", "step")
"""Numbers that stand before a name where they are not the same in all rows."""

PART: Final = 3
"""A label takes at most one part in so many of the width; one of two texts, or of three columns, half of it."""

MORE: Final = 2
"""Columns that join the name at most where rows look alike; each tells apart more than half of those that did."""

LOOKED_AT: Final = 10_000
"""Rows that are compared; more of them would be felt at every key."""

LEAST: Final = 8
"""Cells that texts have, whatever stands beside them."""


def labels(result: Result, rows: pl.DataFrame, width: int) -> list[str]:
    """What some rows of a result are called, all as wide, in a chart of this `width`."""
    columns = telling(result)
    if not columns:
        return [NOTHING] * rows.height
    texts = [column for column in columns if column.unit == "text"]
    most = width // (2 if len(texts) > 1 or len(columns) > 2 else PART)
    words = {column.name: [_words(column, value) for value in rows[column.name].to_list()] for column in columns}
    taken = sum(max(map(cell_len, words[column.name]), default=0) + 1 for column in columns if column not in texts)
    words |= _short({column.name: words[column.name] for column in texts}, max(LEAST, most - taken))
    whole = [" ".join(filter(None, parts)) or NOTHING for parts in zip(*words.values(), strict=True)]
    room = min(max(map(cell_len, whole), default=0), most)
    return [set_cell_size(label, room) for label in whole]


def telling(result: Result) -> list[Column]:
    """The columns that say which a row is: rank and step where they differ, its name, and what else it takes.

    The name is the column of that name, else the first text in which rows differ. It is left out where it is not brief
    and rank and step say all. A tree says by its branches what its rows are.
    """
    columns, rows = valued(readable(result), result.table), result.table.head(LOOKED_AT)
    keys = [column for column in columns if column.name in KEYS and column.brief]
    chosen = [column for column in keys if rows[column.name].n_unique() > 1]
    texts = sorted((column for column in columns if column.unit == "text"), key=lambda column: not column.brief)
    differing = [column for column in texts if rows[column.name].n_unique() > 1 or column.name == "name"]
    names = sorted(differing or texts, key=lambda column: column.name != "name")[:1]
    chosen += [name for name in names if name.brief or _alike(rows, chosen)]
    deep = depths(rows, result.columns)
    for _ in range(MORE if deep is None or not deep.any() else 0):
        alike, ways = _alike(rows, chosen), [[*chosen, other] for other in _others(columns) if other not in chosen]
        best = min(ways, key=lambda way: _alike(rows, way), default=chosen)
        chosen = best if _alike(rows, best) * 2 < alike else chosen
    return sorted(chosen or keys, key=lambda column: (_PLACES.get(column.unit, 0), columns.index(column)))


_PLACES: Final[Mapping[Unit, int]] = MappingProxyType({"text": 1, "instant": 2})
"""Where columns stand in a label, by their units; numbers come first."""


def _others(columns: Sequence[Column]) -> list[Column]:
    """What may tell rows apart beside their names, what people would rather read first."""
    kinds = {
        unit: [column for column in columns if column.unit == unit] for unit in ("text", "number", "instant", "count")
    }
    keys = [column for column in kinds["count"] if column.name in KEYS]
    short, long = ([column for column in kinds["text"] if column.brief is brief] for brief in (True, False))
    return [*short, *keys, *kinds["number"], *kinds["instant"], *long, *kinds["count"]]


def _alike(rows: pl.DataFrame, columns: Sequence[Column]) -> int:
    """How many rows have in all of these columns what one before has."""
    names = [column.name for column in columns]
    return rows.height - (rows.select(pl.struct(names).n_unique()).item() if names else min(1, rows.height))


def _words(column: Column, value: object) -> str:
    if value is None:
        return "all ranks" if column.name == "rank" else ""
    if column.unit == "text":
        return cell(column, value)
    return f"{'at' if column.unit == 'instant' else heading(column)} {cell(column, value)}"


def _short(texts: dict[str, list[str]], room: int) -> dict[str, list[str]]:
    """Texts that stand side by side in so many cells, each cut so that those of different rows stay different."""
    found, left = dict(texts), room - (len(texts) - 1)
    needs = {name: max(map(cell_len, cells), default=0) for name, cells in texts.items()}
    for place, name in enumerate(sorted(needs, key=lambda name: needs[name])):
        share = min(needs[name], left // (len(needs) - place))
        left -= share
        short = apart(texts[name], max(1, share))
        found[name] = [short[text] for text in texts[name]]
    return found
