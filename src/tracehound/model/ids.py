"""Ids of a trace: the number of a file in the upper 32 bits, a row of that file's frame in the lower ones.

Events (the row is that of the file's event frame), lanes and ops have such ids, so any file can be added, dropped or
read again without changing the others. All functions take one id, an array of them, or an expression.
"""

from __future__ import annotations

from typing import Final, TypeVar

import polars as pl

from tracehound.numeric.intervals import Ints

IdLike = TypeVar("IdLike", int, Ints, pl.Expr)

MAX_ROWS: Final = 1 << 32
"""The limit on rows of one file."""


def file_index_of(number: IdLike) -> IdLike:
    """The number of the file that an id belongs to."""
    return number // MAX_ROWS


def row_of(number: IdLike) -> IdLike:
    """The row of an id in its file's frame."""
    return number % MAX_ROWS


def id_of(part: int, row: IdLike) -> IdLike:
    """The id of a row of a file."""
    return row + part * MAX_ROWS


def is_in_file(column: str, part: int) -> pl.Expr:
    """True for the ids of a column that belong to the file."""
    return pl.col(column).is_between(part * MAX_ROWS, (part + 1) * MAX_ROWS, closed="left")
