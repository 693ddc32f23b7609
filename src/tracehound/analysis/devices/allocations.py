"""Memory events of a file: allocations and releases, levels of memory, calling operators, and memory blocks.

The base of `memory`, `memory_curve`, `memory_operators` and `memory_blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.hosts.operator_tree import CallTree, read_call_tree
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import concat_tables
from tracehound.formats.value_bounds import MAX_BYTES
from tracehound.model.facet_schemas import UNKNOWN_DEVICE
from tracehound.model.memory_devices import rank_memory_numbers
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Ints, LatestBegun


def empty_memory_table(everything: pl.DataFrame) -> pl.DataFrame:
    """The map's table without memory events; a column says that the file has some, outside the window."""
    return pl.DataFrame() if everything.is_empty() else pl.DataFrame(schema={_OUTSIDE_WINDOW: pl.Int64()})


_OUTSIDE_WINDOW: Final = "elsewhere"


def no_memory_events_note(context: RunContext, tables: Sequence[pl.DataFrame], *, held: bool = True) -> Note:
    """The reason why maps gave no memory events, and how to record them.

    `held`: events before the window would have been enough.
    """
    if any(_OUTSIDE_WINDOW in table.columns for table in tables):
        return note("held_memory_unknown", level="missing") if held else note("no_memory_events_in_window")
    return note("no_memory_events_in_xla_profile" if context.is_xla else "no_memory_events", level="missing")


LEVELS_DEFINITION: Final = """\
allocated is memory that the allocator holds for tensors, reserved is memory that it has taken from the device; both as
the profiler recorded them with every allocation (Total Allocated, Total Reserved). Files from before the end of 2021
have no totals: allocated is then the sum of allocations and frees since the recording began, which may be below 0.
Reserved memory that is not allocated is unused: cached or lost to fragmentation. A window begins with the memory held
at its start."""


def read_allocations(rank_trace: RankTrace) -> pl.DataFrame:
    """All memory events of the rank's file with a size, in the order of time.

    The columns of the facet `allocated`, the number of the `row`, `summed` (allocations less releases so far, by
    device), `level` (allocated, or the sum if the file has no totals) and `change` (bytes, negative for releases; 0 for
    memory that was there already). Sizes of 0 and events without a size are left out.
    """
    return allocations_of_facet(rank_trace.facet("allocated"))


def allocations_of_facet(facet: pl.LazyFrame) -> pl.DataFrame:
    """The table of `read_allocations`, from a facet `allocated`."""
    rows = collect_frame(facet.filter(pl.col("bytes").fill_null(0) != 0)).sort("time", "record")
    running_sum = pl.col("bytes").clip(-MAX_BYTES, MAX_BYTES).cum_sum().over("device")
    totals = pl.col("allocated").is_not_null().any().over("device")
    level = pl.when(totals).then(pl.col("allocated").forward_fill().over("device")).otherwise("summed")
    change = pl.when(pl.col("moved").fill_null(value=False)).then(0).otherwise("bytes")
    rows = rows.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    return rows.with_columns(running_sum.alias("summed"), change.alias("change")).with_columns(level.alias("level"))


def allocations_in_window(rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The memory events of the window."""
    return rows.filter(pl.col("time").is_between(rank_trace.start, rank_trace.end)) if rank_trace.windowed else rows


def with_levels_at_start(rows: pl.DataFrame, rank_trace: RankTrace, of: Sequence[str] = ("device",)) -> pl.DataFrame:
    """The memory events of the window, and the level of each device at its start.

    That is the last event before the window of each device (or of each combination of the columns `of`), without a
    change. `rows` are in the order of time.
    """
    rows = _with_initial_levels(rows) if "level" in rows.columns else rows
    if not rank_trace.windowed:
        return rows
    before = rows.filter(pl.col("time") < rank_trace.start).unique(of, keep="last", maintain_order=True)
    begins = {"time": rank_trace.start, "bytes": 0, "change": 0, "record": -1}
    carried = before.with_columns(
        pl.lit(value, rows.schema[name]).alias(name) for name, value in begins.items() if name in rows.columns
    )
    return pl.concat([carried, allocations_in_window(rows, rank_trace)])


def _with_initial_levels(rows: pl.DataFrame) -> pl.DataFrame:
    """The events and, for a device whose first event is a release, the higher level before it."""
    first = rows.unique("device", keep="first", maintain_order=True).filter(pl.col("change") < 0)
    initial_level = (pl.col("level") - pl.col("change")).alias("level")
    start = first.with_columns(initial_level, allocated=pl.when(pl.col("allocated").is_not_null()).then(initial_level))
    none = {"row": -1, "bytes": 0, "change": 0, "record": -1}
    start = start.with_columns(pl.lit(value, rows.schema[name]).alias(name) for name, value in none.items())
    return pl.concat([start.with_columns(address=pl.lit(None, rows.schema["address"])), rows])


def assign_devices_to_ranks(tables: Sequence[pl.DataFrame], context: RunContext) -> pl.DataFrame:
    """The rows of all ranks, of each device once: with its rank, else with the first rank of its file.

    `tables` have `rank` and `number` (of the device; that of the host is `HOST_DEVICE`). ROCm numbers devices in memory
    events in another way than in kernels: these belong to no rank, and so to the first. A file merged from several
    ranks' files has their memory as if it were that of one: it is assigned to the first.
    """
    rows = concat_tables(tables)
    if rows.is_empty():
        return rows
    file = pl.Series("file", [host.part for host in context.hosts], pl.Int64)
    ranks = context.ranks.select(
        pl.col("rank").cast(pl.Int64),
        rank_memory_numbers(pl.col("label"), pl.col("device")).fill_null(UNKNOWN_DEVICE).alias("own"),
        file=file.gather(context.ranks["host"]),
    ).with_columns(
        (pl.col("rank") == pl.col("rank").min().over("file")).alias("first"),
        (pl.col("rank") == pl.col("rank").min().over("file", "own")).alias("first with it"),
        pl.col("own").implode().over("file").alias("all own"),
    )
    joined = rows.join(ranks, on="rank", how="left", maintain_order="left")
    strange = ~pl.col("number").is_in(pl.col("all own"))
    own = pl.col("first with it") & (pl.col("number") == pl.col("own"))
    return joined.filter(own | (pl.col("first") & strange)).drop(set(ranks.columns) - {"rank"})


def bytes_held_throughout(rows: pl.DataFrame) -> int:
    """Bytes of one device that were there before the recording and are never released in it.

    `rows` are from `read_allocations`. The result is 0 if the file has no totals, which begin with the recording.
    """
    if rows.is_empty() or rows["allocated"][0] is None:
        return 0
    old = memory_blocks(rows).filter(pl.col("born").is_null())["bytes"].sum()
    return max(0, int(rows["allocated"][0] - rows["change"][0] - old))


def allocating_operators(rank_trace: RankTrace, rows: pl.DataFrame) -> tuple[CallTree, Ints]:
    """The call tree of the host, and for each memory event the row of the innermost operator on its thread then; -1.

    An operator runs at the instant of its end, too: if times are whole microseconds, many operators have no length.
    """
    calls = read_call_tree(rank_trace)
    operators = np.flatnonzero(calls.operator)
    lane, start = (calls.events[name].to_numpy()[operators] for name in ("lane", "start"))
    time, end = (
        rows["time"].to_numpy(),
        np.append(calls.events["end"].to_numpy(), _END_OF_TIME),
    )  # index -1: no operator
    begun = LatestBegun(lane, start).latest_index_at(_lanes_of_threads(rank_trace, rows["thread"]), time)
    at = np.append(operators, -1)[begun]
    caller = np.append(calls.caller, -1)
    while len(ended := np.flatnonzero(end[at] < time)):
        at[ended] = caller[at[ended]]
    return calls, at


def _lanes_of_threads(rank_trace: RankTrace, threads: pl.Series) -> Ints:
    """The host lane of each thread, -1 without one; of several lanes of one thread the one with most events."""
    lanes = rank_trace.lanes.filter(pl.col("rank").is_null()).sort("events", descending=True, maintain_order=True)
    numbers = lanes.select("lane", pl.col("thread").cast(pl.Int64, strict=False)).drop_nulls()
    known = dict(numbers.unique("thread", keep="first").select("thread", "lane").iter_rows())
    return threads.replace_strict(known, default=-1, return_dtype=pl.Int64).fill_null(-1).to_numpy()


def memory_blocks(rows: pl.DataFrame) -> pl.DataFrame:
    """Blocks of memory, from allocation to release.

    From the rows of `read_allocations` with an address: `device`, `address`, `bytes` (above 0), `born` and `died` (ps;
    null: before or after the recording), `given` (row of the allocation, else of the release), and the rows `since` and
    `until` which the block is held. A block is held until the next event at its address of the device, whatever that
    is: a new block cannot be allocated there while the old one is held.
    """
    ordered = rows.drop_nulls("address").sort("device", "address", "row")
    same = pl.struct("device", "address")
    ordered = ordered.with_columns(
        pl.col("row", "time").shift(-1).over(same).name.prefix("next "),
        pl.col("bytes", "row").shift(1).over(same).name.prefix("last "),
    )
    born = ordered.filter(pl.col("bytes") > 0).select(
        "device",
        "address",
        "bytes",
        pl.col("time").alias("born"),
        pl.col("next time").alias("died"),
        pl.col("row").alias("given"),
        pl.col("row").alias("since"),
        pl.col("next row").fill_null(_END_OF_TIME).alias("until"),
    )
    orphans = ordered.filter((pl.col("bytes") < 0) & ~(pl.col("last bytes") > 0).fill_null(value=False)).select(
        "device",
        "address",
        -pl.col("bytes"),
        pl.lit(None, pl.Int64).alias("born"),
        pl.col("time").alias("died"),
        pl.col("row").alias("given"),
        (pl.col("last row") + 1).fill_null(-1).alias("since"),
        pl.col("row").alias("until"),
    )
    return pl.concat([born, orphans])


def allocation_peaks(rows: pl.DataFrame) -> pl.DataFrame:
    """For each device the first event with the highest level: `device`, `row`, `at` (ps), `peak` (bytes)."""
    highest = pl.col("level").arg_max()
    return (
        rows.drop_nulls("level")
        .group_by("device", maintain_order=True)
        .agg(pl.col("row").get(highest), pl.col("time").get(highest).alias("at"), pl.col("level").max().alias("peak"))
    )


def is_block_held(row: pl.Expr) -> pl.Expr:
    """Condition: the block is held after an event, given by its row (several events may have the same time)."""
    return (pl.col("since") <= row) & (pl.col("until") > row)


_END_OF_TIME: Final = np.iinfo(np.int64).max
