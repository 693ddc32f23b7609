"""Clock offsets between ranks, and how exactly their collectives determine them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks.clock_offsets import MIN_COLLECTIVES, MIN_IMPROVEMENT, machine_name
from tracehound.analysis.ranks.collective_matching import MatchedCalls, match_collectives
from tracehound.analysis.ranks.rank_collectives import rank_calls
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.model.notes import Note, note

DEFINITION = f"""\
No rank leaves an all-reduce, all-gather, reduce-scatter, all-to-all or barrier before all have come, so it ends on all
ranks at about the same moment. shift is what is added to the times of a rank so that its collectives end with those of
the first rank: the median, over all matched collectives, of the distance from the median end of all ranks. Ranks of
one file share its clock. So do processes of one machine (by the name that PyTorch records) whose ranks have no device,
or whose collectives are matched by order only: host times are the machine's, device times differ by microseconds, and
matching by order may pair the wrong collectives. own = median distance of the ends from those of the others on the
trace's own clock. exact = the same after the shift, which is the precision of the clock. drift = growth of the
distance from the first third of the collectives to the last: the clocks run at different rates, or were set.

A shift is applied in collectives, arrivals, stragglers and all other comparisons of ranks if the ends agree
{MIN_IMPROVEMENT} times better with it, by 1 ns or more, over at least {MIN_COLLECTIVES} collectives. Otherwise the
trace's own clock is at least as good. --align collectives applies every shift to the timeline and to all tables."""

COLUMNS = (
    Column("rank", "number", "rank"),
    Column("shift", "difference", "correction of its times against the first rank"),
    Column("applied", "flag", "the shift is applied when ranks are compared"),
    Column("exact", "time", "median distance of its ends with the shift (the precision)"),
    Column("own", "time", "median distance of its ends on the trace's own clock"),
    Column("drift", "difference", "growth of the distance from the first to the last third"),
    Column("matched", "count", "matched collectives"),
    Column("host", "text", "machine or process"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return rank_calls(rank_trace)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per rank."""
    matching = match_collectives(tables, context)
    known_clocks = matching.clocks.filter(pl.col("matched") > 0)
    if known_clocks.is_empty():
        return empty_result(ANALYSIS, context, options, *_why_unknown(matching, context))
    hosts = {rank: context.hosts[host].name for rank, host in context.ranks.select("rank", "host").iter_rows()}
    table = known_clocks.sort("rank").with_columns(
        (pl.col("applied") != 0).alias("applied"),
        pl.col("left").alias("exact"),
        pl.col("offset").alias("shift"),
        pl.col("rank").replace_strict(hosts, return_dtype=pl.String).alias("host"),
    )
    return make_result(ANALYSIS, table, context, options, [*offset_notes(known_clocks), *matching.notes])


def _why_unknown(matching: MatchedCalls, context: RunContext) -> list[Note]:
    """Notes on why no offset is known: there is only one clock, or the reasons that prevent matching."""
    ranks = matching.clocks.height
    if ranks > 1 and matching.clocks["part"].n_unique() == 1:
        files = {context.hosts[host].part for host in context.ranks["host"].to_list()}
        host = None if len(files) == 1 else machine_name(context.facts[min(files)])
        return [note("one_clock", ranks=ranks, machine=host), *matching.notes]
    return [*matching.notes, note("clocks_unknown", level="missing")]


def offset_notes(clocks: pl.DataFrame) -> list[Note]:
    """A note on the offsets applied to ranks; none where the trace's own clock is as good."""
    moved = clocks.filter(pl.col("applied") != 0)
    if moved.is_empty():
        return []
    low, high = (int(moved["applied"].sort()[place]) for place in (0, -1))
    left, drift = moved.select(pl.col("left").max(), pl.col("drift").abs().max()).row(0)
    large_drift = drift if drift > MIN_IMPROVEMENT * left else None
    return [
        note(
            "clocks_corrected", level="inferred", ranks=moved.height, low=low, high=high, exact=left, drift=large_drift
        ),
    ]


ANALYSIS = Analysis(
    name="clocks",
    title="Clocks",
    question="How far are the clocks of the ranks apart, and how exactly is that known?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
