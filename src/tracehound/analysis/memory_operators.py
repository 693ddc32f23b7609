"""Which operators allocate memory, and what stays of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.allocations import (
    HOST,
    allocations,
    callers,
    inside,
    named,
    nowhere,
    of_ranks,
    unrecorded,
)
from tracehound.analysis.events.numbering import alike, codes, most
from tracehound.analysis.hosts.operator_tree import Tree
from tracehound.analysis.members import grouped
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.forest import Forest
from tracehound.intervals import Ints, Mask
from tracehound.nesting import again
from tracehound.sums import summed

DEFINITION = """\
A memory event belongs to the innermost operator that runs on its thread at its time, or ends just then. self size
increase = what was given less what was taken back in the operator itself; self allocation size and self allocations =
what was given there, and how often. size increase, allocation size and allocations are those of the operator with all
that it calls; of an operator inside another of its name each event counts once. count = executions in which there was
such an event. A row for each device, whose memory it is.

These are the definitions of the PyTorch TensorBoard plugin, but that it counts what is inside two operators of one name
twice, and gives sizes in KB."""

COLUMNS: Final = (
    Column("operator", "text", "operator; – for what no operator allocated"),
    Column("rank", "count", "rank"),
    Column("device", "text", "whose memory"),
    Column("count", "count", "executions with memory events"),
    Column("size_increase", "bytes", "what was given less what was taken back, with all that it calls", brief=False),
    Column("self_size_increase", "bytes", "the same, in the operator itself", brief=False),
    Column("allocations", "count", "times that memory was given, with all that it calls"),
    Column("self_allocations", "count", "the same, in the operator itself", brief=False),
    Column("allocation_size", "bytes", "what was given, with all that it calls"),
    Column("self_allocation_size", "bytes", "the same, in the operator itself"),
    Column("event", "id", "the execution that was given most"),
)

_SUMS: Final = ("size_increase", "allocations", "allocation_size")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each operator and device; bytes."""
    everything = allocations(share)
    rows = inside(everything, share)
    if rows.is_empty():
        return nowhere(everything)
    calls, innermost = callers(share, rows)
    change, device = rows["change"].to_numpy(), rows["device"].to_numpy()
    values = {
        "size_increase": change,
        "allocations": (change > 0).astype(np.int64),
        "allocation_size": np.maximum(change, 0),
    }
    number, _ = alike(codes(calls.events["name"]))
    caller = calls.caller
    repeated = again(caller, calls.operator, number)
    found = list[pl.DataFrame]()
    for each in np.unique(device).tolist():
        mine = np.flatnonzero(device == each)
        of_device = {name: amount[mine] for name, amount in values.items()}
        table = _of_operators(calls, caller, innermost[mine], of_device, number, repeated, options)
        alone = {name: amount[innermost[mine] < 0] for name, amount in of_device.items()}
        found += [part.with_columns(pl.lit(each, pl.Int64).alias("number")) for part in (table, _of_none(alone))]
    return pl.concat(found, how="diagonal_relaxed").with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))


def _of_operators(
    calls: Tree,
    caller: Ints,
    innermost: Ints,
    values: Mapping[str, Ints],
    number: Ints,
    repeated: Mask,
    options: Options,
) -> pl.DataFrame:
    """A row for each name of operators around memory events, of which `innermost` has the rows of the innermost.

    `number` has one for the name of each event of the host, and `repeated` says which are inside another of their name.
    """
    every = len(caller)
    own = {name: summed(innermost, amount, every) for name, amount in values.items()}
    calling = Forest(caller)
    below = {name: calling.summed(amount) for name, amount in own.items()}
    within = calling.summed(summed(innermost, np.ones(len(innermost), np.int64), every)) > 0
    group = np.where(within, number, -1)
    outer = np.where(repeated, -1, group)
    many = int(number.max(initial=-1)) + 1
    largest = most(group, below["allocation_size"], within.astype(np.int64), many)
    there = np.flatnonzero(largest >= 0)
    members = grouped(options, group, calls.events["id"], many)
    return pl.DataFrame(
        {
            "operator": calls.events["name"].gather(largest[there]).cast(pl.String),
            "count": summed(group, within.astype(np.int64), many)[there],
            "event": calls.events["id"].gather(largest[there]),
            **{name: summed(outer, amount, many)[there] for name, amount in below.items()},
            **{f"self_{name}": summed(group, amount, many)[there] for name, amount in own.items()},
            **{name: each.gather(there) for name, each in members.items()},
        }
    )


def _of_none(values: Mapping[str, Ints]) -> pl.DataFrame:
    """A row for the memory events that no operator is around, if there are any."""
    sums = {name: int(amount.sum()) for name, amount in values.items()}
    whose = {"operator": None, "count": 0, "event": None}
    row = {**whose, **sums, **{f"self_{name}": amount for name, amount in sums.items()}}
    numbers = dict.fromkeys(row, pl.Int64())
    return pl.DataFrame([row] if len(values[_SUMS[0]]) else [], {**numbers, "operator": pl.String()})


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The operators of all ranks, of devices first, those that were given most first."""
    rows = of_ranks(tables, scene)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, unrecorded(scene, tables, held=False))
    table = rows.with_columns(named(pl.col("number"))).sort(
        pl.col("number") == HOST,
        "self_allocation_size",
        "allocation_size",
        "operator",
        "rank",
        "number",
        descending=[False, True, True, False, False, False],
    )
    return answer(ANALYSIS, table, scene, options)


ANALYSIS = Analysis(
    name="memory_operators",
    title="Memory operators",
    question="Which operators allocate memory, how much, and what stays of it?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
)
