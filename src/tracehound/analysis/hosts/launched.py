"""Which call of the host put which work on a device.

Owns what counts as enqueued work and as a call, and the joining of the two. Knows no metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.events.numbering import turns
from tracehound.analysis.hosts.threads import beside
from tracehound.analysis.result import Scene, Share
from tracehound.formats.assembly.links import SEVERAL
from tracehound.intervals import Ints
from tracehound.notes import Note, note
from tracehound.trace import collected

CALLS = ("runtime", "transfer", "sync", "other")
"""Kinds of the host's events that put work on a device: not its own ops."""

UNKNOWN: Final = np.iinfo(np.int64).max
"""In place of the time of a launch that is not known."""

WORK = """\
Work is what a call puts on a device: kernels, copies and memsets on its streams; where a device has lines of XLA ops
in place of streams (TPU, CPU), the executions of programs. Its call is the event of the runtime, of the driver or of
the framework's executor to which the trace links it (Kineto, CUPTI, roctracer: the same correlation id; XLA: the same
context or run id), whatever its name: cudaLaunchKernel, cudaLaunchKernelExC, cuLaunchKernel of Triton, all of HIP,
copies and memsets, and cudaGraphLaunch or hipGraphLaunch, which is one call for all nodes of a graph."""


class Launched(Struct, frozen=True, eq=False, dict=True):
    """The enqueued work of one rank's device.

    `work` has those events whose call is known, sorted by (lane, start): id, lane, start, end, name, and of the call
    launch (its id) and the columns of `calls_of`. Times in ps. `unknown` counts the others.
    """

    work: pl.DataFrame
    unknown: int

    @cached_property
    def several(self) -> bool:
        """Whether any call put more than one event on the device: a graph's launch."""
        calls = np.sort(self.work["launch"].to_numpy())
        return bool((calls[1:] == calls[:-1]).any())

    @property
    def early(self) -> int:
        """How much work seems to begin before its call: the clocks of device and host disagree."""
        return int((self.work["start"] < self.work["called"]).sum())


def launched(share: Share, device: pl.LazyFrame, *more: str) -> Launched:
    """The work among events of the share's `device` (those of its window, or those of `anytime`), and its calls.

    With `more` columns of the work.
    """
    lanes = enqueued(share.lanes)["lane"].to_list()
    columns = ("id", "lane", "start", "end", "name", "launch", *more)
    work = collected(device.filter(pl.col("lane").is_in(lanes)).select(columns))
    calls = calls_of(share, work["launch"], CALLS)
    joined = pl.concat([work, calls], how="horizontal").drop_nulls("caller")
    return Launched(joined, work.height - joined.height)


def calls_of(share: Share, launch: pl.Series, kinds: Sequence[str] | None = None) -> pl.DataFrame:
    """Of each launch (the id of a call; null: none is known) the call on the host, in rows of the same order.

    Columns: call (its name), caller (its lane), called and returned (its start and end, ps); null without one, or where
    it is of none of these `kinds`.
    """
    sought = beside(share, launch)
    calls = sought.found(*_CALL.values(), *(() if kinds is None else ("kind",)))
    found = calls.select(pl.col(name).alias(alias) for alias, name in _CALL.items())
    found = found.insert_column(1, pl.Series("caller", sought.lane).set(pl.Series(sought.row < 0), None))
    if kinds is None or (counting := calls["kind"].is_in(kinds)).all(ignore_nulls=True):
        return found
    return found.select(pl.when(counting).then(pl.all()))


_CALL: Final = MappingProxyType({"call": "name", "called": "start", "returned": "end"})


def at_the_latest(lane: Ints, called: Ints) -> Ints:
    """When each work had been launched at the latest: a stream runs its work in the order of its launches.

    So what has no known launch (`called` is `UNKNOWN`) was launched before all that runs later on its lane. Rows are
    sorted by (lane, start).
    """
    return np.concatenate([np.minimum.accumulate(here[::-1])[::-1] for here in np.split(called, turns(lane))])


def enqueued(lanes: pl.DataFrame) -> pl.DataFrame:
    """Of a rank's lanes those on which enqueued work is drawn: streams, else executions of programs."""
    device = lanes.filter(pl.col("rank").is_not_null())
    streams = device.filter(pl.col("work") & (pl.col("role") != "ops"))
    return streams if streams.height else device.filter(pl.col("role") == "modules")


def doubts(unknown: int, early: int, scene: Scene) -> list[Note]:
    """What is to be known of work that is not counted, whose launch is a guess, or whose times cannot be true."""
    found = [note("device_events_not_counted", level="missing", events=unknown)] if unknown else []
    if early:
        found.append(note("device_events_before_launch", events=early))
    if ids := sum(each.count for notes in scene.read for each in notes if each.code == SEVERAL):
        found.append(note("correlation_ids_shared", level="inferred", ids=ids))
    return found
