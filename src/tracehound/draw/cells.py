"""One raw value of a result -> the words in its cell, for panes and for reports alike.

Owns which words a unit has and on which side of its column they stand. Knows nothing of widths, colours or forms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tracehound import units
from tracehound.analysis.result import Column, Result, Unit
from tracehound.errors import printable

NOTHING = "–"
"""What stands where there is no value."""

MOST = 3
"""How many of the host events that cover a stretch are named in a cell."""


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
    if column.unit == "host" and isinstance(value, Sequence) and not isinstance(value, str):
        return _host(value)
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
    """What every share is a share of: ``share: self time, of the self time of all ops``."""
    return [f"{heading(c)}: {c.meaning}, of {c.base}" for c in columns if c.unit == "share" and c.base]


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


def _host(covers: Sequence[Mapping[str, Any]]) -> str:
    named = [
        f"{printable(cover['thread'])}: {units.short_name(cover['event'])} {cover['share'] * 100:.0f} %"
        for cover in covers[:MOST]
    ]
    more = [f"{len(covers) - MOST} more"] if len(covers) > MOST else []
    return ", ".join(named + more) or NOTHING
