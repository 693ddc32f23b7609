"""The events of some lanes among those of many, without reading the others.

Owns in which rows of a share's events those of a lane are.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tracehound.analysis.result import Share


def of_device(share: Share, lanes: Collection[int]) -> pl.LazyFrame:
    """The events of these lanes of the rank's device, whenever they ran, sorted by id: no others are read."""
    return of_lanes(share.anytime, share.lanes, lanes)


def of_lanes(events: pl.LazyFrame, places: pl.DataFrame, lanes: Collection[int]) -> pl.LazyFrame:
    """The events of these lanes out of those of all lanes of a device or a host; `places` are `Share.lanes`."""
    wanted, stretches = set(lanes), list[list[int]]()
    rows = zip(*(places[name].to_list() for name in ("lane", "low", "events")), strict=True)
    for _, low, many in sorted(row for row in rows if row[0] in wanted):
        if stretches and sum(stretches[-1]) == low:
            stretches[-1][1] += many
        else:
            stretches.append([low, many])
    frames = [events.slice(low, many) for low, many in stretches]
    return pl.concat(frames) if frames else events.clear()
