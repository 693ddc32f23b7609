"""Where in the timeline the events lie to which findings may lead.

Owns how the times of events are found that other tables only name. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.findings.finding import Place
from tracehound.analysis.hosts.threads import having
from tracehound.analysis.result import Share
from tracehound.trace import collected


def places(share: Share, on_device: Sequence[pl.Series], on_host: Sequence[pl.Series]) -> pl.DataFrame:
    """Of the events with these ids when they run, whatever the window: event, rank, start and duration (ps)."""
    device, host = (_ids(each) for each in (on_device, on_host))
    ran = share.anytime.filter(pl.col("id").is_in(device.implode())) if len(device) else share.anytime.clear()
    times = pl.col("start"), pl.col("id").alias("event"), (pl.col("end") - pl.col("start")).alias("duration")
    found = [collected(events.select(times)) for events in (ran, having(share, host))]
    return pl.concat(found).with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))


def _ids(found: Sequence[pl.Series]) -> pl.Series:
    return pl.concat([pl.Series(dtype=pl.Int64()), *(ids.cast(pl.Int64) for ids in found)]).drop_nulls()


def placed(place: Place, where: Mapping[int, Mapping[str, int]]) -> Place:
    """The place of an event with its time and rank, where only the event is known; `where` has rows of `places`."""
    row = None if place.start is not None or place.event is None else where.get(place.event)
    return replace(place, start=row["start"], duration=row["duration"], rank=row["rank"]) if row else place
