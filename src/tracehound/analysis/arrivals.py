"""Arrival of each rank at each collective, and its wait there."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks.collective_matching import (
    MATCHING_DEFINITION,
    WAIT_PER_RANK_NOTE,
    WAITS_DEFINITION,
    match_collectives,
    no_shared_collectives_notes,
)
from tracehound.analysis.ranks.rank_collectives import CALLS_OF_STEPS_DEFINITION, rank_calls_in_steps
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.model.notes import note

DEFINITION = f"""\
A row for each rank of each collective that at least two ranks of the trace have, in the order of arrival.
{MATCHING_DEFINITION} {CALLS_OF_STEPS_DEFINITION}

after = its arrival - the first arrival, on the common clock of the analysis clocks. late = its arrival - the median
arrival of the other ranks. wait = from its arrival to that of the last rank, or to the end of its call if that comes
first (a rank that only sends may leave early). transfer = the rest of its call, so a rank that ends after the others
has a longer transfer, not a longer wait. These are as exact as the clocks: if clocks differ by more than the calls
last, waits are not reliable. collectives and collective_calls use the shortest call of any rank as transfer, which
does not depend on clocks. start and duration are those of the call on the trace's own clock.

{WAITS_DEFINITION}"""

COLUMNS = (
    Column("number", "number", "number of the collective, in the order of first arrivals"),
    Column("step", "number", "step of the rank"),
    Column("name", "text", "kernel, HLO op or range"),
    Column("rank", "number", "rank"),
    Column("after", "time", "time after the first arrival"),
    Column("wait", "time", "from its arrival to the last rank's, at most its call"),
    Column("transfer", "time", "rest of its call, after all have come"),
    Column("late", "difference", "arrival - median arrival of the others"),
    Column("start", "instant", "start of its call, on the trace's own clock", brief=False),
    Column("duration", "time", "length of its call", brief=False),
    Column("bytes", "bytes", "message of the rank", brief=False),
    Column("collective", "text", "collective", brief=False),
    Column("process_group", "text", "process group; the stream or program if none is recorded", brief=False),
    Column("group_size", "count", "ranks of the group", brief=False),
    Column("absent", "text", "ranks here that should have taken part", brief=False),
    Column("event", "id", "the call"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return rank_calls_in_steps(rank_trace)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per collective and rank, ordered by first arrival, then by arrival."""
    matching = match_collectives(tables, context)
    rows = matching.multi_rank_calls
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, *no_shared_collectives_notes(matching, context))
    order = rows.sort("first", "event").select("meeting").unique(maintain_order=True)
    table = (
        rows.join(order.with_row_index("number"), on="meeting")
        .with_columns(
            (pl.col("arrived") - pl.col("first")).alias("after"),
            (pl.col("end") - pl.col("start")).alias("duration"),
            (pl.col("end") - pl.col("start") - pl.col("wait")).alias("transfer"),
            pl.coalesce("description", "group", "stream").alias("process_group"),
        )
        .sort("number", "after", "rank")
    )
    return make_result(
        ANALYSIS, table, context, options, [*offset_notes(matching.clocks), *matching.notes, note(WAIT_PER_RANK_NOTE)]
    )


ANALYSIS = Analysis(
    name="arrivals",
    title="Arrivals",
    question="When did each rank come to each collective, and how long did it wait there?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
