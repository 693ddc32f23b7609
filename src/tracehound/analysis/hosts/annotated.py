"""What was launched on a device inside the annotations of host threads.

Owns the attribution of work to every annotation around its launch, once for each name. Knows no table of a face.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import COMMUNICATION, COPY, local_parent, work
from tracehound.analysis.events.numbering import alike, codes
from tracehound.analysis.hosts.operator_tree import Tree, launchers, rows_of
from tracehound.analysis.result import Share
from tracehound.intervals import Ints, Mask, covered, union
from tracehound.nesting import again, nearest
from tracehound.own_time import own_stretches
from tracehound.sums import summed

MARKS: Final = ("annotation", "step")
"""The kinds of events that are annotations."""

_MOST: Final = 1 << 61


def launched_inside(share: Share, calls: Tree) -> pl.DataFrame:
    """A row for each thread (`lane`) and `name` of annotations in which work of the share's device was launched.

    `device` is the sum of its lengths in the window, `launched` how much there is. `busy` is when any of it ran and
    `exposed` when any communication among it did while nothing on the device computed: of all threads with annotations
    of that name together, which the first of them has. Work counts for every annotation around its launch, once for
    each name, whenever that was; `event` and `start` are of the first of these annotations.
    """
    device = work(share, "launch", "external")
    low, high = (np.clip(device[side].to_numpy(), share.start, share.end) for side in ("start", "end"))
    call = rows_of(calls, device["launch"])
    call = np.where(call >= 0, call, launchers(calls, device))
    owned = own_stretches(low, high, local_parent(device))  # of nested HLO ops the innermost runs
    instant = np.flatnonzero(device["start"].to_numpy() == device["end"].to_numpy())  # counts, and takes no time
    start, end, owner = (np.append(*each) for each in zip(owned, (low[instant], low[instant], instant), strict=True))
    first = np.zeros(len(owner), np.int64)
    first[alike(owner)[1]] = 1
    piece, at = _around(calls, calls.events["kind"].is_in(MARKS).to_numpy(), call[owner])
    kinds = device["kind"].gather(owner)
    told = calls.events.select("lane", "start", event="id").gather(at)
    told = told.with_columns(pl.Series("device", (end - start)[piece]), pl.Series("launched", first[piece]))
    name, words = _named(calls.events["name"], at)
    busy = _united(name, start[piece], end[piece])
    computes = ~kinds.is_in([*COMMUNICATION, *COPY]).to_numpy()
    told_of = np.flatnonzero(kinds.is_in(COMMUNICATION).to_numpy()[piece])
    communicating = _united(name[told_of], start[piece[told_of]], end[piece[told_of]])
    hidden = covered(union(start[computes], end[computes]), communicating.start, communicating.end)
    many, leads = len(words), pl.col("lane") == pl.col("lane").min().over("number")
    return (
        told.with_columns(pl.Series("number", name))
        .group_by("lane", "number")
        .agg(
            pl.col("device", "launched").sum(),
            pl.col("event", "start").min(),  # the events of a lane begin in the order of their ids
        )
        .sort("lane", "number")
        .with_columns(
            pl.lit(words).gather(pl.col("number")).alias("name"),
            _gathered("busy", summed(busy.name, busy.length, many), leads),
            _gathered("exposed", summed(communicating.name, communicating.length - hidden, many), leads),
        )
        .drop("number")
    )


def _named(names: pl.Series, at: Ints) -> tuple[Ints, pl.Series]:
    """The names of these rows as numbers, and what they are in words: in the order of the alphabet."""
    number, first = alike(codes(names.gather(at)))
    words = names.gather(at[first]).cast(pl.String)
    place = words.rank("ordinal").cast(pl.Int64).to_numpy() - 1
    return place[number], words.sort()


def _gathered(column: str, of_names: Ints, leads: pl.Expr) -> pl.Expr:
    """What names have, on the rows that lead; 0 on the others."""
    told = pl.lit(pl.Series(of_names)).gather(pl.col("number"))
    return pl.when(leads).then(told).otherwise(0).alias(column)


def _around(calls: Tree, mark: Mask, call: Ints) -> tuple[Ints, Ints]:
    """Pairs of a piece of work and an annotation around its launch: of nested ones of one name the outermost."""
    above = nearest(calls.parent, mark)
    outer = np.append(above, -1)[calls.parent]
    repeated = again(outer, mark, codes(calls.events["name"]))
    piece, at = np.arange(len(call)), np.append(above, -1)[call]
    pieces, ats = list[Ints](), list[Ints]()
    while len(piece):
        on = at >= 0
        piece, at = piece[on], at[on]
        fresh = ~repeated[at]
        pieces.append(piece[fresh])
        ats.append(at[fresh])
        at = outer[at]
    none = np.empty(0, np.int64)
    return np.concatenate([none, *pieces]), np.concatenate([none, *ats])


class _United(NamedTuple):
    """Stretches of time in which something of a name runs, ps; those of one name overlap nowhere."""

    name: Ints
    start: Ints
    end: Ints

    @property
    def length(self) -> Ints:
        """How long each is."""
        return self.end - self.start


def _united(name: Ints, start: Ints, end: Ints) -> _United:
    """When any of the pieces of each name runs; names are numbers from 0 on."""
    count = int(name.max(initial=-1)) + 1
    if not count:
        return _United(name, start, end)
    low = int(start.min())
    width = int(end.max()) - low + 1
    if width * count > _MOST:
        order = np.argsort(name, kind="stable")
        rows = np.split(order, np.searchsorted(name[order], np.arange(1, count)))
        each = [union(start[mine], end[mine]) for mine in rows]
        of = np.repeat(np.arange(count), [len(one.start) for one in each])
        return _United(of, *(np.concatenate([getattr(one, side) for one in each]) for side in ("start", "end")))
    beside = union(start - low + name * width, end - low + name * width)  # each name has a stretch of its own
    of = beside.start // width
    return _United(of, beside.start - of * width + low, beside.end - of * width + low)
