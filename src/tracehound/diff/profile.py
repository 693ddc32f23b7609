"""What one run spends its time on, step by step: small, and all that a comparison needs.

Owns the map over ranks that measures it and what becomes of several ranks. Times are ps in a step, averaged over the
ranks that have the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.analysis.events.busy import COMMUNICATION, COPY, local_parent
from tracehound.analysis.ranks.process_groups import lacking
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.analysis.share import run_all, scene
from tracehound.analysis.topics import tells_memory_alone
from tracehound.diff import measures, shares
from tracehound.diff.identity import IDENTITY, ONLY_MEMORY, identified
from tracehound.diff.measures import MEASURES
from tracehound.diff.stretches import WHOLE, WINDOW, Compared, Stretches, compared
from tracehound.intervals import Ints
from tracehound.notes import Note, note
from tracehound.own_time import own_stretches
from tracehound.store.strangers import doubt
from tracehound.trace import PROFILERS, Trace, Window
from tracehound.units import plural

PARTS: Final = ("compute", "communication", "copy", "idle")
"""What a step's time goes to; they add up to it."""


_SUMS: Final = ("count", "time", "exposed")

STRETCHES: Final = dict.fromkeys(("rank", "step", "start", "end", "duration"), pl.Int64)

LONGEST: Final = {**dict.fromkeys(IDENTITY, pl.String), "event": pl.Int64, "length": pl.Int64}


class Profile(Struct, frozen=True, eq=False):
    """One run, measured.

    `steps` has a row for each step: step, ranks (how many have it), duration and `PARTS`. `ops` has a row for each
    step and op: step, `IDENTITY`, count, time (own time; several streams add up) and exposed (see `exposed_times`).
    `measures` has what else was measured of each step (see there). `what` says what the steps are, `of` which events
    the ops are and `form` which profiler wrote them; `outside` is the share of the work's time that lies in no step,
    `partial` which are partial on any rank (left out, unless there are no others), `without` how many ranks have no
    step and are left out since others have some, `lost` what its files lack, and `doubt` why they are
    hardly of one run; empty where they may be. Of a run whose trace is open `stretches` has the steps of each rank
    (rank, step, start, end, and duration on the clock that measures it) and `longest` the longest execution of each op
    (`IDENTITY`, event, length); what was saved has neither.
    """

    name: str
    ranks: int
    what: str
    of: str
    steps: pl.DataFrame
    ops: pl.DataFrame
    measures: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MEASURES))
    form: str = ""
    outside: float = 0.0
    lost: tuple[Note, ...] = ()
    partial: tuple[int, ...] = ()
    without: int = 0
    stretches: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STRETCHES))
    longest: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LONGEST))
    doubt: Note | None = None

    @property
    def unit(self) -> str:
        """What is compared, of whatever program: ``steps``, ``executions``, ``the whole run`` or ``the window``."""
        return self.what.split(" of ", 1)[0]

    @property
    def about(self) -> str:
        """What was measured, in words: ``6 steps on 2 ranks, work on the device``."""
        every = self.ranks + self.without
        ranks = f"{f'{self.ranks:,} of ' * (self.without > 0)}{plural(every, 'rank')}"
        if self.steps.is_empty():
            return f"nothing on {ranks}"
        one = self.steps.height == 1
        what = self.what.replace("steps", "step", 1).replace("executions", "execution", 1) if one else self.what
        count = "" if self.what in (WHOLE, WINDOW) else f"{self.steps.height:,} "
        left = len(set(self.partial) - set(self.steps["step"].to_list()))
        lacking = f", {plural(left, 'partial step')} left out" if left else ", partial" if self.partial else ""
        return f"{count}{what} on {ranks}, {self.of}{lacking}"


def not_alike(base: Profile, other: Profile) -> Note | None:
    """What is measured of one run and not of the other; None where both are of a kind."""
    if base.of != other.of:
        return note("runs_not_alike", base=base.of, other=other.of)
    if base.unit != other.unit:
        return note("runs_not_alike", base=base.what, other=other.what)
    return None


def not_whole(runs: Mapping[str, Profile]) -> list[Note]:
    """What the files of these runs lack, in a note each."""
    return [_not_whole(name, run.lost) for name, run in runs.items() if run.lost]


def _not_whole(run: str, lost: Sequence[Note]) -> Note:
    """The note that the files of a run lack something, with the first of what they lack."""
    first, *more = lost
    times = first.count if first.level == "dropped" else 0
    return note("run_not_whole", run=run, first=first, where=first.place, times=times, more=len(more))


_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("step", "count", "step"),
    Column("what", "text", "what the step is"),
    Column("of", "text", "what the ops are"),
    Column("outside", "time", "in which the rank works in no step"),
    Column("worked", "time", "in which the rank works"),
    Column("partial", "flag", "the recording began or ended within it"),
    Column("start", "instant", "start of the step; null in the rows of ops"),
    Column("end", "instant", "its end"),
    Column("duration", "time", "length of the step; null in the rows of ops"),
    *(Column(name, "text", name) for name in IDENTITY),
    Column("count", "count", "executions that begin in the step"),
    Column("time", "time", "own time"),
    Column("exposed", "time", "time that goes to it and to nothing else"),
    Column("class", "count", "class of the work"),
    Column("event", "id", "the longest execution that begins in the step"),
    Column("length", "time", "of the longest"),
)


def profile(trace: Trace, window: Window, executor: Executor | None = None) -> Profile:
    """The run measured, in a window."""
    if tells_memory_alone(trace):
        return _of_memory(trace, window)
    asked = [(_MEASURED, Options()), (measures.ANALYSIS, Options())]
    rows, more = (result.table for result in run_all(asked, trace, window, executor))
    every = rows["rank"].n_unique()
    rows, more = _stepping(rows, more)
    partial, left = _partial(rows)
    whole, more = rows.filter(~pl.col("step").is_in(left)), more.filter(~pl.col("step").is_in(left))
    steps, ops = whole.filter(pl.col("duration").is_not_null()), whole.filter(pl.col("duration").is_null())
    ranks = steps.group_by("step").agg(pl.len().cast(pl.Int64).alias("ranks"))
    parts = ops.group_by("step", "class").agg(pl.col("exposed").sum())
    lengths = steps.group_by("step").agg(pl.col("duration").sum().cast(pl.Float64)).join(ranks, on="step")
    for number, part in enumerate(shares.CLASSES):
        mine = parts.filter(pl.col("class") == number).select("step", pl.col("exposed").alias(part))
        lengths = lengths.join(mine, on="step", how="left")
    lengths = lengths.with_columns(pl.col(*shares.CLASSES).fill_null(0).cast(pl.Float64))
    idle = (pl.col("duration") - pl.sum_horizontal(shares.CLASSES)).alias("idle")
    mean = pl.col("duration", *PARTS) / pl.col("ranks")
    of_ops = ops.group_by("step", *IDENTITY).agg(pl.col(_SUMS).sum().cast(pl.Float64))
    placed = steps.select(list(STRETCHES))
    return Profile(
        name=trace.name,
        ranks=rows["rank"].n_unique(),
        what=_one(rows["what"]),
        of=_one(rows["of"]),
        steps=lengths.with_columns(idle).with_columns(mean).select("step", "ranks", "duration", *PARTS).sort("step"),
        ops=of_ops.join(ranks, on="step")
        .with_columns(pl.col(_SUMS) / pl.col("ranks"))
        .drop("ranks")
        .sort("step", *IDENTITY),
        measures=_measures(trace, more, placed, ranks),
        form=_one(pl.Series([PROFILERS[part.format] for part in trace.parts], dtype=pl.String)),
        outside=_outside(rows),
        lost=_lost(trace, window),
        partial=partial,
        without=every - rows["rank"].n_unique(),
        stretches=placed,
        longest=_longest(ops),
        doubt=doubt(trace, window.ranks),
    )


def _lost(trace: Trace, window: Window) -> tuple[Note, ...]:
    """What the files lack, and which ranks of the job are not here; of one rank alone that is no news."""
    dropped = (each for each in trace.notes if each.level == "dropped")
    return (*dropped, *(lacking(scene(trace, window)) if trace.ranks.height > 1 else ()))


def _stepping(rows: pl.DataFrame, more: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the ranks that have steps or executions, if any has: the whole time of another is none."""
    ranks = rows.filter(~pl.col("what").is_in([WHOLE, WINDOW]))["rank"].unique()
    have = pl.col("rank").is_in(ranks.implode())
    return (rows.filter(have), more.filter(have)) if len(ranks) else (rows, more)


def _partial(rows: pl.DataFrame) -> tuple[tuple[int, ...], list[int]]:
    """Which steps are partial on any rank, and which of them are left out: none where there are no others."""
    steps = rows.filter(pl.col("duration").is_not_null())
    partial = steps.filter("partial")["step"].unique().sort().to_list()
    return tuple(partial), partial if len(partial) < steps["step"].n_unique() else []


def _of_memory(trace: Trace, window: Window) -> Profile:
    """A run of which only memory is known: one stretch, in which no time is measured."""
    low, high = window.within(*trace.span)
    ranks = trace.ranks["rank"].to_list() if window.ranks is None else list(window.ranks)
    until = high + (window.end is None)  # with the last sample
    placed = pl.DataFrame([(rank, 0, low, until, until - low) for rank in ranks], schema=STRETCHES, orient="row")
    one = {"step": 0, "ranks": len(ranks), **dict.fromkeys(("duration", *PARTS), 0.0)}
    ops = {"step": pl.Int64(), **dict.fromkeys(IDENTITY, pl.String()), **dict.fromkeys(_SUMS, pl.Float64())}
    return Profile(
        name=trace.name,
        ranks=len(ranks),
        what=WINDOW if window.timed else WHOLE,
        of=ONLY_MEMORY,
        steps=pl.DataFrame([one]),
        ops=pl.DataFrame(schema=ops),
        measures=measures.of_counters(trace, placed).select(list(MEASURES)).sort("step", "topic", "name"),
        form=PROFILERS["memory_timeline"],
        stretches=placed,
        doubt=doubt(trace, window.ranks),
    )


def _outside(rows: pl.DataFrame) -> float:
    """The share of the time of all ranks' work that is of no step."""
    outside, worked = rows.unique("rank").select(pl.col("outside", "worked").sum()).row(0)
    return float(outside / worked) if worked else 0.0


def _measures(trace: Trace, rows: pl.DataFrame, placed: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """`MEASURES` of maps and of counters."""
    told = [measures.averaged(rows, ranks), measures.of_counters(trace, placed).select(list(MEASURES))]
    return pl.concat(told).sort("step", "topic", "name")


def _longest(ops: pl.DataFrame) -> pl.DataFrame:
    """The longest execution of each op on any rank, in any step."""
    by_length = ops.drop_nulls("event").sort("length", "event", descending=[True, False])
    return by_length.unique(IDENTITY, keep="first", maintain_order=True).select(list(LONGEST))


def _one(words: pl.Series) -> str:
    return " and ".join(words.unique().sort().to_list())


def _per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row per step, and a row per step and op."""
    del options
    traced = compared(share)
    here, (outside, worked) = traced.on_own_clock(), traced.outside
    share, events, when = here.share, here.events, here.when
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    owned = own_stretches(start, end, local_parent(events))
    found = identified(events, share)
    kinds = [found.ops["kind"].is_in(names).to_numpy() for names in (COMMUNICATION, COPY)]
    classes = shares.classes_of(kinds)
    began = np.searchsorted(when.start, start, side="right") - 1
    inside = (began >= 0) & (start < np.append(when.end, 0)[began])
    times = {
        "count": shares.Times(np.flatnonzero(inside), began[inside], np.ones(int(inside.sum()), np.int64)),
        "time": shares.own_times(owned, when),
        "exposed": shares.exposed_times(owned, classes[found.row], when),
    }
    named = found.ops.drop("kind").with_columns(pl.Series("class", classes, pl.Int64))
    longest = events[times["count"].event].select("id", (pl.col("end") - pl.col("start")).alias("length"))
    return pl.concat(
        [_steps(when, traced), _summed(named, found.row, times, longest, when)], how="diagonal"
    ).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(when.what).alias("what"),
        pl.lit(here.of).alias("of"),
        pl.lit(outside, pl.Int64).alias("outside"),
        pl.lit(worked, pl.Int64).alias("worked"),
    )


def _steps(when: Stretches, traced: Compared) -> pl.DataFrame:
    """How long steps last, where they lie in the trace, and whether they are partial."""
    place, lacking = traced.when, traced.partial
    told = {"step": when.number, "start": place.start, "end": place.end, "duration": when.end - when.start}
    return pl.DataFrame({**told, "partial": np.zeros(len(when.number), np.bool_) if lacking is None else lacking})


def _summed(
    named: pl.DataFrame, row: Ints, times: Mapping[str, shares.Times], events: pl.DataFrame, when: Stretches
) -> pl.DataFrame:
    """What each op has of each step; `events` are those that are counted, with their lengths."""
    rows = [
        pl.DataFrame({"unit": row[found.event], "step": when.number[found.stretch], name: found.time})
        for name, found in times.items()
    ]
    rows[0] = rows[0].hstack(events)
    return (
        pl.concat(rows, how="diagonal")
        .group_by("unit", "step")
        .agg(
            pl.col(*times).sum(),
            pl.col("id").sort_by("length", "id", descending=[False, True], nulls_last=False).last().alias("event"),
            pl.col("length").max(),
        )
        .join(named.with_row_index("unit").with_columns(pl.col("unit").cast(pl.Int64)), on="unit")
        .drop("unit")
        .with_columns(pl.lit(None, pl.Int64).alias("duration"))
    )


def _combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    filled = [table for table in tables if table.height]
    rows = pl.concat(filled, how="diagonal_relaxed") if filled else blank(_COLUMNS)
    return answer(_MEASURED, rows, scene, options)


_MEASURED = Analysis(
    name="profile",
    title="Profile",
    question="What does each step go to?",
    definition="Times of each step and op, averaged over the ranks that have the step.",
    columns=_COLUMNS,
    per_rank=_per_rank,
    combine=_combine,
)
