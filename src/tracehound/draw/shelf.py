"""When the rows of a trace are made, and which of them stay in memory.

Owns `Rows`, which has the rows of a small trace at once and says of all others that they have to be read first, and
the `Shelf` on which they stay. Whoever draws never waits; whoever has a thread makes what is wished for.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Literal

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.draw.colouring import By, colouring
from tracehound.draw.graph import Graph, graph_of
from tracehound.draw.rows import COLUMNS, NO_ROW, NO_WORDS, Row, Slices, row_of_intervals, slices_of
from tracehound.ids import id_of, part_of, row_of
from tracehound.intervals import Ints, union
from tracehound.trace import Trace, collected

ROOM: Final = 256 << 20
"""Bytes of rows that stay; a slice takes some 30 to 50."""

FEW_EVENTS: Final = 100_000
FEW_LANES: Final = 256
"""A trace of no more than this is read at once: that takes less than a tenth of a second."""


class Wish(Struct, frozen=True):
    """Something that has to be read: the rows of a lane, or when a rank's device works."""

    of: Literal["lane", "rank"]
    number: int


class NotReadError(Exception):
    """What was asked for has to be read first, which may take a while."""

    def __init__(self, wish: Wish) -> None:
        super().__init__(wish)
        self.wish = wish


class Shelf(Struct):
    """Keeps up to `room` bytes of what was asked for last. What is `needed` now stays, however much it is."""

    room: int = ROOM
    needed: frozenset[Hashable] = frozenset()
    _things: dict[Hashable, Slices] = field(default_factory=dict)
    _full: int = 0

    def take(self, key: Hashable) -> Slices | None:
        """What was put here; None where it never was, or is not any more."""
        thing = self._things.pop(key, None)
        if thing is not None:
            self._things[key] = thing
        return thing

    def put(self, key: Hashable, thing: Slices) -> None:
        """Keep this; what was not asked for longest goes where there is no room for both."""
        self._drop(key)
        self._things[key] = thing
        self._full += thing.size
        for old in list(self._things):
            if self._full <= self.room:
                return
            if old != key and old not in self.needed:
                self._drop(old)

    def _drop(self, key: Hashable) -> None:
        thing = self._things.pop(key, None)
        if thing is not None:
            self._full -= thing.size


class Rows:
    """The rows of one trace. What is on the shelf stays when the trace grows, as long as its times do.

    Of all but small traces `lane`, `row`, `event`, `slice_of`, `busy` and `busy_time` raise NotReadError until someone
    has made what is wished for, and put it here.
    """

    def __init__(self, trace: Trace, shelf: Shelf | None = None, by: By = "kind") -> None:
        self.trace = trace
        self.colouring = colouring(by, trace)
        self.shelf = shelf or Shelf()
        self._small = trace.lanes.height <= FEW_LANES and int(trace.lanes["events"].sum()) <= FEW_EVENTS
        self._shifts: dict[int, int] = {}
        self._work: dict[int, tuple[int, ...]] = {}
        self._parts: dict[int, pl.DataFrame] = {}
        self._ends: dict[int, tuple[Ints, Ints]] = {}
        self._graphs: dict[int, Graph] = {}

    def lane(self, lane: int) -> Slices:
        """The slices of a lane."""
        return self._made(Wish("lane", lane))

    def row(self, lane: int, depth: int) -> Row:
        """One row of a lane; an empty one where the lane is not as deep."""
        rows = self.lane(lane).rows
        return rows[depth] if depth < len(rows) else NO_ROW

    def graph(self, lane: int) -> Graph:
        """The graph of a counter; samples are in memory."""
        if lane not in self._graphs:
            self._graphs[lane] = graph_of(self.trace, lane)
        return self._graphs[lane]

    def change(self, lane: int, time: int, direction: int) -> int | None:
        """When a counter next changes after an instant, or last changed before it; None also for lanes of events."""
        return self.graph(lane).change(time, direction)

    def event(self, lane: int, depth: int, index: int) -> int:
        """The id of slice `index` of a row."""
        return id_of(part_of(lane), self.lane(lane).first + self.row(lane, depth).place(index))

    def slice_of(self, event: int) -> tuple[int, int, int]:
        """Lane, depth and index of an event on its row."""
        lane = self._lane_of(event)
        slices = self.lane(lane)
        depth, index = slices.find(row_of(event) - slices.first)
        return lane, depth, index

    def busy(self, rank: int) -> Row:
        """When the rank's device works: what any event of its work lanes covers."""
        return self._made(Wish("rank", rank)).rows[0]

    def busy_time(self, rank: int, start: int, end: int) -> int:
        """How long of `[start, end)` the rank's device works."""
        return self.busy(rank).covered(start, end)

    def order(self, lane: int, start: int, end: int) -> tuple[int, ...]:
        """The depths of a lane's rows in the order in which they get a line; () as long as that is not known."""
        try:
            return self.lane(lane).order(start, end)
        except NotReadError:
            return ()

    def here(self, wish: Wish) -> bool:
        """Whether this needs no reading."""
        return self._small or self.shelf.take(self.key(wish)) is not None

    def key(self, wish: Wish) -> Hashable:
        """What a wish is called on the shelf: the same for a part and its times in every trace that it is in."""
        if wish.of == "rank":
            return ("rank", *map(self._lane_key, self._work_lanes(wish.number)))
        return self._lane_key(wish.number)

    def make(self, wish: Wish) -> Slices:
        """Read what is wished for; in any thread."""
        if wish.of == "rank":
            return Slices((self._busy(wish.number),), NO_WORDS)
        lane = wish.number
        if self._small:
            frame = self._in_memory(lane)
            return slices_of(frame, row_of(int(frame["id"][0])) if frame.height else 0, self.colouring)
        first = collected(self.trace.events([lane]).select("id").head(1))["id"].to_list()
        frame = self.trace.lane(lane, *COLUMNS, *self.colouring.columns)
        return slices_of(frame, row_of(first[0]) if first else 0, self.colouring)

    def put(self, wish: Wish, made: Slices) -> None:
        """Keep what was made for a wish."""
        self.shelf.put(self.key(wish), made)

    def _made(self, wish: Wish) -> Slices:
        made = self.shelf.take(self.key(wish))
        if made is None:
            if not self._small:
                raise NotReadError(wish)
            made = self.make(wish)
            self.put(wish, made)
        return made

    def _lane_key(self, lane: int) -> tuple[Hashable, ...]:
        part = part_of(lane)
        return (self.trace.parts[part], row_of(lane), self._shift(part), self.colouring.by)

    def _lane_of(self, event: int) -> int:
        """The lane of an event, by the numbers of events on the lanes of its part."""
        part = part_of(event)
        if part not in self._ends:
            lanes, events = self.trace.lanes["lane"].to_numpy(), self.trace.lanes["events"].to_numpy()
            own = np.flatnonzero(part_of(lanes) == part)
            own = own[np.argsort(lanes[own])]
            self._ends[part] = (lanes[own], np.cumsum(events[own]))
        own_lanes, ends = self._ends[part]
        return int(own_lanes[np.searchsorted(ends, row_of(event), side="right")])

    def _shift(self, part: int) -> int:
        """How far the times of a part were moved in this trace."""
        if part not in self._shifts:
            own = self.trace.parts[part].lanes
            full = np.flatnonzero(own["events"].to_numpy() > 0)[:1]  # no query: it would wait for those of the analyses
            here = np.flatnonzero(np.isin(self.trace.lanes["lane"].to_numpy(), id_of(part, full)))
            before, after = own["first"].to_numpy()[full], self.trace.lanes["first"].to_numpy()[here]
            self._shifts[part] = int(after[0] - before[0]) if len(full) else 0
        return self._shifts[part]

    def _work_lanes(self, rank: int) -> tuple[int, ...]:
        if rank not in self._work:
            lanes = self.trace.lanes
            chosen = (lanes["rank"] == rank).fill_null(value=False) & lanes["work"]
            self._work[rank] = tuple(lanes["lane"].filter(chosen).to_list())
        return self._work[rank]

    def _busy(self, rank: int) -> Row:
        """The union of all slices of all work lanes of the rank: an inner one may outlast those around it."""
        lanes = self._work_lanes(rank)
        if self._small:
            sides = [(row.start, row.end) for lane in lanes for row in self.lane(lane).rows]
        else:
            frames = (self.trace.lane(lane, "start", "end") for lane in lanes)
            sides = [(frame["start"].to_numpy(), frame["end"].to_numpy()) for frame in frames]
        start = np.concatenate([start for start, _ in sides] or [NO_ROW.start])
        end = np.concatenate([end for _, end in sides] or [NO_ROW.end])
        row = row_of_intervals(union(start, np.maximum(end, start + 1)), "kernel")
        _ = row.by_kind  # now, where nobody waits
        return row

    def _in_memory(self, lane: int) -> pl.DataFrame:
        """The events of a lane of a small trace, whose parts are read whole."""
        part = part_of(lane)
        if part not in self._parts:
            self._parts[part] = collected(
                self.trace.frames[part].select("id", "lane", *COLUMNS, *self.colouring.columns)
            )
        whole = self._parts[part]
        low, high = np.searchsorted(whole["lane"].to_numpy(), [lane, lane + 1])
        return whole.slice(int(low), int(high - low))
