"""How long the annotations and modules of a run are open in each step, and what they put on the device.

Owns which marks of two runs are the same: annotations of one name, without the number that counts them, and modules of
one class.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.launched import launched
from tracehound.analysis.result import Share
from tracehound.diff.shares import cut
from tracehound.diff.stretches import Stretches
from tracehound.formats.torch_names import MODULE
from tracehound.intervals import Ints, union
from tracehound.trace import collected

COUNTED: Final = r"(?:#\s*|\s+)\d+$"
"""The number behind a name that tells one round from the next: ``iteration 12``, ``batch#3``."""

INSTANCE: Final = r"_\d+$"
"""The number behind the class of a module: a model has many layers of a kind, and each is compared with all of them."""

HOST, DEVICE = "host", "device"


class Marks(NamedTuple):
    """When each mark is open: of nested ones of one name and thread the outermost."""

    names: tuple[tuple[str, str], ...]
    """Topic (annotations, modules) and name of each mark."""
    mark: Ints
    lane: Ints
    start: Ints
    end: Ints


class Measured(NamedTuple):
    """What is known of a mark: how many begin in each stretch, and for how long they are there (ps)."""

    topic: str
    name: str
    began: Ints
    time: Ints


def marks(share: Share, when: Stretches) -> Iterator[Measured]:
    """Of each mark the time that it is open on threads, and that of the work launched in it by when that runs.

    Both count in a stretch as far as they lie in it; count is how many begin there. Work is launched in a mark that is
    open on the thread of the launching call when the call begins.
    """
    found = _found(share)
    size, here = len(when.start), np.arange(len(found.mark))
    at, stretch, start, end = cut(here, found.start, found.end, when)
    began = start == found.start[at]
    yield from _added(found, HOST, found.mark[at], stretch, end - start, began, size)
    mark, low, high = _launched(share, found)
    at, stretch, start, end = cut(np.arange(len(mark)), low, high, when)
    yield from _added(found, DEVICE, mark[at], stretch, end - start, start == low[at], size)


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
    names = events.select("topic", "name").unique().sort("topic", "name")
    places = events.join(names.with_row_index("mark"), on=("topic", "name"), how="left", maintain_order="left")
    none = np.empty(0, np.int64)
    columns: list[tuple[Ints, ...]] = [(none, none, none, none)]
    for (mark, lane), mine in places.partition_by("mark", "lane", as_dict=True).items():
        open_ = union(mine["start"].to_numpy(), mine["end"].to_numpy())
        columns.append((*(np.full(len(open_.start), key, np.int64) for key in (mark, lane)), *open_))
    return Marks(tuple(names.rows()), *(np.concatenate(column) for column in zip(*columns, strict=True)))


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


def _added(
    found: Marks, where: str, mark: Ints, stretch: Ints, time: Ints, began: np.ndarray, size: int
) -> Iterator[Measured]:
    """The sums of each mark that has any."""
    place = mark * size + stretch
    cells = len(found.names) * size
    count = np.bincount(place[began], minlength=cells).reshape(-1, size) if cells else np.empty((0, size), np.int64)
    total = np.bincount(place, time, minlength=cells).reshape(-1, size) if cells else np.empty((0, size))
    for number, (topic, name) in enumerate(found.names):
        if total[number].any():
            yield Measured(topic, f"{name}: {where}", count[number], np.rint(total[number]).astype(np.int64))
