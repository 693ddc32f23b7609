"""Device work that was launched inside the annotations of host threads.

Work counts for every annotation around its launch, once for each name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.hosts.operator_tree import CallTree, launching_operators, rows_of_ids
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import COMMUNICATION_KINDS, COPY_KINDS, device_work, parent_rows
from tracehound.analysis.timing.row_groups import category_codes, group_rows
from tracehound.numeric.intervals import Ints, Mask, covered_lengths, union
from tracehound.numeric.nesting import has_equal_ancestor, nearest_chosen_ancestor
from tracehound.numeric.self_time import self_intervals
from tracehound.numeric.trees import sum_groups

ANNOTATION_KINDS: Final = ("annotation", "step")
"""Kinds of events that are annotations."""

_MAX_OFFSET: Final = 1 << 61


def work_per_annotation(rank_trace: RankTrace, calls: CallTree) -> pl.DataFrame:
    """A row for each thread (`lane`) and annotation `name` in which work of the rank's device was launched.

    `device` is the sum of its lengths in the window, `launched` its count. `busy` is the time in which any of it ran
    and `exposed` the time in which communication among it ran while nothing on the device computed: both for the
    annotations of that name on all threads together, in the row of the first thread. Work counts for every annotation
    around its launch, at any time, once for each name; `event` and `start` are of the first of these annotations.
    """
    device = device_work(rank_trace, "launch", "external")
    low, high = (np.clip(device[side].to_numpy(), rank_trace.start, rank_trace.end) for side in ("start", "end"))
    call = rows_of_ids(calls, device["launch"])
    call = np.where(call >= 0, call, launching_operators(calls, device))
    owned = self_intervals(low, high, parent_rows(device))  # of nested HLO ops only the innermost runs
    instant = np.flatnonzero(
        device["start"].to_numpy() == device["end"].to_numpy()
    )  # zero-length work counts, and takes no time
    start, end, owner = (np.append(*each) for each in zip(owned, (low[instant], low[instant], instant), strict=True))
    is_first = np.zeros(len(owner), np.int64)
    is_first[group_rows(owner)[1]] = 1
    work_row, at = _annotations_around(calls, calls.events["kind"].is_in(ANNOTATION_KINDS).to_numpy(), call[owner])
    kinds = device["kind"].gather(owner)
    annotations = calls.events.select("lane", "start", event="id").gather(at)
    annotations = annotations.with_columns(
        pl.Series("device", (end - start)[work_row]), pl.Series("launched", is_first[work_row])
    )
    name, words = _number_names(calls.events["name"], at)
    busy = _union_per_name(name, start[work_row], end[work_row])
    computes = ~kinds.is_in([*COMMUNICATION_KINDS, *COPY_KINDS]).to_numpy()
    communication_rows = np.flatnonzero(kinds.is_in(COMMUNICATION_KINDS).to_numpy()[work_row])
    communicating = _union_per_name(
        name[communication_rows], start[work_row[communication_rows]], end[work_row[communication_rows]]
    )
    hidden = covered_lengths(union(start[computes], end[computes]), communicating.start, communicating.end)
    many, leads = len(words), pl.col("lane") == pl.col("lane").min().over("number")
    return (
        annotations.with_columns(pl.Series("number", name))
        .group_by("lane", "number")
        .agg(
            pl.col("device", "launched").sum(),
            pl.col("event", "start").min(),  # events of a lane are ordered by start and id
        )
        .sort("lane", "number")
        .with_columns(
            pl.lit(words).gather(pl.col("number")).alias("name"),
            _value_on_first_row("busy", sum_groups(busy.name, busy.length, many), leads),
            _value_on_first_row("exposed", sum_groups(communicating.name, communicating.length - hidden, many), leads),
        )
        .drop("number")
    )


def _number_names(names: pl.Series, at: Ints) -> tuple[Ints, pl.Series]:
    """The names of these rows as numbers, and the names in alphabetical order."""
    number, first = group_rows(category_codes(names.gather(at)))
    words = names.gather(at[first]).cast(pl.String)
    place = words.rank("ordinal").cast(pl.Int64).to_numpy() - 1
    return place[number], words.sort()


def _value_on_first_row(column: str, of_names: Ints, leads: pl.Expr) -> pl.Expr:
    """The value of a name on its first row; 0 on the others."""
    value = pl.lit(pl.Series(of_names)).gather(pl.col("number"))
    return pl.when(leads).then(value).otherwise(0).alias(column)


def _annotations_around(calls: CallTree, mark: Mask, call: Ints) -> tuple[Ints, Ints]:
    """Pairs of a piece of work and an annotation around its launch: of nested ones of one name the outermost."""
    above = nearest_chosen_ancestor(calls.parent, mark)
    outer = np.append(above, -1)[calls.parent]
    repeated = has_equal_ancestor(outer, mark, category_codes(calls.events["name"]))
    work_row, at = np.arange(len(call)), np.append(above, -1)[call]
    work_rows, annotation_rows = list[Ints](), list[Ints]()
    while len(work_row):
        on = at >= 0
        work_row, at = work_row[on], at[on]
        fresh = ~repeated[at]
        work_rows.append(work_row[fresh])
        annotation_rows.append(at[fresh])
        at = outer[at]
    none = np.empty(0, np.int64)
    return np.concatenate([none, *work_rows]), np.concatenate([none, *annotation_rows])


class _NameIntervals(NamedTuple):
    """Intervals per name, ps; those of one name do not overlap."""

    name: Ints
    start: Ints
    end: Ints

    @property
    def length(self) -> Ints:
        """The length of each interval."""
        return self.end - self.start


def _union_per_name(name: Ints, start: Ints, end: Ints) -> _NameIntervals:
    """Union of the intervals of each name; names are numbers from 0 on."""
    count = int(name.max(initial=-1)) + 1
    if not count:
        return _NameIntervals(name, start, end)
    low = int(start.min())
    width = int(end.max()) - low + 1
    if width * count > _MAX_OFFSET:
        order = np.argsort(name, kind="stable")
        rows = np.split(order, np.searchsorted(name[order], np.arange(1, count)))
        each = [union(start[mine], end[mine]) for mine in rows]
        of = np.repeat(np.arange(count), [len(one.start) for one in each])
        return _NameIntervals(of, *(np.concatenate([getattr(one, side) for one in each]) for side in ("start", "end")))
    shifted = union(start - low + name * width, end - low + name * width)  # each name has a range of its own
    of = shifted.start // width
    return _NameIntervals(of, shifted.start - of * width + low, shifted.end - of * width + low)
