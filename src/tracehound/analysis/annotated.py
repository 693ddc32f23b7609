"""What was launched on a device inside the annotations of host threads.

Owns the attribution of work to every annotation around its launch, once for each name. Knows no table of a face.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.busy import COMMUNICATION, COPY, local_parent, work
from tracehound.analysis.operator_tree import Tree, launchers, rows_of
from tracehound.analysis.result import Share
from tracehound.intervals import Ints, Mask, covered, union
from tracehound.nesting import nearest, own_stretches

MARKS: Final = ("annotation", "step")
"""The kinds of events that are annotations."""

_MOST: Final = 1 << 61


def launched_inside(share: Share, calls: Tree) -> pl.DataFrame:
    """A row for each thread (`lane`) and `name` of annotations in which work of the share's device was launched.

    `device` is the sum of its lengths in the window, `busy` when any of it ran, `exposed` the time of communication
    among it while nothing on the device computed, `launched` how much there is. Work counts for every annotation around
    its launch, once for each name, whenever that was; `event` and `start` are of the first of these annotations.
    """
    device = work(share, "launch", "external")
    low, high = (np.clip(device[side].to_numpy(), share.start, share.end) for side in ("start", "end"))
    call = rows_of(calls, device["launch"])
    call = np.where(call >= 0, call, launchers(calls, device))
    owned = own_stretches(low, high, local_parent(device))  # of nested HLO ops the innermost runs
    instant = np.flatnonzero(device["start"].to_numpy() == device["end"].to_numpy())  # counts, and takes no time
    start, end, owner = (np.append(*each) for each in zip(owned, (low[instant], low[instant], instant), strict=True))
    first = np.zeros(len(owner), np.int64)
    first[np.unique(owner, return_index=True)[1]] = 1
    piece, at = _around(calls, calls.events["kind"].is_in(MARKS).to_numpy(), call[owner])
    kinds = device["kind"].cast(pl.String).gather(owner)
    told = calls.events.select("lane", pl.col("name").cast(pl.String), "start", event="id").gather(at)
    place = told.select(pl.struct("lane", "name").rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    computes = ~kinds.is_in([*COMMUNICATION, *COPY]).to_numpy()
    alone = _alone(start, end, computes, kinds.is_in(COMMUNICATION).to_numpy())
    return (
        told.with_columns(
            pl.Series("place", place),
            pl.Series("device", (end - start)[piece]),
            pl.Series("exposed", alone[piece]),
            pl.Series("launched", first[piece]),
        )
        .group_by("place")
        .agg(
            pl.col("lane", "name").first(),
            pl.col("device", "exposed", "launched").sum(),
            pl.col("event").sort_by("start", "event").first(),
            pl.col("start").min(),
        )
        .sort("place")
        .with_columns(pl.Series("busy", _busy(place, start[piece], end[piece])))
        .drop("place")
    )


def _around(calls: Tree, mark: Mask, call: Ints) -> tuple[Ints, Ints]:
    """Pairs of a piece of work and an annotation around its launch: of nested ones of one name the outermost."""
    above = nearest(calls.parent, mark)
    outer = np.append(above, -1)[calls.parent]
    name = calls.events["name"].to_physical().to_numpy()
    again = _again(mark, outer, name)
    piece, at = np.arange(len(call)), np.append(above, -1)[call]
    pieces, ats = list[Ints](), list[Ints]()
    while len(piece):
        on = at >= 0
        piece, at = piece[on], at[on]
        pieces.append(piece[~again[at]])
        ats.append(at[~again[at]])
        at = outer[at]
    none = np.empty(0, np.int64)
    return np.concatenate([none, *pieces]), np.concatenate([none, *ats])


def _again(mark: Mask, outer: Ints, name: Ints) -> Mask:
    """Which annotations lie in one of the same name."""
    again = np.zeros(len(mark), np.bool_)
    rows = np.flatnonzero(mark & (outer >= 0))
    at = outer[rows]
    while len(rows):
        again[rows[name[at] == name[rows]]] = True
        at = outer[at]
        on = (at >= 0) & ~again[rows]
        rows, at = rows[on], at[on]
    return again


def _alone(start: Ints, end: Ints, computes: Mask, communicates: Mask) -> Ints:
    """Of each piece of communication the time in which nothing computes; 0 of all else."""
    busy = union(start[computes], end[computes])
    return np.where(communicates, end - start - covered(busy, start, end), 0)


def _busy(place: Ints, start: Ints, end: Ints) -> Ints:
    """For each place the time in which any of its pieces runs."""
    count = int(place.max(initial=-1)) + 1
    if not count:
        return np.empty(0, np.int64)
    low = int(start.min())
    width = int(end.max()) - low + 1
    if width * count > _MOST:
        order = np.argsort(place, kind="stable")
        each = np.split(order, np.searchsorted(place[order], np.arange(1, count)))
        return np.array([union(start[rows], end[rows]).length for rows in each], np.int64)
    beside = union(start - low + place * width, end - low + place * width)  # each place has a stretch of its own
    length = np.zeros(count, np.int64)
    np.add.at(length, beside.start // width, beside.end - beside.start)
    return length
