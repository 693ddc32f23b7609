"""Annotations of the user's source: host time, and the device work launched inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.missing_data import no_annotations_note
from tracehound.analysis.hosts.annotated_work import ANNOTATION_KINDS, work_per_annotation
from tracehound.analysis.hosts.call_paths import (
    add_device_work,
    find_call_paths,
    merge_call_paths,
    number_event_names,
    plain_names,
    sum_device_work,
)
from tracehound.analysis.hosts.operator_tree import read_call_tree
from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.result import (
    JOINED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    empty_result,
    keep_heaviest_rows,
    make_result,
)
from tracehound.analysis.timing.device_clock import measure_events
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame

BY_SETTING: Final = Setting(
    "by",
    "name",
    "rows: annotations by name (name), or as a tree (path)",
    choice_parser("name", "path"),
)

DEFINITION = """\
Annotations are record_function ranges (PyTorch), TraceAnnotation and xp.Trace ranges (XLA), and marked steps, as they
ran on host threads. "on" separates their copies on a device (gpu_user_annotation), which last from the first to the
last kernel launched inside and are never added to the host's. total = sum of lengths, self = total - nested
annotations and other events; a nested call of the same name counts, too. A window clips times.

device = lengths of the kernels, copies and memsets launched inside, at any depth, as told by the launching call, or
else by the profiler's id of the active operator. busy = time in which any of these ran. exposed = time in which any
collective among them ran and no kernel of that device computed. Both are summed over devices. Work counts for every
annotation around its launch, once for each name, and by when it ran. HolisticTraceAnalysis assigns a kernel to the
annotations whose copy on the device contains it, which includes work of other threads.

by=path has the host annotations as a tree, in which steps of all numbers are one. There self is total - the
annotations directly inside, time shared by two that overlap in part is the earlier one's, and busy, exposed, shortest
and copies on a device are left out."""

COLUMNS = (
    Column("name", "text", "the annotation"),
    Column("on", "text", "host thread, or copy on a device", brief=False),
    Column("count", "count", "times entered"),
    Column("total", "time", "sum of lengths"),
    Column("mean", "time", "total / count"),
    Column("min", "time", "shortest", brief=False),
    Column("max", "time", "longest"),
    Column("self", "time", "total - nested events", brief=False),
    Column("device", "time", "time of kernels, copies and memsets launched inside"),
    Column("busy", "time", "time in which any of them ran", brief=False),
    Column("exposed", "time", "time in which collectives launched inside ran, and no kernel computed", brief=False),
    Column("launched", "count", "kernels, copies and memsets launched inside", brief=False),
    Column("ranks", "count", "ranks, or hosts, on which it ran", brief=False),
    Column("depth", "depth", "number of annotations around it, with by=path"),
    Column("event", "id", "the first one, with by=path the longest"),
)

_DEVICE_COLUMNS: Final = ("device", "busy", "exposed", "launched")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row per lane and name, or per lane and path; ranks of one host give the same rows for its threads."""
    if BY_SETTING.value_in(options.given) == "path":
        calls = read_call_tree(rank_trace)
        chosen = calls.events["kind"].is_in(ANNOTATION_KINDS).to_numpy()
        if not chosen.any():
            return pl.DataFrame()
        return add_device_work(
            rank_trace,
            find_call_paths(rank_trace, calls, chosen, number_event_names(calls.events, plain_names), options),
        )
    marked = pl.col("kind").is_in(ANNOTATION_KINDS)
    is_annotated = pl.col("role").is_in(["annotations", "thread", "steps", "sparse_steps"])
    lanes = rank_trace.lanes.filter(is_annotated)["lane"].to_list()
    on_device = pl.col("rank").is_not_null()
    host = rank_trace.with_host_window
    sides = ((rank_trace.device, rank_trace), (overlapping_events(rank_trace.threads, host.start, host.end), host))
    rows = (
        pl.concat(
            _measure_annotations(side.filter(pl.col("lane").is_in(lanes)), measured_trace)
            for side, measured_trace in sides
        )
        .filter(marked)
        .group_by("lane", pl.col("name").cast(pl.String), on_device.alias("device_lane"))
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("length").sum().alias("total"),
            pl.col("length").min().alias("min"),
            pl.col("length").max().alias("max"),
            pl.col("own").sum().alias("self"),
            pl.col("id").min().alias("event"),  # the events of a lane begin in the order of their ids
            pl.col("start").min(),
            *collect_counted_events(options),
        )
        .with_columns(pl.lit(rank_trace.rank, pl.Int64).alias("rank"))
    )
    works = bool(rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height)
    if works and (rows.filter(~pl.col("device_lane")).height or _has_annotations_outside_window(rank_trace)):
        return _add_device_work(rows, work_per_annotation(rank_trace, read_call_tree(rank_trace)), rank_trace)
    return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in _DEVICE_COLUMNS)


def _has_annotations_outside_window(rank_trace: RankTrace) -> bool:
    """True if the host has annotations outside of the window, whose work may run inside it."""
    return (
        rank_trace.windowed
        and collect_frame(rank_trace.threads.filter(pl.col("kind").is_in(ANNOTATION_KINDS)).head(1)).height > 0
    )


def _add_device_work(rows: pl.DataFrame, inside: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """Add the work launched inside each annotation. A row with only its work in the window has count 0."""
    joined = rows.join(inside, on=["lane", "name"], how="full", coalesce=True, maintain_order="left_right")
    rows_and_work = joined.with_columns(
        pl.col("device_lane").fill_null(value=False),
        pl.col("count", "total", "self").fill_null(0),
        pl.coalesce("event", "event_right").alias("event"),
        pl.coalesce("start", "start_right").alias("start"),
        pl.lit(rank_trace.rank, rows.schema["rank"]).alias("rank"),
    )
    work = pl.when(~pl.col("device_lane")).then(pl.col(_DEVICE_COLUMNS).fill_null(0))
    return rows_and_work.with_columns(work).select(*rows.columns, *_DEVICE_COLUMNS)


def _measure_annotations(events: pl.LazyFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """Events with their lengths in the window. An event that the window cuts needs its children for that."""
    read = events.select(_EVENT_COLUMNS)
    events_in_window = collect_frame(
        (read if rank_trace.windowed else read.filter(pl.col("kind").is_in(ANNOTATION_KINDS))).sort("id")
    )
    return measure_events(events_in_window, rank_trace.start, rank_trace.end)


_EVENT_COLUMNS: Final = (
    "id",
    "lane",
    "rank",
    "start",
    "end",
    "name",
    "kind",
    "parent",
    "self",
    "device_start",
    "device_end",
)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per name, hosts and devices separately, the largest total first; by path the tree of host annotations."""
    if not any(table.height for table in tables):
        return empty_result(ANALYSIS, context, options, no_annotations_note(context))
    if BY_SETTING.value_in(options.given) == "path":
        return _combine_paths(tables, context, options)
    rows = pl.concat(tables, how="vertical_relaxed")
    once = rows.unique(["lane", "name"], keep="first", maintain_order=True)
    calls = pl.when(pl.col("count") > 0).then("count")
    work = rows.group_by("lane", "name").agg(_sum_or_null(name) for name in _DEVICE_COLUMNS)
    table = (
        once.drop(_DEVICE_COLUMNS)
        .join(work, on=["lane", "name"], how="left")
        .group_by("name", "device_lane")
        .agg(
            pl.col("count", "total", "self").sum(),
            pl.col("min").min(),
            pl.col("max").max(),
            pl.col("rank").n_unique().alias("ranks"),
            pl.col("event").sort_by("start", "rank").first(),
            *(_sum_or_null(name) for name in _DEVICE_COLUMNS),
            JOINED_EVENTS,
        )
        .with_columns(
            pl.when("device_lane").then(pl.lit("device")).otherwise(pl.lit("host")).alias("on"),
            (pl.col("total") / calls).round().cast(pl.Int64).alias("mean"),
            pl.lit(0, pl.Int64).alias("depth"),
        )
        .sort("device_lane", "total", "name", descending=[False, True, False])
    )
    return make_result(ANALYSIS, table, context, options, _notes(table, context))


def _notes(table: pl.DataFrame, context: RunContext) -> list[Note]:
    """Notes on the work that device time leaves out."""
    launched = table.filter(on="host")["launched"].drop_nulls()
    if not len(launched):
        return []
    if not launched.sum():
        return [note("no_launches_in_annotations")]
    if "PyTorch" not in context.profilers:
        return []
    return [note("launches_of_annotations")]


def _sum_or_null(name: str) -> pl.Expr:
    """The sum of a column; null where all its values are null."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)


def _combine_paths(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The annotations of host threads as a tree, depth first."""
    rows = merge_call_paths(tables)
    works = sum_device_work(tables).work
    calls = pl.when(pl.col("count") > 0).then("count")
    table = rows.with_columns(
        pl.lit("host").alias("on"),
        (pl.col("total") / calls).round().cast(pl.Int64).alias("mean"),
        pl.col("most").alias("max"),
        pl.col("device_total").alias("device") if works else pl.lit(None, pl.Int64).alias("device"),
        pl.col("launched_total").alias("launched") if works else pl.lit(None, pl.Int64).alias("launched"),
        *(pl.lit(None, pl.Int64).alias(name) for name in ("min", "busy", "exposed")),
    )
    result = make_result(ANALYSIS, table, context, replace(options, top=None))
    return keep_heaviest_rows(result, result.table["total"].to_numpy(), options.top)


ANALYSIS = Analysis(
    name="annotations",
    title="Annotations",
    question="How long did the marked parts of the source take, and what did they put on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(BY_SETTING,),
)
