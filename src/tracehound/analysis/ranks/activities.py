"""What a rank did before each of its collectives: host and device, in the order in which the program asked for it.

Owns what counts as doing something, and the small table of it. Knows one rank alone.

The ranks of a job run the same program. What one did between the issuing of two collectives can so be held against what
the others did between the same two, whenever each of them came to it. Waiting for others is nothing done: the time in
which a host waits while a collective of its own is under way is left out, and so are the collectives.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.hosts.launched import calls_of
from tracehound.analysis.hosts.threads import batches, lanes_with, told_by_name
from tracehound.analysis.result import Share
from tracehound.formats.runtime_calls import WAIT
from tracehound.formats.torch_names import STEP
from tracehound.intervals import Intervals, Ints, Mask, covered, union
from tracehound.nesting import outermost
from tracehound.own_time import one_at_a_time, own_stretches
from tracehound.trace import collected, schema

ACTIVITIES: Final = schema(
    {
        "rank": pl.Int64(),
        "call": pl.Int64(),  # event of the collective that was issued next
        "where": pl.Categorical(),  # "host" or "device"
        "name": pl.Categorical(),
        "inside": pl.Categorical(),  # what the longest of it is nested in, on a host
        "time": pl.Int64(),  # sum of own times, ps
        "longest": pl.Int64(),  # event that has most of it
    }
)

NOTHING: Final = "nothing recorded"
"""What the thread with the steps did where it has no event."""

WAITS: Final = rf"(?i){WAIT.pattern}|\bwait|await|barrier|block_?(?:host_?)?until|EventQuery|StreamQuery|^c10d::"
"""Names of what a host does while others work."""

FEW: Final = 400
"""So many rows of a step are kept as they are."""

PER_STEP: Final = 400
"""Of more, what takes a smaller part of a step is put together with more of the same, until it takes as much."""

PUT_TOGETHER: Final = f"""\
Of a step with more than {FEW:,} pairs of a collective and a name before it, what takes less than 1/{PER_STEP} of a step
counts at a later collective of the step, together with more of the same, and not at all where all of it takes less."""

_WAITING: Final = re.compile(WAITS)
_STEP: Final = re.compile(STEP)
_READ: Final = ("id", "lane", "start", "end", "name", "kind", "parent")
_CONTAINERS: Final = ("annotation", "step", "module")
_DONE: Final = ("call", "where", "name")
_DONE_AT: Final = schema(
    {
        "call": pl.Int64(),  # position of the call that was issued next
        "time": pl.Int64(),
        "most": pl.Int64(),  # of the time, on `longest`
        "where": pl.String(),
        "name": pl.Categorical(),
        "inside": pl.Categorical(),
        "longest": pl.Int64(),
    }
)


def activities(share: Share, calls: pl.DataFrame) -> pl.DataFrame:
    """What the rank did before each of its calls (in the schema `CALLS`, in order), in the schema `ACTIVITIES`."""
    if calls.is_empty():
        return pl.DataFrame(schema=ACTIVITIES)
    done = pl.concat([_on_host(share, calls), _on_device(share, calls)], how="vertical_relaxed")
    last = int(calls["end"].to_numpy().max())
    first = min(int(calls["start"].to_numpy().min()), int(share.steps["start"].to_numpy().min(initial=last)))
    steps = max(calls["step"].n_unique(), 1)
    events = calls["event"].to_numpy()
    stepped = done.with_columns(calls["step"].gather(done["call"]).alias("step"))
    table = _put_together(stepped, max((last - first) // (PER_STEP * steps), 1))
    return (
        table.with_columns(
            pl.lit(share.rank).alias("rank"), pl.Series("call", events[table["call"].to_numpy()], pl.Int64)
        )
        .select(ACTIVITIES.names())
        .cast(ACTIVITIES)
    )


def _on_host(share: Share, calls: pl.DataFrame) -> pl.DataFrame:
    """Own time on the threads that launch work or mark steps, or where there is no device, that run operators."""
    device = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    streams = device.filter(pl.col("role") == "stream").height > 0
    lanes, main = _threads(share, has_device=device.height > 0)
    some = (collected(threads.select(_READ)) for threads in batches(share, lanes))
    return pl.concat([_blank(), *(_of_threads(rows, main, calls, streams=streams) for rows in some)])


def _of_threads(rows: pl.DataFrame, main: int | None, calls: pl.DataFrame, *, streams: bool) -> pl.DataFrame:
    """The same of some threads."""
    start, end, parent = rows["start"].to_numpy(), rows["end"].to_numpy(), local_parent(rows)
    own = one_at_a_time(start, end, parent, rows["lane"].to_numpy())
    idle = _unrecorded(rows, main)
    begin, until = np.append(own.start, idle.start), np.append(own.end, idle.end)
    owner = np.append(own.owner, np.full(len(idle.start), -1))
    call = np.searchsorted(calls["issued"].to_numpy(), begin, side="left")
    done = np.append((rows["kind"] != "collective").to_numpy(), np.True_)[owner] & (call < calls.height)
    begin, until, owner, call = begin[done], until[done], owner[done], call[done]
    waits = np.flatnonzero(np.append(_waits(rows, parent, streams=streams), not streams)[owner])
    flying = union(calls["start"].to_numpy(), calls["end"].to_numpy())
    time = until - begin
    time[waits] -= covered(flying, begin[waits], until[waits])
    names, around = _without_numbers(rows), np.append(parent, -1)[owner]
    table = pl.DataFrame(
        {
            "call": call.astype(np.int64),
            "time": time,
            "name": names.gather(np.maximum(owner, 0)),
            "inside": names.gather(np.maximum(around, 0)),
            "longest": np.append(rows["id"].to_numpy(), -1)[owner],
        }
    ).with_columns(
        pl.when(pl.Series(owner >= 0)).then("name").otherwise(pl.lit(NOTHING, pl.Categorical())).alias("name"),
        pl.when(pl.Series(around >= 0)).then("inside").alias("inside"),
        pl.lit("host").alias("where"),
    )
    return _summed(table.filter(pl.col("time") > 0).with_columns(most="time"))


def _without_numbers(rows: pl.DataFrame) -> pl.Series:
    """The names of events, of steps without their numbers."""
    numbered = told_by_name(rows, lambda name, _: 1 if _STEP.search(name) else None)
    if not (numbered > 0).any():
        return rows["name"]
    return rows["name"].cast(pl.String).str.replace(STEP, "$1#").cast(pl.Categorical())


def _threads(share: Share, *, has_device: bool) -> tuple[list[int], int | None]:
    """The lanes of the host that matter, and the one with the steps."""
    launching = lanes_with(share, collected(share.anytime.select(pl.col("launch").unique())).to_series())
    marking = lanes_with(share, share.steps["event"])
    running = pl.col("kind") == "op"
    ops = (
        [] if has_device else collected(share.threads.filter(running).select(pl.col("lane").unique()))["lane"].to_list()
    )
    return sorted({*launching, *marking, *ops}), min(marking, default=None)


def _unrecorded(rows: pl.DataFrame, main: int | None) -> Intervals:
    """The pauses between the outermost events of the thread with the steps."""
    mine = rows.filter(pl.col("lane") == main) if main is not None else rows.clear()
    start, end = mine["start"].to_numpy(), mine["end"].to_numpy()
    top = outermost(end)
    begin, until = end[top][:-1], start[top][1:]
    return Intervals(begin[until > begin], until[until > begin])


def _waits(rows: pl.DataFrame, parent: Ints, *, streams: bool) -> Mask:
    """The events that only wait for others while a collective is under way.

    Without streams the host takes part in collectives itself: then it waits in whatever is around other events.
    """
    by_name: Mask = told_by_name(rows, lambda name, _: 1 if _WAITING.search(name) else None) > 0
    if streams:
        return by_name
    around = rows["kind"].is_in(_CONTAINERS).to_numpy().copy()
    around[parent[parent >= 0]] = True
    return np.asarray(by_name | around, np.bool_)


def _on_device(share: Share, calls: pl.DataFrame) -> pl.DataFrame:
    """Own time of the work on the device but for collectives, by the launch of what is on streams."""
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    if lanes.is_empty():
        return _blank()
    streams = lanes.filter(pl.col("role") == "stream")["lane"].to_list()
    rows = collected(share.anytime.filter(pl.col("lane").is_in(lanes["lane"].to_list())).select(*_READ, "launch")).sort(
        "id"
    )
    on_stream = pl.col("lane").is_in(streams)
    launch = rows.select(pl.when(on_stream).then("launch")).to_series()
    rows = rows.with_columns(launched=calls_of(share, launch)["called"])
    parent = np.full(rows.height, -1) if len(streams) == lanes.height else local_parent(rows)
    own = own_stretches(rows["start"].to_numpy(), rows["end"].to_numpy(), parent)
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


def _blank() -> pl.DataFrame:
    return pl.DataFrame(schema=_DONE_AT)


def _summed(done: pl.DataFrame) -> pl.DataFrame:
    """A row per call and name, in the schema `_DONE_AT`."""
    most = pl.col("most").arg_max()
    return (
        done.group_by(_DONE)
        .agg(pl.col("time").sum(), pl.col("most").max(), pl.col("inside", "longest").get(most))
        .select(_DONE_AT.names())
    )


def _put_together(done: pl.DataFrame, least: int) -> pl.DataFrame:
    """A row per call and name; in a step with many, as `PUT_TOGETHER` has it, `least` being 1/`PER_STEP` of a step.

    So the rows of a step are no more than a multiple of `PER_STEP`, or `FEW`, however many collectives it has.
    """
    of_call = done.select("call", "step").unique()
    summed = _summed(done).join(of_call, on="call").with_columns(pl.col("name", "inside").cast(pl.String))
    alike = ("step", "where", "name")
    level = ((pl.col("time").cum_sum() - pl.col("time")) // least).over(alike, order_by="call")
    most = pl.col("most").arg_max()
    return (
        summed.with_columns((pl.len().over("step") <= FEW).alias("few"))
        .filter(pl.col("few") | (pl.col("time").sum().over(alike) >= least))
        .with_columns(pl.when("few").then("call").otherwise(level).alias("level"))
        .sort("where", "name", "call")
        .group_by(*alike, "level", maintain_order=True)
        .agg(pl.col("call").last(), pl.col("inside", "longest").get(most), pl.col("time").sum())
    )
