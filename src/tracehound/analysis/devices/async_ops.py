"""Asynchronous HLO ops: ``-start`` and ``-done`` ops of one core, matched, and their time in flight and on the core."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.rank_trace import RankTrace, device_lane_events
from tracehound.analysis.timing.device_clock import DEVICE_TIMES, device_time_bounds, has_device_clock, measure_events
from tracehound.analysis.timing.row_groups import group_rows, match_ends_to_starts
from tracehound.formats.xla.op_kinds import is_async_done, start_op_name
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import find_rows
from tracehound.numeric.intervals import count_instants_reached, union

OP_COLUMNS: Final = ("id", "lane", "start", "end", "op", "kind", "parent")
"""Columns of events that matching needs."""


class AsyncOps(NamedTuple):
    """Ops on the cores of a rank; all times are on the device's own clock, if it has one.

    `all_ops` has a row for each op, one for both halves of an asynchronous one: `id`, `op`, `kind`, `start`, `end` (not
    clipped), `paired`; also ops outside the window. `core_times` has a row for each op that keeps a core busy: `id`,
    `op` (of both halves the starting one), `start`, `end`, `own` (its self time; null without a device clock). Both are
    ordered by id, in `all_ops` `paired` ones come first. `ops` are the ops of the trace that occur; `start` and `end`
    bound the time: from the first to the last op, or the window; ps.
    """

    all_ops: pl.DataFrame
    core_times: pl.DataFrame
    ops: pl.DataFrame
    start: int
    end: int

    @property
    def bounds(self) -> tuple[int, int]:
        """`start` and `end`."""
        return self.start, self.end

    @property
    def in_window(self) -> pl.DataFrame:
        """Those of `all_ops` that overlap the window."""
        return self.all_ops.filter((pl.col("start") < self.end) & (pl.col("end") > self.start))


def find_async_ops(rank_trace: RankTrace) -> AsyncOps | None:
    """The ops of a rank's cores; None if only streams keep it busy."""
    everything = core_ops(rank_trace, "self", *DEVICE_TIMES)
    if everything.is_empty():
        return None
    here = everything.filter((pl.col("start") < rank_trace.end) & (pl.col("end") > rank_trace.start))
    ops = rank_trace.ops.filter(pl.col("op").is_in(everything["op"].unique().implode()))
    execution = module_executions(rank_trace, everything["start"])
    low, high = device_time_bounds(everything, rank_trace)
    clocked = has_device_clock(everything)
    if clocked:
        everything = everything.with_columns(start="device_start", end="device_end")
    pairs = join_async_events(everything, ops, execution).sort("id")
    ids = everything["id"].to_numpy()
    begun, ended = (find_rows(ids, pairs[name].to_numpy()) for name in ("id", "done"))
    single = ~everything["op"].is_in(match_done_ops(ops)["op"].implode()).fill_null(value=False).to_numpy()
    single[begun] = single[ended] = False
    lone = np.flatnonzero(single)
    alone = everything[lone]
    both = [pairs.with_columns(everything["kind"].gather(begun), paired=True), alone.with_columns(paired=False)]
    flights = pl.concat([each.select("id", "op", "kind", "start", "end", "paired") for each in both])
    keeping = everything.select("id", "start", "end")[np.concatenate([begun, ended, lone])]
    keeping = keeping.insert_column(1, pl.concat([pairs["op"], pairs["op"], alone["op"]])).sort("id")
    lengths = measure_events(here, rank_trace.start, rank_trace.end)
    row = find_rows(lengths["id"].to_numpy(), keeping["id"].to_numpy())
    own = lengths["own"].gather(row[row >= 0]) if clocked else pl.lit(None, pl.Int64)
    return AsyncOps(flights, keeping.filter(row >= 0).with_columns(own.alias("own")), ops, low, high)


def exposed_time(spent: pl.DataFrame, low: int, high: int) -> tuple[int, int]:
    """The time that ops keep the cores busy, and the length of its union within these bounds; ps.

    `spent` are rows of `AsyncOps.core_times`. A core with its own clock does one op at a time, so that self times add
    up. Without one, overlapping time counts once: PyTorch/XLA's devices on a CPU are drawn as one.
    """
    start, end = (spent[name].clip(low, high).to_numpy() for name in ("start", "end"))
    alone = union(start, end).length
    return alone if spent["own"].null_count() else int(spent["own"].sum()), alone


def async_op_times(rows: pl.DataFrame, spent: pl.DataFrame, flight: int, waited: int, alone: int) -> dict[str, int]:
    """Times of ops in flight: `in_flight`, `exposed`, `hidden`, and the `event` that kept the core `longest`; ps.

    `rows` (id, start, end) are in flight for `flight` in total, `spent` are the ops that keep the core busy for them,
    `waited` and `alone` the results of `exposed_time` for these. If nothing keeps the core busy, the longest of the
    rows counts.
    """
    lasting = pl.col("end") - pl.col("start")
    cores = spent.select("id", pl.coalesce("own", lasting).alias("own"))
    longest = cores if cores.height else rows.select("id", lasting.alias("own"))
    event, length = longest.row(longest["own"].arg_max() or 0)
    return {
        "in_flight": flight,
        "exposed": waited,
        "hidden": max(flight - alone, 0),
        "event": event,
        "longest": length,
    }


def core_ops(rank_trace: RankTrace, *more: str) -> pl.DataFrame:
    """The HLO ops that keep the rank's cores busy, at any time, sorted by id: columns `OP_COLUMNS`, and `more`.

    Empty on GPUs, which streams keep busy.
    """
    lanes = rank_trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "ops") & pl.col("work"))
    return collect_frame(device_lane_events(rank_trace, lanes["lane"].to_list()).select(*OP_COLUMNS, *more))


def module_executions(rank_trace: RankTrace, instants: pl.Series) -> pl.Series:
    """For each instant the number of the module execution that began last on the rank, 0 before the first."""
    lanes = rank_trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "modules"))
    runs = collect_frame(device_lane_events(rank_trace, lanes["lane"].head(1).to_list()).select("start"))
    return pl.Series(count_instants_reached(runs["start"].to_numpy(), instants.to_numpy()))


def match_done_ops(ops: pl.DataFrame) -> pl.DataFrame:
    """`op` of each op that waits for the end of another, and that other op (`started`). `ops` is a frame of the trace.

    Both are of one program. The waiting op names the other as its operand, or, if the file has no HLO line, by a
    similar name.
    """
    may_be_done = pl.col("text").fill_null("").str.contains(r"-done\(") | pl.col("name").str.contains(
        "-done", literal=True
    )
    candidates = ops.filter(may_be_done).select("op", "name", "category", "module", "program", "text")
    done_ops = [
        (op, module, program, start_op_name(name, text or ""))
        for op, name, category, module, program, text in candidates.iter_rows()
        if is_async_done(category or name.partition(".")[0], text or "")
    ]
    waiting = pl.DataFrame(
        done_ops, schema={"op": pl.Int64, "module": pl.String, "program": pl.Int64, "name": pl.String}, orient="row"
    )
    named = ops.select(pl.col("op").alias("started"), "module", "program", "name").unique(
        ["module", "program", "name"], keep="first", maintain_order=True
    )
    return waiting.join(named, on=["module", "program", "name"], nulls_equal=True).select("op", "started")


def join_async_events(events: pl.DataFrame, ops: pl.DataFrame, execution: pl.Series) -> pl.DataFrame:
    """One row for each asynchronous op, sorted by `start`.

    `events` (sorted by id) are ops of the rank's cores, `execution` the number of the execution of each. `op` and `id`
    are those of the starting op, `start` and `issued` its bounds, `waited` and `end` those of the op that waits (its id
    is `done`). If one op started several on one lane in one execution, the first to start ends first. Ops cut in two by
    the edge of the profile have no row. Where a TPU's clock was reset, ops of some time have the same instant: a start
    goes before the end of any other op there.
    """
    pairs = match_done_ops(ops.filter(pl.col("op").is_in(events["op"].unique().implode())))
    known = events.select("id", "lane", "start", "end", "op").with_columns(execution.alias("execution"))
    begun = known.filter(pl.col("op").is_in(pairs["started"].implode()))
    ended = known.join(pairs, on="op", maintain_order="left")
    both = (
        np.concatenate([begun[name].to_numpy(), ended[other].to_numpy()])
        for name, other in (("lane", "lane"), ("op", "started"), ("execution", "execution"))
    )
    group, _ = group_rows(*both)
    times = np.concatenate([begun["start"].to_numpy(), ended["start"].to_numpy()])
    first = match_ends_to_starts(
        group, np.argsort(times, kind="stable"), begun.height
    )  # at one instant starts go before ends
    last = np.flatnonzero(first >= 0)
    order = np.lexsort((first[last], times[first[last]]))
    first, last = first[last[order]], last[order]
    return begun.select("lane", "execution", "id", "op", "start", pl.col("end").alias("issued"))[first].hstack(
        ended.select(pl.col("id").alias("done"), pl.col("start").alias("waited"), "end")[last]
    )
