"""How long the queue of each stream is over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.events.series import Series, Steps, added, spread
from tracehound.analysis.hosts.launched import WORK, Launched, doubts, enqueued, launched
from tracehound.analysis.members import listed
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, whole
from tracehound.intervals import Ints
from tracehound.notes import Note, note

CUDA_LIMIT: Final = 1024
"""So many launches of a stream may wait in CUDA."""

LIMIT: Final = Setting(
    "limit", str(CUDA_LIMIT), "so many waiting launches make a queue full: then the next call waits", whole
)

DEFINITION = f"""\
{WORK}

The queue of a stream grows by one at the start of a call that puts work on the stream, and shrinks by one at the start
of the first of that work: it holds what was asked for and has not begun. A graph's launch is one entry on each stream
on which nodes of it run. Work whose call is not known is never in the queue. Where work seems to begin before its call
(two clocks that disagree), it does not wait at all.

mean, p50 and p99 are weighted with time: mean = the queue's length, integrated over the span, / the span; for half of
the time the queue is not longer than p50. The span is from the first call to the start of the last work of the stream,
or the window. blocked = time in which the queue is at least 1,024 long (the setting limit), where CUDA makes the next
call wait; HIP does not, and its queues grow longer.

HolisticTraceAnalysis' summary is that of the changes, two for each launch, however long each length lasts: points,
point mean and the like are its count, mean and quartiles, for comparison. They tell of busy moments, in which there
are many changes, and hardly of long ones. It counts at the same instants, but leaves out hipModuleLaunchKernel,
hipExtLaunchKernel and graphs, rounds times to microseconds where they have fractions, and leaves out the last step; its
time blocked is that of one stream of a rank alone, and a share of the rank's whole time."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("stream", "text", "stream of the device"),
    Column("launches", "count", "calls, made in the window, that put work on the stream"),
    Column("span", "time", "first call to last start of work, or the window", brief=False),
    Column("mean", "decimal", "average length over time"),
    Column("p50", "count", "not longer for half of the time"),
    Column("p99", "count", "not longer for 99 % of the time"),
    Column("max", "count", "longest"),
    Column("blocked", "time", "in which the queue is full"),
    Column("blocked_share", "share", "in which the queue is full", "span", brief=False),
    Column("at", "instant", "when the queue was the longest first", brief=False),
    Column("points", "count", "changes: HTA's count", brief=False),
    Column("point_mean", "decimal", "average over the changes: HTA's mean", brief=False),
    Column("point_std", "decimal", "standard deviation over the changes", brief=False),
    Column("point_p25", "decimal", "a quarter of the changes is not above", brief=False),
    Column("point_p50", "decimal", "half of the changes is not above", brief=False),
    Column("point_p75", "decimal", "three quarters of the changes are not above", brief=False),
    Column("event", "id", "the call that made it the longest"),
)


class _Queue(NamedTuple):
    """One stream's queue: when each entry came, by which call, and the length after every change.

    `last` is when the last work of the stream starts: nodes of a graph start after its entry has left the queue.
    """

    name: str
    stream: int | None
    last: int
    called: Ints
    launch: Ints
    steps: Steps


def series(share: Share) -> Sequence[Series]:
    """The length of the queue of every stream of the rank that has one; within the share's window, if it has one."""
    return [
        (queue.steps.within(share.start, share.end) if share.windowed else queue.steps).series(queue.name, queue.stream)
        for queue in _queues(share, launched(share, share.anytime))
    ]


def _queues(share: Share, known: Launched) -> Iterator[_Queue]:
    work = known.work
    lanes = enqueued(share.lanes).sort("order")
    lows, highs = (work["lane"].search_sorted(lanes["lane"], side).to_list() for side in ("left", "right"))
    for name, stream, low, high in zip(lanes["name"], lanes["stream"], lows, highs, strict=True):
        entries = work[low:high]
        if known.several:
            entries = entries.filter(pl.col("launch").is_first_distinct())
        called, start = entries["called"].to_numpy(), entries["start"].to_numpy()
        steps = added(called, np.maximum(called, start), np.ones(len(called), np.int64))
        if len(called):
            last = int(work["start"].to_numpy()[low:high].max())
            yield _Queue(name, stream, last, called, entries["launch"].to_numpy(), steps)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each stream whose queue changes, or holds something, in the window."""
    limit = LIMIT.of(options.given)
    known = launched(share, share.anytime)
    rows = [row for queue in _queues(share, known) if (row := _row(queue, share, limit, options))]
    if not rows:
        return pl.DataFrame()
    known = launched(share, share.device) if share.windowed else known
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(known.unknown, pl.Int64).alias("unknown"),
        pl.lit(known.early, pl.Int64).alias("early"),
    )


def _row(queue: _Queue, share: Share, limit: int, options: Options) -> dict[str, object]:
    """The figures of one queue; nothing where it is empty all the time."""
    changes = steps = queue.steps
    start, end = int(steps.time[0]), max(int(steps.time[-1]), queue.last)
    if share.windowed:
        start, end = share.start, share.end
        changes, steps = changes.between(start, end), steps.within(start, end)
    steps = steps.merged()
    longest = int(np.argmax(steps.value))
    if not len(changes.time) and not steps.value[longest]:
        return {}
    lasting = steps.lasting(end)
    over_time, seen = spread(steps.value, lasting), spread(changes.value)
    blocked = int(lasting[steps.value >= limit].sum())
    here = (queue.called >= start) & (queue.called < end + (not share.windowed))
    launch = queue.launch[_latest(queue.called, int(steps.time[longest]))]
    return {
        "stream": queue.name,
        "launches": int(here.sum()),
        "span": end - start,
        "mean": over_time.mean,
        "p50": over_time.reached(0.5),
        "p99": over_time.reached(0.99),
        "max": int(steps.value[longest]),
        "blocked": blocked,
        "blocked_share": blocked / (end - start) if end > start else None,
        "at": int(steps.time[longest]),
        "points": seen.total,
        "point_mean": seen.mean,
        "point_std": seen.deviation,
        **{f"point_p{part}": seen.quantile(part / 100) for part in (25, 50, 75)},
        "event": int(launch),
        **listed(options, pl.Series(queue.launch[here])),
    }


def _latest(called: Ints, instant: int) -> int:
    """The place of the last call that has begun at an instant."""
    return int(np.argmax(np.where(called <= instant, called, np.iinfo(np.int64).min)))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of all ranks in their order, of each the streams in theirs."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, note("no_queue", level="missing"))
    return answer(ANALYSIS, rows, scene, options, _notes(rows, LIMIT.of(options.given), scene))


_NEARLY: Final = 0.95
"""A queue that reaches this part of the limit may be a full one: not all that takes a place in it is recorded."""


def _notes(rows: pl.DataFrame, limit: int, scene: Scene) -> list[Note]:
    ranks = rows.group_by("rank").agg(pl.col("unknown", "early").first())
    longest = int(rows["max"].to_numpy().max())
    found = []
    if longest > CUDA_LIMIT * (2 - _NEARLY):
        found.append(note("queue_without_limit", launches=longest, limit=CUDA_LIMIT))
    elif _NEARLY * limit <= longest < limit:
        near = longest - longest % 10
        found.append(note("queue_nearly_full", launches=longest, limit=limit, near=near))
    return [*found, *doubts(int(ranks["unknown"].sum()), int(ranks["early"].sum()), scene)]


ANALYSIS = Analysis(
    name="queue",
    title="Queue",
    question="How long is the queue of each stream, and how long is it full?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="launches",
    settings=(LIMIT,),
)
