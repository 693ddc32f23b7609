"""Executions of each XLA program: count, length, distance, and delay after the host enqueued them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.hlo.hlo_op_executions import may_use_command_buffers
from tracehound.analysis.hosts.host_threads import host_events_by_id
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    concat_tables,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_clock import clock_difference_notes, device_clock
from tracehound.formats.xla.xla_names import NO_COMMAND_BUFFERS_FLAG
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Ints

DEFINITION = """\
An execution is one run of a compiled XLA module on one device: an event of a TPU's line "XLA Modules"; on GPUs and
CPUs it is from the first op of a run to the end of its last. The ops of a run have one run_id (CPU), or were launched
within one host event "MODULE:XLA GPU module"; if neither is recorded, a run begins with the op (or the loop) with
which the module first began. An execution counts at full length if a part of it is in the window. gap = time from the
end of the previous execution on the same line, of whatever program, to its start. period = time from the start of the
same program's previous execution on the same device. All three are on the device's own clock if it has one (TPU); on
the trace's clock some would be too long and others too short. The part that a TPU's SparseCores execute is part of the
execution and does not count as one.

enqueue = the host event that launched the execution: on TPUs the DoEnqueueProgram whose producer id it consumes (or
else the one of the same run_id on its device), on GPUs the launch with the correlation id of its first kernel, on CPUs
the Execute of its run. If the calls have no run_id (PyTorch/XLA, JAX on one device), it is the call whose turn it was,
among those of the function after which JAX names the program, or among all. ahead = start of the execution - start of
its enqueue: a large value means that the host runs far ahead, which is good. dry = executions enqueued only after the
previous one had ended: the device had become idle, and the gap is the host's. This is not the delay of launches, which
begins at the end of the launching call. If an execution begins before its enqueue, clocks or ids disagree: ahead and
dry leave it out, and a note counts it.

XProf has no such table; its trace viewer draws the modules, and the arrows from their enqueues.

by=execution has a row for each execution, in the order of time."""

BY_SETTING: Final = Setting(
    "by",
    "program",
    "what a row is: a program (over all devices) or an execution",
    choice_parser("program", "execution"),
)

COLUMNS = (
    Column("name", "text", "module, as the framework named it"),
    Column("program", "text", "id of the compiled program", brief=False),
    Column("count", "count", "runs, over all devices"),
    Column("ranks", "count", "devices on which it ran", brief=False),
    Column("total", "time", "sum of the executions' lengths", brief=False),
    Column("share", "share", "time of its executions", "the time of all executions"),
    Column("min", "time", "shortest execution", brief=False),
    Column("p50", "time", "median execution"),
    Column("mean", "time", "total / count", brief=False),
    Column("max", "time", "longest execution"),
    Column("period", "time", "median from start to start on one device", brief=False),
    Column("gap", "time", "median time from the latest end of earlier executions; 0 if they overlap"),
    Column("gaps", "time", "sum of the gaps", brief=False),
    Column("enqueued", "count", "executions whose enqueue on the host is known", brief=False),
    Column("ahead", "time", "median time from the start of the enqueue to the start of the execution"),
    Column("max_ahead", "time", "longest time from enqueue to start", brief=False),
    Column("dry", "count", "executions enqueued only after the previous one had ended (the device was idle)"),
    Column("event", "id", "the longest execution"),
)

BY_EXECUTION_COLUMNS = (
    Column("rank", "count", "rank"),
    Column("line", "text", "line of the device", brief=False),
    Column("name", "text", "module, as the framework named it"),
    Column("program", "text", "id of the compiled program", brief=False),
    Column("number", "count", "number of the execution of this program on the device, from 1"),
    Column("run", "number", "run_id, if the device records it", brief=False),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "length"),
    Column("period", "time", "time from the start of the program's previous execution", brief=False),
    Column("gap", "time", "time from the end of the previous execution of any program"),
    Column("enqueue", "text", "host event that launched it", brief=False),
    Column("ahead", "time", "from the start of its enqueue on the host to its start"),
    Column("dry", "flag", "enqueued only after the previous execution had ended (the device was idle)"),
    Column("event", "id", "the execution"),
)

_MODULE_PATTERN: Final = r"^(.*)\((\d+)\)$"
_EVENT_COLUMNS: Final = ("id", "lane", "start", "end", "name", "run", "launch")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each execution that overlaps the window, sorted by line and start; ps.

    Without programs, one row tells whether kernels may have run in command buffers (`buffered`), on devices with
    streams.
    """
    del options
    lanes = rank_trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "modules"))
    if lanes.is_empty():
        streams = rank_trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "stream"))
        return pl.DataFrame({"buffered": [may_use_command_buffers(rank_trace)]}) if streams.height else pl.DataFrame()
    runs = collect_frame(
        rank_trace.device_anytime.filter(pl.col("lane").is_in(lanes["lane"].to_list())).select(_EVENT_COLUMNS)
    )
    before = pl.col("end").cum_max().shift(1).over("lane")
    begin, finish = _device_clock_bounds(runs, rank_trace)
    runs = runs.with_columns(pl.Series("begin", begin), pl.Series("finish", finish))
    timed = (
        runs.join(_enqueue_events(rank_trace, runs), on="launch", how="left", maintain_order="left")
        .join(lanes.select("lane", pl.col("name").alias("line")), on="lane", how="left", maintain_order="left")
        .with_columns(
            pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
            pl.col("name").cast(pl.String),
            (pl.col("finish") - pl.col("begin")).alias("duration"),
            (pl.col("end") - pl.col("start")).alias("traced"),
            (pl.col("begin") - pl.col("finish").cum_max().shift(1).over("lane")).clip(lower_bound=0).alias("gap"),
            (pl.col("begin") - pl.col("begin").shift(1).over("lane", "name")).alias("period"),
            (pl.col("start").cum_count().over("lane", "name")).cast(pl.Int64).alias("number"),
            (pl.col("start") - pl.col("called")).alias("ahead"),
            (pl.col("called") >= before).alias("dry"),
        )
    )
    before_enqueue = pl.col("ahead") < 0
    checked = timed.with_columns(
        before_enqueue.fill_null(value=False).alias("sooner"),
        *(pl.when(~before_enqueue).then(pl.col(name)).alias(name) for name in ("ahead", "dry")),
    )
    return (
        checked.filter((pl.col("start") < rank_trace.end) & (pl.col("end") > rank_trace.start))
        if rank_trace.windowed
        else checked
    )


def _device_clock_bounds(runs: pl.DataFrame, rank_trace: RankTrace) -> tuple[Ints, Ints]:
    """Start and end of each execution, on the device's own clock where its ops have one."""
    start, end = runs["start"].to_numpy(), runs["end"].to_numpy()
    clock = device_clock(rank_trace)
    return clock.to_device_bounds(start, end) if clock else (start, end)


def _enqueue_events(rank_trace: RankTrace, runs: pl.DataFrame) -> pl.DataFrame:
    """For each `launch` the name (`enqueue`) and start (`called`) of that host event."""
    return collect_frame(host_events_by_id(rank_trace, runs["launch"]).select("id", "start", "name")).select(
        pl.col("id").alias("launch"), pl.col("name").cast(pl.String).alias("enqueue"), pl.col("start").alias("called")
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each program, the largest total first; or for each execution, the earliest first."""
    by_execution = BY_SETTING.value_in(options.given) == "execution"
    analysis = ANALYSIS.with_shown_columns(options.given)
    runs = concat_tables([table for table in tables if "id" in table.columns])
    if runs.is_empty():
        idle = [table for table in tables if "buffered" in table.columns]
        return empty_result(analysis, context, options, _why_empty(idle, context))
    runs = runs.with_columns(
        pl.coalesce(pl.col("name").str.extract(_MODULE_PATTERN, 1), "name").alias("name"),
        pl.col("name").str.extract(_MODULE_PATTERN, 2).alias("program"),
    )
    table = (
        runs.rename({"id": "event"}).sort("start", "rank", "event") if by_execution else _program_rows(runs, options)
    )
    return make_result(analysis, table, context, options, _notes(runs))


def _program_rows(runs: pl.DataFrame, options: Options) -> pl.DataFrame:
    def rounded(value: pl.Expr) -> pl.Expr:
        return value.round().cast(pl.Int64)

    length = pl.col("duration")
    return (
        runs.group_by("name", "program")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
            length.sum().alias("total"),
            length.min().alias("min"),
            rounded(length.median()).alias("p50"),
            rounded(length.mean()).alias("mean"),
            length.max().alias("max"),
            *(rounded(pl.col(name).median()).alias(name) for name in ("period", "gap", "ahead")),
            pl.col("gap").sum().alias("gaps"),
            pl.col("called").count().cast(pl.Int64).alias("enqueued"),
            pl.col("ahead").max().alias("max_ahead"),
            pl.when(pl.col("dry").count() > 0).then(pl.col("dry").sum()).alias("dry"),
            pl.col("id").sort_by("duration", "id", descending=[True, False]).first().alias("event"),
            *collect_counted_events(options),
        )
        .with_columns((pl.col("total") / pl.col("total").sum()).fill_nan(None).alias("share"))
        .sort("total", "name", "program", descending=[True, False, False])
    )


def _why_empty(tables: Sequence[pl.DataFrame], context: RunContext) -> Note:
    if context.is_pytorch:
        return note("no_programs_in_pytorch_trace", level="missing")
    if context.ranks["label"].str.starts_with("GPU").any():
        flag = NO_COMMAND_BUFFERS_FLAG if any(table["buffered"].any() for table in tables) else ""
        return note("no_executions_on_gpu", level="missing", flag=flag)
    return note("no_executions", level="missing")


def _notes(runs: pl.DataFrame) -> list[Note]:
    enqueued, before_enqueue, executions = runs["called"].count(), int(runs["sooner"].sum()), runs.height
    notes = [note("executions_total", executions=executions, ranks=runs["rank"].n_unique(), enqueued=enqueued)]
    notes += clock_difference_notes("executions", runs["duration"], runs["traced"])
    if enqueued < executions:
        notes.append(note("executions_without_enqueue", level="missing", executions=executions - enqueued))
    if before_enqueue:
        notes.append(note("executions_before_enqueue", executions=before_enqueue))
    return notes


ANALYSIS = Analysis(
    name="programs",
    title="Programs",
    question="How often did each XLA program run, how long, and how long after the host enqueued it?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(BY_SETTING,),
    columns_by_setting={"execution": BY_EXECUTION_COLUMNS},
)
