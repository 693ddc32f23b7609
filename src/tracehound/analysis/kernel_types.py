"""What the busy time of devices is made of: computation, communication, memory, and their overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.groups import group, running
from tracehound.analysis.devices.kernel_classes import OWN, TYPES
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.intervals import together
from tracehound.notes import note

DEFINITION = """\
Each instant at which a device is busy is of one kind: only computation runs, only communication, only memory (copies,
memsets, transfers), or two or all three of them at once. time is the length of all such instants (of unions of
intervals over the streams of the rank), so the rows of a rank add up to its busy time, and share is of that. On TPUs
times are those of the device's own clock. The rows without a rank are the sums over all ranks.

HolisticTraceAnalysis' kernel type breakdown has these numbers summed over ranks, of the run without its last profiler
step. It tells types by name alone: ROCm's copies that run as kernels are computation there, RCCL and the collectives of
inference engines too, and kernels with "Sync" in their names none of the three. Here the category of the event comes
first, then the collective that the profiler recorded, then the name. The setting classes moves kernels to another type:
classes=communication:my_exchange."""

COLUMNS = (
    Column("rank", "count", "rank; none: all ranks together"),
    Column("type", "text", "what runs at once"),
    Column("time", "time", "length of the instants at which just that runs"),
    Column("share", "share", "these instants", "the busy time of the rank"),
)

_MIXES: Final = [
    " and ".join(name for bit, name in enumerate(TYPES) if mix >> bit & 1) for mix in range(1, 1 << len(TYPES))
]
"""What can run at once, in the order of `together`."""


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each mix that occurs; ps."""
    lengths = together(*running(share, [group(name) for name in TYPES], OWN.of(options.given)))
    table = pl.DataFrame({"type": _MIXES, "time": lengths[1:]}, schema={"type": pl.String, "time": pl.Int64})
    return table.filter(pl.col("time") > 0).select(pl.lit(share.rank, pl.Int64).alias("rank"), "type", "time")


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of all ranks together, then those of each; of each the longest first."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, note("no_device_work", level="missing"))
    summed = (
        rows.group_by("type").agg(pl.col("time").sum()).select(pl.lit(None, pl.Int64).alias("rank"), "type", "time")
    )
    table = pl.concat([summed, rows]) if len(tables) > 1 else rows
    shared = table.with_columns((pl.col("time") / pl.col("time").sum().over("rank")).alias("share"))
    shown = shared.sort("rank", "time", "type", descending=[False, True, False], nulls_last=False)
    return answer(ANALYSIS, shown, scene, options)


ANALYSIS = Analysis(
    name="kernel_types",
    title="Kernel types",
    question="What is the busy time made of: computation, communication, copies, and which of them at once?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    of_devices=True,
    settings=(OWN,),
)
