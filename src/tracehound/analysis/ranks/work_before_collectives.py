"""Activities of a rank before each of its collectives, host and device, in the order of the program.

The ranks of a job run the same program. So the activities of one rank between two collectives can be compared with
those of the others between the same two, at any time. Waiting for others is no activity: the time in which a host waits
while a collective of its own is in flight is left out, and so are the collectives. Sees one rank only.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.hosts.host_threads import lane_batches, lanes_of_events, match_names
from tracehound.analysis.hosts.launch_calls import launching_calls
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.formats.runtime_names import WAIT_CALL
from tracehound.formats.torch_names import STEP_MARK
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import Intervals, Ints, Mask, covered_lengths, union
from tracehound.numeric.nesting import outermost_rows
from tracehound.numeric.self_time import innermost_intervals, self_intervals

ACTIVITY_SCHEMA: Final = schema(
    {
        "rank": pl.Int64(),
        "call": pl.Int64(),  # event of the next issued collective
        "where": pl.Categorical(),  # "host" or "device"
        "name": pl.Categorical(),
        "inside": pl.Categorical(),  # on a host, the event around the longest one
        "time": pl.Int64(),  # sum of self times, ps
        "longest": pl.Int64(),  # event with most of the time
    }
)

NOTHING_RECORDED: Final = "nothing recorded"
"""Activity of the thread with the steps while it has no event."""

WAITING_NAMES: Final = (
    rf"(?i){WAIT_CALL.pattern}|\bwait|await|barrier|block_?(?:host_?)?until|EventQuery|StreamQuery|^c10d::"
)
"""Names of host events that wait for others."""

MAX_UNMERGED_ROWS: Final = 400
"""Steps with at most this many rows keep them all."""

MERGED_ROWS_PER_STEP: Final = 400
"""In larger steps, activities below this fraction of a step are merged until they reach it."""

MERGING_DEFINITION: Final = f"""\
In a step with more than {MAX_UNMERGED_ROWS:,} pairs of a collective and a name before it, activities of less than
1/{MERGED_ROWS_PER_STEP} of a step count at a later collective of the step, together with more of the same, and not at
all if all of them take less."""

_WAITING_PATTERN: Final = re.compile(WAITING_NAMES)
_STEP_PATTERN: Final = re.compile(STEP_MARK)
_EVENT_COLUMNS: Final = ("id", "lane", "start", "end", "name", "kind", "parent")
_CONTAINER_KINDS: Final = ("annotation", "step", "module")
_ACTIVITY_KEY: Final = ("call", "where", "name")
_CALL_ACTIVITY_SCHEMA: Final = schema(
    {
        "call": pl.Int64(),  # position of the next issued call
        "time": pl.Int64(),
        "most": pl.Int64(),  # time of `longest`
        "where": pl.String(),
        "name": pl.Categorical(),
        "inside": pl.Categorical(),
        "longest": pl.Int64(),
    }
)


def activities_before_collectives(rank_trace: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """The rank's activities before each of its calls, in the schema `ACTIVITY_SCHEMA`.

    The calls are in the schema `CALL_SCHEMA`, ordered by issue.
    """
    if calls.is_empty():
        return pl.DataFrame(schema=ACTIVITY_SCHEMA)
    done = pl.concat(
        [_host_activities(rank_trace, calls), _device_activities(rank_trace, calls)], how="vertical_relaxed"
    )
    last = int(calls["end"].to_numpy().max())
    first = min(int(calls["start"].to_numpy().min()), int(rank_trace.steps["start"].to_numpy().min(initial=last)))
    steps = max(calls["step"].n_unique(), 1)
    events = calls["event"].to_numpy()
    stepped = done.with_columns(calls["step"].gather(done["call"]).alias("step"))
    table = _merge_small_activities(stepped, max((last - first) // (MERGED_ROWS_PER_STEP * steps), 1))
    return (
        table.with_columns(
            pl.lit(rank_trace.rank).alias("rank"), pl.Series("call", events[table["call"].to_numpy()], pl.Int64)
        )
        .select(ACTIVITY_SCHEMA.names())
        .cast(ACTIVITY_SCHEMA)
    )


def _host_activities(rank_trace: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """Self time on the threads that launch work or mark steps, or without a device, that run operators."""
    device = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    streams = device.filter(pl.col("role") == "stream").height > 0
    lanes, main = _relevant_lanes(rank_trace, has_device=device.height > 0)
    some = (collect_frame(threads.select(_EVENT_COLUMNS)) for threads in lane_batches(rank_trace, lanes))
    return pl.concat([_empty_activities(), *(_thread_activities(rows, main, calls, streams=streams) for rows in some)])


def _thread_activities(rows: pl.DataFrame, main: int | None, calls: pl.DataFrame, *, streams: bool) -> pl.DataFrame:
    """The activities of some threads."""
    start, end, parent = rows["start"].to_numpy(), rows["end"].to_numpy(), parent_rows(rows)
    own = innermost_intervals(start, end, parent, rows["lane"].to_numpy())
    idle = _unrecorded_gaps(rows, main)
    begin, until = np.append(own.start, idle.start), np.append(own.end, idle.end)
    owner = np.append(own.owner, np.full(len(idle.start), -1))
    call = np.searchsorted(calls["issued"].to_numpy(), begin, side="left")
    done = np.append((rows["kind"] != "collective").to_numpy(), np.True_)[owner] & (call < calls.height)
    begin, until, owner, call = begin[done], until[done], owner[done], call[done]
    waits = np.flatnonzero(np.append(_waiting_events(rows, parent, streams=streams), not streams)[owner])
    flying = union(calls["start"].to_numpy(), calls["end"].to_numpy())
    time = until - begin
    time[waits] -= covered_lengths(flying, begin[waits], until[waits])
    names, around = _names_without_step_numbers(rows), np.append(parent, -1)[owner]
    table = pl.DataFrame(
        {
            "call": call.astype(np.int64),
            "time": time,
            "name": names.gather(np.maximum(owner, 0)),
            "inside": names.gather(np.maximum(around, 0)),
            "longest": np.append(rows["id"].to_numpy(), -1)[owner],
        }
    ).with_columns(
        pl.when(pl.Series(owner >= 0)).then("name").otherwise(pl.lit(NOTHING_RECORDED, pl.Categorical())).alias("name"),
        pl.when(pl.Series(around >= 0)).then("inside").alias("inside"),
        pl.lit("host").alias("where"),
    )
    return _sum_per_call(table.filter(pl.col("time") > 0).with_columns(most="time"))


def _names_without_step_numbers(rows: pl.DataFrame) -> pl.Series:
    """The names of events, of steps without their numbers."""
    if not match_names(rows, _STEP_PATTERN).any():
        return rows["name"]
    return rows["name"].cast(pl.String).str.replace(STEP_MARK, "$1#").cast(pl.Categorical())


def _relevant_lanes(rank_trace: RankTrace, *, has_device: bool) -> tuple[list[int], int | None]:
    """The lanes of the host that matter, and the one with the steps."""
    launching = lanes_of_events(
        rank_trace, collect_frame(rank_trace.device_anytime.select(pl.col("launch").unique())).to_series()
    )
    marking = lanes_of_events(rank_trace, rank_trace.steps["event"])
    running = pl.col("kind") == "op"
    ops = (
        []
        if has_device
        else collect_frame(rank_trace.threads.filter(running).select(pl.col("lane").unique()))["lane"].to_list()
    )
    return sorted({*launching, *marking, *ops}), min(marking, default=None)


def _unrecorded_gaps(rows: pl.DataFrame, main: int | None) -> Intervals:
    """The gaps between the outermost events of the thread with the steps."""
    mine = rows.filter(pl.col("lane") == main) if main is not None else rows.clear()
    start, end = mine["start"].to_numpy(), mine["end"].to_numpy()
    top = outermost_rows(end)
    begin, until = end[top][:-1], start[top][1:]
    return Intervals(begin[until > begin], until[until > begin])


def _waiting_events(rows: pl.DataFrame, parent: Ints, *, streams: bool) -> Mask:
    """Mask of the events that only wait for others while a collective is in flight.

    Without streams the host takes part in collectives itself: then it waits in any event that contains others.
    """
    by_name = match_names(rows, _WAITING_PATTERN)
    if streams:
        return by_name
    around = rows["kind"].is_in(_CONTAINER_KINDS).to_numpy().copy()
    around[parent[parent >= 0]] = True
    return np.asarray(by_name | around, np.bool_)


def _device_activities(rank_trace: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """Self time of the work on the device but for collectives, ordered by the launch of work on streams."""
    lanes = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    if lanes.is_empty():
        return _empty_activities()
    streams = lanes.filter(pl.col("role") == "stream")["lane"].to_list()
    rows = collect_frame(
        rank_trace.device_anytime.filter(pl.col("lane").is_in(lanes["lane"].to_list())).select(
            *_EVENT_COLUMNS, "launch"
        )
    ).sort("id")
    on_stream = pl.col("lane").is_in(streams)
    launch = rows.select(pl.when(on_stream).then("launch")).to_series()
    rows = rows.with_columns(launched=launching_calls(rank_trace, launch)["called"])
    parent = np.full(rows.height, -1) if len(streams) == lanes.height else parent_rows(rows)
    own = self_intervals(rows["start"].to_numpy(), rows["end"].to_numpy(), parent)
    pieces = rows[own.owner].with_columns(pl.Series("begin", own.start), pl.Series("until", own.end))
    pieces = pieces.filter(pl.col("kind") != "collective")
    called = pieces.select(pl.coalesce("launched", "begin")).to_series().to_numpy()
    issued = calls["issued" if streams else "start"].to_numpy()
    time = (pieces["until"] - pieces["begin"]).to_numpy()
    order = np.argsort(issued, kind="stable")
    call = np.searchsorted(issued[order], called, side="left")
    return pl.DataFrame(
        {
            "call": np.append(order, -1)[call],
            "time": time,
            "most": time,
            "name": pieces["name"],
            "longest": pieces["id"],
        }
    ).select(
        "call", "time", "most", pl.lit("device").alias("where"), "name",
        pl.lit(None, pl.Categorical()).alias("inside"), "longest",
    ).filter(pl.col("call") >= 0)  # fmt: skip


def _empty_activities() -> pl.DataFrame:
    return pl.DataFrame(schema=_CALL_ACTIVITY_SCHEMA)


def _sum_per_call(done: pl.DataFrame) -> pl.DataFrame:
    """A row per call and name, in the schema `_CALL_ACTIVITY_SCHEMA`."""
    most = pl.col("most").arg_max()
    return (
        done.group_by(_ACTIVITY_KEY)
        .agg(pl.col("time").sum(), pl.col("most").max(), pl.col("inside", "longest").get(most))
        .select(_CALL_ACTIVITY_SCHEMA.names())
    )


def _merge_small_activities(done: pl.DataFrame, least: int) -> pl.DataFrame:
    """A row per call and name; large steps are merged as in `MERGING_DEFINITION`.

    `least` is 1/`MERGED_ROWS_PER_STEP` of a step. So a step has at most a multiple of `MERGED_ROWS_PER_STEP` rows, or
    `MAX_UNMERGED_ROWS`, with any number of collectives.
    """
    of_call = done.select("call", "step").unique()
    summed = _sum_per_call(done).join(of_call, on="call").with_columns(pl.col("name", "inside").cast(pl.String))
    alike = ("step", "where", "name")
    level = ((pl.col("time").cum_sum() - pl.col("time")) // least).over(alike, order_by="call")
    most = pl.col("most").arg_max()
    return (
        summed.with_columns((pl.len().over("step") <= MAX_UNMERGED_ROWS).alias("few"))
        .filter(pl.col("few") | (pl.col("time").sum().over(alike) >= least))
        .with_columns(pl.when("few").then("call").otherwise(level).alias("level"))
        .sort("where", "name", "call")
        .group_by(*alike, "level", maintain_order=True)
        .agg(pl.col("call").last(), pl.col("inside", "longest").get(most), pl.col("time").sum())
    )
