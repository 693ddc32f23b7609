"""Overlap of collectives and asynchronous ops with work of the cores: time in flight, exposed and hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.async_ops import AsyncOps, async_op_times, exposed_time, find_async_ops
from tracehound.analysis.devices.missing_data import count_concurrent_executions, merged_devices_notes
from tracehound.analysis.devices.sparse_cores import MAIN_CORE, core_type_column, sparse_core_lanes
from tracehound.analysis.rank_trace import RankTrace, RunContext, device_lane_events
from tracehound.analysis.ranks.rank_collectives import rank_calls
from tracehound.analysis.result import (
    JOINED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    counted_events_field,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import work_bounds
from tracehound.analysis.timing.device_clock import device_clock, window_length_notes
from tracehound.formats.xla.op_kinds import performed_opcode
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Intervals, Ints, clip, subtract, union

DEFINITION = """\
Covers collectives, and all ops that one op starts and another waits for (all-gather-start and all-gather-done,
copy-start and copy-done, async slices), on the cores of TPUs and of XLA's CPU backend. An asynchronous op is in flight
from the start of its start to the end of its done; a collective that is a single op is in flight while that runs. The
done is found by the operand that its HLO line names, or else by name, within one execution of the module. A collective
on a SparseCore (column core) is in flight while it runs there, unless an asynchronous collective of the same kind on
the TensorCore is in flight then: that starts it and waits for it, and is the row that counts.

in flight = length of the union of these intervals. exposed = self time of the starts and dones themselves: the core of
a TPU does nothing else meanwhile; a CPU runs several ops at once, and breakdown shows what nothing hides there. hidden
= in flight - the intervals of the starts and dones. A collective on a SparseCore is hidden while the TensorCore runs
any op that waits for nothing, and exposed in the rest of its time. On TPUs all times, and the bounds of a window, are
on the device's own clock. windows = sum of the intervals, which counts overlaps more than once; XProf's
analyze_async_overlap uses it as the time of asynchronous ops, and so finds more time, also exposed, than the cores
have. An op in flight may only be queued behind others.

by=op has a row for each op, over all ranks. On GPUs collectives are kernels on streams of their own: see overlap."""

BY_SETTING: Final = Setting(
    "by", "kind", "what a row is: a kind of ops (of each rank) or an op (of all)", choice_parser("kind", "op")
)

_MEASURE_COLUMNS: Final = (
    Column("count", "count", "executions"),
    Column("paired", "count", "executions that a second op waits for", brief=False),
    Column("windows", "time", "sum of the intervals in flight; overlaps count more than once", brief=False),
    Column("in_flight", "time", "one is under way, overlaps once"),
    Column("exposed", "time", "the core does nothing but start them or wait for them"),
    Column("exposed_share", "share", "exposed", "device time"),
    Column("hidden", "time", "in flight while the core works or idles"),
    Column("hidden_share", "share", "hidden", "its time in flight"),
    Column("event", "id", "the longest that kept the core"),
)

_CORE_COLUMN: Final = Column("core", "text", "SparseCore for collectives that run on one")

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("kind", "text", "opcode, without -start"),
    _CORE_COLUMN,
    *_MEASURE_COLUMNS,
)

BY_OP_COLUMNS: Final = (
    Column("name", "text", "HLO op, of two the starting one"),
    Column("module", "text", "XLA module", brief=False),
    Column("kind", "text", "opcode, without -start"),
    _CORE_COLUMN,
    *_MEASURE_COLUMNS,
)

_OP_KEY: Final = ("kind", "name", "module")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each kind of ops, or each op; ps."""
    key = list(_OP_KEY) if BY_SETTING.value_in(options.given) == "op" else ["kind"]
    cores = find_async_ops(rank_trace)
    calls = _sparse_core_calls(rank_trace)
    if cores is None and calls.is_empty():
        return pl.DataFrame()
    rows, bounds = list[dict[str, object]](), work_bounds(calls, rank_trace) if cores is None else cores.bounds
    if cores is not None:
        rows += _own_core_rows(cores, key, options)
    if calls.height:
        inside = bounds if rank_trace.windowed else work_bounds(calls, rank_trace)
        rows += _sparse_core_rows(calls, [*key, "core"], union(*_working_times(cores)), inside, options)
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(bounds[1] - bounds[0], pl.Int64).alias("time"),
        pl.lit(count_concurrent_executions(rank_trace), pl.Int64).alias("beside"),
    )


def _own_core_rows(cores: AsyncOps, key: Sequence[str], options: Options) -> list[dict[str, object]]:
    """The rows of the ops on a device's own cores: on TPUs the TensorCore."""
    flights = cores.in_window.filter(pl.col("paired") | (pl.col("kind") == "collective")).drop("kind")
    op_kinds = _op_kinds(cores.ops.filter(pl.col("op").is_in(flights["op"].unique().implode())))
    named_flights = flights.join(op_kinds, on="op")
    groups = named_flights.partition_by(key, as_dict=True, maintain_order=True)
    core_times = cores.core_times.join(op_kinds, on="op")
    times_by_group, nothing = core_times.partition_by(key, as_dict=True), core_times.clear()
    rows = []
    for group, part in groups.items():
        spent = times_by_group.get(group, nothing)
        flight = clip(union(*_times(part)), *cores.bounds).length
        times = async_op_times(part, spent, flight, *exposed_time(spent, *cores.bounds))
        rows.append(_row({**dict(zip(key, group, strict=True)), "core": MAIN_CORE}, part, cores.bounds, times, options))
    return rows


def _sparse_core_calls(rank_trace: RankTrace) -> pl.DataFrame:
    """The collectives on SparseCores in the window: id, op, core, kind, name, module, paired, start and end.

    Times are on the clock of the TensorCore.
    """
    lanes = sparse_core_lanes(rank_trace)
    calls = rank_calls(rank_trace).filter("sparse", "in_window") if lanes else pl.DataFrame()
    if calls.is_empty():
        return pl.DataFrame()
    events = device_lane_events(rank_trace, lanes).select("id", "op", core_type_column(rank_trace), own_end="end")
    known = collect_frame(events.filter(pl.col("id").is_in(calls["event"].implode())))
    kind = pl.col("collective").cast(pl.String).str.replace_all("_", "-").fill_null("communication")
    rows = calls.select("start", "end", kind.alias("kind"), id="event").join(known, on="id", maintain_order="left")
    rows = rows.with_columns((pl.col("end") > pl.col("own_end")).alias("paired"))
    if (clock := device_clock(rank_trace)) is not None:
        start, end = clock.to_device_bounds(*_times(rows))
        rows = rows.with_columns(pl.Series("start", start), pl.Series("end", end))
    return rows.join(rank_trace.ops.select("op", "name", pl.col("module").fill_null("")), on="op")


def _working_times(cores: AsyncOps | None) -> tuple[Ints, Ints]:
    """Starts and ends of the ops of the TensorCore that neither start nor await an asynchronous one."""
    if cores is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    awaited = cores.all_ops.filter("paired")["op"].unique().implode()
    return _times(cores.core_times.filter(~pl.col("op").is_in(awaited)))


def _sparse_core_rows(
    calls: pl.DataFrame, key: Sequence[str], working: Intervals, bounds: tuple[int, int], options: Options
) -> list[dict[str, object]]:
    """The rows of the collectives on SparseCores, which the `working` TensorCore hides."""
    rows = []
    for group, part in calls.partition_by(key, as_dict=True, maintain_order=True).items():
        flight = clip(union(*_times(part)), *bounds)
        exposed = subtract(flight, working).length
        length = part["end"] - part["start"]
        longest = length.arg_max() or 0
        times = {
            "in_flight": flight.length,
            "exposed": exposed,
            "hidden": flight.length - exposed,
            "event": part["id"][longest],
            "longest": length[longest],
        }
        rows.append(_row(dict(zip(key, group, strict=True)), part, bounds, times, options))
    return rows


def _row(
    group: Mapping[str, object],
    rows: pl.DataFrame,
    bounds: tuple[int, int],
    times: Mapping[str, int],
    options: Options,
) -> dict[str, object]:
    """A row of the table: the group of the ops in flight (`rows`), with these times."""
    windows = rows["end"].clip(*bounds) - rows["start"].clip(*bounds)
    return {
        **group,
        "count": rows.height,
        "paired": int(rows["paired"].sum()),
        "windows": int(windows.sum()),
        **counted_events_field(options, rows["id"]),
        **times,
    }


def _times(rows: pl.DataFrame) -> tuple[Ints, Ints]:
    """Starts and ends."""
    return rows["start"].to_numpy(), rows["end"].to_numpy()


def _op_kinds(ops: pl.DataFrame) -> pl.DataFrame:
    """For each `op` its `kind`, `name` and `module`."""
    rows = [
        (op, performed_opcode(name, category or name, text or ""), name, module or "")
        for op, name, category, module, text in ops.select("op", "name", "category", "module", "text").iter_rows()
    ]
    return pl.DataFrame(rows, schema={"op": pl.Int64, **dict.fromkeys(_OP_KEY, pl.String)}, orient="row")


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each rank and kind, or for each op over all ranks; the longest exposed time first."""
    by_op = BY_SETTING.value_in(options.given) == "op"
    analysis = ANALYSIS.with_shown_columns(options.given)
    rank_tables = [table for table in tables if "count" in table.columns]
    if not rank_tables:
        return empty_result(analysis, context, options, _why_empty(context))
    rows = pl.concat(rank_tables)
    time = int(rows.group_by("rank").agg(pl.col("time").first())["time"].sum())
    table = _sum_over_ranks(rows, time) if by_op else rows.with_columns(pl.col("rank").rle_id().alias("place"))
    table = table.with_columns(
        pl.col("core").replace(MAIN_CORE, None),
        (pl.col("exposed") / pl.col("time")).fill_nan(None).alias("exposed_share"),
        (pl.col("hidden") / pl.col("in_flight")).fill_nan(None).alias("hidden_share"),
    )
    order = ["exposed", "in_flight", "name", "module", "kind"] if by_op else ["place", "exposed", "in_flight", "kind"]
    table = table.sort(order, descending=[name in ("exposed", "in_flight") for name in order])
    return make_result(
        analysis, table, context, options, [*_notes(rows, time), *window_length_notes(rows["time"], context)]
    )


def _sum_over_ranks(rows: pl.DataFrame, time: int) -> pl.DataFrame:
    return rows.group_by(*_OP_KEY, "core").agg(
        pl.col("count", "paired", "windows", "in_flight", "exposed", "hidden").sum(),
        pl.lit(time).alias("time"),
        pl.col("event").sort_by("longest", "event", descending=[True, False]).first(),
        JOINED_EVENTS,
    )


def _notes(rows: pl.DataFrame, time: int) -> list[Note]:
    if merged_device_notes := merged_devices_notes(rows, "exposed"):
        return merged_device_notes
    exposed = int(rows["exposed"].sum())
    return [note("exposed_total", exposed=exposed, of=time, ranks=rows["rank"].n_unique())] if time else []


def _why_empty(context: RunContext) -> Note:
    return note("no_hlo_ops_in_pytorch_profile" if context.is_pytorch else "no_asynchronous_ops", level="missing")


ANALYSIS = Analysis(
    name="async_overlap",
    title="Async overlap",
    question="How much of collectives and asynchronous HLO ops is hidden behind work, and how much is exposed?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    device_ops_only=True,
    settings=(BY_SETTING,),
    columns_by_setting={"op": BY_OP_COLUMNS},
)
