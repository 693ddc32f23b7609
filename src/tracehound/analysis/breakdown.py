"""Time of each device by activity: compute, exposed communication, exposed copy, idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import RUN_OR_STEP
from tracehound.analysis.devices.missing_data import (
    count_concurrent_executions,
    merged_devices_notes,
    no_steps_note,
    ranks_without_activity_notes,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.analysis.timing.device_busy import (
    BusyIntervals,
    busy_intervals,
    busy_intervals_in_window,
    device_work,
)
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    clock_difference_notes,
    device_clock,
    has_device_clock,
    steps_in_window,
    window_length_notes,
    work_on_device_clock,
)
from tracehound.analysis.timing.other_step_work import (
    NO_WORK_OUTSIDE,
    STEP_COLUMNS,
    outside_marks_notes,
    work_outside_marks,
)
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.numeric.intervals import covered_lengths

DEFINITION = """\
Each device's time, from the start of its first work to the end of its last (or the window), is divided into four
parts. compute: any computation runs. exposed communication: communication runs and no computation. exposed copy:
copies or memsets run, and neither of the others. idle: nothing runs. Lengths are unions of intervals over all streams,
so the four parts add up to the span exactly. Communication and copies that computation hides count as compute; "all
communication" and "all copy" include the hidden part.

Copies include those within the device; duty_cycle and step_time separate input, output and device to device. On TPUs
copies are infeed and outfeed, asynchronous copies and slices, and copies from one memory to another, as in transfers.
A note says if device work spans less than 90 % of the recording. If a file does not tell several devices apart, they
are one rank, and a note says so. Work that contains other work (an HLO while) counts only where none of its parts
runs. Devices with a clock of their own (TPU) are measured on it, as are the bounds of steps and windows.

HolisticTraceAnalysis' temporal breakdown has the same compute and idle, and adds the other two up as "non compute". It
drops the last profiler step and counts CUDA synchronization rows as device work; Tracehound does neither. TraceLens'
gpu_timeline has the same four parts, but counts memsets as computation.

by=step has a row for each rank and step, cut at the step's mark (and at the window). It shows what ran in that time,
whichever step launched it. steps and step_parts follow a step to the end of its work; a note says how much work ran
outside of the marks. Overlapping steps both count the time that they share. The note has all rows together."""

WORK_IN_PART_OF_RECORDING: Final = "work_in_part_of_recording"
"""Code of the note on a recording that is longer than the work in it; the shares leave out the rest."""

_PART_MEANINGS: Final = {
    "compute": "computation runs",
    "communication": "communication runs and no computation (exposed)",
    "copy": "only copies or memsets run (exposed)",
    "idle": "nothing runs",
}
"""The parts of device time."""


def part_share_columns(base: str) -> dict[str, Column]:
    """The column of each part as a share of this base."""
    return {part: Column(f"{part}_share", "share", meaning, base) for part, meaning in _PART_MEANINGS.items()}


def _part_columns(base: str) -> tuple[Column, ...]:
    """The columns of the parts, as times and as shares of this base."""
    shares = part_share_columns(base)
    parts = [
        column
        for part, meaning in _PART_MEANINGS.items()
        for column in (Column(part, "time", meaning, brief=False), shares[part])
    ]
    return (
        *parts,
        Column("all_communication", "time", "communication runs, hidden or not", brief=False),
        Column("all_copy", "time", "copies or memsets run, hidden or not", brief=False),
    )


COLUMNS = (
    Column("rank", "count", "rank"),
    Column("device", "text", "what the rank runs on", brief=False),
    Column("span", "time", "from first to last device work, or the window"),
    *_part_columns("the span (from first to last device work, or the window)"),
)

BY_STEP_COLUMNS: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("start", "instant", "start of the step, or of the part in the window", brief=False),
    Column("span", "time", "length of the step, or of the part in the window"),
    *_part_columns("the step, or of its part in the window"),
    Column("event", "id", "the mark of the step"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for the run, or for each step that overlaps the window: lengths in ps."""
    by_step = RUN_OR_STEP.value_in(options.given) == "step"
    events = device_work(rank_trace, "lane", *DEVICE_TIMES, *(STEP_COLUMNS if by_step else ()))
    if has_device_clock(events):
        worked = work_on_device_clock(events, rank_trace)
        state = busy_intervals(worked.events, replace(rank_trace, start=worked.start, end=worked.end))
    else:
        state = busy_intervals_in_window(events, rank_trace)
    clock = device_clock(rank_trace) if by_step and has_device_clock(events) else None
    intervals = steps_in_window(rank_trace, clock) if by_step else _run_as_interval(state)
    start, end = intervals["from"].to_numpy(), intervals["until"].to_numpy()
    columns = (rank_trace.lanes[name].to_list() for name in ("first", "last", "work", "rank"))
    lanes = [(first, last) for first, last, work, rank in zip(*columns, strict=True) if work and rank is not None]
    lengths = {
        "compute": covered_lengths(state.compute, start, end),
        "communication": covered_lengths(state.exposed_communication, start, end),
        "copy": covered_lengths(state.exposed_copy, start, end),
        "all_communication": covered_lengths(state.communication, start, end),
        "all_copy": covered_lengths(state.copy, start, end),
        "idle": end - start - covered_lengths(state.busy, start, end),
    }
    outside_marks = work_outside_marks(rank_trace, events) if by_step else NO_WORK_OUTSIDE
    of_rank = {
        "rank": rank_trace.rank,
        "device": rank_trace.label,
        "lanes": len(lanes),
        "first": min((first for first, _ in lanes), default=None),
        "last": max((last for _, last in lanes), default=None),
        "beside": 0 if has_device_clock(events) else count_concurrent_executions(rank_trace),
        "stepped": outside_marks.work,
        "outside": outside_marks.outside,
    }
    repeated = (
        pl.Series(name, [value], pl.String if name == "device" else pl.Int64).new_from_index(0, intervals.height)
        for name, value in of_rank.items()
    )
    of_intervals = {"span": end - start, **lengths}
    return intervals.hstack([*repeated, *(pl.Series(name, values) for name, values in of_intervals.items())])


def _run_as_interval(state: BusyIntervals) -> pl.DataFrame:
    return pl.DataFrame({"from": [state.start], "until": [state.end]}, schema={"from": pl.Int64, "until": pl.Int64})


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per rank, in the order of ranks; or per step and rank, in the order of steps."""
    by_step = RUN_OR_STEP.value_in(options.given) == "step"
    analysis = ANALYSIS.with_shown_columns(options.given)
    if not tables:
        return empty_result(analysis, context, options, note("no_ranks", level="missing"))
    table = pl.concat(stacks_of(tables))
    silent = table.filter(pl.col("lanes") == 0)["rank"].unique().sort().to_list()
    notes = ranks_without_activity_notes(context, silent)
    shares = [
        (pl.col(part) / pl.col("span")).fill_nan(None).alias(f"{part}_share")
        for part in ("compute", "communication", "copy", "idle")
    ]
    order = ("step", "rank", "start") if by_step else ("rank",)
    rows = table.filter(pl.col("lanes") > 0).with_columns(shares).sort(order)
    if by_step and table.is_empty():
        notes.append(no_steps_note(context))
    notes += outside_marks_notes(table) if by_step else _recording_notes(table, context)
    notes += [*_total_notes(rows), *_hidden_parts_notes(rows), *merged_devices_notes(rows, "hidden")]
    notes += _clock_notes(rows, context)
    return make_result(analysis, rows, context, options, notes)


def _clock_notes(rows: pl.DataFrame, context: RunContext) -> list[Note]:
    """A note where steps, or the window, have other lengths on the clocks of the devices."""
    if "event" not in rows.columns:
        return window_length_notes(rows["span"], context)
    return clock_difference_notes("steps", rows["span"], rows["end"] - rows["start"])


def _total_notes(rows: pl.DataFrame) -> list[Note]:
    """A note with the share of each part in the spans of all rows together."""
    total_span = int(rows["span"].sum())
    if rows.height < 2 or not total_span:
        return []
    compute, communication, copy, idle = (
        int(rows[name].sum()) / total_span for name in ("compute", "communication", "copy", "idle")
    )
    return [note("breakdown_total", compute=compute, communication=communication, copy=copy, idle=idle)]


def _hidden_parts_notes(rows: pl.DataFrame) -> list[Note]:
    """A note with the shares of all communication and all copies, where some of it is hidden."""
    sums = {name: int(rows[name].sum()) for name in ("span", "communication", "copy", "all_communication", "all_copy")}
    if sums["all_communication"] == sums["communication"] and sums["all_copy"] == sums["copy"]:
        return []
    communication, copy = (sums[name] / sums["span"] for name in ("all_communication", "all_copy"))
    return [note("hidden_parts_total", communication=communication, copy=copy)]


def _recording_notes(table: pl.DataFrame, context: RunContext) -> list[Note]:
    """A note with the time from the first to the last work of all devices, where it is not most of the recording."""
    working_ranks = table.drop_nulls("first")
    if context.windowed or working_ranks.is_empty():
        return []
    work_span, recorded = (
        int(working_ranks["last"].to_numpy().max() - working_ranks["first"].to_numpy().min()),
        context.end - context.start,
    )
    if work_span >= _MOST_OF_RECORDING * recorded:
        return []
    return [note(WORK_IN_PART_OF_RECORDING, worked=work_span, recorded=recorded)]


_MOST_OF_RECORDING: Final = 0.9


ANALYSIS = Analysis(
    name="breakdown",
    title="Breakdown",
    question="Where does each device's time go: computing, waiting for communication or copies, or idle?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=(RUN_OR_STEP,),
    columns_by_setting={"step": BY_STEP_COLUMNS},
)
