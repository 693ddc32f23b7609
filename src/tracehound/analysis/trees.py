"""Results that are trees: their rows come depth first, and a column of unit `depth` says how deep each lies.

Owns how that column is found and what a filter leaves of a tree. Knows no width and no face.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import Column, Result
from tracehound.forest import forest
from tracehound.intervals import Ints


def depth_of(columns: Sequence[Column]) -> Column | None:
    """The column that says how deep rows lie; None where the result is no tree."""
    return next((column for column in columns if column.unit == "depth"), None)


def stem(columns: Sequence[Column]) -> Column | None:
    """The column that is indented in a tree: the first one of text; None where there is none, or no tree."""
    if depth_of(columns) is None:
        return None
    return next((column for column in columns if column.unit == "text"), None)


def depths(table: pl.DataFrame, columns: Sequence[Column]) -> Ints | None:
    """How deep each row of a table lies, which has not been sorted or thinned out; None where it is no tree.

    What is one by a setting only knows no depths without it.
    """
    column = depth_of(columns)
    if column is None or 0 < table.height == table[column.name].null_count():
        return None
    return table[column.name].fill_null(0).cast(pl.Int64).to_numpy()


def passing(table: pl.DataFrame, columns: Sequence[Column], test: pl.Expr) -> tuple[pl.DataFrame, int]:
    """The rows that pass a test, of a tree also those above them; and how many passed."""
    deep = depths(table, columns)
    if deep is None:
        rows = table.filter(test)
        return rows, rows.height
    passed = table.select(test.alias("passed")).to_series()
    mask = np.broadcast_to(passed.to_numpy(), len(deep))  # a test of no column is one value
    return table.filter(pl.Series(forest(deep).with_above(mask))), int(mask.sum())


def cut(whole: Result, weight: Ints, top: int | None) -> Result:
    """The result with at most `top` of its rows: those that weigh most, and what is above them counts among these."""
    deep = depths(whole.table, whole.columns)
    if top is None or deep is None or top >= whole.table.height:
        return whole
    return replace(whole, table=whole.table[forest(deep).heaviest(weight, top)])
