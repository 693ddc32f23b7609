"""Activities of host threads in words: "tracing the next step", "blocked on a value", "compiling".

Holds the vocabularies of PyTorch/XLA, JAX, tf.data, Grain and PyTorch, and finds the thread of a host that matters for
a rank while its device idles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.hosts.host_compilations import TORCH_COMPILATIONS, is_torch_compilation
from tracehound.analysis.hosts.host_threads import (
    classify_by_name,
    event_names,
    host_lane_events,
    lane_chunks,
    main_thread_lane,
    nearest_marked_ancestor,
)
from tracehound.analysis.hosts.host_time_parts import FETCHING_NAMES, SENDING_NAMES
from tracehound.analysis.rank_trace import RankTrace, SharedHostResult
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.formats.name_filter import NameFilter
from tracehound.formats.runtime_names import ALLOCATION_CALL, BLOCKING_COPY_CALL, LAUNCH_CALL, WAIT_CALL
from tracehound.formats.torch_names import COLLECTIVE_PARAMS
from tracehound.model.trace import KINDS, collect_frame
from tracehound.numeric.id_set import find_rows
from tracehound.numeric.intervals import Intervals, Ints, add_overlap_times
from tracehound.numeric.nesting import inherit_values
from tracehound.numeric.self_time import innermost_labels
from tracehound.numeric.trees import sum_groups

COMPILING: Final = "compiling"
PROGRAM: Final = "loading a program onto the device"
LOADER: Final = "waiting for the loader"
LOADING: Final = "loading data"
VALUE: Final = "blocked on a value"
PROFILING: Final = "profiling"
COMMUNICATING: Final = "communicating"
OTHERS: Final = "waiting for other devices"
SENDING_INPUTS: Final = "sending inputs"
WAITING: Final = "waiting for the device"
COPYING: Final = "blocked on a copy"
ALLOCATING: Final = "allocating memory"
LAUNCHING: Final = "launching work"
RUNTIME: Final = "calling the runtime"
TRACING: Final = "tracing the next step"
OPERATORS: Final = "running operators"
PYTHON: Final = "running Python"
ASLEEP: Final = "waiting in Python"
COLLECTING_GARBAGE: Final = "running Python GC"
FILE_IO: Final = "reading or writing files"
IN_ANNOTATION: Final = "in an annotation"
"""Activity of an annotation around which, and in which, nothing else is recorded."""
NOTHING_RECORDED: Final = "nothing recorded"
"""Activity of an interval in which a thread has no event, or only the mark of a step."""

ACTIVITIES: Final = (
    COMPILING, PROGRAM, LOADER, LOADING, VALUE, PROFILING, COMMUNICATING, OTHERS, SENDING_INPUTS, WAITING, COPYING,
    ALLOCATING, LAUNCHING, RUNTIME, TRACING, OPERATORS, PYTHON, ASLEEP, COLLECTING_GARBAGE, FILE_IO, IN_ANNOTATION,
)  # fmt: skip
"""All activities of an event. Anything inside one of the first seven is part of it: a wait for the device inside the
reading of a value is being blocked on that value."""

_ENCLOSING_ACTIVITIES: Final = 7
_ACTIVITY_CODES: Final = {words: number for number, words in enumerate(ACTIVITIES)}

_NAME_PATTERNS: Final = (
    (re.compile(r"^Python GC$|^\$gc (?:collect|callbacks)$|^<built-in function collect>$"), COLLECTING_GARBAGE),
    (
        re.compile(
            r"^<built-in function (?:open|fsync|fdatasync|replace|write|read|sendfile)>$|^<built-in method"
            r" (?:write|read|flush)\w* of"
            r"|^\$(?:posix|io|_io) \w*(?:open|fsync|write|read|flush|replace)\w*$|torch/serialization\.py\(\d+\)"
            r"|PyTorch(?:File|Stream)Writer|^<built-in method write_record of"
        ),
        FILE_IO,
    ),
    (
        re.compile(
            r"LoadProgram|ActualLoad|cu(?:da)?(?:Module|Library)Load|hipModuleLoad"
            r"|^zeModule(?:Create|DynamicLink)|^urProgram(?:Create|Build|Compile|Link)"
        ),
        PROGRAM,
    ),
    (
        re.compile(
            r"cpu_loader\.next|get_batch_from_cpu_queue|DataLoader.*__next__|DataPipe#|IteratorGetNext|next_?batch"
            r"|wait\w*_batch|(?:Iterator|Dataset)\w*(?:::|\.)_*(?:GetNext|next)\b|\bgrain\b.*next",
            re.IGNORECASE,
        ),
        LOADER,
    ),
    (
        re.compile(
            r"^Iterator::|DataLoader|data_?load|load_?(?:batch|data)|input_?pipeline|\bgrain\b|worker_loop|_MapDataset",
            re.IGNORECASE,
        ),
        LOADING,
    ),
    (
        re.compile(
            r"stop_trace|start_trace|ProfilerSession|^Activity Buffer Request|profiler_(?:start|stop)"
            r"|\b_record_function_(?:enter|exit)"
        ),
        PROFILING,
    ),
    (
        re.compile(
            r"^aten::(?:item|_local_scalar_dense|is_nonzero|nonzero|equal|masked_select|unique\w*)$|\.item\b"
            r"|\b_value$|__float__|__int__|__bool__|__array__|device_get\b|_copy_single_device_array_to_host"
        ),
        VALUE,
    ),
    (re.compile(rf"^(?:gloo|mpi|ucc|nccl):|^c10d::|^{COLLECTIVE_PARAMS}"), COMMUNICATING),
    (re.compile(r"Rendezvous|rendezvous|pending_threads|DeviceBarrier|[Cc]lique"), OTHERS),
    (
        re.compile(ALLOCATION_CALL.pattern + r"|^Memory(?:Alloc|Dealloc)ation|AllocateDestinationBuffer"),
        ALLOCATING,
    ),
    (
        re.compile(
            WAIT_CALL.pattern + r"|TensorCollectionBarrier|block_until_ready|block_host_until|BlockHostUntil|::Await\b"
            r"|\bWait\b|\(wait |(?<!^cuda)(?<!^hip)StreamWait|Acquire semaphore|ReadSyncFlag"
        ),
        WAITING,
    ),
    (
        re.compile(
            r"StepMarker|Sync(?:Live)?TensorsGraph|CollectSyncTensors|ExtractIRAndPrepareXlaData_|RunPostOrder"
            r"|IR building|SetTensorData|^update_placeholder$|_get_xla_sharding_specs|ReshardData"
        ),
        TRACING,
    ),
)
"""Activities by name; the first match counts."""

_LAUNCHING_CALLS: Final = re.compile(
    LAUNCH_CALL.pattern
    + r"|Launch|Execut|Enqueue|^PjitFunction\(|Memcpy|Memset|RunExecutable|:XLA GPU module$|Linearize|BufferFromHost"
)
LAZY_TENSOR_NAMES: Final = re.compile(r"^(?:StepMarker|Sync(?:Live)?TensorsGraph\w*|TransferToServer\w*|IR building)$")
"""Names typical of PyTorch/XLA, whose tensors are lazy: Python only traces a graph there."""
LAZY_TENSOR_FILTER: Final = NameFilter(LAZY_TENSOR_NAMES)

_SLEEPING_FRAMES: Final = re.compile(
    r"^\$time sleep$|^\$threading\.py:\d+ wait$|^\$(?:<unknown>|_thread\S*) acquire$|^\$\S+ (?:select|poll)$"
    r"|^<built-in function sleep>|^<built-in method (?:acquire of _thread|(?:poll|select) of)"
    r"|^threading\.py\(\d+\): wait$"
)
"""Python frames that sleep, or wait for another thread or process; as JAX spells them, and as PyTorch does."""

_NAMES_WITH_ACTIVITIES: Final = NameFilter(
    *(pattern for pattern, _ in _NAME_PATTERNS), *TORCH_COMPILATIONS, BLOCKING_COPY_CALL, FETCHING_NAMES, SENDING_NAMES,
    _LAUNCHING_CALLS, _SLEEPING_FRAMES,
)  # fmt: skip
"""Finds the names that may have another activity than their kind."""

_KIND_ACTIVITIES: Final = {
    "compile": COMPILING,
    "sync": WAITING,
    "runtime": RUNTIME,
    "transfer": RUNTIME,
    "copy": RUNTIME,
    "collective": COMMUNICATING,
    "op": OPERATORS,
    "kernel": OPERATORS,
}


def event_activity(name: str, kind: str) -> str | None:
    """The activity of an event by its name and kind, one of `ACTIVITIES`; None if they say nothing.

    Python frames, annotations and steps have an activity only by their names.
    """
    by_name = next((words for pattern, words in _NAME_PATTERNS if pattern.search(name)), None)
    if by_name is None and (kind == "compile" or is_torch_compilation(kind, name)):
        return COMPILING
    if kind == "runtime" and BLOCKING_COPY_CALL.search(name):
        return by_name or _transfer_activity(name, kind) or COPYING
    return (
        by_name
        or _transfer_activity(name, kind)
        or (LAUNCHING if kind == "runtime" and _LAUNCHING_CALLS.search(name) else _KIND_ACTIVITIES.get(kind))
    )


def _transfer_activity(name: str, kind: str) -> str | None:
    """The activity by the direction of data, if the event is of a kind that may move it."""
    if kind not in ("transfer", "copy", "runtime", "annotation"):
        return None
    if FETCHING_NAMES.search(name):
        return VALUE
    return SENDING_INPUTS if SENDING_NAMES.search(name) else None


def innermost_activities(threads: pl.DataFrame, blocking: Collection[int] = ()) -> pl.Series:
    """For each event the activity of its thread while it is the innermost; one of `ACTIVITIES`, or null."""
    names = threads["name"].unique().cast(pl.String).drop_nulls().to_list()
    return activity_names(activity_codes(threads, parent_rows(threads), names, blocking))


def activity_names(codes: npt.NDArray[np.int8]) -> pl.Series:
    """The names at these positions in `ACTIVITIES`, null for -1."""
    return pl.Series("doing", codes).replace_strict(dict(enumerate(ACTIVITIES)), default=None, return_dtype=pl.String)


def activity_codes(
    threads: pl.DataFrame, parent: Ints, names: Sequence[str], blocking: Collection[int] = ()
) -> npt.NDArray[np.int8]:
    """The innermost activities as positions in `ACTIVITIES`, -1 for none.

    `threads` are events of host lanes with the columns `id`, `name` and `kind`, sorted by id, and all events around
    them; `parent` has the row of each event's direct parent, -1 for none (`parent_rows`); `names` are those of all
    events of these lanes, or what `LAZY_TENSOR_FILTER` leaves of them: they show whether tensors are lazy. An event has
    the activity of the nearest event around it with one of the first `ACTIVITIES`, or its own; else that of itself or
    the nearest event around it with any. Calls that are `blocking` (ids, see `launch_calls`) do not launch, as their
    names say, but wait for their copy. In PyTorch/XLA annotations and steps mean tracing; elsewhere frames and their
    contents are Python, at work or asleep. An annotation in no frame is `IN_ANNOTATION`: without Python's frames
    nothing says what the program does in it. The
    mark of a step alone means nothing: it would cover sleeping and waiting alike.
    """
    lazy = any(LAZY_TENSOR_NAMES.match(name) for name in names)
    code = classify_by_name(threads, lambda name, kind: _activity_code(name, kind, lazy), _NAMES_WITH_ACTIVITIES)
    own = np.where(code < len(ACTIVITIES), code, np.int8(-1))
    rows = find_rows(threads["id"].to_numpy(), np.array(list(blocking), np.int64))
    rows = rows[rows >= 0]
    own[rows[code[rows] == _ACTIVITY_CODES[LAUNCHING]]] = _ACTIVITY_CODES[COPYING]
    kind = threads["kind"].to_physical().to_numpy()
    python, annotation = kind == KINDS.index("python"), kind == KINDS.index("annotation")
    marked = np.flatnonzero(annotation | (kind == KINDS.index("step")))
    python[marked[nearest_marked_ancestor(parent, python, marked) >= 0]] = True
    annotation[marked[nearest_marked_ancestor(parent, annotation, marked) >= 0]] = True
    found = np.full(len(kind), np.int8(-1))
    found[annotation] = _ACTIVITY_CODES[IN_ANNOTATION]
    found[python] = _ACTIVITY_CODES[PYTHON]
    found[code == _SLEEP_CODE] = _ACTIVITY_CODES[ASLEEP]
    for candidates in (own, np.where(own < _ENCLOSING_ACTIVITIES, own, np.int8(-1))):
        nearest = inherit_values(parent, candidates)
        found = np.where(nearest >= 0, nearest, found)
    return found


_SLEEP_CODE: Final = len(ACTIVITIES)
"""Code of a frame that sleeps; it counts only if nothing around it has an activity."""


@lru_cache(1 << 14)
def _activity_code(name: str, kind: str, lazy: bool) -> int | None:  # noqa: FBT001 - a fact of the file
    words = event_activity(name, kind)
    if words is None and lazy and kind in ("annotation", "step"):
        words = TRACING
    if words is None and kind == "python" and _SLEEPING_FRAMES.search(name):
        return _SLEEP_CODE
    return None if words is None else _ACTIVITY_CODES[words]


T = TypeVar("T", bound=np.integer[Any])

ALL_ACTIVITIES: Final = (*ACTIVITIES, NOTHING_RECORDED)
"""Activities of a thread, in the order of the times of `ThreadActivities`."""

_END_OF_TIME: Final = np.iinfo(np.int64).max


class ActivityIntervals(NamedTuple):
    """Intervals of a thread with an activity, and the position of each activity in `ACTIVITIES`."""

    intervals: Intervals
    codes: npt.NDArray[np.integer]

    def of_activities(self, activities: Collection[str]) -> Intervals:
        """The intervals with one of these activities; they may touch."""
        wanted = np.zeros(len(ACTIVITIES), np.bool_)  # a table of all codes, for there are millions of intervals
        wanted[[_ACTIVITY_CODES[each] for each in activities]] = True
        chosen = wanted[self.codes]
        return Intervals(self.intervals.start[chosen], self.intervals.end[chosen])


class ThreadActivities(NamedTuple):
    """Activities of threads by lane. `main` is the lane of the program's own thread, -1 without one."""

    by_lane: Mapping[int, ActivityIntervals]
    main: int

    def time_per_interval(self, lane: Ints, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
        """For each interval the time of its lane in each of `ALL_ACTIVITIES`, ps; 0 without a lane."""
        return self.time_per_group(lane, start, end, np.arange(len(start)), len(start))

    def time_per_group(self, lane: Ints, start: Ints, end: Ints, group: Ints, groups: int) -> npt.NDArray[np.int64]:
        """The times summed over groups of intervals, numbered below `groups`."""
        times = np.zeros((groups, len(ALL_ACTIVITIES)), np.int64)
        times[:, -1] = sum_groups(np.where(lane >= 0, group, -1), end - start, groups)
        places = times.ravel()
        first = group * times.shape[1]
        for number, doing in self.by_lane.items():
            mine = np.flatnonzero(lane == number)
            add_overlap_times(start[mine], end[mine], first[mine], doing.intervals, doing.codes, places)
        times[:, -1] -= times[:, :-1].sum(axis=1)
        return times


ReadLane = Callable[[int], Iterable[pl.LazyFrame]]
"""Reads the events of a host lane, at least those that overlap the times of interest, in chunks; sorted by id."""


def read_thread_activities(
    rank_trace: RankTrace, launching: Ints, waits: Collection[int], read: ReadLane
) -> ThreadActivities:
    """Activities of the threads that matter: the program's own, and in a PyTorch trace those that launch.

    They are valid in the times of interest of `read`. `waits` are the calls that wait for a copy of the rank's device
    (`launch_calls.blocking_copy_calls`).
    """
    known = PROGRAM_ACTIVITIES.known_result(rank_trace)
    if known is None or waits:
        known = ThreadActivities({}, main_thread_lane(rank_trace))
    launchers = set() if rank_trace.profiler == "XLA" else set(pl.Series(launching).unique().to_list())
    lanes = sorted(({known.main} | launchers) - {-1} - known.by_lane.keys())
    with ThreadPoolExecutor(THREADS_AT_ONCE, "tracehound doings") as threads:
        found = threads.map(lambda lane: _lane_activity(rank_trace, lane, waits, read), lanes)
        return ThreadActivities({**known.by_lane, **dict(zip(lanes, found, strict=True))}, known.main)


THREADS_AT_ONCE: Final = 2
"""Threads of a host that are processed at once: those of the forward and the backward pass."""


def _program_thread_activity(rank_trace: RankTrace, given: ChosenSettings) -> ThreadActivities:
    del given
    main = main_thread_lane(rank_trace)
    if main < 0:
        return ThreadActivities({}, main)
    return ThreadActivities(
        {main: _lane_activity(rank_trace, main, (), lambda lane: lane_chunks(rank_trace, [lane]))}, main
    )


PROGRAM_ACTIVITIES: Final = SharedHostResult(_program_thread_activity)
"""Activities of the program's own thread on a host, if no call waits for a copy of the rank's device."""


def _lane_activity(rank_trace: RankTrace, lane: int, waits: Collection[int], read: ReadLane) -> ActivityIntervals:
    """Activities of one thread, one at a time; `waits` are its calls that wait for a copy."""
    names = event_names(host_lane_events(rank_trace, [lane]), LAZY_TENSOR_FILTER)
    starts, ends, activity_arrays = list[Ints](), list[Ints](), list[npt.NDArray[np.integer[Any]]]()
    for events, low, high in _with_open_events(read(lane)):
        parent = parent_rows(events)
        code = activity_codes(events, parent, names, waits)
        start, end, words = innermost_labels(events["start"].to_numpy(), events["end"].to_numpy(), parent, code)
        some = slice(np.searchsorted(end, low, side="right"), np.searchsorted(start, high))
        start, end, words = start[some], end[some], words[some]
        start[:1], end[-1:] = start[:1].clip(min=low), end[-1:].clip(max=high)
        if len(start) and ends and len(ends[-1]) and (ends[-1][-1], activity_arrays[-1][-1]) == (start[0], words[0]):
            ends[-1][-1], start, end, words = end[0], start[1:], end[1:], words[1:]  # it goes on from one to the next
        starts.append(start)
        ends.append(end)
        activity_arrays.append(words)
    return ActivityIntervals(Intervals(_concat_arrays(starts), _concat_arrays(ends)), _concat_arrays(activity_arrays))


def _concat_arrays(parts: list[npt.NDArray[T]]) -> npt.NDArray[T]:
    """The arrays as one; the list is emptied, because together they are as long as the events of a thread."""
    joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
    parts.clear()
    return joined


_EVENTS_AT_ONCE: Final = 1 << 19
"""Most events of a thread whose activities are found at once: the arrays for that take ten times their memory."""


def _with_open_events(read: Iterable[pl.LazyFrame]) -> Iterator[tuple[pl.DataFrame, int, int]]:
    """The events of a lane in chunks, with the earlier ones that last into each, and the bounds of what is complete."""
    events, low = pl.DataFrame(), -_END_OF_TIME
    for rows in _chunks_of_events(read):
        if events.is_empty():
            events = rows
        elif rows.height:
            high = int(rows["start"][0])
            if low < high:
                yield events, low, high
            events, low = pl.concat([events.filter(pl.col("end") > high), rows]), high
    yield events, low, _END_OF_TIME


def _chunks_of_events(read: Iterable[pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """The events that are read, in chunks of `_EVENTS_AT_ONCE`, at least one."""
    for chunk in read:
        rows = collect_frame(chunk.select("id", "name", "kind", "parent", "start", "end"))
        for first in range(0, max(rows.height, 1), _EVENTS_AT_ONCE):
            yield rows.slice(first, _EVENTS_AT_ONCE)


def responsible_lanes(rank_trace: RankTrace, found: ThreadActivities, launching: Ints) -> Ints:
    """For work launched on these lanes (-1: unknown), the lane whose activity explains why it came no earlier.

    XLA's work is launched by thread pools: there it is the program's own thread.
    """
    if rank_trace.profiler == "XLA":
        return np.full(len(launching), found.main)
    return np.where(launching < 0, found.main, launching)


def longest_activity(spent: npt.NDArray[np.int64]) -> tuple[pl.Series, npt.NDArray[np.int64]]:
    """For each row of `time_per_interval` the activity with the most time, and that time; null if nothing is known."""
    most = spent.argmax(axis=1) if len(spent) else np.empty(0, np.intp)
    time = spent[np.arange(len(spent)), most]
    known = pl.Series(most).set(pl.Series(time <= 0), None)
    return pl.Series("why", ALL_ACTIVITIES).gather(known), time
