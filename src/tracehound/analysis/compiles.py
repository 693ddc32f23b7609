"""What was compiled during the recording: which function, how often, for how long, in which steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.hosts.compilations import COMPILED, LOADED, UNKNOWN, called, compilations, times_compiled
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.intervals import union
from tracehound.notes import Note, note
from tracehound.units import runs

DEFINITION = """\
A compilation is an event of a host's thread in which a program is traced, lowered, compiled or loaded, and that lies in
no other such event of its thread. In XLA profiles these are the events of JAX (lower_sharding_computation,
backend_compile...), PyTorch/XLA (XLAGraphExecutor::Compile, PjRtComputationClient::Compile), TensorFlow and the
compilers; in those of PyTorch the ranges of torch.compile (... (dynamo_timed)), and the frames of Python in which
Triton compiles. What other threads do to help belongs to the compilation that is under way.

function = the function that the nearest PjitFunction(...) around names; the number of the region of torch.compile that
is named inside; else the nearest annotation or step around (ProfilerStep#3 says when, not what); else the region that
the thread runs next, in the same step and before it compiles anything else; else nothing says. count = how often it was
compiled (events of the stage that most often occurs; one compilation may have several: tracing, lowering, compiling,
loading). time = all of them, clipped to the window. share = of the recording, or of the window. steps = the steps in
which they began. again = compiled more than once: shapes, types or static arguments that change do that, or a cache
that is too small.

by=compilation has a row for each, in the order of time."""

BY: Final = Setting("by", "function", "what a row is: a function, or a compilation", one_of("function", "compilation"))

COLUMNS: Final = (
    Column("function", "text", "what was compiled"),
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

BY_COMPILATION: Final = (
    Column("function", "text", "what was compiled"),
    Column("stage", "text", "tracing, lowering, compiling or loading"),
    Column("step", "number", "in which step"),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "how long"),
    Column("name", "text", "the event"),
    Column("thread", "text", "where", brief=False),
    Column("rank", "number", "rank", brief=False),
    Column("event", "id", "the compilation"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each compilation on the threads of the rank's host; ranks of one host give the same rows."""
    del options
    names = share.lanes.select("lane", pl.col("name").alias("thread"))
    start, end = share.on_host.start, share.on_host.end
    return (
        compilations(share)
        .join(names, on="lane", how="left", maintain_order="left")
        .with_columns(
            pl.max_horizontal("start", pl.lit(start)).alias("low"),
            pl.min_horizontal("end", pl.lit(end)).alias("high"),
            pl.lit(end - start, pl.Int64).alias("window"),
            pl.lit(share.rank, pl.Int64).alias("rank"),
            called(),
        )
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The functions by the time that compiling them took; or every compilation, in the order of time."""
    by_each = BY.of(options.given) == "compilation"
    shown = ANALYSIS.shown(options.given)
    rows = stacked(tables)
    if rows.is_empty():
        profiler = "PyTorch" if scene.pytorch else "XLA"
        return without(shown, scene, options, note("no_compilations", level="missing", profiler=profiler))
    rows = rows.unique("event", keep="first", maintain_order=True).sort("start", "event")
    table = rows.with_columns((pl.col("high") - pl.col("low")).alias("duration"))
    functions = by_function(table)
    return answer(shown, table if by_each else functions, scene, options, _notes(rows, functions, scene))


def by_function(rows: pl.DataFrame) -> pl.DataFrame:
    """Compilations by function, the costliest first; `window` is what they are a share of, ps."""
    longest = pl.col("duration").arg_max()
    times = times_compiled(rows, "rank", "function")
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
            ((pl.col("count") > 1) & ~pl.col("function").is_in([UNKNOWN, LOADED])).alias("again"),
            pl.col("numbers").map_elements(lambda numbers: runs(numbers, None), return_dtype=pl.String).alias("steps"),
        )
        .sort("time", "function", "rank", descending=[True, False, False])
    )


def _notes(rows: pl.DataFrame, functions: pl.DataFrame, scene: Scene) -> list[Note]:
    """How much of the recording was compiling, in which steps, and what was compiled again."""
    took, length = max(
        (union(mine["low"].to_numpy(), mine["high"].to_numpy()).length, int(mine["window"][0]))
        for mine in rows.partition_by("rank")
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
    if again := functions.filter("again")["function"].unique(maintain_order=True).to_list():
        profiler = "PyTorch" if "PyTorch" in scene.profilers else "XLA"
        notes.append(note("compiled_again", functions=tuple(again), profiler=profiler))
    return notes


ANALYSIS: Final = Analysis(
    name="compiles",
    title="Compiles",
    question="What was compiled during the recording, how often, for how long, and in which steps?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(BY,),
    by={"compilation": BY_COMPILATION},
    of_host=(COMPILED,),
)
