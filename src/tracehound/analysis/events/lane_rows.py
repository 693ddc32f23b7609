"""The events of some lanes among those of many, without reading the others.

Owns in which rows of a share's events those of a lane are.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tracehound.analysis.result import Share


def of_device(share: Share, lanes: Collection[int]) -> pl.LazyFrame:
    """The events of these lanes of the rank's device, whenever they ran, sorted by id: no others are read."""
    return of_lanes(share.anytime, in_rows(share.lanes.filter(pl.col("rank").is_not_null())), lanes)


def in_rows(lanes: pl.DataFrame) -> pl.DataFrame:
    """Lanes in their order, with the row (`low`) at which the events of each begin among those of all of them."""
    ordered = lanes.sort("lane")
    return ordered.with_columns((pl.col("events").cum_sum() - pl.col("events")).alias("low"))


def of_lanes(events: pl.LazyFrame, places: pl.DataFrame, lanes: Collection[int]) -> pl.LazyFrame:
    """The events of these lanes out of those of all lanes that have `places` (`in_rows`)."""
    mine = places.select("lane", "low", (pl.col("low") + pl.col("events")).alias("high"))
    mine = mine.filter(pl.col("lane").is_in(list(lanes)))
    apart = (mine["low"] != mine["high"].shift(1)).fill_null(value=True).cum_sum()
    bounds = mine.group_by(apart.alias("stretch"), maintain_order=True).agg(pl.col("low").min(), pl.col("high").max())
    frames = [events.slice(low, high - low) for _, low, high in bounds.iter_rows()]
    return pl.concat(frames) if frames else events.clear()
