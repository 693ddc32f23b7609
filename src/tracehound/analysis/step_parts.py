"""Time of each step by part, device and host together; also as mean and spread over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.missing_data import no_steps_note, ranks_without_activity_notes
from tracehound.analysis.hosts.rank_time_parts import HOST_INTERVALS, TIME_PARTS, intervals_per_time_part
from tracehound.analysis.rank_trace import RankTrace, RunContext, SharedRankResult
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.analysis.timing.device_busy import device_work
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    clock_difference_notes,
    device_clock,
    work_on_device_clock,
)
from tracehound.analysis.timing.rank_steps import PARTIAL_STEPS_DEFINITION as PARTIAL
from tracehound.analysis.timing.rank_steps import (
    STEP_BOUNDS,
    inference_phases,
    inferred_steps_note,
    partial_steps,
    partial_steps_notes,
    step_intervals,
    steps_without_end,
)
from tracehound.model.notes import Note, note
from tracehound.numeric.intervals import covered_lengths

DEFINITION = f"""\
Each instant of a step counts for the first of these eight parts that applies, so they add up to the step. kernel: a
kernel runs that is no collective. copy: a copy runs. memset: a memset runs. communication: a collective runs on the
device, or Gloo, MPI or UCC on the host. runtime: a host thread is in a call of the runtime, launching or waiting. data
loader: the program's thread is in enumerate(DataLoader)#, DataPipe#, or an event named like an input pipeline (the
setting loader of step_time has the names). The program's thread has the step marks, or else the most annotations and
Python frames; threads that only read ahead keep nobody waiting. cpu: a thread is in an operator or an annotation, or
reads ahead (Python frames do not count, since they cover everything). other: none of these. A part does not count
while an earlier part hides it. Steps of a device with a clock of its own (TPU) are measured on it, as in steps and
step_time.

A step begins at its mark on the host (not at the copy of the mark on the device), and lasts until the mark ends and
all work that it launched has ended. It begins no earlier than the end of the step before. The first step begins no
earlier than the end of work that belongs to no step and ended before the step's own work began; such work was launched
before the step, or by nothing recorded (on CPUs this counts only if it began before the mark). bounds=mark uses the
marks alone. A window keeps the steps whose marks overlap it, at full length.

{PARTIAL}

If no steps are marked, they are inferred and labeled so. In this order they come from annotations of an inference
engine (vLLM, SGLang; phase says whether a step is prefill or decode, if the names tell), from annotations that follow
one another and cover most of the time, from the ends of an optimizer's steps, or from replays of CUDA or HIP graphs.

by=part has a row for each rank, phase and part: the mean, the sample standard deviation and the extremes over steps,
and the share of the time of the rank's whole steps; if steps have phases, of its steps in that phase.

Parts, precedence and bounds are those of the step time breakdown of the PyTorch TensorBoard plugin. Copies and memsets
come before communication, so communication is less here than the exposed communication of breakdown, steps, findings,
diff and check when both run. The plugin differs in these points: since 2023 it takes collectives for kernels (the ids
by which it knows them have changed); it counts host ranges of nccl: annotations as communication; it knows only
PyTorch's loader, on any thread; it takes the device's copies of marks for more steps of no length; and it leaves out
only the last step, if that has less than 80 % of the kernels of the one before."""

BY_SETTING: Final = Setting(
    "by", "step", "what a row is: a step of a rank, or a part of a rank's steps", choice_parser("step", "part")
)

_PART_MEANINGS: Final = {
    "kernel": "kernels compute",
    "copy": "copies run and no kernel",
    "memset": "memsets run, and no earlier part",
    "communication": "collectives run, and no earlier part",
    "runtime": "the host is in calls of the runtime, the device idle",
    "data_loader": "the host waits for data, the device idle",
    "cpu": "the host is in operators or annotations, the device idle",
    "other": "none of these",
}
_BRIEF_PARTS: Final = ("kernel", "copy", "communication", "runtime", "data_loader", "cpu", "other")

COLUMNS: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("name", "text", "what marked it", brief=False),
    Column("phase", "text", "prefill, decode or both (mixed), where the name tells"),
    Column("start", "instant", "start since the trace began", brief=False),
    Column("duration", "time", "from the step's mark to the end of its work; with bounds=mark the length of the mark"),
    *(Column(part, "time", _PART_MEANINGS[part], brief=part in _BRIEF_PARTS, is_part=True) for part in TIME_PARTS),
    Column("partial", "flag", "the recording began or ended inside it, or its end is unknown", brief=False),
    Column("inferred", "flag", "not marked by the profiler", brief=False),
    Column("event", "id", "the mark"),
)

BY_PART_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("phase", "text", "prefill, decode or both (mixed), where the names of steps tell"),
    Column("part", "text", "part of the step"),
    Column("mean", "time", "mean per step"),
    Column("share", "share", "this part", "the time of the rank's whole steps"),
    Column("std", "time", "sample standard deviation; empty for a single step"),
    Column("min", "time", "minimum of a step", brief=False),
    Column("p50", "time", "median"),
    Column("max", "time", "maximum of a step"),
    Column("step", "count", "step of the maximum"),
    Column("event", "id", "the mark of that step"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each step that overlaps the window: lengths in ps."""
    if rank_trace.steps.is_empty():
        return pl.DataFrame()
    unwindowed = replace(rank_trace, device=rank_trace.device_anytime)
    events = device_work(unwindowed, "step", "launch", "lane", *DEVICE_TIMES)
    steps = steps_with_work(rank_trace, events, STEP_BOUNDS.value_in(options.given))
    start, end = steps["start"].to_numpy(), steps["end"].to_numpy()
    clock = None if rank_trace.steps["rank"].null_count() else device_clock(unwindowed)
    if clock:
        start, end = clock.to_device_bounds(start, end)
        events = work_on_device_clock(events, replace(rank_trace, windowed=False)).events
    lengths = {
        part: covered_lengths(intervals, start, end)
        for part, intervals in intervals_per_time_part(rank_trace, events, clock).items()
    }
    other_time = end - start - sum(lengths.values(), start=np.zeros(len(start), np.int64))
    return steps.select(
        pl.col("step").cast(pl.Int64),
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        "name",
        inference_phases(steps["name"]),
        "start",
        pl.Series("duration", end - start),
        (pl.col("end") - pl.col("start")).alias("traced"),
        *(pl.Series(part, lengths.get(part, other_time)) for part in TIME_PARTS),
        "partial",
        "unended",
        "inferred",
        "event",
        pl.lit(events.height > 0).alias("works"),
    )


def steps_with_work(rank_trace: RankTrace, events: pl.DataFrame, bounds: str) -> pl.DataFrame:
    """The rank's steps in the window, their times, and which of them are `partial` or `unended`; ps.

    `events` is all work of the device, with the columns `step` and `launch`; `bounds` is a value of the setting.
    """
    steps = (
        _STEPS_BY_WORK.result_for(rank_trace, events) if bounds == "work" else _extend_steps(rank_trace, events, bounds)
    )
    return (
        steps.filter(rank_trace.steps.select(rank_trace.is_chosen_step).to_series()) if rank_trace.windowed else steps
    )


def _extend_steps(rank_trace: RankTrace, events: pl.DataFrame, bounds: str = "work") -> pl.DataFrame:
    return step_intervals(rank_trace, events, bounds).with_columns(
        partial_steps(rank_trace, events), steps_without_end(rank_trace)
    )


_STEPS_BY_WORK: Final = SharedRankResult(_extend_steps)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per step and rank, by step; or per rank and part, in the order of precedence."""
    by_part = BY_SETTING.value_in(options.given) == "part"
    analysis = ANALYSIS.with_shown_columns(options.given)
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(analysis, context, options, no_steps_note(context))
    rows = rows.sort("step", "rank", "start")
    whole_steps = rows.filter(~pl.col("partial"))
    table = _part_rows(whole_steps) if by_part else rows
    result = make_result(analysis, table, context, options, _notes(rows, whole_steps, context))
    return _name_phase_base(result) if by_part and table["phase"].null_count() < table.height else result


def _name_phase_base(result: Result) -> Result:
    """The result of by=part, whose shares are of one phase where steps have phases."""
    columns = tuple(
        replace(column, base=f"{column.base} in that phase") if column.unit == "share" else column
        for column in result.columns
    )
    return replace(result, columns=columns)


def _part_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Mean and spread of every part over the steps of each rank, or of each of its phases."""
    value = pl.col("value")
    long_table = rows.unpivot(TIME_PARTS, index=["rank", "phase", "step", "event", "duration"], variable_name="part")
    return (
        long_table.group_by("rank", "phase", "part", maintain_order=True)
        .agg(
            value.mean().round().cast(pl.Int64).alias("mean"),
            (value.sum() / pl.col("duration").sum()).fill_nan(None).alias("share"),
            value.std().round().cast(pl.Int64).alias("std"),
            value.min().alias("min"),
            value.quantile(0.5, "linear").round().cast(pl.Int64).alias("p50"),
            value.max().alias("max"),
            pl.col("step", "event").get(value.arg_max()),
        )
        .sort("rank", "phase", maintain_order=True)
    )


def _notes(rows: pl.DataFrame, whole_steps: pl.DataFrame, context: RunContext) -> list[Note]:
    """Notes on the parts of a mean step, and on partial, silent and inferred steps."""
    notes = list[Note]()
    total = int(whole_steps["duration"].sum())
    if total:
        parts = {part: part_time / total for part in TIME_PARTS if (part_time := int(whole_steps[part].sum()))}
        length, shares = round(total / whole_steps.height), tuple(parts.values())
        notes.append(note("mean_step_parts", length=length, parts=tuple(parts), shares=shares))
    notes += partial_steps_notes(rows, "mean")
    notes += ranks_without_activity_notes(context, rows.filter(~pl.col("works"))["rank"].unique().to_list())
    if rows["inferred"].any():
        notes.append(inferred_steps_note(rows.filter("inferred")["name"]))
    return [*notes, *clock_difference_notes("steps", rows["duration"], rows["traced"])]


ANALYSIS = Analysis(
    name="step_parts",
    title="Step parts",
    question="What does a step's time go to: kernels, copies, communication, runtime, data loading, CPU?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=(BY_SETTING, STEP_BOUNDS),
    columns_by_setting={"part": BY_PART_COLUMNS},
    host_computations=(HOST_INTERVALS,),
)
