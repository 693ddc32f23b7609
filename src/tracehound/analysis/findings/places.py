"""Where in the timeline the events lie to which findings may lead.

Owns how the times of events are found that other tables only name. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from tracehound.analysis.findings.finding import Place
from tracehound.analysis.result import Share
from tracehound.analysis.threads import beside
from tracehound.trace import collected


def places(share: Share, on_device: Sequence[pl.Series], on_host: Sequence[pl.Series]) -> pl.DataFrame:
    """Of the events with these ids when they run, whatever the window: event, rank, start and duration (ps)."""
    device, host = (pl.concat([_NONE, *(each.cast(pl.Int64) for each in ids)]).unique() for ids in (on_device, on_host))
    found = [_times(share.anytime, device), _times(beside(share, host), host)]
    return pl.concat(found).with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))


_NONE: Final = pl.Series(dtype=pl.Int64())


def _times(events: pl.LazyFrame, ids: pl.Series) -> pl.DataFrame:
    chosen = events.filter(pl.col("id").is_in(ids.drop_nulls().implode())) if ids.count() else events.head(0)
    return collected(chosen.select("start", event="id", duration=pl.col("end") - pl.col("start")))


def placed(place: Place, where: Mapping[int, Mapping[str, int]]) -> Place:
    """The place of an event with its time and rank, where only the event is known; `where` has rows of `places`."""
    row = None if place.start is not None or place.event is None else where.get(place.event)
    return replace(place, start=row["start"], duration=row["duration"], rank=row["rank"]) if row else place
