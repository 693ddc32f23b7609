"""One row of a result in full: what its sentences say.

Owns how such a row is laid out. Knows no colours and no face.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.analysis.result import Column, Result
from tracehound.draw.cells import heading
from tracehound.draw.wrap import wrap
from tracehound.errors import printable

LONG: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"health": ("what", "where")})
"""Texts of a table that are mostly too long for it: a row is told by them, and they are read in full here."""


def prose(result: Result) -> list[Column]:
    """The columns that hold sentences."""
    long = LONG.get(result.analysis, ())
    return [column for column in result.columns if column.unit == "prose" or column.name in long]


def sentences(result: Result, cursor: int, size: tuple[int, int], more: str = "") -> list[str]:
    """What a row says, broken into lines of a width; what does not fit the height is left out, with a sign of it.

    `more` is what is to be pressed for all of it.
    """
    columns, (width, height) = prose(result), size
    if not 0 <= cursor < result.table.height:
        return []
    row = result.table.row(cursor, named=True)
    first = next((column for column in result.columns if column.unit == "text"), None)
    room = max(len(heading(column)) for column in columns) + 2
    lines = wrap(printable(str(row[first.name])), width) if first is not None else []
    for column in columns:
        said = wrap(printable(row[column.name] or ""), max(width - room, 8))
        heads = [heading(column), *("" for _ in said[1:])]
        lines += [f"{head:<{room}}{text}" for head, text in zip(heads, said, strict=False)]
    sign = f"… {more} shows all" if more else "…"
    return lines if len(lines) <= height else [*lines[: max(height - 1, 0)], sign][:height]
