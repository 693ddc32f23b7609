"""Which kernels take the time, of what class they are, how their lengths are spread, and which ranks stand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.kernel_classes import OWN, classified
from tracehound.analysis.events.measured import measured
from tracehound.analysis.members import JOINED, gathered
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.lookup import looked_up
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = """\
A row for each kernel, copy, memset or HLO op by its name, over all ranks; with the setting by=rank one for each name
and rank, with by=class one for each class, with by=grid one for each name, grid and block with which it was launched
(of ROCm as the file has them: grids in blocks or in threads). total, mean, min, max and std (of a sample) are of the
lengths of single executions: from start to end, of HLO ops less the time of the ops nested inside; a window clips them.
share is of the total of all rows (by=rank: of the rank's). p50 and p99 are exact where all executions ran on one rank;
those of several ranks, and of classes, come from counts and means in bins of 1/64 octave: within 1.1 %.

type is computation, communication or memory; class is finer. What communicates or copies is known by the event's
category, by the collective that the profiler recorded, or by the name (RCCL, vLLM, DeepEP, NVSHMEM, ...), the rest by
the name; HLO ops have their category. The setting classes adds your own. tensor cores says whether the name is that of
a kernel that uses them, on AMD matrix cores (s16816, hmma, wgmma, nvjet, xmma, FlashAttention, MFMA, ...); it is empty
where no name tells: for products and attention in Triton, and for HLO ops.

slowest is the rank with the largest total, excess what that is above the median of the totals of ranks on which the
kernel ran. outliers are ranks whose total is further from that median than 3.5 times the median of these distances
divided by 0.6745 (the modified z-score of Iglewicz and Hoaglin), and than 5 % of it; of fewer than three ranks none
stands out.

HolisticTraceAnalysis' kernel breakdown has these sums, means, extremes and deviations by name, type and rank (our
by=rank), without counts, of the run without its last profiler step, and 0 for the deviation of a single execution, of
whose spread nothing is known; when there are more names than it shows, it folds names and their spread is lost. The
PyTorch TensorBoard plugin's tensor cores know the names of 2021."""

BY: Final = Setting(
    "by",
    "name",
    "what a row is: name, grid (each name with each grid and block), rank (each name on each rank) or class",
    one_of("name", "grid", "rank", "class"),
)

_WHAT: Final = (
    Column("name", "text", "kernel or HLO op"),
    Column("class", "text", "class of the kernel, or HLO category"),
    Column("type", "text", "computation, communication or memory", brief=False),
)
_TENSOR_CORES: Final = Column("tensor_cores", "flag", "it uses tensor cores, by its name", brief=False)
_LENGTHS: Final = (
    Column("count", "count", "executions"),
    Column("total", "time", "sum of lengths"),
    Column("share", "share", "total", "the total of all kernels"),
    Column("mean", "time", "total / count"),
    Column("min", "time", "shortest", brief=False),
    Column("p50", "time", "median"),
    Column("p99", "time", "99 % are not longer"),
    Column("max", "time", "longest"),
    Column("std", "time", "standard deviation of a sample; empty for one alone", brief=False),
)
_EXCESS: Final = Column("excess", "time", "its total above the median of the ranks", brief=False)
_RANKS: Final = (
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("slowest", "count", "rank with the largest total", brief=False),
    _EXCESS,
    Column("outliers", "text", "ranks that stand out", brief=False, found=True),
)
_LONGEST: Final = Column("event", "id", "the longest execution")

COLUMNS = (*_WHAT, _TENSOR_CORES, *_LENGTHS, *_RANKS, _LONGEST)
BY_RANK = (
    Column("rank", "count", "rank"), *_WHAT, _TENSOR_CORES,
    *(replace(each, base="the total of the rank") if each.name == "share" else each for each in _LENGTHS), _EXCESS,
    Column("outlier", "flag", "the rank stands out among those on which the kernel ran"), _LONGEST,
)  # fmt: skip
BY_GRID = (
    _WHAT[0],
    Column("grid", "text", "blocks in x, y and z"),
    Column("block", "text", "threads of a block in x, y and z"),
    *_WHAT[1:], _TENSOR_CORES, *_LENGTHS, *_RANKS, _LONGEST,
)  # fmt: skip
BY_CLASS = (
    *_WHAT[1:], Column("names", "count", "different kernels"),
    Column("on_tensor_cores", "share", "kernels that use tensor cores", "the total", brief=False),
    *_LENGTHS, *_RANKS, _LONGEST,
)  # fmt: skip

_KEY: Final = ("name", "kind", "category")
_GRID: Final = ("grid", "block")
_OCTAVE: Final = 64
"""Bins of lengths in one doubling."""


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each name, kind and HLO category (and grid and block): counts, ps, how many executions in each bin."""
    rows = _executions(share)
    keys: tuple[str, ...] = _KEY
    if BY.of(options.given) == "grid":
        rows, keys = _with_grid(rows, share), (*_KEY, *_GRID)
    length = pl.col("length")
    bin_of = (length.clip(lower_bound=1).log(2) * _OCTAVE).floor().cast(pl.Int16)
    bins = rows.group_by(*keys, bin_of.alias("bin")).agg(pl.len().cast(pl.Int64).alias("number"), length.sum())
    table = rows.group_by(keys).agg(
        pl.len().cast(pl.Int64).alias("count"),
        length.sum().alias("total"),
        length.min().alias("min"),
        length.max().alias("max"),
        length.std().fill_null(0).alias("deviation"),
        length.quantile(0.5, "linear").round().cast(pl.Int64).alias("p50"),
        length.quantile(0.99, "linear").round().cast(pl.Int64).alias("p99"),
        pl.col("id").get(length.arg_max()).alias("event"),
        *gathered(options),
    )
    counted = bins.sort("bin").group_by(keys).agg(pl.struct("bin", "number", "length").alias("bins"))
    return (
        table.join(counted, on=keys, nulls_equal=True)
        .with_columns(pl.col(each for each in keys if each != "category").cast(pl.String))
        .with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))
        .sort(keys)
    )


def _with_grid(rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    """With grid and block of each kernel, null where the file has none."""
    records = collected(share.device.select("id", "record"))
    launched = collected(share.facet("launched").select("record", *_GRID))
    record = looked_up(records, "id", rows["id"])["record"]
    return pl.concat([rows, looked_up(launched, "record", record)], how="horizontal")


def _executions(share: Share) -> pl.DataFrame:
    """The device work that overlaps the window: id, name, kind, category and length inside."""
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    rows = share.device.filter(pl.col("lane").is_in(lanes["lane"].to_list()))
    named = ("id", "name", "kind", "op")
    if (lanes["role"] == "stream").all():
        inside = pl.col("end").clip(upper_bound=share.end) - pl.col("start").clip(lower_bound=share.start)
        events = collected(rows.select(*named, inside.alias("length")))
    else:
        timed = collected(rows.select(*named, "lane", "start", "end", "parent", "self", "device_start", "device_end"))
        events = measured(timed, share.start, share.end).select(*named, pl.col("own").alias("length"))
    if share.ops.is_empty():
        return events.with_columns(pl.lit(None, pl.String).alias("category"))
    return events.join(share.ops.select("op", "category"), on="op", how="left", maintain_order="left")


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each name, name and grid, name and rank, or class; the largest total first."""
    by = BY.of(options.given)
    shown = ANALYSIS.shown(options.given)
    rows = stacked(tables)
    if rows.is_empty():
        return without(shown, scene, options, note("no_device_work", level="missing"))
    kernels = classified(rows.select(_KEY).unique(maintain_order=True), OWN.of(options.given))
    told = rows.join(kernels, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    if by == "rank":
        table = _by_rank(told)
    else:
        keys = _KEYS[by]
        table = _pooled(told, keys).join(_of_ranks(told, keys), on=keys, nulls_equal=True)
        table = table.with_columns(_ratio(pl.col("total"), pl.col("total").sum()).alias("share"))
        table = table.sort("total", *keys, descending=[True, *[False] * len(keys)])
    return answer(shown, table, scene, options, _notes(told))


_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "name": ("name", "type", "class", "tensor_cores"),
        "grid": ("name", "type", *_GRID, "class", "tensor_cores"),
        "class": ("class", "type"),
    }
)
"""By what a row is, what is one in it, in the order of rows with one total."""


def _by_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of all ranks as they are, those of one kernel beside each other."""
    apart = _apart(rows.with_columns(pl.len().over(_KEY).alias("ranks")), _KEY)
    return apart.with_columns(
        _ratio(pl.col("total"), pl.col("total").sum().over("rank")).alias("share"),
        (pl.col("total") / pl.col("count")).round().cast(pl.Int64).alias("mean"),
        pl.when(pl.col("count") > 1).then(pl.col("deviation").round().cast(pl.Int64)).alias("std"),
        pl.col("total").sum().over(_KEY).alias("whole"),
    ).sort("whole", *_KEY, "rank", descending=[True, *[False] * 4])


def _apart(sums: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """`sums` (one row for each key and rank, with how many `ranks` the key has) with `excess` and `outlier`."""
    several = pl.col("ranks") > 1
    middle = pl.col("total").median().over(keys)
    far = (pl.col("total") - middle).abs()
    limit = 3.5 / 0.6745 * far.median().over(keys)
    return sums.with_columns(
        pl.when(several).then((pl.col("total") - middle).round().cast(pl.Int64)).alias("excess"),
        pl.when(several).then((pl.col("ranks") > 2) & (far > limit) & (far > 0.05 * middle)).alias("outlier"),
    )


def _of_ranks(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """For each key how many ranks there are, which is the slowest by how much, and which stand out."""
    sums = rows.group_by(*keys, "rank").agg(pl.col("total").sum())
    apart = _apart(sums.with_columns(pl.len().over(keys).alias("ranks")), keys).sort("rank")
    standing = pl.col("rank").filter("outlier").cast(pl.String).str.join(", ").replace("", None)
    return apart.group_by(keys).agg(
        pl.col("ranks").first().cast(pl.Int64),
        pl.when(pl.len() > 1).then(pl.col("rank").get(pl.col("total").arg_max())).alias("slowest"),
        pl.col("excess").max(),
        standing.alias("outliers"),
    )


def _pooled(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The executions of several rows together: their spread from counts, means and deviations of each."""
    mean = pl.col("total") / pl.col("count")
    overall = pl.col("total").sum() / pl.col("count").sum()
    several = pl.col("count").sum() - 1
    squares = ((pl.col("count") - 1) * pl.col("deviation") ** 2 + pl.col("count") * (mean - overall) ** 2).sum()
    pooled = rows.group_by(keys).agg(
        pl.col("count", "total").sum(),
        overall.round().cast(pl.Int64).alias("mean"),
        pl.col("min").min(),
        pl.col("event").get(pl.col("max").arg_max()),
        pl.col("max").max(),
        (squares / several).sqrt().fill_nan(None).round().cast(pl.Int64).alias("std"),
        pl.col("name").n_unique().alias("names"),
        _ratio(pl.col("total").filter("tensor_cores").sum(), pl.col("total").sum()).alias("on_tensor_cores"),
        pl.len().alias("rows"),
        *(pl.col(name).first().alias(f"{name}_alone") for name in ("p50", "p99")),
        JOINED,
    )
    binned = pooled.join(_quantiles(rows, keys), on=keys, nulls_equal=True)
    return binned.with_columns(
        pl.when(pl.col("rows") == 1).then(f"{name}_alone").otherwise(pl.col(name).clip("min", "max")).alias(name)
        for name in ("p50", "p99")
    )


def _quantiles(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """For each key the lengths below which half and 99 % of its executions lie, each taken for the mean of its bin."""
    parts = rows.select(*keys, "bins").explode("bins").unnest("bins")
    bins = parts.group_by(*keys, "bin").agg(pl.col("number", "length").sum()).sort("bin")
    return bins.group_by(keys).agg(_quantile(part).alias(name) for name, part in (("p50", 0.5), ("p99", 0.99)))


def _quantile(part: float) -> pl.Expr:
    """Between the two executions next to that part of all, as it is done where all are known."""
    number, value = pl.col("number"), pl.col("length") / pl.col("number")
    place = (number.sum() - 1) * part
    below, above = (value.filter(number.cum_sum() > at).first() for at in (place.floor(), place.ceil()))
    return (below + (above - below) * (place - place.floor())).round().cast(pl.Int64)


def _ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole)


def _notes(rows: pl.DataFrame) -> list[Note]:
    """How much of the computation runs on tensor cores, of that whose names tell."""
    computing = rows.filter((pl.col("type") == "computation") & (pl.col("kind") == "kernel"))
    whole = int(computing["total"].sum())
    if not whole:
        return []
    used, untold = (
        int(computing.filter(mask)["total"].sum()) for mask in ("tensor_cores", pl.col("tensor_cores").is_null())
    )
    return [note("computation_on_tensor_cores", share=used / whole, unknown=untold / whole)]


ANALYSIS = Analysis(
    name="kernels",
    title="Kernels",
    question="Which kernels take the time, how are their lengths spread, and on which ranks are they slow?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(BY, OWN),
    by={"grid": BY_GRID, "rank": BY_RANK, "class": BY_CLASS},
)
