"""What each step's time goes to, device and host together; on average, and how that is spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.silence import no_steps, silence
from tracehound.analysis.events.busy import work
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import CLOCKED, clock_of, clocks_apart
from tracehound.analysis.hosts.activity import HOST, PARTS, activity
from tracehound.analysis.result import Analysis, Column, OfRank, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.analysis.spans.partial_steps import DEFINITION as PARTIAL
from tracehound.analysis.spans.partial_steps import left_out, partial, unended
from tracehound.analysis.spans.phases import inference, phases
from tracehound.analysis.spans.stretches import BOUNDS, stretches
from tracehound.intervals import covered
from tracehound.notes import Note, note

DEFINITION = f"""\
Every instant of a step goes to the first of these that holds there, so that the eight add up to the step: kernel = a
kernel that is no collective runs; copy = a copy runs; memset; communication = a collective runs on the device, or Gloo,
MPI or UCC on the host; runtime = a thread of the host is in a call of the runtime, launching or waiting; data loader =
a thread of the program (those that have the marks of steps, else the one that has most annotations and Python) is in
enumerate(DataLoader)#, DataPipe#, or what is named like an input pipeline (the setting loader of step_time has the
words): a thread that only reads ahead keeps nobody waiting; cpu = a thread is in an operator or an annotation, or reads
ahead (frames of Python do not count: they cover everything); other = none of these. What is hidden behind a part before
it does not count. Steps of a device with a clock of its own (TPU) are measured on that, as in steps and step_time.

A step begins at its mark on the host (never at its shadow on the device) and lasts until the mark ends and all work
that it launched has ended; it begins no earlier than the step before has ended, and the first of them no earlier than
work of no step (launched before it, or by nothing that was recorded; the latter on CPUs only where it began before the
mark) which ended before its own began (the setting bounds=mark keeps to the marks instead). A window keeps the steps
whose marks overlap it, at full length.

{PARTIAL}

Where nothing marks steps they are inferred, and so labelled: from the annotations of an inference engine (vLLM, SGLang;
phase says which steps are prefill and which decode, where the names do), from annotations that follow one another and
cover most of the time, from the ends of an optimizer's steps, or from replays of CUDA or HIP graphs, in that order.

by=part has a row for each rank, phase and part: the mean, the standard deviation of a sample and the extremes over
steps, and the share of all time of the steps.

These are the parts, precedence and bounds of the step time breakdown of the PyTorch TensorBoard plugin. So copies and
memsets come before communication, which is less than what breakdown, steps, findings, diff and check call exposed
communication wherever both run. The plugin takes collectives for kernels in traces since 2023 (the ids by which it
knows them have changed), counts host ranges of nccl: annotations as communication, knows no loader but PyTorch's own,
and that on any thread, takes the shadows of steps on the device for further steps of no length, and leaves out the last
step alone, where it has less than 80 % of the kernels of the one before."""

BY: Final = Setting(
    "by", "step", "what a row is: a step of a rank, or a part of a rank's steps", one_of("step", "part")
)

_MEANING: Final = {
    "kernel": "kernels compute",
    "copy": "copies run and no kernel",
    "memset": "memsets run and none of the before",
    "communication": "collectives run and none of the before",
    "runtime": "the host is in calls of the runtime, the device idle",
    "data_loader": "the host waits for data, the device idle",
    "cpu": "the host is in operators or annotations, the device idle",
    "other": "none of these",
}
_BRIEF: Final = ("kernel", "copy", "communication", "runtime", "data_loader", "cpu", "other")

COLUMNS: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("name", "text", "what marked it", brief=False),
    Column("phase", "text", "prefill, decode or both (mixed), where the name tells"),
    Column("start", "instant", "start since the trace began", brief=False),
    Column("duration", "time", "length of the step, until its work is done; of its mark with bounds=mark"),
    *(Column(part, "time", _MEANING[part], brief=part in _BRIEF, apart=True) for part in PARTS),
    Column("partial", "flag", "the recording began or ended within it, or nothing tells when it ended", brief=False),
    Column("inferred", "flag", "not marked by the profiler", brief=False),
    Column("event", "id", "the mark"),
)

BY_PART: Final = (
    Column("rank", "count", "rank"),
    Column("phase", "text", "prefill, decode or both (mixed), where the names of steps tell"),
    Column("part", "text", "what the time goes to"),
    Column("mean", "time", "average of a step"),
    Column("share", "share", "this part", "the time of all whole steps"),
    Column("std", "time", "standard deviation of a sample; empty for one alone"),
    Column("min", "time", "least of a step", brief=False),
    Column("p50", "time", "median"),
    Column("max", "time", "most of a step"),
    Column("step", "count", "where it is most"),
    Column("event", "id", "the mark of that step"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each step that overlaps the window: lengths in ps."""
    if share.steps.is_empty():
        return pl.DataFrame()
    everything = replace(share, device=share.anytime)
    events = work(everything, "step", "launch", "lane", *CLOCKED)
    found = stretched(share, events, BOUNDS.of(options.given))
    start, end = found["start"].to_numpy(), found["end"].to_numpy()
    clock = None if share.steps["rank"].null_count() else clock_of(everything)
    if clock:
        start, end = clock.bounds(start, end)
        events = on_own_clock(events, replace(share, windowed=False)).events
    lengths = {part: covered(when, start, end) for part, when in activity(share, events, clock).items()}
    rest = end - start - sum(lengths.values(), start=np.zeros(len(start), np.int64))
    return found.select(
        pl.col("step").cast(pl.Int64),
        pl.lit(share.rank, pl.Int64).alias("rank"),
        "name",
        phases(found["name"]),
        "start",
        pl.Series("duration", end - start),
        (pl.col("end") - pl.col("start")).alias("traced"),
        *(pl.Series(part, lengths.get(part, rest)) for part in PARTS),
        "partial",
        "unended",
        "inferred",
        "event",
        pl.lit(events.height > 0).alias("works"),
    )


def stretched(share: Share, events: pl.DataFrame, bounds: str) -> pl.DataFrame:
    """The rank's steps that the window keeps, when they last, and which of them are `partial` or `unended`; ps.

    `events` is all work of the device, with the columns `step` and `launch`; `bounds` is a value of the setting.
    """
    found = _BY_WORK.of(share, events) if bounds == "work" else _lasting(share, events, bounds)
    return found.filter(share.steps.select(share.chosen).to_series()) if share.windowed else found


def _lasting(share: Share, events: pl.DataFrame, bounds: str = "work") -> pl.DataFrame:
    return stretches(share, events, bounds).with_columns(partial(share, events), unended(share))


_BY_WORK: Final = OfRank(_lasting)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per step and rank, by step; or per rank and part, in the order of precedence."""
    by_part = BY.of(options.given) == "part"
    shown = ANALYSIS.shown(options.given)
    rows = stacked(tables)
    if rows.is_empty():
        return without(shown, scene, options, no_steps(scene))
    rows = rows.sort("step", "rank", "start")
    whole = rows.filter(~pl.col("partial"))
    table = _by_part(whole) if by_part else rows
    return answer(shown, table, scene, options, _notes(rows, whole, scene))


def _by_part(rows: pl.DataFrame) -> pl.DataFrame:
    """Mean and spread of every part over the steps of each rank, or of each of its phases."""
    value = pl.col("value")
    long = rows.unpivot(PARTS, index=["rank", "phase", "step", "event", "duration"], variable_name="part")
    return (
        long.group_by("rank", "phase", "part", maintain_order=True)
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


def _notes(rows: pl.DataFrame, whole: pl.DataFrame, scene: Scene) -> list[Note]:
    """What an average step is made of, and what is to be known of the steps."""
    notes = list[Note]()
    total = int(whole["duration"].sum())
    if total:
        parts = {part: took / total for part in PARTS if (took := int(whole[part].sum()))}
        length, shares = round(total / whole.height), tuple(parts.values())
        notes.append(note("mean_step_parts", length=length, parts=tuple(parts), shares=shares))
    notes += left_out(rows, "mean")
    notes += silence(scene, rows.filter(~pl.col("works"))["rank"].unique().to_list())
    if rows["inferred"].any():
        notes.append(inference(rows.filter("inferred")["name"]))
    return [*notes, *clocks_apart("steps", rows["duration"], rows["traced"])]


ANALYSIS = Analysis(
    name="step_parts",
    title="Step parts",
    question="What does a step's time go to: kernels, copies, communication, runtime, data loading, CPU?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(BY, BOUNDS),
    by={"part": BY_PART},
    of_host=(HOST,),
)
