"""What bounds a step: the chain of waits from its end to its beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.critical.edges import edges
from tracehound.analysis.critical.walk import CLASSES, COMMUNICATION, CPU, HOST, LOADING, SYNC, Leg
from tracehound.analysis.events.busy import local_parent, work
from tracehound.analysis.hosts.threads import told_by_name
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, length, one_of
from tracehound.analysis.share import overlapping
from tracehound.analysis.step_parts import stretched
from tracehound.intervals import Intervals, Ints, pairs_of
from tracehound.nesting import nearest
from tracehound.notes import Note, note
from tracehound.own_time import Owned, one_at_a_time
from tracehound.trace import collected

NEAR: Final = Setting(
    "near",
    "30us",
    "without recorded waits: work that begins so soon after work on another stream ended may have waited for it",
    length,
)

BY: Final = Setting(
    "by",
    "name",
    "the sums by class and name (name) or by class (class), or a row for each stretch of the path in its order (event)",
    one_of("name", "class", "event"),
)

DEFINITION = """\
The critical path is the chain of things that each had to end before the next could begin, from the end of the window
back to its start: shortening anything else does not shorten it. It is continuous, so its lengths add up to the time.
Without a window it is that of each rank's longest step, else of the whole run; a step lasts until the work that it
launched is done, as in the report steps. A path does not leave its rank: where one process drives several devices, a
call that waited for the work of another of them is sync while that ran on, and work that waited for it is unknown. It
begins with the work that runs on the device at the end of the window, else with what had been launched by then and
begins next, else with what ended last, and goes back: from work on a stream to the call that launched it, where the
stream was free by then (launch = from the start of that call to the start of the work; of what begins more than 300 us
after the call returned: to the return, and unknown from there); else to the work before on the stream, or to that on
another stream which it waited for (kernel-kernel delay = from its end). From a call that waits for the device
(cudaDeviceSynchronize and the like, copies that block) to the work whose end it waited for (sync = from there to the
call's return, and time in such calls that waited for nothing). Else along the host's thread: CPU = operators, calls,
Python, and time in which nothing was recorded; data loading = below a DataLoader or an input iterator. A thread that
was idle until another one fell idle took over from it, if both launch work, or none does: this ties the backward pass
to the program. compute, communication and copy are work on the device, or gloo's collectives on threads: from one that
a thread of its own carries out the path goes back to the call that asked for it (c10d::allreduce_: launch, from the
start of that call), where the thread was free by then. The file does not say which collective is of which call: calls
are taken up in their order. After a pause of less than 30 us a thread did not wait for a collective; in the pause of a
thread in which the window ends it waits for that which ends in it last, be it after the window. Where a path cannot be
followed to the beginning, the notes say so. unknown also = a pause before work whose launch was not recorded,
nor by then one of what runs later on its stream. A pause of more than 30 us before a node of a graph whose launch has
not returned yet is launch.

The rows are the sums by class and name, the largest first; with by=class the sums by class; with by=event the path
itself, a row for each stretch of an event, in the order of time.

Which stream a call waited for, and that a stream waits for events, is taken from CUDA's synchronisation rows where they
were recorded (enable_cuda_sync_events). The work waited for is what had been launched on that stream before the call
that recorded the event; of an event whose stream and call the row does not name, what had been launched on other
streams before the wait; and of several that which ended last. Else a call waited for what ended last during it, and
work for work on another stream that ended at most 30 us before it began; so do nodes of one graph. The setting near
takes the place of the 30 us.

HolisticTraceAnalysis builds a graph of the events launched in the window and takes the path of the largest weight, in
which waits, blocking calls and time between operators weigh nothing: its path need not be continuous, its shares are of
its own length, and a pause of more than 1.5 ms breaks it. It needs the synchronisation rows, takes the device's shadow
of an annotation for one more instance, and leaves out graph launches. Its classes are ours: cpu_bound is CPU,
gpu_compute_bound is compute and copy."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "on the path"),
    Column("class", "text", "what bounds it there"),
    Column("name", "text", "operator, call or kernel; of a delay: the work that it delays"),
    Column("where", "text", "thread or stream", brief=False),
    Column("count", "count", "events on the path; of time in which nothing was recorded: stretches", brief=False),
    Column("share", "share", "duration", "the rank's path"),
    Column("event", "id", "the event; of several that with the longest stretch"),
)

NOTHING: Final = "nothing recorded"
_LOADS: Final = re.compile(r"DataLoader|data_?loading|Iterator::(?:GetNext|Prefetch)|InfeedEnqueue", re.IGNORECASE)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of the rank's path, in order."""
    if share.profiler == "XLA":
        return pl.DataFrame()  # HLO ops nest in one another and are launched as one module: there is nothing to follow
    share, time = _chosen(share)
    found = edges(share, NEAR.of(options.given))
    legs = found.walk.legs(found.place, share.start)
    if not legs:
        return pl.DataFrame()
    rows = _rows(legs, found.host)
    events = rows["event"].drop_nulls().unique()
    names = pl.concat(
        collected(each.filter(pl.col("id").is_in(events.implode())).select("id", pl.col("name").cast(pl.String)))
        for each in (share.threads, share.anytime)
    )
    lanes = share.lanes.select("lane", pl.col("name").alias("where"))
    return (
        rows.join(names.rename({"id": "event"}), on="event", how="left", maintain_order="left")
        .join(lanes, on="lane", how="left", maintain_order="left")
        .with_columns(
            pl.col("name").fill_null(NOTHING),
            pl.lit(share.rank, pl.Int64).alias("rank"),
            pl.lit(time.of).alias("of"),
            pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(list(time.steps), pl.List(pl.Int64))).alias("steps"),
            pl.lit(time.step).alias("step"),
            pl.lit(found.walk.waits is None).alias("inferred"),
            pl.lit(legs[0].start - share.start).alias("missing"),
        )
    )


class Chosen(NamedTuple):
    """The time that a path is `of`: the window, these `steps`, the longest `step` (its name), or the run."""

    of: Literal["window", "steps", "longest", "run"]
    steps: tuple[int, ...] = ()
    step: str = ""


def _chosen(share: Share) -> tuple[Share, Chosen]:
    """The share of the window, else of the longest step, else of the whole run; and what that is."""
    if share.windowed and share.asked is None:
        return share, Chosen("window")
    if share.steps.is_empty():
        first, last = (share.lanes[name].to_list() for name in ("first", "last"))
        whole = replace(share, start=min(first, default=share.start), end=max(last, default=share.end))
        return whole, Chosen("run")
    placed = stretched(share, work(replace(share, device=share.anytime), "step", "launch"), "work")
    time = Chosen("steps", tuple(placed["step"].to_list()))
    if share.asked is None:
        placed = placed.sort(pl.col("end") - pl.col("start"), "start", descending=[True, False]).head(1)
        time = Chosen("longest", step=str(placed["name"][0]))
    start, end = min(placed["start"].to_list()), max(placed["end"].to_list())
    return replace(share, device=overlapping(share.anytime, start, end), start=start, end=end, windowed=True), time


def _rows(legs: Sequence[Leg], host: pl.DataFrame) -> pl.DataFrame:
    """The legs, those on threads cut to what ran there as the innermost; neighbours of one event and class are one."""
    start, end, what, lane, event = (np.array(column, np.int64) for column in zip(*legs, strict=True))
    on_host = what == HOST
    every = pl.DataFrame({"start": start, "end": end, "what": what, "lane": lane, "event": event})
    pieces = [every.filter(pl.Series(~on_host))]
    what_of, ids = _classes(host), host["id"].to_numpy()
    for thread, ran in _innermost(host, np.unique(lane[on_host]).tolist()):
        mine = on_host & (lane == thread)
        leg, at = pairs_of(start[mine], end[mine], Intervals(ran.start, ran.end))
        pieces.append(
            pl.DataFrame(
                {
                    "start": np.maximum(ran.start[at], start[mine][leg]),
                    "end": np.minimum(ran.end[at], end[mine][leg]),
                    "what": what_of[ran.owner[at]],
                    "lane": np.full(len(at), thread),
                    "event": ids[ran.owner[at]],
                }
            )
        )
    return _merged(_filled(pl.concat(pieces).sort("start"), start, end, lane))


def _innermost(host: pl.DataFrame, threads: Sequence[int]) -> Iterator[tuple[int, Owned]]:
    """By thread which event ran when as the innermost; the earlier of two that overlap without nesting."""
    lane = host["lane"].to_numpy()
    owned = one_at_a_time(host["start"].to_numpy(), host["end"].to_numpy(), local_parent(host), lane)
    order = np.argsort(owned.start, kind="stable")
    lanes = lane[owned.owner[order]]
    for thread in threads:
        yield thread, Owned(*(column[order[lanes == thread]] for column in owned))


def _classes(host: pl.DataFrame) -> Ints:
    """What the time of each host event is."""
    loading = told_by_name(host, lambda name, _: 1 if _LOADS.search(name) else None) > 0
    inside = nearest(local_parent(host), loading) >= 0
    by_kind = pl.when(kind="sync").then(SYNC).when(kind="collective").then(COMMUNICATION).otherwise(CPU)
    return np.where(inside, LOADING, host.select(by_kind.cast(pl.Int64)).to_series().to_numpy())


def _filled(rows: pl.DataFrame, start: Ints, end: Ints, lane: Ints) -> pl.DataFrame:
    """With rows for the time of legs in which nothing was recorded."""
    edges = np.concatenate(
        [start[:1], np.stack([rows["start"].to_numpy(), rows["end"].to_numpy()], 1).ravel(), end[-1:]]
    )
    begins, until = edges[::2], edges[1::2]
    hole = until > begins
    leg = np.searchsorted(start, begins[hole], side="right") - 1
    holes = pl.DataFrame({"start": begins[hole], "end": until[hole], "lane": lane[leg]})
    blank_rows = holes.select(
        "start", "end", pl.lit(CPU, pl.Int64).alias("what"), "lane", pl.lit(-1, pl.Int64).alias("event")
    )
    return pl.concat([rows, blank_rows]).sort("start")


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    alike = pl.struct("what", "lane", "event").rle_id()
    return (
        rows.group_by(alike.alias("number"), maintain_order=True)
        .agg(pl.col("start", "what", "lane", "event").first(), pl.col("end").last())
        .select(
            "start",
            (pl.col("end") - pl.col("start")).alias("duration"),
            pl.col("what").replace_strict(dict(enumerate(CLASSES)), return_dtype=pl.String).alias("class"),
            "lane",
            pl.when(pl.col("event") >= 0).then("event").alias("event"),
        )
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of all ranks' paths, rank by rank in the order of time."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, _why_empty(scene))
    table = _summed(rows, BY.of(options.given))
    table = table.with_columns((pl.col("duration") / pl.col("duration").sum().over("rank")).alias("share"))
    result = answer(ANALYSIS, table, scene, options, _notes(rows))
    return replace(result, window=_extent(result.window, rows), about=_about(result.window, rows))


def _extent(window: tuple[int, int] | None, rows: pl.DataFrame) -> tuple[int, int] | None:
    """The window with what of the paths lies behind it: that of a step lasts until the work of the step is done."""
    if window is None:
        return None
    return window[0], max(window[1], int((rows["start"] + rows["duration"]).to_numpy().max()))


def _about(window: tuple[int, int] | None, rows: pl.DataFrame) -> str:
    """What the paths are of where no window is asked for, unless that is the whole run."""
    if window is not None or (rows["of"] == "run").all():
        return ""
    return "the longest step" if rows["rank"].n_unique() == 1 else "each rank's longest step"


def _summed(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """The rows as they are, or what they add up to."""
    if by == "event":
        return rows.with_columns(pl.lit(None, pl.Int64).alias("count"))
    name = pl.col("name") if by == "name" else pl.lit(None, pl.String).alias("name")
    return (
        rows.group_by("rank", "class", name)
        .agg(
            pl.lit(None, pl.Int64).alias("start"),
            pl.lit(None, pl.String).alias("where"),
            (pl.col("event").drop_nulls().n_unique() + pl.col("event").null_count()).alias("count"),
            pl.col("event").get(pl.col("duration").arg_max()),
            pl.col("duration").sum(),
        )
        .sort("rank", "duration", "class", "name", descending=[False, True, False, False])
    )


_LITTLE: Final = 0.01
"""Where a smaller share of the time is missing at the beginning of a path, that is not told of."""

_LEAST: Final = 0.001
"""A class with a smaller share of the path is not told of."""

_MUCH: Final = 0.1
"""Where nothing is recorded in a larger share of the path, that is told of."""

_TOLD: Final = 8
"""So many ranks are told of in notes."""


def _notes(rows: pl.DataFrame) -> list[Note]:
    """What bounds each rank, largest first; then what is to be known of their paths."""
    paths = rows.partition_by("rank", maintain_order=True)
    told, more = paths[:_TOLD], len(paths) - _TOLD
    return [
        *map(_bound, told),
        *([note("more_ranks", ranks=more)] if more > 0 else []),
        *(doubt for mine in told for doubt in _doubts(mine)),
        *_inferred(rows),
    ]


def _bound(mine: pl.DataFrame) -> Note:
    """What bounds a rank, and over which time."""
    whole = int(mine["duration"].sum())
    sums = mine.group_by("class").agg(pl.col("duration").sum()).sort("duration", "class", descending=[True, False])
    much = sums.filter(pl.col("duration") >= _LEAST * whole)
    first = mine.row(0, named=True)
    return note(
        "critical_path_bound",
        rank=first["rank"],
        classes=tuple(much["class"].to_list()),
        shares=tuple(time / whole for time in much["duration"].to_list()),
        length=whole,
        missing=first["missing"],
        of=first["of"],
        steps=tuple(first["steps"]),
        step=first["step"],
    )


def _doubts(mine: pl.DataFrame) -> Iterator[Note]:
    """What of a rank's path is not known."""
    whole = int(mine["duration"].sum())
    blank = int(mine.filter(pl.col("name") == NOTHING)["duration"].sum())
    rank, missing, name = mine.select("rank", "missing", "name").row(0)
    if blank > _MUCH * whole:
        yield note("critical_path_unrecorded", level="missing", rank=rank, part=blank / whole)
    if missing > _LITTLE * (whole + missing):
        yield note("critical_path_begins_late", level="missing", rank=rank, time=missing, name=name)
    unknown = mine.filter(pl.col("class") == "unknown").sort("duration", descending=True)
    if unknown["duration"].sum() > _LITTLE * whole:
        name, time = unknown.select("name", "duration").row(0)
        yield note("critical_path_wait_unknown", level="missing", rank=rank, name=name, time=time)


def _inferred(rows: pl.DataFrame) -> list[Note]:
    """That the file does not say what waited for what, where that was asked."""
    inferred = pl.col("inferred") & pl.col("class").is_in(["kernel-kernel delay", "sync"])
    known = not rows.select(inferred.any()).item()
    return [] if known else [note("stream_waits_inferred", level="inferred")]


def _why_empty(scene: Scene) -> Note:
    return note("no_path_in_xla_profile" if scene.xla else "no_path", level="missing")


ANALYSIS = Analysis(
    name="critical_path",
    title="Critical path",
    question="What bounds a step: CPU, launches, compute, communication, delays, synchronisation or data loading?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(BY, NEAR),
)
