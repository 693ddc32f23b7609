"""Where a device's time goes: compute, exposed communication, exposed copy, idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.beside import beside, several
from tracehound.analysis.devices.silence import no_steps, silence
from tracehound.analysis.events.busy import Busy, busy_of, work
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import (
    CLOCKED,
    clock_of,
    clocks_apart,
    has_clock,
    steps_within,
    window_apart,
)
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import RUN_OR_STEP
from tracehound.analysis.spans.other_steps import FOLLOWED, OF_STEPS, ahead, beyond
from tracehound.intervals import covered
from tracehound.notes import Note, note

DEFINITION = """\
Per rank, over the span from the start of its first device work to the end of its last (or over the window): compute =
time in which any computation runs; exposed communication = time in which communication runs and no computation; exposed
copy = time in which copies or memsets run and neither of the others, to and from the host as within the device
(duty_cycle and step_time tell these apart as input, output and device to device; on TPUs they are feeds, asynchronous
copies and slices, and what is copied from one memory to another, as in transfers); idle = the rest (a note tells where
the time from the first to the last work of all devices is less than 90 % of the recording). All are lengths of unions
of intervals over all streams, so the four sum to the span exactly. Communication and copies hidden behind computation
count as compute; "all communication" and "all copies" are the unions with the hidden part. Where a file does not tell
several devices apart they are one rank, of which one computes while another communicates: a note says so. Work that
contains other work (an HLO while) counts only where none of its parts runs. All times of a device with a clock of its
own (TPU), and the bounds of steps and of a window, are on that.

HolisticTraceAnalysis' temporal breakdown has the same compute and idle, and calls the other two together "non
compute"; it drops the last profiler step first, which we do not, and counts CUDA synchronisation rows as device work,
which they are not. TraceLens' gpu_timeline has the same four, but takes memsets for computation.

With the setting by=step there is a row for each rank and step, clipped to its mark (and to the window): what ran in
that stretch, whichever step launched it; steps and step_parts follow a step until its own work is done, and a note
tells how much of that ran outside of the marks. Overlapping steps count what they share in each. The note has all rows
together."""

WORKING: Final = "work_in_part_of_recording"
"""The note that tells of a recording longer than the work in it, of which the shares say nothing."""

_PARTS: Final = (
    Column("compute", "time", "computation runs", brief=False),
    Column("compute_share", "share", "computation runs", "span"),
    Column("communication", "time", "communication runs and no computation (exposed)", brief=False),
    Column("communication_share", "share", "communication runs and no computation (exposed)", "span"),
    Column("copy", "time", "only copies or memsets run (exposed)", brief=False),
    Column("copy_share", "share", "only copies or memsets run (exposed)", "span"),
    Column("idle", "time", "nothing runs", brief=False),
    Column("idle_share", "share", "nothing runs", "span"),
    Column("all_communication", "time", "communication runs, hidden or not", brief=False),
    Column("all_copy", "time", "copies or memsets run, hidden or not", brief=False),
)

COLUMNS = (
    Column("rank", "count", "number of the rank"),
    Column("device", "text", "what the rank runs on", brief=False),
    Column("span", "time", "from first to last device work, or the window"),
    *_PARTS,
)

BY_STEP: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "number of the rank"),
    Column("start", "instant", "start of the step, or of the part in the window", brief=False),
    Column("span", "time", "length of the step, or of the part in the window"),
    *_PARTS,
    Column("event", "id", "the mark of the step"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for the run, or for each step that overlaps the window: lengths in ps."""
    by_step = RUN_OR_STEP.of(options.given) == "step"
    events = work(share, "lane", *CLOCKED, *(OF_STEPS if by_step else ()))
    worked = on_own_clock(events, share)
    state = busy_of(worked.events, replace(share, start=worked.start, end=worked.end))
    clock = clock_of(share) if by_step and has_clock(events) else None
    stretches = steps_within(share, clock) if by_step else _run(state)
    start, end = stretches["from"].to_numpy(), stretches["until"].to_numpy()
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    lengths = {
        "compute": covered(state.compute, start, end),
        "communication": covered(state.exposed_communication, start, end),
        "copy": covered(state.exposed_copy, start, end),
        "all_communication": covered(state.communication, start, end),
        "all_copy": covered(state.copy, start, end),
        "idle": end - start - covered(state.any, start, end),
    }
    far = beyond(share, events) if by_step else FOLLOWED
    return stretches.with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(share.label, pl.String).alias("device"),
        pl.lit(lanes.height, pl.Int64).alias("lanes"),
        pl.lit(lanes["first"].min(), pl.Int64).alias("first"),
        pl.lit(lanes["last"].max(), pl.Int64).alias("last"),
        pl.lit(0 if has_clock(events) else beside(share), pl.Int64).alias("beside"),
        (pl.col("until") - pl.col("from")).alias("span"),
        *(pl.Series(name, values) for name, values in lengths.items()),
        pl.lit(far.work, pl.Int64).alias("stepped"),
        pl.lit(far.outside, pl.Int64).alias("outside"),
    )


def _run(state: Busy) -> pl.DataFrame:
    return pl.DataFrame({"from": [state.start], "until": [state.end]}, schema={"from": pl.Int64, "until": pl.Int64})


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per rank, in the order of ranks; or per step and rank, in the order of steps."""
    by_step = RUN_OR_STEP.of(options.given) == "step"
    shown = ANALYSIS.shown(options.given)
    if not tables:
        return without(shown, scene, options, note("no_ranks", level="missing"))
    table = pl.concat(tables)
    silent = table.filter(pl.col("lanes") == 0)["rank"].unique().sort().to_list()
    notes = silence(scene, silent)
    shares = [
        (pl.col(part) / pl.col("span")).fill_nan(None).alias(f"{part}_share")
        for part in ("compute", "communication", "copy", "idle")
    ]
    order = ("step", "rank", "start") if by_step else ("rank",)
    rows = table.filter(pl.col("lanes") > 0).with_columns(shares).sort(order)
    if by_step and table.is_empty():
        notes.append(no_steps(scene))
    notes += ahead(table) if by_step else _of_recording(table, scene)
    notes += [*_together(rows), *_with_hidden(rows), *several(rows, "hidden")]
    notes += _clocks(rows, scene)
    return answer(shown, rows, scene, options, notes)


def _clocks(rows: pl.DataFrame, scene: Scene) -> list[Note]:
    """Where steps, or the window, last otherwise on the clocks of the devices."""
    if "event" not in rows.columns:
        return window_apart(rows["span"], scene)
    return clocks_apart("steps", rows["span"], rows["end"] - rows["start"])


def _together(rows: pl.DataFrame) -> list[Note]:
    """What part of the spans of all rows together is in each state."""
    whole = int(rows["span"].sum())
    if rows.height < 2 or not whole:
        return []
    compute, communication, copy, idle = (
        int(rows[name].sum()) / whole for name in ("compute", "communication", "copy", "idle")
    )
    return [note("breakdown_total", compute=compute, communication=communication, copy=copy, idle=idle)]


def _with_hidden(rows: pl.DataFrame) -> list[Note]:
    """What part of the spans of all rows together communication and copies take in all, where some of it is hidden."""
    sums = {name: int(rows[name].sum()) for name in ("span", "communication", "copy", "all_communication", "all_copy")}
    if sums["all_communication"] == sums["communication"] and sums["all_copy"] == sums["copy"]:
        return []
    communication, copy = (sums[name] / sums["span"] for name in ("all_communication", "all_copy"))
    return [note("hidden_parts_total", communication=communication, copy=copy)]


def _of_recording(table: pl.DataFrame, scene: Scene) -> list[Note]:
    """From the first to the last work of all devices, where that is not most of the recording."""
    works = table.drop_nulls("first")
    if scene.windowed or works.is_empty():
        return []
    worked, recorded = int(works["last"].to_numpy().max() - works["first"].to_numpy().min()), scene.end - scene.start
    if worked >= _MOST * recorded:
        return []
    return [note(WORKING, worked=worked, recorded=recorded)]


_MOST: Final = 0.9


ANALYSIS = Analysis(
    name="breakdown",
    title="Breakdown",
    question="Where does each device's time go: computing, waiting for communication or copies, or idle?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(RUN_OR_STEP,),
    by={"step": BY_STEP},
)
