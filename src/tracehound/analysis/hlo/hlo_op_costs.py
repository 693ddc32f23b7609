"""Costs of HLO ops against the peaks of their device: rates, the limiting resource, and values beyond the peak.

Owns the rules by which operations, bytes and times become rates, and the memory that bytes belong to. Works on the rows
of `hlo_op_executions`; knows no events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from tracehound.analysis.devices.device_peaks import DevicePeaks
from tracehound.analysis.result import Column
from tracehound.model.units import PS_PER_S

CATEGORY_COLUMN: Final = Column("category", "text", "HLO category", brief=False)
MODULE_COLUMN: Final = Column("module", "text", "XLA module that the op belongs to", brief=False)
SELF_TIME_COLUMNS: Final = (
    Column("self", "time", "total - time of nested ops"),
    Column("share", "share", "self time", "the self time of all ops"),
)
BOUND_COLUMNS: Final = (
    Column("bound_by", "text", "resource used nearest to its peak", non_key=True),
    Column("above", "text", "rate above the device's peak, so not true", non_key=True),
    Column("estimated", "flag", "operations or bytes are estimated from shapes", brief=False),
)
SOURCE_COLUMN: Final = Column("source", "text", "file and line that made it", brief=False)
LONGEST_EVENT_COLUMN: Final = Column("event", "id", "the longest execution")

HOST_LINK_BYTES_PER_SECOND: Final = 64e9
"""Bytes per second of a PCIe 5.0 link of 16 lanes in one direction: the assumed peak of the host link."""

COST_DEFINITION: Final = """\
Operations and bytes of one execution are those that the profile counts (on TPUs by XLA's cost model). If it counts
none (GPU, CPU), or 0 for a custom call, they are estimated from the shapes in the HLO, by the rules of XLA's
HloCostAnalysis. For library calls they are estimated from what the call is known to compute: GEMMs, convolutions,
attention without a mask. The column estimated marks them, and an estimate above the peak is dropped. A rate is the
operations or bytes of all executions / their total time. Costs of unknown custom calls stay unknown. XProf's cost
model for GPUs counts three operations for an elementwise one and hundreds for a sine; here these are one and none.

Bytes of an asynchronous op (copy-start, copy-done) belong to the done, and its time is from the start of the start to
the end of the done; the start has no bytes. Copies may spend most of that time in the queue of a link, so this rate
does not tell what bounds them; transfers has the speed of links. If a window cuts such an op, the part inside counts,
for both time and bytes; if the done is outside of the window, the row has no execution. XProf divides the bytes of
each half by the time of that half, which gives 833,333,333 GiB/s for a copy-start.

bound by is the resource that is used nearest to its peak: compute, HBM, CMEM or VMEM (reading or writing). It is host
link if operands or results lie in host memory (S(5) in their layouts), and for infeed and outfeed; these bytes do not
count as HBM traffic, whatever the cost model says. Collectives are bound by the interconnect. XProf calls both
HBM-bound. Without a known peak bound by is empty. above names a rate that exceeds the device's peak and so cannot be
true: the cost model counts operations or bytes that were not executed or moved (it has no caches). Peaks are those
that the file states, or else those of the vendor's data sheet; the setting peak replaces them."""


def add_cost_columns(rows: pl.DataFrame, peaks: Mapping[int, DevicePeaks]) -> pl.DataFrame:
    """The rows with cost columns, for all executions together.

    `work` operations, `normalized_work` operations in the type of the peak, `moved` bytes, and of them `hbm_moved`,
    `onchip_moved` and `host_moved` (null: unknown); `time` (ps) of the executions; `half` is true for an op that begins
    or ends another; `estimated` for costs from shapes; `peak` and `memory_peak` (per second) of the device, `nearest`:
    the largest fraction of a peak that the op reaches; `bound`, `above`: words.
    """
    first = peaks[min(peaks)] if peaks else None
    starting, ending = _is_async_half("start"), _is_async_half("done|update")
    once = _costs_per_execution(rows).with_columns(
        pl.when(starting)
        .then(0.0)
        .when(ending)
        .then(pl.col("flights").cast(pl.Float64))
        .otherwise("runs")
        .alias("times"),
        pl.when(starting).then(None).when(ending).then("flight").otherwise("total").alias("time"),
        (starting | ending).fill_null(value=False).alias("half"),
    )
    known = {name: pl.when(~starting).then(pl.col(f"{name}_once") * pl.col("times")) for name in _AMOUNT_COLUMNS}
    return (
        once.with_columns(value.alias(name) for name, value in known.items())
        .with_columns(_peak_columns(once, first))
        .with_columns(_peak_fractions(first))
        .with_columns(_drop_impossible_estimates())
        .with_columns(
            (pl.col("guessed_work") | pl.col("guessed_moved")).alias("estimated"),
            _nearest_peak_name().alias("bound"),
            _exceeded_peak_names(first).alias("above"),
            pl.max_horizontal(*(name for name in _RESOURCES if name != _HOST_LINK_NAME)).alias("nearest"),
        )
        .drop("times", "guessed_work", "guessed_moved", *(f"{name}_once" for name in _AMOUNT_COLUMNS), *_RESOURCES)
    )


def _is_async_half(which: str) -> pl.Expr:
    """True for this half of an asynchronous op; on GPUs the first half is the kernel that does all the work.

    TPUs fuse collectives that run beside other ops: only the name shows it (``async-collective-done.5``, a custom
    fusion).
    """
    text = pl.col("category").str.contains(f"-(?:{which})$") | pl.col("name").str.contains(
        f"{_FUSED_ASYNC_PREFIX}(?:{which})"
    )
    return text & pl.col("kernels").is_null()


_FUSED_ASYNC_PREFIX: Final = r"^async-collective-"

_AMOUNT_COLUMNS: Final = (
    "work", "normalized_work", "moved", "hbm_moved", "host_moved", "cmem_read", "cmem_written", "vmem_read",
    "vmem_written",
)  # fmt: skip
_ONCHIP_TRAFFIC: Final = {
    "cmem_read": "CMEM read", "cmem_written": "CMEM write", "vmem_read": "VMEM read", "vmem_written": "VMEM write",
}  # fmt: skip
_HOST_LINK_NAME: Final = "host link"
_RESOURCES: Final = ("compute", "HBM", _HOST_LINK_NAME, *_ONCHIP_TRAFFIC.values())


_RECORDED_COUNTS: Final = (
    "flops", "normalized_flops", "bytes_accessed", "hbm_bytes", "host_bytes", "estimated_flops", "estimated_bytes",
    *_ONCHIP_TRAFFIC,
)  # fmt: skip
"""Counts in a file; negative ones stand for unknown values."""


def _costs_per_execution(rows: pl.DataFrame) -> pl.DataFrame:
    """Operations and bytes of one execution, and whether they are estimated."""
    rows = rows.with_columns(pl.when(pl.col(name) >= 0).then(name).alias(name) for name in _RECORDED_COUNTS)
    custom = pl.col("category").str.starts_with("custom-call").fill_null(value=False)
    flops = _recorded_count("flops", custom)
    moved = _recorded_count("bytes_accessed", custom)
    work = pl.coalesce(flops, "estimated_flops")
    bytes_ = pl.coalesce(moved, "estimated_bytes")
    on_host = pl.col("host_bytes").fill_null(0)
    elsewhere = pl.col("hbm_bytes").is_not_null() & moved.is_not_null()
    hbm = pl.when(pl.col("kind") == "transfer").then(0).when(elsewhere).then(
        (pl.col("hbm_bytes") - on_host).clip(lower_bound=0)
    ).otherwise((bytes_ - on_host).clip(lower_bound=0))  # fmt: skip
    return rows.with_columns(
        work.cast(pl.Float64).alias("work_once"),
        pl.coalesce(_recorded_count("normalized_flops", custom), work).cast(pl.Float64).alias("normalized_work_once"),
        bytes_.cast(pl.Float64).alias("moved_once"),
        hbm.cast(pl.Float64).alias("hbm_moved_once"),
        on_host.cast(pl.Float64).alias("host_moved_once"),
        *(pl.col(name).cast(pl.Float64).alias(f"{name}_once") for name in _ONCHIP_TRAFFIC),
        (flops.is_null() & pl.col("estimated_flops").is_not_null()).alias("guessed_work"),
        (moved.is_null() & pl.col("estimated_bytes").is_not_null()).alias("guessed_moved"),
    )


def _recorded_count(name: str, custom: pl.Expr) -> pl.Expr:
    """A count of the profile; 0 for a custom call means that it was not counted."""
    return pl.when(~custom | (pl.col(name) > 0)).then(pl.col(name))


def _peak_columns(rows: pl.DataFrame, peaks: DevicePeaks | None) -> list[pl.Expr]:
    """The peaks of each op's own type."""
    compute = {
        dtype: peaks.flops_for_dtype(_peak_dtype(dtype)) if peaks else None
        for dtype in rows["dtype"].unique().to_list()
    }
    text = pl.col("dtype").replace_strict(
        list(compute), list(compute.values()), default=None, return_dtype=pl.Float64
    )  # fmt: skip
    return [text.alias("peak"), pl.lit(peaks.memory if peaks else None, pl.Float64).alias("memory_peak")]


def _peak_dtype(dtype: str | None) -> str | None:
    """The type whose peak counts: XLA multiplies f32 in the matrix units of GPUs (tf32) by default."""
    return "tf32" if dtype == "f32" else dtype


def _peak_fractions(peaks: DevicePeaks | None) -> list[pl.Expr]:
    """The used fraction of each peak; null where either is unknown."""

    def fraction(name: str, peak: pl.Expr) -> pl.Expr:
        return pl.when(pl.col("time") > 0).then(rate_per_second(name) / peak)

    onchip = dict(peaks.onchip) if peaks else {}
    return [
        fraction("normalized_work", pl.col("peak")).alias("compute"),
        fraction("hbm_moved", pl.col("memory_peak")).alias("HBM"),
        fraction("host_moved", pl.lit(HOST_LINK_BYTES_PER_SECOND if peaks else None, pl.Float64)).alias(
            _HOST_LINK_NAME
        ),
        *(
            fraction(name, pl.lit(onchip.get(words), pl.Float64)).alias(words)
            for name, words in _ONCHIP_TRAFFIC.items()
        ),
    ]


def _drop_impossible_estimates() -> list[pl.Expr]:
    """Drop estimates beyond the peak: a call may read a part of its operands, attention may have a mask."""
    columns = []
    for guess, amounts in (
        (("guessed_work", "compute"), ("work", "normalized_work")),
        (("guessed_moved", "HBM"), ("moved", "hbm_moved")),
    ):
        flag, used = guess
        wrong = pl.col(flag) & (pl.col(used) > 1).fill_null(value=False)
        columns += [pl.when(~wrong).then(name).alias(name) for name in (*amounts, used)]
        columns.append((pl.col(flag) & ~wrong).alias(flag))
    return columns


def rate_per_second(name: str) -> pl.Expr:
    """An amount of all executions as a rate."""
    return pl.when(pl.col("time") > 0).then(pl.col(name) / pl.col("time") * PS_PER_S)


def _nearest_peak_name() -> pl.Expr:
    """The resource that is used nearest to its peak; null where nothing is used, or no peak is known."""
    most = pl.max_horizontal(*_RESOURCES)
    linked = (pl.col("kind") == "transfer") & (
        (pl.col("host_moved") > 0) | pl.col("category").str.contains(_HOST_FED_CATEGORIES)
    )
    return pl.coalesce(
        pl.when((pl.col("kind") == "collective") | pl.col("name").str.contains(_FUSED_ASYNC_PREFIX)).then(
            pl.lit("interconnect")
        ),
        pl.when(linked).then(pl.lit(_HOST_LINK_NAME)),
        *(pl.when((pl.col(name) == most) & (most > 0)).then(pl.lit(name)) for name in _RESOURCES),
    )


_HOST_FED_CATEGORIES: Final = r"^(?:infeed|outfeed|host[ -])"
"""Categories of transfers from or to the host, whatever memory their layouts name."""


def _exceeded_peak_names(peaks: DevicePeaks | None) -> pl.Expr:
    """The resources used beyond their peak; the host link is left out, its peak is only assumed."""
    words = [pl.when(pl.col(name) > 1).then(pl.lit(name)) for name in _RESOURCES if name != _HOST_LINK_NAME]
    text = pl.concat_str(words, separator=", ", ignore_nulls=True)
    return pl.when(text != "").then(text) if peaks else pl.lit(None, pl.String)
