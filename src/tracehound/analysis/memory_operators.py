"""Memory allocated by operators, and what remains of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.allocations import (
    allocating_operators,
    allocations_in_window,
    assign_devices_to_ranks,
    empty_memory_table,
    no_memory_events_note,
    read_allocations,
)
from tracehound.analysis.hosts.operator_tree import CallTree
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    counted_events_per_group,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.row_groups import category_codes, group_rows, largest_row_per_group
from tracehound.model.memory_devices import HOST_DEVICE, memory_device_name
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import has_equal_ancestor
from tracehound.numeric.trees import Trees, sum_groups

DEFINITION = """\
A memory event belongs to the innermost operator that runs on its thread at its time, or ends just then. self size
increase = allocations - frees in the operator itself; self allocation size and self allocations = bytes and number of
its allocations. size increase, allocation size and allocations are those of the operator with everything that it
calls; in an operator nested in another of its name each event counts once. count = executions with such an event.
There is a row for each device that owns the memory.

These are the definitions of the PyTorch TensorBoard plugin, except that it counts twice what is inside two operators
of one name, and gives sizes in KB."""

COLUMNS: Final = (
    Column("operator", "text", "operator; – for what no operator allocated"),
    Column("rank", "count", "rank"),
    Column("device", "text", "device that has the memory"),
    Column("count", "count", "executions with memory events"),
    Column("size_increase", "bytes", "allocated - freed bytes, including calls inside", brief=False),
    Column("self_size_increase", "bytes", "the same, for the operator itself", brief=False),
    Column("allocations", "count", "allocations, including calls inside"),
    Column("self_allocations", "count", "the same, for the operator itself", brief=False),
    Column("allocation_size", "bytes", "allocated bytes, including calls inside"),
    Column("self_allocation_size", "bytes", "the same, for the operator itself"),
    Column("event", "id", "the execution with the largest allocation"),
)

_SUM_COLUMNS: Final = ("size_increase", "allocations", "allocation_size")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each operator and device; bytes."""
    all_rows = read_allocations(rank_trace)
    rows = allocations_in_window(all_rows, rank_trace)
    if rows.is_empty():
        return empty_memory_table(all_rows)
    calls, innermost = allocating_operators(rank_trace, rows)
    change, device = rows["change"].to_numpy(), rows["device"].to_numpy()
    values = {
        "size_increase": change,
        "allocations": (change > 0).astype(np.int64),
        "allocation_size": np.maximum(change, 0),
    }
    number, _ = group_rows(category_codes(calls.events["name"]))
    caller = calls.caller
    is_recursive = has_equal_ancestor(caller, calls.operator, number)
    tables = list[pl.DataFrame]()
    for each in np.unique(device).tolist():
        device_rows = np.flatnonzero(device == each)
        of_device = {name: amount[device_rows] for name, amount in values.items()}
        table = _operator_rows(calls, caller, innermost[device_rows], of_device, number, is_recursive, options)
        without_operator = {name: amount[innermost[device_rows] < 0] for name, amount in of_device.items()}
        tables += [
            part.with_columns(pl.lit(each, pl.Int64).alias("number"))
            for part in (table, _row_without_operator(without_operator))
        ]
    return pl.concat(tables, how="diagonal_relaxed").with_columns(pl.lit(rank_trace.rank, pl.Int64).alias("rank"))


def _operator_rows(
    calls: CallTree,
    caller: Ints,
    innermost: Ints,
    values: Mapping[str, Ints],
    number: Ints,
    is_recursive: Mask,
    options: Options,
) -> pl.DataFrame:
    """A row for each name of operators around memory events; `innermost` has the row of the innermost operator.

    `number` numbers the name of each host event; `is_recursive` marks events inside another of their name.
    """
    event_count = len(caller)
    self_values = {name: sum_groups(innermost, amount, event_count) for name, amount in values.items()}
    calling = Trees(caller)
    total_values = {name: calling.subtree_sums(amount) for name, amount in self_values.items()}
    has_memory_events = calling.subtree_sums(sum_groups(innermost, np.ones(len(innermost), np.int64), event_count)) > 0
    group = np.where(has_memory_events, number, -1)
    outer = np.where(is_recursive, -1, group)
    group_count = int(number.max(initial=-1)) + 1
    largest = largest_row_per_group(
        group, total_values["allocation_size"], has_memory_events.astype(np.int64), group_count
    )
    used_groups = np.flatnonzero(largest >= 0)
    members = counted_events_per_group(options, group, calls.events["id"], group_count)
    return pl.DataFrame(
        {
            "operator": calls.events["name"].gather(largest[used_groups]).cast(pl.String),
            "count": sum_groups(group, has_memory_events.astype(np.int64), group_count)[used_groups],
            "event": calls.events["id"].gather(largest[used_groups]),
            **{name: sum_groups(outer, amount, group_count)[used_groups] for name, amount in total_values.items()},
            **{
                f"self_{name}": sum_groups(group, amount, group_count)[used_groups]
                for name, amount in self_values.items()
            },
            **{name: each.gather(used_groups) for name, each in members.items()},
        }
    )


def _row_without_operator(values: Mapping[str, Ints]) -> pl.DataFrame:
    """A row for the memory events outside of any operator, if there are any."""
    sums = {name: int(amount.sum()) for name, amount in values.items()}
    key_columns = {"operator": None, "count": 0, "event": None}
    row = {**key_columns, **sums, **{f"self_{name}": amount for name, amount in sums.items()}}
    numbers = dict.fromkeys(row, pl.Int64())
    return pl.DataFrame([row] if len(values[_SUM_COLUMNS[0]]) else [], {**numbers, "operator": pl.String()})


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The operators of all ranks, devices before the host, the largest allocation first."""
    rows = assign_devices_to_ranks(tables, context)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, no_memory_events_note(context, tables, held=False))
    table = rows.with_columns(memory_device_name(pl.col("number"))).sort(
        pl.col("number") == HOST_DEVICE,
        "self_allocation_size",
        "allocation_size",
        "operator",
        "rank",
        "number",
        descending=[False, True, True, False, False, False],
    )
    return make_result(ANALYSIS, table, context, options)


ANALYSIS = Analysis(
    name="memory_operators",
    title="Memory operators",
    question="Which operators allocate memory, how much, and what stays of it?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
)
