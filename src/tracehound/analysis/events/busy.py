"""What a device does at each instant: computing, communicating, copying, or nothing.

Owns the classes of device work and the intervals in which each runs. The base of `breakdown`, `steps` and `gaps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.result import Share
from tracehound.intervals import Intervals, Ints, clip, complement, merge, subtract, union
from tracehound.lookup import rows_with
from tracehound.own_time import own_stretches
from tracehound.trace import collected

COMMUNICATION = ("collective",)
COPY = ("copy", "memset", "transfer")

_NS: Final = 1_000


def rounding(start: Ints, end: Ints) -> int:
    """The longest pause between works with these times that is none, ps.

    That is 1 ns where all times are whole ns: a start and a length were cut to that each by itself. Else none.
    """
    return 0 if (start % _NS).any() or (end % _NS).any() else _NS


class Busy(Struct, frozen=True):
    """One rank's device in `[start, end)`: the time in which work of each class runs, overlaps included.

    `start` and `end` are the window's, or without one those of the first and last work. An empty span means no work.
    """

    start: int
    end: int
    compute: Intervals
    communication: Intervals
    copy: Intervals

    @property
    def any(self) -> Intervals:
        """When anything runs."""
        return merge(self.compute, self.communication, self.copy)

    @property
    def idle(self) -> Intervals:
        """When nothing runs."""
        return complement(self.any, self.start, self.end)

    @property
    def exposed_communication(self) -> Intervals:
        """When only communication runs, or communication and copies."""
        return subtract(self.communication, self.compute)

    @property
    def exposed_copy(self) -> Intervals:
        """When only copies run."""
        return subtract(self.copy, merge(self.compute, self.communication))

    def within(self, start: int, end: int) -> Busy:
        """The same in a window of its own."""
        return Busy(
            start,
            end,
            clip(self.compute, start, end),
            clip(self.communication, start, end),
            clip(self.copy, start, end),
        )


WORK = ("id", "start", "end", "kind", "parent")
"""The columns of events that `busy_of` needs."""


def work(share: Share, *more: str) -> pl.DataFrame:
    """The events that keep the rank's device busy, sorted by (lane, start, -end): columns `WORK`, and those named.

    Only ops contain others. Kernels of one stream may run at once (programmatic launches, graphs), but none inside
    another: they have no parent here.
    """
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    streams = lanes.filter(pl.col("role") == "stream")["lane"].to_list()
    nested = pl.when(~pl.col("lane").is_in(streams)).then("parent")
    parent = nested if len(streams) < lanes.height else pl.lit(None, pl.Int64)
    rows = share.device.filter(pl.col("lane").is_in(lanes["lane"].to_list()))
    return collected(rows.select(*WORK[:-1], parent.alias("parent"), *more))


def busy_of(events: pl.DataFrame, share: Share) -> Busy:
    """When the rank's device does what, by this `work` of it.

    An event that contains others (an HLO `while` around its body) counts only with the time that they leave it: what
    runs is the innermost.
    """
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    owned = own_stretches(start, end, local_parent(events))
    communication, copy = (_of_kinds(events, kinds)[owned.owner] for kinds in (COMMUNICATION, COPY))

    def when(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Intervals:
        return clip(union(owned.start[chosen], owned.end[chosen]), share.start, share.end)

    low, high = bounds(events, share)
    return Busy(low, high, when(~communication & ~copy), when(communication), when(copy))


def worked(events: pl.DataFrame) -> Intervals:
    """When anything of this work runs: `Busy.any`, whatever class it is of, wherever the window ends."""
    owned = own_stretches(events["start"].to_numpy(), events["end"].to_numpy(), local_parent(events))
    return union(owned.start, owned.end)


def _of_kinds(events: pl.DataFrame, kinds: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return events.select(pl.any_horizontal(pl.col("kind") == kind for kind in kinds)).to_series().to_numpy()


def bounds(events: pl.DataFrame, share: Share) -> tuple[int, int]:
    """The window of the share, or without one the span from the first to the last of the events."""
    if share.windowed:
        return (share.start, share.end)
    if events.is_empty():
        return (share.start, share.start)
    return (int(events["start"].to_numpy().min()), int(events["end"].to_numpy().max()))


def recorded(share: Share) -> tuple[int, int]:
    """From the first event of the rank and its host to the end of the last, or what of that lies in the window."""
    known = share.lanes.drop_nulls("first")
    if known.is_empty():
        return (share.start, share.start)
    first, last = int(known["first"].to_numpy().min()), int(known["last"].to_numpy().max())
    return (max(share.start, first), min(share.end, last))


def local_parent(events: pl.DataFrame) -> Ints:
    """The row of each event's parent among `events`, -1 where it has none there. `events` is sorted by id."""
    parent = events["parent"]
    if parent.null_count() == events.height:
        return np.full(events.height, -1, np.int64)
    return rows_with(events["id"].to_numpy(), parent.fill_null(-1).to_numpy())
