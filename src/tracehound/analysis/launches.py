"""Cost of launches: calls that put work on a device, their lengths, and the delay until the work begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser, parse_time_length
from tracehound.analysis.hosts.launch_calls import (
    ENQUEUED_WORK_DEFINITION,
    EnqueuedWork,
    awaited_copies,
    enqueued_work_lanes,
    find_enqueued_work,
    launch_doubt_notes,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    COUNTED_COLUMN,
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    concat_tables,
    empty_result,
    empty_table,
    make_result,
)
from tracehound.analysis.timing.device_clock import device_clock
from tracehound.analysis.timing.row_groups import value_change_rows
from tracehound.model.notes import note
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import find_rows

BY_SETTING: Final = Setting(
    "by", "call", "a row for each call, for each call and kernel, or for every launch: call, kernel, launch",
    choice_parser("call", "kernel", "launch"),
)  # fmt: skip
LONG_SETTING: Final = Setting("long", "50us", "calls above are long (HTA's runtime cutoff)", parse_time_length)
DELAY_SETTING: Final = Setting(
    "delay", "100us", "work that begins later after its call is late (HTA's launch delay cutoff)", parse_time_length
)

DEFINITION = f"""\
{ENQUEUED_WORK_DEFINITION}

call time = length of the call on the host. device time = sum of the lengths of its work, on the device's own clock if
it has one (TPU); start and end of the work are on the trace's clock. delay = time from the end of the call to the
start of the first of its work, 0 if that begins during the call. p50 and p99 are interpolated. short = launches that
take longer than their work: device time is below call time, and the call is neither long nor waits for its copy
(cudaMemcpy, and copies without a wait in their names that returned only when they had ended). long = calls above 50
us, late = launches with a delay above 100 us (the settings long and delay). queued = late launches behind earlier work
of their stream that went on after the call had ended: they waited for their turn, as usual if the host runs ahead;
only the other late launches began late because of the launch. blocking = calls that end no sooner than their work,
since they waited for it. In a window, launches whose work overlaps it count whole.

by=kernel has a row for each call and name of its work. Of a graph, each name counts once per launch, with the time of
the whole call, the device time of its own nodes and the delay of the first of them. by=launch has every launch, the
latest first, with the name and the correlation id of the first of its work.

HolisticTraceAnalysis' CUDA kernel launch statistics are by=launch: its cpu_duration is our call time, its gpu_duration
our device time, its short kernels, runtime outliers and launch delay outliers our short, long and late, except that it
also counts copies that their calls wait for as short. It knows only cudaLaunchKernel, cudaLaunchKernelExC,
cudaMemcpyAsync and cudaMemsetAsync, no driver, HIP or graph calls, rounds fractional times to microseconds, and leaves
out the last step."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("call", "text", "call of the runtime, the driver or the executor"),
    Column("kernel", "text", "what it launched"),
    Column("stream", "text", "stream of the first of it"),
    Column("at", "instant", "start of the call"),
    Column("launches", "count", "calls"),
    Column("call_time", "time", "sum of the calls' lengths"),
    Column("call_max", "time", "longest call", brief=False),
    Column("device_time", "time", "sum of the lengths of what was launched", brief=False),
    Column("events", "count", "device events of these calls", brief=False),
    Column("call_mean", "time", "average call", brief=False),
    Column("call_p50", "time", "half of the calls are not longer", brief=False),
    Column("call_p99", "time", "99 % of the calls are not longer", brief=False),
    Column("device_mean", "time", "average of a launch", brief=False),
    Column("device_p50", "time", "half of the launches take no longer", brief=False),
    Column("device_p99", "time", "99 % of the launches take no longer", brief=False),
    Column("device_max", "time", "of the launch that takes longest", brief=False),
    Column("delay", "time", "from the end of the call to the start of the work; of several launches the average"),
    Column("delay_p50", "time", "half of the delays are not longer", brief=False),
    Column("delay_p99", "time", "99 % of the delays are not longer", brief=False),
    Column("delay_max", "time", "longest delay", brief=False),
    Column("short", "count", "launches that take longer than their work, and do not wait for it"),
    Column("long", "count", "long calls"),
    Column("late", "count", "launches with a long delay, for any reason"),
    Column("queued", "count", "late launches behind earlier work of their stream", brief=False),
    Column("blocking", "count", "calls that waited for their work", brief=False),
    Column("correlation", "number", "id that the call shares with its device events", brief=False),
    Column("call_event", "id", "the longest call"),
    Column("event", "id", "the work after the longest delay"),
)

_TOTAL_COLUMNS = ("launches", "short", "long", "late", "queued")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of the rank, as many of the latest as requested; every row also has totals of all its launches."""
    row_kind = BY_SETTING.value_in(options.given)
    device = _work_of_launches(rank_trace) if rank_trace.windowed else rank_trace.device
    launches = find_enqueued_work(rank_trace, device, "correlation")
    if launches.work.is_empty():
        return pl.DataFrame()
    launches = replace(
        launches,
        work=_add_previous_end(launches.work, rank_trace).with_columns(_device_lengths(launches.work, rank_trace)),
    )
    all_launches = _classify_launches(_launch_rows(launches, ("launch",)), options)
    match row_kind:
        case "launch":
            rows = _latest_launches(all_launches, rank_trace.lanes, options)
        case "kernel":
            rows = _group_launches(
                _classify_launches(_launch_rows(launches, ("launch", "name")), options), ("call", "name"), options
            )
        case _:
            rows = _group_launches(all_launches, ("call",), options)
    totals = all_launches.select(pl.len(), pl.col(_TOTAL_COLUMNS[1:]).sum()).row(0)
    return rows.with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(launches.count_unlaunched, pl.Int64).alias("unknown"),
        pl.lit(launches.count_before_launch, pl.Int64).alias("early"),
        *(pl.lit(total, pl.Int64).alias(f"all_{name}") for name, total in zip(_TOTAL_COLUMNS, totals, strict=True)),
    )


def _work_of_launches(rank_trace: RankTrace) -> pl.LazyFrame:
    """The work in the window, and all other work of the same launches."""
    lanes = enqueued_work_lanes(rank_trace.lanes)["lane"].to_list()
    inside = rank_trace.device.filter(pl.col("lane").is_in(lanes))
    calls = collect_frame(inside.select(pl.col("launch").unique())).to_series().drop_nulls()
    of_calls = rank_trace.device_anytime.filter(pl.col("launch").is_in(calls.implode()))
    return pl.concat([of_calls, inside.filter(pl.col("launch").is_null())]).sort("id")


def _device_lengths(work: pl.DataFrame, rank_trace: RankTrace) -> pl.Series:
    """The lengths of work, `device`: on the device's own clock where it has one."""
    start, end = work["start"].to_numpy(), work["end"].to_numpy()
    if (clock := device_clock(rank_trace)) is not None:
        start, end = clock.to_device_bounds(start, end)
    return pl.Series("device", end - start)


def _add_previous_end(work: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """Add `before`, the end of all earlier work on the lane, whenever and by whatever it was launched."""
    lanes = enqueued_work_lanes(rank_trace.lanes)["lane"].to_list()
    all_work = collect_frame(rank_trace.device_anytime.filter(pl.col("lane").is_in(lanes)).select("id", "lane", "end"))
    ends = np.split(all_work["end"].to_numpy(), value_change_rows(all_work["lane"].to_numpy()))
    previous_ends = np.concatenate(
        [np.append(_LONG_AGO, np.maximum.accumulate(lane_ends)[:-1])[: len(lane_ends)] for lane_ends in ends]
    )
    row = find_rows(all_work["id"].to_numpy(), work["id"].to_numpy())
    return work.with_columns(pl.Series("before", previous_ends[row]))


_LONG_AGO: Final = np.iinfo(np.int64).min
"""The previous end where no work came before."""


def _launch_rows(launches: EnqueuedWork, keys: Sequence[str]) -> pl.DataFrame:
    """A row for each launch (and name of its work): the first of its work, its device time and its last end."""
    single_event_columns = {"last": pl.col("end"), "events": pl.lit(1, pl.UInt32)}
    if not launches.has_shared_launches:
        return launches.work.with_columns(**single_event_columns)
    repeated = launches.work["launch"].is_duplicated()
    single_rows, rows = (
        launches.work.filter(condition).with_columns(**single_event_columns) for condition in (~repeated, repeated)
    )
    other_columns = [column for column in launches.work.columns if column not in (*keys, "device")]
    merged_rows = (
        rows.sort("start", "id")
        .group_by(keys, maintain_order=True)
        .agg(pl.col(*other_columns).first(), pl.col("device").sum(), pl.col("last").max(), pl.len().alias("events"))
    )
    return pl.concat([single_rows, merged_rows.select(single_rows.columns)])


def _classify_launches(launch_rows: pl.DataFrame, options: Options) -> pl.DataFrame:
    """Add length and delay of each call, and flags for short, long, late, queued and blocking launches."""
    timed = launch_rows.with_columns(
        (pl.col("returned") - pl.col("called")).alias("length"),
        (pl.col("start") - pl.col("returned")).clip(0).alias("delay"),
    )
    is_awaited = awaited_copies(launch_rows.select("launch", "call", "returned", pl.col("last").alias("end")))
    is_long, is_late = (
        pl.col("length") > LONG_SETTING.value_in(options.given),
        pl.col("delay") > DELAY_SETTING.value_in(options.given),
    )
    return timed.with_columns(
        (~is_long & ~is_awaited & (pl.col("device") < pl.col("length"))).alias("short"),
        is_long.alias("long"),
        is_late.alias("late"),
        (is_late & (pl.col("before") > pl.col("returned"))).alias("queued"),
        (pl.col("returned") >= pl.col("last")).alias("blocking"),
    )


_MEASURED_COLUMNS: Final = {"call": "length", "device": "device", "delay": "delay"}
"""The measured column by the prefix of its result columns."""


def _group_launches(launch_rows: pl.DataFrame, keys: Sequence[str], options: Options) -> pl.DataFrame:
    """A row for each call, or for each call and kernel."""
    statistics = [
        value.round().cast(pl.Int64).alias(f"{name}_{figure}")
        for name, column in _MEASURED_COLUMNS.items()
        for figure, value in {
            "mean": pl.col(column).mean(),
            "p50": pl.col(column).quantile(0.5, "linear"),
            "p99": pl.col(column).quantile(0.99, "linear"),
            "max": pl.col(column).max(),
        }.items()
    ]
    flags = ("short", "long", "late", "queued", "blocking")
    rows = launch_rows.group_by(keys, maintain_order=True).agg(
        pl.len().alias("launches"),
        pl.col("events", *flags).sum(),
        pl.col("length").sum().alias("call_time"),
        pl.col("device").sum().alias("device_time"),
        *statistics,
        pl.col("launch").get(pl.col("length").arg_max()).alias("call_event"),
        pl.col("id").get(pl.col("delay").arg_max()).alias("event"),
        *collect_counted_events(options),
    )
    kernel = pl.col("name").cast(pl.String) if "name" in keys else pl.lit(None, pl.String)
    return _complete_columns(rows.with_columns(kernel.alias("kernel"), pl.col("delay_mean").alias("delay")))


def _latest_launches(launch_rows: pl.DataFrame, lanes: pl.DataFrame, options: Options) -> pl.DataFrame:
    """A row for every launch: the latest, as many as requested."""
    latest = launch_rows.sort("delay", "launch", descending=[True, False])
    chosen_rows = latest if options.top is None else latest.head(options.top)
    streams = dict(lanes.select("lane", "name").iter_rows())
    return _complete_columns(
        chosen_rows.select(
            "call", "events", "delay", "correlation", "short", "long", "late", "queued", "blocking",
            pl.col("name").cast(pl.String).alias("kernel"),
            pl.col("lane").replace_strict(streams, return_dtype=pl.String).alias("stream"),
            pl.col("called").alias("at"),
            pl.lit(1).alias("launches"),
            pl.col("length").alias("call_time"),
            pl.col("device").alias("device_time"),
            pl.col("launch").alias("call_event"),
            pl.col("id").alias("event"),
            *collect_counted_events(options, pl.concat_list("id")),
        )
    )  # fmt: skip


def _complete_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with all columns of the result but the rank, in their types; null where a column is missing."""
    types = empty_table(COLUMNS[1:]).schema
    filled_columns = [name if name in rows.columns else pl.lit(None).alias(name) for name in types]
    return rows.select(*filled_columns, COUNTED_COLUMN).cast(types)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """Calls or kernels, the most time first, those of one name together; or launches, the latest first."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, note("no_launches", level="missing"))
    totals = rows.group_by("rank").agg(pl.col("unknown", "early", "^all_.*$").first()).sum()
    launches, short, long, late, queued = (int(totals[f"all_{name}"][0]) for name in _TOTAL_COLUMNS)
    total_note = note("launches_total", launches=launches, short=short, long=long, late=late, queued=queued)
    notes = [total_note, *launch_doubt_notes(int(totals["unknown"][0]), int(totals["early"][0]), context)]
    row_kind = BY_SETTING.value_in(options.given)
    if row_kind == "launch":
        latest = rows.sort("delay", "rank", "call_event", descending=[True, False, False])
        return replace(make_result(ANALYSIS, latest, context, options, notes), total=launches)
    group_time = pl.col("device_time" if row_kind == "kernel" else "call_time").sum().over("call", "kernel")
    table = rows.with_columns(group_time.alias("alike")).sort(
        "alike", "call", "kernel", "rank", descending=[True, False, False, False]
    )
    return make_result(ANALYSIS, table, context, options, notes)


ANALYSIS = Analysis(
    name="launches",
    title="Launches",
    question="What does launching cost: long calls, kernels shorter than their launch, work that begins late?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    limits_rows=True,
    count_column="launches",
    settings=(BY_SETTING, LONG_SETTING, DELAY_SETTING),
)
