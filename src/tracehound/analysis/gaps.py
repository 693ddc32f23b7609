"""Gaps of each device: the ops around them, the host's activity meanwhile, and the launch that ended them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.hosts.host_threads import (
    THREAD_COLUMNS,
    THREADS_IN_MEMORY,
    innermost_per_window,
    overlaps_any_window,
    with_threads_in_memory,
)
from tracehound.analysis.hosts.launch_calls import blocking_copy_calls, launching_calls
from tracehound.analysis.hosts.thread_activity import (
    PROGRAM_ACTIVITIES,
    longest_activity,
    read_thread_activities,
    responsible_lanes,
)
from tracehound.analysis.packed_tables import drop_unused_texts
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks.same_gaps import group_same_gaps
from tracehound.analysis.result import (
    HOST_ACTIVITY,
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import (
    device_work,
    recording_bounds,
    rounding_gap,
    union_of_work,
    work_bounds,
)
from tracehound.analysis.timing.device_clock import (
    CLOCK_TOLERANCE,
    DEVICE_TIMES,
    has_device_clock,
    work_on_device_clock,
)
from tracehound.analysis.timing.row_groups import largest_rows
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Intervals, Ints, Mask, complement, split_at_instants

DEFINITION = """\
A gap is an interval in which no work runs on any stream or line of a rank's device, between its first and its last
work, inside or outside of steps. With a window, gaps are between the window's ends and are cut at them. A note has the
time before the first and after the last work. An interval of 1 ns is no gap, since files round start and length to
whole ns separately; the idle time of breakdown includes such intervals. Work of length 0 ends one gap and begins
another. before = the op that ended last at or before the start of the gap. after = the op that starts next. launch =
the host event that enqueued `after` (the runtime call of its correlation id, the producer of its context, or the
execution of its run id). launched = time from the start of that call to the start of `after`: if it is shorter than
the gap, the device idled because the host had not launched anything. It is empty if the call seems to begin later.
host = for each host thread the innermost events during the gap, with their share of the gap.

why = what one host thread did for most of the gap, in words. In a PyTorch trace it is the thread that launched
`after`; in an XLA profile, where thread pools launch, it is the program's own thread, which has the step marks. The
names of events and of those around them tell: a wait inside the reading of a value is "blocked on the value". A copy
call that returned only when the copy had ended (cudaMemcpy; cudaMemcpyAsync with pageable memory) is "blocked on the
copy". In PyTorch/XLA, Python in a step or annotation and outside of the runtime is tracing, since tensors are lazy.
"nothing recorded" means that the thread has no event for most of the gap, or only the step's mark: annotate what the
program does there.

In text and markdown the same gap on several ranks is one row with the ranks, at the times of the longest. The same gap:
one cause (why), and an overlap of at least half of the longer gap. Ranks are named on which the gap is one of the 32
longest, or of as many as --top asks for. csv and json have a row for each rank.

Gaps are intervals on the timeline, and so on its clock. If the device's own clock (TPU) gives another idle time, a
note has it.

HolisticTraceAnalysis measures gaps per stream against the previous row, so a stream idles while another works, and
overlapping kernels give negative gaps; here a gap is idle time of the whole device."""

EVENTS_PER_THREAD = 2
MIN_SHARE = 0.01
"""The host column has at most `EVENTS_PER_THREAD` events of a thread, none with a smaller share of the gap."""

GAPS_AT_ONCE = 1 << 16
"""Gaps whose host activity is computed at once: that needs more memory than its result."""

LEAST_GAPS: Final = 32
"""Gaps of each rank that are found although fewer are asked for, so that the same gap is found on all of its ranks."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "length of the gap"),
    Column("share", "share", "the gap", "the time from the rank's first work to its last, or the window", brief=False),
    Column("before", "text", "op before it", brief=False),
    Column("after", "text", "op after it"),
    Column("launch", "text", "host event that enqueued the op after it", brief=False),
    Column("thread", "text", "thread of the launch", brief=False),
    Column("launched", "time", "from the launch to the op after the gap", brief=False),
    Column("why", "text", "what the host did for most of it", non_key=True),
    Column("why_share", "share", "what the host did", "the gap", brief=False),
    Column("host", "host", "what host threads did meanwhile"),
    Column("before_event", "id", "the op before"),
    Column("event", "id", "the op after"),
    Column("launch_event", "id", "the launch"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The longest gaps (as many as requested); every row also has the number and length of all gaps."""
    events = _work_in_window(rank_trace)
    low, high = work_bounds(events, rank_trace)
    idle, span = split_at_instants(complement(union_of_work(events), low, high), _zero_length_times(events)), high - low
    lengths = idle.end - idle.start
    zero_length = lengths[lengths <= rounding_gap(events["start"].to_numpy(), events["end"].to_numpy())]
    number = len(lengths) - len(zero_length)
    if events.is_empty() or not number:
        return pl.DataFrame()
    chosen = np.sort(largest_rows(lengths, min(number, max(options.top, LEAST_GAPS)) if options.top else number))
    gaps = Intervals(idle.start[chosen], idle.end[chosen])
    table = pl.DataFrame({"start": gaps.start, "duration": gaps.end - gaps.start}).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        (pl.col("duration") / span).alias("share"),
        pl.lit(number, pl.Int64).alias("gaps"),
        pl.lit(idle.length, pl.Int64).alias("idle"),
        pl.lit(int(zero_length.sum()), pl.Int64).alias("none"),
        pl.lit(span, pl.Int64).alias("span"),
        *_time_around_work(rank_trace, low, high),
        *_idle_on_device_clock(rank_trace, events),
    )
    neighbors = _neighbor_ops(events, gaps)
    rank_trace = with_threads_in_memory(rank_trace)
    threads = collect_frame(rank_trace.threads.filter(overlaps_any_window(gaps)).select(*THREAD_COLUMNS))
    calls = launching_calls(rank_trace, neighbors["launch_event"])
    host_column = _host_activity(threads, rank_trace.lanes, gaps)
    with_launch = _add_launch(pl.concat([table, neighbors, host_column], how="horizontal"), calls, rank_trace.lanes)
    return with_launch.with_columns(_main_host_activity(rank_trace, with_launch, gaps, threads))


def _time_around_work(rank_trace: RankTrace, low: int, high: int) -> list[pl.Expr]:
    """Recorded time before and after the range in which gaps are searched; 0 in a window."""
    first, last = recording_bounds(rank_trace)
    before, after = (0, 0) if rank_trace.windowed else (max(low - first, 0), max(last - high, 0))
    return [pl.lit(before, pl.Int64).alias("earlier"), pl.lit(after, pl.Int64).alias("later")]


def _zero_length_times(events: pl.DataFrame) -> Ints:
    """Sorted instants at which work without a length ran."""
    return events.filter(pl.col("start") == pl.col("end"))["start"].unique().sort().to_numpy()


def _work_in_window(rank_trace: RankTrace) -> pl.DataFrame:
    """The device's work in the window, and the next work on either side."""
    columns = ("name", "launch", "lane", *DEVICE_TIMES)
    if not rank_trace.windowed:
        return device_work(rank_trace, *columns)
    lanes = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())["lane"].to_list()
    all_work = rank_trace.device_anytime.filter(pl.col("lane").is_in(lanes))
    before = all_work.filter(pl.col("end") <= rank_trace.start).bottom_k(1, by=[-pl.col("end"), -pl.col("id")])
    after = all_work.filter(pl.col("start") >= rank_trace.end).bottom_k(1, by=["start", "id"])
    nearby = device_work(replace(rank_trace, device=pl.concat([before, rank_trace.device, after])), *columns)
    return nearby.unique("id").sort("id")


def _idle_on_device_clock(rank_trace: RankTrace, events: pl.DataFrame) -> list[pl.Expr]:
    """Idle time and span on the device's own clock; null where it has none."""
    device_clock_work = work_on_device_clock(events, rank_trace) if has_device_clock(events) else None
    idle, span = (
        (device_clock_work.device_time - device_clock_work.busy_time, device_clock_work.device_time)
        if device_clock_work
        else (None, None)
    )
    return [pl.lit(idle, pl.Int64).alias("own_idle"), pl.lit(span, pl.Int64).alias("own_span")]


def _main_host_activity(
    rank_trace: RankTrace, gap_rows: pl.DataFrame, gaps: Intervals, threads: pl.DataFrame
) -> list[pl.Series]:
    """The main activity of the host in each gap, and its share; `threads` has all events during the gaps."""
    launching_lanes = gap_rows["lane"].fill_null(-1).to_numpy()
    activities = read_thread_activities(
        rank_trace,
        launching_lanes,
        blocking_copy_calls(rank_trace),
        lambda lane: [threads.lazy().filter(pl.col("lane") == lane)],
    )
    activity_times = activities.time_per_interval(
        responsible_lanes(rank_trace, activities, launching_lanes), gaps.start, gaps.end
    )
    activity_names, time = longest_activity(activity_times)
    shares = pl.Series("why_share", time / (gaps.end - gaps.start))
    return [activity_names, shares.set(activity_names.is_null(), None)]


def _neighbor_ops(events: pl.DataFrame, gaps: Intervals) -> pl.DataFrame:
    """The op that ended last before each gap and the first that starts after it, with the latter's launch."""
    order, ends = _sort_times(events["end"].to_numpy())
    position = np.searchsorted(ends, gaps.start, side="right") - 1
    before = np.where(position < 0, -1, order[np.maximum(position, 0)])
    order, starts = _sort_times(events["start"].to_numpy())
    position = np.searchsorted(starts, gaps.end, side="left")
    after = np.where(position >= len(starts), -1, order[np.minimum(position, len(starts) - 1)])
    rows = events.select("name", "id", "launch", "start")

    def pick(index: Ints) -> pl.DataFrame:
        picked = rows[np.maximum(index, 0)].with_columns(pl.col("name").cast(pl.String))
        return picked.with_columns(pl.when(pl.Series(index) >= 0).then(pl.all()).name.keep())

    first, second = pick(before), pick(after)
    return pl.DataFrame(
        [
            first["name"].alias("before"),
            first["id"].alias("before_event"),
            second["name"].alias("after"),
            second["id"].alias("event"),
            second["launch"].alias("launch_event"),
            second["start"].alias("resumed"),
        ]
    )


def _sort_times(times: Ints) -> tuple[npt.NDArray[np.intp], Ints]:
    """Row numbers in the order of their times, and the sorted times. Times of one stream are sorted already."""
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times)), times
    order = np.argsort(times, kind="stable")
    return order, times[order]


def _host_activity(threads: pl.DataFrame, lanes: pl.DataFrame, gaps: Intervals) -> pl.DataFrame:
    """For each gap the activity of host threads, as a list in one column, the largest share first."""
    firsts = range(0, max(1, len(gaps.start)), GAPS_AT_ONCE)
    chunks = (
        Intervals(gaps.start[first : first + GAPS_AT_ONCE], gaps.end[first : first + GAPS_AT_ONCE]) for first in firsts
    )
    return pl.concat([_host_activity_in_chunk(threads, lanes, part) for part in chunks])


def _host_activity_in_chunk(threads: pl.DataFrame, lanes: pl.DataFrame, gaps: Intervals) -> pl.DataFrame:
    """The activity of host threads in some of the gaps."""
    length = pl.DataFrame({"window": np.arange(len(gaps.start)), "length": gaps.end - gaps.start})
    names = lanes.select("lane", pl.col("name").alias("thread"))
    activity = innermost_per_window(threads, gaps)
    activity_lists = (
        activity.filter(_first_rows_of_lanes(activity["window"].to_numpy(), activity["lane"].to_numpy()))
        .join(length, on="window", maintain_order="left")
        .join(names, on="lane", maintain_order="left")
        .with_columns((pl.col("time") / pl.col("length")).alias("share"))
        .filter(pl.col("share") >= MIN_SHARE)
        .sort("window", "share", "thread", descending=[False, True, False], maintain_order=True)
        .group_by("window", maintain_order=True)
        .agg(pl.struct("thread", pl.col("name").alias("event"), "inside", "share", "time").alias("host"))
    )
    all_gaps = length.join(activity_lists, on="window", how="left", maintain_order="left")
    return all_gaps.select(pl.col("host").cast(HOST_ACTIVITY).fill_null([]))


def _first_rows_of_lanes(window: Ints, lane: Ints) -> Mask:
    """Mask of the rows, sorted by window, that are among the first `EVENTS_PER_THREAD` of their lane in it."""
    order = np.lexsort((lane, window))  # stable
    window, lane = window[order], lane[order]
    limit = EVENTS_PER_THREAD
    leading = np.ones(len(order), np.bool_)
    leading[order[limit:]] = (window[limit:] != window[:-limit]) | (lane[limit:] != lane[:-limit])
    return leading


def _add_launch(gaps: pl.DataFrame, calls: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Add the launch that ended each gap: its name, its thread, and how long before the end it began."""
    launches = calls.select(pl.col("call").cast(pl.String).alias("launch"), pl.col("caller").alias("lane"), "called")
    names = lanes.select("lane", pl.col("name").alias("thread"))
    gaps_with_launch = pl.concat([gaps, launches], how="horizontal").join(
        names, on="lane", how="left", maintain_order="left"
    )
    launched = pl.col("resumed") - pl.col("called")
    return gaps_with_launch.with_columns(pl.when(launched >= 0).then(launched).alias("launched"), early=launched < 0)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The gaps of all ranks, the longest first. A short list keeps of the others those that are the same gaps.

    First without most columns: the texts of all gaps of thousands of ranks take hundreds of megabytes.
    """
    filled = [
        (table.select("rank", "start", "duration", "why"), table.group_by("rank").agg(_RANK_FIELDS))
        for table in stacks_of(tables)
        if table.height
    ]
    if not filled:
        return empty_result(ANALYSIS, context, options, note("no_gaps"))
    gaps, ranks = (pl.concat(frames) for frames in zip(*filled, strict=True))
    gaps = gaps.with_row_index("row").sort(*_ORDER, descending=_DESCENDING)
    notes = [_total_note(ranks), *_outside_notes(ranks), *_early_launch_notes(ranks), *_device_clock_notes(ranks)]
    if options.top is not None and options.top < LEAST_GAPS:
        same = list(chain.from_iterable(group_same_gaps(gaps, options.top)))
        rows = _filter_rows(tables, np.isin(np.arange(gaps.height), gaps["row"].gather(same)))
    else:
        rows = concat_tables(tables)
    rows = rows.sort(*_ORDER, descending=_DESCENDING)
    return replace(make_result(ANALYSIS, rows, context, options, notes), total=int(ranks["gaps"].sum()))


_RANK_FIELDS: Final = (
    pl.col("gaps", "idle", "none", "span", "earlier", "later", "own_idle", "own_span").first(),
    pl.col("early").sum(),
)
_ORDER: Final = ("duration", "rank", "start")
_DESCENDING: Final = (True, False, False)


def _filter_rows(tables: Sequence[pl.DataFrame], is_chosen: Mask) -> pl.DataFrame:
    """The chosen ones of all rows of the tables."""
    found, first = [], 0
    for table in stacks_of(tables):
        last = first + table.height
        if is_chosen[first:last].any():
            found.append(drop_unused_texts(table.filter(pl.Series(is_chosen[first:last]))))
        first = last
    return concat_tables(found)


def _total_note(ranks: pl.DataFrame) -> Note:
    """A note with the number and length of all gaps, and the idle time outside of them."""
    gaps, idle, short, span = (int(ranks[name].sum()) for name in ("gaps", "idle", "none", "span"))
    return note("gaps_total", gaps=gaps, idle=idle, short=short, span=span, ranks=ranks.height)


def _outside_notes(ranks: pl.DataFrame) -> list[Note]:
    """A note with the time before a device's first work and after its last, where that is long."""
    span, earlier, later = (round(float(ranks[name].to_numpy().mean())) for name in ("span", "earlier", "later"))
    if earlier + later <= _NOTABLE_OUTSIDE * (span + earlier + later):
        return []
    return [note("time_outside_gaps", before=earlier, after=later, ranks=ranks.height)]


_NOTABLE_OUTSIDE: Final = 0.1


def _early_launch_notes(ranks: pl.DataFrame) -> list[Note]:
    """A note on gaps that end with an op whose launch seems to begin later."""
    early = int(ranks["early"].sum())
    return [note("gaps_end_before_launch", ops=early)] if early else []


def _device_clock_notes(ranks: pl.DataFrame) -> list[Note]:
    """A note with the idle time on the devices' own clocks, where it differs."""
    timed = ranks.drop_nulls("own_idle")
    traced, idle, span = (int(timed[name].sum()) for name in ("idle", "own_idle", "own_span"))
    differs = abs(idle - traced) > CLOCK_TOLERANCE * max(traced, span * CLOCK_TOLERANCE)
    return [note("gaps_by_own_clock", idle=idle, span=span)] if differs else []


ANALYSIS = Analysis(
    name="gaps",
    title="Gaps",
    question="When does the device idle, and what did the host do meanwhile?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    limits_rows=True,
    host_computations=(PROGRAM_ACTIVITIES, THREADS_IN_MEMORY),
)
