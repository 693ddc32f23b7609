"""Ids of a trace: the number of a part in the upper half, a row of that part in the lower one.

So numbered are events (the row is the event's place in the part's frame), lanes and ops, and any part can be placed,
dropped or read again without touching the others. Everything here takes one id, an array of them, or an expression.
"""

from __future__ import annotations

from typing import Final, TypeVar

import polars as pl

from tracehound.intervals import Ints

Number = TypeVar("Number", int, Ints, pl.Expr)

ROWS: Final = 1 << 32
"""So many rows a part may have."""


def part_of(number: Number) -> Number:
    """The part that an id belongs to."""
    return number // ROWS


def row_of(number: Number) -> Number:
    """The row of the part that an id stands for."""
    return number % ROWS


def id_of(part: int, row: Number) -> Number:
    """The id of a row of a part."""
    return row + part * ROWS


def in_part(column: str, part: int) -> pl.Expr:
    """Whether the ids of a column belong to the part."""
    return pl.col(column).is_between(part * ROWS, (part + 1) * ROWS, closed="left")
