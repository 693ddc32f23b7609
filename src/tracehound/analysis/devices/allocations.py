"""What a file tells of memory: every piece that an allocator gave or took back, by which operator, and for how long.

Owns the levels of allocated and reserved memory, the operators around allocations, and the pairing of what is given
with what is taken back. The base of `memory`, `memory_curve`, `memory_operators` and `memory_blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.hosts.operator_tree import Tree, tree
from tracehound.analysis.result import Scene, Share, stacked
from tracehound.facets import UNTOLD
from tracehound.formats.sizes import MOST_BYTES
from tracehound.intervals import Ints, Latest
from tracehound.notes import Note, note
from tracehound.trace import collected

HOST: Final = -1
"""The device of the host's own memory."""


def nowhere(everything: pl.DataFrame) -> pl.DataFrame:
    """What a map gives without a memory event: a column tells that the file has some, out of the window."""
    return pl.DataFrame() if everything.is_empty() else pl.DataFrame(schema={_ELSEWHERE: pl.Int64()})


_ELSEWHERE: Final = "elsewhere"


def unrecorded(scene: Scene, tables: Sequence[pl.DataFrame], *, held: bool = True) -> Note:
    """Why maps gave no memory events, and what would record them; `held`: those before the window would have done."""
    if any(_ELSEWHERE in table.columns for table in tables):
        return note("held_memory_unknown", level="missing") if held else note("no_memory_events_in_window")
    return note("no_memory_events_in_xla_profile" if scene.xla else "no_memory_events", level="missing")


LEVELS: Final = """\
allocated is what the allocator holds of tensors, reserved what it has taken from the device; both as the profiler
recorded them with every allocation (Total Allocated, Total Reserved). Files of before 2021's end tell no totals: there
allocated is the sum of what was given and taken back since the recording began, which may be below 0. Reserved memory
that is not allocated is unused: cached or lost in fragments. A window begins with what is held at its start."""


def allocations(share: Share) -> pl.DataFrame:
    """All memory events of the rank's file with a size, in the order of time.

    The columns of the facet `allocated`, the number of the `row`, `summed` (what was given less what was taken back so
    far, by device), `level` (allocated, or the sum where the file has no totals) and `change` (bytes, less than 0 where
    taken back; 0 of what was there already). Sizes of 0 and events without one are left out.
    """
    return numbered(share.facet("allocated"))


def numbered(facet: pl.LazyFrame) -> pl.DataFrame:
    """The `allocations` of a facet `allocated`."""
    rows = collected(facet.filter(pl.col("bytes").fill_null(0) != 0)).sort("time", "record")
    held = pl.col("bytes").clip(-MOST_BYTES, MOST_BYTES).cum_sum().over("device")
    totals = pl.col("allocated").is_not_null().any().over("device")
    level = pl.when(totals).then(pl.col("allocated").forward_fill().over("device")).otherwise("summed")
    change = pl.when(pl.col("moved").fill_null(value=False)).then(0).otherwise("bytes")
    rows = rows.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    return rows.with_columns(held.alias("summed"), change.alias("change")).with_columns(level.alias("level"))


def inside(rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    """Those of the window."""
    return rows.filter(pl.col("time").is_between(share.start, share.end)) if share.windowed else rows


def holding(rows: pl.DataFrame, share: Share, of: Sequence[str] = ("device",)) -> pl.DataFrame:
    """Those of the window, and as it begins what was held then: the last row before it of each, which gives nothing.

    `rows` are in the order of time.
    """
    rows = _from_the_start(rows) if "level" in rows.columns else rows
    if not share.windowed:
        return rows
    before = rows.filter(pl.col("time") < share.start).unique(of, keep="last", maintain_order=True)
    begins = {"time": share.start, "bytes": 0, "change": 0, "record": -1}
    carried = before.with_columns(
        pl.lit(value, rows.schema[name]).alias(name) for name, value in begins.items() if name in rows.columns
    )
    return pl.concat([carried, inside(rows, share)])


def _from_the_start(rows: pl.DataFrame) -> pl.DataFrame:
    """With what each device held before its first event, where that takes memory back: more than after it."""
    first = rows.unique("device", keep="first", maintain_order=True).filter(pl.col("change") < 0)
    held = (pl.col("level") - pl.col("change")).alias("level")
    start = first.with_columns(held, allocated=pl.when(pl.col("allocated").is_not_null()).then(held))
    none = {"row": -1, "bytes": 0, "change": 0, "record": -1}
    start = start.with_columns(pl.lit(value, rows.schema[name]).alias(name) for name, value in none.items())
    return pl.concat([start.with_columns(address=pl.lit(None, rows.schema["address"])), rows])


def named(device: pl.Expr) -> pl.Expr:
    """What people call a device of memory; of `UNTOLD` the file does not say which it is."""
    known = pl.when(device == HOST).then(pl.lit("CPU")).when(device == UNTOLD).then(pl.lit("unknown device"))
    return known.otherwise(pl.format("GPU {}", device)).alias("device")


def of_ranks(tables: Sequence[pl.DataFrame], scene: Scene) -> pl.DataFrame:
    """The rows of all ranks, of each device once: with its rank, else with the first of its file.

    `tables` have `rank` and `number` (of the device; the host's is `HOST`). ROCm's numbers of devices in memory events
    are others than those of kernels: they belong to no rank, and so to the first. A file that was merged of several
    ranks' tells their memory as if it were that of one: it is the first's.
    """
    rows = stacked(tables)
    if rows.is_empty():
        return rows
    file = pl.Series("file", [host.part for host in scene.hosts], pl.Int64)
    ranks = scene.ranks.select(
        pl.col("rank").cast(pl.Int64),
        pl.col("device").cast(pl.Int64).fill_null(UNTOLD).alias("own"),
        file=file.gather(scene.ranks["host"]),
    ).with_columns(
        (pl.col("rank") == pl.col("rank").min().over("file")).alias("first"),
        (pl.col("rank") == pl.col("rank").min().over("file", "own")).alias("first with it"),
        pl.col("own").implode().over("file").alias("all own"),
    )
    joined = rows.join(ranks, on="rank", how="left", maintain_order="left")
    strange = ~pl.col("number").is_in(pl.col("all own"))
    own = pl.col("first with it") & (pl.col("number") == pl.col("own"))
    return joined.filter(own | (pl.col("first") & strange)).drop(set(ranks.columns) - {"rank"})


def left_from_before(rows: pl.DataFrame) -> int:
    """How much of the `allocations` of one device was there before the recording and is never taken back in it; bytes.

    0 where the file has no totals: they begin with the recording.
    """
    if rows.is_empty() or rows["allocated"][0] is None:
        return 0
    old = blocks(rows).filter(pl.col("born").is_null())["bytes"].sum()
    return max(0, int(rows["allocated"][0] - rows["change"][0] - old))


def callers(share: Share, rows: pl.DataFrame) -> tuple[Tree, Ints]:
    """The operators of the host, and of each memory event the row of the innermost that ran on its thread then; -1.

    An operator runs at the instant of its end, too: where times are whole microseconds, many have no length.
    """
    calls = tree(share)
    operators = np.flatnonzero(calls.operator)
    lane, start = (calls.events[name].to_numpy()[operators] for name in ("lane", "start"))
    time, end = rows["time"].to_numpy(), np.append(calls.events["end"].to_numpy(), _EVER)  # of no operator, at -1
    begun = Latest(lane, start).at(_lanes(share, rows["thread"]), time)
    at = np.append(operators, -1)[begun]
    caller = np.append(calls.caller, -1)
    while len(ended := np.flatnonzero(end[at] < time)):
        at[ended] = caller[at[ended]]
    return calls, at


def _lanes(share: Share, threads: pl.Series) -> Ints:
    """The host lane of each thread, -1 without one; of several lanes of one thread the fullest."""
    lanes = share.lanes.filter(pl.col("rank").is_null()).sort("events", descending=True, maintain_order=True)
    numbers = lanes.select("lane", pl.col("thread").cast(pl.Int64, strict=False)).drop_nulls()
    known = dict(numbers.unique("thread", keep="first").select("thread", "lane").iter_rows())
    return threads.replace_strict(known, default=-1, return_dtype=pl.Int64).fill_null(-1).to_numpy()


def blocks(rows: pl.DataFrame) -> pl.DataFrame:
    """Pieces of memory, from when they were given to when they were taken back.

    Of the rows of `allocations` those with an address: `device`, `address`, `bytes` (above 0), `born` and `died` (ps;
    null: before or after the recording), `given` (row of the allocation, else of the release), and the rows `since` and
    `until` which it is held. What is given at an address is held until the next event at that address of the device,
    whichever it is: what is given there anew cannot be given while the old block is.
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
        pl.col("next row").fill_null(_EVER).alias("until"),
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


def peaks(rows: pl.DataFrame) -> pl.DataFrame:
    """Of each device the first event at which most is allocated: `device`, `row`, `at` (ps), `peak` (bytes)."""
    highest = pl.col("level").arg_max()
    return (
        rows.drop_nulls("level")
        .group_by("device", maintain_order=True)
        .agg(pl.col("row").get(highest), pl.col("time").get(highest).alias("at"), pl.col("level").max().alias("peak"))
    )


def alive(row: pl.Expr) -> pl.Expr:
    """Which blocks are held after an event, given by its row: times may be the same for several."""
    return (pl.col("since") <= row) & (pl.col("until") > row)


_EVER: Final = np.iinfo(np.int64).max
