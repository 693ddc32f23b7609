"""Critical path of a step: the chain of waits from its end to its beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser, parse_time_length
from tracehound.analysis.critical.critical_walk import (
    COMMUNICATION,
    CPU,
    HOST_LEG,
    LOADING,
    PATH_CLASSES,
    SYNC,
    PathLeg,
)
from tracehound.analysis.critical.dependencies import read_critical_walk_inputs
from tracehound.analysis.hosts.host_threads import match_names
from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.analysis.step_parts import steps_with_work
from tracehound.analysis.timing.device_busy import device_work, parent_rows
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Intervals, Ints, overlapping_pairs
from tracehound.numeric.nesting import nearest_chosen_ancestor
from tracehound.numeric.self_time import OwnedIntervals, innermost_intervals

NEAR_SETTING: Final = Setting(
    "near",
    "30us",
    "if waits are not recorded: work that begins this soon after work on another stream ended may have waited for it",
    parse_time_length,
)

BY_SETTING: Final = Setting(
    "by",
    "name",
    "rows: sums by class and name (name), sums by class (class), or the path itself in order of time (event)",
    choice_parser("name", "class", "event"),
)

DEFINITION = """\
The critical path is a chain of events, each of which had to end before the next could begin, from the end of the
window back to its start: shortening anything else does not make the window shorter. It is continuous, so its lengths
add up to the time. Without a window it is that of each rank's longest step, or else of the whole run; a step lasts to
the end of its work, as in steps. A path does not leave its rank: if one process drives several devices, a call that
waited for another device is sync while that ran, and work that waited for it is unknown.

The path begins with the work that runs on the device at the end of the window, or else with launched work that begins
next, or else with the event that ended last, and goes back. From work on a stream it goes to the launching call, if
the stream was free by then (launch = from the start of that call to the start of the work; if the work begins more
than 300 us after the call returned, launch is to the return, and unknown from there). Otherwise it goes to the
previous work on the stream, or to the work on another stream for which it waited (kernel-kernel delay = from the end
of that work). From a call that waits for the device (cudaDeviceSynchronize and the like, blocking copies) it goes to
the work for which the call waited (sync = from the end of that work to the call's return, and time in such calls that
waited for nothing). Otherwise it goes along the host thread: CPU = operators, calls, Python, and time without records;
data loading = inside a DataLoader or an input iterator. A thread that was idle until another one became idle took over
from it, if both launch work, or neither does; this connects the backward pass with the program.

compute, communication and copy are work on the device, or gloo's collectives on threads. From a gloo collective the
path goes to the call that asked for it (c10d::allreduce_: launch, from the start of that call), if its thread was free
by then. The file does not tell which collective belongs to which call, so calls are taken in order. After a gap of
less than 30 us a thread did not wait for a collective; in the gap in which the window ends, the thread waits for the
collective that ends last in it, even after the window. If the path cannot be followed to the beginning, notes say so.
unknown also covers a gap before work whose launch was not recorded, if no later work of its stream was launched by
then. A gap of more than 30 us before a node of a graph whose launch has not returned yet is launch.

Rows are sums by class and name, the largest first. by=class has sums by class; by=event has the path itself, a row for
each part of an event, in the order of time.

If CUDA's synchronization rows were recorded (enable_cuda_sync_events), they tell for which stream a call waited, and
for which events a stream waited. The work waited for is what had been launched on that stream before the call that
recorded the event. If the row does not name the event's stream and call, it is what had been launched on other streams
before the wait. Of several, the one that ended last counts. Without such rows, a call waited for the work that ended
last during it, and work waited for work on another stream that ended at most 30 us before it began; so do nodes of one
graph. The setting near replaces the 30 us.

HolisticTraceAnalysis builds a graph of the events launched in the window and takes the path of the largest weight.
Waits, blocking calls and time between operators have no weight, so its path need not be continuous, its shares are of
its own length, and a gap of more than 1.5 ms breaks it. It needs the synchronization rows, takes the copy of an
annotation on the device for one more instance, and leaves out graph launches. Its classes are ours: cpu_bound is CPU,
gpu_compute_bound is compute and copy."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "on the path"),
    Column("class", "text", "kind of time: CPU, launch, compute, communication, sync, ..."),
    Column("name", "text", "operator, call or kernel; for a delay the delayed work"),
    Column("where", "text", "thread or stream", brief=False),
    Column("count", "count", "events on the path; for time without records the number of intervals", brief=False),
    Column("share", "share", "duration", "the rank's path"),
    Column("event", "id", "the event with the longest time on the path"),
)

NOTHING_RECORDED: Final = "nothing recorded"
_LOADING_PATTERN: Final = re.compile(
    r"DataLoader|data_?loading|Iterator::(?:GetNext|Prefetch)|InfeedEnqueue", re.IGNORECASE
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of the rank's path, in order."""
    if rank_trace.profiler == "XLA":
        return pl.DataFrame()  # HLO ops nest and are launched as one module: there is no path to follow
    rank_trace, time = _choose_time(rank_trace)
    dependencies = read_critical_walk_inputs(rank_trace, NEAR_SETTING.value_in(options.given))
    legs = dependencies.walk.path_legs(dependencies.place, rank_trace.start)
    if not legs:
        return pl.DataFrame()
    rows = _path_rows(legs, dependencies.host)
    events = rows["event"].drop_nulls().unique()
    names = pl.concat(
        collect_frame(each.filter(pl.col("id").is_in(events.implode())).select("id", pl.col("name").cast(pl.String)))
        for each in (rank_trace.threads, rank_trace.device_anytime)
    )
    lanes = rank_trace.lanes.select("lane", pl.col("name").alias("where"))
    return (
        rows.join(names.rename({"id": "event"}), on="event", how="left", maintain_order="left")
        .join(lanes, on="lane", how="left", maintain_order="left")
        .with_columns(
            pl.col("name").fill_null(NOTHING_RECORDED),
            pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
            pl.lit(time.of).alias("of"),
            pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(list(time.steps), pl.List(pl.Int64))).alias("steps"),
            pl.lit(time.step).alias("step"),
            pl.lit(dependencies.walk.waits is None).alias("inferred"),
            pl.lit(legs[0].start - rank_trace.start).alias("missing"),
        )
    )


class PathScope(NamedTuple):
    """The time that a path covers (`of`): the window, these `steps`, the longest `step` (its name), or the run."""

    of: Literal["window", "steps", "longest", "run"]
    steps: tuple[int, ...] = ()
    step: str = ""


def _choose_time(rank_trace: RankTrace) -> tuple[RankTrace, PathScope]:
    """The rank trace limited to the window, else to the longest step, else the whole run; and which of these it is."""
    if rank_trace.windowed and rank_trace.step_numbers is None:
        return rank_trace, PathScope("window")
    if rank_trace.steps.is_empty():
        first, last = (rank_trace.lanes[name].to_list() for name in ("first", "last"))
        run_trace = replace(
            rank_trace, start=min(first, default=rank_trace.start), end=max(last, default=rank_trace.end)
        )
        return run_trace, PathScope("run")
    steps = steps_with_work(
        rank_trace, device_work(replace(rank_trace, device=rank_trace.device_anytime), "step", "launch"), "work"
    )
    time = PathScope("steps", tuple(steps["step"].to_list()))
    if rank_trace.step_numbers is None:
        steps = steps.sort(pl.col("end") - pl.col("start"), "start", descending=[True, False]).head(1)
        time = PathScope("longest", step=str(steps["name"][0]))
    start, end = min(steps["start"].to_list()), max(steps["end"].to_list())
    return replace(
        rank_trace,
        device=overlapping_events(rank_trace.device_anytime, start, end),
        start=start,
        end=end,
        windowed=True,
    ), time


def _path_rows(legs: Sequence[PathLeg], host: pl.DataFrame) -> pl.DataFrame:
    """The legs as rows: those on threads cut to the innermost events, neighbors of one event and class merged."""
    start, end, leg_class, lane, event = (np.array(column, np.int64) for column in zip(*legs, strict=True))
    on_host = leg_class == HOST_LEG
    leg_rows = pl.DataFrame({"start": start, "end": end, "what": leg_class, "lane": lane, "event": event})
    row_parts = [leg_rows.filter(pl.Series(~on_host))]
    class_of_event, ids = _classify_host_events(host), host["id"].to_numpy()
    for thread, innermost in _innermost_events(host, np.unique(lane[on_host]).tolist()):
        on_thread = on_host & (lane == thread)
        leg, interval = overlapping_pairs(start[on_thread], end[on_thread], Intervals(innermost.start, innermost.end))
        row_parts.append(
            pl.DataFrame(
                {
                    "start": np.maximum(innermost.start[interval], start[on_thread][leg]),
                    "end": np.minimum(innermost.end[interval], end[on_thread][leg]),
                    "what": class_of_event[innermost.owner[interval]],
                    "lane": np.full(len(interval), thread),
                    "event": ids[innermost.owner[interval]],
                }
            )
        )
    return _merge_neighbors(_fill_holes(pl.concat(row_parts).sort("start"), start, end, lane))


def _innermost_events(host: pl.DataFrame, threads: Sequence[int]) -> Iterator[tuple[int, OwnedIntervals]]:
    """For each thread, which event was the innermost when; of two that overlap without nesting, the earlier."""
    lane = host["lane"].to_numpy()
    owned = innermost_intervals(host["start"].to_numpy(), host["end"].to_numpy(), parent_rows(host), lane)
    order = np.argsort(owned.start, kind="stable")
    lanes = lane[owned.owner[order]]
    for thread in threads:
        yield thread, OwnedIntervals(*(column[order[lanes == thread]] for column in owned))


def _classify_host_events(host: pl.DataFrame) -> Ints:
    """The class of the time of each host event."""
    loading = match_names(host, _LOADING_PATTERN)
    inside = nearest_chosen_ancestor(parent_rows(host), loading) >= 0
    by_kind = pl.when(kind="sync").then(SYNC).when(kind="collective").then(COMMUNICATION).otherwise(CPU)
    return np.where(inside, LOADING, host.select(by_kind.cast(pl.Int64)).to_series().to_numpy())


def _fill_holes(rows: pl.DataFrame, start: Ints, end: Ints, lane: Ints) -> pl.DataFrame:
    """Add rows for the time of legs in which nothing was recorded."""
    edges = np.concatenate(
        [start[:1], np.stack([rows["start"].to_numpy(), rows["end"].to_numpy()], 1).ravel(), end[-1:]]
    )
    begins, ends = edges[::2], edges[1::2]
    is_hole = ends > begins
    leg = np.searchsorted(start, begins[is_hole], side="right") - 1
    holes = pl.DataFrame({"start": begins[is_hole], "end": ends[is_hole], "lane": lane[leg]})
    hole_rows = holes.select(
        "start", "end", pl.lit(CPU, pl.Int64).alias("what"), "lane", pl.lit(-1, pl.Int64).alias("event")
    )
    return pl.concat([rows, hole_rows]).sort("start")


def _merge_neighbors(rows: pl.DataFrame) -> pl.DataFrame:
    run_number = pl.struct("what", "lane", "event").rle_id()
    return (
        rows.group_by(run_number.alias("number"), maintain_order=True)
        .agg(pl.col("start", "what", "lane", "event").first(), pl.col("end").last())
        .select(
            "start",
            (pl.col("end") - pl.col("start")).alias("duration"),
            pl.col("what").replace_strict(dict(enumerate(PATH_CLASSES)), return_dtype=pl.String).alias("class"),
            "lane",
            pl.when(pl.col("event") >= 0).then("event").alias("event"),
        )
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks' paths, rank by rank in the order of time."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, _why_empty(context))
    table = _sum_path(rows, BY_SETTING.value_in(options.given))
    table = table.with_columns((pl.col("duration") / pl.col("duration").sum().over("rank")).alias("share"))
    result = make_result(ANALYSIS, table, context, options, _notes(rows))
    return replace(result, window=_extend_window(result.window, rows), about=_describe_time(result.window, rows))


def _extend_window(window: tuple[int, int] | None, rows: pl.DataFrame) -> tuple[int, int] | None:
    """The window, extended to the end of the paths: that of a step lasts until the work of the step is done."""
    if window is None:
        return None
    return window[0], max(window[1], int((rows["start"] + rows["duration"]).to_numpy().max()))


def _describe_time(window: tuple[int, int] | None, rows: pl.DataFrame) -> str:
    """The time that the paths cover where no window was given; "" for the whole run."""
    if window is not None or (rows["of"] == "run").all():
        return ""
    return "the longest step" if rows["rank"].n_unique() == 1 else "each rank's longest step"


def _sum_path(rows: pl.DataFrame, row_kind: str) -> pl.DataFrame:
    """The rows by class, or by class and name; unchanged for `event`."""
    if row_kind == "event":
        return rows.with_columns(pl.lit(None, pl.Int64).alias("count"))
    name = pl.col("name") if row_kind == "name" else pl.lit(None, pl.String).alias("name")
    return (
        rows.group_by("rank", "class", name)
        .agg(
            pl.lit(None, pl.Int64).alias("start"),
            pl.lit(None, pl.String).alias("where"),
            (pl.col("event").drop_nulls().n_unique() + pl.col("event").null_count()).alias("count"),
            pl.col("event").get(pl.col("duration").arg_max()),
            pl.col("duration").sum(),
        )
        .sort("rank", "duration", "class", "name", descending=[False, True, False, False])
    )


_NOTABLE_SHARE: Final = 0.01
"""Shares of the time below this, missing at the start of a path or unknown, have no note."""

_SMALLEST_CLASS: Final = 0.001
"""A class with a smaller share of the path is left out of the note."""

_NOTABLE_UNRECORDED: Final = 0.1
"""A larger share of the path in which nothing is recorded has a note."""

_MOST_RANKS: Final = 8
"""Most ranks that have notes of their own."""


def _notes(rows: pl.DataFrame) -> list[Note]:
    """Notes on the classes that bound each rank, largest first, then on the doubts about their paths."""
    paths = rows.partition_by("rank", maintain_order=True)
    noted_paths, more = paths[:_MOST_RANKS], len(paths) - _MOST_RANKS
    return [
        *map(_bottleneck_note, noted_paths),
        *([note("more_ranks", ranks=more)] if more > 0 else []),
        *(doubt for mine in noted_paths for doubt in _doubt_notes(mine)),
        *_inference_notes(rows),
    ]


def _bottleneck_note(path: pl.DataFrame) -> Note:
    """A note on the classes that bound a rank, and the time that its path covers."""
    length = int(path["duration"].sum())
    time_by_class = (
        path.group_by("class").agg(pl.col("duration").sum()).sort("duration", "class", descending=[True, False])
    )
    notable = time_by_class.filter(pl.col("duration") >= _SMALLEST_CLASS * length)
    first = path.row(0, named=True)
    return note(
        "critical_path_bound",
        rank=first["rank"],
        classes=tuple(notable["class"].to_list()),
        shares=tuple(time / length for time in notable["duration"].to_list()),
        length=length,
        missing=first["missing"],
        of=first["of"],
        steps=tuple(first["steps"]),
        step=first["step"],
    )


def _doubt_notes(path: pl.DataFrame) -> Iterator[Note]:
    """Notes on the parts of a rank's path that are not known."""
    length = int(path["duration"].sum())
    unrecorded = int(path.filter(pl.col("name") == NOTHING_RECORDED)["duration"].sum())
    rank, missing, name = path.select("rank", "missing", "name").row(0)
    if unrecorded > _NOTABLE_UNRECORDED * length:
        yield note("critical_path_unrecorded", level="missing", rank=rank, part=unrecorded / length)
    if missing > _NOTABLE_SHARE * (length + missing):
        yield note("critical_path_begins_late", level="missing", rank=rank, time=missing, name=name)
    unknown = path.filter(pl.col("class") == "unknown").sort("duration", descending=True)
    if unknown["duration"].sum() > _NOTABLE_SHARE * length:
        name, time = unknown.select("name", "duration").row(0)
        yield note("critical_path_wait_unknown", level="missing", rank=rank, name=name, time=time)


def _inference_notes(rows: pl.DataFrame) -> list[Note]:
    """A note that waits between streams were inferred, where that matters."""
    inferred = pl.col("inferred") & pl.col("class").is_in(["kernel-kernel delay", "sync"])
    all_known = not rows.select(inferred.any()).item()
    return [] if all_known else [note("stream_waits_inferred", level="inferred")]


def _why_empty(context: RunContext) -> Note:
    return note("no_path_in_xla_profile" if context.is_xla else "no_path", level="missing")


ANALYSIS = Analysis(
    name="critical_path",
    title="Critical path",
    question="What bounds a step: CPU, launches, compute, communication, delays, synchronization or data loading?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=(BY_SETTING, NEAR_SETTING),
)
