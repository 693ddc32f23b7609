"""Calls of the host that put work on a device, and the calls in which launching threads wait.

Defines enqueued work and its calls, joins the two, and decides which calls wait for their copies. Also finds launches
whose work was not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.hosts.host_threads import event_names, host_events_between
from tracehound.analysis.hosts.host_time_parts import LOADER_SETTING
from tracehound.analysis.rank_trace import RankTrace, RunContext, SharedHostResult, SharedRankResult
from tracehound.analysis.timing.row_groups import value_change_rows
from tracehound.formats.assembly.launch_links import CORRELATION_IDS_REPEATED
from tracehound.formats.name_filter import NameFilter
from tracehound.formats.runtime_names import ALLOCATION_CALL as ALLOCATING
from tracehound.formats.runtime_names import (
    BLOCKING_COPY_CALL,
    CAPTURE_END_CALL,
    CAPTURE_END_FUNCTION,
    CAPTURE_START_CALL,
    CAPTURE_START_FUNCTION,
    COPY_CALL,
    QUERY_CALL,
    RECORDED_LAUNCH_CALL,
    SINGLE_KERNEL_CALL,
    WAIT_CALL,
)
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals, Ints, Mask, merge, union

LAUNCH_KINDS = ("runtime", "transfer", "sync", "other")
"""Kinds of host events that put work on a device: not its own ops."""

UNKNOWN_TIME: Final = np.iinfo(np.int64).max
"""In place of the time of an unknown launch."""

ENQUEUED_WORK_DEFINITION = """\
Work is what a call puts on a device: kernels, copies and memsets on its streams, or, if a device has lines of XLA ops
(TPU, CPU), the executions of programs. Its call is the event of the runtime, the driver or the framework's executor to
which the trace links it (Kineto, CUPTI, roctracer: the same correlation id; XLA: the same context or run id), whatever
its name: cudaLaunchKernel, cudaLaunchKernelExC, cuLaunchKernel of Triton, all of HIP, copies and memsets, and
cudaGraphLaunch or hipGraphLaunch, which is one call for all nodes of a graph."""


class EnqueuedWork(Struct, frozen=True, eq=False, dict=True):
    """The enqueued work of one rank's device.

    `work` has the events with a known call, sorted by (lane, start): id, lane, start, end, name, and of the call launch
    (its id) and the columns of `launching_calls`. Times in ps. `count_unlaunched` counts the others.
    """

    work: pl.DataFrame
    count_unlaunched: int

    @cached_property
    def has_shared_launches(self) -> bool:
        """True if any call put more than one event on the device: a graph's launch."""
        calls = np.sort(self.work["launch"].to_numpy())
        return bool((calls[1:] == calls[:-1]).any())

    @property
    def count_before_launch(self) -> int:
        """Number of events that begin before their call: the clocks of device and host disagree."""
        return int((self.work["start"] < self.work["called"]).sum())


def find_enqueued_work(rank_trace: RankTrace, device: pl.LazyFrame, *more: str) -> EnqueuedWork:
    """The enqueued work among events of the rank's `device` (those of its window, or at any time), and its calls.

    `more` names further columns of the work.
    """
    lanes = enqueued_work_lanes(rank_trace.lanes)["lane"].to_list()
    columns = ("id", "lane", "start", "end", "name", "launch", *more)
    work = collect_frame(device.filter(pl.col("lane").is_in(lanes)).select(columns))
    calls = _own_calls(rank_trace, work, LAUNCH_KINDS)
    joined = pl.concat([work, calls], how="horizontal").drop_nulls("caller")
    return EnqueuedWork(joined, work.height - joined.height)


def launching_calls(rank_trace: RankTrace, launch: pl.Series, kinds: Sequence[str] | None = None) -> pl.DataFrame:
    """For each launch (the id of a call; null: unknown) its call on the host, in rows of the same order.

    Columns: call (its name), caller (its lane), called and returned (its start and end, ps); null without one, or if it
    is of none of these `kinds`.
    """
    sought = host_events_between(rank_trace, launch)
    calls = sought.read_columns(*_CALL_COLUMNS.values(), *(() if kinds is None else ("kind",)))
    found = calls.select(pl.col(name).alias(alias) for alias, name in _CALL_COLUMNS.items())
    found = found.insert_column(1, pl.Series("caller", sought.lane).set(pl.Series(sought.row < 0), None))
    if kinds is None or (counting := calls["kind"].is_in(kinds)).all(ignore_nulls=True):
        return found
    return found.select(pl.when(counting).then(pl.all()))


def _own_calls(rank_trace: RankTrace, work: pl.DataFrame, kinds: Sequence[str] | None = None) -> pl.DataFrame:
    """The calls of work, as `launching_calls`, but none for events that have the id of another event's call.

    Those are the later ones of a call that launches one kernel: files that give several kernels one correlation id
    have launches without work, too. Reads `launch` and `start`.
    """
    calls = launching_calls(rank_trace, work["launch"], kinds)
    if rank_trace.unmatched_launches == 0:
        return calls
    names = calls["call"].unique().cast(pl.String).drop_nulls().to_list()
    single = calls["call"].is_in([name for name in names if SINGLE_KERNEL_CALL.search(name)]).fill_null(value=False)
    shared = work.select("launch", "start").with_row_index("row").filter(single & work["launch"].is_duplicated())
    later = shared.sort("start", "row").filter(~pl.col("launch").is_first_distinct())["row"]
    is_own = pl.Series(np.ones(work.height, np.bool_)).scatter(later, values=False)
    return calls.select(pl.when(is_own).then(pl.all()).name.keep())


_CALL_COLUMNS: Final = MappingProxyType({"call": "name", "called": "start", "returned": "end"})


def latest_launch_times(lane: Ints, called: Ints) -> Ints:
    """For each event the latest time at which it was launched: a stream runs its work in the order of its launches.

    So work without a known launch (`called` is `UNKNOWN_TIME`) was launched before all that runs later on its lane.
    Rows are sorted by (lane, start).
    """
    return np.concatenate(
        [np.minimum.accumulate(here[::-1])[::-1] for here in np.split(called, value_change_rows(lane))]
    )


def enqueued_work_lanes(lanes: pl.DataFrame) -> pl.DataFrame:
    """Those of a rank's lanes with enqueued work: streams, else executions of programs."""
    device = lanes.filter(pl.col("rank").is_not_null())
    streams = device.filter(pl.col("work") & (pl.col("role") != "ops"))
    return streams if streams.height else device.filter(pl.col("role") == "modules")


def launch_doubt_notes(unknown: int, early: int, context: RunContext) -> list[Note]:
    """Notes about work that is not counted, whose launch is a guess, or whose times are impossible."""
    found = [note("device_events_not_counted", level="missing", events=unknown)] if unknown else []
    if early:
        found.append(note("device_events_before_launch", events=early))
    if ids := sum(
        each.count for notes in context.file_notes for each in notes if each.code == CORRELATION_IDS_REPEATED
    ):
        found.append(note("correlation_ids_shared", level="inferred", ids=ids))
    return found


SYNCHRONIZATION: Final = "synchronization"
ALLOCATION: Final = "allocation"
LOADING: Final = "data loading"

_WAIT_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        SYNCHRONIZATION: re.compile(
            "|".join((WAIT_CALL.pattern, QUERY_CALL.pattern, "BlockHostUntil|BlockUntil", BLOCKING_COPY_CALL.pattern))
        ),
        ALLOCATION: ALLOCATING,
        LOADING: LOADER_SETTING.value_in(()),
    }
)
_WAIT_FILTER: Final = NameFilter(*_WAIT_PATTERNS.values())


class WorkLaunches(NamedTuple):
    """Launches of device events: start and return (ps; the lowest number if unknown), and lane.

    `lane` is the host lane of the launch, -1 without one. `latest` is the latest time at which work on a stream was
    launched, `UNKNOWN_TIME` without such a time.

    `queued` is true for work on a stream, which is in its queue once it is launched (threads of XLA carry out the
    launch of a program later). `waits` is true for copies that their call waits for: without Async in the name, or (as
    from and to pageable memory) returned only when the copy had ended. `busy` has, by cause and host lane, the
    intervals in which the host was in calls that wait for that.
    """

    start: Ints
    returned: Ints
    lane: Ints
    latest: Ints
    queued: Mask
    waits: Mask
    busy: Mapping[tuple[str, int], Intervals]

    def select_rows(self, rows: npt.NDArray[np.intp]) -> WorkLaunches:
        """The launches of the events in these rows."""
        start, returned, lane, latest = (each[rows] for each in (self.start, self.returned, self.lane, self.latest))
        return WorkLaunches(start, returned, lane, latest, self.queued[rows], self.waits[rows], self.busy)


def find_work_launches(rank_trace: RankTrace, events: pl.DataFrame) -> WorkLaunches:
    """The launches of these events of the rank's device; reads `lane`, `start`, `end` and `launch`."""
    called = _own_calls(rank_trace, events)
    calls = pl.concat([events.select("launch", "end"), called], how="horizontal")
    waits = awaited_copies(calls)
    on_stream = events["lane"].is_in(_stream_lanes(rank_trace))
    queued = calls["caller"].is_not_null() & on_stream
    known = calls["called"].fill_null(UNKNOWN_TIME).to_numpy()
    return WorkLaunches(
        start=calls["called"].fill_null(np.iinfo(np.int64).min).to_numpy(),
        returned=calls["returned"].fill_null(np.iinfo(np.int64).min).to_numpy(),
        lane=calls["caller"].fill_null(-1).to_numpy(),
        latest=np.where(on_stream.to_numpy(), latest_launch_times(events["lane"].to_numpy(), known), UNKNOWN_TIME),
        queued=queued.to_numpy(),
        waits=waits.to_numpy(),
        busy=_wait_intervals(rank_trace, calls.filter(waits).unique("launch")),
    )


def blocking_copy_calls(rank_trace: RankTrace) -> list[int]:
    """Ids of the calls, at any time, that wait for their copies though their names do not say so.

    They return only when the copy has ended, as cudaMemcpyAsync does from and to pageable memory.
    """
    launched = (pl.col("kind") == "copy") & pl.col("launch").is_not_null()
    copies = collect_frame(rank_trace.device_anytime.filter(launched).select("launch", "end"))
    work = pl.concat([copies, launching_calls(rank_trace, copies["launch"])], how="horizontal").drop_nulls("caller")
    return work.filter(awaited_copies(work))["launch"].unique().to_list()


def is_blocking_copy(name: str, returned: int, copies: Collection[int]) -> bool:
    """True if a call of this name, which returned at this time, waits for its copies; `copies` are their ends, ps.

    By the rule of `WorkLaunches`, for a single call.
    """
    late = bool(COPY_CALL.search(name)) and bool(copies) and returned >= max(copies)
    return late or bool(BLOCKING_COPY_CALL.search(name))


def _stream_lanes(rank_trace: RankTrace) -> list[int]:
    return rank_trace.lanes.filter(pl.col("role") == "stream")["lane"].to_list()


def awaited_copies(work: pl.DataFrame) -> pl.Series:
    """Mask of the work that is a copy its call waits for.

    `work` has launch, end, and `call` and `returned` of `launching_calls`.
    """
    names = work["call"].unique().cast(pl.String).drop_nulls().to_list()
    named, copies = (
        work["call"].is_in([name for name in names if pattern.search(name)]).fill_null(value=False)
        for pattern in (BLOCKING_COPY_CALL, COPY_CALL)
    )
    if not copies.any():
        return named
    late = work.filter(copies).select(pl.col("returned") >= pl.col("end").max().over("launch")).to_series()
    return named | copies.scatter(copies.arg_true(), late)


def _wait_intervals(rank_trace: RankTrace, copies: pl.DataFrame) -> dict[tuple[str, int], Intervals]:
    """Intervals of each host lane in events whose names mean a wait, or in the call of an awaited copy."""
    found = dict(NAMED_WAITS.result_for(rank_trace))
    for (lane,), part in copies.partition_by("caller", as_dict=True).items():
        key = (SYNCHRONIZATION, int(lane))
        found[key] = merge(
            found.get(key, EMPTY_INTERVALS), union(part["called"].to_numpy(), part["returned"].to_numpy())
        )
    return found


def _named_wait_intervals(rank_trace: RankTrace, given: ChosenSettings) -> dict[tuple[str, int], Intervals]:
    del given
    causes = {
        name: cause
        for name in event_names(rank_trace.threads, _WAIT_FILTER)
        for cause, pattern in _WAIT_PATTERNS.items()
        if pattern.search(name)
    }
    rows = collect_frame(
        rank_trace.threads.filter(pl.col("name").is_in(list(causes))).select("lane", "name", "start", "end")
    )
    return {
        (cause, int(lane)): union(part["start"].to_numpy(), part["end"].to_numpy())
        for cause in dict.fromkeys(causes.values())
        for (lane,), part in rows.filter(pl.col("name").is_in([name for name in causes if causes[name] == cause]))
        .partition_by("lane", as_dict=True)
        .items()
    }


NAMED_WAITS: Final = SharedHostResult(_named_wait_intervals)
"""Intervals of each lane of a host in events whose names mean a wait: by cause and lane."""


_LAUNCH_SCHEMA: Final = pl.Schema(
    {
        "start": pl.Int64(),
        "step": pl.Int32(),
        "missing": pl.Boolean(),
        "captured": pl.Boolean(),
        "further": pl.Int64(),
    }
)
_LAUNCH_COLUMNS: Final = ("id", "lane", "start", "end", "name", "kind", "step", "correlation")


def _find_launches(rank_trace: RankTrace) -> pl.DataFrame:
    """All launches of the rank, sorted by start, in `_LAUNCH_SCHEMA`; none if every launch of its file has work.

    Work may be recorded without its call: events without a correlation id that begin after a call without work count as
    work of the earliest such calls. So do further events of a call that launches one kernel (several kernels
    with one correlation id). Calls at the end of the recording count as recorded, too, if their work would have ended
    after it. On a host of several devices a call without work is of the device that its thread launches most on.
    """
    nothing = pl.DataFrame(schema=_LAUNCH_SCHEMA)
    if rank_trace.profiler != "PyTorch" or rank_trace.unmatched_launches == 0:
        return nothing
    names = _CallNames.of_host(rank_trace)
    if not names.launches:
        return nothing
    work = _read_work(rank_trace)
    found = collect_frame(
        rank_trace.threads.filter(pl.col("name").is_in(names.all_names)).select(_LAUNCH_COLUMNS)
    ).with_columns(pl.col("name").cast(pl.String))
    is_launch = found["name"].is_in(list(names.launches)) & (found["kind"] == "runtime")
    calls = found.filter(is_launch.fill_null(value=False)).join(
        work.group_by("launch").agg(pl.len().alias("events"), pl.col("rank").first()),
        left_on="id",
        right_on="launch",
        how="left",
        maintain_order="left",
    )
    calls = _outermost_calls(calls.filter((pl.col("correlation") != 0) | pl.col("events").is_not_null()))
    if calls["rank"].null_count() == calls.height:
        return nothing
    calls = _calls_of_rank(calls, rank_trace.rank).sort("start", "id")
    if calls.is_empty():
        return nothing
    start = calls["start"].to_numpy()
    is_lost = calls["events"].is_null().to_numpy()
    captured = is_lost & _capture_mask(found, names, start)
    lost = np.flatnonzero(is_lost & ~captured)
    unassigned = _unassigned_work(work, calls, names)
    lost = lost[_count_owners(start[lost], unassigned) :]
    lost = _without_unfinished_calls(lost, calls, work, rank_trace)
    missing = np.zeros(len(start), np.bool_)
    missing[lost] = True
    further = pl.when(pl.col("name").is_in(list(names.single))).then(pl.col("events").cast(pl.Int64) - 1)
    return calls.select(
        "start",
        "step",
        missing=pl.Series(missing, dtype=pl.Boolean),
        captured=pl.Series(captured, dtype=pl.Boolean),
        further=further.fill_null(0),
    ).cast(_LAUNCH_SCHEMA)


HOST_LAUNCHES: Final = SharedRankResult(_find_launches)
"""The launches of a rank at any time, sorted by start, and whether their work was recorded.

Columns: start (ps), step, missing (no work was recorded), captured (into a graph: there is none), further (events
beyond the one that the call launched: they share its id). No rows if every launch of the rank's file has work.
"""


_CALL_PATTERNS: Final = (
    RECORDED_LAUNCH_CALL, CAPTURE_START_CALL, CAPTURE_END_CALL, CAPTURE_START_FUNCTION, CAPTURE_END_FUNCTION,
)  # fmt: skip
_CALL_FILTER: Final = NameFilter(*_CALL_PATTERNS)


class _CallNames(NamedTuple):
    """Names of the host's events: of launches, of those that launch one kernel, and at both ends of a graph capture."""

    launches: frozenset[str]
    single: frozenset[str]
    captures: frozenset[str]
    captures_end: frozenset[str]

    @classmethod
    def of_host(cls, rank_trace: RankTrace) -> _CallNames:
        """The names that occur on the rank's host. Functions around captures count where no call of one is recorded."""
        names = event_names(rank_trace.threads, _CALL_FILTER)
        launches, captures, captures_end, functions, functions_end = (
            frozenset(filter(pattern.search, names)) for pattern in _CALL_PATTERNS
        )
        if not (captures or captures_end):
            captures, captures_end = functions, functions_end
        return cls(launches, frozenset(filter(SINGLE_KERNEL_CALL.search, launches)), captures, captures_end)

    @property
    def all_names(self) -> list[str]:
        """All these names."""
        return sorted(self.launches | self.captures | self.captures_end)


def _read_work(rank_trace: RankTrace) -> pl.DataFrame:
    """Work of all devices that the host drives: rank, lane, launch, start, end, kind, correlation."""
    devices = [rank_trace.device_anytime, *([] if rank_trace.other_devices is None else [rank_trace.other_devices])]
    is_work = pl.col("kind").is_in(["kernel", "collective", "copy", "memset"])
    return pl.concat(
        [
            collect_frame(each.filter(is_work).select("rank", "lane", "launch", "start", "end", "kind", "correlation"))
            for each in devices
        ]
    )


def _outermost_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls in no other call, with the work of those inside them; rows are sorted by id, so lane by lane."""
    lane, end = calls["lane"].to_numpy(), calls["end"].to_numpy()
    ends_before = [
        np.append(np.iinfo(np.int64).min, np.maximum.accumulate(each)[:-1])[: len(each)]
        for each in np.split(end, value_change_rows(lane))
    ]
    is_outermost = calls["start"].to_numpy() >= np.concatenate([np.empty(0, np.int64), *ends_before])
    if is_outermost.all():
        return calls
    return (
        calls.with_columns(pl.Series("group", np.cumsum(is_outermost)))
        .group_by("group", maintain_order=True)
        .agg(
            pl.exclude("events", "rank").first(),
            pl.col("events").sum().replace(0, None),
            pl.col("rank").drop_nulls().first(),
        )
    )


def _calls_of_rank(calls: pl.DataFrame, rank: int) -> pl.DataFrame:
    """The calls with work on a rank, and those without work on threads that launch most on it."""
    ranks = calls["rank"].drop_nulls()
    if ranks.n_unique() < 2:
        return calls if rank in ranks else calls.clear()
    most = (
        calls.drop_nulls("rank")
        .group_by("lane", "rank")
        .len()
        .sort("len", "rank", descending=[True, False])
        .unique("lane", keep="first", maintain_order=True)
        .select("lane", pl.col("rank").alias("usual"))
    )
    usual = pl.coalesce("rank", "usual", pl.lit(ranks.min(), pl.Int32))
    return calls.join(most, on="lane", how="left", maintain_order="left").filter(usual == rank)


def _capture_mask(found: pl.DataFrame, names: _CallNames, start: Ints) -> Mask:
    """Mask of the calls that begin while a graph is captured on any thread of the host.

    A capture without a recorded end lasts until the end of the recording, one without a start from its start.
    """
    begins = np.sort(found.filter(pl.col("name").is_in(list(names.captures)))["start"].to_numpy())
    ends = np.sort(found.filter(pl.col("name").is_in(list(names.captures_end)))["end"].to_numpy())
    times = np.concatenate([begins, ends])
    change = np.repeat([1, -1], [len(begins), len(ends)])[np.argsort(times, kind="stable")]
    begun_before = max(0, -int(np.cumsum(change).min(initial=0)))
    running = np.searchsorted(begins, start, side="right") - np.searchsorted(ends, start, side="left")
    return np.asarray(begun_before + running > 0)


def _unassigned_work(work: pl.DataFrame, calls: pl.DataFrame, names: _CallNames) -> Ints:
    """Starts of the work that may be of any call, since it has no correlation id or that of another event; sorted."""
    no_memset = work.filter(pl.col("kind") != "memset")
    single = calls.filter((pl.col("events") > 1) & pl.col("name").is_in(list(names.single)))["id"]
    shared = no_memset.filter(pl.col("launch").is_in(single.implode())).sort("start")
    further = shared.filter(~pl.col("launch").is_first_distinct())["start"]
    without_id = no_memset.filter(pl.col("launch").is_null() & (pl.col("correlation").fill_null(0) == 0))["start"]
    return pl.concat([without_id, further]).sort().to_numpy()


def _count_owners(called: Ints, work: Ints) -> int:
    """The number of calls that can be given one event each that begins after it; both are sorted.

    Each event goes to the earliest call that has none: so the calls with an event are the first.
    """
    if not len(work):
        return 0
    callers = np.searchsorted(called, work, side="right")
    return int(min(len(work), (callers + np.arange(len(work) - 1, -1, -1)).min()))


def _without_unfinished_calls(
    lost: npt.NDArray[np.intp], calls: pl.DataFrame, work: pl.DataFrame, rank_trace: RankTrace
) -> npt.NDArray[np.intp]:
    """The calls without work, but those at the end whose work would have ended after the recording.

    A stream runs its work in the order of the calls. If the first call after that of a stream's last work would have
    ended too late, had it taken as long from its start, or from the end of that work, as that work took from its own
    call, all later calls are left out. Streams with little of the work are not looked at.
    """
    start, recorded_until = calls["start"].to_numpy(), rank_trace.recorded_bounds[1]
    until = int(rank_trace.lanes["last"].to_numpy().max()) if recorded_until is None else recorded_until
    last_work = (
        work.sort("end")
        .group_by("lane")
        .agg(pl.len().alias("events"), pl.col("end", "launch").last())
        .filter(pl.col("events") >= _NOTABLE_PART * work.height)
        .join(calls.select(pl.col("id").alias("launch"), "start"), on="launch")
    )
    kept = len(lost)
    for called, ended in last_work.select("start", "end").rows():
        first = int(np.searchsorted(start[lost], called, side="right"))
        if first < len(lost) and max(int(start[lost[first]]), ended) + max(0, ended - called) >= until:
            kept = min(kept, first)
    return lost[:kept]


_NOTABLE_PART: Final = 0.05
"""Streams with a smaller part of the work do not tell when the recording of work ended."""
