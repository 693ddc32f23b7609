"""Rows of lanes, read on demand and kept in memory.

`TimelineRows` builds the rows of a small trace at once. For larger ones it raises `RowsNotReadError`, so that drawing
never waits; another thread reads the requested rows and puts them into the `LaneCache`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Literal

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.draw.counter_graph import CounterSeries, load_counter_graph
from tracehound.draw.event_colors import ColorBy, build_coloring
from tracehound.draw.lane_rows import (
    EMPTY_ROW,
    NO_NAMES,
    ROW_COLUMNS,
    LaneRow,
    LaneRows,
    build_lane_rows,
    row_of_intervals,
)
from tracehound.model.ids import file_index_of, id_of, row_of
from tracehound.model.trace import Trace, collect_frame
from tracehound.numeric.intervals import Ints, union

CACHE_BYTES: Final = 256 << 20
"""Bytes of rows kept in memory; an event takes 30 to 50."""

FEW_EVENTS: Final = 100_000
FEW_LANES: Final = 256
"""A trace with at most this many events and lanes is read at once, which takes less than 0.1 s."""


class RowsRequest(Struct, frozen=True):
    """Rows to read: those of a lane, or the busy intervals of a rank's device."""

    of: Literal["lane", "rank"]
    number: int


class RowsNotReadError(Exception):
    """The rows asked for must be read first, which can take long."""

    def __init__(self, request: RowsRequest) -> None:
        super().__init__(request)
        self.request = request


class LaneCache(Struct):
    """Keeps the rows used last, up to `capacity` bytes. Rows that are `needed` now stay, whatever their size."""

    capacity: int = CACHE_BYTES
    needed: frozenset[Hashable] = frozenset()
    _things: dict[Hashable, LaneRows] = field(default_factory=dict)
    _full: int = 0

    def get(self, key: Hashable) -> LaneRows | None:
        """The rows of that key; None if they are not in the cache."""
        rows = self._things.pop(key, None)
        if rows is not None:
            self._things[key] = rows
        return rows

    def put(self, key: Hashable, thing: LaneRows) -> None:
        """Keep these rows. The least recently used ones are dropped if there is no room for all."""
        self._drop(key)
        self._things[key] = thing
        self._full += thing.size
        for old in list(self._things):
            if self._full <= self.capacity:
                return
            if old != key and old not in self.needed:
                self._drop(old)

    def _drop(self, key: Hashable) -> None:
        rows = self._things.pop(key, None)
        if rows is not None:
            self._full -= rows.size


class TimelineRows:
    """The rows of one trace. Cached rows stay valid while the trace grows, as long as their times do not change.

    For all but small traces `lane`, `row`, `event_id`, `locate_event`, `busy_row` and `busy_time` raise
    RowsNotReadError until the requested rows are read and put here.
    """

    def __init__(self, trace: Trace, cache: LaneCache | None = None, by: ColorBy = "kind") -> None:
        self.trace = trace
        self.coloring = build_coloring(by, trace)
        self.cache = cache or LaneCache()
        self._small = trace.lanes.height <= FEW_LANES and int(trace.lanes["events"].sum()) <= FEW_EVENTS
        self._shifts: dict[int, int] = {}
        self._work: dict[int, tuple[int, ...]] = {}
        self._parts: dict[int, pl.DataFrame] = {}
        self._ends: dict[int, tuple[Ints, Ints]] = {}
        self._graphs: dict[int, CounterSeries] = {}

    def lane(self, lane: int) -> LaneRows:
        """The rows of a lane."""
        return self._get_or_read(RowsRequest("lane", lane))

    def row(self, lane: int, depth: int) -> LaneRow:
        """One row of a lane; an empty one if the lane has fewer rows."""
        rows = self.lane(lane).rows
        return rows[depth] if depth < len(rows) else EMPTY_ROW

    def graph(self, lane: int) -> CounterSeries:
        """The graph of a counter; samples are always in memory."""
        if lane not in self._graphs:
            self._graphs[lane] = load_counter_graph(self.trace, lane)
        return self._graphs[lane]

    def next_change(self, lane: int, time: int, direction: int) -> int | None:
        """The time of the next (direction 1) or previous (-1) change of a counter; None also for lanes of events."""
        return self.graph(lane).next_change(time, direction)

    def event_id(self, lane: int, depth: int, index: int) -> int:
        """The id of the event at `index` of a row."""
        return id_of(file_index_of(lane), self.lane(lane).first + self.row(lane, depth).frame_position(index))

    def locate_event(self, event: int) -> tuple[int, int, int]:
        """Lane, depth and index in its row of an event."""
        lane = self._lane_of_event(event)
        slices = self.lane(lane)
        depth, index = slices.find(row_of(event) - slices.first)
        return lane, depth, index

    def busy_row(self, rank: int) -> LaneRow:
        """The busy intervals of a rank's device: the union of all events on its work lanes."""
        return self._get_or_read(RowsRequest("rank", rank)).rows[0]

    def busy_time(self, rank: int, start: int, end: int) -> int:
        """Busy time of a rank's device within `[start, end)`, ps."""
        return self.busy_row(rank).covered_time(start, end)

    def order(self, lane: int, start: int, end: int) -> tuple[int, ...]:
        """The depths of a lane's rows in the order in which they get a line; () while the rows are not read."""
        try:
            return self.lane(lane).order(start, end)
        except RowsNotReadError:
            return ()

    def is_read(self, request: RowsRequest) -> bool:
        """True if the request needs no reading."""
        return self._small or self.cache.get(self.key(request)) is not None

    def key(self, request: RowsRequest) -> Hashable:
        """The cache key of a request: equal for the same file and times in every trace that contains them."""
        if request.of == "rank":
            return ("rank", *map(self._lane_key, self._work_lanes(request.number)))
        return self._lane_key(request.number)

    def read_rows(self, request: RowsRequest) -> LaneRows:
        """Read the requested rows; safe in any thread."""
        if request.of == "rank":
            return LaneRows((self._read_busy_row(request.number),), NO_NAMES)
        lane = request.number
        if self._small:
            frame = self._events_in_memory(lane)
            return build_lane_rows(frame, row_of(int(frame["id"][0])) if frame.height else 0, self.coloring)
        first = collect_frame(self.trace.events([lane]).select("id").head(1))["id"].to_list()
        frame = self.trace.lane(lane, *ROW_COLUMNS, *self.coloring.columns)
        return build_lane_rows(frame, row_of(first[0]) if first else 0, self.coloring)

    def put(self, request: RowsRequest, made: LaneRows) -> None:
        """Keep the rows of a request."""
        self.cache.put(self.key(request), made)

    def _get_or_read(self, request: RowsRequest) -> LaneRows:
        made = self.cache.get(self.key(request))
        if made is None:
            if not self._small:
                raise RowsNotReadError(request)
            made = self.read_rows(request)
            self.put(request, made)
        return made

    def _lane_key(self, lane: int) -> tuple[Hashable, ...]:
        part = file_index_of(lane)
        return (self.trace.parts[part], row_of(lane), self._time_shift(part), self.coloring.by)

    def _lane_of_event(self, event: int) -> int:
        """The lane of an event, from the numbers of events on the lanes of its file."""
        part = file_index_of(event)
        if part not in self._ends:
            lanes, events = self.trace.lanes["lane"].to_numpy(), self.trace.lanes["events"].to_numpy()
            lane_rows = np.flatnonzero(file_index_of(lanes) == part)
            lane_rows = lane_rows[np.argsort(lanes[lane_rows])]
            self._ends[part] = (lanes[lane_rows], np.cumsum(events[lane_rows]))
        own_lanes, ends = self._ends[part]
        return int(own_lanes[np.searchsorted(ends, row_of(event), side="right")])

    def _time_shift(self, part: int) -> int:
        """The shift of a file's times in this trace, ps."""
        if part not in self._shifts:
            lanes = self.trace.parts[part].lanes
            full = np.flatnonzero(lanes["events"].to_numpy() > 0)[
                :1
            ]  # numpy, since a polars query would wait for those of analyses
            here = np.flatnonzero(np.isin(self.trace.lanes["lane"].to_numpy(), id_of(part, full)))
            before, after = lanes["first"].to_numpy()[full], self.trace.lanes["first"].to_numpy()[here]
            self._shifts[part] = int(after[0] - before[0]) if len(full) else 0
        return self._shifts[part]

    def _work_lanes(self, rank: int) -> tuple[int, ...]:
        if rank not in self._work:
            lanes = self.trace.lanes
            chosen = (lanes["rank"] == rank).fill_null(value=False) & lanes["work"]
            self._work[rank] = tuple(lanes["lane"].filter(chosen).to_list())
        return self._work[rank]

    def _read_busy_row(self, rank: int) -> LaneRow:
        """The union of all events on the rank's work lanes: an inner event can end after those around it."""
        lanes = self._work_lanes(rank)
        if self._small:
            sides = [(row.start, row.end) for lane in lanes for row in self.lane(lane).rows]
        else:
            frames = (self.trace.lane(lane, "start", "end") for lane in lanes)
            sides = [(frame["start"].to_numpy(), frame["end"].to_numpy()) for frame in frames]
        start = np.concatenate([start for start, _ in sides] or [EMPTY_ROW.start])
        end = np.concatenate([end for _, end in sides] or [EMPTY_ROW.end])
        row = row_of_intervals(union(start, np.maximum(end, start + 1)), "kernel")
        _ = row.cover_by_kind  # computed here, not while drawing
        return row

    def _events_in_memory(self, lane: int) -> pl.DataFrame:
        """The events of a lane of a small trace, whose files are read as a whole."""
        part = file_index_of(lane)
        if part not in self._parts:
            self._parts[part] = collect_frame(
                self.trace.frames[part].select("id", "lane", *ROW_COLUMNS, *self.coloring.columns)
            )
        frame = self._parts[part]
        low, high = np.searchsorted(frame["lane"].to_numpy(), [lane, lane + 1])
        return frame.slice(int(low), int(high - low))
