"""One raw value of a result -> the words in its cell, for panes and for reports alike.

Owns which words a unit has and on which side of its column they stand. Knows nothing of widths, colours or forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from tracehound import units
from tracehound.analysis.result import Column, Result, Unit
from tracehound.errors import printable

NOTHING = "–"
"""What stands where there is no value."""

MOST = 3
"""How many host threads are named in a cell."""


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
        threads = covers(value)
        more = [f"{len(threads) - MOST} more"] if len(threads) > MOST else []
        return "; ".join(threads[:MOST] + more) or NOTHING
    return printable(str(value)) or NOTHING


def alignment(column: Column) -> Literal["left", "right"]:
    """Numbers stand on the right, words on the left."""
    return "left" if column.unit in ("text", "flag", "host") else "right"


def heading(column: Column) -> str:
    """The name of a column as people write it."""
    return column.name.replace("_", " ")


def shown(result: Result) -> tuple[Column, ...]:
    """The columns that have words: all but ids."""
    return tuple(column for column in result.columns if column.unit != "id")


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
    """A line for each host thread: ``python: aten::addmm 62 %, aten::t 8 %``; for a value of a `host` column.

    With `width` the names of events are cut to it.
    """
    threads: dict[str, list[str]] = {}
    for cover in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
        words = f"{units.short_name(cover['event'], width)} {cover['share'] * 100:.0f} %"
        threads.setdefault(printable(cover["thread"]), []).append(words)
    return [f"{thread}: {', '.join(events)}" for thread, events in threads.items()]


def _number(kind: Unit, value: float, unit: units.TimeUnit) -> str:
    match kind:
        case "time":
            return units.duration(round(value), unit)
        case "instant":
            return units.instant(round(value), unit)
        case "bytes":
            return units.bytes_(value)
        case "rate":
            return units.rate(value)
        case "share":
            return units.share(value)
        case _:
            return units.count(value) if isinstance(value, int) else f"{value:,.2f}"
