"""Host time by call path, and the device work launched on each path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings, Setting, choice_parser
from tracehound.analysis.devices.missing_data import nothing_recorded_note
from tracehound.analysis.hosts.annotated_work import ANNOTATION_KINDS
from tracehound.analysis.hosts.call_paths import (
    CalledPaths,
    add_device_work,
    find_call_paths,
    merge_call_paths,
    number_event_names,
    plain_names,
    sum_device_work,
)
from tracehound.analysis.hosts.call_stacks import (
    CallStacks,
    add_stack_frames,
    frames_without_operators,
    read_call_stacks,
)
from tracehound.analysis.hosts.operator_tree import CallTree, read_call_tree
from tracehound.analysis.rank_trace import RankTrace, RunContext, SharedHostResult
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    empty_result,
    fraction_of,
    keep_heaviest_rows,
    make_result,
)
from tracehound.model.notes import Note, note
from tracehound.model.short_names import thread_pool_name
from tracehound.numeric.intervals import Mask

FRAMES_SETTING: Final = Setting(
    "frames",
    "all",
    "events in paths: all events of a thread (all), or only Python frames (python)",
    choice_parser("all", "python"),
)

THREADS_SETTING: Final = Setting(
    "threads",
    "alike",
    "threads whose paths are added up: those with the same name apart from a number (alike), or none (each)",
    choice_parser("alike", "each"),
)

DEFINITION = """\
A call path is an event of a host thread below the names of all events around it: Python frames, what they called in
PyTorch or XLA, ranges, and runtime calls. A row stands for all events of one path. count = events, total = sum of
their lengths, self = total - the events directly inside (with frames=python: - the frames inside, so calls into C++
count for the frame). If two events of a thread overlap in part, the earlier one has the shared time. device self =
lengths of the kernels, copies and memsets launched directly there, as told by the launching call, or else by the
profiler's id of the active operator; device total = device self of the path and of all paths below. Work that overlaps
on two streams counts twice. A window clips times, and work counts by when it ran. share is total / the totals of all
roots; device share is device total / all device time, including work without a known launch. event is the longest
call. Addresses in names of builtins and step numbers are left out.

Paths of threads with the same name (apart from a number) are added up, as are those of ranks; a host that several
ranks share counts once. Rows come depth first, the largest total first; --top keeps the paths with the largest totals
and those above them. Self times add up to the total of the roots. If frames are not events but texts of operators
(PyTorch of 2021 and 2022), a frame has the time of the operators called in it, and ranges are not part of paths.
py-spy and perf sample stacks; here every call is measured, so short calls include the cost of recording them."""

COLUMNS = (
    Column("call", "text", "the innermost event of the path"),
    Column("count", "count", "calls", brief=False),
    Column("total", "time", "on the host, from call to return"),
    Column("share", "share", "total", "the totals of all roots"),
    Column("self", "time", "on the host, without calls inside"),
    Column("device_total", "time", "of work on the device launched in it"),
    Column("device_self", "time", "time of work launched in it, not in calls inside", brief=False),
    Column("device_share", "share", "device total", "the time of all work on the devices", brief=False),
    Column("launched", "count", "kernels, copies and memsets launched in it, not in calls inside", brief=False),
    Column("kind", "text", "what the innermost event is", brief=False),
    Column("thread", "text", "the threads that it ran on", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("depth", "depth", "number of calls around it"),
    Column("event", "id", "the longest call"),
)


class HostCallPaths(NamedTuple):
    """Call paths on the threads of a host. `frames` is the source of frames: "events", "texts" of operators, or "".

    `stacks` are these texts. `paths` is None where there is nothing.
    """

    paths: CalledPaths | None
    stacks: CallStacks | None
    frames: str


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each thread and path, with the columns of `add_device_work`; `thread` is the thread's name."""
    host_paths = (
        _find_call_paths(rank_trace, options)
        if options.members
        else HOST_CALL_PATHS.result_for(rank_trace, options.given)
    )
    if host_paths.paths is None:
        return pl.DataFrame()
    table = add_device_work(rank_trace, host_paths.paths)
    if host_paths.stacks:
        with_frames = add_stack_frames(table, host_paths.stacks)
        table = (
            frames_without_operators(with_frames, table.height)
            if FRAMES_SETTING.value_in(options.given) == "python"
            else with_frames
        )
    threads = rank_trace.lanes.select("lane", pl.col("name").alias("thread"))
    if THREADS_SETTING.value_in(options.given) == "alike":
        threads = threads.with_columns(
            pl.Series("thread", map(thread_pool_name, threads["thread"].to_list()), pl.String)
        )
    joined = table.join(threads, on="lane", how="left", maintain_order="left")
    return joined.with_columns(pl.lit(host_paths.frames).alias("frames"))


def _host_call_paths(rank_trace: RankTrace, given: ChosenSettings) -> HostCallPaths:
    return _find_call_paths(rank_trace, Options(given=given))


HOST_CALL_PATHS: Final = SharedHostResult(_host_call_paths, (FRAMES_SETTING.name,), sendable=False)
"""The call paths on a host."""


def _find_call_paths(rank_trace: RankTrace, options: Options) -> HostCallPaths:
    calls, frames_setting = read_call_tree(rank_trace), FRAMES_SETTING.value_in(options.given)
    frames = bool(calls.events["kind"].is_in(["python", "module"]).any())
    stacks = read_call_stacks(rank_trace) if not frames else None
    chosen = _operators_with_frames(calls, frames_setting) if stacks else _select_events(calls, frames_setting)
    frame_source = "events" if frames else "texts" if stacks else ""
    if not chosen.any():
        return HostCallPaths(None, stacks, frame_source)
    stack_numbers = stacks.number if stacks else None
    return HostCallPaths(
        find_call_paths(
            rank_trace, calls, chosen, number_event_names(calls.events, plain_names), options, apart=stack_numbers
        ),
        stacks,
        frame_source,
    )


def _operators_with_frames(calls: CallTree, frames: str) -> Mask:
    """Mask of operators whose frames are text: all but ranges, or only the outermost operators."""
    if frames == "all":
        return ~calls.events["kind"].is_in(ANNOTATION_KINDS).to_numpy()
    return calls.operator & (calls.caller < 0)


def _select_events(calls: CallTree, frames: str) -> Mask:
    if frames == "all":
        return np.ones(calls.events.height, np.bool_)
    return calls.events["kind"].is_in(["python", "module"]).to_numpy()


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The paths of all ranks, depth first."""
    rows = merge_call_paths(tables, ["thread"])
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, why_no_paths(context, FRAMES_SETTING.value_in(options.given)))
    device_time, unlaunched, _ = sum_device_work(tables)
    has_device_work = bool(device_time or rows["launched"].sum())
    roots = int(rows.filter(pl.col("depth") == 0)["total"].sum())
    table = rows.rename({"name": "call"}).with_columns(
        fraction_of("total", roots).alias("share"),
        fraction_of("device_total", device_time).alias("device_share"),
        *(pl.col(name) if has_device_work else pl.lit(None, pl.Int64).alias(name) for name in _DEVICE_COLUMNS),
    )
    notes = [note("host_time", time=roots)] if roots else []
    if device_time and unlaunched:
        all_events = FRAMES_SETTING.value_in(options.given) == "all"
        code = "device_time_without_launch" if all_events else "device_time_outside_frames"
        notes.append(note(code, level="missing" if all_events else "info", unlaunched=unlaunched, work=device_time))
    frame_sources = {table["frames"][0] for table in tables if table.height}
    if frame_sources == {""}:
        notes.append(why_no_paths(context, "python"))
    elif "texts" in frame_sources:
        notes.append(note("frames_of_operators"))
    result = make_result(ANALYSIS, table, context, replace(options, top=None), notes)
    return keep_heaviest_rows(result, result.table["total"].to_numpy(), options.top)


_DEVICE_COLUMNS: Final = ("device_total", "device_self", "launched")


def why_no_paths(context: RunContext, frames: str) -> Note:
    """A note on why there are no paths, or none of Python, and what would record them."""
    profiler = "PyTorch" if "PyTorch" in context.profilers else "XLA"
    if frames == "python":
        return note("no_python_frames", level="missing", profiler=profiler)
    return nothing_recorded_note(context, note("no_host_events"), note("record_host_events", profiler=profiler))


ANALYSIS = Analysis(
    name="stacks",
    title="Stacks",
    question="Where does the host's time go by call path, and which path put how much work on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(FRAMES_SETTING, THREADS_SETTING),
    host_computations=(HOST_CALL_PATHS,),
)
