"""Idle time of devices outside of whole steps, and the rule on recordings that are mostly idle there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis import idle
from tracehound.analysis.findings.advice import TOPIC_OF_ACTIVITY, advice
from tracehound.analysis.findings.device_rules import find_compiling
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.findings.idle_in_steps import main_host_activity, whole_steps
from tracehound.analysis.findings.xla_rules import find_time_between_steps
from tracehound.analysis.hosts.host_compilations import HOST_COMPILATIONS, find_compilations
from tracehound.analysis.hosts.thread_activity import ALL_ACTIVITIES
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Column, Options, Result
from tracehound.analysis.timing.device_busy import BUSY_AT_ANY_TIME, FOREVER, device_work, recording_bounds, work_bounds
from tracehound.model.units import format_duration, format_ranks
from tracehound.model.units import format_share as percent
from tracehound.numeric.intervals import Intervals, complement, subtract, union

MIN_IDLE_SHARE: Final = 0.50

BEFORE_STEPS, BETWEEN_STEPS, AFTER_STEPS = "before", "between", "after"
"""Idle time of a rank before, between and after the time that other findings cover."""
IN_COMPILING: Final = "in_compiling"
"""Idle time in which the host compiles."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of `idle` for idle time of the recording outside of `idle_in_steps`, if that is most of the recording.

    `recorded` is the length of the recording: from the first event of the rank or its host to the last, in the window.
    """
    events = device_work(replace(rank_trace, device=rank_trace.device_anytime), "step", "launch")
    low, high = recording_bounds(rank_trace)
    if events.is_empty() or low >= high:
        return pl.DataFrame()
    steps = whole_steps(rank_trace, events, options)
    first, last = (
        (min(steps["start"].to_list()), max(steps["end"].to_list()))
        if steps.height
        else work_bounds(events, rank_trace)
    )
    covered_by_rules = _intervals_of_rows(steps) if steps.height else _single_interval(first, last)
    idle_intervals = subtract(
        complement(covered_by_rules, low, high), BUSY_AT_ANY_TIME.result_for(rank_trace, events).busy
    )
    if idle_intervals.length <= MIN_IDLE_SHARE * (high - low):
        return pl.DataFrame()
    conditions = {
        BEFORE_STEPS: _single_interval(-FOREVER, first),
        BETWEEN_STEPS: _single_interval(first, last),
        AFTER_STEPS: _single_interval(last, FOREVER),
        IN_COMPILING: _intervals_of_rows(find_compilations(rank_trace)),
    }
    rows = idle.idle_within(rank_trace, options, idle_intervals, conditions).filter("whole")
    return rows.with_columns(pl.lit(high - low, pl.Int64).alias("recorded"))


def _single_interval(start: int, end: int) -> Intervals:
    return union(np.array([start]), np.array([end]))


def _intervals_of_rows(rows: pl.DataFrame) -> Intervals:
    return union(rows["start"].to_numpy(), rows["end"].to_numpy())


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks."""
    return idle.combine_with_columns_of(ANALYSIS, tables, context, options)


ANALYSIS: Final = replace(
    idle.ANALYSIS,
    name="outside",
    columns=(
        *idle.COLUMNS,
        *(Column(part, "time", "the host is at it", brief=False) for part in ALL_ACTIVITIES),
        Column(BEFORE_STEPS, "time", "before the first whole step, or work", brief=False),
        Column(BETWEEN_STEPS, "time", "between whole steps", brief=False),
        Column(AFTER_STEPS, "time", "after the last whole step, or work", brief=False),
        Column(IN_COMPILING, "time", "the host compiles", brief=False),
        Column("recorded", "time", "from the first event to the last, in the window", brief=False),
    ),
    per_rank=per_rank,
    combine=combine,
    host_computations=(*idle.ANALYSIS.host_computations, HOST_COMPILATIONS),
)
"""The analysis `idle` for this time, under a name of its own, which is the key of its cached tables."""


def find_idle_recording(evidence: Evidence) -> Iterator[Finding]:
    """Devices are idle for most of the recording, and other findings do not explain that time."""
    device_times = evidence.device_times
    rows = evidence.table("outside").filter(pl.col("rank").is_in(device_times["rank"].implode()))
    ranks = rows.group_by("rank").agg(
        pl.col("idle", BEFORE_STEPS, BETWEEN_STEPS, AFTER_STEPS, IN_COMPILING).sum(), pl.col("recorded").max()
    )
    explained_columns = (
        BETWEEN_STEPS if evidence.findings_of(find_time_between_steps) else None,
        IN_COMPILING if evidence.findings_of(find_compiling) else None,
    )
    explained = pl.max_horizontal(pl.lit(0), *(pl.col(part) for part in explained_columns if part))
    ranks = ranks.with_columns(explained.alias("told")).filter(
        pl.col("idle") - pl.col("told") > MIN_IDLE_SHARE * pl.col("recorded")
    )
    if ranks.is_empty():
        return
    mean = {name: round(float(ranks[name].to_numpy().mean())) for name in ranks.columns}
    rows = rows.filter(pl.col("rank").is_in(ranks["rank"].implode()))
    worst = rows.row(rows["duration"].arg_max() or 0, named=True)
    share, base_word = mean["idle"] / mean["recorded"], "recording" if evidence.extent_word == "run" else "window"
    activity, activity_phrase = main_host_activity(rows)
    topic = TOPIC_OF_ACTIVITY.get(activity, "outside") if 2 * mean[BETWEEN_STEPS] > mean["idle"] else "outside"
    yield Finding(
        f"the device does nothing for {format_duration(mean['idle'])}{_main_place(mean, evidence)}",
        f"{_ranks_phrase(ranks['rank'].to_list(), evidence)}{percent(share)} of {format_duration(mean['recorded'])}:"
        f" {_idle_parts_phrase(mean, evidence)}; the longest {format_duration(worst['duration'])} on rank"
        f" {worst['rank']}"
        + (f"; {activity_phrase}" if activity_phrase else "; nothing is recorded of what the host did meanwhile")
        + (f"; other findings tell of {format_duration(mean['told'])} of it" if mean["told"] else ""),
        advice(evidence, topic),
        FindingLocation.from_row(worst),
        None,
        share,
        base_word,
    )


def _ranks_phrase(ranks: list[int], evidence: Evidence) -> str:
    """``on ranks 0-1 ``; "" where it is all ranks."""
    return "" if len(ranks) == evidence.device_times["rank"].n_unique() else f"on {format_ranks(sorted(ranks))} "


def _main_place(mean: dict[str, int], evidence: Evidence) -> str:
    """The phase with nearly all of the idle time, for a title."""
    words = _places(evidence)
    main = max(words, key=lambda part: mean[part])
    if mean[main] >= _NEARLY_ALL * mean["idle"]:
        return f" {words[main]}"
    return ", outside of steps" if evidence.steps else ""


_NEARLY_ALL: Final = 0.90


def _idle_parts_phrase(mean: dict[str, int], evidence: Evidence) -> str:
    words = _places(evidence)
    return ", ".join(f"{format_duration(mean[part])} {words[part]}" for part in words if mean[part])


def _places(evidence: Evidence) -> dict[str, str]:
    boundary = "whole step" if evidence.steps else "work"
    return {
        BEFORE_STEPS: f"before the first {boundary}",
        BETWEEN_STEPS: "between steps",
        AFTER_STEPS: f"after the last {boundary}",
    }


RULES: Final = (
    Rule(
        "recording",
        f"a device does nothing for more than {MIN_IDLE_SHARE:.0%} of the recording (of its host's file; or of the"
        " window) outside of its whole steps, of a run without any before its first work and after its last; time"
        " between steps, and in compiling, of which other rules tell, does not count",
        find_idle_recording,
        about_idle_time=True,
    ),
)
