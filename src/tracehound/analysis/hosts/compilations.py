"""What was compiled on the threads of a host: where a compilation begins and ends, and of which function it is.

Owns how compilations are told in XLA profiles (events of kind `compile`) and in those of PyTorch (what torch.compile
and Triton record). Knows no tables that people read. The base of `compiles` and of what findings say of compiling.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.hosts.threads import batches, nearest_around, told_by_name
from tracehound.analysis.result import MEMBERS, OfHost, Share
from tracehound.analysis.settings import Given
from tracehound.formats.torch_names import STEP
from tracehound.intervals import Ints, union
from tracehound.trace import collected

COMPILATIONS: Final = {
    "event": pl.Int64,
    "lane": pl.Int64,
    "step": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "name": pl.String,  # of the event
    "stage": pl.String,  # one of `_STAGE`, or `_COMPILING`
    "function": pl.String,  # null where nothing says
}
"""The columns of `compilations`."""

_READ: Final = ("id", "lane", "step", "start", "end", "name", "kind", "parent")

_RANGES: Final = re.compile(
    r" \(dynamo_timed\)$|^(?:dynamo|entire_frame_compile|backend_compile|inductor_compile|fx_codegen_and_compile)$"
)
"""Ranges of torch.compile, which Kineto files among operators."""

_FRAMES: Final = re.compile(
    r"torch/_dynamo/convert_frame\.py\(\d+\): _compile$|triton/compiler/compiler\.py\(\d+\): compile$"
)
"""Python functions in which PyTorch and Triton compile; the latter records nothing else."""

_LISTENER: Final = "ThreadpoolListener::"
_FUNCTION: Final = re.compile(r"^PjitFunction\((.*)\)$")
_BACKWARD: Final = r"^backward\."
_REGION: Final = re.compile(r"compile_id=!?(\d+)/\d+")
_RUN: Final = re.compile(r"^Torch-Compiled Region: !?(\d+)/\d+")
_STAGE: Final = (
    (re.compile(r"jaxpr|trace_to|bytecode_tracing|aot_trace"), "tracing"),
    (re.compile(r"lower_"), "lowering"),
    (re.compile(r"LoadProgram|ActualLoad|CopyProgramsToSharedMemory|MapDmaBuffer"), "loading"),
)
"""A function is traced into a graph, that lowered, the result compiled, and the program loaded onto a device."""

_COMPILING: Final = "compiling"
"""The stage of what is of no other."""


UNKNOWN: Final = "(not recorded)"
LOADED: Final = "(programs loaded onto devices)"
"""What is compiled, where nothing says of which function it is."""


def called() -> pl.Expr:
    """The function that is compiled, or what stands for it where nothing says."""
    loaded = pl.when(pl.col("stage") == "loading").then(pl.lit(LOADED))
    return pl.coalesce("function", loaded, pl.lit(UNKNOWN)).alias("function")


def times_compiled(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """How often what has these keys in common was compiled (`count`): its events of the stage that most often occurs.

    One compilation may have several stages. `MEMBERS` has these events.
    """
    stages = rows.group_by(*keys, "stage").agg(pl.len().alias("stages"), pl.col("event").alias(MEMBERS))
    most = stages.sort("stages", "stage").group_by(keys).last()
    return most.select(*keys, pl.col("stages").cast(pl.Int64).alias("count"), MEMBERS)


def compilations(share: Share) -> pl.DataFrame:
    """The outermost events of compiling that overlap the window, in the order of their starts, unclipped.

    Threads that help with a compilation of another are left out: their time is that of the one they help.
    """
    return COMPILED.of(share)


def _compilations(share: Share, given: Given) -> pl.DataFrame:
    del given
    told = [kind_name for kind_name in _names(share.threads) if _compiles(*kind_name)]
    if not told:
        return pl.DataFrame(schema=COMPILATIONS)
    names, kinds = [name for _, name in told], list({kind for kind, _ in told})
    lanes = collected(
        share.threads.filter(pl.col("name").is_in(names) & pl.col("kind").is_in(kinds)).select(pl.col("lane").unique())
    )["lane"]
    outer = [
        _outermost(collected(threads.select(_READ)), names, kinds, (share.start, share.end))
        for threads in batches(share, lanes.to_list())
    ]
    return _leading(pl.concat(outer)).select(pl.col(name).cast(dtype) for name, dtype in COMPILATIONS.items())


COMPILED: Final = OfHost(_compilations)
"""What was compiled on the threads of a host, in the window."""


def _names(threads: pl.LazyFrame) -> list[tuple[str, str]]:
    found = collected(threads.select("kind", "name").unique()).cast(pl.String).drop_nulls()
    return [(kind, name) for kind, name in found.iter_rows()]


def _compiles(kind: str, name: str) -> bool:
    if kind == "compile":
        return not name.startswith(_LISTENER)
    return recorded_by_torch(kind, name)


def recorded_by_torch(kind: str, name: str) -> bool:
    """Whether an event of a PyTorch trace is torch.compile or Triton at work."""
    if kind == "python":
        return _FRAMES.search(name) is not None
    return kind in ("op", "annotation") and _RANGES.search(name) is not None


def _outermost(threads: pl.DataFrame, names: list[str], kinds: list[str], window: tuple[int, int]) -> pl.DataFrame:
    """The compilations that lie in no other on their thread, with the functions that they are of."""
    mine = (threads["name"].is_in(names) & threads["kind"].is_in(kinds)).to_numpy()
    parent = local_parent(threads)
    calls = told_by_name(threads, lambda name, _: 1 if _FUNCTION.search(name) else None) > 0
    marks = threads["kind"].is_in(["annotation", "step"]).to_numpy()
    inside = (threads["end"] > threads["start"]) & (threads["start"] < window[1]) & (threads["end"] > window[0])
    rows = np.flatnonzero(mine & inside.to_numpy())
    rows = rows[nearest_around(parent, mine, rows) < 0]
    called, around = (nearest_around(parent, which, rows) for which in (calls, marks & ~mine))
    outer = threads[rows].with_columns(
        pl.col("name").cast(pl.String),
        _named(threads, called).str.extract(_FUNCTION.pattern).alias("called"),
        _named(threads, around).alias("around"),
    )
    stages = {name: _stage(name) for name in outer["name"].unique().to_list()}
    return outer.with_columns(
        pl.coalesce("called", _regions(threads, outer), _annotated(), _run_next(threads, outer)).alias("function"),
        pl.col("name").replace_strict(stages, return_dtype=pl.String).alias("stage"),
        pl.col("id").alias("event"),
    )


def _named(threads: pl.DataFrame, rows: Ints) -> pl.Series:
    """The names of the events in these rows; null for -1."""
    names = threads["name"].gather(np.maximum(rows, 0)).cast(pl.String)
    return pl.select(pl.when(pl.Series(rows >= 0)).then(names)).to_series()


def _annotated() -> pl.Expr:
    """The annotation around, but for the profiler's own step: its name says when that was, and not of what."""
    return pl.when(~pl.col("around").str.contains(STEP)).then("around")


def _stage(name: str) -> str:
    return next((stage for pattern, stage in _STAGE if pattern.search(name)), _COMPILING)


def _regions(threads: pl.DataFrame, outer: pl.DataFrame) -> pl.Series:
    """Which region of torch.compile is compiled: the first that is named inside the compilation."""
    naming = pl.Series(told_by_name(threads, lambda name, _: 1 if _REGION.search(name) else None) > 0)
    said = threads.filter(naming).select(
        "lane", "start", pl.col("name").cast(pl.String).str.extract(_REGION.pattern).alias("region")
    )
    said = said.sort("start").with_columns(pl.col("start").alias("said"))
    asked = outer.select("lane", "start", "end", "name").with_row_index().sort("start")
    found = asked.join_asof(said, on="start", by="lane", strategy="forward", check_sortedness=False).sort("index")
    which = pl.when(pl.col("name").str.contains(_BACKWARD)).then(pl.lit(", backward")).otherwise(pl.lit(""))
    told = pl.concat_str(pl.lit("Torch-Compiled Region "), "region", which)
    return found.select(pl.when(pl.col("said") < pl.col("end")).then(told).alias("region")).to_series()


def _run_next(threads: pl.DataFrame, outer: pl.DataFrame) -> pl.Series:
    """Which region of torch.compile the thread runs next, in the same step, before it compiles anything else."""
    naming = pl.Series(told_by_name(threads, lambda name, _: 1 if _RUN.search(name) else None) > 0)
    runs = threads.filter(naming).select(
        "lane", "start", "step", pl.col("name").cast(pl.String).str.extract(_RUN.pattern).alias("region")
    )
    marks = [runs, outer.select("lane", "start", "step", pl.lit(None, pl.String).alias("region"))]
    after = pl.concat(marks).sort("start", maintain_order=True).rename({"step": "then"})
    asked = outer.select("lane", "step", pl.col("end").alias("start")).with_row_index().sort("start")
    found = asked.join_asof(after, on="start", by="lane", strategy="forward", check_sortedness=False).sort("index")
    told = pl.concat_str(pl.lit("Torch-Compiled Region "), "region")
    return found.select(pl.when(pl.col("then").eq_missing(pl.col("step"))).then(told).alias("next")).to_series()


def _leading(outer: pl.DataFrame) -> pl.DataFrame:
    """Without what threads do to help: what is of no known function, and begins while one is compiled elsewhere."""
    ordered = outer.sort("start", "event")
    known = ordered["function"].is_not_null().to_numpy()
    start, end = ordered["start"].to_numpy(), ordered["end"].to_numpy()
    busy = union(start[known], end[known])
    at = np.searchsorted(busy.start, start, side="right") - 1
    helps = (at >= 0) & (start < np.append(busy.end, 0)[at])
    return ordered.filter(pl.Series(known | ~helps))
