"""Rules on steps that take longer than the others, and on kernels that take longer in some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import step_parts
from tracehound.analysis.findings.advice import SLOW_CLOCK, advice
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.findings.host_causes import HostCause
from tracehound.analysis.hosts.rank_time_parts import TIME_PARTS
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.result import Options, Result
from tracehound.model.units import count_noun, format_count, format_duration
from tracehound.model.units import format_share as percent

SLOW_STEP_FACTOR: Final = 1.5
"""A step is slow if it takes this many times the median."""
MIN_STEPS_PER_RANK: Final = 4
"""With fewer whole steps on a rank no step is called slow."""
MIN_STRETCH: Final = 1.05
"""Kernels that are longer by a smaller factor are not called slow."""
MIN_AGREEMENT: Final = 0.8
"""Share of kernel time that must be longer by about the same factor for the clock to be the reason."""
STRETCH_SHARE: Final = 0.03
MAIN_SHARE: Final = 0.5


def measure_host_step_parts(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of `step_parts` of a rank without device work; none of others, whose `steps` say enough."""
    works = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height
    return pl.DataFrame() if works else step_parts.per_rank(rank_trace, options)


HOST_STEP_PARTS: Final = replace(step_parts.ANALYSIS, name="host step parts", per_rank=measure_host_step_parts)
"""The analysis `step_parts` of these ranks, under a name of its own, which is the key of its cached tables."""

DEVICE_PARTS: Final = ("compute", "communication", "copy", "idle")


def select_whole_steps(results: Mapping[str, Result]) -> Result:
    """The whole steps of devices, or if none works, of hosts."""
    source = results["steps" if results["breakdown"].table.height else "step_parts"]
    return replace(source, table=source.table.filter(~pl.col("partial")))


def whole_step_parts(evidence: Evidence) -> pl.DataFrame:
    """The whole steps, with the parts of their time."""
    return evidence.table("whole_steps")


def _part_names(steps: pl.DataFrame) -> tuple[str, ...]:
    """The parts that these steps have: of devices, or of hosts."""
    return TIME_PARTS if set(TIME_PARTS) <= set(steps.columns) else DEVICE_PARTS


def find_stretched_steps(evidence: Evidence) -> Iterator[Finding]:
    """All kernels of some steps are longer by one factor: the clock was slower."""
    steps = whole_step_parts(evidence)
    if steps.height < MIN_STEPS_PER_RANK * max(steps["rank"].n_unique(), 1):
        return
    keys = ["rank", "step"]
    median = pl.col("duration").median().over("rank").alias("usual")
    stretched = _find_stretched(evidence).join(steps.select(*keys, "start", "duration", "event", median), on=keys)
    if stretched.is_empty():
        return
    longer = (stretched["duration"] - stretched["usual"]).clip(lower_bound=0)
    lost = pl.select(pl.min_horizontal(stretched["kernels"] * (1 - 1 / stretched["factor"]), longer)).to_series()
    cost = evidence.per_step(float(lost.sum()), steps["rank"].n_unique())
    share = evidence.share_of_base(cost)
    if share <= STRETCH_SHARE:
        return
    worst = stretched.row(lost.arg_max() or 0, named=True)
    numbers = stretched["step"].unique().sort().to_list()
    where = f"step {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} steps, most in step {worst['step']}"
    yield Finding(
        f"{where}: all kernels take {worst['factor']:.3g} times as long as in the other steps",
        f"{percent(share)} of {evidence.time_phrase}; {percent(worst['agreement'])} of the kernel time of step"
        f" {worst['step']} is longer by about this factor, so the clock or another job is the reason, not one kernel",
        advice(evidence, SLOW_CLOCK),
        FindingLocation.from_row(worst),
        cost,
        share,
        certainty="inferred",
        effects=(
            f"step {worst['step']} takes {format_duration(worst['duration'])} against a median of"
            f" {format_duration(round(worst['usual']))}",
        ),
        command=f"kernels --rank {worst['rank']} --step {worst['step']}",
    )


def _find_stretched(evidence: Evidence) -> pl.DataFrame:
    """The steps, by rank, whose kernels are longer than usual by about one factor."""
    return evidence.step_factors.filter((pl.col("factor") >= MIN_STRETCH) & (pl.col("agreement") >= MIN_AGREEMENT))


def _slow_steps(evidence: Evidence) -> pl.DataFrame:
    """The slow steps, with the usual time of each part of the rank's steps (``usual_...``)."""
    steps = whole_step_parts(evidence)
    if steps.height < MIN_STEPS_PER_RANK * max(steps["rank"].n_unique(), 1):
        return steps.clear()
    same = ["rank", "phase"]
    medians = pl.col("duration", *_part_names(steps)).median().over(same).name.prefix("usual_")
    enough = pl.len().over(same) >= MIN_STEPS_PER_RANK
    return steps.with_columns(medians).filter(
        enough & (pl.col("duration") > SLOW_STEP_FACTOR * pl.col("usual_duration"))
    )


def find_slow_steps(evidence: Evidence) -> Iterator[Finding]:
    """Some steps take much longer than the others, for reasons that no other finding names."""
    slow = _slow_steps(evidence)
    if slow.is_empty():
        return
    stretched = _find_stretched(evidence).select("rank", "step", lost=pl.col("kernels") * (1 - 1 / pl.col("factor")))
    slow = slow.join(stretched, on=["rank", "step"], how="left", maintain_order="left").with_columns(
        pl.col("lost").fill_null(0)
    )
    named = dict[int, int]()
    for cause in evidence.host_causes:
        for step, time in cause.by_step.items():
            named[step] = named.get(step, 0) + time
    ranks_of_step = max(evidence.device_ranks, 1)
    excess = slow["duration"] - slow["usual_duration"]
    known = [lost + named.get(step, 0) / ranks_of_step for step, lost in slow.select("step", "lost").iter_rows()]
    unexplained = slow.filter(pl.Series([2 * part <= more for part, more in zip(known, excess, strict=True)]))
    if unexplained.is_empty():
        return
    steps = whole_step_parts(evidence)
    worst = unexplained.sort("duration", descending=True).row(0, named=True)
    growth = {part: worst[part] - worst[f"usual_{part}"] for part in _part_names(steps)}
    grown_most = max(growth, key=lambda part: growth[part])
    total = (unexplained["duration"] - unexplained["usual_duration"]).to_numpy().sum()
    cost = evidence.per_step(float(total), steps["rank"].n_unique())
    yield Finding(
        f"{count_noun(unexplained['step'].n_unique(), 'step')} of {format_count(steps['step'].n_unique())} much longer"
        f" than the others: step {worst['step']} takes {format_duration(worst['duration'])}",
        f"the median is {format_duration(round(worst['usual_duration']))}; most of the difference, in step"
        f" {worst['step']} on rank {worst['rank']}, is {grown_most.replace('_', ' ')}",
        f"compare step {worst['step']} with another one (step_parts, or two windows in the explorer); first steps,"
        " checkpoints, evaluation, garbage collection and recompilation are common reasons",
        FindingLocation.from_row(worst),
        cost,
        evidence.share_of_base(cost),
        certainty="not recorded",
        command=f"step_parts --rank {worst['rank']}",
    )


def slow_step_effects(cause: HostCause, evidence: Evidence) -> tuple[str, ...]:
    """Text on the slowest step that a cause on the host makes slow; empty without one."""
    slow = _slow_steps(evidence).filter(pl.col("step").is_in(list(cause.by_step)))
    for row in slow.sort("duration", descending=True).iter_rows(named=True):
        time = cause.by_step[row["step"]] / max(len(cause.by_rank), 1)
        if 2 * time >= row["duration"] - row["usual_duration"]:
            usual = format_duration(round(row["usual_duration"]))
            return (f"step {row['step']} takes {format_duration(row['duration'])} against a median of {usual}",)
    return ()


RULES: Final = (
    Rule(
        "slow clock",
        f"more than {STRETCH_SHARE:.0%} of the steps' time is lost in steps whose kernels take at least {MIN_STRETCH}"
        f" times as long as in the median step, {MIN_AGREEMENT:.0%} of their time by about the same factor",
        find_stretched_steps,
    ),
    Rule(
        "slow steps",
        f"a whole step takes more than {SLOW_STEP_FACTOR} times the median of its rank (and of its phase, prefill or"
        f" decode), where there are {MIN_STEPS_PER_RANK} of them, and causes of other rules explain less than half of"
        " the difference",
        find_slow_steps,
    ),
)
