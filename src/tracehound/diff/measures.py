"""What a run does in a step besides its ops: launches, why the device idles, compiling, marks, what counters say.

Owns the map over ranks that measures it. Times are ps in a step, averaged over the ranks that have the step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.allocations import HOST, left_from_before, numbered
from tracehound.analysis.hosts.compilations import compilations
from tracehound.analysis.hosts.launched import launched
from tracehound.analysis.idle import CAUSES, Pauses, of_device
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.diff.identity import ON_DEVICE
from tracehound.diff.marks import marks
from tracehound.diff.shares import cut
from tracehound.diff.stretches import Compared, Stretches, compared
from tracehound.formats.kineto.memory import ON_HOST
from tracehound.formats.torch_names import CURVES
from tracehound.ids import part_of
from tracehound.intervals import Ints, covered, union
from tracehound.trace import Trace

MEASURES: Final = {"step": pl.Int64, "topic": pl.String, "name": pl.String, "count": pl.Float64, "value": pl.Float64}
"""A row for each step and measure: `value` is ps for the topics launches, idle, compiling, annotations and modules,
bytes for memory and for before (how much less than was recorded memory is), and for counters what they count."""

EDGES: Final = "before or after all work"

_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("step", "count", "step"),
    Column("topic", "text", "what is measured"),
    Column("name", "text", "of it"),
    Column("count", "count", "how often in the step"),
    Column("value", "time", "time in the step"),
)


def _per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each step and measure that there is anything of."""
    here = compared(share)
    share, when = here.share, here.when
    found = [_compiling(share, when), marks(share, when)]
    if here.of == ON_DEVICE:
        found += [_launches(share, when), *_idle(here.on_own_clock(), options)]
    rows = pl.concat(found, how="vertical_relaxed")
    return rows.filter((pl.col("count") > 0) | (pl.col("value") > 0)).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank")
    )


def _rows(when: Stretches, topic: str, name: str, count: Ints, value: Ints) -> pl.DataFrame:
    """A row for each stretch."""
    return pl.DataFrame({"step": when.number, "count": count, "value": value}).select(
        "step", pl.lit(topic).alias("topic"), pl.lit(name).alias("name"), pl.col("count", "value").cast(pl.Int64)
    )


def _launches(share: Share, when: Stretches) -> pl.DataFrame:
    """Calls whose work begins in a stretch, and the time that they take on the host."""
    calls = launched(share, share.device).work.sort("start").unique("launch", keep="first", maintain_order=True)
    at, inside = _stretch_of(calls["start"].to_numpy(), when)
    length = (calls["returned"] - calls["called"]).to_numpy()
    return _rows(when, "launches", "launches", *_added(at[inside], length[inside], len(when.start)))


def _idle(here: Compared, options: Options) -> list[pl.DataFrame]:
    """The pauses of the whole device by their causes, and what is idle beside them."""
    (pauses, cause), when = of_device(here.share, options), here.when
    if here.clock is not None:
        begin, until = here.clock.bounds(pauses.start, pauses.end)
        pauses = pauses._replace(start=begin, end=until)
    owner, stretch, start, end = cut(np.arange(len(cause)), pauses.start, pauses.end, when)
    at, inside = _stretch_of(pauses.start, when)
    found, size = [], len(when.start)
    for number, name in enumerate(CAUSES):
        mine = cause[owner] == number
        _, time = _added(stretch[mine], (end - start)[mine], size)
        count, _ = _added(at[inside & (cause == number)], np.zeros(0, np.int64), size)
        found.append(_rows(when, "idle", name, count, time))
    return [*found, _rows(when, "idle", EDGES, np.zeros(size, np.int64), _outside(here.events, pauses, when))]


def _outside(events: pl.DataFrame, pauses: Pauses, when: Stretches) -> Ints:
    """How much of each stretch is before the first work or after the last; `events` are those that run in any."""
    edges = events.select(pl.col("start").min(), pl.col("end").max()).drop_nulls()
    worked = union(*(np.append(one, edges[name]) for one, name in ((pauses.start, "start"), (pauses.end, "end"))))
    outside: Ints = when.end - when.start - covered(worked, when.start, when.end)
    return outside


def _compiling(share: Share, when: Stretches) -> pl.DataFrame:
    """Compilations that begin in a stretch, and the time in which any runs on the host."""
    start, end = compilations(share).select("start", "end").to_numpy().T
    at, inside = _stretch_of(start, when)
    count, _ = _added(at[inside], np.zeros(0, np.int64), len(when.start))
    return _rows(when, "compiling", "compiling", count, covered(union(start, end), when.start, when.end))


def _stretch_of(times: Ints, when: Stretches) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The stretch in which each instant lies, and whether there is one."""
    at = np.searchsorted(when.start, times, side="right") - 1
    return at, (at >= 0) & (times < np.append(when.end, 0)[at])


def _added(at: Ints, values: Ints, size: int) -> tuple[Ints, Ints]:
    """How many there are in each stretch, and the sums of their values."""
    count = np.bincount(at, minlength=size)
    total = np.bincount(at, values, minlength=size) if len(values) else np.zeros(size)
    return count, np.rint(total).astype(np.int64)


def averaged(rows: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Measures of a step, averaged over the `ranks` that have it (step, ranks)."""
    summed = rows.group_by("step", "topic", "name").agg(pl.col("count", "value").sum().cast(pl.Float64))
    mean = pl.col("count", "value") / pl.col("ranks")
    return summed.join(ranks, on="step").with_columns(mean).select(list(MEASURES)).sort("step", "topic", "name")


def of_counters(trace: Trace, stretches: pl.DataFrame) -> pl.DataFrame:
    """What counters say of each step: the peak of bytes, of others the average over its time; averaged over ranks.

    `stretches` has rank, step, start and end. A counter of a host counts for the first rank that it drives. What a
    counter was before its first sample is not known, but of utilisation: there no kernel had run. PyTorch's allocator
    of the host counts while a profiler records: of that, what earlier recordings of the process left is not counted.
    """
    first = trace.ranks.sort("rank").unique("host", keep="first").select("host", pl.col("rank").alias("driven"))
    lanes = trace.lanes.filter(role="counter").join(first, on="host", how="left")
    lanes = lanes.with_columns(pl.coalesce("rank", "driven").cast(pl.Int64).alias("rank"))
    found = [pl.DataFrame(schema=MEASURES)]
    for lane, rank, name, unit in lanes.select("lane", "rank", "name", "unit").iter_rows():
        mine, samples = stretches.filter(rank=rank), trace.samples(lane)
        if samples.is_empty() or mine.is_empty():
            continue
        if name in CURVES.values():
            samples = pl.concat([_NOTHING_RUNS, samples])
        time, value = samples["time"].to_numpy(), samples["value"].to_numpy()
        sums = _peaks if unit == "bytes" else _levels
        values = sums(time, value, mine["start"].to_numpy(), mine["end"].to_numpy())
        topic = "memory" if unit == "bytes" else "counters"
        before = _before(trace, lane) if name == ON_HOST else 0
        rows = {
            "step": mine["step"],
            "topic": topic,
            "name": _DEVICE.sub("", name or ""),
            "count": 0.0,
            "value": values - before,
        }
        found.append(pl.DataFrame(rows, schema=MEASURES).filter(pl.col("value").is_finite()))
        if before:
            found.append(pl.DataFrame({**rows, "topic": "before", "value": float(before)}, schema=MEASURES))
    return pl.concat(found).group_by("step", "topic", "name").agg(pl.col("count", "value").mean())


def _before(trace: Trace, lane: int) -> int:
    """What the host's allocator has from before the recording of the file of this lane and never takes back in it."""
    facets = trace.facets[part_of(lane)]
    return left_from_before(numbered(facets["allocated"].filter(device=HOST))) if "allocated" in facets else 0


_NOTHING_RUNS: Final = pl.DataFrame({"time": [-(1 << 62)], "value": [0.0]})
"""A sample before all others."""

_DEVICE: Final = re.compile(r"^[A-Z]+[ :]\d+ ")
"""Which of several devices a counter is of: runs are compared over all of them."""

_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def _peaks(time: Ints, value: _Floats, start: Ints, end: Ints) -> _Floats:
    """The highest value in each `[start, end)`; NaN before the first sample."""
    low = np.maximum(np.searchsorted(time, start, side="right") - 1, 0)
    high = np.searchsorted(time, end, side="left")
    known = high > low
    bounds = np.stack([low, np.maximum(high, low + 1)], axis=1).ravel()
    most = np.maximum.reduceat(np.append(value, -np.inf), bounds)[::2]
    return np.where(known, most, np.nan)


def _levels(time: Ints, value: _Floats, start: Ints, end: Ints) -> _Floats:
    """The average of each `[start, end)` over its time, from the first sample on; NaN before that."""
    before = np.concatenate([[0.0], np.cumsum(value[:-1] * np.diff(time))])

    def until(times: Ints) -> _Floats:
        last = np.searchsorted(time, times, side="right") - 1
        here: _Floats = before[last] + value[last] * (times - time[last])
        return here

    low, known = np.maximum(start, time[0]), end > time[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known, (until(np.maximum(end, low)) - until(low)) / (end - low), np.nan)


def _combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    filled = [table for table in tables if table.height]
    return answer(ANALYSIS, pl.concat(filled) if filled else blank(_COLUMNS), scene, options)


ANALYSIS: Final = Analysis(
    name="measures",
    title="Measures",
    question="What does a step do besides its ops?",
    definition="Launches, pauses by cause, compilations, annotations and modules of each step.",
    columns=_COLUMNS,
    per_rank=_per_rank,
    combine=_combine,
)
