"""What host threads did in given stretches of time.

Owns the attribution of time on a thread to the innermost event that runs there. The base of `host` and `gaps`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.events.lane_rows import of_lanes
from tracehound.analysis.events.numbering import Pairs, alike, codes, most, occurring, stretch
from tracehound.analysis.members import grouped
from tracehound.analysis.result import OfHost, Options, Share
from tracehound.analysis.settings import Given
from tracehound.intervals import Intervals, Ints, Mask, merge, pairs_of, passed
from tracehound.nesting import nearest
from tracehound.own_time import Owned, one_at_a_time
from tracehound.sums import summed
from tracehound.trace import collected, copied

THREADS = ("id", "lane", "start", "end", "name", "kind", "parent")
"""The columns of events that `during` needs."""


def on_lanes(share: Share, lanes: Collection[int]) -> pl.LazyFrame:
    """The events of these lanes of the host, sorted by id: no others are read."""
    return of_lanes(share.threads, share.lanes, lanes)


def held(share: Share) -> Share:
    """The share with `THREADS` of its host in memory, unless these are very many: for who asks often for most of them.

    It has no other columns of them.
    """
    return replace(share, threads=HELD.of(share))


def _held(share: Share, given: Given) -> pl.LazyFrame:
    del given
    of_host = share.lanes.filter(pl.col("rank").is_null())
    if int(of_host["events"].sum()) > _HELD:
        return share.threads
    return copied(share.threads, *_ASKED).select(THREADS).lazy()


HELD: Final = OfHost(_held, travels=False)
"""`THREADS` of a host in memory."""

_ASKED: Final = (("id", "parent"), ("start", "end"), ("lane", "name", "kind"))
"""`THREADS` as they are read: what lies in the same columns on disk together."""

_HELD: Final = 1 << 23
"""Events of a host that are held at once, at most: some 380 MB."""


def lanes_with(share: Share, ids: pl.Series) -> list[int]:
    """The lanes of the host on which these events are (null: no event)."""
    of_host = _of_host(share)
    place, _ = _placed(of_host, ids)
    return of_host["lane"].gather(np.flatnonzero(occurring(place[place >= 0]))).to_list()


class Beside(NamedTuple):
    """Events of the host, sorted by id, among which some are sought: of each of these the row there, and its lane.

    Both are -1 where it is no event of the host. There are so `many` of them.
    """

    events: pl.LazyFrame
    many: int
    row: Ints
    lane: Ints

    def found(self, *columns: str) -> pl.DataFrame:
        """These columns of each event that is sought, in rows of the same order; null where it is none of the host."""
        events = self.events.select(columns)
        if self.many <= _HELD:
            found, place = collected(events).rechunk(), self.row
        else:
            parts, place = [collected(events.clear())], np.full(len(self.row), -1)
            for low in range(0, self.many, PIECE):
                mine = np.flatnonzero((self.row >= low) & (self.row < low + PIECE))
                place[mine] = np.arange(len(mine)) + sum(part.height for part in parts)
                parts.append(collected(events.slice(low, PIECE))[self.row[mine] - low] if len(mine) else parts[0])
            found = pl.concat(parts, rechunk=True)
        at = pl.Series(place).set(pl.Series(place < 0), None)
        return found.select(pl.all().gather(at))


def beside(share: Share, ids: pl.Series) -> Beside:
    """The events from the first to the last of these (null: none) on each of their lanes, and few others."""
    of_host = _of_host(share)
    place, row = _placed(of_host, ids)
    low, high = np.full(of_host.height + 1, np.iinfo(np.int64).max), np.full(of_host.height + 1, -1)
    np.minimum.at(low, place, row)
    np.maximum.at(high, place, row)
    low, high = (bounds[:-1][high[:-1] >= 0] for bounds in (low, high))
    if len(low) == 0:
        return Beside(share.threads.clear(), 0, row, place)
    apart = np.flatnonzero(low[1:] - high[:-1] > _APART)
    low, high = low[np.append(0, apart + 1)], high[np.append(apart, len(high) - 1)] + 1
    left_out = low - np.append(0, np.cumsum(high - low)[:-1])
    here = row - left_out[np.searchsorted(low, row, side="right") - 1] if len(low) > 1 else row - low[0]
    events = pl.concat([share.threads.slice(begin, end - begin) for begin, end in zip(low, high, strict=True)])
    lane = np.append(of_host["lane"].to_numpy(), -1)[place]
    return Beside(events, int((high - low).sum()), np.where(row < 0, -1, here), lane)


_APART: Final = 1 << 16
"""Stretches of events that have fewer between them are read as one: as many are read at once in any case."""


def _of_host(share: Share) -> pl.DataFrame:
    """The lanes of the host, in the order of their events among `Share.threads`."""
    return share.lanes.filter(pl.col("rank").is_null()).sort("lane")


def _placed(of_host: pl.DataFrame, ids: pl.Series) -> tuple[Ints, Ints]:
    """Of each of these events the place of its lane among those of the host, and its row; -1 where it is not there."""
    wanted = ids.fill_null(-1).to_numpy()
    begin, low, events = (np.append(of_host[name].to_numpy(), 0) for name in ("begin", "low", "events"))
    place = np.searchsorted(begin[:-1], wanted, side="right") - 1
    row = wanted - begin[place]
    there = row < events[place]
    if there.all() and place.min(initial=0) >= 0:
        return place, row + low[place]
    there &= place >= 0
    return np.where(there, place, -1), np.where(there, row + low[place], -1)


def having(share: Share, ids: pl.Series) -> pl.LazyFrame:
    """These events of the host (null: none), sorted by id."""
    wanted = ids.drop_nulls().unique()
    return beside(share, wanted).events.filter(pl.col("id").is_in(wanted.implode()))


def batches(share: Share, lanes: Collection[int] | None = None) -> Iterator[pl.LazyFrame]:
    """The events of these lanes of the host (None: of all), some lanes at a time: as many as fit, at least one."""
    for some, _ in _batched(share, lanes):
        yield on_lanes(share, some)


def pieces(share: Share, lanes: Collection[int] | None = None) -> Iterator[pl.LazyFrame]:
    """The same in pieces of a bounded size, one at least: what is around an event may be in an earlier one."""
    for some, many in _batched(share, lanes):
        events = on_lanes(share, some)
        for first in range(0, max(many, 1), PIECE):
            yield events.slice(first, PIECE) if many > PIECE else events


def _batched(share: Share, lanes: Collection[int] | None) -> Iterator[tuple[list[int], int]]:
    """Some of these lanes of the host after others, and how many events they have."""
    of_host = _of_host(share)
    mine = of_host if lanes is None else of_host.filter(pl.col("lane").is_in(list(lanes)))
    batch = ((mine["events"].cum_sum() - mine["events"]) // _BATCH).alias("batch")
    for some in mine.select("lane", "events", batch).partition_by("batch", maintain_order=True):
        yield some["lane"].to_list(), int(some["events"].sum())


_BATCH: Final = 1 << 18
"""Events of host lanes that are looked at together."""

PIECE: Final = 1 << 21
"""Events of a host that are looked at together where one lane has more of them."""


def together(share: Share, when: Callable[[pl.LazyFrame], Mapping[str, Intervals]]) -> dict[str, Intervals]:
    """What `when` says of some events of the host after others, as if it had seen all of them at once.

    It must look at each by itself, and not at what is around it.
    """
    found: dict[str, list[Intervals]] = {}
    for threads in pieces(share):
        for name, intervals in when(threads).items():
            found.setdefault(name, []).append(intervals)
    return {name: merge(*sets) for name, sets in found.items()}


def near(windows: Intervals) -> pl.Expr:
    """Which events overlap one of these windows, a set of intervals: what is around one of them does so, too."""
    begins = np.append(windows.start, np.iinfo(np.int64).max)

    def overlap(times: pl.Series) -> pl.Series:
        """Whether the first window that ends after an event starts begins before it ends."""
        start, end = (times.struct.field(name).to_numpy() for name in ("start", "end"))
        return pl.Series(begins[passed(windows.end, start)] < end)

    return pl.struct("start", "end").map_batches(overlap, return_dtype=pl.Boolean, is_elementwise=True)


def names_of(threads: pl.LazyFrame) -> list[str]:
    """The names that occur among events of host lanes."""
    names = collected(threads.select("name")).to_series().drop_nulls()
    physical = names.to_physical().to_numpy()
    found = np.flatnonzero(occurring(physical)).astype(physical.dtype)
    return pl.Series(found).cat.to(names.dtype).cast(pl.String).to_list()


def during(threads: pl.DataFrame, windows: Intervals, options: Options | None = None) -> pl.DataFrame:
    """For every window and host lane, which events ran there as the innermost, and for how long.

    `threads` are events of host lanes, sorted by id; `windows` a set of intervals. Returns `window` (its index),
    `lane`, `name`, `inside` (the nearest annotation around, null without one: it says what a frame of a library was
    called for), `time` (ps inside the window), `count` (events) and `event` (id of the one with the most time), sorted
    by (window, time descending). Time in which a thread has no event at all is not listed, and of time in which it has
    two that overlap in part the earlier has all.
    """
    if len(windows.start):
        low, high = int(windows.start[0]), int(windows.end[-1])
        threads = threads.filter((pl.col("start") < high) & (pl.col("end") > low))
    start, end = threads["start"].to_numpy(), threads["end"].to_numpy()
    parent = local_parent(threads)
    owned = one_at_a_time(start, end, parent, threads["lane"].to_numpy())
    window, row, time = _spent(owned, windows, len(start))
    kinds, number = _numbered(threads.select("lane", "name", _annotation(threads, parent)))
    place = window * kinds.height + number[row]
    group, first = alike(place)
    most_of = most(group, time, np.zeros_like(time), len(first))  # of several the first: they come in the order of ids
    total = summed(group, time, len(first))
    window, kind = np.divmod(place[first], max(1, kinds.height))
    order = np.lexsort((-total, window))
    members = grouped(options or Options(), group, threads["id"].gather(row), len(first))
    return kinds[kind[order]].select(
        pl.Series("window", window[order]),
        "lane",
        "name",
        "inside",
        threads["id"].gather(row[most_of[order]]).alias("event"),
        pl.Series("count", np.bincount(group, minlength=len(first))[order]),
        pl.Series("time", total[order]),
        **{name: each.gather(order) for name, each in members.items()},
    )


def _numbered(events: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """The rows of lane, name and annotation that differ, as text and in order, and for every event which it has."""
    number, first = alike(stretch(events["lane"].to_numpy()), codes(events["name"]), codes(events["inside"]))
    every = events[first].with_columns(pl.col(pl.Categorical).cast(pl.String)).with_row_index("number")
    every = every.sort(events.columns)
    place = np.empty(every.height, np.int64)
    place[every["number"].to_numpy()] = np.arange(every.height)
    return every.drop("number"), place[number]


def _annotation(threads: pl.DataFrame, parent: Ints) -> pl.Series:
    """For every event the name of the nearest annotation that contains it."""
    around = nearest_around(parent, (threads["kind"] == "annotation").to_numpy())
    names = threads["name"].gather(np.maximum(around, 0))
    return pl.select(pl.when(pl.Series(around >= 0)).then(names).alias("inside")).to_series()


def nearest_around(parent: Ints, marks: Mask, rows: npt.NDArray[np.integer] | None = None) -> Ints:
    """For every event (or for these rows) the row of the nearest event around it that is marked, -1 without one.

    `parent` is the row of the event that directly contains it, -1 for none.
    """
    if rows is None:
        found: Ints = np.append(nearest(parent, marks), -1)[parent]  # of none, at -1
        return found
    around: Ints = parent[rows]
    while len(climbing := np.flatnonzero((around >= 0) & ~marks[around])):
        around[climbing] = parent[around[climbing]]
    return around


def told_by_name(events: pl.DataFrame, say: Callable[[str, str], int | None]) -> npt.NDArray[np.int8]:
    """What each event's `name` and `kind` say: a small number, -1 where they say nothing.

    `say` is asked once for each pair that occurs; of what has no name it is given "".
    """
    pairs = Pairs(events["name"], events["kind"])
    names, kinds = (events[column].gather(pairs.rows).cast(pl.String).to_list() for column in ("name", "kind"))
    told = (say(name or "", kind or "") for name, kind in zip(names, kinds, strict=True))
    answers = [-1 if said is None else said for said in told]
    return pairs.told(np.array(answers, np.int8))


def overlaps(owned: Owned, windows: Intervals) -> tuple[Ints, Ints, Ints]:
    """Every pair of a window and a stretch that overlap: window index, owner of the stretch, common length.

    The windows are a set of intervals, the stretches may be any.
    """
    stretch, window = pairs_of(owned.start, owned.end, windows)
    start = np.maximum(owned.start[stretch], windows.start[window])
    end = np.minimum(owned.end[stretch], windows.end[window])
    return window, owned.owner[stretch], end - start


def _spent(owned: Owned, windows: Intervals, count: int) -> tuple[Ints, Ints, Ints]:
    """Window, row and time of each of `count` events in each window, in the order of these, where there is any time."""
    if len(windows.start) == 1:  # as of a whole run, whose events are many
        inside = np.minimum(owned.end, windows.end[0]) - np.maximum(owned.start, windows.start[0])
        time = summed(owned.owner, np.maximum(inside, 0), count)
        row = np.flatnonzero(time)
        return np.zeros(len(row), np.int64), row, time[row]
    return _summed(*overlaps(owned, windows), count)


def _summed(window: Ints, row: Ints, time: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """The sums of the times of each window and each of `count` rows that occur together, in the order of these."""
    place = window * count + row
    order = np.argsort(place, kind="stable")
    place = place[order]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    window, row = np.divmod(place[first], max(1, count))
    return window, row, np.add.reduceat(time[order], first) if len(first) else time
