"""Asynchronous HLO ops: the op that starts one, and the op that waits for its end.

Owns the joining of ``-start`` and ``-done`` ops of one core, and how long each is in flight and keeps the core. Knows
nothing of what they do meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.core_time import CLOCKED, core_time, on_own_clock
from tracehound.analysis.measured import measured
from tracehound.analysis.result import Share
from tracehound.formats.xla_copies import is_done, started_by
from tracehound.trace import collected

OPS: Final = ("id", "lane", "start", "end", "op", "kind", "parent")
"""The columns of events that joining needs."""


class Flights(NamedTuple):
    """What the cores of a rank do, as far as it lies in the window.

    `flights` has a row for each op, one for both ops of an asynchronous one: `id`, `op`, `kind`, `start`, `end` (not
    clipped), `paired`. `spent` has a row for each op that keeps a core: `id`, `op` (of both ops the starting one),
    `start`, `end` (on the trace's clock), `own` (its self time, on the device's own clock where there is one). `ops`
    are the ops of the trace that occur, `time` is the device's time; ps.
    """

    flights: pl.DataFrame
    spent: pl.DataFrame
    ops: pl.DataFrame
    time: int


def flights_of(share: Share) -> Flights | None:
    """The ops of a rank's cores; None where nothing keeps them busy but streams."""
    everything = ops_of(share, "self", *CLOCKED)
    if everything.is_empty():
        return None
    here = everything.filter((pl.col("start") < share.end) & (pl.col("end") > share.start))
    ops = share.ops.filter(pl.col("op").is_in(everything["op"].unique().implode()))
    pairs = joined(everything, ops, executions_of(share, everything["start"]))
    paired = pl.concat([pairs["id"], pairs["done"]]).implode()
    waiting = waits(ops)["op"].implode()
    alone = everything.filter(~pl.col("id").is_in(paired) & ~pl.col("op").is_in(waiting).fill_null(value=False))
    kinds = everything.select("id", "kind")
    both = [pairs.join(kinds, on="id").with_columns(paired=True), alone.with_columns(paired=False)]
    flights = pl.concat([each.select("id", "op", "kind", "start", "end", "paired") for each in both])
    keeping = [pairs.select("id", "op"), pairs.select(pl.col("done").alias("id"), "op"), alone.select("id", "op")]
    lengths = measured(here, share.start, share.end).select("id", "start", "end", "own")
    return Flights(
        flights.filter((pl.col("start") < share.end) & (pl.col("end") > share.start)),
        pl.concat(keeping).join(lengths, on="id"),
        ops,
        core_time(on_own_clock(here, share), share)[0],
    )


def ops_of(share: Share, *more: str) -> pl.DataFrame:
    """The HLO ops that keep the rank's cores busy, whenever they ran, sorted by id: columns `OPS`, and those named.

    Empty on GPUs, whose streams keep them busy.
    """
    lanes = share.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "ops") & pl.col("work"))
    rows = share.anytime.filter(pl.col("lane").is_in(lanes["lane"].to_list()))
    return collected(rows.select(*OPS, *more))


def executions_of(share: Share, instants: pl.Series) -> pl.Series:
    """For each instant the number of the module's execution that began last on the rank, 0 before the first."""
    lanes = share.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "modules"))
    runs = collected(share.anytime.filter(pl.col("lane").is_in(lanes["lane"].head(1).to_list())).select("start"))
    return pl.Series(np.searchsorted(runs["start"].to_numpy(), instants.to_numpy(), side="right"))


def waits(ops: pl.DataFrame) -> pl.DataFrame:
    """`op` of every op that waits for the end of another, and that one's (`started`). `ops` is a frame of the trace's.

    They are of one program, and the waiting op names the other: as its operand, or, where the file has no HLO line, by
    a like name.
    """
    telling = pl.col("text").fill_null("").str.contains(r"-done\(") | pl.col("name").str.contains("-done", literal=True)
    likely = ops.filter(telling).select("op", "name", "category", "module", "program", "text")
    told = [
        (op, module, program, started_by(name, text or ""))
        for op, name, category, module, program, text in likely.iter_rows()
        if is_done(category or name.partition(".")[0], text or "")
    ]
    waiting = pl.DataFrame(
        told, schema={"op": pl.Int64, "module": pl.String, "program": pl.Int64, "name": pl.String}, orient="row"
    )
    named = ops.select(pl.col("op").alias("started"), "module", "program", "name").unique(
        ["module", "program", "name"], keep="first", maintain_order=True
    )
    return waiting.join(named, on=["module", "program", "name"], nulls_equal=True).select("op", "started")


def joined(events: pl.DataFrame, ops: pl.DataFrame, execution: pl.Series) -> pl.DataFrame:
    """One row for each asynchronous op, sorted by `start`.

    `events` (sorted by id) are ops of the rank's cores, `execution` the number of the execution that each is of. `op`
    and `id` are the starting op's, `start` and `issued` its bounds, `waited` and `end` those of the op that waits
    (whose id is `done`). Of several that one op has started on one lane in one execution, the first to start ends
    first. What the edge of the profile cut in two has no row. Where a TPU's clock was set anew, ops of some time lie at
    one instant: a start goes before the end of anything else there.
    """
    pairs = waits(ops.filter(pl.col("op").is_in(events["op"].unique().implode())))
    known = events.select("id", "lane", "start", "end", "op").with_columns(execution.alias("execution"))
    begun = known.filter(pl.col("op").is_in(pairs["started"].implode())).with_columns(
        pl.col("op").alias("started"), pl.lit(1).alias("change")
    )
    ended = known.join(pairs, on="op").with_columns(pl.lit(-1).alias("change"))
    key = ["lane", "started", "execution"]
    both = pl.concat(
        [
            begun.select(*key, "id", "start", "end", "op", "change"),
            ended.select(*key, "id", "start", "end", "op", "change"),
        ]
    )
    lowest = pl.col("change").cum_sum().over(key).clip(upper_bound=0).cum_min().over(key)
    turns = both.sort("start", "change", "id", descending=[False, True, False]).with_columns(lowest.alias("lowest"))
    orphan = pl.col("lowest") < pl.col("lowest").shift(1).over(key).fill_null(
        0
    )  # it ends what began before the profile
    numbered = turns.filter(~orphan).with_columns(pl.col("id").cum_count().over(*key, "change").alias("turn"))
    first = numbered.filter(change=1).select(*key, "turn", "id", "op", "start", pl.col("end").alias("issued"))
    last = numbered.filter(change=-1).select(
        *key, "turn", pl.col("id").alias("done"), pl.col("start").alias("waited"), "end"
    )
    return first.join(last, on=[*key, "turn"]).drop("started", "turn").sort("start", "id")
