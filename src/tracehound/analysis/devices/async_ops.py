"""Asynchronous HLO ops: the op that starts one, and the op that waits for its end.

Owns the joining of ``-start`` and ``-done`` ops of one core, and how long each is in flight and keeps the core. Knows
nothing of what they do meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.events.core_time import core_time
from tracehound.analysis.events.lane_rows import of_device
from tracehound.analysis.events.measured import measured
from tracehound.analysis.events.numbering import alike, earliest
from tracehound.analysis.events.own_clock import CLOCKED, has_clock
from tracehound.analysis.result import Share
from tracehound.formats.xla.copies import is_done, started_by
from tracehound.intervals import passed, union
from tracehound.lookup import rows_with
from tracehound.trace import collected

OPS: Final = ("id", "lane", "start", "end", "op", "kind", "parent")
"""The columns of events that joining needs."""


class Flights(NamedTuple):
    """What the cores of a rank do: all times on the device's own clock, if it has one.

    `anytime` has a row for each op, one for both ops of an asynchronous one: `id`, `op`, `kind`, `start`, `end` (not
    clipped), `paired`; also for those out of the window. `spent` has a row for each op that keeps a core: `id`, `op`
    (of both ops the starting one), `start`, `end`, `own` (its self time; null without such a clock). Both are in the
    order of ids, those of `anytime` that are `paired` before the others. `ops` are the ops of the trace that occur;
    `start` and `end` bound the time: from the first to the last op, or the window; ps.
    """

    anytime: pl.DataFrame
    spent: pl.DataFrame
    ops: pl.DataFrame
    start: int
    end: int

    @property
    def flights(self) -> pl.DataFrame:
        """Those of `anytime` of which a part lies in the window."""
        return self.anytime.filter((pl.col("start") < self.end) & (pl.col("end") > self.start))


def flights_of(share: Share) -> Flights | None:
    """The ops of a rank's cores; None where nothing keeps them busy but streams."""
    everything = ops_of(share, "self", *CLOCKED)
    if everything.is_empty():
        return None
    here = everything.filter((pl.col("start") < share.end) & (pl.col("end") > share.start))
    ops = share.ops.filter(pl.col("op").is_in(everything["op"].unique().implode()))
    execution = executions_of(share, everything["start"])
    low, high = core_time(everything, share)
    clocked = has_clock(everything)
    if clocked:
        everything = everything.with_columns(start="device_start", end="device_end")
    pairs = joined(everything, ops, execution).sort("id")
    ids = everything["id"].to_numpy()
    begun, ended = (rows_with(ids, pairs[name].to_numpy()) for name in ("id", "done"))
    single = ~everything["op"].is_in(waits(ops)["op"].implode()).fill_null(value=False).to_numpy()
    single[begun] = single[ended] = False
    lone = np.flatnonzero(single)
    alone = everything[lone]
    both = [pairs.with_columns(everything["kind"].gather(begun), paired=True), alone.with_columns(paired=False)]
    flights = pl.concat([each.select("id", "op", "kind", "start", "end", "paired") for each in both])
    keeping = everything.select("id", "start", "end")[np.concatenate([begun, ended, lone])]
    keeping = keeping.insert_column(1, pl.concat([pairs["op"], pairs["op"], alone["op"]])).sort("id")
    lengths = measured(here, share.start, share.end)
    row = rows_with(lengths["id"].to_numpy(), keeping["id"].to_numpy())
    own = lengths["own"].gather(row[row >= 0]) if clocked else pl.lit(None, pl.Int64)
    return Flights(flights, keeping.filter(row >= 0).with_columns(own.alias("own")), ops, low, high)


def exposed(spent: pl.DataFrame, low: int, high: int) -> tuple[int, int]:
    """The time that ops keep the cores, and the length of its union in these bounds; ps.

    `spent` are rows of `Flights.spent`. A core with a clock of its own does one op at a time, so that self times add
    up. Without one what overlaps counts once: PyTorch/XLA's devices on a CPU are drawn as one.
    """
    start, end = (spent[name].clip(low, high).to_numpy() for name in ("start", "end"))
    alone = union(start, end).length
    return alone if spent["own"].null_count() else int(spent["own"].sum()), alone


def kept(rows: pl.DataFrame, spent: pl.DataFrame, flight: int, waited: int, alone: int) -> dict[str, int]:
    """What ops in flight cost: `in_flight`, `exposed`, `hidden`, the `event` that kept the core `longest`; ps.

    `rows` (id, start, end) are in flight for `flight` in all, `spent` what keeps the core for them, `waited` and
    `alone` what `exposed` says of that. Where nothing keeps the core, the longest is that of the rows.
    """
    lasting = pl.col("end") - pl.col("start")
    cores = spent.select("id", pl.coalesce("own", lasting).alias("own"))
    longest = cores if cores.height else rows.select("id", lasting.alias("own"))
    event, length = longest.row(longest["own"].arg_max() or 0)
    return {
        "in_flight": flight,
        "exposed": waited,
        "hidden": max(flight - alone, 0),
        "event": event,
        "longest": length,
    }


def ops_of(share: Share, *more: str) -> pl.DataFrame:
    """The HLO ops that keep the rank's cores busy, whenever they ran, sorted by id: columns `OPS`, and those named.

    Empty on GPUs, whose streams keep them busy.
    """
    lanes = share.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "ops") & pl.col("work"))
    return collected(of_device(share, lanes["lane"].to_list()).select(*OPS, *more))


def executions_of(share: Share, instants: pl.Series) -> pl.Series:
    """For each instant the number of the module's execution that began last on the rank, 0 before the first."""
    lanes = share.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "modules"))
    runs = collected(of_device(share, lanes["lane"].head(1).to_list()).select("start"))
    return pl.Series(passed(runs["start"].to_numpy(), instants.to_numpy()))


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
    begun = known.filter(pl.col("op").is_in(pairs["started"].implode()))
    ended = known.join(pairs, on="op", maintain_order="left")
    both = (
        np.concatenate([begun[name].to_numpy(), ended[other].to_numpy()])
        for name, other in (("lane", "lane"), ("op", "started"), ("execution", "execution"))
    )
    group, _ = alike(*both)
    times = np.concatenate([begun["start"].to_numpy(), ended["start"].to_numpy()])
    first = earliest(group, np.argsort(times, kind="stable"), begun.height)  # starts go before ends of their instant
    last = np.flatnonzero(first >= 0)
    order = np.lexsort((first[last], times[first[last]]))
    first, last = first[last[order]], last[order]
    return begun.select("lane", "execution", "id", "op", "start", pl.col("end").alias("issued"))[first].hstack(
        ended.select(pl.col("id").alias("done"), pl.col("start").alias("waited"), "end")[last]
    )
