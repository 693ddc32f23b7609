"""Why the devices of a run idle, as far as findings speak of it: within its steps, where it has any.

Owns which pauses those are. What a pause is and why there is one says `idle`, what a step is `step_parts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis import idle, step_parts
from tracehound.analysis.events.busy import bounds, work
from tracehound.analysis.graphs import LAUNCH
from tracehound.analysis.hosts.doing import DOINGS
from tracehound.analysis.hosts.launched import calls_of
from tracehound.analysis.hosts.parts import HOST_PARTS, PARTS
from tracehound.analysis.hosts.words import QUIET
from tracehound.analysis.result import Column, Options, Result, Scene, Share
from tracehound.analysis.spans.stretches import BOUNDS
from tracehound.intervals import EMPTY, Intervals, merge, subtract, union
from tracehound.units import share as percent


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of `idle` for what is idle in whole steps; of a rank without any in the window, or between its work.

    Of an XLA program they say for how long of the pauses the host was at each of its parts, of which the first holds;
    those of which it was at one for most have rows of their own. Of any, for how long of them a graph was being
    replayed, or was to begin.
    """
    events = work(replace(share, device=share.anytime), "step", "launch", "name")
    whole = whole_steps(share, events, options)
    meanwhile = {**_host_parts(share, options), EARLY: _early(events, whole), **_of_graphs(share, events)}
    if whole.height:
        return idle.within(share, options, union(whole["start"].to_numpy(), whole["end"].to_numpy()), meanwhile, PARTS)
    low, high = bounds(events, share)
    return idle.within(share, options, union(np.array([low]), np.array([high])), meanwhile, PARTS)


EARLY: Final = "early"
"""For how long of the pauses the rank is before its second whole step; without one, before work of a name that is new.

What waits there pays for the first use of a device, or of the work.
"""


def _early(events: pl.DataFrame, whole: pl.DataFrame) -> Intervals:
    if whole.height > 1:
        return Intervals(np.array([-(1 << 62)]), whole["start"].sort()[1:2].to_numpy())
    begun = pl.col("end").cum_max().shift(1)
    ordered = events.sort("start").with_columns(begun.alias("begun"))
    first = ordered.filter(pl.col("name").is_first_distinct() & (pl.col("begun") < pl.col("start")))
    return Intervals(first["begun"].to_numpy(), first["start"].to_numpy())


REPLAYING, REPLAYED = "replaying", "replayed"
"""For how long of the pauses a CUDA or HIP graph runs, and for how long the work after them is the first of one."""


def _of_graphs(share: Share, events: pl.DataFrame) -> dict[str, Intervals]:
    """When graphs run, from the first to the last work of each launch, and when nothing does before the first.

    A launch of a single kernel is like one without a graph.
    """
    several = events.drop_nulls("launch").group_by("launch").len().filter(pl.col("len") > 1)["launch"]
    if several.is_empty():
        return {REPLAYING: EMPTY, REPLAYED: EMPTY}
    called = calls_of(share, several)["call"].cast(pl.String).str.contains(LAUNCH)
    graphs = several.filter(called.fill_null(value=False))
    begun = events.sort("start").with_columns(pl.col("end").cum_max().shift(1).alias("begun"))
    nodes = begun.filter(pl.col("launch").is_in(graphs.implode()))
    runs = nodes.group_by("launch").agg(pl.col("start").min(), pl.col("end").max()).sort("start", "end")
    replaying = union(runs["start"].to_numpy(), runs["end"].to_numpy())
    rested = nodes.filter(pl.col("begun") < pl.col("start"))
    before = Intervals(rested["begun"].to_numpy(), rested["start"].to_numpy())
    return {REPLAYING: replaying, REPLAYED: subtract(before, replaying)}


def _host_parts(share: Share, options: Options) -> dict[str, Intervals]:
    """When the host of an XLA program is at what, each instant at one part, as `step_time` has it."""
    found, taken = dict.fromkeys(PARTS, EMPTY), EMPTY
    if share.profiler != "XLA":
        return found
    for part, when in HOST_PARTS.of(share, options.given).items():
        found[part] = subtract(when, taken)
        taken = merge(taken, when)
    return found


def whole_steps(share: Share, events: pl.DataFrame, options: Options) -> pl.DataFrame:
    """The whole steps, of a window those whose marks lie in it whole: start and end."""
    if share.steps.is_empty():
        return pl.DataFrame()
    found = step_parts.stretched(share, events, BOUNDS.of(options.given)).filter(~pl.col("partial"))
    inside = (pl.col("start") >= share.start) & (pl.col("end") <= share.end)
    return found.filter(pl.col("event").is_in(share.steps.filter(inside)["event"].implode()))


def in_steps(share: Share) -> Intervals | None:
    """When the rank is in a whole step; None where it has none."""
    steps = whole_steps(share, work(replace(share, device=share.anytime), "step", "launch"), Options())
    return union(steps["start"].to_numpy(), steps["end"].to_numpy()) if steps.height else None


def spent(pauses: pl.DataFrame) -> pl.DataFrame:
    """What the host was at in the pauses of rows (`why`), and for how long of all of them (`time`), longest first."""
    times = pauses.select(pl.col(DOINGS).sum()).unpivot(variable_name="why", value_name="time")
    return times.filter(pl.col("time") > 0).sort("time", "why", descending=[True, False])


def meanwhile(pauses: pl.DataFrame) -> tuple[str, str]:
    """What the host was at for most of these pauses, and that in a sentence; nothing where nothing is recorded.

    Where no row is what it was at for half of the time, the sentence says for how much it was at what took most.
    """
    times, idle = spent(pauses), int(pauses["idle"].sum())
    if times.filter(pl.col("why") != QUIET).is_empty():
        return "", ""
    why, time = times.row(0)
    part = f"in {percent(time / idle)} of that"
    if why == QUIET:
        return "", f"nothing is recorded of what the host did {part}"
    return why, f"the host was mostly {why}" if 2 * time >= idle else f"the host was {why} {part}"


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of `idle`, and what the host was at."""
    return idle.told_by(ANALYSIS, tables, scene, options)


ANALYSIS: Final = replace(
    idle.ANALYSIS,
    name="pauses",
    columns=(
        *idle.COLUMNS,
        Column("mainly", "text", "what the host was at for more than half of each", brief=False),
        *(Column(part, "time", "the host is at it", brief=False) for part in (*PARTS, *DOINGS)),
        Column(EARLY, "time", "before the second step, or work of a new name", brief=False),
        Column(REPLAYING, "time", "between the work of one launch of a graph", brief=False),
        Column(REPLAYED, "time", "before the first work of a launch of a graph", brief=False),
    ),
    per_rank=per_rank,
    combine=combine,
    of_host=(*idle.ANALYSIS.of_host, HOST_PARTS),
)
"""That of `idle`, of these pauses; under a name of its own, by which its tables are remembered."""
