"""Length of each step on each rank, and the activity of its device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.missing_data import no_steps_note
from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.analysis.step_parts import steps_with_work
from tracehound.analysis.timing.device_busy import busy_intervals, busy_intervals_in_window, device_work
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    clock_difference_notes,
    device_clock,
    steps_lines,
    work_on_device_clock,
)
from tracehound.analysis.timing.rank_steps import PARTIAL_STEPS_DEFINITION as PARTIAL
from tracehound.analysis.timing.rank_steps import (
    STEP_BOUNDS,
    complete_steps,
    inference_phases,
    inferred_steps_note,
    partial_steps_notes,
)
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import collect_frame
from tracehound.model.units import format_duration
from tracehound.numeric.intervals import Ints, covered_lengths

DEFINITION = f"""\
A step is what the profiler marked: ProfilerStep#N on the host (not its copy on the device, which is shorter and wrong
for work launched by other threads), StepTraceAnnotation, StepTrace, or a device's line Steps. If a number repeats (an
evaluation loop after training), later steps are renumbered after the largest, and health counts them. Without marks, a
step is one execution of the module with the most device time, from its start to the next start. Without modules it is,
in this order: an annotation of an inference engine (vLLM, SGLang), one of a series of annotations that cover most of
the time, the time between the ends of an optimizer's steps, or the time between graph replays. Such steps are labeled
inferred and count from 0 on each rank. Executions of one run (one run_id of one program) have one number on all ranks,
that of the rank which begins first, if the runs that ranks share happen at about the same time (most within half a
step).

A step begins at its mark, and lasts until the mark ends and all work that it launched has ended. It begins no earlier
than the end of the step before. The first step begins no earlier than the end of work that belongs to no step and
ended before the step's own work began; such work was launched before the step, or by nothing recorded (on CPUs this
counts only if it began before the mark). So steps are not too short when hosts run ahead of their devices. step_parts,
findings, diff and the PyTorch TensorBoard plugin use the same bounds. bounds=mark uses the marks alone, as
HolisticTraceAnalysis does; a note gives the median by marks if it differs. A window of steps (--step) uses the marks,
too.

Host events belong to the step whose mark is around them. Work that one XLA thread hands to another (XProf's producers
and consumers, regions of a thread pool) belongs to the step in which it was handed over. duration = end - start. busy,
compute, communication and idle are the device's state within the step, as in breakdown. Steps of a device with a clock
of its own (TPU) are measured on it: on the trace's clock some may be too long and others too short. If both the host
and the device (line Steps) mark steps, the host's marks count, and a note gives the median of the device's line, which
XProf shows.

{PARTIAL}

A window keeps the steps whose marks overlap it, at full length. The PyTorch TensorBoard plugin took the device's
copies of the marks for steps of length 0."""

COLUMNS = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("name", "text", "what marked it", brief=False),
    Column("phase", "text", "prefill, decode or both (mixed), where the name tells"),
    Column("start", "instant", "start since the trace began"),
    Column("duration", "time", "from the step's mark to the end of its work; with bounds=mark the length of the mark"),
    Column("busy", "share", "device works", "the step"),
    Column("compute", "time", "computation runs"),
    Column("communication", "time", "communication runs and no computation", brief=False),
    Column("copy", "time", "only copies run", brief=False),
    Column("idle", "time", "device does nothing"),
    Column("partial", "flag", "the recording began or ended inside it, or its end is unknown", brief=False),
    Column("inferred", "flag", "not marked by the profiler", brief=False),
    Column("event", "id", "the mark"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row per step that overlaps the window; ps."""
    all_work = device_work(
        replace(rank_trace, device=rank_trace.device_anytime), "lane", "step", "launch", *DEVICE_TIMES
    )
    mark_lengths = rank_trace.steps.select("event", marked=pl.col("end") - pl.col("start"))
    steps = steps_with_work(rank_trace, all_work, STEP_BOUNDS.value_in(options.given)).join(
        mark_lengths, on="event", how="left", maintain_order="left"
    )
    start, end = steps["start"].to_numpy(), steps["end"].to_numpy()
    rank_trace = _extend_window(rank_trace, start, end)
    events = (
        collect_frame(overlapping_events(all_work.lazy(), rank_trace.start, rank_trace.end))
        if rank_trace.windowed
        else all_work
    )
    clock = device_clock(rank_trace) if steps.height and not steps["rank"].null_count() else None
    if clock is None:
        state = busy_intervals_in_window(events, rank_trace)
    else:
        start, end = clock.to_device_bounds(start, end)
        device_clock_work = work_on_device_clock(events, rank_trace)
        state = busy_intervals(
            device_clock_work.events, replace(rank_trace, start=device_clock_work.start, end=device_clock_work.end)
        )
    has_work = bool((all_work["end"] > all_work["start"]).any())
    parts = {
        "compute": state.compute,
        "communication": state.exposed_communication,
        "copy": state.exposed_copy,
        "work": state.busy,
    }
    lengths = {name: covered_lengths(intervals, start, end) for name, intervals in parts.items()}
    idle = end - start - lengths["work"]
    return steps.select(
        pl.col("step").cast(pl.Int64),
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        "name",
        inference_phases(steps["name"]),
        "start",
        pl.Series("duration", end - start),
        (pl.col("end") - pl.col("start")).alias("traced"),
        *(pl.Series(name, values if has_work else np.zeros_like(values)) for name, values in lengths.items()),
        pl.Series("idle", idle),
        "partial",
        "unended",
        "inferred",
        "event",
        "marked",
        pl.lit(has_work).alias("works"),
        pl.lit(_median_of_steps_line(rank_trace), pl.Int64).alias("line_median"),
    )


def _median_of_steps_line(rank_trace: RankTrace) -> int | None:
    """The median length of the steps that the device itself recorded in the window, ps.

    None if it recorded none, or if the steps are these.
    """
    lanes = steps_lines(rank_trace)["lane"].to_list()
    if not lanes or not rank_trace.steps["rank"].null_count():
        return None
    length = (pl.col("end") - pl.col("start")).median()
    found = collect_frame(rank_trace.device.filter(pl.col("lane").is_in(lanes)).select(length)).item()
    return None if found is None else round(found)


def _extend_window(rank_trace: RankTrace, start: Ints, end: Ints) -> RankTrace:
    """The rank trace with its window extended to the whole of these steps."""
    if not rank_trace.windowed or not len(start):
        return rank_trace
    low, high = int(start.min()), int(end.max())
    return replace(rank_trace, start=low, end=high, device=overlapping_events(rank_trace.device_anytime, low, high))


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per step and rank, by step."""
    if not any(table.height for table in stacks_of(tables)):
        return empty_result(ANALYSIS, context, options, no_steps_note(context))
    rows = pl.concat(stacks_of(tables))
    table = rows.with_columns(
        pl.when("works").then(pl.col("work") / pl.col("duration")).fill_nan(None).alias("busy"),
        *(pl.when("works").then(pl.col(name)).alias(name) for name in ("compute", "communication", "copy", "idle")),
    ).sort("step", "rank", "start")
    return make_result(ANALYSIS, table, context, options, _notes(rows))


def _notes(rows: pl.DataFrame) -> list[Note]:
    complete = complete_steps(rows)
    phases = complete["phase"].fill_null("").unique().sort().to_list()
    notes = [
        _lengths_note(
            complete.filter(pl.col("phase").fill_null("") == phase), phase, whole=complete.height < rows.height
        )
        for phase in phases
    ]
    notes += partial_steps_notes(rows, "lengths") if not rows["partial"].all() else []
    notes += clock_difference_notes("steps", rows["duration"], rows["traced"])
    notes += _length_by_marks_notes(rows)
    if complete.height:
        notes += _length_by_device_notes(rows, round(float(np.median(complete["duration"].to_numpy()))))
    if rows["inferred"].any():
        notes.append(inferred_steps_note(rows.filter("inferred")["name"]))
    return notes


def _lengths_note(rows: pl.DataFrame, phase: str, *, whole: bool) -> Note:
    """A note on the lengths of the steps of one phase of inference ("": of none); steps of several do other work."""
    lengths = rows["duration"].to_numpy()
    median, p95 = (round(float(np.percentile(lengths, q))) for q in (50, 95))
    return note(
        "step_lengths",
        steps=rows["step"].n_unique(),
        whole=whole,
        ranks=rows["rank"].n_unique(),
        median=median,
        p95=p95,
        least=int(lengths.min()),
        most=int(lengths.max()),
        phase=phase,
    )


def _length_by_marks_notes(rows: pl.DataFrame) -> list[Note]:
    """A note with the length of steps by their marks, where their work makes it different."""
    differences = (rows["traced"] - rows["marked"]).abs()
    if int(differences.sum()) <= _NOTABLE_DIFFERENCE * int(rows["marked"].sum()):
        return []
    traced, marked = (round(float(np.median(rows[name].to_numpy()))) for name in ("traced", "marked"))
    if format_duration(marked) == format_duration(traced):  # they print alike
        return []
    return [note("median_by_marks", median=marked)]


def _length_by_device_notes(rows: pl.DataFrame, median: int) -> list[Note]:
    """A note with the length of steps by the devices' own lines, where these make it different."""
    medians = rows.drop_nulls("line_median")["line_median"].to_numpy()
    line_median = round(float(np.median(medians))) if len(medians) else median
    if abs(line_median - median) <= _NOTABLE_DIFFERENCE * median:
        return []
    return [note("median_by_steps_line", median=line_median)]


_NOTABLE_DIFFERENCE: Final = 0.01
"""A smaller share of the steps' lengths has no note."""

ANALYSIS = Analysis(
    name="steps",
    title="Steps",
    question="How long does each step take, and how much of it is the device busy?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=(STEP_BOUNDS,),
)
