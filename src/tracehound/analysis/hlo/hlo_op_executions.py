"""The executions of HLO ops: counts and times of each op on one rank, and over all ranks.

Owns the definition of an execution and of its length, also for an op that begins and ends in two halves. The base of
`hlo_ops` and `roofline`; costs are added by `hlo_op_costs`, groups made by `hlo_op_groups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.devices.async_ops import join_async_events, module_executions
from tracehound.analysis.devices.sparse_cores import MAIN_CORE, core_type_column, sparse_core_lanes
from tracehound.analysis.graphs import LAUNCH_PATTERN
from tracehound.analysis.rank_trace import RankTrace, device_lane_events
from tracehound.analysis.result import JOINED_EVENTS, Options, collect_counted_events
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    EVENT_LENGTH,
    device_time_bounds,
    has_device_clock,
    idle_window_length,
    measure_events,
    time_outside_work,
)
from tracehound.formats.xla.op_executions import EXECUTION_EVENT_SUFFIX
from tracehound.model.trace import OPS, collect_frame
from tracehound.numeric.id_set import find_rows
from tracehound.numeric.intervals import union


def may_use_command_buffers(rank_trace: RankTrace) -> bool:
    """True where the rank executes modules of XLA, or its host executes them or launches graphs."""
    if rank_trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "modules")).height:
        return True
    calls = rank_trace.threads.filter(pl.col("kind") == "runtime").select(pl.col("name").unique().cast(pl.String))
    found = collect_frame(calls.filter(pl.col("name").str.contains(f"{EXECUTION_EVENT_SUFFIX}$|{LAUNCH_PATTERN}")))
    return found.height > 0


OP_KEY: Final = ("name", "category", "module", "program", "core")
"""Columns that identify an op over all ranks."""

_OP_FACTS: Final = tuple(name for name in OPS if name not in ("op", "name", "category", "module", "program"))
"""Further columns of an op."""

_EVENT_COLUMNS: Final = (
    "id", "lane", "start", "end", "name", "kind", "op", "parent", "self", "device_start", "device_end",
)  # fmt: skip


def op_rows_of_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each op that ran, with the facts of the file, and on every row the totals of the rank.

    `count` is the number of executions, `kernels` that of their kernels (null where ops are not kernels), `runs` the
    count less the parts that a window cuts off; `self`, `total`, `min`, `max` are ps. `flight` is the total time from
    the start of an asynchronous op to its end, on the row of the half that ends it, and `flights` their number, both
    less the parts that a window cuts off: where that half is outside the window, its row counts no execution. `core` is
    the type of core that it ran on, null for the device's own; the totals are of that alone. A device that ran no op,
    but works at times, has one row with its totals.
    """
    lanes = rank_trace.lanes.filter(pl.col("rank").is_not_null())
    on_main = lanes.filter(pl.col("role") == "ops")["lane"].to_list()
    on_sparse, core = sparse_core_lanes(rank_trace), core_type_column(rank_trace)
    of_ops = rank_trace.device.filter(pl.col("lane").is_in(on_main + on_sparse))
    events = collect_frame(of_ops.select(*_EVENT_COLUMNS, core))
    rank_totals = _rank_totals(events.filter(pl.col("core") == MAIN_CORE), rank_trace)
    if events.is_empty():
        return pl.DataFrame([rank_totals]) if rank_totals["span"] else pl.DataFrame()
    rows = measure_events(events, rank_trace.start, rank_trace.end).with_columns(
        pl.Series("begins", _execution_starts(events, rank_trace))
    )
    summed = rows.group_by("name", "op", "core").agg(
        pl.col("kind").first().cast(pl.String),
        pl.col("begins").sum().cast(pl.Int64).alias("count"),
        pl.len().cast(pl.Int64).alias("kernels"),
        (pl.col("length").sum() / EVENT_LENGTH.sum()).alias("part"),
        pl.col("own").sum().alias("self"),
        pl.col("length").sum().alias("total"),
        pl.col("length").min().alias("min"),
        pl.col("length").max().alias("max"),
        pl.col("id").get(pl.col("length").arg_max()).alias("event"),
        *collect_counted_events(options, pl.col("id").filter("begins")),
    )
    kernels = "stream" in lanes["role"].to_list()
    known = rank_trace.ops.drop("name").with_columns(pl.col("category").alias("said"))
    return (
        summed.join(
            pl.concat(
                _async_op_times(events.filter((pl.col("core") == MAIN_CORE) == is_main), rank_trace, own_lanes)
                for is_main, own_lanes in ((True, on_main), (False, on_sparse))
            ),
            on=["name", "op", "core"],
            how="full",
            coalesce=True,
            maintain_order="left_right",
        )
        .with_columns(
            pl.col("count", "kernels", "self", "total", "max").fill_null(0),
            pl.col("part").fill_null(1.0),
            pl.coalesce("kind", "waits").alias("kind"),
            pl.coalesce("event", "done").alias("event"),
        )
        .join(known, on="op", how="left", maintain_order="left")
        .with_columns(
            pl.col("name").cast(pl.String),
            pl.coalesce("said", "kind").alias("category"),
            pl.col("core").replace(MAIN_CORE, None),
            (pl.col("count") * pl.col("part").fill_nan(1.0)).alias("runs"),
            pl.col("kernels") if kernels else pl.lit(None, pl.Int64).alias("kernels"),
            *(pl.lit(value, pl.Int64).alias(name) for name, value in rank_totals.items()),
        )
        .drop("said", "part", "op", "waits", "done")
    )


def _execution_starts(events: pl.DataFrame, rank_trace: RankTrace) -> npt.NDArray[np.bool_]:
    """Mask of the events that begin an execution: all events, but on GPUs the first of consecutive kernels of one op.

    Kernels are consecutive on their stream, within one execution of the module.
    """
    if "stream" not in rank_trace.lanes["role"].to_list():
        return np.ones(events.height, np.bool_)
    modules = rank_trace.lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_not_null())["lane"].to_list()
    starts = collect_frame(rank_trace.device.filter(pl.col("lane").is_in(modules)).select("start")).to_series()
    return first_kernels_of_executions(events, starts)


def first_kernels_of_executions(events: pl.DataFrame, modules: pl.Series) -> npt.NDArray[np.bool_]:
    """Mask of the GPU kernels that begin an execution of their op.

    `events` are all kernels of ops, with `lane`, `op` and `start`, sorted by lane and start; `modules` are the starts
    of its executions of modules, in any order.
    """
    starts = modules.sort().to_numpy()
    lane, op = events["lane"].to_numpy(), events["op"].fill_null(-1).to_numpy()
    run = np.searchsorted(starts, events["start"].to_numpy(), side="right")
    alike = (lane[1:] == lane[:-1]) & (op[1:] == op[:-1]) & (run[1:] == run[:-1])
    return np.append(True, ~alike)


def _async_op_times(events: pl.DataFrame, rank_trace: RankTrace, lanes: Sequence[int]) -> pl.DataFrame:
    """`name`, `op`, `core`, `flight` and `flights` of ops that end an asynchronous one: their times from start to end.

    Times are on the device's own clock where it has one. Of an op that a window cuts, the part inside counts, wherever
    its ends are. `done` is an event of the op, and `waits` its kind.
    """
    if rank_trace.windowed:
        core = core_type_column(rank_trace)
        events = collect_frame(device_lane_events(rank_trace, lanes).select(*_EVENT_COLUMNS, core))
    ops = rank_trace.ops.filter(pl.col("op").is_in(events["op"].unique().implode()))
    execution = module_executions(rank_trace, events["start"])
    low, high = device_time_bounds(events, rank_trace)
    if has_device_clock(events):
        events = events.with_columns(start="device_start", end="device_end")
    pairs = join_async_events(events, ops, execution).filter((pl.col("start") <= high) & (pl.col("end") >= low))
    whole, inside = pl.col("end") - pl.col("start"), pl.col("end").clip(low, high) - pl.col("start").clip(low, high)
    ended = pairs.select(
        pl.col("done"),
        inside.alias("flight"),
        pl.when(whole > 0).then(inside / whole).otherwise(1.0).alias("flights"),
    )
    ending = events.select("name", "op", "core", "kind")[find_rows(events["id"].to_numpy(), pairs["done"].to_numpy())]
    return (
        ended.hstack(ending)
        .group_by("name", "op", "core", maintain_order=True)
        .agg(
            pl.col("flight", "flights").sum(),
            pl.col("done").min(),
            pl.col("kind").first().cast(pl.String).alias("waits"),
        )
    )


def _rank_totals(events: pl.DataFrame, rank_trace: RankTrace) -> dict[str, int]:
    """Totals of the rank: `span`, its time from the first work to the last, and the times within it.

    The time is that on the device's own clock where ops have one, of a window too. `used` is the time in which an op
    runs, `busy` that in which anything runs. `outside` is the time of the Steps line outside of the span.
    `stream_time` is the sum of all kernels on its streams; `unnamed` is the number of those without an op,
    `unnamed_time` their time; `buffered`: they may have run in command buffers.
    """
    streams = rank_trace.lanes.filter((pl.col("role") == "stream") & pl.col("rank").is_not_null())["lane"].to_list()
    inside = pl.min_horizontal("end", pl.lit(rank_trace.end)) - pl.max_horizontal("start", pl.lit(rank_trace.start))
    kernel = pl.col("kind").is_in(["kernel", "collective"])
    loose = kernel & pl.col("op").is_null()
    ran = rank_trace.device.filter(pl.col("lane").is_in(streams)) if streams else rank_trace.device.clear()
    whole = collect_frame(
        ran.select(
            (pl.col("end").max() - pl.col("start").min()).alias("span"),
            inside.filter(kernel).sum().alias("stream_time"),
            inside.filter(loose).sum().alias("unnamed_time"),
            loose.sum().cast(pl.Int64).alias("unnamed"),
        )
    )
    found = {name: int(value or 0) for name, value in whole.row(0, named=True).items()}
    low, high = device_time_bounds(events, rank_trace) if events.height else (rank_trace.start, rank_trace.end)
    sides = DEVICE_TIMES if has_device_clock(events) else ("start", "end")
    found["buffered"] = int(found["unnamed"] > 0 and may_use_command_buffers(rank_trace))
    found["used"] = found["busy"] = _covered_time(events.select(*sides), low, high)
    if streams:
        found["busy"] = _covered_time(collect_frame(ran.select("start", "end")), rank_trace.start, rank_trace.end)
    if events.height and not found["span"]:
        found["span"] = high - low
    elif rank_trace.windowed:
        found["span"] = idle_window_length(rank_trace)
    return {"rank": rank_trace.rank, **found, "outside": time_outside_work(events, rank_trace)}


def _covered_time(sides: pl.DataFrame, low: int, high: int) -> int:
    """The time in which any of these runs between two instants."""
    start, end = (side.clip(low, high).to_numpy() for side in sides.iter_columns())
    return union(start, end).length


def merge_rank_ops(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """A row for each op over all ranks, in no order; `ranks` is the number of its ranks, `rank` the first of them."""
    rows = pl.concat([table for table in tables if "name" in table.columns], how="vertical_relaxed")
    return rows.group_by(OP_KEY, maintain_order=True).agg(
        pl.col("kind", *_OP_FACTS).first(),
        pl.col("count", "runs", "self", "total").sum(),
        *(_sum_or_null(name) for name in ("kernels", "flight", "flights")),
        pl.col("min").min(),
        pl.col("event").sort_by("max", "rank", descending=[True, False]).first(),
        pl.col("max").max(),
        pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
        pl.col("rank").min(),
        JOINED_EVENTS,
    )


def _sum_or_null(name: str) -> pl.Expr:
    """The sum, null where all are null."""
    return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)


def sum_over_ranks(tables: Sequence[pl.DataFrame], of: str = "span") -> int:
    """Sum over the ranks of their time from first to last work, idle time included, or of another total; ps."""
    return sum(int(table[of][0]) for table in tables)


def kernels_without_op(tables: Sequence[pl.DataFrame]) -> tuple[int, int, int]:
    """The number of kernels without an op, their time, and the time of all kernels; over all ranks."""
    firsts = [table.select("unnamed", "unnamed_time", "stream_time").row(0) for table in tables]
    return (sum(one[0] for one in firsts), sum(one[1] for one in firsts), sum(one[2] for one in firsts))
