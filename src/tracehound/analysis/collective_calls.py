"""Each collective, matched over the ranks: when they came, who was last, and how long the transfer took."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.members import gathered
from tracehound.analysis.ranks import bus
from tracehound.analysis.ranks.calls import OF_STEPS, calls_of_steps
from tracehound.analysis.ranks.matched import HOW, THREE_WAITS, WAIT_PER_RANK, latest, matched, nothing_met
from tracehound.analysis.ranks.process_groups import absentees
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.notes import note

DEFINITION = f"""\
A row for each collective that two ranks or more of the trace have. {HOW} {OF_STEPS}

start = first arrival, duration = from there to the last end, both on the common clock of the analysis clocks; skew =
from the first to the last arrival; last = the rank that came last: where several did at once, none (step, name and
event are of one of them); late = the last arrival less the median arrival of the others; transfer = the shortest call;
wait = sum over the ranks of the time from the arrival to the last rank's (at most that of the call). The analysis
arrivals has a row for each rank.

{THREE_WAITS}

{bus.DEFINITION}"""

COLUMNS = (
    Column("number", "number", "of the collective, in the order of first arrivals", brief=False),
    Column("step", "number", "step of the rank that came last"),
    Column("name", "text", "kernel, HLO op or range, on the rank that came last"),
    Column("start", "instant", "first arrival"),
    Column("duration", "time", "from the first arrival to the last end", brief=False),
    Column("skew", "time", "from the first to the last arrival"),
    Column("last", "number", "rank that came last, if one did"),
    Column("late", "time", "last arrival less the median arrival of the others"),
    Column("transfer", "time", "shortest call of any rank"),
    Column("wait", "time", "from the arrival to the last rank's, summed over all ranks"),
    Column("bytes", "bytes", "message of one rank", brief=False),
    Column("algorithm", "rate", "message / transfer", brief=False),
    Column("bus", "rate", "bus bandwidth of nccl-tests", brief=False),
    Column("collective", "text", "what it does", brief=False),
    Column("process_group", "text", "process group; where none is recorded, the stream or program", brief=False),
    Column("ranks", "count", "ranks here that took part"),
    Column("group_size", "count", "ranks of the group", brief=False),
    Column("absent", "text", "ranks here that should have taken part", brief=False),
    Column("event", "id", "the call of the rank that came last"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return calls_of_steps(share)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per collective, in the order of first arrivals."""
    found = matched(tables, scene)
    rows = found.met
    if rows.is_empty():
        return without(ANALYSIS, scene, options, *nothing_met(found, scene))
    of_last = ("step", "name", "event")
    table = (
        rows.sort("meeting", "arrived", "rank")
        .group_by("meeting", maintain_order=True)
        .agg(
            pl.col(*of_last).last(),
            latest().alias("last"),
            pl.col("late").last(),
            pl.col("first").first().alias("start"),
            (pl.col("ended").max() - pl.col("first").first()).alias("duration"),
            (pl.col("last").first() - pl.col("first").first()).alias("skew"),
            pl.col("transfer").first(),
            pl.col("wait").sum(),
            pl.col("bytes").max(),
            pl.col("collective", "group_size", "absent").first(),
            pl.coalesce("description", "group", "stream").first().alias("process_group"),
            pl.col("present").first().alias("ranks"),
            *gathered(options, pl.col("event").sort_by("start", "event")),
        )
        .with_columns(pl.col("late").clip(lower_bound=0), bus.factor().alias("factor"))
        .with_columns(bus.rates(pl.col("bytes"), pl.col("transfer")))
        .sort("start", "event")
        .with_columns(pl.int_range(pl.len()).cast(pl.Int64).alias("number"))
    )
    notes = [*offset_notes(found.clocks), *absentees(found.calls, scene), *found.notes, note(WAIT_PER_RANK)]
    return answer(ANALYSIS, table, scene, options, notes)


ANALYSIS = Analysis(
    name="collective_calls",
    title="Collective calls",
    question="Who was last at each collective, by how much, and how long did the transfer take?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="ranks",
)
