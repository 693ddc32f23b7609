"""How fast copies move bytes over time, by the kind of copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.devices.directions import kinds_of
from tracehound.analysis.events.busy import COPY, work
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import CLOCKED, OwnClock, clock_of, window_apart
from tracehound.analysis.events.series import Series, Steps, added, spread
from tracehound.analysis.members import listed
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    Scene,
    Share,
    answer,
    share_of,
    stacked,
    without,
)
from tracehound.analysis.settings import Given, Setting, whole
from tracehound.intervals import Ints, union
from tracehound.notes import Note, note
from tracehound.trace import collected
from tracehound.units import PS_PER_S, PS_PER_US

PEAK: Final = Setting(
    "peak", "8000", "copies above so many GB/s are too short to be measured: no device's memory is faster", whole
)

DEFINITION = """\
Copies are the rows of copies, memsets and transfers on the device's streams, and on TPU those on its asynchronous
lines, where they last as long as they are in flight, in the queue for a link, too: how fast that is has transfers. HLO
ops that copy are among the ops. Their kinds are HtoD, DtoH, DtoD, PtoP (from one device to another) and
memset, whatever the file calls them, whether memory is pinned or not: the M (pageable) and S (shared) of XPUs are the
host's memory, too. Where a copy's own name does not say which way it goes (__amd_rocclr_copyBuffer), that of the call
that launched it does (hipMemcpyHtoDAsync); where neither does, its kind is its name. The bandwidth of a copy is its
bytes / its duration; at every instant the bandwidth of a kind is the sum of its copies that run then.

mean, p50, p99 and max are weighted with time, over that in which a copy of the kind runs (busy): mean = bytes moved /
busy. The share is that of busy in the rank's time, idle included. A copy of no length or of unknown size, and one
above 8,000 GB/s (the setting peak), has no bandwidth that could be true: it counts as unmeasured, and is in no other
figure but the number of copies. Where durations are whole microseconds, as in older files, the bandwidth of a short
copy is a rough one: a note says of how many. All times of a device with a clock of its own (TPU), and the bounds of a
window, are on that; at is an instant of the trace's.

HolisticTraceAnalysis' summary is that of the changes after which something runs, however long each bandwidth lasts:
points, point mean and the like are its count, mean and quartiles, for comparison. It takes the bandwidth that the file
states, rounds times to microseconds where they have fractions and lets no copy be shorter than one, leaves out the last
step, and counts rests such as 1e-16 GB/s where fractions do not cancel; here bandwidths are whole bytes per second."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("kind", "text", "HtoD, DtoH, DtoD, PtoP, memset; else the name"),
    Column("copies", "count", "copies of the kind"),
    Column("unmeasured", "count", "copies without a true bandwidth: no length, no size, or beyond all measure"),
    Column("bytes", "bytes", "moved by the others"),
    Column("busy", "time", "in which at least one of them runs"),
    Column("share", "share", "in which at least one of them runs", "the rank's time, idle included", brief=False),
    Column("mean", "rate", "bytes / busy"),
    Column("max", "rate", "highest, copies that overlap together"),
    Column("p50", "rate", "not faster for half of busy", brief=False),
    Column("p99", "rate", "not faster for 99 % of busy", brief=False),
    Column("at", "instant", "when it was the highest first", brief=False),
    Column("points", "count", "changes at which something runs: HTA's count", brief=False),
    Column("point_mean", "rate", "average over these: HTA's mean", brief=False),
    Column("point_std", "rate", "standard deviation over these", brief=False),
    Column("point_min", "rate", "lowest of these", brief=False),
    Column("point_p25", "rate", "a quarter of these is not above", brief=False),
    Column("point_p50", "rate", "half of these is not above", brief=False),
    Column("point_p75", "rate", "three quarters of these are not above", brief=False),
    Column("event", "id", "the copy that took longest"),
)

_ROUGH: Final = 4 * PS_PER_US
"""A copy of at most this length, known to whole microseconds, may have taken a quarter more or less."""


class _Copies(NamedTuple):
    """The copies of one kind: the ids of all `events`, that of the longest, and those that have a bandwidth.

    `rate` is in bytes per second, and above 0; of `rough` copies it is known to a quarter or worse.
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
    def steps(self) -> Steps:
        """The sum of their bandwidths, change by change."""
        return added(self.start, self.end, self.rate)


class _Time(NamedTuple):
    """When the device had time for copies, ps: on its own clock where it has one, else on the trace's."""

    clock: OwnClock | None
    start: int
    end: int

    def traced(self, instant: int) -> int:
        """This instant on the trace's clock."""
        return instant if self.clock is None else int(self.clock.back.opening(np.array([instant]))[0])


def _time(share: Share) -> _Time:
    """The window, or from the first work to the last."""
    worked = on_own_clock(work(share, "lane", *CLOCKED), share)
    clock = clock_of(share)
    if clock is None or not worked.events.is_empty():
        return _Time(clock, worked.start, worked.end)
    ends = clock.bounds(np.array([share.start]), np.array([share.end]))
    return _Time(clock, *(int(end[0]) for end in ends))


def series(share: Share, given: Given = ()) -> Sequence[Series]:
    """The bandwidth of every kind of copy on the rank, bytes per second; within the share's window, if it has one.

    All times are the trace's: these are lanes of the timeline.
    """
    time = _Time(None, share.start, share.end)
    found = [copies for copies in _kinds(share, given, None) if len(copies.rate)]
    return [_inside(copies.steps, share, time).series(copies.kind, None) for copies in found]


def _inside(steps: Steps, share: Share, time: _Time) -> Steps:
    return steps.within(time.start, time.end) if share.windowed else steps


def _kinds(share: Share, given: Given, clock: OwnClock | None) -> Iterator[_Copies]:
    """The copies that overlap the share's window, kind by kind, on that clock."""
    device = share.lanes.filter(pl.col("rank").is_not_null())
    lanes = device.filter((pl.col("work") & (pl.col("role") != "ops")) | (pl.col("role") == "async"))["lane"]
    mine = pl.col("lane").is_in(lanes.to_list()) & pl.col("kind").is_in(COPY)
    rows = collected(
        share.device.filter(mine).select("id", "start", "end", *CLOCKED, "name", "kind", "bytes", "launch")
    )
    if clock is not None:
        bounds = clock.bounds(rows["start"].to_numpy(), rows["end"].to_numpy())
        start, end = (pl.coalesce(name, pl.Series(found)) for name, found in zip(CLOCKED, bounds, strict=True))
        rows = rows.with_columns(start=start, end=end)
    parts = rows.with_columns(kinds_of(share, rows).alias("told")).partition_by("told", as_dict=True)
    for (kind,), part in sorted(parts.items()):
        yield _measured(str(kind), part, PEAK.of(given))


def _measured(kind: str, rows: pl.DataFrame, peak: int) -> _Copies:
    """The copies of one kind; `peak` in GB/s."""
    start, end = (rows[name].to_numpy() for name in ("start", "end"))
    size = rows["bytes"].fill_null(0).to_numpy()
    rate = np.rint(size * PS_PER_S / np.maximum(end - start, 1))
    true = (end > start) & (rate > 0) & (rate <= peak * 1e9)
    longest = int(rows["id"][int(np.argmax(end - start))])
    lengths = (end - start)[true]
    rough = 0 if (lengths % PS_PER_US).any() else int((lengths <= _ROUGH).sum())
    return _Copies(kind, rows["id"], longest, rough, start[true], end[true], size[true], rate[true].astype(np.int64))


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each kind of copy."""
    time = _time(share)
    kinds = list(_kinds(share, options.given, time.clock))
    if not kinds:
        return pl.DataFrame({_SILENT: [share.rank]})
    length = time.end - time.start
    rows = [_row(copies, share, time, options) for copies in kinds]
    queue = not share.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "async")).is_empty()
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"bytes": pl.Int64}).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(queue).alias("queue"),
        share_of("busy", length).alias("share"),
        pl.lit(length, pl.Int64).alias("span"),
    )


def _row(copies: _Copies, share: Share, time: _Time, options: Options) -> dict[str, object]:
    """The figures of one kind. Without a copy of a known bandwidth nothing moves: 0 bytes in no time, at no speed."""
    start, end = copies.start, copies.end
    if share.windowed:
        start, end = start.clip(time.start, time.end), end.clip(time.start, time.end)
    moved = float((copies.bytes * ((end - start) / (copies.end - copies.start))).sum())
    busy = union(start, end).length
    changes = copies.steps.between(time.start, time.end) if share.windowed else copies.steps
    steps = _inside(copies.steps, share, time).merged()
    lasting = steps.lasting(time.end)
    running = (steps.value > 0) & (lasting > 0)
    over_time = spread(steps.value[running], lasting[running])
    seen = spread(changes.value[changes.value > 0])
    highest = int(np.argmax(steps.value)) if over_time.total else None
    return {
        "kind": copies.kind,
        "copies": len(copies.events),
        "unmeasured": len(copies.events) - len(copies.rate),
        "rough": copies.rough,
        "bytes": round(moved),
        "busy": busy,
        "mean": moved / busy * PS_PER_S if busy else None,
        "p50": over_time.reached(0.5),
        "p99": over_time.reached(0.99),
        "max": None if highest is None else int(steps.value[highest]),
        "at": None if highest is None else time.traced(int(steps.time[highest])),
        "points": seen.total,
        "point_mean": seen.mean,
        "point_std": seen.deviation,
        "point_min": int(seen.value[0]) if seen.total else None,
        **{f"point_p{part}": seen.quantile(part / 100) for part in (25, 50, 75)},
        "event": copies.longest,
        **listed(options, copies.events),
    }


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of all ranks in their order, of each the kind that runs longest first."""
    silent = [int(table[_SILENT][0]) for table in tables if _SILENT in table.columns]
    rows = stacked([table for table in tables if _SILENT not in table.columns])
    if rows.is_empty():
        return without(ANALYSIS, scene, options, note("no_copies", level="missing", hlo=scene.xla))
    rows = rows.with_columns(pl.col("rank").rle_id().alias("place"))
    table = rows.sort("place", "busy", "kind", descending=[False, True, False])
    notes = [*_notes(table, PEAK.of(options.given)), *_uncopied(silent, scene), *window_apart(table["span"], scene)]
    return answer(ANALYSIS, table, scene, options, notes)


_SILENT: Final = "silent"
"""The column of a rank without a copy, which has its number."""


def _uncopied(silent: Sequence[int], scene: Scene) -> list[Note]:
    """Which ranks have no row."""
    ranks = tuple(sorted(silent))
    return [note("no_copies_on_ranks", level="missing", ranks=ranks, hlo=scene.xla)] if ranks else []


def _notes(table: pl.DataFrame, peak: int) -> list[Note]:
    """Which bandwidths are not, or hardly, to be believed."""
    unmeasured, rough = int(table["unmeasured"].sum()), int(table["rough"].sum())
    notes = [note("copies_queued")] if table["queue"].any() else []
    if unmeasured:
        first = table.filter(pl.col("unmeasured") > 0).row(0, named=True)
        kind, rank, limit = first["kind"], first["rank"], peak * 10**9
        notes.append(note("copies_not_measured", level="missing", copies=unmeasured, limit=limit, kind=kind, rank=rank))
    if rough:
        notes.append(note("copies_measured_roughly", level="missing", copies=rough, longest=_ROUGH))
    return notes


ANALYSIS = Analysis(
    name="bandwidth",
    title="Bandwidth",
    question="How fast do copies move bytes, by their direction?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="copies",
    settings=(PEAK,),
)
