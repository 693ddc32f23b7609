"""Use of the device by kernels over time, by intervals of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import Setting, parse_time_length
from tracehound.analysis.devices.missing_data import no_device_activity_remedy, nothing_recorded_note
from tracehound.analysis.devices.occupancy import OCCUPANCY_DEFINITION as FILLED
from tracehound.analysis.devices.occupancy import (
    has_kernels,
    measure_occupancy,
    measured_time_columns,
    steps_only_notes,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.analysis.utilization import measure_doubt_notes
from tracehound.formats.device_occupancy import bucket_edges, bucket_size
from tracehound.model.notes import note

BUCKET_SETTING: Final = Setting(
    "bucket",
    "0us",
    "length of an interval; 0: the smallest of 1, 2, 5, 10, ... us that makes at most 200",
    parse_time_length,
)

MOST_INTERVALS: Final = 10_000
"""Most intervals of a rank: they become longer than the setting where there would be more."""

DEFINITION = f"""\
{FILLED}

The span is divided into intervals of one length, of which the last includes the rest; each has its own measures. The
length is the smallest of 1, 2, 5, 10, 20, ... microseconds that makes at most 200 of them (the setting bucket chooses
another). The plugin uses the smallest power of ten that makes at most 100, from the start of its own span. start and
length of the intervals are on the timeline's clock."""

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("start", "instant", "start of the interval"),
    Column("duration", "time", "length of the interval", brief=False),
    Column("utilization", "share", "kernels run", "the interval"),
    Column("sm_efficiency", "share", "multiprocessors taken by blocks", "the interval"),
    Column("occupancy", "share", "estimated achieved occupancy", "the warps that the device holds, while kernels run"),
    Column("blocks_per_sm", "decimal", "blocks of the grid on each multiprocessor, averaged over kernel time"),
    Column(
        "occupancy_limit",
        "share",
        "upper limit of occupancy, from the number of threads",
        "the threads that the device holds",
        brief=False,
    ),
    Column("known", "share", "kernels whose blocks are known", "kernel time", brief=False),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each interval of the rank's span."""
    device = measure_occupancy(rank_trace)
    low, high = device.span
    length = BUCKET_SETTING.value_in(options.given) or bucket_size(high - low)
    start, end = bucket_edges(
        low,
        high,
        max(length, bucket_size(high - low, MOST_INTERVALS) if (high - low) // length > MOST_INTERVALS else 1),
    )
    if not len(start) or (device.kernels.is_empty() and not (rank_trace.windowed and has_kernels(rank_trace))):
        return pl.DataFrame()
    rank = np.full(len(start), rank_trace.rank)
    return device.mean_measures(*device.to_device_clock(start, end)).with_columns(
        pl.Series("rank", rank),
        pl.Series("start", start),
        pl.Series("duration", end - start),
        pl.lit(rank_trace.capacity.multiprocessors, pl.Int64).alias("multiprocessors"),
        **device.kernel_counts(*device.own_span),
        **measured_time_columns(rank_trace, device),
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The intervals of all ranks, rank by rank."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(
            ANALYSIS,
            context,
            options,
            nothing_recorded_note(context, note("no_kernels"), no_device_activity_remedy(context)),
        )
    length_note = note("stretches_of_length", length=int(rows["duration"][0]))
    notes = [
        length_note,
        *steps_only_notes(rows),
        *measure_doubt_notes(rows.filter(pl.col("utilization") > 0), context),
    ]
    return make_result(ANALYSIS, rows, context, options, notes)


ANALYSIS = Analysis(
    name="utilization_curve",
    title="Utilization curve",
    question="How well do kernels use the device over time?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=(BUCKET_SETTING,),
)
