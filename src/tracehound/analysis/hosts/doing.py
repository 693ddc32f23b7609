"""What the host was at while a device idled: on the thread that matters, and for most of the time.

Owns which thread of a host matters for a rank, and how its time is told in the words of `hosts.words`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.hosts.program_threads import main_thread
from tracehound.analysis.hosts.threads import names_of, on_lanes, pieces
from tracehound.analysis.hosts.words import QUIET, WORDS, doing_codes
from tracehound.analysis.result import OfHost, Share
from tracehound.analysis.settings import Given
from tracehound.intervals import Intervals, Ints, shared_time
from tracehound.own_time import innermost
from tracehound.trace import collected

T = TypeVar("T", bound=np.integer[Any])

DOINGS: Final = (*WORDS, QUIET)
"""What a thread may be at, in the order of the times of `Told`."""

_EVER: Final = np.iinfo(np.int64).max


class Doing(NamedTuple):
    """Some of what a thread is at: a set of intervals, and of each the place of its words in `WORDS`."""

    when: Intervals
    words: npt.NDArray[np.integer]


class Told(NamedTuple):
    """What threads are at: by lane. `main` is the lane of the program's own thread, -1 without one."""

    doings: Mapping[int, Doing]
    main: int

    def spent(self, lane: Ints, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
        """For every stretch of time, what its lane spent on each of `DOINGS`, ps; 0 where it has no lane."""
        return self.summed(lane, start, end, np.arange(len(start)), len(start))

    def summed(self, lane: Ints, start: Ints, end: Ints, group: Ints, groups: int) -> npt.NDArray[np.int64]:
        """The same for groups of stretches, numbered below `groups`: the sums of theirs."""
        times = np.zeros((groups, len(DOINGS)), np.int64)
        places = times.ravel()
        first = group * times.shape[1]
        known = np.flatnonzero(lane >= 0)
        np.add.at(places, first[known] + len(WORDS), end[known] - start[known])
        for number, doing in self.doings.items():
            mine = np.flatnonzero(lane == number)
            shared_time(start[mine], end[mine], first[mine], doing.when, doing.words, places)
        times[:, -1] -= times[:, :-1].sum(axis=1)
        return times


Read = Callable[[int], Iterable[pl.LazyFrame]]
"""Gives the events of a host lane, or as many of them as overlap the times of interest, in pieces; sorted by id."""


def told(share: Share, launching: Ints, waits: Collection[int], read: Read) -> Told:
    """What the threads that matter are at: the program's own, and in a PyTorch trace those that launch.

    It holds in the times of interest of `read`. `waits` are the calls that wait for a copy of the rank's device
    (`hosts.waits.blocking`).
    """
    known = PROGRAM.found(share)
    if known is None or waits:
        known = Told({}, main_thread(share))
    launchers = set() if share.profiler == "XLA" else set(pl.Series(launching).unique().to_list())
    lanes = sorted(({known.main} | launchers) - {-1} - known.doings.keys())
    with ThreadPoolExecutor(_TOGETHER, "tracehound doings") as threads:
        found = threads.map(lambda lane: _doings(share, lane, waits, read), lanes)
        return Told({**known.doings, **dict(zip(lanes, found, strict=True))}, known.main)


_TOGETHER: Final = 2
"""Threads of a host that are looked at together: the one that runs the model, and the one that runs it backwards."""


def _program(share: Share, given: Given) -> Told:
    del given
    main = main_thread(share)
    if main < 0:
        return Told({}, main)
    return Told({main: _doings(share, main, (), lambda lane: pieces(share, [lane]))}, main)


PROGRAM: Final = OfHost(_program)
"""What the program's own thread on a host is at, where no call waits for a copy of the rank's device."""


def _doings(share: Share, lane: int, waits: Collection[int], read: Read) -> Doing:
    """What a thread is at, which is one thing at a time; `waits` are its calls that wait for a copy (`blocking`)."""
    names = names_of(on_lanes(share, [lane]))
    starts, ends, told = list[Ints](), list[Ints](), list[npt.NDArray[np.integer[Any]]]()
    for events, low, high in _with_open(read(lane)):
        parent = local_parent(events)
        code = doing_codes(events, parent, names, waits)
        start, end, words = innermost(events["start"].to_numpy(), events["end"].to_numpy(), parent, code)
        some = slice(np.searchsorted(end, low, side="right"), np.searchsorted(start, high))
        start, end = start[some], end[some]
        start[:1], end[-1:] = start[:1].clip(min=low), end[-1:].clip(max=high)
        starts.append(start)
        ends.append(end)
        told.append(words[some])
    return Doing(Intervals(_joined(starts), _joined(ends)), _joined(told))


def _joined(parts: list[npt.NDArray[T]]) -> npt.NDArray[T]:
    """The parts as one; they are let go, for together they are as long as the events of a thread."""
    joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
    parts.clear()
    return joined


def _with_open(read: Iterable[pl.LazyFrame]) -> Iterator[tuple[pl.DataFrame, int, int]]:
    """Each piece of a lane with those events of earlier ones that last into it, and the times of which it has all."""
    events, low = pl.DataFrame(), -_EVER
    for piece in read:
        rows = collected(piece.select("id", "name", "kind", "parent", "start", "end"))
        if events.is_empty():
            events = rows
        elif rows.height:
            high = int(rows["start"][0])
            if low < high:
                yield events, low, high
            events, low = pl.concat([events.filter(pl.col("end") > high), rows]), high
    yield events, low, _EVER


def mattering(share: Share, found: Told, launching: Ints) -> Ints:
    """For work that these lanes launched (-1: not known), the lane whose doings explain why it came no earlier.

    XLA's work is launched by pools of threads: there it is the program's own thread.
    """
    if share.profiler == "XLA":
        return np.full(len(launching), found.main)
    return np.where(launching < 0, found.main, launching)


def mostly(spent: npt.NDArray[np.int64]) -> tuple[pl.Series, npt.NDArray[np.int64]]:
    """Of the times of `Told.spent`, row by row, the words that took most, and how long; null where nothing is known."""
    most = spent.argmax(axis=1) if len(spent) else np.empty(0, np.intp)
    time = spent[np.arange(len(spent)), most]
    known = pl.Series(most).set(pl.Series(time <= 0), None)
    return pl.Series("why", DOINGS).gather(known), time
