"""Columns that are looked up by a key, and tests of categories: without copies of other columns and of long texts."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl


def add_columns_of(table: pl.DataFrame, rows: pl.DataFrame, *key: str) -> pl.DataFrame:
    """The rows with the other columns of a table, which has each key once; null where it lacks the key of a row."""
    codes = pl.col(key).to_physical()  # polars would compare the texts of categories
    found = rows.select(codes).join(table.with_columns(codes), on=key, how="left", maintain_order="left")
    return rows.hstack(found.drop(key))


def match_texts(categories: pl.Series, condition: Callable[[pl.Expr], pl.Expr], *, missing: bool) -> pl.Series:
    """True for each category whose text meets a condition, which is tried once for each text; `missing` for null.

    The text may list thousands of ranks, and polars may make a copy for each row.
    """
    texts = categories.alias("code").drop_nulls().unique().to_frame()
    found = texts.select(pl.col("code").to_physical(), condition(pl.col("code").cast(pl.String)).alias("is_met"))
    codes = categories.to_physical().to_frame("code")
    return add_columns_of(found, codes, "code")["is_met"].fill_null(missing)
