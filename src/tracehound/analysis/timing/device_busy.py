"""Busy intervals of a device by class: computing, communicating, copying, idle.

Defines the classes of device work. The base of `breakdown`, `steps` and `gaps`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.rank_trace import RankTrace, SharedRankResult
from tracehound.model.trace import KIND_CODES, collect_frame
from tracehound.numeric.id_set import find_rows
from tracehound.numeric.intervals import Intervals, Ints, clip, complement, merge, subtract, union
from tracehound.numeric.self_time import self_intervals

COMMUNICATION_KINDS = ("collective",)
COPY_KINDS = ("copy", "memset", "transfer")

_PS_PER_NS: Final = 1_000


def rounding_gap(start: Ints, end: Ints) -> int:
    """The longest gap between events with these times that is due to rounding, ps.

    It is 1 ns if all times are whole ns (start and length were each rounded down), else 0.
    """
    return 0 if (start % _PS_PER_NS).any() or (end % _PS_PER_NS).any() else _PS_PER_NS


class BusyIntervals(Struct, frozen=True, dict=True):
    """The device of one rank in `[start, end)`: the intervals with work of each class, overlaps included.

    `start` and `end` are those of the window, or without one of the first and last work. They are equal if there is no
    work.
    """

    start: int
    end: int
    compute: Intervals
    communication: Intervals
    copy: Intervals

    @cached_property
    def busy(self) -> Intervals:
        """Intervals with any work."""
        return merge(self.compute, self.communication, self.copy)

    @property
    def idle(self) -> Intervals:
        """Intervals without work."""
        return complement(self.busy, self.start, self.end)

    @cached_property
    def exposed_communication(self) -> Intervals:
        """Intervals with communication but no computation."""
        return subtract(self.communication, self.compute)

    @cached_property
    def exposed_copy(self) -> Intervals:
        """Intervals with copies only."""
        return subtract(self.copy, merge(self.compute, self.communication))

    def clipped(self, start: int, end: int) -> BusyIntervals:
        """These intervals, clipped to a window."""
        return BusyIntervals(
            start,
            end,
            clip(self.compute, start, end),
            clip(self.communication, start, end),
            clip(self.copy, start, end),
        )


WORK_COLUMNS = ("id", "start", "end", "kind", "parent")
"""Columns of events that `busy_intervals` needs."""


def device_work(rank_trace: RankTrace, *more: str) -> pl.DataFrame:
    """The events that keep the rank's device busy, sorted by (lane, start, -end): columns `WORK_COLUMNS`, and `more`.

    Only ops contain others. Kernels of one stream may run concurrently (programmatic launches, graphs), but none is
    nested in another: they have no parent here.
    """
    columns = (rank_trace.lanes[name].to_list() for name in ("lane", "role", "work", "rank"))
    on_device = [(lane, role, work) for lane, role, work, rank in zip(*columns, strict=True) if rank is not None]
    lanes = [lane for lane, _, work in on_device if work]
    streams = [lane for lane, role, work in on_device if work and role == "stream"]
    nested = pl.when(~pl.col("lane").is_in(streams)).then("parent")
    parent = nested if len(streams) < len(lanes) else pl.lit(None, pl.Int64)
    rows = rank_trace.device
    if len(lanes) < len(on_device):  # the device has lanes without work, too
        rows = rows.filter(pl.col("lane").is_in(lanes))
    return collect_frame(rows.select(*WORK_COLUMNS[:-1], parent.alias("parent"), *more))


def busy_intervals(events: pl.DataFrame, rank_trace: RankTrace) -> BusyIntervals:
    """Busy intervals of the rank's device, from its `device_work`.

    An event that contains others (an HLO `while` around its body) counts only with its self time.
    """
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    owned = self_intervals(start, end, parent_rows(events))
    kind = events["kind"].to_physical().to_numpy()[owned.owner]
    communication, copy = (
        np.isin(kind, [KIND_CODES[name] for name in kinds]) for kinds in (COMMUNICATION_KINDS, COPY_KINDS)
    )

    def when(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Intervals:
        return clip(union(owned.start[chosen], owned.end[chosen]), rank_trace.start, rank_trace.end)

    low, high = work_bounds(events, rank_trace)
    return BusyIntervals(low, high, when(~communication & ~copy), when(communication), when(copy))


def _busy_intervals_at_any_time(rank_trace: RankTrace, events: pl.DataFrame) -> BusyIntervals:
    return busy_intervals(events, replace(rank_trace, start=-FOREVER, end=FOREVER, windowed=False))


FOREVER: Final = 1 << 62
"""An instant after all events, ps; its negative is before all."""

BUSY_AT_ANY_TIME: Final = SharedRankResult(_busy_intervals_at_any_time)
"""Busy intervals of all work of the rank's device, from its `device_work` at any time."""


def busy_intervals_in_window(events: pl.DataFrame, rank_trace: RankTrace) -> BusyIntervals:
    """As `busy_intervals`, where `events` are all of the device's work in the window; shared if there is none."""
    if rank_trace.windowed or events.is_empty():
        return busy_intervals(events, rank_trace)
    return BUSY_AT_ANY_TIME.result_for(rank_trace, events)


def union_of_work(events: pl.DataFrame) -> Intervals:
    """Intervals with any of this work: `BusyIntervals.busy`, not clipped to the window."""
    owned = self_intervals(events["start"].to_numpy(), events["end"].to_numpy(), parent_rows(events))
    return union(owned.start, owned.end)


def work_bounds(events: pl.DataFrame, rank_trace: RankTrace) -> tuple[int, int]:
    """Bounds of the window, or without one from the first to the last of the events."""
    if rank_trace.windowed:
        return (rank_trace.start, rank_trace.end)
    if events.is_empty():
        return (rank_trace.start, rank_trace.start)
    return (int(events["start"].to_numpy().min()), int(events["end"].to_numpy().max()))


def recording_bounds(rank_trace: RankTrace) -> tuple[int, int]:
    """From the first event of the rank and its host to the end of the last, clipped to the window."""
    known = rank_trace.lanes.drop_nulls("first")
    if known.is_empty():
        return (rank_trace.start, rank_trace.start)
    first, last = int(known["first"].to_numpy().min()), int(known["last"].to_numpy().max())
    return (max(rank_trace.start, first), min(rank_trace.end, last))


def parent_rows(events: pl.DataFrame) -> Ints:
    """Row of each event's parent among `events` (sorted by id), -1 if it has none there."""
    parent = events["parent"]
    if parent.null_count() == events.height:
        return np.full(events.height, -1, np.int64)
    return find_rows(events["id"].to_numpy(), parent.fill_null(-1).to_numpy())
