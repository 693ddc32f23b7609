"""Idle time of devices within whole steps, by cause: the base of the findings on idle time.

A run without steps is analyzed as a whole. `idle` defines gaps and causes, `step_parts` defines steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis import idle, step_parts
from tracehound.analysis.graphs import LAUNCH_PATTERN
from tracehound.analysis.hosts.host_time_parts import HOST_PARTS, LOADER_SETTING, PART_NAMES
from tracehound.analysis.hosts.launch_calls import launching_calls
from tracehound.analysis.hosts.thread_activity import ALL_ACTIVITIES, NOTHING_RECORDED
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Column, Options, Result, concat_tables, empty_result
from tracehound.analysis.timing.device_busy import FOREVER, device_work, work_bounds
from tracehound.analysis.timing.rank_steps import STEP_BOUNDS
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.units import format_share as percent
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals, merge, subtract, union


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of `idle` for whole steps; of a rank without any, for the window, or from its first work to its last.

    For an XLA program the rows also have the time of the gaps in which the host is in each of its parts, of which the
    first one counts; gaps that one part takes for the most part have rows of their own. All rows have the time in which
    a graph was being replayed, or about to begin.
    """
    events = device_work(replace(rank_trace, device=rank_trace.device_anytime), "step", "launch", "name")
    steps = whole_steps(rank_trace, events, options)
    conditions = {
        **_host_part_intervals(rank_trace, options),
        EARLY: _startup_intervals(events, steps),
        **_graph_replay_intervals(rank_trace, events),
    }
    numbered = steps.sort("start").select("start", "step") if steps.height else pl.DataFrame()
    if steps.height:
        intervals = union(steps["start"].to_numpy(), steps["end"].to_numpy())
    else:
        low, high = work_bounds(events, rank_trace)
        intervals = union(np.array([low]), np.array([high]))
    return idle.idle_within(rank_trace, options, intervals, conditions, PART_NAMES, numbered)


EARLY: Final = "early"
"""Time of the gaps before the rank's second whole step; without one, before work with a new name.

Work that waits there pays for the first use of a device, or of the work.
"""


def _startup_intervals(events: pl.DataFrame, steps: pl.DataFrame) -> Intervals:
    if steps.height > 1:
        return Intervals(np.array([-FOREVER]), steps["start"].sort()[1:2].to_numpy())
    previous_end = pl.col("end").cum_max().shift(1)
    ordered = events.sort("start").with_columns(previous_end.alias("begun"))
    first = ordered.filter(pl.col("name").is_first_distinct() & (pl.col("begun") < pl.col("start")))
    return Intervals(first["begun"].to_numpy(), first["start"].to_numpy())


REPLAYING, BEFORE_REPLAY = "replaying", "replayed"
"""Time of the gaps in which a CUDA or HIP graph runs, and time of gaps before the first work of one."""


def _graph_replay_intervals(rank_trace: RankTrace, events: pl.DataFrame) -> dict[str, Intervals]:
    """Intervals in which graphs run, first to last work of a launch, and the idle intervals before them.

    A launch of a single kernel is treated as one without a graph.
    """
    launch = np.sort(events["launch"].drop_nulls().to_numpy(), kind="stable")  # nearly in order
    launches = pl.Series("launch", launch[1:][launch[1:] == launch[:-1]]).unique()
    if launches.is_empty():
        return {REPLAYING: EMPTY_INTERVALS, BEFORE_REPLAY: EMPTY_INTERVALS}
    is_graph_launch = launching_calls(rank_trace, launches)["call"].cast(pl.String).str.contains(LAUNCH_PATTERN)
    graphs = launches.filter(is_graph_launch.fill_null(value=False))
    with_previous_end = events.sort("start").with_columns(pl.col("end").cum_max().shift(1).alias("begun"))
    nodes = with_previous_end.filter(pl.col("launch").is_in(graphs.implode()))
    runs = nodes.group_by("launch").agg(pl.col("start").min(), pl.col("end").max()).sort("start", "end")
    replaying = union(runs["start"].to_numpy(), runs["end"].to_numpy())
    after_gap = nodes.filter(pl.col("begun") < pl.col("start"))
    before = Intervals(after_gap["begun"].to_numpy(), after_gap["start"].to_numpy())
    return {REPLAYING: replaying, BEFORE_REPLAY: subtract(before, replaying)}


def _host_part_intervals(rank_trace: RankTrace, options: Options) -> dict[str, Intervals]:
    """Intervals of each part of the host's time for an XLA program, as in `step_time`; they do not overlap."""
    intervals, taken = dict.fromkeys(PART_NAMES, EMPTY_INTERVALS), EMPTY_INTERVALS
    if rank_trace.profiler != "XLA":
        return intervals
    for part, part_intervals in HOST_PARTS.result_for(rank_trace, options.given).items():
        intervals[part] = subtract(part_intervals, taken)
        taken = merge(taken, part_intervals)
    return intervals


def whole_steps(rank_trace: RankTrace, events: pl.DataFrame, options: Options) -> pl.DataFrame:
    """Start and end of the whole steps; in a window those whose marks lie inside it."""
    if rank_trace.steps.is_empty():
        return pl.DataFrame()
    steps = step_parts.steps_with_work(rank_trace, events, STEP_BOUNDS.value_in(options.given)).filter(
        ~pl.col("partial")
    )
    inside = (pl.col("start") >= rank_trace.start) & (pl.col("end") <= rank_trace.end)
    return steps.filter(pl.col("event").is_in(rank_trace.steps.filter(inside)["event"].implode()))


def whole_step_intervals(rank_trace: RankTrace) -> Intervals | None:
    """Intervals of the rank's whole steps; None where it has none."""
    steps = whole_steps(
        rank_trace, device_work(replace(rank_trace, device=rank_trace.device_anytime), "step", "launch"), Options()
    )
    return union(steps["start"].to_numpy(), steps["end"].to_numpy()) if steps.height else None


def host_activity_times(gap_rows: pl.DataFrame) -> pl.DataFrame:
    """Activities of the host in the gaps of these rows (`why`), and their total time (`time`), longest first."""
    times = gap_rows.select(pl.col(ALL_ACTIVITIES).sum()).unpivot(variable_name="why", value_name="time")
    return times.filter(pl.col("time") > 0).sort("time", "why", descending=[True, False])


def main_host_activity(gap_rows: pl.DataFrame) -> tuple[str, str]:
    """The main activity of the host in these gaps, and a phrase on it; empty where nothing is recorded.

    Where no activity takes half of the time, the phrase has the share of the longest one.
    """
    times, idle = host_activity_times(gap_rows), int(gap_rows["idle"].sum())
    if times.filter(pl.col("why") != NOTHING_RECORDED).is_empty():
        return "", ""
    why, time = times.row(0)
    share_phrase = f"in {percent(time / idle)} of that"
    if why == NOTHING_RECORDED:
        return "", f"nothing is recorded of what the host did {share_phrase}"
    return why, f"the host was mostly {why}" if 2 * time >= idle else f"the host was {why} {share_phrase}"


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of `idle`, with the host's activities, and with the columns `HOST_CAUSE_SCHEMA` of `idle`."""
    result = empty_result(ANALYSIS, context, options)
    rows = concat_tables([idle.order_rows(table) for table in stacks_of(tables) if table.height])
    empty = pl.concat([result.table, pl.DataFrame(schema=idle.HOST_CAUSE_SCHEMA)], how="horizontal")
    # in one chunk: of equal values in several chunks polars may call the last the largest
    return replace(result, table=rows.rechunk() if rows.height else empty, total=rows.height)


ANALYSIS: Final = replace(
    idle.ANALYSIS,
    name="pauses",
    columns=(
        *idle.COLUMNS,
        Column("mainly", "text", "what the host did for more than half of each", brief=False),
        *(Column(part, "time", "the host is at it", brief=False) for part in (*PART_NAMES, *ALL_ACTIVITIES)),
        Column(EARLY, "time", "before the second step, or work of a new name", brief=False),
        Column(REPLAYING, "time", "between the work of one launch of a graph", brief=False),
        Column(BEFORE_REPLAY, "time", "before the first work of a launch of a graph", brief=False),
    ),
    per_rank=per_rank,
    combine=combine,
    settings=(*idle.ANALYSIS.settings, LOADER_SETTING),
    host_computations=(*idle.ANALYSIS.host_computations, HOST_PARTS),
)
"""The analysis `idle` for these gaps, under a name of its own, which is the key of its cached tables."""
