"""Rows of a frame by a key, without a frame for each value: a small one takes as much memory as hundreds of rows."""

from __future__ import annotations

import polars as pl


class RowSlices:
    """The rows of a frame by the value of a key, in their order; those of one value are sliced when they are needed."""

    def __init__(self, frame: pl.DataFrame, key: pl.Expr) -> None:
        self._frame = frame.sort(key, maintain_order=True)
        counts = frame.select(key.alias("key"))["key"].value_counts(name="rows").sort("key")
        lows = counts["rows"].cum_sum() - counts["rows"]
        self._slices = dict(zip(counts["key"], zip(lows, counts["rows"], strict=True), strict=True))

    def rows(self, value: int) -> pl.DataFrame:
        """The rows with this value of the key."""
        return self._frame.slice(*self._slices.get(value, (0, 0)))
