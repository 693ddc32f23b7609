"""Compilations on the threads of a host: their bounds, stages and functions.

XLA profiles have events of kind `compile`, PyTorch's record torch.compile and Triton. The base of `compiles` and of
findings about compiling.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.hosts.host_threads import (
    lane_batches,
    match_names,
    nearest_marked_ancestor,
    with_shared_threads,
)
from tracehound.analysis.rank_trace import RankTrace, SharedHostResult
from tracehound.analysis.result import COUNTED_EVENTS
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.analysis.timing.row_groups import NameKindPairs
from tracehound.formats.name_filter import NameFilter
from tracehound.formats.torch_names import STEP_MARK
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Ints, union

COMPILATION_COLUMNS: Final = {
    "event": pl.Int64,
    "lane": pl.Int64,
    "step": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "name": pl.String,  # of the event
    "stage": pl.String,  # of `_STAGE_PATTERNS`, or `_COMPILING_STAGE`
    "function": pl.String,  # null if unknown
}
"""Columns of `find_compilations`."""

_EVENT_COLUMNS: Final = ("id", "lane", "step", "start", "end", "name", "kind", "parent")

_TORCH_RANGES: Final = re.compile(
    r" \(dynamo_timed\)$|^(?:dynamo|entire_frame_compile|backend_compile|inductor_compile|fx_codegen_and_compile)$"
)
"""Ranges of torch.compile, which Kineto records as operators."""

_COMPILING_FRAMES: Final = re.compile(
    r"torch/_dynamo/convert_frame\.py\(\d+\): _compile$|triton/compiler/compiler\.py\(\d+\): compile$"
)
"""Python functions in which PyTorch and Triton compile; Triton records nothing else."""

TORCH_COMPILATIONS: Final = (_TORCH_RANGES, _COMPILING_FRAMES)
_COMPILATION_FILTER: Final = NameFilter(*TORCH_COMPILATIONS)

_LISTENER_PREFIX: Final = "ThreadpoolListener::"
_JITTED_FUNCTION: Final = re.compile(r"^PjitFunction\((.*)\)$")
_BACKWARD_PATTERN: Final = r"^backward\."
_REGION_PATTERN: Final = re.compile(r"compile_id=!?(\d+)/\d+")
_REGION_RUN_PATTERN: Final = re.compile(r"^Torch-Compiled Region: !?(\d+)/\d+")
_STAGE_PATTERNS: Final = (
    (re.compile(r"jaxpr|trace_to|bytecode_tracing|aot_trace"), "tracing"),
    (re.compile(r"lower_"), "lowering"),
    (re.compile(r"LoadProgram|ActualLoad|CopyProgramsToSharedMemory|MapDmaBuffer"), "loading"),
)
"""A function is traced into a graph, that is lowered, the result compiled, and the program loaded onto a device."""

_COMPILING_STAGE: Final = "compiling"
"""Stage of all other events."""


UNKNOWN_FUNCTION: Final = "(not recorded)"
LOADED_PROGRAMS: Final = "(programs loaded onto devices)"
"""Name in place of the function, if the function is unknown."""


def compiled_function_column() -> pl.Expr:
    """The function that is compiled, or its stand-in if it is unknown."""
    loaded = pl.when(pl.col("stage") == "loading").then(pl.lit(LOADED_PROGRAMS))
    return pl.coalesce("function", loaded, pl.lit(UNKNOWN_FUNCTION)).alias("function")


def count_compilations(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Number of compilations (`count`) for these keys: the events of the most frequent stage.

    One compilation may have several stages. `COUNTED_EVENTS` has these events.
    """
    stages = rows.group_by(*keys, "stage").agg(pl.len().alias("stages"), pl.col("event").alias(COUNTED_EVENTS))
    most = stages.sort("stages", "stage").group_by(keys).last()
    return most.select(*keys, pl.col("stages").cast(pl.Int64).alias("count"), COUNTED_EVENTS)


def find_compilations(rank_trace: RankTrace) -> pl.DataFrame:
    """The outermost compilation events that overlap the window, ordered by start, unclipped.

    Threads that help with a compilation of another thread are left out: their time belongs to that one.
    """
    return HOST_COMPILATIONS.result_for(rank_trace)


def _compilations_of_host(rank_trace: RankTrace, given: ChosenSettings) -> pl.DataFrame:
    del given
    kinds_and_names = _kinds_and_names(with_shared_threads(rank_trace).threads)
    compiling = [kind_name for kind_name in kinds_and_names if _is_compilation(*kind_name)]
    if not compiling:
        return pl.DataFrame(schema=COMPILATION_COLUMNS)
    names, kinds = [name for _, name in compiling], list({kind for kind, _ in compiling})
    lanes = collect_frame(
        rank_trace.threads.filter(pl.col("name").is_in(names) & pl.col("kind").is_in(kinds)).select(
            pl.col("lane").unique()
        )
    )["lane"]
    outer = [
        _outermost_compilations(
            collect_frame(threads.select(_EVENT_COLUMNS)), names, kinds, (rank_trace.start, rank_trace.end)
        )
        for threads in lane_batches(rank_trace, lanes.to_list())
    ]
    return _drop_helping_threads(pl.concat(outer)).select(
        pl.col(name).cast(dtype) for name, dtype in COMPILATION_COLUMNS.items()
    )


HOST_COMPILATIONS: Final = SharedHostResult(_compilations_of_host)
"""Compilations on the threads of a host, in the window."""


def _kinds_and_names(threads: pl.LazyFrame) -> list[tuple[str, str]]:
    """The distinct kinds and names of events that may be compilations."""
    events = collect_frame(threads.select("kind", "name"))
    rows = NameKindPairs(events["name"], events["kind"]).rows
    distinct = events.select(pl.all().gather(rows))
    may_compile = _COMPILATION_FILTER.may_match(distinct["name"]) | (distinct["kind"] == "compile").to_numpy()
    found = distinct.filter(may_compile).select(pl.all().cast(pl.String)).drop_nulls()
    return [(kind, name) for kind, name in found.iter_rows()]


def _is_compilation(kind: str, name: str) -> bool:
    if kind == "compile":
        return not name.startswith(_LISTENER_PREFIX)
    return is_torch_compilation(kind, name)


def is_torch_compilation(kind: str, name: str) -> bool:
    """True if an event of a PyTorch trace is torch.compile or Triton at work."""
    if kind == "python":
        return _COMPILING_FRAMES.search(name) is not None
    return kind in ("op", "annotation") and _TORCH_RANGES.search(name) is not None


def _outermost_compilations(
    threads: pl.DataFrame, names: list[str], kinds: list[str], window: tuple[int, int]
) -> pl.DataFrame:
    """The compilations that lie in no other on their thread, with their functions."""
    is_compilation = (threads["name"].is_in(names) & threads["kind"].is_in(kinds)).to_numpy()
    parent = parent_rows(threads)
    calls = match_names(threads, _JITTED_FUNCTION)
    marks = threads["kind"].is_in(["annotation", "step"]).to_numpy()
    inside = (threads["end"] > threads["start"]) & (threads["start"] < window[1]) & (threads["end"] > window[0])
    rows = np.flatnonzero(is_compilation & inside.to_numpy())
    rows = rows[nearest_marked_ancestor(parent, is_compilation, rows) < 0]
    called, around = (nearest_marked_ancestor(parent, which, rows) for which in (calls, marks & ~is_compilation))
    outer = threads[rows].with_columns(
        pl.col("name").cast(pl.String),
        _names_of_rows(threads, called).str.extract(_JITTED_FUNCTION.pattern).alias("called"),
        _names_of_rows(threads, around).alias("around"),
    )
    stages = {name: _compilation_stage(name) for name in outer["name"].unique().to_list()}
    return outer.with_columns(
        pl.coalesce(
            "called", _compiled_regions(threads, outer), _annotation_name(), _regions_run_next(threads, outer)
        ).alias("function"),
        pl.col("name").replace_strict(stages, return_dtype=pl.String).alias("stage"),
        pl.col("id").alias("event"),
    )


def _names_of_rows(threads: pl.DataFrame, rows: Ints) -> pl.Series:
    """The names of the events in these rows; null for -1."""
    names = threads["name"].gather(np.maximum(rows, 0)).cast(pl.String)
    return pl.select(pl.when(pl.Series(rows >= 0)).then(names)).to_series()


def _annotation_name() -> pl.Expr:
    """The annotation around, unless it is the profiler's own step, whose name only says when."""
    return pl.when(~pl.col("around").str.contains(STEP_MARK)).then("around")


def _compilation_stage(name: str) -> str:
    return next((stage for pattern, stage in _STAGE_PATTERNS if pattern.search(name)), _COMPILING_STAGE)


def _compiled_regions(threads: pl.DataFrame, outer: pl.DataFrame) -> pl.Series:
    """The region of torch.compile that is compiled: the first that is named inside the compilation."""
    naming = pl.Series(match_names(threads, _REGION_PATTERN))
    named = threads.filter(naming).select(
        "lane", "start", pl.col("name").cast(pl.String).str.extract(_REGION_PATTERN.pattern).alias("region")
    )
    named = named.sort("start").with_columns(pl.col("start").alias("said"))
    asked = outer.select("lane", "start", "end", "name").with_row_index().sort("start")
    found = asked.join_asof(named, on="start", by="lane", strategy="forward", check_sortedness=False).sort("index")
    which = pl.when(pl.col("name").str.contains(_BACKWARD_PATTERN)).then(pl.lit(", backward")).otherwise(pl.lit(""))
    region_name = pl.concat_str(pl.lit("Torch-Compiled Region "), "region", which)
    return found.select(pl.when(pl.col("said") < pl.col("end")).then(region_name).alias("region")).to_series()


def _regions_run_next(threads: pl.DataFrame, outer: pl.DataFrame) -> pl.Series:
    """The region of torch.compile that the thread runs next, in the same step, before it compiles anything else."""
    naming = pl.Series(match_names(threads, _REGION_RUN_PATTERN))
    runs = threads.filter(naming).select(
        "lane", "start", "step", pl.col("name").cast(pl.String).str.extract(_REGION_RUN_PATTERN.pattern).alias("region")
    )
    marks = [runs, outer.select("lane", "start", "step", pl.lit(None, pl.String).alias("region"))]
    after = pl.concat(marks).sort("start", maintain_order=True).rename({"step": "then"})
    asked = outer.select("lane", "step", pl.col("end").alias("start")).with_row_index().sort("start")
    found = asked.join_asof(after, on="start", by="lane", strategy="forward", check_sortedness=False).sort("index")
    region_name = pl.concat_str(pl.lit("Torch-Compiled Region "), "region")
    return found.select(pl.when(pl.col("then").eq_missing(pl.col("step"))).then(region_name).alias("next")).to_series()


def _drop_helping_threads(outer: pl.DataFrame) -> pl.DataFrame:
    """The compilations without helping threads: those of no known function that begin during one elsewhere."""
    ordered = outer.sort("start", "event")
    known = ordered["function"].is_not_null().to_numpy()
    start, end = ordered["start"].to_numpy(), ordered["end"].to_numpy()
    busy = union(start[known], end[known])
    at = np.searchsorted(busy.start, start, side="right") - 1
    helps = (at >= 0) & (start < np.append(busy.end, 0)[at])
    return ordered.filter(pl.Series(known | ~helps))
