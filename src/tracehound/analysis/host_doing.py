"""What the host was at while a device idled: on the thread that matters, and for most of the time.

Owns which thread of a host matters for a rank, and how its time is told in the words of `host_words`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.busy import local_parent
from tracehound.analysis.host_waits import blocking
from tracehound.analysis.host_words import QUIET, WORDS, doing_codes
from tracehound.analysis.result import OfHost, Share
from tracehound.analysis.settings import Given
from tracehound.analysis.threads import on_lanes
from tracehound.formats.xla_names import leads
from tracehound.intervals import Intervals, Ints, covered, union
from tracehound.nesting import own_stretches
from tracehound.trace import collected

_MARKS: Final = ("step", "annotation", "python")
_JITTED: Final = "PjitFunction("


class Told(NamedTuple):
    """When threads are at what: by lane and words. `main` is the lane of the program's own thread, -1 without one."""

    when: Mapping[tuple[int, str], Intervals]
    main: int

    def spent(self, lane: Ints, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
        """For every stretch of time, what its lane spent on each of `WORDS` and `QUIET`, ps; 0 where it has no lane."""
        times = np.zeros((len(start), len(WORDS) + 1), np.int64)
        for (number, words), when in self.when.items():
            mine = np.flatnonzero(lane == number)
            times[mine, WORDS.index(words)] = covered(when, start[mine], end[mine])
        times[:, -1] = np.where(lane >= 0, end - start - times.sum(axis=1), 0)
        return times


def told(share: Share, launching: Ints) -> Told:
    """What the threads that matter are at: the program's own, and in a PyTorch trace those that launch."""
    waits = blocking(share)
    program = _leading(share, waits) if waits else PROGRAM.of(share)
    others = set() if _xla(share) else {lane for lane in np.unique(launching).tolist() if lane >= 0} - {program.main}
    found = dict(program.when)
    for lane in sorted(others):
        found |= _doings(share, lane, waits)
    return Told(found, program.main)


def _program(share: Share, given: Given) -> Told:
    del given
    return _leading(share, ())


PROGRAM: Final = OfHost(_program)
"""What the program's own thread on a host is at, where no call waits for a copy of the rank's device."""


def _leading(share: Share, waits: Collection[int]) -> Told:
    main = main_thread(share)
    return Told(_doings(share, main, waits) if main >= 0 else {}, main)


def _doings(share: Share, lane: int, waits: Collection[int]) -> dict[tuple[int, str], Intervals]:
    return {(lane, words): when for words, when in _at(on_lanes(share, [lane]), waits)}


def _at(thread: pl.LazyFrame, waits: Collection[int]) -> Iterator[tuple[str, Intervals]]:
    """When a thread is at what; `waits` are calls that wait for their copy.

    Of its many events no more is read at once than each step of this needs.
    """
    events = collected(thread.select("id", "name", "kind", "parent"))
    code, parent = doing_codes(events, waits), local_parent(events)
    del events
    times = collected(thread.select("start", "end"))
    owned = own_stretches(times["start"].to_numpy(), times["end"].to_numpy(), parent)
    del times, parent
    code = code[owned.owner]
    for number, words in enumerate(WORDS):
        mine = np.flatnonzero(code == number)
        if len(mine):
            yield words, union(owned.start[mine], owned.end[mine])


def mattering(share: Share, found: Told, launching: Ints) -> Ints:
    """For work that these lanes launched (-1: not known), the lane whose doings explain why it came no earlier.

    XLA's work is launched by pools of threads: there it is the program's own thread.
    """
    return np.full(len(launching), found.main) if _xla(share) else np.where(launching < 0, found.main, launching)


def main_thread(share: Share) -> int:
    """The lane of the thread that runs the program: it has the marks of steps, else annotations and Python.

    One that is named like a program's own comes before others with more of these, if it has any, or calls what was
    jitted: a process may have a thread ``main`` that only waits for the one at work.
    """
    rows = share.threads.group_by("lane").agg(
        (pl.col("kind") == "step").sum().alias("steps"),
        pl.col("kind").is_in(_MARKS).sum().alias("marks"),
        pl.len().alias("events"),
    )
    names = share.lanes.select("lane", pl.col("name").map_elements(leads, return_dtype=pl.Boolean).alias("leads"))
    known = collected(rows).join(names, on="lane")
    named = on_lanes(share, known.filter("leads")["lane"].to_list())
    calling = collected(named.filter(pl.col("name").cat.starts_with(_JITTED)).select(pl.col("lane").unique()))
    at_work = pl.col("leads") & ((pl.col("marks") > 0) | pl.col("lane").is_in(calling["lane"].implode()))
    order = ["steps", "acts", "marks", "leads", "events", "lane"]
    found = known.with_columns(at_work.alias("acts")).sort(order, descending=[True] * 5 + [False])
    return int(found["lane"][0]) if found.height else -1


def mostly(spent: npt.NDArray[np.int64]) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """Of the times of `Told.spent`, row by row, the words that took most, and how long; None where nothing is known."""
    said = (*WORDS, QUIET)
    most = spent.argmax(axis=1) if len(spent) else np.empty(0, np.intp)
    time = spent[np.arange(len(spent)), most]
    return [said[words] if took > 0 else None for words, took in zip(most.tolist(), time.tolist(), strict=True)], time


def _xla(share: Share) -> bool:
    """Whether XLA drives the device: also one that only copies, beside others that run its ops."""
    return (
        share.ops.height > 0
        or not share.lanes.filter(pl.col("rank").is_not_null() & pl.col("role").is_in(["modules", "ops"])).is_empty()
    )
