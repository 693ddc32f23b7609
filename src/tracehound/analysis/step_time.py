"""Time of each step of an XLA program by part, as in XProf's step time; only whole steps are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings, Setting, choice_parser
from tracehound.analysis.devices import device_time_parts
from tracehound.analysis.hosts import host_time_parts
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    DeviceClock,
    clock_difference_notes,
    device_clock,
    work_on_device_clock,
)
from tracehound.analysis.timing.rank_steps import PARTIAL_STEPS_DEFINITION as PARTIAL
from tracehound.analysis.timing.rank_steps import partial_steps, partial_steps_notes, steps_without_end
from tracehound.model.notes import Note, note
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals, covered_lengths, merge, subtract

DEFINITION = f"""\
Each instant of a step counts for the first of these parts that applies, so they add up to the step. compute: an op or
kernel runs that is no collective and no copy. collectives: a collective runs or is waited for (exposed). input: the
device waits for infeed or for copies from host memory; or it idles while a host thread sends to it, or while the
program loads data. The setting loader has the names of loading events. Events of other threads count as loading only
while the program's own thread records nothing but Python frames and its marks; otherwise those threads only read
ahead. Arrays that come from other devices are not input. output: the same in the other direction: outfeed, copies to
host memory, the host fetching results. device to device: copies within the device. compile: the device idles while the
host compiles. host: it idles while a host thread does anything else that is recorded (runtime calls, annotations; not
waits, Python frames or the step's mark). other: none of these.

A step is what StepTraceAnnotation, StepTrace or a device's line Steps marked. Without marks it is one execution of the
module with the most device time, from its start to the next start, labeled inferred. Steps of a device with a clock of
its own (TPU) are measured on it, and host events are moved to that clock. A step begins at its mark, but not before
the device work of the step before has ended. It ends when its mark and all device work that it launched have ended.

{PARTIAL}

XProf shows nothing without marks. On TPUs it averages partial steps with the others, and divides a step into compute,
infeed, outfeed, host transfer and idle over all cores. On GPUs it separates copies of 16 and 32 bit compute by kernel
names. A window keeps the steps that overlap it, at full length.

by=rank has a row for each rank: medians, 95th percentiles and the mean time of every part."""

BY_SETTING: Final = Setting("by", "step", "what a row is: a step of a rank, or a rank", choice_parser("step", "rank"))

STEP_TIME_PARTS: Final = ("compute", "collectives", "input", "output", "device_to_device", "compile", "host", "other")

_PART_MEANINGS: Final = {
    "compute": "computation runs",
    "collectives": "collectives run, and no computation",
    "input": "waiting for data from the host",
    "output": "waiting for data to go to the host",
    "device_to_device": "copies within the device",
    "compile": "idle while the host compiles",
    "host": "idle while the host does something else",
    "other": "idle, and the host recorded nothing",
}
_BRIEF_PARTS: Final = ("compute", "collectives", "input", "host", "other")
_PART_COLUMNS: Final = tuple(
    Column(part, "time", _PART_MEANINGS[part], brief=part in _BRIEF_PARTS, is_part=True) for part in STEP_TIME_PARTS
)

COLUMNS: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("name", "text", "what marked it", brief=False),
    Column("start", "instant", "start since the trace began", brief=False),
    Column("duration", "time", "from the step's mark to the end of its work"),
    *_PART_COLUMNS,
    Column("partial", "flag", "the recording began or ended inside it, or its end is unknown"),
    Column("inferred", "flag", "not marked by the profiler", brief=False),
    Column("event", "id", "the mark"),
)

BY_RANK_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("steps", "count", "whole steps"),
    Column("partial", "count", "partial first and last steps, which are left out"),
    Column("p50", "time", "median whole step"),
    Column("p95", "time", "95th percentile of whole steps"),
    Column("mean", "time", "mean whole step", brief=False),
    *_PART_COLUMNS,
    Column("event", "id", "the mark of the longest whole step"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each step that overlaps the window; lengths in ps."""
    device_lanes = rank_trace.lanes.filter(
        pl.col("rank").is_not_null() & pl.col("role").is_in(["modules", "ops", "stream"])
    )
    if rank_trace.steps.is_empty() or device_lanes.is_empty() or rank_trace.profiler != "XLA":
        return pl.DataFrame()
    events = device_time_parts.work_with_ops(
        replace(rank_trace, device=rank_trace.device_anytime), "step", "lane", *DEVICE_TIMES
    )
    steps = _extend_steps(rank_trace.steps, events)
    steps = steps.with_columns(partial_steps(rank_trace, events), steps_without_end(rank_trace))
    if rank_trace.windowed:
        steps = steps.filter(rank_trace.is_chosen_step)
    start, end = steps["start"].to_numpy(), steps["end"].to_numpy()
    clock = device_clock(rank_trace) if not rank_trace.steps["rank"].null_count() else None
    if clock:
        start, end = clock.to_device_bounds(start, end)
        events = work_on_device_clock(events, replace(rank_trace, windowed=False)).events
    lengths = {
        part: covered_lengths(intervals, start, end)
        for part, intervals in _part_intervals(rank_trace, events, options.given, clock).items()
    }
    other_time = end - start - sum(lengths.values(), start=np.zeros(len(start), np.int64))
    return steps.select(
        pl.col("step").cast(pl.Int64),
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        "name",
        "start",
        pl.Series("duration", end - start),
        (pl.col("end") - pl.col("start")).alias("traced"),
        *(pl.Series(part, lengths.get(part, other_time)) for part in STEP_TIME_PARTS),
        "partial",
        "unended",
        "inferred",
        "event",
        pl.lit(not events.height or events["launch"].null_count() < events.height).alias("led"),
    )


def _part_intervals(
    rank_trace: RankTrace, events: pl.DataFrame, given: ChosenSettings, clock: DeviceClock | None
) -> dict[str, Intervals]:
    """Intervals of each part but the last, on this clock, which is that of the events; they do not overlap."""
    intervals = device_time_parts.intervals_per_part(rank_trace, events)
    taken = merge(*intervals.values())
    of_host = host_time_parts.HOST_PARTS.result_for(rank_trace, given)  # empty where no thread of the host is recorded
    for part in host_time_parts.PART_NAMES:
        host_intervals = of_host.get(part, EMPTY_INTERVALS)
        part_intervals = clock.to_device_intervals(host_intervals) if clock else host_intervals
        intervals[part] = merge(intervals.get(part, EMPTY_INTERVALS), subtract(part_intervals, taken))
        taken = merge(taken, part_intervals)
    return intervals


def _extend_steps(steps: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The steps, extended until the device work that they launched is done."""
    last = events.filter(pl.col("launch").is_not_null()).group_by("step").agg(pl.col("end").max().alias("last"))
    ordered = steps.join(last, on="step", how="left", maintain_order="left")
    start = ordered["start"].to_numpy()
    end = np.maximum.accumulate(ordered.select(pl.max_horizontal("end", "last")).to_series().to_numpy())
    begin = np.maximum(start, np.append(start[:1], end[:-1]))
    return ordered.drop("last").with_columns(pl.Series("start", begin), pl.Series("end", np.maximum(begin, end)))


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per step and rank, by step; or per rank."""
    by_rank = BY_SETTING.value_in(options.given) == "rank"
    analysis = ANALYSIS.with_shown_columns(options.given)
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(analysis, context, options, _why_empty(context))
    rows = rows.sort("step", "rank", "start")
    return make_result(analysis, _rank_rows(rows) if by_rank else rows, context, options, _notes(rows))


def _rank_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The whole steps of each rank; a rank without any has only its count of partial ones."""
    is_whole, length = ~pl.col("partial"), pl.col("duration")
    rounded = {
        "p50": length.filter(is_whole).median(),
        "p95": length.filter(is_whole).quantile(0.95, "linear"),
        "mean": length.filter(is_whole).mean(),
        **{part: pl.col(part).filter(is_whole).mean() for part in STEP_TIME_PARTS},
    }
    return (
        rows.group_by("rank")
        .agg(
            is_whole.sum().cast(pl.Int64).alias("steps"),
            *(value.round().cast(pl.Int64).alias(name) for name, value in rounded.items()),
            pl.col("partial").sum().cast(pl.Int64).alias("partial"),
            pl.col("event").filter(is_whole).get(length.filter(is_whole).arg_max()).alias("event"),
        )
        .sort("rank")
    )


def _why_empty(context: RunContext) -> Note:
    return note("no_xla_steps_in_pytorch_trace" if context.is_pytorch else "no_device_steps", level="missing")


def _notes(rows: pl.DataFrame) -> list[Note]:
    whole_steps = rows.filter(~pl.col("partial"))
    notes = list[Note]()
    if whole_steps.height:
        median, p95 = (round(float(np.percentile(whole_steps["duration"].to_numpy(), q))) for q in (50, 95))
        total = int(whole_steps["duration"].sum())
        parts = {part: part_time / total for part in STEP_TIME_PARTS if (part_time := int(whole_steps[part].sum()))}
        notes.append(
            note(
                "step_times",
                steps=whole_steps["step"].n_unique(),
                ranks=rows["rank"].n_unique(),
                median=median,
                p95=p95,
                parts=tuple(parts),
                shares=tuple(parts.values()),
            )
        )
        notes += clock_difference_notes("steps", rows["duration"], rows["traced"])
    notes += partial_steps_notes(rows, "figures")
    if not rows["led"].all():
        notes.append(note("steps_without_launches", level="missing"))
    if rows["inferred"].any():
        name = str(rows.filter("inferred")["name"][0])
        notes.append(note("inferred_steps", level="inferred", source="execution", name=name))
    return notes


ANALYSIS = Analysis(
    name="step_time",
    title="Step time",
    question="What is each step of an XLA program made of: compute, collectives, input, output, compiling, host?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(BY_SETTING, host_time_parts.LOADER_SETTING),
    columns_by_setting={"rank": BY_RANK_COLUMNS},
    host_computations=(host_time_parts.HOST_PARTS,),
)
