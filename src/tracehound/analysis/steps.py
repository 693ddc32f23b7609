"""How long each step took on each rank, and what its device did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.silence import no_steps
from tracehound.analysis.events.busy import busy_of, work
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import CLOCKED, clock_of, clocks_apart
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.share import overlapping
from tracehound.analysis.spans.partial_steps import DEFINITION as PARTIAL
from tracehound.analysis.spans.partial_steps import counted, left_out
from tracehound.analysis.spans.phases import inference
from tracehound.analysis.spans.stretches import BOUNDS
from tracehound.analysis.step_parts import stretched
from tracehound.intervals import Ints, covered
from tracehound.notes import Note, note
from tracehound.trace import collected
from tracehound.units import duration

DEFINITION = f"""\
A step is what the profiler marked: ProfilerStep#N on the host (never its shadow on the device, which is shorter and
wrong for work launched by other threads), StepTraceAnnotation, StepTrace, or a device's Steps line. Where a number
comes again later (a loop of evaluation after that of training), the first mark keeps it and the later ones are numbered
on after the largest; health tells how many. Without marks, one execution of the module that takes the most device
time, from its start to the next start; where there are no modules, the annotations of an inference engine (vLLM,
SGLang), annotations that follow one another and cover most of the time, the stretches between the ends of an
optimizer's steps, or those between replays of graphs, in that order. Such steps are labelled inferred, and counted from
0 on each rank; but the executions of one run (one run_id of one program) have one number on all ranks, that of the rank
which begins first, where the runs that ranks share are at about one time (most within half a step).

A step begins at its mark and lasts until the mark ends and all work that it launched has ended; it begins no earlier
than the step before has ended, and the first of them no earlier than work of no step (launched before it, or by nothing
that was recorded; the latter on CPUs only where it began before the mark) which ended before its own began. So hosts
that run ahead of their devices do not make steps short: these are the bounds of step_parts, findings and diff, and of
the PyTorch TensorBoard plugin. The setting bounds=mark keeps to the marks, as HolisticTraceAnalysis does; a note says
how long steps are by them, where that is something else. Windows of steps (--step) are those of the marks, too. What a
host's thread does is of the step whose mark is around it; of XLA what one thread handed to another (the producers and
consumers that XProf groups events by, regions of a thread pool) is of the step in which it was handed over. duration =
end - start; busy, compute, communication and idle are the device's state inside that stretch, as in the breakdown.
Steps of a device with a clock of its own (TPU) are measured on that: the profiler aligns it to the host's piece by
piece, which may stretch one step and shrink another.

{PARTIAL}

A window keeps the steps whose marks overlap it, at full length. The PyTorch TensorBoard plugin took the device shadows
for steps of length 0; we do not."""

COLUMNS = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("name", "text", "what marked it", brief=False),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "length of the step, until its work is done; of its mark with bounds=mark"),
    Column("busy", "share", "device works", "the step"),
    Column("compute", "time", "computation runs"),
    Column("communication", "time", "communication runs and no computation", brief=False),
    Column("copy", "time", "only copies run", brief=False),
    Column("idle", "time", "device does nothing"),
    Column("partial", "flag", "the recording began or ended within it, or nothing tells when it ended", brief=False),
    Column("inferred", "flag", "not marked by the profiler", brief=False),
    Column("event", "id", "the mark"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row per step that overlaps the window; ps."""
    every = work(replace(share, device=share.anytime), "lane", "step", "launch", *CLOCKED)
    marks = share.steps.select("event", marked=pl.col("end") - pl.col("start"))
    steps = stretched(share, every, BOUNDS.of(options.given)).join(marks, on="event", how="left", maintain_order="left")
    start, end = steps["start"].to_numpy(), steps["end"].to_numpy()
    share = _around(share, start, end)
    events = collected(overlapping(every.lazy(), share.start, share.end)) if share.windowed else every
    clock = clock_of(share) if steps.height and not steps["rank"].null_count() else None
    if clock is None:
        state = busy_of(events, share)
    else:
        start, end = clock.bounds(start, end)
        worked = on_own_clock(events, share)
        state = busy_of(worked.events, replace(share, start=worked.start, end=worked.end))
    works = bool((every["end"] > every["start"]).any())
    parts = {
        "compute": state.compute,
        "communication": state.exposed_communication,
        "copy": state.exposed_copy,
        "work": state.any,
    }
    lengths = {name: covered(intervals, start, end) for name, intervals in parts.items()}
    idle = end - start - lengths["work"]
    return steps.select(
        pl.col("step").cast(pl.Int64),
        pl.lit(share.rank, pl.Int64).alias("rank"),
        "name",
        "start",
        pl.Series("duration", end - start),
        (pl.col("end") - pl.col("start")).alias("traced"),
        *(pl.Series(name, values if works else np.zeros_like(values)) for name, values in lengths.items()),
        pl.Series("idle", idle),
        "partial",
        "unended",
        "inferred",
        "event",
        "marked",
        pl.lit(works).alias("works"),
    )


def _around(share: Share, start: Ints, end: Ints) -> Share:
    """The share, its window stretched to the whole of these steps."""
    if not share.windowed or not len(start):
        return share
    low, high = int(start.min()), int(end.max())
    return replace(share, start=low, end=high, device=overlapping(share.anytime, low, high))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per step and rank, by step."""
    if not any(table.height for table in tables):
        return without(ANALYSIS, scene, options, no_steps(scene))
    rows = pl.concat(tables)
    table = rows.with_columns(
        pl.when("works").then(pl.col("work") / pl.col("duration")).fill_nan(None).alias("busy"),
        *(pl.when("works").then(pl.col(name)).alias(name) for name in ("compute", "communication", "copy", "idle")),
    ).sort("step", "rank", "start")
    return answer(ANALYSIS, table, scene, options, _notes(rows))


def _notes(rows: pl.DataFrame) -> list[Note]:
    known = counted(rows)
    lengths = known["duration"].to_numpy()
    median, p95 = (round(float(np.percentile(lengths, q))) for q in (50, 95))
    notes = [
        note(
            "step_lengths",
            steps=known["step"].n_unique(),
            whole=known.height < rows.height,
            ranks=known["rank"].n_unique(),
            median=median,
            p95=p95,
            least=int(lengths.min()),
            most=int(lengths.max()),
        )
    ]
    notes += left_out(rows, "lengths") if not rows["partial"].all() else []
    notes += clocks_apart("steps", rows["duration"], rows["traced"])
    notes += _by_marks(rows)
    if rows["inferred"].any():
        notes.append(inference(rows.filter("inferred")["name"]))
    return notes


def _by_marks(rows: pl.DataFrame) -> list[Note]:
    """How long steps are by their marks, where the work that they launched makes that something else."""
    apart = (rows["traced"] - rows["marked"]).abs()
    if int(apart.sum()) <= _LITTLE * int(rows["marked"].sum()):
        return []
    traced, marked = (round(float(np.median(rows[name].to_numpy()))) for name in ("traced", "marked"))
    if duration(marked) == duration(traced):  # nobody would see a difference
        return []
    return [note("median_by_marks", median=marked)]


_LITTLE: Final = 0.01
"""A smaller part of the steps' lengths is not worth a note."""

ANALYSIS = Analysis(
    name="steps",
    title="Steps",
    question="How long does each step take, and how much of it is the device busy?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(BOUNDS,),
)
