"""Length of the launch queue of each stream over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import Setting, parse_whole_number
from tracehound.analysis.hosts.launch_calls import (
    ENQUEUED_WORK_DEFINITION,
    EnqueuedWork,
    enqueued_work_lanes,
    find_enqueued_work,
    launch_doubt_notes,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    counted_events_field,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.time_series import RunningSum, TimeSeries, sum_over_time, weighted_distribution
from tracehound.model.notes import Note, note
from tracehound.numeric.intervals import Ints

CUDA_LIMIT: Final = 1024
"""Most launches of a stream that can wait in CUDA."""

LIMIT_SETTING: Final = Setting(
    "limit", str(CUDA_LIMIT), "number of waiting launches that fill a queue (the next call waits)", parse_whole_number
)

DEFINITION = f"""\
{ENQUEUED_WORK_DEFINITION}

The queue of a stream grows by one at the start of a call that puts work on the stream, and shrinks by one at the start
of the first of that work: it holds what was launched and has not begun. A graph launch is one entry on each stream on
which its nodes run. Work without a known call is never in the queue. Work that seems to begin before its call (the
clocks disagree) does not wait at all.

mean, p50 and p99 are weighted with time: mean = the queue's length, integrated over the span, / the span; for half of
the time the queue is no longer than p50. The span is from the first call to the start of the last work of the stream,
or the window. blocked = time in which the queue is at least 1,024 long (the setting limit), at which CUDA makes the
next call wait; HIP does not, and its queues grow longer.

HolisticTraceAnalysis' summary weighs every change alike, two for each launch, however long each length lasts: points,
point mean and the like are its count, mean and quartiles, for comparison. They describe busy moments, which have many
changes, and hardly long ones. It counts at the same instants, but leaves out hipModuleLaunchKernel, hipExtLaunchKernel
and graphs, rounds fractional times to microseconds, and leaves out the last step; its blocked time is that of one
stream of a rank, as a share of the rank's whole time."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("stream", "text", "stream of the device"),
    Column("launches", "count", "calls in the window that put work on the stream"),
    Column("span", "time", "first call to last start of work, or the window", brief=False),
    Column("mean", "decimal", "mean length over time"),
    Column("p50", "count", "length not exceeded for half of the time"),
    Column("p99", "count", "length not exceeded for 99 % of the time"),
    Column("max", "count", "longest"),
    Column("blocked", "time", "time in which the queue is full"),
    Column("blocked_share", "share", "time in which the queue is full", "the span", brief=False),
    Column("at", "instant", "first time of the longest queue", brief=False),
    Column("points", "count", "number of changes (HTA's count)", brief=False),
    Column("point_mean", "decimal", "mean over the changes (HTA's mean)", brief=False),
    Column("point_std", "decimal", "standard deviation over the changes", brief=False),
    Column("point_p25", "decimal", "25th percentile over the changes", brief=False),
    Column("point_p50", "decimal", "median over the changes", brief=False),
    Column("point_p75", "decimal", "75th percentile over the changes", brief=False),
    Column("event", "id", "the call that made it longest"),
)


class _StreamQueue(NamedTuple):
    """One stream's queue: the time and call of each entry, and the length after every change.

    `last` is the start of the last work of the stream: nodes of a graph start after its entry has left the queue.
    """

    name: str
    stream: int | None
    last: int
    called: Ints
    launch: Ints
    steps: RunningSum


def queue_series(rank_trace: RankTrace) -> Sequence[TimeSeries]:
    """The queue length of every stream of the rank that has a queue; clipped to the window, if there is one."""
    return [
        (queue.steps.clipped(rank_trace.start, rank_trace.end) if rank_trace.windowed else queue.steps).to_time_series(
            queue.name, queue.stream
        )
        for queue in _stream_queues(rank_trace, find_enqueued_work(rank_trace, rank_trace.device_anytime))
    ]


def _stream_queues(rank_trace: RankTrace, launches: EnqueuedWork) -> Iterator[_StreamQueue]:
    work = launches.work
    lanes = enqueued_work_lanes(rank_trace.lanes).sort("order")
    lows, highs = (work["lane"].search_sorted(lanes["lane"], side).to_list() for side in ("left", "right"))
    for name, stream, low, high in zip(lanes["name"], lanes["stream"], lows, highs, strict=True):
        entries = work[low:high]
        if launches.has_shared_launches:
            entries = entries.filter(pl.col("launch").is_first_distinct())
        called, start = entries["called"].to_numpy(), entries["start"].to_numpy()
        steps = sum_over_time(called, np.maximum(called, start), np.ones(len(called), np.int64))
        if len(called):
            last = int(work["start"].to_numpy()[low:high].max())
            yield _StreamQueue(name, stream, last, called, entries["launch"].to_numpy(), steps)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each stream whose queue changes, or is not empty, in the window."""
    limit = LIMIT_SETTING.value_in(options.given)
    launches = find_enqueued_work(rank_trace, rank_trace.device_anytime)
    rows = [
        row for queue in _stream_queues(rank_trace, launches) if (row := _queue_row(queue, rank_trace, limit, options))
    ]
    if not rows:
        return pl.DataFrame()
    launches = find_enqueued_work(rank_trace, rank_trace.device) if rank_trace.windowed else launches
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(launches.count_unlaunched, pl.Int64).alias("unknown"),
        pl.lit(launches.count_before_launch, pl.Int64).alias("early"),
    )


def _queue_row(queue: _StreamQueue, rank_trace: RankTrace, limit: int, options: Options) -> dict[str, object]:
    """The measures of one queue; empty where the queue is always empty."""
    changes = steps = queue.steps
    start, end = int(steps.time[0]), max(int(steps.time[-1]), queue.last)
    if rank_trace.windowed:
        start, end = rank_trace.start, rank_trace.end
        changes, steps = changes.between(start, end), steps.clipped(start, end)
    steps = steps.last_per_instant()
    longest = int(np.argmax(steps.value))
    if not len(changes.time) and not steps.value[longest]:
        return {}
    lasting = steps.durations(end)
    over_time, over_changes = weighted_distribution(steps.value, lasting), weighted_distribution(changes.value)
    blocked = int(lasting[steps.value >= limit].sum())
    called_in_window = (queue.called >= start) & (queue.called < end + (not rank_trace.windowed))
    launch = queue.launch[_latest_call(queue.called, int(steps.time[longest]))]
    return {
        "stream": queue.name,
        "launches": int(called_in_window.sum()),
        "span": end - start,
        "mean": over_time.mean,
        "p50": over_time.lowest_value_with_share(0.5),
        "p99": over_time.lowest_value_with_share(0.99),
        "max": int(steps.value[longest]),
        "blocked": blocked,
        "blocked_share": blocked / (end - start) if end > start else None,
        "at": int(steps.time[longest]),
        "points": over_changes.total,
        "point_mean": over_changes.mean,
        "point_std": over_changes.standard_deviation,
        **{f"point_p{part}": over_changes.quantile(part / 100) for part in (25, 50, 75)},
        "event": int(launch),
        **counted_events_field(options, pl.Series(queue.launch[called_in_window])),
    }


def _latest_call(called: Ints, instant: int) -> int:
    """The position of the last call that has begun at an instant."""
    return int(np.argmax(np.where(called <= instant, called, np.iinfo(np.int64).min)))


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks in the order of ranks; within a rank the streams in their order."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, note("no_queue", level="missing"))
    return make_result(ANALYSIS, rows, context, options, _notes(rows, LIMIT_SETTING.value_in(options.given), context))


_NEARLY_FULL: Final = 0.95
"""A queue that reaches this share of the limit may be full: not all its entries are recorded."""


def _notes(rows: pl.DataFrame, limit: int, context: RunContext) -> list[Note]:
    ranks = rows.group_by("rank").agg(pl.col("unknown", "early").first())
    longest = int(rows["max"].to_numpy().max())
    notes = []
    if longest > CUDA_LIMIT * (2 - _NEARLY_FULL):
        notes.append(note("queue_without_limit", launches=longest, limit=CUDA_LIMIT))
    elif _NEARLY_FULL * limit <= longest < limit:
        rounded_length = longest - longest % 10
        notes.append(note("queue_nearly_full", launches=longest, limit=limit, near=rounded_length))
    return [*notes, *launch_doubt_notes(int(ranks["unknown"].sum()), int(ranks["early"].sum()), context)]


ANALYSIS = Analysis(
    name="queue",
    title="Queue",
    question="How long is the queue of each stream, and how long is it full?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    count_column="launches",
    settings=(LIMIT_SETTING,),
)
