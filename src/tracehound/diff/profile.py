"""What one run spends its time on, step by step: small, and all that a comparison needs.

Owns the map over ranks that measures it and what becomes of several ranks. Times are ps in a step, averaged over the
ranks that have the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.busy import COMMUNICATION, COPY, WORK, local_parent, work
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.analysis.share import run
from tracehound.diff import shares
from tracehound.diff.launched import operators
from tracehound.diff.names import kernel_family, module_name, op_name, signature
from tracehound.diff.stretches import Stretches, stretches
from tracehound.nesting import own_stretches
from tracehound.trace import Trace, Window, collected

PARTS: Final = ("compute", "communication", "copy", "idle")
"""What a step's time goes to; they add up to it."""

IDENTITY: Final = ("name", "category", "module", "operator", "scope", "signature", "family")
"""What tells one op from another in any run; empty words where a trace does not say."""


@dataclass(frozen=True, eq=False)
class Profile:
    """One run, measured.

    `steps` has a row for each step: step, ranks (how many have it), duration and `PARTS`. `ops` has a row for each
    step and op: step, `IDENTITY`, count, time (own time; several streams add up) and exposed (see `exposed_times`).
    `what` says what the steps are and `of` which events the ops are.
    """

    name: str
    ranks: int
    what: str
    of: str
    steps: pl.DataFrame
    ops: pl.DataFrame

    @property
    def about(self) -> str:
        """What was measured, in words: ``6 steps on 2 ranks, work on the device``."""
        ranks = f"{self.ranks:,} rank{'s' * (self.ranks != 1)}"
        if self.steps.is_empty():
            return f"nothing on {ranks}"
        one = self.steps.height == 1
        what = self.what.replace("steps", "step", 1).replace("executions", "execution", 1) if one else self.what
        count = "" if self.what == "the whole run" else f"{self.steps.height:,} "
        return f"{count}{what} on {ranks}, {self.of}"


_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("step", "count", "step"),
    Column("what", "text", "what the step is"),
    Column("of", "text", "what the ops are"),
    Column("duration", "time", "length of the step; null in the rows of ops"),
    *(Column(name, "text", name) for name in IDENTITY),
    Column("count", "count", "executions that begin in the step"),
    Column("time", "time", "own time"),
    Column("exposed", "time", "time that goes to it and to nothing else"),
    Column("class", "count", "class of the work"),
)


def profile(trace: Trace, window: Window, executor: Executor | None = None) -> Profile:
    """The run measured, in a window."""
    rows = run(_MEASURED, trace, window, executor=executor).table
    steps, ops = rows.filter(pl.col("duration").is_not_null()), rows.filter(pl.col("duration").is_null())
    ranks = steps.group_by("step").agg(pl.len().cast(pl.Int64).alias("ranks"))
    parts = ops.group_by("step", "class").agg(pl.col("exposed").sum())
    lengths = steps.group_by("step").agg(pl.col("duration").sum().cast(pl.Float64)).join(ranks, on="step")
    for number, part in enumerate(shares.CLASSES):
        mine = parts.filter(pl.col("class") == number).select("step", pl.col("exposed").alias(part))
        lengths = lengths.join(mine, on="step", how="left")
    lengths = lengths.with_columns(pl.col(*shares.CLASSES).fill_null(0).cast(pl.Float64))
    idle = (pl.col("duration") - pl.sum_horizontal(shares.CLASSES)).alias("idle")
    mean = pl.col("duration", *PARTS) / pl.col("ranks")
    of_ops = ops.group_by("step", *IDENTITY).agg(pl.col("count", "time", "exposed").sum().cast(pl.Float64))
    return Profile(
        name=trace.name,
        ranks=rows["rank"].n_unique(),
        what=_one(rows["what"]),
        of=_one(rows["of"]),
        steps=lengths.with_columns(idle).with_columns(mean).select("step", "ranks", "duration", *PARTS).sort("step"),
        ops=of_ops.join(ranks, on="step")
        .with_columns(pl.col("count", "time", "exposed") / pl.col("ranks"))
        .drop("ranks")
        .sort("step", *IDENTITY),
    )


def _one(words: pl.Series) -> str:
    return " and ".join(words.unique().sort().to_list())


def _per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row per step, and a row per step and op."""
    del options
    events, of = _counted(share)
    when = stretches(share, events)
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    owned = own_stretches(start, end, local_parent(events))
    kinds = [events["kind"].cast(pl.String).is_in(names).to_numpy() for names in (COMMUNICATION, COPY)]
    classes = shares.classes_of(kinds)
    named = _named(events, share).with_columns(pl.Series("class", classes))
    began = np.searchsorted(when.start, start, side="right") - 1
    inside = (began >= 0) & (start < np.append(when.end, 0)[began])
    times = {
        "count": shares.Times(np.flatnonzero(inside), began[inside], np.ones(int(inside.sum()), np.int64)),
        "time": shares.own_times(owned, when),
        "exposed": shares.exposed_times(owned, classes, when),
    }
    return pl.concat([_steps(when), _summed(named, times, when)], how="diagonal").with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"), pl.lit(when.what).alias("what"), pl.lit(of).alias("of")
    )


def _counted(share: Share) -> tuple[pl.DataFrame, str]:
    """The work of the device, sorted by id; where none was recorded the operators of the host."""
    more = ("name", "op", "launch")
    events = work(share, *more)
    if events.height or share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height:
        return events, "work on the device"
    on_host = share.threads.filter(pl.col("kind").is_in(["op", "collective"]))
    return collected(on_host.select(*WORK, *more)), "operators on the host"


def _named(events: pl.DataFrame, share: Share) -> pl.DataFrame:
    """`IDENTITY` of each event."""
    plain = pl.DataFrame({"name": events["name"].cast(pl.String).fill_null(""), "op": events["op"]})
    known = share.ops.select(
        "op",
        pl.col("name").alias("hlo"),
        pl.col("category").fill_null("").alias("kind of op"),
        pl.col("module").fill_null(""),
        pl.col("framework").fill_null("").alias("scope"),
        pl.col("text").fill_null(""),
    )
    rows = plain.join(known, on="op", how="left", maintain_order="left").with_columns(
        pl.col("module", "scope", "text", "kind of op").fill_null(""), operators(share, events["launch"])
    )
    is_hlo = pl.col("hlo").is_not_null()
    name = pl.coalesce("hlo", "name")
    return rows.select(
        pl.when(is_hlo).then(_each(name, op_name)).otherwise(name).alias("name"),
        pl.when(pl.col("kind of op") != "")
        .then("kind of op")
        .otherwise(pl.lit(events["kind"].cast(pl.String)))
        .alias("category"),
        _each(pl.col("module"), module_name).alias("module"),
        pl.when(is_hlo).then(pl.lit("")).otherwise("operator").alias("operator"),
        "scope",
        _each(pl.col("text"), signature).alias("signature"),
        pl.when(is_hlo).then(_each(name, op_name)).otherwise(_each(name, kernel_family)).alias("family"),
    )


def _each(words: pl.Expr, change: Callable[[str], str]) -> pl.Expr:
    """Every word changed; each distinct one once."""

    def changed(series: pl.Series) -> pl.Series:
        distinct = series.unique().drop_nulls()
        return series.replace_strict(
            distinct, pl.Series([change(word) for word in distinct], dtype=pl.String), default=None
        )

    return words.map_batches(changed, return_dtype=pl.String)


def _steps(when: Stretches) -> pl.DataFrame:
    return pl.DataFrame({"step": when.number, "duration": when.end - when.start})


def _summed(named: pl.DataFrame, times: Mapping[str, shares.Times], when: Stretches) -> pl.DataFrame:
    """What each op has of each step."""
    kinds = (
        named.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
        if named.height
        else np.empty(0, np.int64)
    )
    first = named.with_columns(pl.Series("unit", kinds)).unique("unit", keep="first")
    rows = [
        pl.DataFrame({"unit": kinds[found.event], "step": when.number[found.stretch], name: found.time})
        for name, found in times.items()
    ]
    return (
        pl.concat(rows, how="diagonal")
        .group_by("unit", "step")
        .agg(pl.col(*times).sum())
        .join(first, on="unit")
        .drop("unit")
        .with_columns(pl.lit(None, pl.Int64).alias("duration"))
    )


def _combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    filled = [table for table in tables if table.height]
    rows = pl.concat(filled, how="diagonal_relaxed") if filled else blank(_COLUMNS)
    return answer(_MEASURED, rows, scene, options)


_MEASURED = Analysis(
    name="profile",
    title="Profile",
    question="What does each step go to?",
    definition="Times of each step and op, averaged over the ranks that have the step.",
    columns=_COLUMNS,
    per_rank=_per_rank,
    combine=_combine,
)
