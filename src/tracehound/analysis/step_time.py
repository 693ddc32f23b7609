"""What the steps of an XLA program are made of, as XProf's step time breaks them down, whole steps alone averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices import parts as device_parts
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import CLOCKED, OwnClock, clock_of, clocks_apart
from tracehound.analysis.hosts import parts as host_parts
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Given, Setting, one_of
from tracehound.analysis.spans.partial_steps import DEFINITION as PARTIAL
from tracehound.analysis.spans.partial_steps import left_out, partial, unended
from tracehound.intervals import EMPTY, Intervals, covered, merge, subtract
from tracehound.notes import Note, note

DEFINITION = f"""\
Every instant of a step goes to the first of these that holds then, so that they add up to the step: compute = an op or
kernel runs that is no collective and no copy; collectives = a collective runs, or is waited for (exposed); input = the
device waits for infeed or for copies from the host's memory, or idles while a thread of the host sends to it, or the
program loads data (the setting loader says which names do; what other threads load counts while nothing is recorded of
the program's own but Python and its marks: else they only read ahead; arrays that come from other devices are not
sent); output = the same the other way: outfeed, copies to the host's memory, the host fetching results; device to
device = copies within the device; compile = the device idles while the host compiles; host = it idles while a thread of
the host does something else that is recorded (calls of the runtime, annotations; not waits, frames of Python, nor the
mark of the step); other = none of these.

A step is what StepTraceAnnotation, StepTrace or a device's Steps line marked; without marks, one execution of the
module that takes the most device time, from its start to the next start, labelled inferred. Steps of a device with a
clock of its own (TPU) are measured on that, and what the host does is put on it. Hosts run ahead of devices:
a step begins when its mark does, but not before the device work of the step before has ended, and ends when its mark
and all device work that it launched have.

{PARTIAL}

XProf shows nothing without marks; on TPUs it averages partial steps with the others, and splits a step into compute,
infeed, outfeed, host transfer and idle over all cores; on GPUs it takes copies of 16 and 32 bit compute apart, by the
names of kernels. A window keeps the steps that overlap it, at full length.

With the setting by=rank there is a row for each rank: medians, 95th percentiles and the mean time of every part."""

BY: Final = Setting("by", "step", "what a row is: a step of a rank, or a rank", one_of("step", "rank"))

PARTS: Final = ("compute", "collectives", "input", "output", "device_to_device", "compile", "host", "other")

_MEANING: Final = {
    "compute": "computation runs",
    "collectives": "collectives run, and no computation",
    "input": "waiting for data from the host",
    "output": "waiting for data to go to the host",
    "device_to_device": "copies within the device",
    "compile": "idle while the host compiles",
    "host": "idle while the host does something else",
    "other": "idle, and nothing is recorded of the host",
}
_BRIEF: Final = ("compute", "collectives", "input", "host", "other")
_TIMES: Final = tuple(Column(part, "time", _MEANING[part], brief=part in _BRIEF, apart=True) for part in PARTS)

COLUMNS: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("name", "text", "what marked it", brief=False),
    Column("start", "instant", "start since the trace began", brief=False),
    Column("duration", "time", "length of the step, until its work is done"),
    *_TIMES,
    Column("partial", "flag", "the recording began or ended within it, or nothing tells when it ended"),
    Column("inferred", "flag", "not marked by the profiler", brief=False),
    Column("event", "id", "the mark"),
)

BY_RANK: Final = (
    Column("rank", "count", "rank"),
    Column("steps", "count", "whole steps"),
    Column("partial", "count", "first and last steps that are partial, and left out"),
    Column("p50", "time", "half of the whole steps are not longer"),
    Column("p95", "time", "95 of 100 whole steps are not longer"),
    Column("mean", "time", "average whole step", brief=False),
    *_TIMES,
    Column("event", "id", "the mark of the longest whole step"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each step that overlaps the window; lengths in ps."""
    device = share.lanes.filter(pl.col("rank").is_not_null() & pl.col("role").is_in(["modules", "ops", "stream"]))
    if share.steps.is_empty() or device.is_empty() or share.profiler != "XLA":
        return pl.DataFrame()
    events = device_parts.device_work(replace(share, device=share.anytime), "step", "lane", *CLOCKED)
    found = _stretches(share.steps, events)
    found = found.with_columns(partial(share, events), unended(share))
    if share.windowed:
        found = found.filter(share.chosen)
    start, end = found["start"].to_numpy(), found["end"].to_numpy()
    clock = clock_of(share) if not share.steps["rank"].null_count() else None
    if clock:
        start, end = clock.bounds(start, end)
        events = on_own_clock(events, replace(share, windowed=False)).events
    lengths = {part: covered(when, start, end) for part, when in _parts(share, events, options.given, clock).items()}
    rest = end - start - sum(lengths.values(), start=np.zeros(len(start), np.int64))
    return found.select(
        pl.col("step").cast(pl.Int64),
        pl.lit(share.rank, pl.Int64).alias("rank"),
        "name",
        "start",
        pl.Series("duration", end - start),
        (pl.col("end") - pl.col("start")).alias("traced"),
        *(pl.Series(part, lengths.get(part, rest)) for part in PARTS),
        "partial",
        "unended",
        "inferred",
        "event",
        pl.lit(not events.height or events["launch"].null_count() < events.height).alias("led"),
    )


def _parts(share: Share, events: pl.DataFrame, given: Given, clock: OwnClock | None) -> dict[str, Intervals]:
    """When each part but the last holds, by this clock, which is that of the events; the sets share no instant."""
    found = device_parts.device_parts(share, events)
    taken = merge(*found.values())
    of_host = host_parts.HOST_PARTS.of(share, given)  # nothing at all where no thread of the host is recorded
    for part in host_parts.PARTS:
        seen = of_host.get(part, EMPTY)
        when = clock.moved(seen) if clock else seen
        found[part] = merge(found.get(part, EMPTY), subtract(when, taken))
        taken = merge(taken, when)
    return found


def _stretches(steps: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The steps, stretched over the device work that they launched."""
    last = events.filter(pl.col("launch").is_not_null()).group_by("step").agg(pl.col("end").max().alias("last"))
    ordered = steps.join(last, on="step", how="left", maintain_order="left")
    start = ordered["start"].to_numpy()
    end = np.maximum.accumulate(ordered.select(pl.max_horizontal("end", "last")).to_series().to_numpy())
    begin = np.maximum(start, np.append(start[:1], end[:-1]))
    return ordered.drop("last").with_columns(pl.Series("start", begin), pl.Series("end", np.maximum(begin, end)))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per step and rank, by step; or per rank."""
    by_rank = BY.of(options.given) == "rank"
    shown = ANALYSIS.shown(options.given)
    rows = stacked(tables)
    if rows.is_empty():
        return without(shown, scene, options, _nothing(scene))
    rows = rows.sort("step", "rank", "start")
    return answer(shown, _by_rank(rows) if by_rank else rows, scene, options, _notes(rows))


def _by_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """The whole steps of each rank; a rank without any has only its count of partial ones."""
    whole, length = ~pl.col("partial"), pl.col("duration")
    rounded = {
        "p50": length.filter(whole).median(),
        "p95": length.filter(whole).quantile(0.95, "linear"),
        "mean": length.filter(whole).mean(),
        **{part: pl.col(part).filter(whole).mean() for part in PARTS},
    }
    return (
        rows.group_by("rank")
        .agg(
            whole.sum().cast(pl.Int64).alias("steps"),
            *(value.round().cast(pl.Int64).alias(name) for name, value in rounded.items()),
            pl.col("partial").sum().cast(pl.Int64).alias("partial"),
            pl.col("event").filter(whole).get(length.filter(whole).arg_max()).alias("event"),
        )
        .sort("rank")
    )


def _nothing(scene: Scene) -> Note:
    return note("no_xla_steps_in_pytorch_trace" if scene.pytorch else "no_device_steps", level="missing")


def _notes(rows: pl.DataFrame) -> list[Note]:
    whole = rows.filter(~pl.col("partial"))
    notes = list[Note]()
    if whole.height:
        median, p95 = (round(float(np.percentile(whole["duration"].to_numpy(), q))) for q in (50, 95))
        total = int(whole["duration"].sum())
        parts = {part: took / total for part in PARTS if (took := int(whole[part].sum()))}
        notes.append(
            note(
                "step_times",
                steps=whole["step"].n_unique(),
                ranks=rows["rank"].n_unique(),
                median=median,
                p95=p95,
                parts=tuple(parts),
                shares=tuple(parts.values()),
            )
        )
        notes += clocks_apart("steps", rows["duration"], rows["traced"])
    notes += left_out(rows, "figures")
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
    settings=(BY, host_parts.LOADER),
    by={"rank": BY_RANK},
    of_host=(host_parts.HOST_PARTS,),
)
