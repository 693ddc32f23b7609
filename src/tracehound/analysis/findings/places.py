"""Where in the timeline the events lie to which findings may lead.

Owns how the times of events are found that other tables only name. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from tracehound.analysis.findings.finding import Place
from tracehound.analysis.result import Share
from tracehound.trace import collected


def places(share: Share, on_device: Sequence[pl.Series], on_host: Sequence[pl.Series]) -> pl.DataFrame:
    """Of the events with these ids when they run, whatever the window: event, rank, start and duration (ps)."""
    found = [_times(events, ids) for events, ids in ((share.anytime, on_device), (share.threads, on_host))]
    return pl.concat(found).with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))


def _times(events: pl.LazyFrame, ids: Sequence[pl.Series]) -> pl.DataFrame:
    wanted = sorted({int(number) for each in ids for number in each.drop_nulls()})
    chosen = events.filter(pl.col("id").is_in(wanted)) if wanted else events.head(0)
    return collected(chosen.select("start", event="id", duration=pl.col("end") - pl.col("start")))


def placed(place: Place, where: Mapping[int, Mapping[str, int]]) -> Place:
    """The place of an event with its time and rank, where only the event is known; `where` has rows of `places`."""
    row = None if place.start is not None or place.event is None else where.get(place.event)
    return replace(place, start=row["start"], duration=row["duration"], rank=row["rank"]) if row else place
