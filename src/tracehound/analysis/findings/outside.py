"""Whether devices do nothing for most of a recording where no other finding looks: outside of its whole steps.

Owns which time that is, and the rule about it. What the host was at meanwhile says `idle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis import idle
from tracehound.analysis.events.busy import bounds, recorded, work, worked
from tracehound.analysis.findings.advice import TOPICS, advice
from tracehound.analysis.findings.device import compiling
from tracehound.analysis.findings.finding import Evidence, Finding, Place, Rule
from tracehound.analysis.findings.pauses import meanwhile, whole_steps
from tracehound.analysis.findings.xla import between_steps
from tracehound.analysis.hosts.compilations import COMPILED, compilations
from tracehound.analysis.hosts.doing import DOINGS
from tracehound.analysis.result import Column, Options, Result, Scene, Share
from tracehound.intervals import Intervals, complement, subtract, union
from tracehound.units import duration, which_ranks
from tracehound.units import share as percent

MOST: Final = 0.50

BEFORE, BETWEEN, AFTER = "before", "between", "after"
"""For how long of its idle time a rank is before all that other findings look at, between, and after that."""
IN_COMPILING: Final = "in_compiling"
"""For how long of it the host compiles."""

_EVER: Final = 1 << 62


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of `idle` for what is idle in the recording and not in what `pauses` looks at, if that is most of it.

    `recorded` is how long the recording is: from the first event of the rank or its host to the last, in the window.
    """
    events = work(replace(share, device=share.anytime), "step", "launch")
    low, high = recorded(share)
    if events.is_empty() or low >= high:
        return pl.DataFrame()
    whole = whole_steps(share, events, options)
    first, last = (
        (min(whole["start"].to_list()), max(whole["end"].to_list())) if whole.height else bounds(events, share)
    )
    seen = _stretches(whole) if whole.height else _one(first, last)
    silent = subtract(complement(seen, low, high), worked(events))
    if silent.length <= MOST * (high - low):
        return pl.DataFrame()
    when = {
        BEFORE: _one(-_EVER, first),
        BETWEEN: _one(first, last),
        AFTER: _one(last, _EVER),
        IN_COMPILING: _stretches(compilations(share)),
    }
    found = idle.within(share, options, silent, when).filter("whole")
    return found.with_columns(pl.lit(high - low, pl.Int64).alias("recorded"))


def _one(start: int, end: int) -> Intervals:
    return union(np.array([start]), np.array([end]))


def _stretches(rows: pl.DataFrame) -> Intervals:
    return union(rows["start"].to_numpy(), rows["end"].to_numpy())


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of all ranks."""
    return idle.told_by(ANALYSIS, tables, scene, options)


ANALYSIS: Final = replace(
    idle.ANALYSIS,
    name="outside",
    columns=(
        *idle.COLUMNS,
        *(Column(part, "time", "the host is at it", brief=False) for part in DOINGS),
        Column(BEFORE, "time", "before the first whole step, or work", brief=False),
        Column(BETWEEN, "time", "between whole steps", brief=False),
        Column(AFTER, "time", "after the last whole step, or work", brief=False),
        Column(IN_COMPILING, "time", "the host compiles", brief=False),
        Column("recorded", "time", "from the first event to the last, in the window", brief=False),
    ),
    per_rank=per_rank,
    combine=combine,
    of_host=(*idle.ANALYSIS.of_host, COMPILED),
)
"""That of `idle`, of this time; under a name of its own, by which its tables are remembered."""


def outside(evidence: Evidence) -> Iterator[Finding]:
    """Devices do nothing for most of the recording, and other findings do not tell of that time."""
    spans = evidence.spans
    rows = evidence.table("outside").filter(pl.col("rank").is_in(spans["rank"].implode()))
    ranks = rows.group_by("rank").agg(
        pl.col("idle", BEFORE, BETWEEN, AFTER, IN_COMPILING).sum(), pl.col("recorded").max()
    )
    told = (BETWEEN if evidence.found(between_steps) else None, IN_COMPILING if evidence.found(compiling) else None)
    explained = pl.max_horizontal(pl.lit(0), *(pl.col(part) for part in told if part))
    ranks = ranks.with_columns(explained.alias("told")).filter(
        pl.col("idle") - pl.col("told") > MOST * pl.col("recorded")
    )
    if ranks.is_empty():
        return
    mean = {name: round(float(ranks[name].to_numpy().mean())) for name in ranks.columns}
    rows = rows.filter(pl.col("rank").is_in(ranks["rank"].implode()))
    worst = rows.row(rows["duration"].arg_max() or 0, named=True)
    share, what = mean["idle"] / mean["recorded"], "recording" if evidence.looked_at == "run" else "window"
    why, at = meanwhile(rows)
    topic = TOPICS.get(why, "outside") if 2 * mean[BETWEEN] > mean["idle"] else "outside"
    yield Finding(
        f"the device does nothing for most of the {what}{', outside of steps' * bool(evidence.steps)}",
        f"{_who(ranks['rank'].to_list(), evidence)}{percent(share)} of {duration(mean['recorded'])}:"
        f" {_where(mean, evidence)}; the longest {duration(worst['duration'])} on rank {worst['rank']}"
        + (f"; {at}" if at else "; nothing is recorded of what the host did meanwhile")
        + (f"; other findings tell of {duration(mean['told'])} of it" if mean["told"] else ""),
        advice(evidence, topic),
        Place.of(worst),
        None if evidence.steps else round(ranks["idle"].sum() / spans["rank"].n_unique()),
        share,
        what,
    )


def _who(ranks: list[int], evidence: Evidence) -> str:
    """``on ranks 0-1 ``, where others do something."""
    return "" if len(ranks) == evidence.spans["rank"].n_unique() else f"on {which_ranks(sorted(ranks))} "


def _where(mean: dict[str, int], evidence: Evidence) -> str:
    what = "whole step" if evidence.steps else "work"
    words = {BEFORE: f"before the first {what}", BETWEEN: "between steps", AFTER: f"after the last {what}"}
    return ", ".join(f"{duration(mean[part])} {words[part]}" for part in words if mean[part])


RULES: Final = (
    Rule(
        "recording",
        f"a device does nothing for more than {MOST:.0%} of the recording (of its host's file; or of the window)"
        " outside of its whole steps, of a run without any before its first work and after its last; time between"
        " steps, and in compiling, of which other rules tell, does not count",
        outside,
        of_idleness=True,
    ),
)
