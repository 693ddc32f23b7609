"""Each collective, matched over the ranks: arrivals, the last rank, and the time of the transfer."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks import rank_collectives
from tracehound.analysis.ranks.collective_matching import (
    MATCHING_DEFINITION,
    WAIT_PER_RANK_NOTE,
    WAITS_DEFINITION,
    last_rank_column,
    match_collectives,
    no_shared_collectives_notes,
)
from tracehound.analysis.ranks.process_groups import missing_rank_notes
from tracehound.analysis.ranks.rank_collectives import CALLS_OF_STEPS_DEFINITION, rank_calls_in_steps
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    empty_result,
    make_result,
)
from tracehound.model.notes import note

DEFINITION = f"""\
A row for each collective that at least two ranks of the trace have. {MATCHING_DEFINITION} {CALLS_OF_STEPS_DEFINITION}

start = first arrival, duration = time from there to the last end, both on the common clock of the analysis clocks.
skew = time from the first to the last arrival. last = the rank that came last, none if several came at once (step,
name and event are of one of them). late = last arrival - median arrival of the others. transfer = the shortest call.
wait = sum over ranks of the time from arrival to the last arrival (at most the length of the call). arrivals has a row
for each rank.

{WAITS_DEFINITION}

{rank_collectives.BANDWIDTH_DEFINITION}"""

COLUMNS = (
    Column("number", "number", "number of the collective, in the order of first arrivals", brief=False),
    Column("step", "number", "step of the rank that came last"),
    Column("name", "text", "kernel, HLO op or range, on the rank that came last"),
    Column("start", "instant", "first arrival"),
    Column("duration", "time", "from the first arrival to the last end", brief=False),
    Column("skew", "time", "from the first to the last arrival"),
    Column("last", "number", "rank that came last; empty if several did"),
    Column("late", "time", "last arrival - median arrival of the others"),
    Column("transfer", "time", "shortest call of any rank"),
    Column("wait", "time", "time from arrival to the last rank's arrival, summed over all ranks"),
    Column("bytes", "bytes", "message of one rank", brief=False),
    Column("algorithm", "rate", "message / transfer", brief=False),
    Column("bus", "rate", "bus bandwidth of nccl-tests", brief=False),
    Column("collective", "text", "collective", brief=False),
    Column("process_group", "text", "process group; the stream or program if none is recorded", brief=False),
    Column("ranks", "count", "ranks here that took part"),
    Column("group_size", "count", "ranks of the group", brief=False),
    Column("absent", "text", "ranks here that should have taken part", brief=False),
    Column("event", "id", "the call of the rank that came last"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return rank_calls_in_steps(rank_trace)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per collective, in the order of first arrivals."""
    matching = match_collectives(tables, context)
    rows = matching.multi_rank_calls
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, *no_shared_collectives_notes(matching, context))
    of_last = ("step", "name", "event")
    table = (
        rows.sort("meeting", "arrived", "rank")
        .group_by("meeting", maintain_order=True)
        .agg(
            pl.col(*of_last).last(),
            last_rank_column().alias("last"),
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
            *collect_counted_events(options, pl.col("event").sort_by("start", "event")),
        )
        .with_columns(pl.col("late").clip(lower_bound=0), rank_collectives.bus_factor_column().alias("factor"))
        .with_columns(rank_collectives.bandwidth_columns(pl.col("bytes"), pl.col("transfer")))
        .sort("start", "event")
        .with_columns(pl.int_range(pl.len()).cast(pl.Int64).alias("number"))
    )
    notes = [
        *offset_notes(matching.clocks),
        *missing_rank_notes(matching.calls, context),
        *matching.notes,
        note(WAIT_PER_RANK_NOTE),
    ]
    return make_result(ANALYSIS, table, context, options, notes)


ANALYSIS = Analysis(
    name="collective_calls",
    title="Collective calls",
    question="Who was last at each collective, by how much, and how long did the transfer take?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="ranks",
)
