"""How long the annotations and modules of a run are open in each step, and what they put on the device.

Owns which marks of two runs are the same: annotations of one name, without the number that counts them, and modules of
one class.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.hosts.launched import launched
from tracehound.analysis.result import Share
from tracehound.diff.shares import cut
from tracehound.diff.stretches import Stretches
from tracehound.formats.torch_names import MODULE
from tracehound.intervals import Ints
from tracehound.trace import collected

COUNTED: Final = r"(?:#\s*|\s+)\d+$"
"""The number behind a name that tells one round from the next: ``iteration 12``, ``batch#3``."""

INSTANCE: Final = r"_\d+$"
"""The number behind the class of a module: a model has many layers of a kind, and each is compared with all of them."""

HOST, DEVICE = "host", "device"


class Marks(NamedTuple):
    """When each mark is open: of nested ones of one name and thread the outermost."""

    names: pl.DataFrame
    """Topic (annotations, modules) and name of each mark."""
    mark: Ints
    lane: Ints
    start: Ints
    end: Ints


def marks(share: Share, when: Stretches) -> pl.DataFrame:
    """Of each mark the time that it is open on threads, and that of the work launched in it by when that runs.

    Both count in a stretch as far as they lie in it; count is how many begin there. Work is launched in a mark that is
    open on the thread of the launching call when the call begins. There is a row for each stretch and mark in it: step,
    topic, name, count and value (ps).
    """
    found = _found(share)
    at, stretch, start, end = cut(np.arange(len(found.mark)), found.start, found.end, when)
    on_host = pl.DataFrame(
        {"mark": found.mark[at], "step": when.number[stretch], "count": start == found.start[at], "value": end - start}
    )
    mark, low, high = _launched(share, found)
    at, stretch, start, end = cut(np.arange(len(mark)), low, high, when)
    on_device = pl.DataFrame(
        {"mark": mark[at], "step": when.number[stretch], "count": start == low[at], "value": end - start}
    )
    return pl.concat([_summed(found.names, on_host, HOST), _summed(found.names, on_device, DEVICE)])


def _summed(names: pl.DataFrame, rows: pl.DataFrame, where: str) -> pl.DataFrame:
    """The sums of each mark that has any time."""
    sums = rows.group_by("mark", "step").agg(pl.col("count").sum().cast(pl.Int64), pl.col("value").sum())
    timed = sums.filter(pl.col("value").sum().over("mark") > 0)
    name = pl.format("{}: {}", "name", pl.lit(where)).alias("name")
    return timed.join(names, on="mark").select("step", "topic", name, "count", "value")


def _found(share: Share) -> Marks:
    name = pl.col("name").cast(pl.String)
    module = (pl.col("kind") == "python") & name.str.starts_with(MODULE)
    events = collected(
        share.threads.filter((pl.col("kind") == "annotation") | module).select(
            "lane",
            "start",
            "end",
            pl.when(module).then(pl.lit("modules")).otherwise(pl.lit("annotations")).alias("topic"),
            pl.when(module)
            .then(name.str.strip_prefix(MODULE).str.replace(INSTANCE, ""))
            .otherwise(name.str.replace(COUNTED, ""))
            .alias("name"),
        )
    )
    names = events.select("topic", "name").unique().sort("topic", "name").with_row_index("mark")
    names = names.with_columns(pl.col("mark").cast(pl.Int64))
    open_ = _outermost(events.join(names, on=("topic", "name")))
    return Marks(names, *(open_[column].to_numpy() for column in ("mark", "lane", "start", "end")))


def _outermost(events: pl.DataFrame) -> pl.DataFrame:
    """The union of the events of each mark and lane."""
    rows = events.filter(pl.col("end") > pl.col("start")).sort("mark", "lane", "start")
    reach = pl.col("end").cum_max().shift(1).over("mark", "lane")
    fresh = reach.is_null() | (pl.col("start") > reach)
    numbered = rows.with_columns(fresh.cum_sum().alias("number"))
    return numbered.group_by("number").agg(pl.col("mark", "lane", "start").first(), pl.col("end").max())


def _launched(share: Share, found: Marks) -> tuple[Ints, Ints, Ints]:
    """Pairs of a mark and work that was launched in it: the mark, and when the work ran."""
    work = launched(share, share.device).work.sort("caller", "called")
    lane, called, start, end = (work[name].to_numpy() for name in ("caller", "called", "start", "end"))
    mark, row = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in np.unique(found.lane).tolist():
        mine = np.flatnonzero(found.lane == thread)
        first, last = (int(np.searchsorted(lane, thread, side)) for side in ("left", "right"))
        low, high = (np.searchsorted(called[first:last], times[mine]) for times in (found.start, found.end))
        many = high - low
        inside = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        mark.append(np.repeat(found.mark[mine], many))
        row.append(np.repeat(low, many) + inside + first)
    rows = np.concatenate(row)
    return np.concatenate(mark), start[rows], end[rows]
