"""One raw value of a result -> the words in its cell, for panes and for reports alike.

Owns which words a unit has and on which side of its column they stand. Knows nothing of widths, colours or forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import polars as pl
from msgspec.structs import replace

from tracehound import units
from tracehound.analysis.result import TEXTS, Column, Result, Unit
from tracehound.analysis.trees import depth_of
from tracehound.errors import printable
from tracehound.units import plural

NOTHING = "–"
"""What stands where there is no value."""

COMPARED: Final = 20_000
"""Rows that are compared by their names; of more, finding out which are different would be felt at a key."""

SHARED: Final = 20
"""Up to one row in so many may have a name that another has, too, before something else must tell rows apart."""

AMOUNTS: Final[tuple[Unit, ...]] = (
    "time", "bytes", "rate", "flops", "share", "count", "decimal", "difference", "growth",
)  # fmt: skip
"""Units of numbers that say how much."""

WHICH: Final = ("rank", "step", "ordinal")
"""Columns whose numbers say which, and not how much."""

MOST = 4
"""How many host threads, or pools of them, are named of those that were at work in a gap."""


def cell(column: Column, value: object, unit: units.TimeUnit = "auto") -> str:
    """The words for `value`, on one line and safe to print; `unit` is for times.

    None, NaN and an empty list read ``–``; an `id` has no words.
    """
    if column.unit == "id":
        return ""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    if column.unit == "flag":
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(column.unit, value, unit)
    if column.unit == "host":
        return "; ".join(covers(value)) or NOTHING
    return printable(str(value)) or NOTHING


def alignment(column: Column) -> Literal["left", "right"]:
    """Numbers stand on the right, words on the left."""
    return "left" if column.unit in (*TEXTS, "flag", "host") else "right"


def heading(column: Column) -> str:
    """The name of a column as people write it; who asks a query may give any."""
    return printable(column.name.replace("_", " "))


def shown(result: Result) -> tuple[Column, ...]:
    """The columns that have words: all but ids."""
    return tuple(column for column in result.columns if column.unit != "id")


def readable(result: Result) -> tuple[Column, ...]:
    """The columns that people read: the depth of a tree's row is read from where its name stands."""
    return tuple(column for column in shown(result) if column.unit != "depth")


def valued(columns: Sequence[Column], table: pl.DataFrame) -> tuple[Column, ...]:
    """The columns of which some row has a value; all of them where none has, or where there are no rows."""
    return tuple(c for c in columns if table[c.name].null_count() < table.height) or tuple(columns)


def measures(column: Column) -> bool:
    """Whether the numbers of a column say how much."""
    return column.unit in AMOUNTS and column.name not in WHICH


def void(column: Column, values: pl.Series) -> bool:
    """Whether nothing of what a column measures is in any row: such a column is the first to make way."""
    return measures(column) and bool((values.fill_null(0) == 0).all())


def weighed(columns: Sequence[Column], table: pl.DataFrame) -> tuple[Column, ...]:
    """The columns; of those into which a time is taken apart that is brief which takes a good part of it in these rows.

    What takes next to nothing is not, and what is between is as it would be anyway.
    """
    taken = {column.name: float(table[column.name].sum()) for column in columns if column.apart}
    whole = sum(taken.values())
    if not whole:
        return tuple(columns)
    much = {name for name, time in taken.items() if time >= MUCH * whole}
    little = {name for name, time in taken.items() if 0 < time < LITTLE * whole}
    return tuple(
        replace(column, brief=(column.brief or column.name in much) and column.name not in little) for column in columns
    )


MUCH: Final = 0.05
LITTLE: Final = 0.001
"""Of a time that is taken apart, what is a good part of it, and below which it is next to nothing."""


def telling(columns: Sequence[Column], table: pl.DataFrame) -> tuple[Column, ...]:
    """The columns, of which that is brief, too, by which rows of one name are told apart: it stays where they do.

    One that was not brief stands behind the name then, so that it is not the first to be out of sight. It is the first
    text by which most of the first rows differ, and which is not `found` of them. Where few rows share a name, names
    keep their room. A tree says by its branches what its rows are.
    """
    rows = table.head(COMPARED)
    texts = [column for column in columns if column.unit == "text" and column.name != "name" and not column.found]
    named = any(column.name == "name" for column in columns) and depth_of(columns) is None
    different = rows["name"].n_unique() if named else rows.height
    if (rows.height - different) * SHARED <= rows.height or not texts:
        return tuple(columns)
    pairs = {c.name: rows.select(pl.struct("name", c.name).n_unique()).item() for c in texts}
    best = max(texts, key=lambda column: pairs[column.name])
    if best.brief or pairs[best.name] == different:
        return tuple(columns)
    others = [column for column in columns if column is not best]
    behind = 1 + next((at for at, column in enumerate(others) if column.name == "name"), -1)
    return (*others[:behind], replace(best, brief=True), *others[behind:])


def words(result: Result, column: Column, unit: units.TimeUnit = "auto") -> list[str]:
    """The cells of one column of a result, from top to bottom."""
    return [cell(column, value, unit) for value in result.table[column.name].to_list()]


def meanings(columns: Sequence[Column]) -> list[str]:
    """Of what every share is a share: ``share: self time, of the self time of all ops``; one line for each base."""
    bases: dict[str, list[Column]] = {}
    for column in columns:
        if column.unit == "share" and column.base:
            bases.setdefault(column.base, []).append(column)
    lines = []
    for base, alike in bases.items():
        names = ", ".join(heading(column) for column in alike)
        lines.append(f"{names}: {alike[0].meaning}, of {base}" if len(alike) == 1 else f"{names}: of {base}")
    return lines


def covers(value: object, width: int = 0) -> list[str]:
    """What host threads did, for a value of a `host` column: ``python: aten::addmm 62 %, aten::t 8 %``.

    A line for each of the `MOST` busiest threads; threads of one pool that did the same share one, which says how many
    they are and the largest share. With `width` the names of events are cut so that a line fits it if it can.
    """
    found = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    threads: dict[str, list[Mapping[str, Any]]] = {}
    for cover in found:
        threads.setdefault(cover["thread"], []).append(cover)
    pools: dict[tuple[str, str], list[str]] = {}
    for thread, events in threads.items():
        pools.setdefault((units.pool(thread), events[0]["event"]), []).append(thread)
    lines = []
    for (pool, _), members in list(pools.items())[:MOST]:
        if len(members) == 1:
            lines.append(_thread(printable(members[0]), threads[members[0]], width))
        else:
            most = max((threads[member][0] for member in members), key=lambda cover: float(cover["share"]))
            lines.append(_thread(f"{printable(pool)} ×{len(members)}", [most], width, "up to "))
    left = sum(map(len, list(pools.values())[MOST:]))
    return [*lines, f"{plural(left, 'more thread')}"] if left else lines


def _thread(name: str, events: Sequence[Mapping[str, Any]], width: int, about: str = "") -> str:
    """One line: the thread, and each event with its share; names of events share the width that is left.

    Where that is too little for all, the last events make way, so that no share is cut off.
    """
    name = units.middle(name, max(20, width // 3)) if width else name
    spare = width - len(name) - len(events) * len(f"{about}, 100 %") - 1
    least = _LEAST if len(events) > 1 else 1
    room = max(least, spare // len(events)) if width else 0
    did = [f"{_event(e, room)} {about}{e['share'] * 100:.0f} %" for e in events]
    line = f"{name}: {', '.join(did)}"
    return _thread(name, events[:-1], width, about) if width and len(line) > width and len(events) > 1 else line


_LEAST: Final = 16
"""The names of events are not cut further than this, in characters, while one of them could make way."""


def _event(cover: Mapping[str, Any], room: int) -> str:
    """The event, behind the annotation it ran in where there is room for both: ``load_batch: sleep``."""
    event = units.short_name(cover["event"], room)
    inside = printable(cover["inside"] or "")
    return f"{inside}: {event}" if inside and (not room or len(inside) + 2 + len(event) <= room) else event


def _number(kind: Unit, value: float, unit: units.TimeUnit) -> str:
    if kind in _OF_TIME:
        return _OF_TIME[kind](round(value), unit)
    if kind in _OTHERS:
        return _OTHERS[kind](value)
    return units.count(value) if isinstance(value, int) else f"{value:,.2f}"


_OF_TIME: Final[Mapping[Unit, Callable[[int, units.TimeUnit], str]]] = {
    "time": units.duration,
    "instant": units.instant,
    "difference": units.difference,
}

_OTHERS: Final[Mapping[Unit, Callable[[float], str]]] = {
    "bytes": units.bytes_,
    "rate": units.rate,
    "flops": units.flops,
    "share": units.share,
    "growth": units.growth,
    "number": units.number,
}


def naming(columns: Sequence[Column], distinct: Mapping[str, int]) -> str:
    """Which of the columns says what a row is about: its name, else the first text in which most rows differ.

    What is not brief (an address) says so only where no other text does. Empty where there is no text. `distinct` is
    how many values each column has.
    """
    texts = [column for column in columns if column.unit == "text"]
    if any(column.name == "name" for column in texts):
        return "name"
    telling = [column.name for column in texts if column.brief] or [column.name for column in texts]
    return max(telling, key=lambda name: distinct[name], default="")
