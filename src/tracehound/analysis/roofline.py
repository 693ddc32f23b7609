"""How near each HLO op comes to what its device can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.peaks import PEAK, Peaks, of_ranks
from tracehound.analysis.hlo import costs as hlo_costs
from tracehound.analysis.hlo.costs import CATEGORY, LONGEST, MODULE, SOURCE, TIMES, VERDICT, costed, per_second
from tracehound.analysis.hlo.groups import grouped, holds
from tracehound.analysis.hlo.rows import device_time, over_ranks, per_rank
from tracehound.analysis.hlo_ops import about_peaks, coverage, nothing
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, answer, without
from tracehound.notes import Note, note
from tracehound.units import PS_PER_S

DEFINITION: Final = f"""\
A device computes so many operations per second, and moves so many bytes to and from its memory: an op that takes few
operations for each byte (its intensity) cannot be faster than intensity * bandwidth, one that takes many not faster
than the peak of operations; both lines meet at the ridge. roof is the lower of the two at the op's intensity. of
compute is the rate in operations of the peak's type / that peak, of memory the bandwidth of the device's main memory /
its peak, efficiency the largest of these and of the like for memories on the chip: XProf's roofline efficiency. Time
that an op waits for the interconnect or for the host's memory has no place under this roof: it is in the notes, with
that of ops of which operations or bytes are unknown, or counted beyond the peak. The intensity of all ops together is
that of the ops of which both are known, less those beyond a known peak.

{hlo_costs.DEFINITION}

On GPUs XProf takes the operations of an op for those of each of its kernels, and a device without any work for one
that is at work; here operations are those of executions, and only devices with work count."""

COLUMNS: Final = (
    Column("name", "text", "HLO op"),
    CATEGORY,
    MODULE,
    Column("count", "count", "executions", brief=False),
    *TIMES,
    *VERDICT,
    Column("efficiency", "share", "the rate of what bounds it", "its peak"),
    Column("rate", "flops", "operations / total, in those of the peak's type"),
    Column("intensity", "decimal", "operations / bytes of the device's main memory"),
    Column("roof", "flops", "the most that this intensity allows", brief=False),
    Column("bandwidth", "rate", "bytes of the device's main memory / total", brief=False),
    Column("of_compute", "share", "the rate", "the peak of operations"),
    Column("of_memory", "share", "the bandwidth", "the peak of the main memory"),
    Column("dtype", "text", "what its product multiplies", brief=False),
    Column("peak", "flops", "of operations, for this type", brief=False),
    Column("memory_peak", "rate", "of the main memory", brief=False),
    SOURCE,
    LONGEST,
)

_UNDER: Final = ("compute", "HBM", "CMEM read", "CMEM write", "VMEM read", "VMEM write")
"""What bounds an op that has a place under the roof."""


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each op over all ranks, the largest self time first."""
    filled = [table for table in tables if table.height]
    if not any("name" in table.columns for table in filled):
        return without(ANALYSIS, scene, options, nothing(filled, scene))
    peaks = of_ranks(scene, options.given)
    rows = costed(over_ranks(filled), peaks)
    whole = int(rows["self"].sum())
    table = under_the_roof(grouped(rows, "op")).with_columns(
        (pl.col("self") / whole if whole else pl.lit(None, pl.Float64)).alias("share")
    )
    notes = [*_about(table, whole, peaks), *overall(table, device_time(filled)), *coverage(filled), *about_peaks(peaks)]
    return answer(ANALYSIS, table, scene, options, notes)


def under_the_roof(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `hlo.costs` with their place under the roof: intensity, rates, and how near they come to it.

    What is above a peak has a rate, but comes near to nothing.
    """
    placed = pl.col("bound").is_in(_UNDER) & pl.col("above").is_null()
    known = rows.with_columns(
        pl.when(pl.col("hbm_moved") > 0).then(pl.col("normalized_work") / pl.col("hbm_moved")).alias("intensity"),
        per_second("normalized_work").alias("rate"),
        per_second("hbm_moved").alias("bandwidth"),
        pl.col("bound").alias("bound_by"),
    )
    return known.with_columns(
        pl.when(pl.col("intensity") > 0)
        .then(pl.min_horizontal("peak", pl.col("intensity") * pl.col("memory_peak")))
        .alias("roof"),
        pl.when(placed).then(pl.col("rate") / pl.col("peak")).alias("of_compute"),
        pl.when(placed).then(pl.col("bandwidth") / pl.col("memory_peak")).alias("of_memory"),
        pl.when(placed).then("nearest").alias("efficiency"),
    )


def _about(table: pl.DataFrame, whole: int, peaks: Mapping[int, Peaks]) -> list[Note]:
    """How much of the time is judged, and why the rest is not."""
    if not peaks or not whole:
        return []
    why = pl.coalesce(
        pl.when(pl.col("above").is_not_null()).then(pl.lit(_BEYOND)),
        pl.when(~pl.col("bound").is_in(_UNDER)).then("bound"),
        pl.when(pl.col("efficiency").is_null()).then(pl.lit(_UNKNOWN)),
        pl.lit(_JUDGED),
    )
    times = dict(table.group_by(why.alias("why")).agg(pl.col("self").sum()).sort("why").rows())
    judged, beyond, unknown = (times.pop(reason, 0) for reason in (_JUDGED, _BEYOND, _UNKNOWN))
    notes = [
        note(
            "roofline_judged",
            time=judged,
            of=whole,
            beyond_peak=beyond,
            unknown_cost=unknown,
            bounds=tuple(times),
            waits=tuple(times.values()),
        )
    ]
    guessed = int(table.filter(pl.col("estimated") & pl.col("efficiency").is_not_null())["self"].sum())
    return [*notes, note("costs_estimated_from_shapes", share=guessed / whole)] if guessed else notes


_JUDGED, _BEYOND, _UNKNOWN = "judged", "beyond_peak", "unknown_cost"
"""What is said of an op that does not wait for anything outside of the roof."""


def overall(table: pl.DataFrame, span: int) -> list[Note]:
    """All ops together, over the time of the devices with idle, as XProf's row Program is.

    The intensity is that of the ops of which both operations and bytes are known: a call that nothing is known of but
    the size of its operands would hide that of all others.
    """
    inside = table.filter(~holds() & pl.col("above").is_null())
    both = inside.drop_nulls(["normalized_work", "hbm_moved"])
    work, known, moved = (
        float(rows[name].sum() or 0)
        for rows, name in ((inside, "normalized_work"), (both, "normalized_work"), (both, "hbm_moved"))
    )
    if not span or not work or not moved:
        return []
    return [note("rate_of_all_ops", rate=work / span * PS_PER_S, intensity=known / moved)]


ANALYSIS: Final = Analysis(
    name="roofline",
    title="Roofline",
    question="How near does each HLO op come to what its device can do?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    of_devices=True,
    settings=(PEAK,),
)
