"""When each rank came to each collective, and how long it waited there."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.ranks.calls import OF_STEPS, calls_of_steps
from tracehound.analysis.ranks.matched import HOW, THREE_WAITS, WAIT_PER_RANK, matched, nothing_met
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.notes import note

DEFINITION = f"""\
A row for each rank of each collective that two ranks or more of the trace have, in the order in which they came.
{HOW} {OF_STEPS}

after = its arrival less the first, on the common clock of the analysis clocks; late = its arrival less the median
arrival of the other ranks; wait = from its arrival to that of the last rank, or to the end of its call where that comes
first (who only sends may leave early); transfer = the rest of its call. So a rank that ends after the others has the
longer transfer, not the longer wait. As exact as the clocks: where these are apart by more than the calls last, waits
are not to be relied on. collectives and collective_calls take the shortest call of any rank for the transfer, which no
clock can change. start and duration are those of the call on the trace's own clock.

{THREE_WAITS}"""

COLUMNS = (
    Column("number", "number", "of the collective, in the order of first arrivals"),
    Column("step", "number", "step of the rank"),
    Column("name", "text", "kernel, HLO op or range"),
    Column("rank", "number", "rank"),
    Column("after", "time", "arrival after the first rank's"),
    Column("wait", "time", "from its arrival to the last rank's, at most its call"),
    Column("transfer", "time", "rest of its call: all have come"),
    Column("late", "difference", "arrival less the median arrival of the others"),
    Column("start", "instant", "start of its call, on the trace's own clock", brief=False),
    Column("duration", "time", "length of its call", brief=False),
    Column("bytes", "bytes", "message of the rank", brief=False),
    Column("collective", "text", "what it does", brief=False),
    Column("process_group", "text", "process group; where none is recorded, the stream or program", brief=False),
    Column("group_size", "count", "ranks of the group", brief=False),
    Column("absent", "text", "ranks here that should have taken part", brief=False),
    Column("event", "id", "the call"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return calls_of_steps(share)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per collective and rank, by first arrivals, then by arrivals."""
    found = matched(tables, scene)
    rows = found.met
    if rows.is_empty():
        return without(ANALYSIS, scene, options, *nothing_met(found, scene))
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
    return answer(ANALYSIS, table, scene, options, [*offset_notes(found.clocks), *found.notes, note(WAIT_PER_RANK)])


ANALYSIS = Analysis(
    name="arrivals",
    title="Arrivals",
    question="When did each rank come to each collective, and how long did it wait there?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
