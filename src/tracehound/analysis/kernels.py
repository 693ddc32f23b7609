"""Kernels by time, with their class, the distribution of their lengths, and ranks that are outliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.kernel_classes import CUSTOM_CLASSES, classify_kernels
from tracehound.analysis.hosts.source_frames import find_launch_sources
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    JOINED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    concat_tables,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_clock import measure_events
from tracehound.analysis.timing.row_groups import NameKindPairs, category_codes, group_rows
from tracehound.formats.inductor_names import GENERATED_PREFIX, find_fused_operators
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import look_up_rows
from tracehound.numeric.intervals import Ints
from tracehound.numeric.trees import sum_groups

DEFINITION = """\
A row for each kernel, copy, memset or HLO op by name, over all ranks. by=rank has one for each name and rank, by=class
one for each class, by=grid one for each name, grid and block (for ROCm as the file has them: grids in blocks or in
threads). total, mean, min, max and std (of a sample) are of the lengths of single executions, from start to end; for
HLO ops without the time of nested ops. A window clips them. share is of the total of all rows (by=rank: of the rank's
rows). p50 and p99 are exact if all executions ran on one rank; those of several ranks and of classes come from counts
and means in bins of 1/64 octave, within 1.1 %.

type is computation, communication or memory; class is finer. Communication and copies are recognized by the event's
category, by the collective that the profiler recorded, or by name (RCCL, vLLM, DeepEP, NVSHMEM, ...); everything else
by name. HLO ops have their own category. The setting classes adds classes of your own. tensor cores tells whether the
kernel's name is one that uses them (on AMD, matrix cores): s16816, hmma, wgmma, nvjet, xmma, FlashAttention, MFMA, ...
It is empty if names do not tell: for GEMMs and attention in Triton, and for HLO ops.

operators has the aten operators that a kernel of torch.compile (Inductor) computes a part of, by its name: of an addmm
that may be its bias alone. The name joins them with underscores, which their own names have, too. It is split where
known names, sorted as Inductor sorts them, leave one reading; else the text is as recorded. source is the nearest
Python function in the user's code around the launch of the longest execution of such a kernel, where Python stacks were
recorded; for a kernel in a CUDA graph it is around the launch of the graph.

slowest is the rank with the largest total, and excess is that total minus the median over the ranks on which the
kernel ran. outliers are ranks whose distance from that median is more than 3.5 times the median distance / 0.6745 (the
modified z-score of Iglewicz and Hoaglin), and more than 5 % of the median. With fewer than three ranks there are no
outliers.

HolisticTraceAnalysis' kernel breakdown has these sums, means, extremes and deviations by name, type and rank (our
by=rank), without counts, for the run without its last profiler step. For a single execution its deviation is 0; ours
is empty. If there are more names than it shows, it merges names and their spread is lost. The PyTorch TensorBoard
plugin's tensor cores know the names of 2021."""

BY_SETTING: Final = Setting(
    "by",
    "name",
    "what a row is: name, grid (each name with each grid and block), rank (each name on each rank) or class",
    choice_parser("name", "grid", "rank", "class"),
)

_NAME_COLUMNS: Final = (
    Column("name", "text", "kernel or HLO op"),
    Column("class", "text", "class of the kernel, or HLO category"),
    Column("type", "text", "computation, communication or memory", brief=False),
)
_TENSOR_CORES_COLUMN: Final = Column("tensor_cores", "flag", "it uses tensor cores, by its name", brief=False)
_ORIGIN_COLUMNS: Final = (
    Column("operators", "text", "operators that torch.compile fused in it, by its name", brief=False),
    Column("source", "text", "Python function in the user's code around the launch of the longest", brief=False),
)
_LENGTH_COLUMNS: Final = (
    Column("count", "count", "executions"),
    Column("total", "time", "sum of lengths"),
    Column("share", "share", "total", "the total of all kernels"),
    Column("mean", "time", "total / count"),
    Column("min", "time", "shortest", brief=False),
    Column("p50", "time", "median"),
    Column("p99", "time", "99th percentile"),
    Column("max", "time", "longest"),
    Column("std", "time", "sample standard deviation; empty for a single call", brief=False),
)
_EXCESS_COLUMN: Final = Column("excess", "time", "its total - the median over ranks", brief=False)
_RANK_COLUMNS: Final = (
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("slowest", "count", "rank with the largest total", brief=False),
    _EXCESS_COLUMN,
    Column("outliers", "text", "ranks far from the median", brief=False, non_key=True),
)
_LONGEST_COLUMN: Final = Column("event", "id", "the longest execution")

COLUMNS = (
    *_NAME_COLUMNS, _TENSOR_CORES_COLUMN, *_LENGTH_COLUMNS, *_RANK_COLUMNS, *_ORIGIN_COLUMNS, _LONGEST_COLUMN
)  # fmt: skip
BY_RANK_COLUMNS = (
    Column("rank", "count", "rank"), *_NAME_COLUMNS, _TENSOR_CORES_COLUMN,
    *(replace(each, base="the total of the rank") if each.name == "share" else each for each in _LENGTH_COLUMNS),
    _EXCESS_COLUMN,
    Column("outlier", "flag", "the rank is far from the median of the ranks on which the kernel ran"), _LONGEST_COLUMN,
)  # fmt: skip
BY_GRID_COLUMNS = (
    _NAME_COLUMNS[0],
    Column("grid", "text", "blocks in x, y and z"),
    Column("block", "text", "threads of a block in x, y and z"),
    *_NAME_COLUMNS[1:], _TENSOR_CORES_COLUMN, *_LENGTH_COLUMNS, *_RANK_COLUMNS, _LONGEST_COLUMN,
)  # fmt: skip
BY_CLASS_COLUMNS = (
    *_NAME_COLUMNS[1:], Column("names", "count", "different kernels"),
    Column("on_tensor_cores", "share", "kernels that use tensor cores", "the total", brief=False),
    *_LENGTH_COLUMNS, *_RANK_COLUMNS, _LONGEST_COLUMN,
)  # fmt: skip

_KERNEL_KEY: Final = ("name", "kind", "category")
_GRID_KEY: Final = ("grid", "block")
_BINS_PER_OCTAVE: Final = 64
"""Bins of lengths in one doubling."""
_MAX_BINS: Final = 64 * _BINS_PER_OCTAVE


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each name, kind and HLO category (and grid and block): counts, ps, and executions in each bin."""
    rows = kernel_executions(rank_trace)
    keys: tuple[str, ...] = _KERNEL_KEY
    if BY_SETTING.value_in(options.given) == "grid":
        rows, keys = _add_grid(rows, rank_trace), (*_KERNEL_KEY, *_GRID_KEY)
    number, first = _number_distinct_rows(rows, keys)
    rows = rows.with_columns(number=number)
    length = pl.col("length")
    table = rows.group_by("number").agg(
        pl.len().cast(pl.Int64).alias("count"),
        length.sum().alias("total"),
        length.min().alias("min"),
        length.max().alias("max"),
        length.std().fill_null(0).alias("deviation"),
        length.quantile(0.5, "linear").round().cast(pl.Int64).alias("p50"),
        length.quantile(0.99, "linear").round().cast(pl.Int64).alias("p99"),
        pl.col("id").get(length.arg_max()).alias("event"),
        *collect_counted_events(options),
    )
    return (
        table.join(_bin_lengths(rows), on="number")
        .join(rows[first].select("number", *keys), on="number")
        .select(*keys, pl.exclude("number", *keys))
        .with_columns(pl.col(each for each in keys if each != "category").cast(pl.String))
        .with_columns(pl.lit(rank_trace.rank, pl.Int64).alias("rank"))
        .sort(keys)
        .pipe(_add_origins, rank_trace)
    )


def _bin_lengths(rows: pl.DataFrame) -> pl.DataFrame:
    """For each `number` its `bins` of lengths, in order: executions and their total length."""
    bin_of = (pl.col("length").clip(lower_bound=1).log(2) * _BINS_PER_OCTAVE).floor().cast(pl.Int16).alias("bin")
    binned = rows.select("number", bin_of)
    group, first = group_rows(binned.select(pl.col("number") * _MAX_BINS + pl.col("bin")).to_series().to_numpy())
    bins = pl.struct(
        "bin",
        pl.Series("number", np.bincount(group, minlength=len(first))),
        pl.Series("length", sum_groups(group, rows["length"].to_numpy(), len(first))),
    )
    return binned[first].select("number", bins.alias("bins")).group_by("number").agg("bins")


def _number_distinct_rows(rows: pl.DataFrame, keys: Sequence[str]) -> tuple[Ints, Ints]:
    """For each row the number of its combination of keys, name and kind among them; and one row of each combination."""
    pairs = NameKindPairs(rows["name"], rows["kind"])
    more = [rows[key] for key in keys if key not in ("name", "kind") and rows[key].null_count() < rows.height]
    if not more:
        return pairs.pair_numbers, pairs.rows
    return group_rows(pairs.pair_numbers, *(category_codes(values.cast(pl.Categorical)) for values in more))


def _add_origins(table: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """Add the `operators` that each kernel fuses, by its name, and the `source` of its longest execution."""
    fused = [find_fused_operators(name or "") for name in table["name"]]
    operators = pl.Series("operators", [each and ", ".join(each.names) for each in fused], pl.String)
    event = table["event"].filter(operators.is_not_null() | table["name"].str.starts_with(GENERATED_PREFIX))
    found = pl.DataFrame({"event": event, "source": find_launch_sources(rank_trace, event)})
    return table.with_columns(operators).join(found, on="event", how="left", maintain_order="left")


def _add_grid(rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """Add grid and block of each kernel, null where the file has none."""
    records = collect_frame(rank_trace.device.select("id", "record"))
    launched = collect_frame(rank_trace.facet("launched").select("record", *_GRID_KEY))
    record = look_up_rows(records, "id", rows["id"])["record"]
    return pl.concat([rows, look_up_rows(launched, "record", record)], how="horizontal")


def kernel_executions(rank_trace: RankTrace, *more: str) -> pl.DataFrame:
    """The device work that overlaps the window: id, name, kind, category, length inside it, and `more` columns."""
    lanes = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    rows = rank_trace.device.filter(pl.col("lane").is_in(lanes["lane"].to_list()))
    named = ("id", "name", "kind", "op", *more)
    if (lanes["role"] == "stream").all():
        inside = pl.col("end").clip(upper_bound=rank_trace.end) - pl.col("start").clip(lower_bound=rank_trace.start)
        events = collect_frame(rows.select(*named, inside.alias("length")))
    else:
        timed = collect_frame(
            rows.select(*named, "lane", "start", "end", "parent", "self", "device_start", "device_end")
        )
        events = measure_events(timed, rank_trace.start, rank_trace.end).select(*named, pl.col("own").alias("length"))
    if rank_trace.ops.is_empty():
        return events.with_columns(pl.lit(None, pl.String).alias("category"))
    return events.join(rank_trace.ops.select("op", "category"), on="op", how="left", maintain_order="left")


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each name, name and grid, name and rank, or class; the largest total first."""
    row_kind = BY_SETTING.value_in(options.given)
    analysis = ANALYSIS.with_shown_columns(options.given)
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(analysis, context, options, note("no_device_work", level="missing"))
    kernels = classify_kernels(
        rows.select(_KERNEL_KEY).unique(maintain_order=True), CUSTOM_CLASSES.value_in(options.given)
    )
    classified_rows = rows.join(kernels, on=_KERNEL_KEY, how="left", nulls_equal=True, maintain_order="left")
    if row_kind == "rank":
        table = _rank_rows(classified_rows)
    else:
        keys = _ROW_KEYS[row_kind]
        table = _pool_executions(classified_rows, keys).join(
            _find_outlier_ranks(classified_rows, keys), on=keys, how="left", nulls_equal=True
        )
        table = table.with_columns(
            pl.col("ranks").fill_null(1), _ratio(pl.col("total"), pl.col("total").sum()).alias("share")
        )
        table = table.sort("total", *keys, descending=[True, *[False] * len(keys)])
    return make_result(analysis, table, context, options, _notes(classified_rows))


_ROW_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "name": ("name", "type", "class", "tensor_cores"),
        "grid": ("name", "type", *_GRID_KEY, "class", "tensor_cores"),
        "class": ("class", "type"),
    }
)
"""For each value of the setting `by` the columns that make a row, in the order of rows with equal totals."""


def _rank_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of all ranks, those of one kernel next to each other."""
    with_outliers = _add_outliers(rows.with_columns(pl.len().over(_KERNEL_KEY).alias("ranks")), _KERNEL_KEY)
    return with_outliers.with_columns(
        _ratio(pl.col("total"), pl.col("total").sum().over("rank")).alias("share"),
        (pl.col("total") / pl.col("count")).round().cast(pl.Int64).alias("mean"),
        pl.when(pl.col("count") > 1).then(pl.col("deviation").round().cast(pl.Int64)).alias("std"),
        pl.col("total").sum().over(_KERNEL_KEY).alias("whole"),
    ).sort("whole", *_KERNEL_KEY, "rank", descending=[True, *[False] * 4])


def _add_outliers(sums: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Add `excess` and `outlier` to `sums`: one row per key and rank, `ranks` is the number of ranks of the key."""
    on_several_ranks = pl.col("ranks") > 1
    median = pl.col("total").median().over(keys)
    distance = (pl.col("total") - median).abs()
    limit = 3.5 / 0.6745 * distance.median().over(keys)
    return sums.with_columns(
        pl.when(on_several_ranks).then((pl.col("total") - median).round().cast(pl.Int64)).alias("excess"),
        pl.when(on_several_ranks)
        .then((pl.col("ranks") > 2) & (distance > limit) & (distance > 0.05 * median))
        .alias("outlier"),
    )


def _find_outlier_ranks(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """For each key on several ranks their number, the slowest rank, its excess, and the outliers."""
    sums = rows.group_by(*keys, "rank").agg(pl.col("total").sum())
    sums = sums.filter(pl.struct(keys).is_duplicated())
    with_outliers = _add_outliers(sums.with_columns(pl.len().over(keys).alias("ranks")), keys).sort("rank")
    outlier_names = pl.col("rank").filter("outlier").cast(pl.String).str.join(", ").replace("", None)
    return with_outliers.group_by(keys).agg(
        pl.col("ranks").first().cast(pl.Int64),
        pl.col("rank").get(pl.col("total").arg_max()).alias("slowest"),
        pl.col("excess").max(),
        outlier_names.alias("outliers"),
    )


def _pool_executions(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The executions of several rows together: their spread from the counts, means and deviations of each."""
    mean = pl.col("total") / pl.col("count")
    overall = pl.col("total").sum() / pl.col("count").sum()
    degrees_of_freedom = pl.col("count").sum() - 1
    squares = ((pl.col("count") - 1) * pl.col("deviation") ** 2 + pl.col("count") * (mean - overall) ** 2).sum()
    pooled = rows.group_by(keys).agg(
        pl.col("count", "total").sum(),
        overall.round().cast(pl.Int64).alias("mean"),
        pl.col("min").min(),
        pl.col("event", "source").get(pl.col("max").arg_max()),
        pl.col("operators").first(),
        pl.col("max").max(),
        (squares / degrees_of_freedom).sqrt().fill_nan(None).round().cast(pl.Int64).alias("std"),
        pl.col("name").n_unique().alias("names"),
        _ratio(pl.col("total").filter("tensor_cores").sum(), pl.col("total").sum()).alias("on_tensor_cores"),
        pl.len().alias("rows"),
        *(pl.col(name).first().alias(f"{name}_alone") for name in ("p50", "p99")),
        JOINED_EVENTS,
    )
    several = rows.filter(pl.struct(keys).is_duplicated())
    binned = pooled.join(_quantiles_from_bins(several, keys), on=keys, how="left", nulls_equal=True)
    return binned.with_columns(
        pl.when(pl.col("rows") == 1).then(f"{name}_alone").otherwise(pl.col(name).clip("min", "max")).alias(name)
        for name in ("p50", "p99")
    )


def _quantiles_from_bins(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Median and 99th percentile of the executions of each key; each length is taken as the mean of its bin."""
    parts = rows.select(*keys, "bins").explode("bins").unnest("bins")
    bins = parts.group_by(*keys, "bin").agg(pl.col("number", "length").sum()).sort("bin")
    return bins.group_by(keys).agg(_quantile_of_bins(part).alias(name) for name, part in (("p50", 0.5), ("p99", 0.99)))


def _quantile_of_bins(part: float) -> pl.Expr:
    """Interpolate a quantile between the two executions next to it."""
    number, value = pl.col("number"), pl.col("length") / pl.col("number")
    exact_position = (number.sum() - 1) * part
    below, above = (
        value.filter(number.cum_sum() > position).first()
        for position in (exact_position.floor(), exact_position.ceil())
    )
    return (below + (above - below) * (exact_position - exact_position.floor())).round().cast(pl.Int64)


def _ratio(part: pl.Expr, total: pl.Expr) -> pl.Expr:
    return pl.when(total > 0).then(part / total)


def _notes(rows: pl.DataFrame) -> list[Note]:
    """A note with the share of computation on tensor cores, and the share whose names do not tell."""
    computing = rows.filter((pl.col("type") == "computation") & (pl.col("kind") == "kernel"))
    total = int(computing["total"].sum())
    if not total:
        return []
    used, unknown = (
        int(computing.filter(mask)["total"].sum()) for mask in ("tensor_cores", pl.col("tensor_cores").is_null())
    )
    return [note("computation_on_tensor_cores", share=used / total, unknown=unknown / total)]


ANALYSIS = Analysis(
    name="kernels",
    title="Kernels",
    question="Which kernels take the time, how are their lengths spread, and on which ranks are they slow?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(BY_SETTING, CUSTOM_CLASSES),
    columns_by_setting={"grid": BY_GRID_COLUMNS, "rank": BY_RANK_COLUMNS, "class": BY_CLASS_COLUMNS},
)
