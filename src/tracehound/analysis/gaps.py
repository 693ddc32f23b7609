"""When a device idles: between which ops, what the host did meanwhile, and which launch ended it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.events.busy import bounds, recorded, rounding, work, worked
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.numbering import largest
from tracehound.analysis.events.own_clock import APART, CLOCKED, has_clock
from tracehound.analysis.hosts.doing import PROGRAM, mattering, mostly, told
from tracehound.analysis.hosts.launched import calls_of
from tracehound.analysis.hosts.threads import HELD, THREADS, during, held, near
from tracehound.analysis.hosts.waits import blocking
from tracehound.analysis.result import COVER, Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.intervals import Intervals, Ints, Mask, complement, parted
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = """\
A gap is a stretch in which no work runs on any stream or line of a rank's device, between its first and its last work
(with a window: between the window's ends; of one that it cuts, what lies in it), inside steps or not: a note tells what
of the recording is before and after; one of 1 ns is none, as files have times in whole ns and cut a start and a length
each by itself (the idle time of breakdown has these, too). Work without a length ends one and begins another. before =
the op that ended last at or before its start; after = the op that starts next; launch = the host event that enqueued
`after` (the runtime call of its correlation id, the producer of its context, or the execution of its run id); launched
= how long before `after` that call began: when it is shorter than the whole gap, the device had nothing to do because
the host had not asked for it; empty where it seems to have begun later. host = for each host thread the events that
were the innermost on it during the gap, with their share of the gap.

why = what one thread of the host was at for most of the gap, in words: the thread that launched `after` in a PyTorch
trace; in an XLA profile, where pools of threads launch, the program's own, which has the marks of steps. The names of
events say what that is, and those around them: a wait inside the reading of a value is being blocked on the value. A
call for a copy that returned only when the copy had ended (cudaMemcpy; cudaMemcpyAsync from and to pageable memory) is
blocked on the copy. In PyTorch/XLA what Python does in a step or annotation, and outside the runtime, is tracing, since
tensors are lazy. Where it is "nothing recorded", the thread has no event for most of the gap, or only the mark of a
step: annotate what the program does there.

Gaps are places in the timeline, and so on its clock: where a device's own (TPU) gives another idle time, a note tells.

HolisticTraceAnalysis measures gaps per stream against the previous row, so that a stream idles while another works
and overlapping kernels give negative gaps; here a gap is idleness of the whole device."""

EVENTS_PER_THREAD = 2
MIN_SHARE = 0.01
"""The host column names at most so many events of a thread, none with a smaller share of the gap."""

AT_ONCE = 1 << 16
"""Of so many gaps is looked up at once what host threads did in them: that takes more room than what comes of it."""

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
    Column("why", "text", "what the host was at for most of it", found=True),
    Column("why_share", "share", "what the host was at", "the gap", brief=False),
    Column("host", "host", "what host threads did meanwhile"),
    Column("before_event", "id", "the op before"),
    Column("event", "id", "the op after"),
    Column("launch_event", "id", "the launch"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The longest gaps (as many as are asked for), and on every row the number and length of all."""
    events = _work(share)
    low, high = bounds(events, share)
    idle, span = parted(complement(worked(events), low, high), _instants(events)), high - low
    lengths = idle.end - idle.start
    none = lengths[lengths <= rounding(events["start"].to_numpy(), events["end"].to_numpy())]
    number = len(lengths) - len(none)
    if events.is_empty() or not number:
        return pl.DataFrame()
    chosen = np.sort(largest(lengths, number if options.top is None else min(number, options.top)))
    gaps = Intervals(idle.start[chosen], idle.end[chosen])
    table = pl.DataFrame({"start": gaps.start, "duration": gaps.end - gaps.start}).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        (pl.col("duration") / span).alias("share"),
        pl.lit(number, pl.Int64).alias("gaps"),
        pl.lit(idle.length, pl.Int64).alias("idle"),
        pl.lit(int(none.sum()), pl.Int64).alias("none"),
        pl.lit(span, pl.Int64).alias("span"),
        *_around(share, low, high),
        *_by_own_clock(share, events),
    )
    around = _neighbours(events, gaps)
    share = held(share)
    threads = collected(share.threads.filter(near(gaps)).select(*THREADS))
    calls = calls_of(share, around["launch_event"])
    host = _host(threads, share.lanes, gaps)
    found = _with_launch(pl.concat([table, around, host], how="horizontal"), calls, share.lanes)
    return found.with_columns(_why(share, found, gaps, threads))


def _around(share: Share, low: int, high: int) -> list[pl.Expr]:
    """How long the rank's file goes on before and after all that gaps are looked for in; nothing in a window."""
    first, last = recorded(share)
    earlier, later = (0, 0) if share.windowed else (max(low - first, 0), max(last - high, 0))
    return [pl.lit(earlier, pl.Int64).alias("earlier"), pl.lit(later, pl.Int64).alias("later")]


def _instants(events: pl.DataFrame) -> Ints:
    """When work ran that has no length, in order."""
    return events.filter(pl.col("start") == pl.col("end"))["start"].unique().sort().to_numpy()


def _work(share: Share) -> pl.DataFrame:
    """The device's work in the window, and what is next to it on either side."""
    columns = ("name", "launch", "lane", *CLOCKED)
    if not share.windowed:
        return work(share, *columns)
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())["lane"].to_list()
    every = share.anytime.filter(pl.col("lane").is_in(lanes))
    before = every.filter(pl.col("end") <= share.start).bottom_k(1, by=[-pl.col("end"), -pl.col("id")])
    after = every.filter(pl.col("start") >= share.end).bottom_k(1, by=["start", "id"])
    near = work(replace(share, device=pl.concat([before, share.device, after])), *columns)
    return near.unique("id").sort("id")


def _by_own_clock(share: Share, events: pl.DataFrame) -> list[pl.Expr]:
    """The idle time and the span by the device's own clock, null where it has none."""
    worked = on_own_clock(events, share) if has_clock(events) else None
    idle, span = (worked.time - worked.used, worked.time) if worked else (None, None)
    return [pl.lit(idle, pl.Int64).alias("own_idle"), pl.lit(span, pl.Int64).alias("own_span")]


def _why(share: Share, found: pl.DataFrame, gaps: Intervals, threads: pl.DataFrame) -> list[pl.Series]:
    """What the host was at for most of each gap, and for which part of it; `threads` has all that ran meanwhile."""
    launching = found["lane"].fill_null(-1).to_numpy()
    doings = told(share, launching, blocking(share), lambda lane: [threads.lazy().filter(pl.col("lane") == lane)])
    spent = doings.spent(mattering(share, doings, launching), gaps.start, gaps.end)
    words, time = mostly(spent)
    parts = pl.Series("why_share", time / (gaps.end - gaps.start))
    return [words, parts.set(words.is_null(), None)]


def _neighbours(events: pl.DataFrame, gaps: Intervals) -> pl.DataFrame:
    """The op that ended last before each gap and the one that starts first after it, with the launch of that."""
    order, ends = _ordered(events["end"].to_numpy())
    at = np.searchsorted(ends, gaps.start, side="right") - 1
    before = np.where(at < 0, -1, order[np.maximum(at, 0)])
    order, starts = _ordered(events["start"].to_numpy())
    at = np.searchsorted(starts, gaps.end, side="left")
    after = np.where(at >= len(starts), -1, order[np.minimum(at, len(starts) - 1)])
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


def _ordered(times: Ints) -> tuple[npt.NDArray[np.intp], Ints]:
    """The rows in the order of their times, and these: of one stream they are in it."""
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times)), times
    order = np.argsort(times, kind="stable")
    return order, times[order]


def _host(threads: pl.DataFrame, lanes: pl.DataFrame, gaps: Intervals) -> pl.DataFrame:
    """For each gap what host threads did in it, as a list in one column, the largest share first."""
    firsts = range(0, max(1, len(gaps.start)), AT_ONCE)
    parts = (Intervals(gaps.start[at : at + AT_ONCE], gaps.end[at : at + AT_ONCE]) for at in firsts)
    return pl.concat([_meanwhile(threads, lanes, part) for part in parts])


def _meanwhile(threads: pl.DataFrame, lanes: pl.DataFrame, gaps: Intervals) -> pl.DataFrame:
    """The same for some of the gaps."""
    length = pl.DataFrame({"window": np.arange(len(gaps.start)), "length": gaps.end - gaps.start})
    names = lanes.select("lane", pl.col("name").alias("thread"))
    found = during(threads, gaps)
    listed = (
        found.filter(_leading(found["window"].to_numpy(), found["lane"].to_numpy()))
        .join(length, on="window", maintain_order="left")
        .join(names, on="lane", maintain_order="left")
        .with_columns((pl.col("time") / pl.col("length")).alias("share"))
        .filter(pl.col("share") >= MIN_SHARE)
        .sort("window", "share", "thread", descending=[False, True, False], maintain_order=True)
        .group_by("window", maintain_order=True)
        .agg(pl.struct("thread", pl.col("name").alias("event"), "inside", "share", "time").alias("host"))
    )
    every = length.join(listed, on="window", how="left", maintain_order="left")
    return every.select(pl.col("host").cast(COVER).fill_null([]))


def _leading(window: Ints, lane: Ints) -> Mask:
    """Which rows, sorted by window, are among the first `EVENTS_PER_THREAD` of their lane in it."""
    order = np.lexsort((lane, window))  # stable
    window, lane = window[order], lane[order]
    many = EVENTS_PER_THREAD
    leading = np.ones(len(order), np.bool_)
    leading[order[many:]] = (window[many:] != window[:-many]) | (lane[many:] != lane[:-many])
    return leading


def _with_launch(gaps: pl.DataFrame, calls: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """The gaps with the launch that ended each: its name, its thread, and how long before the end it began."""
    called = calls.select(pl.col("call").cast(pl.String).alias("launch"), pl.col("caller").alias("lane"), "called")
    names = lanes.select("lane", pl.col("name").alias("thread"))
    known = pl.concat([gaps, called], how="horizontal").join(names, on="lane", how="left", maintain_order="left")
    launched = pl.col("resumed") - pl.col("called")
    return known.with_columns(pl.when(launched >= 0).then(launched).alias("launched"), early=launched < 0)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The gaps of all ranks, the longest first."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, note("no_gaps"))
    rows = rows.sort("duration", "rank", "start", descending=[True, False, False])
    ranks = rows.group_by("rank").agg(
        pl.col("gaps", "idle", "none", "span", "earlier", "later", "own_idle", "own_span").first()
    )
    notes = [_in_all(ranks), *_outside(ranks), *_early(rows), *_other_clock(ranks)]
    return replace(answer(ANALYSIS, rows, scene, options, notes), total=int(ranks["gaps"].sum()))


def _in_all(ranks: pl.DataFrame) -> Note:
    """How many gaps there are and how long they are; what of the idle time is in none."""
    gaps, idle, none, span = (int(ranks[name].sum()) for name in ("gaps", "idle", "none", "span"))
    return note("gaps_total", gaps=gaps, idle=idle, short=none, span=span, ranks=ranks.height)


def _outside(ranks: pl.DataFrame) -> list[Note]:
    """How long devices are without work before their first and after their last, where that is much."""
    span, earlier, later = (round(float(ranks[name].to_numpy().mean())) for name in ("span", "earlier", "later"))
    if earlier + later <= _MUCH * (span + earlier + later):
        return []
    return [note("time_outside_gaps", before=earlier, after=later, ranks=ranks.height)]


_MUCH: Final = 0.1


def _early(rows: pl.DataFrame) -> list[Note]:
    """How many of these gaps end with an op whose launch cannot have been then."""
    early = int(rows["early"].sum())
    return [note("gaps_end_before_launch", ops=early)] if early else []


def _other_clock(ranks: pl.DataFrame) -> list[Note]:
    """What the devices idle by their own clocks, where that is something else."""
    known = ranks.drop_nulls("own_idle")
    traced, idle, span = (int(known[name].sum()) for name in ("idle", "own_idle", "own_span"))
    far = abs(idle - traced) > APART * max(traced, span * APART)
    return [note("gaps_by_own_clock", idle=idle, span=span)] if far else []


ANALYSIS = Analysis(
    name="gaps",
    title="Gaps",
    question="When does the device idle, and what did the host do meanwhile?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    cuts=True,
    of_host=(PROGRAM, HELD),
)
