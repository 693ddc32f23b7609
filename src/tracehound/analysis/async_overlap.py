"""Overlap of collectives and asynchronous ops with work of the cores: time in flight, exposed and hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.async_ops import AsyncOps, async_op_times, exposed_time, find_async_ops
from tracehound.analysis.devices.missing_data import count_concurrent_executions, merged_devices_notes
from tracehound.analysis.rank_trace import RankTrace, RunContext
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
from tracehound.analysis.timing.device_clock import window_length_notes
from tracehound.formats.xla.op_kinds import performed_opcode
from tracehound.model.notes import Note, note
from tracehound.numeric.intervals import clip, union

DEFINITION = """\
Covers collectives, and all ops that one op starts and another waits for (all-gather-start and all-gather-done,
copy-start and copy-done, async slices), on the cores of TPUs and of XLA's CPU backend. An asynchronous op is in flight
from the start of its start to the end of its done; a collective that is a single op is in flight while that runs. The
done is found by the operand that its HLO line names, or else by name, within one execution of the module.

in flight = length of the union of these intervals. exposed = self time of the starts and dones themselves: the core of
a TPU does nothing else meanwhile; a CPU runs several ops at once, and breakdown shows what nothing hides there. hidden
= in flight - the intervals of the starts and dones. On TPUs all times, and the bounds of a window, are on the device's
own clock. windows = sum of the intervals, which counts overlaps more than once; XProf's analyze_async_overlap uses it
as the time of asynchronous ops, and so finds more time, also exposed, than the cores have. An op in flight may only be
queued behind others.

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

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("kind", "text", "opcode, without -start"),
    *_MEASURE_COLUMNS,
)

BY_OP_COLUMNS: Final = (
    Column("name", "text", "HLO op, of two the starting one"),
    Column("module", "text", "XLA module", brief=False),
    Column("kind", "text", "opcode, without -start"),
    *_MEASURE_COLUMNS,
)

_OP_KEY: Final = ("kind", "name", "module")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each kind of ops, or each op; ps."""
    cores = find_async_ops(rank_trace)
    if cores is None:
        return pl.DataFrame()
    key = list(_OP_KEY) if BY_SETTING.value_in(options.given) == "op" else ["kind"]
    flights = cores.in_window.filter(pl.col("paired") | (pl.col("kind") == "collective")).drop("kind")
    op_kinds = _op_kinds(cores.ops.filter(pl.col("op").is_in(flights["op"].unique().implode())))
    named_flights = flights.join(op_kinds, on="op")
    groups = named_flights.partition_by(key, as_dict=True, maintain_order=True)
    core_times = cores.core_times.join(op_kinds, on="op")
    times_by_group, nothing = core_times.partition_by(key, as_dict=True), core_times.clear()
    rows = [
        {
            **dict(zip(key, group, strict=True)),
            **_measure_group(part, times_by_group.get(group, nothing), cores, options),
        }
        for group, part in groups.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(cores.end - cores.start, pl.Int64).alias("time"),
        pl.lit(count_concurrent_executions(rank_trace), pl.Int64).alias("beside"),
    )


def _op_kinds(ops: pl.DataFrame) -> pl.DataFrame:
    """For each `op` its `kind`, `name` and `module`."""
    rows = [
        (op, performed_opcode(name, category or name, text or ""), name, module or "")
        for op, name, category, module, text in ops.select("op", "name", "category", "module", "text").iter_rows()
    ]
    return pl.DataFrame(rows, schema={"op": pl.Int64, **dict.fromkeys(_OP_KEY, pl.String)}, orient="row")


def _measure_group(rows: pl.DataFrame, spent: pl.DataFrame, cores: AsyncOps, options: Options) -> dict[str, object]:
    """The measures of one group of ops."""
    start, end = (rows[name].to_numpy() for name in ("start", "end"))
    flight = clip(union(start, end), cores.start, cores.end).length
    windows = rows["end"].clip(cores.start, cores.end) - rows["start"].clip(cores.start, cores.end)
    return {
        "count": rows.height,
        "paired": int(rows["paired"].sum()),
        "windows": int(windows.sum()),
        **counted_events_field(options, rows["id"]),
        **async_op_times(rows, spent, flight, *exposed_time(spent, cores.start, cores.end)),
    }


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
        (pl.col("exposed") / pl.col("time")).fill_nan(None).alias("exposed_share"),
        (pl.col("hidden") / pl.col("in_flight")).fill_nan(None).alias("hidden_share"),
    )
    order = ["exposed", "in_flight", "name", "module", "kind"] if by_op else ["place", "exposed", "in_flight", "kind"]
    table = table.sort(order, descending=[name in ("exposed", "in_flight") for name in order])
    return make_result(
        analysis, table, context, options, [*_notes(rows, time), *window_length_notes(rows["time"], context)]
    )


def _sum_over_ranks(rows: pl.DataFrame, time: int) -> pl.DataFrame:
    return rows.group_by(_OP_KEY).agg(
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
