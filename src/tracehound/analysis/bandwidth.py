"""Bandwidth of copies over time, by the kind of copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings, Setting, parse_whole_number
from tracehound.analysis.devices.device_copies import copy_kinds
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    counted_events_field,
    empty_result,
    fraction_of,
    make_result,
)
from tracehound.analysis.timing.device_busy import COPY_KINDS, device_work
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    DeviceClock,
    device_clock,
    window_length_notes,
    work_on_device_clock,
)
from tracehound.analysis.timing.time_series import RunningSum, TimeSeries, sum_over_time, weighted_distribution
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.model.units import PS_PER_S, PS_PER_US
from tracehound.numeric.intervals import Ints, union

PEAK_SETTING: Final = Setting(
    "peak",
    "8000",
    "copies above this bandwidth are not measured (no device memory is faster)",
    parse_whole_number,
)

DEFINITION = """\
Copies are the copies, memsets and transfers on the device's streams, and on TPUs those on its asynchronous lines,
where they count from start to done, including time in the queue of a link (transfers has the speed of links). HLO ops
that copy are in ops. Kinds are HtoD, DtoH, DtoD, PtoP (from one device to another) and memset, whatever the file calls
them and whether memory is pinned or not; the M (pageable) and S (shared) of XPUs count as host memory. If a copy's
name does not tell its direction (__amd_rocclr_copyBuffer), the launching call does (hipMemcpyHtoDAsync); if neither
does, its kind is its name. The bandwidth of a copy is its bytes / its duration; at each instant the bandwidth of a
kind is the sum over its running copies.

mean, p50, p99 and max are weighted with time, over the time in which a copy of the kind runs (busy): mean = bytes
moved / busy. share is busy / the rank's time, idle included. A copy of length 0, of unknown size, or above 8,000 GB/s
(the setting peak) has no plausible bandwidth: it counts as unmeasured, and only in the number of copies. Times of a
device with a clock of its own (TPU), and the bounds of a window, are on that clock; at is an instant on the trace's
clock.

Where all durations are whole microseconds, as in older files, a copy has the bandwidth that the file states for it and
lasts as long as that means, if this duration rounds down to the recorded one (some files state a bandwidth by another
clock). Without such a bandwidth that of a short copy is a rough one: a note says of how many.

HolisticTraceAnalysis' summary weighs every change alike, however long each bandwidth lasts: points, point mean and the
like are its count, mean and quartiles, for comparison. It takes the bandwidth that the file states, rounds fractional
times to microseconds with at least one for each copy, leaves out the last step, and counts remainders such as 1e-16
GB/s; here bandwidths are whole bytes per second."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("kind", "text", "HtoD, DtoH, DtoD, PtoP, memset; else the name"),
    Column("copies", "count", "copies of the kind"),
    Column("unmeasured", "count", "copies without a plausible bandwidth (length 0, no size, or too fast)"),
    Column("bytes", "bytes", "bytes moved by the measured copies"),
    Column("busy", "time", "time in which at least one of them runs"),
    Column("share", "share", "time in which at least one of them runs", "the rank's time, idle included", brief=False),
    Column("mean", "rate", "bytes / busy"),
    Column("max", "rate", "maximum; overlapping copies add up"),
    Column("p50", "rate", "bandwidth not exceeded for half of busy", brief=False),
    Column("p99", "rate", "bandwidth not exceeded for 99 % of busy", brief=False),
    Column("at", "instant", "first time of the maximum", brief=False),
    Column("points", "count", "changes at which a copy runs (HTA's count)", brief=False),
    Column("point_mean", "rate", "mean over these (HTA's mean)", brief=False),
    Column("point_std", "rate", "standard deviation over these", brief=False),
    Column("point_min", "rate", "minimum of these", brief=False),
    Column("point_p25", "rate", "25th percentile of these", brief=False),
    Column("point_p50", "rate", "median of these", brief=False),
    Column("point_p75", "rate", "75th percentile of these", brief=False),
    Column("event", "id", "the copy that took longest"),
)

_ROUGH_LENGTH: Final = 4 * PS_PER_US
"""Longest copy, recorded in whole microseconds, whose true length may differ by a quarter."""


class _CopiesOfKind(NamedTuple):
    """The copies of one kind: the ids of all `events`, the `longest` of them, and those that have a bandwidth.

    `rate` is in bytes per second, and above 0; that of `rough` copies is known to a quarter or worse.
    """

    kind: str
    events: pl.Series
    longest: int
    rough: int
    start: Ints
    end: Ints
    bytes: Ints
    rate: Ints

    @property
    def total_bandwidth(self) -> RunningSum:
        """The sum of their bandwidths as a step function of time."""
        return sum_over_time(self.start, self.end, self.rate)


class _CopyTimeBounds(NamedTuple):
    """Time in which the device could copy, ps: on its own clock where it has one, else on the trace's."""

    clock: DeviceClock | None
    start: int
    end: int

    def to_trace_time(self, instant: int) -> int:
        """Convert an instant to the trace's clock."""
        return instant if self.clock is None else int(self.clock.inverse.to_device_start(np.array([instant]))[0])


def _device_time(rank_trace: RankTrace) -> _CopyTimeBounds:
    """The window, or the time from the first work to the last."""
    device_work_bounds = work_on_device_clock(device_work(rank_trace, "lane", *DEVICE_TIMES), rank_trace)
    clock = device_clock(rank_trace)
    if clock is None or not device_work_bounds.events.is_empty():
        return _CopyTimeBounds(clock, device_work_bounds.start, device_work_bounds.end)
    ends = clock.to_device_bounds(np.array([rank_trace.start]), np.array([rank_trace.end]))
    return _CopyTimeBounds(clock, *(int(end[0]) for end in ends))


def bandwidth_series(rank_trace: RankTrace, given: ChosenSettings = ()) -> Sequence[TimeSeries]:
    """The bandwidth of every kind of copy on the rank, bytes per second; clipped to the window, if there is one.

    All times are the trace's: these are lanes of the timeline.
    """
    time = _CopyTimeBounds(None, rank_trace.start, rank_trace.end)
    measured_kinds = [copies for copies in _copies_by_kind(rank_trace, given, None) if len(copies.rate)]
    return [
        _clip_to_window(copies.total_bandwidth, rank_trace, time).to_time_series(copies.kind, None)
        for copies in measured_kinds
    ]


def _clip_to_window(steps: RunningSum, rank_trace: RankTrace, time: _CopyTimeBounds) -> RunningSum:
    return steps.clipped(time.start, time.end) if rank_trace.windowed else steps


def _copies_by_kind(rank_trace: RankTrace, given: ChosenSettings, clock: DeviceClock | None) -> Iterator[_CopiesOfKind]:
    """The copies that overlap the window, kind by kind, on the given clock."""
    device = rank_trace.lanes.filter(pl.col("rank").is_not_null())
    lanes = device.filter((pl.col("work") & (pl.col("role") != "ops")) | (pl.col("role") == "async"))["lane"]
    is_copy = pl.col("lane").is_in(lanes.to_list()) & pl.col("kind").is_in(COPY_KINDS)
    rows = collect_frame(
        rank_trace.device.filter(is_copy).select(
            "id", "start", "end", *DEVICE_TIMES, "name", "kind", "bytes", "launch", "record"
        )
    )
    rows = _with_exact_ends(rows, rank_trace)
    if clock is not None:
        bounds = clock.to_device_bounds(rows["start"].to_numpy(), rows["end"].to_numpy())
        start, end = (
            pl.coalesce(name, pl.Series(device_bounds))
            for name, device_bounds in zip(DEVICE_TIMES, bounds, strict=True)
        )
        rows = rows.with_columns(start=start, end=end)
    parts = rows.with_columns(copy_kinds(rank_trace, rows).alias("told")).partition_by("told", as_dict=True)
    for (kind,), part in sorted(parts.items()):
        yield _measure_copies(str(kind), part, PEAK_SETTING.value_in(given))


_GIGA: Final = 1e9


def _with_exact_ends(rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The copies, those of whole microseconds with the ends that the bandwidth in the file means.

    Adds `rounded`: all lengths are whole microseconds, and this one's exact length is not known. The file's bandwidth
    counts where it fits: bytes / bandwidth rounds down to the length. (Some files state it in ticks of another clock.)
    """
    length = pl.col("end") - pl.col("start")
    if rows.is_empty() or rows.select((length % PS_PER_US != 0).any()).item():
        return rows.with_columns(pl.lit(value=False).alias("rounded"))
    stated = collect_frame(rank_trace.facet("copied"))
    exact = (pl.col("bytes") / pl.col("bandwidth") * (PS_PER_S / _GIGA)).round()
    fits = (pl.col("bandwidth") > 0) & (exact >= length) & (exact < length + PS_PER_US)
    return (
        rows.join(stated, on="record", how="left", maintain_order="left")
        .with_columns(fits.fill_null(value=False).alias("fits"))
        .with_columns(
            pl.when("fits").then(pl.col("start") + exact.cast(pl.Int64, strict=False)).otherwise("end").alias("end"),
            (~pl.col("fits")).alias("rounded"),
        )
    )


def _measure_copies(kind: str, rows: pl.DataFrame, peak: int) -> _CopiesOfKind:
    """The copies of one kind; `peak` in GB/s."""
    start, end = (rows[name].to_numpy() for name in ("start", "end"))
    size = rows["bytes"].fill_null(0).to_numpy()
    rate = np.rint(size * PS_PER_S / np.maximum(end - start, 1))
    measurable = (end > start) & (rate > 0) & (rate <= peak * 1e9)
    longest = int(rows["id"][int(np.argmax(end - start))])
    lengths = (end - start)[measurable & rows["rounded"].to_numpy()]
    rough = int((lengths <= _ROUGH_LENGTH).sum())
    return _CopiesOfKind(
        kind,
        rows["id"],
        longest,
        rough,
        start[measurable],
        end[measurable],
        size[measurable],
        rate[measurable].astype(np.int64),
    )


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each kind of copy."""
    time = _device_time(rank_trace)
    kinds = list(_copies_by_kind(rank_trace, options.given, time.clock))
    if not kinds:
        return pl.DataFrame({_NO_COPIES: [rank_trace.rank]})
    length = time.end - time.start
    rows = [_kind_row(copies, rank_trace, time, options) for copies in kinds]
    queue = not rank_trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "async")).is_empty()
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"bytes": pl.Int64}).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(queue).alias("queue"),
        fraction_of("busy", length).alias("share"),
        pl.lit(length, pl.Int64).alias("span"),
    )


def _kind_row(
    copies: _CopiesOfKind, rank_trace: RankTrace, time: _CopyTimeBounds, options: Options
) -> dict[str, object]:
    """The measures of one kind. Without a copy of known bandwidth: 0 bytes, no time, no rate."""
    start, end = copies.start, copies.end
    if rank_trace.windowed:
        start, end = start.clip(time.start, time.end), end.clip(time.start, time.end)
    bytes_moved = float((copies.bytes * ((end - start) / (copies.end - copies.start))).sum())
    busy = union(start, end).length
    changes = copies.total_bandwidth.between(time.start, time.end) if rank_trace.windowed else copies.total_bandwidth
    steps = _clip_to_window(copies.total_bandwidth, rank_trace, time).last_per_instant()
    lasting = steps.durations(time.end)
    running = (steps.value > 0) & (lasting > 0)
    over_time = weighted_distribution(steps.value[running], lasting[running])
    over_changes = weighted_distribution(changes.value[changes.value > 0])
    highest = int(np.argmax(steps.value)) if over_time.total else None
    return {
        "kind": copies.kind,
        "copies": len(copies.events),
        "unmeasured": len(copies.events) - len(copies.rate),
        "rough": copies.rough,
        "bytes": round(bytes_moved),
        "busy": busy,
        "mean": bytes_moved / busy * PS_PER_S if busy else None,
        "p50": over_time.lowest_value_with_share(0.5),
        "p99": over_time.lowest_value_with_share(0.99),
        "max": None if highest is None else int(steps.value[highest]),
        "at": None if highest is None else time.to_trace_time(int(steps.time[highest])),
        "points": over_changes.total,
        "point_mean": over_changes.mean,
        "point_std": over_changes.standard_deviation,
        "point_min": int(over_changes.value[0]) if over_changes.total else None,
        **{f"point_p{part}": over_changes.quantile(part / 100) for part in (25, 50, 75)},
        "event": copies.longest,
        **counted_events_field(options, copies.events),
    }


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks in the order of ranks; within a rank the kind that runs longest first."""
    silent = [int(table[_NO_COPIES][0]) for table in tables if _NO_COPIES in table.columns]
    rows = concat_tables([table for table in tables if _NO_COPIES not in table.columns])
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, note("no_copies", level="missing", hlo=context.is_xla))
    rows = rows.with_columns(pl.col("rank").rle_id().alias("place"))
    table = rows.sort("place", "busy", "kind", descending=[False, True, False])
    notes = [
        *_notes(table, PEAK_SETTING.value_in(options.given)),
        *_no_copies_notes(silent, context),
        *window_length_notes(table["span"], context),
    ]
    return make_result(ANALYSIS, table, context, options, notes)


_NO_COPIES: Final = "silent"
"""Name of the column that holds the number of a rank without copies."""


def _no_copies_notes(silent: Sequence[int], context: RunContext) -> list[Note]:
    """A note on the ranks that have no row."""
    ranks = tuple(sorted(silent))
    return [note("no_copies_on_ranks", level="missing", ranks=ranks, hlo=context.is_xla)] if ranks else []


def _notes(table: pl.DataFrame, peak: int) -> list[Note]:
    """Notes on bandwidths that are unknown or inexact."""
    unmeasured_copies, rough = int(table["unmeasured"].sum()), int(table["rough"].sum())
    notes = [note("copies_queued")] if table["queue"].any() else []
    if unmeasured_copies:
        first = table.filter(pl.col("unmeasured") > 0).row(0, named=True)
        kind, rank, limit = first["kind"], first["rank"], peak * 10**9
        notes.append(
            note("copies_not_measured", level="missing", copies=unmeasured_copies, limit=limit, kind=kind, rank=rank)
        )
    if rough:
        notes.append(note("copies_measured_roughly", level="missing", copies=rough, longest=_ROUGH_LENGTH))
    return notes


ANALYSIS = Analysis(
    name="bandwidth",
    title="Bandwidth",
    question="How fast do copies move bytes, by their direction?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="copies",
    settings=(PEAK_SETTING,),
)
