"""The executions of HLO ops: what one rank did with each, and that over all ranks.

Owns what an execution is and how long one lasts, also of an op that begins and ends in two halves. The base of
`hlo_ops` and `roofline`; what ops cost is `hlo.costs`', how they are grouped `hlo.groups`'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.devices.async_ops import executions_of, joined
from tracehound.analysis.events.core_time import core_time, rest_time
from tracehound.analysis.events.lane_rows import of_device
from tracehound.analysis.events.measured import LENGTH, measured
from tracehound.analysis.events.own_clock import CLOCKED, has_clock
from tracehound.analysis.hlo.command_buffers import buffered
from tracehound.analysis.members import JOINED, gathered
from tracehound.analysis.result import Options, Share
from tracehound.intervals import union
from tracehound.lookup import rows_with
from tracehound.trace import OPS, collected

KEY: Final = ("name", "category", "module", "program")
"""What tells ops apart over all ranks."""

_SAID: Final = tuple(name for name in OPS if name not in ("op", "name", "category", "module", "program"))
"""What else is true of an op."""

_EVENTS: Final = (
    "id", "lane", "start", "end", "name", "kind", "op", "parent", "self", "device_start", "device_end",
)  # fmt: skip


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each op that ran, with what the file says of it, and on every row what is true of the rank.

    `count` is how often it ran, `kernels` in how many kernels (null where ops are not kernels), `runs` the count less
    what a window cut off; `self`, `total`, `min`, `max` are ps. `flight` is the sum of the times from the beginning of
    an asynchronous op to its end, on the row of the half that ends it, and `flights` how many those are, both less what
    a window cut off: where that half lies out of the window, its row counts no execution. A device that
    ran no op, but works at times, has one row of what is true of it.
    """
    lanes = share.lanes.filter(pl.col("rank").is_not_null())
    on_ops = lanes.filter(pl.col("role") == "ops")["lane"].to_list()
    events = collected(share.device.filter(pl.col("lane").is_in(on_ops)).select(*_EVENTS))
    of_rank = _of_rank(events, share)
    if events.is_empty():
        return pl.DataFrame([of_rank]) if of_rank["span"] else pl.DataFrame()
    rows = measured(events, share.start, share.end).with_columns(pl.Series("begins", _begins(events, share)))
    summed = rows.group_by("name", "op").agg(
        pl.col("kind").first().cast(pl.String),
        pl.col("begins").sum().cast(pl.Int64).alias("count"),
        pl.len().cast(pl.Int64).alias("kernels"),
        (pl.col("length").sum() / LENGTH.sum()).alias("part"),
        pl.col("own").sum().alias("self"),
        pl.col("length").sum().alias("total"),
        pl.col("length").min().alias("min"),
        pl.col("length").max().alias("max"),
        pl.col("id").get(pl.col("length").arg_max()).alias("event"),
        *gathered(options, pl.col("id").filter("begins")),
    )
    kernels = "stream" in lanes["role"].to_list()
    known = share.ops.drop("name").with_columns(pl.col("category").alias("said"))
    return (
        summed.join(
            _flights(events, share, on_ops), on=["name", "op"], how="full", coalesce=True, maintain_order="left_right"
        )
        .with_columns(
            pl.col("count", "kernels", "self", "total", "max").fill_null(0),
            pl.col("part").fill_null(1.0),
            pl.coalesce("kind", "waits").alias("kind"),
            pl.coalesce("event", "done").alias("event"),
        )
        .join(known, on="op", how="left", maintain_order="left")
        .with_columns(
            pl.col("name").cast(pl.String),
            pl.coalesce("said", "kind").alias("category"),
            (pl.col("count") * pl.col("part").fill_nan(1.0)).alias("runs"),
            pl.col("kernels") if kernels else pl.lit(None, pl.Int64).alias("kernels"),
            *(pl.lit(value, pl.Int64).alias(name) for name, value in of_rank.items()),
        )
        .drop("said", "part", "op", "waits", "done")
    )


def _begins(events: pl.DataFrame, share: Share) -> npt.NDArray[np.bool_]:
    """Which events begin an execution: all of them, but on GPUs the first of consecutive kernels of one op.

    Kernels are consecutive on their stream, within one execution of the module.
    """
    if "stream" not in share.lanes["role"].to_list():
        return np.ones(events.height, np.bool_)
    modules = share.lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_not_null())["lane"].to_list()
    starts = collected(share.device.filter(pl.col("lane").is_in(modules)).select("start")).to_series()
    return begins(events, starts)


def begins(events: pl.DataFrame, modules: pl.Series) -> npt.NDArray[np.bool_]:
    """Which kernels of a GPU begin an execution of their op: `events` are all of ops, with `lane`, `op` and `start`.

    They are sorted by lane and start; `modules` are the starts of its executions of modules, in any order.
    """
    starts = modules.sort().to_numpy()
    lane, op = events["lane"].to_numpy(), events["op"].fill_null(-1).to_numpy()
    run = np.searchsorted(starts, events["start"].to_numpy(), side="right")
    alike = (lane[1:] == lane[:-1]) & (op[1:] == op[:-1]) & (run[1:] == run[:-1])
    return np.append(True, ~alike)


def _flights(events: pl.DataFrame, share: Share, lanes: Sequence[int]) -> pl.DataFrame:
    """`name`, `op`, `flight` and `flights` of the ops that end what another began: their times from start to end.

    On the device's own clock where it has one. Of one that a window cuts the part inside counts, wherever its ends lie.
    `done` is an event of the op, and `waits` its kind.
    """
    if share.windowed:
        events = collected(of_device(share, lanes).select(*_EVENTS))
    ops = share.ops.filter(pl.col("op").is_in(events["op"].unique().implode()))
    execution = executions_of(share, events["start"])
    low, high = core_time(events, share)
    if has_clock(events):
        events = events.with_columns(start="device_start", end="device_end")
    pairs = joined(events, ops, execution).filter((pl.col("start") <= high) & (pl.col("end") >= low))
    whole, inside = pl.col("end") - pl.col("start"), pl.col("end").clip(low, high) - pl.col("start").clip(low, high)
    ended = pairs.select(
        pl.col("done"),
        inside.alias("flight"),
        pl.when(whole > 0).then(inside / whole).otherwise(1.0).alias("flights"),
    )
    ending = events.select("name", "op", "kind")[rows_with(events["id"].to_numpy(), pairs["done"].to_numpy())]
    return (
        ended.hstack(ending)
        .group_by("name", "op", maintain_order=True)
        .agg(
            pl.col("flight", "flights").sum(),
            pl.col("done").min(),
            pl.col("kind").first().cast(pl.String).alias("waits"),
        )
    )


def _of_rank(events: pl.DataFrame, share: Share) -> dict[str, int]:
    """What is true of the rank: `span`, its time from the first work to the last, and for how much of it what runs.

    The time is that on the device's own clock where ops have one, of a window too. In `used` of it an op runs, in
    `busy` anything. `stream_time` is the sum of all kernels on its streams; `unnamed` of them name no op, and ran for
    `unnamed_time`; `buffered`: perhaps because they ran in command buffers.
    """
    streams = share.lanes.filter((pl.col("role") == "stream") & pl.col("rank").is_not_null())["lane"].to_list()
    inside = pl.min_horizontal("end", pl.lit(share.end)) - pl.max_horizontal("start", pl.lit(share.start))
    kernel = pl.col("kind").is_in(["kernel", "collective"])
    loose = kernel & pl.col("op").is_null()
    ran = share.device.filter(pl.col("lane").is_in(streams)) if streams else share.device.clear()
    whole = collected(
        ran.select(
            (pl.col("end").max() - pl.col("start").min()).alias("span"),
            inside.filter(kernel).sum().alias("stream_time"),
            inside.filter(loose).sum().alias("unnamed_time"),
            loose.sum().cast(pl.Int64).alias("unnamed"),
        )
    )
    found = {name: int(value or 0) for name, value in whole.row(0, named=True).items()}
    low, high = core_time(events, share) if events.height else (share.start, share.end)
    sides = CLOCKED if has_clock(events) else ("start", "end")
    found["buffered"] = int(found["unnamed"] > 0 and buffered(share))
    found["used"] = found["busy"] = _running(events.select(*sides), low, high)
    if streams:
        found["busy"] = _running(collected(ran.select("start", "end")), share.start, share.end)
    if events.height and not found["span"]:
        found["span"] = high - low
    elif share.windowed:
        found["span"] = rest_time(share)
    return {"rank": share.rank, **found}


def _running(sides: pl.DataFrame, low: int, high: int) -> int:
    """For how long any of these runs between the two instants."""
    start, end = (side.clip(low, high).to_numpy() for side in sides.iter_columns())
    return union(start, end).length


def over_ranks(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """A row for each op over all ranks, in no order; `ranks` on how many it ran, `rank` the first of them."""
    rows = pl.concat([table for table in tables if "name" in table.columns], how="vertical_relaxed")
    return rows.group_by(KEY, maintain_order=True).agg(
        pl.col("kind", *_SAID).first(),
        pl.col("count", "runs", "self", "total").sum(),
        *(_sum(name) for name in ("kernels", "flight", "flights")),
        pl.col("min").min(),
        pl.col("event").sort_by("max", "rank", descending=[True, False]).first(),
        pl.col("max").max(),
        pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
        pl.col("rank").min(),
        JOINED,
    )


def _sum(name: str) -> pl.Expr:
    """The sum, null where all are."""
    return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)


def device_time(tables: Sequence[pl.DataFrame], of: str = "span") -> int:
    """The time of all ranks from the first work to the last, idle included, or in which ops, or anything, run; ps."""
    return sum(int(table[of][0]) for table in tables)


def unattributed(tables: Sequence[pl.DataFrame]) -> tuple[int, int, int]:
    """How many kernels name no op, how long those ran, and how long all kernels did; of all ranks."""
    firsts = [table.select("unnamed", "unnamed_time", "stream_time").row(0) for table in tables]
    return (sum(one[0] for one in firsts), sum(one[1] for one in firsts), sum(one[2] for one in firsts))
