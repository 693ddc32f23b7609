"""The arrows of the autograd profiler -> correlation ids of the events that they tie together.

Owns which events an arrow means. Knows no bytes, and no files but those of the autograd profiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

import polars as pl

from tracehound.formats.kineto.events import Share, Stretch
from tracehound.formats.kineto.lanes import LaneKey, Placed, thread
from tracehound.formats.spill import Spill
from tracehound.intervals import Ints

Found = tuple[Stretch, Ints, int]
"""A stretch, the lane of each of the numbers that its segment gave to lanes, and the segment's first ordinal."""

_ENDS: Final[Mapping[str, pl.DataType]] = {
    "record": pl.Int64(),
    "begins": pl.Boolean(),
    "arrow": pl.String(),
    "lane": pl.Int64(),
    "start": pl.Int64(),
}
_AT: Final = ("lane", "start")


def tied(
    found: Sequence[Found], shares: Sequence[Share], firsts: Sequence[int], placed: Placed, spill: Spill
) -> list[Found]:
    """The stretches, their operators and kernels with a correlation id where an arrow leads from one to the other.

    The id is the ordinal of the operator's element.
    """
    ends = _ends(shares, firsts, placed)
    if ends.is_empty() or not found:
        return list(found)
    events = pl.concat([_places(*each) for each in found]).sort("record")
    begun = _met(ends.filter("begins"), events, "backward").select("arrow", correlation="event")
    ended = _met(ends.filter(~pl.col("begins")), events, "forward").select("arrow", "event")
    launched = ended.join(begun, on="arrow").drop("arrow")
    ids = pl.concat([launched, launched.select(event="correlation", correlation="correlation")]).unique(
        "event", keep="first", maintain_order=True
    )
    return [(_with_ids(stretch, ids, first, spill), lanes, first) for stretch, lanes, first in found]


def _ends(shares: Sequence[Share], firsts: Sequence[int], placed: Placed) -> pl.DataFrame:
    """All ends of arrows that are on lanes; of merged files each run numbers its own."""
    on = cache(lambda pid, tid: _lane(thread(pid, tid), placed))
    rows = [
        (first + end.record, end.begins, f"{where.run} {end.id}", where.lane, end.start)
        for share, first in zip(shares, firsts, strict=True)
        for end in share.arrows
        if (where := on(end.pid, end.tid)) is not None
    ]
    return pl.DataFrame(rows, _ENDS, orient="row")


class _Where(NamedTuple):
    run: int
    lane: int


def _lane(key: LaneKey, placed: Placed) -> _Where | None:
    """The number of the run and of the lane; None where no event is on that."""
    return _Where(placed.members.member(key.pid), placed.row[key]) if key in placed.row else None


def _places(stretch: Stretch, lanes: Ints, first: int) -> pl.DataFrame:
    """Where the events of a stretch are: ordinal, lane, start (ns)."""
    rows = stretch.kept.rows(columns=("record", "lane", "start"))
    return rows.select(
        pl.col("record").cast(pl.Int64) + first,
        pl.Series("lane", lanes[rows["lane"].to_numpy()]),
        pl.col("start") // 1000 + stretch.start,
    )


def _met(ends: pl.DataFrame, events: pl.DataFrame, way: Literal["backward", "forward"]) -> pl.DataFrame:
    """With the ordinal of the `event` that each end is at.

    Of several that start there it is the next in the file that `way`: an arrow stands between its events. A tool may
    have put them in another order; where none is that way, it is the next the other way.
    """
    others: Final = "forward" if way == "backward" else "backward"
    events = events.with_columns(event="record")
    met = ends.sort("record")
    for name, strategy in (("near", way), ("far", others)):
        met = met.join_asof(
            events.rename({"event": name}), on="record", by=_AT, strategy=strategy, check_sortedness=False
        )
    return (
        met.with_columns(event=pl.coalesce("near", "far"))
        .drop_nulls("event")
        .unique("arrow", keep="first", maintain_order=True)
    )


def _with_ids(stretch: Stretch, ids: pl.DataFrame, first: int, spill: Spill) -> Stretch:
    rows = stretch.kept.rows()
    own = rows.select(event=pl.col("record").cast(pl.Int64) + first)
    correlation = own.join(ids, on="event", how="left", maintain_order="left")["correlation"]
    if correlation.null_count() == len(correlation):
        return stretch
    kept = spill.keep(rows.with_columns(correlation), f"tied-{first}-{stretch.start}-{int(stretch.open)}")
    return stretch._replace(kept=kept)
