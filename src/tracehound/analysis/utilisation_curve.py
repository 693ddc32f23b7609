"""How well kernels use the device over time, stretch by stretch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.filled import DEFINITION as FILLED
from tracehound.analysis.devices.filled import filled, of_steps, runs_kernels, spans
from tracehound.analysis.devices.silence import nothing, remedy
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, length
from tracehound.analysis.utilisation import doubts
from tracehound.formats.assembly.curves import bucket, buckets
from tracehound.notes import note

BUCKET: Final = Setting(
    "bucket",
    "0us",
    "how long a stretch is; 0: the smallest of 1, 2, 5, 10, ... us that makes at most 200 of them",
    length,
)

MOST: Final = 10_000
"""Stretches of a rank, at most: they are longer than asked for where there would be more."""

DEFINITION = f"""\
{FILLED}

The span is cut into stretches of one length, of which the last takes in what is left; each has its own measures. The
length is the smallest of 1, 2, 5, 10, 20, ... microseconds that makes at most 200 of them (the setting bucket chooses
another). The plugin takes the smallest power of ten that makes at most 100, from the start of its own span. Stretches
are places in the timeline, and so start and last as long as they do on its clock."""

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("start", "instant", "start of the stretch"),
    Column("duration", "time", "length of the stretch", brief=False),
    Column("utilisation", "share", "kernels run", "the stretch"),
    Column("sm_efficiency", "share", "multiprocessors taken by blocks", "the stretch"),
    Column("occupancy", "share", "estimated achieved occupancy", "the warps that the device holds, while kernels run"),
    Column("blocks_per_sm", "decimal", "blocks of the grid on each multiprocessor, averaged over kernel time"),
    Column(
        "occupancy_limit", "share", "occupancy at most, by threads", "the threads that the device holds", brief=False
    ),
    Column("known", "share", "kernels whose blocks are known", "kernel time", brief=False),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each stretch of the rank's span."""
    device = filled(share)
    low, high = device.span
    asked = BUCKET.of(options.given) or bucket(high - low)
    start, end = buckets(low, high, max(asked, bucket(high - low, MOST) if (high - low) // asked > MOST else 1))
    if not len(start) or (device.kernels.is_empty() and not (share.windowed and runs_kernels(share))):
        return pl.DataFrame()
    rank = np.full(len(start), share.rank)
    return device.measures(*device.own(start, end)).with_columns(
        pl.Series("rank", rank),
        pl.Series("start", start),
        pl.Series("duration", end - start),
        pl.lit(share.properties.multiprocessors, pl.Int64).alias("multiprocessors"),
        **device.counts(*device.own_span),
        **spans(share, device),
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The stretches of all ranks, rank by rank."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, nothing(scene, note("no_kernels"), remedy(scene)))
    cut = note("stretches_of_length", length=int(rows["duration"][0]))
    told = [cut, *of_steps(rows), *doubts(rows.filter(pl.col("utilisation") > 0), scene)]
    return answer(ANALYSIS, rows, scene, options, told)


ANALYSIS = Analysis(
    name="utilisation_curve",
    title="Utilisation curve",
    question="How well do kernels use the device over time?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(BUCKET,),
)
