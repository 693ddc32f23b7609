"""Why streams idle: what the work after each pause waited for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.events.busy import rounding, work
from tracehound.analysis.events.numbering import turns
from tracehound.analysis.hosts.doing import DOINGS, PROGRAM, Told, mattering, mostly, told
from tracehound.analysis.hosts.threads import held, pieces
from tracehound.analysis.hosts.waits import ALLOCATION, LOADING, OCCUPIED, SYNCHRONISATION, Launches, launches
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, length
from tracehound.analysis.share import overlapping
from tracehound.intervals import EMPTY, Intervals, Ints, Mask, covered, pairs_of, union
from tracehound.notes import Note, note

DELAY: Final = Setting(
    "delay",
    "30us",
    "shorter pauses are what starting one kernel after another costs (HTA's consecutive kernel delay)",
    length,
)

DEFINITION = """\
A pause is a stretch in which no work runs on a stream (in the rows of "device": on no stream of the rank), between its
first and its last work. One of 1 ns is none: files have times in whole ns, and cut a start and a length each by itself.
Of one that reaches beyond the window the part inside counts. What of a window is before the first work, and after the
last, is none: a note says how long that is, for breakdown and gaps count it. A pause is put down to what the work at
its end waited for, wherever that lies. Work without a recorded launch had been launched before all that runs later on
its stream. host = that work was launched only after the stream had run dry, or the call that launches it ran through
all of a pause of 30 us or more (a first launch may load code, HIP sends the nodes of a graph in parts); that call also
returned (on a stream of a GPU, where a first launch may load code for long) or began (of XLA, whose threads carry
launches out later) not more than half of the pause, and 300 us, before its end: else the work was kept by something
that the next words look for. Of these, where on the launching thread at least half of the time from the start of the
pause to the launch is spent in one of them: synchronisation = waiting for the device (cudaStreamSynchronize and the
like, and copies that block: cudaMemcpy, hipMemcpyWithStream, and any that returned only when the copy had ended, as
from and to pageable memory); allocation = cudaMalloc, cudaFree and the like; data loading = below a DataLoader or an
input iterator. Before such a copy itself that time lasts to the end of the pause, and what would be other is
synchronisation, too. kernel = launched in time, and the pause is shorter than 30 us: what starting one kernel after
another costs. other stream = launched in time, or by a call that is not recorded, and the pause is longer, and work on
another stream of the rank ended during the last 30 us of it: most likely an event was waited for. other = launched in
time, and none of these: what it waited for is not recorded, as what ran before the recording began. A pause of a stream
that would be synchronisation is other where the device as a whole idles for that for at least half of it: what the host
waited for waited itself. unknown = no launch is recorded that tells, and no other stream explains the pause. share is
of all pauses of the stream. mean to p75 are of single pauses. The setting delay takes the place of the 30 us, ten times
it that of the 300 us.

why = what the thread of the host that launched the work after the pause (of XLA: the program's own thread) was at for
most of the time of the pauses of a row, in words; the report gaps says how that is told.

HolisticTraceAnalysis' idle time breakdown has host wait (all that was launched after the stream had run dry), kernel
wait (our kernel) and other (the rest). It measures from the end of the row before, so that
overlapping kernels give negative pauses; here it is the latest end of all before. It leaves out the last step, and has
no rows for the device."""

CAUSES = (
    "host", SYNCHRONISATION, ALLOCATION, LOADING, "kernel", "other stream", "other", "unknown",
)  # fmt: skip
_HOST, _SYNCHRONISATION, _, _, _KERNEL, _STREAM, _OTHER, _UNKNOWN = range(len(CAUSES))

BEFORE: Final = "before the first work"
QUEUED: Final = "before the first work, though it was launched"
AFTER: Final = "after the last work"
EDGES: Final = (BEFORE, QUEUED, AFTER)
"""What no pause is, and idle nonetheless where a stretch of interest reaches beyond the work of the device."""

_AT_AN_EDGE: Final = pl.col("cause").is_in(EDGES)
_TOLD: Final = (*CAUSES, *EDGES)

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("stream", "text", "stream or line of the device; device: all of them together"),
    Column("cause", "text", "what the work after the pause waited for"),
    Column("why", "text", "what the host was at for most of it"),
    Column("why_share", "share", "what the host was at", "these pauses", brief=False),
    Column("count", "count", "pauses"),
    Column("idle", "time", "sum of the pauses"),
    Column("share", "share", "these pauses", "all pauses of the stream"),
    Column("mean", "time", "average pause", brief=False),
    Column("std", "time", "standard deviation of a sample; empty for one alone", brief=False),
    Column("min", "time", "shortest", brief=False),
    Column("p25", "time", "a quarter is not longer", brief=False),
    Column("p50", "time", "median", brief=False),
    Column("p75", "time", "three quarters are not longer", brief=False),
    Column("duration", "time", "longest"),
    Column("start", "instant", "start of the longest", brief=False),
    Column("event", "id", "the work after the longest"),
)

_LONG: Final = 10
"""Work that begins more than so many times the delay of a kernel after its launch returned was not kept by that."""

DEVICE = "device"
"""The stream that stands for all of a rank's together."""


class Pauses(NamedTuple):
    """Pauses of one stream: their bounds, and the row of the work at the end of each."""

    start: Ints
    end: Ints
    after: npt.NDArray[np.intp]


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each stream and cause, in ps, in a window also for `EDGES`; the whole run goes from work to work."""
    found = within(share, options, union(np.array([share.start]), np.array([share.end])))
    return found if found.is_empty() or share.windowed else found.filter(~_AT_AN_EDGE)


def within(
    share: Share,
    options: Options,
    when: Intervals,
    meanwhile: Mapping[str, Intervals] = MappingProxyType({}),
    apart: Sequence[str] = (),
) -> pl.DataFrame:
    """The same for the parts of pauses that lie in these stretches; one in two counts once, with two lengths.

    The device has rows for `EDGES`, too: what of the stretches is before its first work (by whether that had been
    launched for most of it, and nothing tells what it waited for) and after its last.
    `meanwhile` gives a column of each of its names: for how long of the pauses it holds. There is one of each of
    `DOINGS`, too: for how long the host was at it, on the thread of which `why` tells. Pauses of more than half of
    which one of `apart` holds, names of `meanwhile`, have rows of their own: `mainly` is that, "" for the others.
    """
    delay = DELAY.of(options.given)
    events = work(replace(share, device=share.anytime), "lane", "launch")
    if events.is_empty():
        return pl.DataFrame()
    if PROGRAM.found(share) is None:  # else little is left to ask of the threads
        share = held(share)
    names = dict(share.lanes.select("lane", "name").iter_rows())
    lane = events["lane"].to_numpy()
    calls = launches(share, events)
    paused, unexplained = list[tuple[str, Pauses, Ints]](), EMPTY
    by_lane = np.argsort(lane, kind="stable")
    streams = [(names[int(lane[rows[0]])], rows) for rows in np.split(by_lane, turns(lane[by_lane]))]
    everything = np.argsort(events["start"].to_numpy(), kind="stable")
    end = events["end"].to_numpy()
    ended = np.sort(end) if len(streams) > 1 else end[:0]
    for name, rows in ((DEVICE, everything), *(streams if len(streams) > 1 else ())):
        pauses = pauses_of(events, rows)
        beside = None if name == DEVICE else _another_ended(pauses, ended, np.sort(end[rows]), delay)
        cause = _causes(pauses, calls.of(pauses.after), delay, beside)
        if name == DEVICE:
            unexplained = Intervals(pauses.start[cause == _OTHER], pauses.end[cause == _OTHER])
        cause[_waiting_in_vain(pauses, cause, unexplained)] = _OTHER
        edged = _with_edges(when, pauses, cause, events, calls, delay) if name == DEVICE else (pauses, cause)
        paused.append((name, *_inside(when, *edged)))
    waits = events.filter(pl.Series(calls.waits) & (pl.col("kind") == "copy"))["launch"].unique().to_list()
    doings = _during(share, calls.lane, waits, [pauses for _, pauses, _ in paused])
    lead = mattering(share, doings, calls.lane)
    sums = list[dict[str, object]]()
    for name, pauses, cause in paused:
        times = {part: covered(holds, pauses.start, pauses.end) for part, holds in meanwhile.items()}
        kinds = (*apart, "")
        mainly, many = _mainly(pauses, cause, [times[part] for part in apart]), len(_TOLD) * len(kinds)
        groups = cause * len(kinds) + mainly
        spent = doings.summed(lead[pauses.after], pauses.start, pauses.end, groups, many)
        for number, why, time, doing in zip(range(many), *mostly(spent), spent.tolist(), strict=True):
            mine = np.flatnonzero(groups == number)
            if len(mine):
                what, kind = divmod(number, len(kinds))
                alike = {"stream": name, "whole": name == DEVICE, "cause": _TOLD[what], "mainly": kinds[kind]}
                alike |= {"why": why, "while": time}
                at = dict(zip(DOINGS, doing, strict=True))
                sums.append({**alike, **at, **_summed(pauses, mine, events["id"], times)})
    table = pl.DataFrame(sums, {**_SUMS, **dict.fromkeys(meanwhile, pl.Int64())}).with_columns(
        pl.col(_FRACTIONS).round().cast(pl.Int64),
        pl.when(pl.col("why").is_not_null()).then(pl.col("while") / pl.col("idle")).alias("why_share"),
        pl.lit(share.rank, pl.Int64).alias("rank"),
    )
    if len(streams) > 1:
        return table
    alone = table.with_columns(pl.lit(streams[0][0]).alias("stream"), pl.lit(value=False).alias("whole"))
    return pl.concat([table, alone])


def _during(share: Share, launching: Ints, waits: Collection[int], paused: Sequence[Pauses]) -> Told:
    """What the threads that matter are at from the first to the last of these pauses, which leave little of a run."""
    launching = launching[np.concatenate([pauses.after for pauses in paused])]
    if not share.windowed:
        return told(share, launching, waits, lambda lane: pieces(share, [lane]))
    low = min((int(pauses.start[0]) for pauses in paused if len(pauses.start)), default=0)
    high = max((int(pauses.end[-1]) for pauses in paused if len(pauses.end)), default=0)
    return told(share, launching, waits, lambda lane: [overlapping(some, low, high) for some in pieces(share, [lane])])


def _with_edges(
    when: Intervals, pauses: Pauses, cause: Ints, events: pl.DataFrame, calls: Launches, delay: int
) -> tuple[Pauses, Ints]:
    """The pauses of the device with what of the stretches is before its first work, and after its last."""
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    first, last = int(start.argmin()), int(end.argmax())
    low, high = when.start[:1].clip(max=start[first]), when.end[-1:].clip(min=end[last])
    many = len(low)
    before, after = (
        _lasting(Pauses(begin, until, np.array([work] * many, np.intp)))
        for begin, until, work in ((low, start[[first] * many], first), (end[[last] * many], high, last))
    )
    late = _begun_late(before, calls.of(before.after), delay).any()
    causes = [
        np.full(len(edge.start), _TOLD.index(name))
        for edge, name in ((before, QUEUED if late else BEFORE), (after, AFTER))
    ]
    edged = Pauses(*(np.concatenate(parts) for parts in zip(before, pauses, after, strict=True)))
    return edged, np.concatenate([causes[0], cause, causes[1]])


def _lasting(pauses: Pauses) -> Pauses:
    """Those of some length."""
    real = pauses.end > pauses.start
    return Pauses(*(values[real] for values in pauses))


def _inside(when: Intervals, pauses: Pauses, cause: Ints) -> tuple[Pauses, Ints]:
    """The parts of pauses that lie in the stretches, and their causes; both are in order, and none overlaps another."""
    if len(when.start) == 1 and (when.start <= pauses.start[:1]).all() and (pauses.end[-1:] <= when.end).all():
        return pauses, cause
    pause, stretch = pairs_of(pauses.start, pauses.end, when)
    start, end = np.maximum(pauses.start[pause], when.start[stretch]), np.minimum(pauses.end[pause], when.end[stretch])
    return Pauses(start, end, pauses.after[pause]), cause[pause]


def of_device(share: Share, options: Options) -> tuple[Pauses, Ints]:
    """The pauses of the whole device, whenever they are, and of each why it is one: a position in `CAUSES`."""
    events = work(replace(share, device=share.anytime), "lane", "launch")
    rows = np.argsort(events["start"].to_numpy(), kind="stable")
    pauses = pauses_of(events, rows)
    calls = launches(share, events).of(pauses.after)
    return pauses, _causes(pauses, calls, DELAY.of(options.given))


def pauses_of(events: pl.DataFrame, rows: npt.NDArray[np.intp]) -> Pauses:
    """The pauses between these rows of events, which are in the order of their starts."""
    start, end = (events[name].to_numpy()[rows] for name in ("start", "end"))
    reach = np.maximum.accumulate(end)
    at = np.flatnonzero(start[1:] - reach[:-1] > rounding(start, end)) + 1
    return Pauses(reach[at - 1], start[at], rows[at])


def _causes(pauses: Pauses, calls: Launches, delay: int, beside: Mask | None = None) -> Ints:
    """Why each pause is one: a position in `CAUSES`.

    `calls` are the launches of the work after the pauses; of one stream of several, `beside` says at the end of which
    pauses that of another one ended.
    """
    cause = np.full(len(pauses.start), _OTHER)
    if beside is not None:
        cause[beside] = _STREAM
    cause[pauses.end - pauses.start < delay] = _KERNEL
    early = calls.start <= pauses.start
    during = calls.queued & ~calls.waits & (cause == _OTHER) & (calls.returned >= pauses.end)
    late = ~(early | _begun_late(pauses, calls, delay)) | during
    asked = late | (calls.waits & (cause == _OTHER))
    cause[late] = _HOST
    until = np.where(calls.waits | early, pauses.end, np.minimum(calls.start, pauses.end))
    for (what, thread), busy in sorted(calls.busy.items(), key=lambda each: CAUSES.index(each[0][0]), reverse=True):
        mine = np.flatnonzero(asked & (calls.lane == thread))
        if not len(mine):
            continue
        inside = covered(busy, pauses.start[mine], until[mine])
        cause[mine[2 * inside >= until[mine] - pauses.start[mine]]] = CAUSES.index(what)
    cause[(calls.lane < 0) & (cause != _STREAM) & (calls.latest > pauses.start)] = _UNKNOWN
    return cause


def _mainly(pauses: Pauses, cause: Ints, times: Sequence[Ints]) -> Ints:
    """Which of these times takes more than half of each pause, as its position; how many they are where none does.

    Parts of one pause are one.
    """
    fresh = np.append(True, (np.diff(pauses.after) != 0) | (np.diff(cause) != 0))[: len(cause)]
    pause = np.cumsum(fresh) - 1
    whole = np.bincount(pause, pauses.end - pauses.start)
    found = np.full(len(whole), len(times))
    for number, time in enumerate(times):
        found[2 * np.bincount(pause, time) > whole] = number
    return np.asarray(found[pause])


def _waiting_in_vain(pauses: Pauses, cause: Ints, unexplained: Intervals) -> npt.NDArray[np.bool_]:
    """In which pauses the host waited for a device that itself stood still, for at least half of the time."""
    still = covered(unexplained, pauses.start, pauses.end)
    return np.asarray((cause == _SYNCHRONISATION) & (2 * still >= pauses.end - pauses.start))


def _begun_late(pauses: Pauses, calls: Launches, delay: int) -> npt.NDArray[np.bool_]:
    """At the end of which pauses work begins that was launched for most of them, too long to be kept by its launch."""
    since = np.where(calls.queued, np.maximum(calls.returned, calls.start), calls.start)
    rest = pauses.end - since
    return (calls.lane >= 0) & ~calls.waits & (rest > _LONG * delay) & (2 * rest > pauses.end - pauses.start)


def _another_ended(pauses: Pauses, ended: Ints, own: Ints, delay: int) -> Mask:
    """In the last moments of which pauses work on another stream ended: by the ends of all and of its own, sorted."""
    until, since = pauses.end, np.maximum(pauses.start + 1, pauses.end - delay)
    here, alone = (np.searchsorted(ends, until, side="right") - np.searchsorted(ends, since) for ends in (ended, own))
    return here > alone


def _summed(pauses: Pauses, rows: npt.NDArray[np.intp], ids: pl.Series, times: Mapping[str, Ints]) -> dict[str, object]:
    """Of these pauses of one stream and cause, in order: how many, how long, and which is the longest."""
    length = (pauses.end - pauses.start)[rows]
    after = pauses.after[rows]
    longest = int(rows[length.argmax()])
    lengths = pl.Series(length)
    return {
        "count": 1 + int(np.count_nonzero(after[1:] != after[:-1])),  # parts of one pause are one
        "idle": int(length.sum()),
        **{part: int(time[rows].sum()) for part, time in times.items()},
        "mean": lengths.mean(),
        "std": lengths.std(),
        "min": lengths.min(),
        **{f"p{part}": lengths.quantile(part / 100, "linear") for part in (25, 50, 75)},
        "duration": lengths.max(),
        "start": int(pauses.start[longest]),
        "event": ids[int(pauses.after[longest])],
    }


_FRACTIONS: Final = ("mean", "std", "p25", "p50", "p75")

_SUMS: Final = MappingProxyType(
    {
        **dict.fromkeys(("stream", "cause", "mainly", "why"), pl.String()),
        "whole": pl.Boolean(),
        **dict.fromkeys(("while", "count", "idle", "min", "duration", "start", "event", *DOINGS), pl.Int64()),
        **dict.fromkeys(_FRACTIONS, pl.Float64()),
    }
)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of all ranks in their order, of each stream the largest cause first."""
    rows = stacked(tables)
    if rows.is_empty():
        return told_by(ANALYSIS, tables, scene, options)
    found = told_by(ANALYSIS, [rows.filter(~_AT_AN_EDGE)], scene, options)
    return replace(found, notes=(*found.notes, *_edges(rows.filter(_AT_AN_EDGE & pl.col("whole")))))


def _edges(rows: pl.DataFrame) -> list[Note]:
    """How long devices idle in the window before their first work and after their last."""
    last = pl.col("cause") == AFTER
    idle = {BEFORE: int(rows.filter(~last)["idle"].sum()), AFTER: int(rows.filter(last)["idle"].sum())}
    found = {cause: time for cause, time in idle.items() if time}
    return [note("idle_at_window_edges", causes=tuple(found), times=tuple(found.values()))] if found else []


def told_by(shown: Analysis, tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The same with the columns of another analysis."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(shown, scene, options, note("no_pauses"))
    alike = pl.struct("rank", "stream", "whole")
    shares = rows.with_columns((pl.col("idle") / pl.col("idle").sum().over(alike)).alias("share"))
    table = shares.with_columns(alike.rle_id().alias("place")).sort("place", "idle", descending=[False, True])
    return answer(shown, table, scene, options, _notes(rows))


def _notes(rows: pl.DataFrame) -> list[Note]:
    """What devices waited for most, over all ranks."""
    whole = rows.filter("whole").group_by("cause").agg(pl.col("idle").sum()).sort("idle", "cause", descending=True)
    if whole.is_empty():
        return []
    causes, times = (tuple(whole[name].to_list()) for name in ("cause", "idle"))
    return [note("idle_by_cause", causes=causes, times=times)]


ANALYSIS = Analysis(
    name="idle",
    title="Idle",
    question="Why do the streams idle: host, synchronisation, data loading, other streams?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(DELAY,),
    of_host=(PROGRAM, OCCUPIED),
)
