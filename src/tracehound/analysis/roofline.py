"""Roofline of HLO ops: their rates against the device's peaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.device_peaks import PEAK_SETTING, DevicePeaks, peaks_per_rank
from tracehound.analysis.hlo import hlo_op_costs as hlo_costs
from tracehound.analysis.hlo.hlo_op_costs import (
    BOUND_COLUMNS,
    CATEGORY_COLUMN,
    LONGEST_EVENT_COLUMN,
    MODULE_COLUMN,
    SELF_TIME_COLUMNS,
    SOURCE_COLUMN,
    add_cost_columns,
    rate_per_second,
)
from tracehound.analysis.hlo.hlo_op_executions import merge_rank_ops, op_rows_of_rank, sum_over_ranks
from tracehound.analysis.hlo.hlo_op_groups import group_ops, may_contain_ops
from tracehound.analysis.hlo_ops import peak_notes, unattributed_kernel_notes, why_no_hlo_ops
from tracehound.analysis.rank_trace import RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.model.notes import Note, note
from tracehound.model.units import PS_PER_S

DEFINITION: Final = f"""\
A device computes a limited number of operations per second, and moves a limited number of bytes to and from its
memory. intensity is operations per byte. An op of low intensity cannot be faster than intensity * bandwidth; an op of
high intensity cannot be faster than the peak of operations; the two lines meet at the ridge. roof is the lower of the
two at the op's intensity. of compute is the rate in operations of the peak's type / that peak. of memory is the
bandwidth of the device's main memory / its peak. efficiency is the largest of these and of the same figures for
on-chip memories: XProf's roofline efficiency. Time that an op waits for the interconnect or for host memory is not
under this roof: notes have it, with the time of ops whose operations or bytes are unknown or above the peak. The
intensity of all ops is that of the ops with both figures known and not above a known peak.

{hlo_costs.COST_DEFINITION}

On GPUs XProf counts the operations of an op once for each of its kernels, and counts devices without any work; here
operations are of executions, and only devices with work count."""

COLUMNS: Final = (
    Column("name", "text", "HLO op"),
    CATEGORY_COLUMN,
    MODULE_COLUMN,
    Column("count", "count", "executions", brief=False),
    *SELF_TIME_COLUMNS,
    *BOUND_COLUMNS,
    Column("efficiency", "share", "the rate of its bound", "its peak"),
    Column("rate", "flops", "operations / total, in those of the peak's type"),
    Column("intensity", "decimal", "operations / bytes of the device's main memory"),
    Column("roof", "flops", "the highest rate at this intensity", brief=False),
    Column("bandwidth", "rate", "bytes of the device's main memory / total", brief=False),
    Column("of_compute", "share", "the rate", "the peak of operations"),
    Column("of_memory", "share", "the bandwidth", "the peak of the main memory"),
    Column("dtype", "text", "type of the GEMM's inputs", brief=False),
    Column("peak", "flops", "of operations, for this type", brief=False),
    Column("memory_peak", "rate", "of the main memory", brief=False),
    SOURCE_COLUMN,
    LONGEST_EVENT_COLUMN,
)

_ROOF_BOUNDS: Final = ("compute", "HBM", "CMEM read", "CMEM write", "VMEM read", "VMEM write")
"""Bounds of ops that have a place under the roof."""


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each op over all ranks, the largest self time first."""
    rank_tables = [table for table in tables if table.height]
    if not any("name" in table.columns for table in rank_tables):
        return empty_result(ANALYSIS, context, options, why_no_hlo_ops(rank_tables, context))
    peaks = peaks_per_rank(context, options.given)
    rows = add_cost_columns(merge_rank_ops(rank_tables).filter(pl.col("core").is_null()), peaks)
    total_self = int(rows["self"].sum())
    table = add_roofline_columns(group_ops(rows, "op")).with_columns(
        (pl.col("self") / total_self if total_self else pl.lit(None, pl.Float64)).alias("share")
    )
    notes = [
        *_judged_time_notes(table, total_self, peaks),
        *total_rate_notes(table, sum_over_ranks(rank_tables)),
        *unattributed_kernel_notes(rank_tables),
        *peak_notes(peaks),
    ]
    return make_result(ANALYSIS, table, context, options, notes)


def add_roofline_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Add intensity, rates, roof and efficiency to rows of HLO costs.

    Ops above a peak have a rate, but no efficiency.
    """
    has_place = pl.col("bound").is_in(_ROOF_BOUNDS) & pl.col("above").is_null()
    with_rates = rows.with_columns(
        pl.when(pl.col("hbm_moved") > 0).then(pl.col("normalized_work") / pl.col("hbm_moved")).alias("intensity"),
        rate_per_second("normalized_work").alias("rate"),
        rate_per_second("hbm_moved").alias("bandwidth"),
        pl.col("bound").alias("bound_by"),
    )
    return with_rates.with_columns(
        pl.when(pl.col("intensity") > 0)
        .then(pl.min_horizontal("peak", pl.col("intensity") * pl.col("memory_peak")))
        .alias("roof"),
        pl.when(has_place).then(pl.col("rate") / pl.col("peak")).alias("of_compute"),
        pl.when(has_place).then(pl.col("bandwidth") / pl.col("memory_peak")).alias("of_memory"),
        pl.when(has_place).then("nearest").alias("efficiency"),
    )


def _judged_time_notes(table: pl.DataFrame, total_self: int, peaks: Mapping[int, DevicePeaks]) -> list[Note]:
    """Notes on the time that is judged, and why the rest is not."""
    if not peaks or not total_self:
        return []
    reason_column = pl.coalesce(
        pl.when(pl.col("above").is_not_null()).then(pl.lit(_BEYOND)),
        pl.when(~pl.col("bound").is_in(_ROOF_BOUNDS)).then("bound"),
        pl.when(pl.col("efficiency").is_null()).then(pl.lit(_UNKNOWN)),
        pl.lit(_JUDGED),
    )
    times = dict(table.group_by(reason_column.alias("why")).agg(pl.col("self").sum()).sort("why").rows())
    judged, beyond, unknown = (times.pop(reason, 0) for reason in (_JUDGED, _BEYOND, _UNKNOWN))
    notes = [
        note(
            "roofline_judged",
            time=judged,
            of=total_self,
            beyond_peak=beyond,
            unknown_cost=unknown,
            bounds=tuple(times),
            waits=tuple(times.values()),
        )
    ]
    estimated = int(table.filter(pl.col("estimated") & pl.col("efficiency").is_not_null())["self"].sum())
    return [*notes, note("costs_estimated_from_shapes", share=estimated / total_self)] if estimated else notes


_JUDGED, _BEYOND, _UNKNOWN = "judged", "beyond_peak", "unknown_cost"
"""Categories of ops that wait for nothing outside of the roof."""


def total_rate_notes(table: pl.DataFrame, span: int) -> list[Note]:
    """A note with the rate of all ops together, over the devices' time, idle included, as in XProf's row Program.

    The intensity is that of the ops whose operations and bytes are both known: a call of which only the size of its
    operands is known would hide that of all others.
    """
    inside = table.filter(~may_contain_ops() & pl.col("above").is_null())
    both = inside.drop_nulls(["normalized_work", "hbm_moved"])
    work, known_work, moved = (
        float(rows[name].sum() or 0)
        for rows, name in ((inside, "normalized_work"), (both, "normalized_work"), (both, "hbm_moved"))
    )
    if not span or not work or not moved:
        return []
    return [note("rate_of_all_ops", rate=work / span * PS_PER_S, intensity=known_work / moved)]


ANALYSIS: Final = Analysis(
    name="roofline",
    title="Roofline",
    question="How near does each HLO op come to the peaks of its device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=op_rows_of_rank,
    combine=combine,
    count_column="count",
    device_ops_only=True,
    settings=(PEAK_SETTING,),
)
