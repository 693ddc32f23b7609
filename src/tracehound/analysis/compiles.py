"""Compilations in the recording: function, count, time, and the steps in which they began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.hosts.host_compilations import (
    HOST_COMPILATIONS,
    LOADED_PROGRAMS,
    UNKNOWN_FUNCTION,
    compiled_function_column,
    count_compilations,
    find_compilations,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.model.notes import Note, note
from tracehound.model.units import format_ranges
from tracehound.numeric.intervals import union

DEFINITION = """\
A compilation is an event of a host thread in which a program is traced, lowered, compiled or loaded, and that is in no
other such event of its thread. In XLA profiles these are the events of JAX (lower_sharding_computation,
backend_compile...), PyTorch/XLA (XLAGraphExecutor::Compile, PjRtComputationClient::Compile), TensorFlow and the
compilers; in PyTorch traces the ranges of torch.compile (... (dynamo_timed)), and the Python frames in which Triton
compiles. Work of helper threads belongs to the running compilation.

function = the function that the nearest PjitFunction(...) around it names; or else the number of the torch.compile
region named inside; or else the nearest annotation or step around it (ProfilerStep#3 tells when, not what); or else
the region that the thread runs next, in the same step and before it compiles anything else. count = number of
compilations (events of the stage that occurs most often; one compilation may have several stages: tracing, lowering,
compiling, loading). time = all of them, clipped to the window. share = of the recording, or of the window. steps = the
steps in which they began. again = compiled more than once: because of changed shapes, types or static arguments, or a
cache that is too small.

by=compilation has a row for each, in the order of time."""

BY_SETTING: Final = Setting(
    "by", "function", "what a row is: a function, or a compilation", choice_parser("function", "compilation")
)

COLUMNS: Final = (
    Column("function", "text", "compiled function"),
    Column("count", "count", "how often"),
    Column("time", "time", "all its compilations"),
    Column("share", "share", "its compilations", "the time of the recording"),
    Column("again", "flag", "compiled more than once", brief=False),
    Column("steps", "text", "in which steps"),
    Column("duration", "time", "the longest"),
    Column("start", "instant", "start of the longest", brief=False),
    Column("rank", "number", "rank", brief=False),
    Column("event", "id", "the longest"),
)

BY_COMPILATION_COLUMNS: Final = (
    Column("function", "text", "compiled function"),
    Column("stage", "text", "tracing, lowering, compiling or loading"),
    Column("step", "number", "in which step"),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "how long"),
    Column("name", "text", "the event"),
    Column("thread", "text", "where", brief=False),
    Column("rank", "number", "rank", brief=False),
    Column("event", "id", "the compilation"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each compilation on the threads of the rank's host; ranks of one host give the same rows."""
    del options
    names = rank_trace.lanes.select("lane", pl.col("name").alias("thread"))
    start, end = rank_trace.with_host_window.start, rank_trace.with_host_window.end
    return (
        find_compilations(rank_trace)
        .join(names, on="lane", how="left", maintain_order="left")
        .with_columns(
            pl.max_horizontal("start", pl.lit(start)).alias("low"),
            pl.min_horizontal("end", pl.lit(end)).alias("high"),
            pl.lit(end - start, pl.Int64).alias("window"),
            pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
            compiled_function_column(),
        )
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The functions, the longest compile time first; or every compilation, in the order of time."""
    by_compilation = BY_SETTING.value_in(options.given) == "compilation"
    analysis = ANALYSIS.with_shown_columns(options.given)
    rows = concat_tables(tables)
    if rows.is_empty():
        profiler = "PyTorch" if context.is_pytorch else "XLA"
        return empty_result(analysis, context, options, note("no_compilations", level="missing", profiler=profiler))
    rows = rows.unique("event", keep="first", maintain_order=True).sort("start", "event")
    table = rows.with_columns((pl.col("high") - pl.col("low")).alias("duration"))
    functions = sum_by_function(table)
    return make_result(
        analysis, table if by_compilation else functions, context, options, _notes(rows, functions, context)
    )


def sum_by_function(rows: pl.DataFrame) -> pl.DataFrame:
    """Compilations by function, the costliest first; `window` is the base of their shares, ps."""
    longest = pl.col("duration").arg_max()
    times = count_compilations(rows, "rank", "function")
    return (
        rows.group_by("rank", "function", maintain_order=True)
        .agg(
            pl.col("duration").sum().alias("time"),
            pl.col("window").first(),
            pl.col("step").drop_nulls().unique().sort().alias("numbers"),
            pl.col("duration", "start", "event").get(longest),
        )
        .join(times, on=["rank", "function"], how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("window") > 0).then(pl.col("time") / pl.col("window")).alias("share"),
            ((pl.col("count") > 1) & ~pl.col("function").is_in([UNKNOWN_FUNCTION, LOADED_PROGRAMS])).alias("again"),
            pl.col("numbers")
            .map_elements(lambda numbers: format_ranges(numbers, None), return_dtype=pl.String)
            .alias("steps"),
        )
        .sort("time", "function", "rank", descending=[True, False, False])
    )


def _notes(rows: pl.DataFrame, functions: pl.DataFrame, context: RunContext) -> list[Note]:
    """Notes on the time spent compiling, its steps, and the functions compiled more than once."""
    took, length = max(
        (union(rank_rows["low"].to_numpy(), rank_rows["high"].to_numpy()).length, int(rank_rows["window"][0]))
        for rank_rows in rows.partition_by("rank")
    )
    steps = rows["step"].drop_nulls().unique().sort().to_list()
    notes = [
        note(
            "time_compiling",
            time=took,
            share_of_time=took / length if length else None,
            steps=tuple(steps),
            ranks=rows["rank"].n_unique(),
        )
    ]
    if recompiled := functions.filter("again")["function"].unique(maintain_order=True).to_list():
        profiler = "PyTorch" if "PyTorch" in context.profilers else "XLA"
        notes.append(note("compiled_again", functions=tuple(recompiled), profiler=profiler))
    return notes


ANALYSIS: Final = Analysis(
    name="compiles",
    title="Compiles",
    question="What was compiled during the recording, how often, for how long, and in which steps?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(BY_SETTING,),
    columns_by_setting={"compilation": BY_COMPILATION_COLUMNS},
    host_computations=(HOST_COMPILATIONS,),
)
