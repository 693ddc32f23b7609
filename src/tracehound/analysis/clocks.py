"""How far the clocks of the ranks are apart, and how exactly their collectives tell."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.ranks.calls import calls
from tracehound.analysis.ranks.machines import machine
from tracehound.analysis.ranks.matched import Matched, matched
from tracehound.analysis.ranks.offsets import BETTER, FEWEST
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.notes import Note, note

DEFINITION = f"""\
Nobody leaves an all-reduce, all-gather, reduce-scatter, all-to-all or barrier before everybody has come, so that it
ends for all ranks at one moment, but for what the last bytes take. shift is what must be added to the times of a rank
so that its collectives end with those of the first rank: the median over all collectives that were matched, of the
distance from the median end of all ranks. Ranks of one file share its clock, and so do processes of one machine, by
the name that PyTorch records, whose ranks have no device, or whose collectives are matched by their order alone: times
on the host are the machine's, those of its devices differ by microseconds, and order may take one collective for the
next. own = median distance of the ends from those of the others on the trace's own clock, exact = the same after the
offset: how exact it is. drift = how much the distance grows from the first third of the collectives to the last: the
clocks run at different rates, or are set.

A shift is applied, in collectives, arrivals, stragglers and wherever ranks are compared, where the ends agree
{BETTER} times better with it, by 1 ns or more, and {FEWEST} collectives or more tell of it; else the trace's own clock
is at least as good. --align collectives applies every shift to the timeline and to all tables."""

COLUMNS = (
    Column("rank", "number", "rank"),
    Column("shift", "difference", "to be added to its times, against the first rank"),
    Column("applied", "flag", "it is, where ranks are compared"),
    Column("exact", "time", "median distance of its ends with the shift: how exact it is"),
    Column("own", "time", "median distance of its ends on the trace's own clock"),
    Column("drift", "difference", "growth of the distance from the first to the last third"),
    Column("matched", "count", "collectives that tell of it"),
    Column("host", "text", "machine or process"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return calls(share)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per rank."""
    found = matched(tables, scene)
    told = found.clocks.filter(pl.col("matched") > 0)
    if told.is_empty():
        return without(ANALYSIS, scene, options, *_untold(found, scene))
    hosts = {rank: scene.hosts[host].name for rank, host in scene.ranks.select("rank", "host").iter_rows()}
    table = told.sort("rank").with_columns(
        (pl.col("applied") != 0).alias("applied"),
        pl.col("left").alias("exact"),
        pl.col("offset").alias("shift"),
        pl.col("rank").replace_strict(hosts, return_dtype=pl.String).alias("host"),
    )
    return answer(ANALYSIS, table, scene, options, [*offset_notes(told), *found.notes])


def _untold(found: Matched, scene: Scene) -> list[Note]:
    """Why nothing is known of the clocks: that there is but one, else what hinders the matching first."""
    ranks = found.clocks.height
    if ranks > 1 and found.clocks["part"].n_unique() == 1:
        files = {scene.hosts[host].part for host in scene.ranks["host"].to_list()}
        host = None if len(files) == 1 else machine(scene.facts[min(files)])
        return [note("one_clock", ranks=ranks, machine=host), *found.notes]
    return [*found.notes, note("clocks_unknown", level="missing")]


def offset_notes(clocks: pl.DataFrame) -> list[Note]:
    """What is applied to the times of ranks, in one line; nothing where the trace's own clock is as good."""
    moved = clocks.filter(pl.col("applied") != 0)
    if moved.is_empty():
        return []
    low, high = (int(moved["applied"].sort()[place]) for place in (0, -1))
    left, drift = moved.select(pl.col("left").max(), pl.col("drift").abs().max()).row(0)
    much = drift if drift > BETTER * left else None
    return [
        note("clocks_corrected", level="inferred", ranks=moved.height, low=low, high=high, exact=left, drift=much),
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
