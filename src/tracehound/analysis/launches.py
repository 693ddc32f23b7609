"""What launching costs: the calls that put work on a device, how long they take, and how soon the work begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.events.numbering import turns
from tracehound.analysis.events.own_clock import clock_of
from tracehound.analysis.hosts.launched import WORK, Launched, doubts, enqueued, launched
from tracehound.analysis.hosts.waits import awaited
from tracehound.analysis.members import CARRIED, gathered
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank, stacked, without
from tracehound.analysis.settings import Setting, length, one_of
from tracehound.lookup import rows_with
from tracehound.notes import note
from tracehound.trace import collected

BY: Final = Setting(
    "by", "call", "a row for each call, for each call and kernel, or for every launch: call, kernel, launch",
    one_of("call", "kernel", "launch"),
)  # fmt: skip
LONG: Final = Setting("long", "50us", "calls above are long (HTA's runtime cutoff)", length)
DELAY: Final = Setting(
    "delay", "100us", "work that begins later after its call is late (HTA's launch delay cutoff)", length
)

DEFINITION = f"""\
{WORK}

call time = length of the call on the host; device time = sum of the lengths of its work, by the clock of the device
where it has one of its own (TPU): only when its work begins and ends is by that of the trace; delay = from the end of
the call to the start of the first of its work, 0 where that begins during the call. p50 and p99 are interpolated. short
= launches that take longer than their work (device time below call time, and the call is not long, nor one that waits
for its copy: cudaMemcpy, and copies without a wait in their names that returned only when they had ended); long = calls
above 50 us; late = launches with a delay above 100 us (the settings long and delay). queued = those of them whose
stream had work of before that went on after the call had ended: they waited for their turn, as they do where the host
is ahead, and only the others began late for the launch's sake. blocking = calls that end no sooner than their work:
they waited for it. With a window, launches count whole whose work overlaps it.

by=kernel has a row for each call and name of its work: of a graph each name counts once a launch, with the time of the
whole call, the device time of its own nodes and the delay of the first of these. by=launch has every launch, the latest
first, with the name and the correlation id of the first of its work.

HolisticTraceAnalysis' CUDA kernel launch statistics are by=launch: its cpu_duration is our call time, its gpu_duration
our device time, its short kernels, runtime outliers and launch delay outliers our short, long and late, but that it
counts copies that their calls wait for as short, too. It knows cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync
and cudaMemsetAsync alone, no driver, HIP or graph, rounds times to microseconds where they have fractions, and leaves
out the last step."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("call", "text", "call of the runtime, the driver or the executor"),
    Column("kernel", "text", "what it launched"),
    Column("stream", "text", "stream of the first of it"),
    Column("at", "instant", "start of the call"),
    Column("launches", "count", "calls"),
    Column("call_time", "time", "sum of the calls' lengths"),
    Column("call_max", "time", "longest call", brief=False),
    Column("device_time", "time", "sum of the lengths of what was launched", brief=False),
    Column("events", "count", "device events of these calls", brief=False),
    Column("call_mean", "time", "average call", brief=False),
    Column("call_p50", "time", "half of the calls are not longer", brief=False),
    Column("call_p99", "time", "99 % of the calls are not longer", brief=False),
    Column("device_mean", "time", "average of a launch", brief=False),
    Column("device_p50", "time", "half of the launches take no longer", brief=False),
    Column("device_p99", "time", "99 % of the launches take no longer", brief=False),
    Column("device_max", "time", "of the launch that takes longest", brief=False),
    Column("delay", "time", "from the end of the call to the start of the work; of several launches the average"),
    Column("delay_p50", "time", "half of the delays are not longer", brief=False),
    Column("delay_p99", "time", "99 % of the delays are not longer", brief=False),
    Column("delay_max", "time", "longest delay", brief=False),
    Column("short", "count", "launches that take longer than their work, and do not wait for it"),
    Column("long", "count", "long calls"),
    Column("late", "count", "launches whose delay is long, whatever the device did meanwhile"),
    Column("queued", "count", "of these launches those behind earlier work of the stream", brief=False),
    Column("blocking", "count", "calls that waited for their work", brief=False),
    Column("correlation", "number", "id that the call shares with its device events", brief=False),
    Column("call_event", "id", "the longest call"),
    Column("event", "id", "the work after the longest delay"),
)

_TOTALS = ("launches", "short", "long", "late", "queued")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of the rank, as many of the latest as are asked for; on each, what is true of all of its launches."""
    by = BY.of(options.given)
    device = _whole(share) if share.windowed else share.device
    known = launched(share, device, "correlation")
    if known.work.is_empty():
        return pl.DataFrame()
    known = replace(known, work=_behind(known.work, share).with_columns(_lengths(known.work, share)))
    every = _judged(_units(known, ("launch",)), options)
    match by:
        case "launch":
            rows = _single(every, share.lanes, options)
        case "kernel":
            rows = _grouped(_judged(_units(known, ("launch", "name")), options), ("call", "name"), options)
        case _:
            rows = _grouped(every, ("call",), options)
    totals = every.select(pl.len(), pl.col(_TOTALS[1:]).sum()).row(0)
    return rows.with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(known.unknown, pl.Int64).alias("unknown"),
        pl.lit(known.early, pl.Int64).alias("early"),
        *(pl.lit(total, pl.Int64).alias(f"all_{name}") for name, total in zip(_TOTALS, totals, strict=True)),
    )


def _whole(share: Share) -> pl.LazyFrame:
    """The work in the window, and all other of the launches of which there is any."""
    lanes = enqueued(share.lanes)["lane"].to_list()
    inside = share.device.filter(pl.col("lane").is_in(lanes))
    calls = collected(inside.select(pl.col("launch").unique())).to_series().drop_nulls()
    of_calls = share.anytime.filter(pl.col("launch").is_in(calls.implode()))
    return pl.concat([of_calls, inside.filter(pl.col("launch").is_null())]).sort("id")


def _lengths(work: pl.DataFrame, share: Share) -> pl.Series:
    """The lengths of work, `device`: on the device's own clock, where it has one."""
    start, end = work["start"].to_numpy(), work["end"].to_numpy()
    if (clock := clock_of(share)) is not None:
        start, end = clock.bounds(start, end)
    return pl.Series("device", end - start)


def _behind(work: pl.DataFrame, share: Share) -> pl.DataFrame:
    """With `before`, when all earlier work on the lane had ended, whenever and by whatever it was launched."""
    lanes = enqueued(share.lanes)["lane"].to_list()
    every = collected(share.anytime.filter(pl.col("lane").is_in(lanes)).select("id", "lane", "end"))
    ends = np.split(every["end"].to_numpy(), turns(every["lane"].to_numpy()))
    before = np.concatenate([np.append(_LONG_AGO, np.maximum.accumulate(run)[:-1])[: len(run)] for run in ends])
    row = rows_with(every["id"].to_numpy(), work["id"].to_numpy())
    return work.with_columns(pl.Series("before", before[row]))


_LONG_AGO: Final = np.iinfo(np.int64).min
"""In place of when work had ended before which there was none."""


def _units(known: Launched, keys: Sequence[str]) -> pl.DataFrame:
    """A row for each launch (and name of its work), with the first of its work, its device time and its last end."""
    plain = {"last": pl.col("end"), "events": pl.lit(1, pl.UInt32)}
    if not known.several:
        return known.work.with_columns(**plain)
    repeated = known.work["launch"].is_duplicated()
    once, rows = (known.work.filter(which).with_columns(**plain) for which in (~repeated, repeated))
    rest = [column for column in known.work.columns if column not in (*keys, "device")]
    several = (
        rows.sort("start", "id")
        .group_by(keys, maintain_order=True)
        .agg(pl.col(*rest).first(), pl.col("device").sum(), pl.col("last").max(), pl.len().alias("events"))
    )
    return pl.concat([once, several.select(once.columns)])


def _judged(units: pl.DataFrame, options: Options) -> pl.DataFrame:
    """With the length of each call and its delay, and whether the launch is short, long, late or blocking."""
    timed = units.with_columns(
        (pl.col("returned") - pl.col("called")).alias("length"),
        (pl.col("start") - pl.col("returned")).clip(0).alias("delay"),
    )
    waits = awaited(units.select("launch", "call", "returned", pl.col("last").alias("end")))
    long, late = pl.col("length") > LONG.of(options.given), pl.col("delay") > DELAY.of(options.given)
    return timed.with_columns(
        (~long & ~waits & (pl.col("device") < pl.col("length"))).alias("short"),
        long.alias("long"),
        late.alias("late"),
        (late & (pl.col("before") > pl.col("returned"))).alias("queued"),
        (pl.col("returned") >= pl.col("last")).alias("blocking"),
    )


_MEASURED: Final = {"call": "length", "device": "device", "delay": "delay"}
"""What is measured of launches, by how the columns begin."""


def _grouped(units: pl.DataFrame, keys: Sequence[str], options: Options) -> pl.DataFrame:
    """A row for each call, or for each call and kernel."""
    spread = [
        value.round().cast(pl.Int64).alias(f"{name}_{figure}")
        for name, column in _MEASURED.items()
        for figure, value in {
            "mean": pl.col(column).mean(),
            "p50": pl.col(column).quantile(0.5, "linear"),
            "p99": pl.col(column).quantile(0.99, "linear"),
            "max": pl.col(column).max(),
        }.items()
    ]
    flags = ("short", "long", "late", "queued", "blocking")
    rows = units.group_by(keys, maintain_order=True).agg(
        pl.len().alias("launches"),
        pl.col("events", *flags).sum(),
        pl.col("length").sum().alias("call_time"),
        pl.col("device").sum().alias("device_time"),
        *spread,
        pl.col("launch").get(pl.col("length").arg_max()).alias("call_event"),
        pl.col("id").get(pl.col("delay").arg_max()).alias("event"),
        *gathered(options),
    )
    kernel = pl.col("name").cast(pl.String) if "name" in keys else pl.lit(None, pl.String)
    return _complete(rows.with_columns(kernel.alias("kernel"), pl.col("delay_mean").alias("delay")))


def _single(units: pl.DataFrame, lanes: pl.DataFrame, options: Options) -> pl.DataFrame:
    """A row for every launch: the latest, as many as are asked for."""
    latest = units.sort("delay", "launch", descending=[True, False])
    shown = latest if options.top is None else latest.head(options.top)
    streams = dict(lanes.select("lane", "name").iter_rows())
    return _complete(
        shown.select(
            "call", "events", "delay", "correlation", "short", "long", "late", "queued", "blocking",
            pl.col("name").cast(pl.String).alias("kernel"),
            pl.col("lane").replace_strict(streams, return_dtype=pl.String).alias("stream"),
            pl.col("called").alias("at"),
            pl.lit(1).alias("launches"),
            pl.col("length").alias("call_time"),
            pl.col("device").alias("device_time"),
            pl.col("launch").alias("call_event"),
            pl.col("id").alias("event"),
            *gathered(options, pl.concat_list("id")),
        )
    )  # fmt: skip


def _complete(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with all the result's columns but the rank, in their types; without a value where there is none."""
    types = blank(COLUMNS[1:]).schema
    given = [name if name in rows.columns else pl.lit(None).alias(name) for name in types]
    return rows.select(*given, CARRIED).cast(types)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The calls, or kernels, with the most time first, alike ones of all ranks together; launches the latest first."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, note("no_launches", level="missing"))
    totals = rows.group_by("rank").agg(pl.col("unknown", "early", "^all_.*$").first()).sum()
    launches, short, long, late, queued = (int(totals[f"all_{name}"][0]) for name in _TOTALS)
    in_all = note("launches_total", launches=launches, short=short, long=long, late=late, queued=queued)
    notes = [in_all, *doubts(int(totals["unknown"][0]), int(totals["early"][0]), scene)]
    by = BY.of(options.given)
    if by == "launch":
        latest = rows.sort("delay", "rank", "call_event", descending=[True, False, False])
        return replace(answer(ANALYSIS, latest, scene, options, notes), total=launches)
    alike = pl.col("device_time" if by == "kernel" else "call_time").sum().over("call", "kernel")
    table = rows.with_columns(alike.alias("alike")).sort(
        "alike", "call", "kernel", "rank", descending=[True, False, False, False]
    )
    return answer(ANALYSIS, table, scene, options, notes)


ANALYSIS = Analysis(
    name="launches",
    title="Launches",
    question="What does launching cost: long calls, kernels shorter than their launch, work that begins late?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    cuts=True,
    counts="launches",
    settings=(BY, LONG, DELAY),
)
