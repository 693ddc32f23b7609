"""Groups of a device's work, and when each of them runs.

Owns how a caller names a group: a type of work, a class of kernels, or a regular expression for their names. The base
of `kernel_types` and `overlap`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.devices.kernel_classes import CLASSES, TYPES, OwnClass, classified
from tracehound.analysis.events.busy import COMMUNICATION, COPY, local_parent, work
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import CLOCKED
from tracehound.analysis.result import Share
from tracehound.analysis.settings import pattern
from tracehound.intervals import Intervals, clip, union
from tracehound.own_time import own_stretches

_CLASSES: Final = {name for name, _ in CLASSES} | {*COMMUNICATION, *COPY}


class Group(Struct, frozen=True):
    """Work of one type, or of one class, or what has the pattern in its name. `text` is how the caller wrote it."""

    text: str
    name: re.Pattern[str]

    @property
    def is_type(self) -> bool:
        """Whether it is a type of work, which no name is needed for."""
        return self.text in TYPES


def group(text: str) -> Group:
    """A group as a caller names it. Raises TracehoundError for what is no regular expression either."""
    return Group(text.strip(), pattern(text.strip()))


def running(share: Share, groups: Sequence[Group], own: Sequence[OwnClass] = ()) -> list[Intervals]:
    """When work of each group runs on the rank, clipped to its window: on the device's own clock, where it has one.

    Work of several groups counts for the first of them alone: it would overlap itself. An op that contains others
    counts only with the time that they leave it.
    """
    named = bool(own) or not all(each.is_type for each in groups)
    events, low, high = on_own_clock(work(share, "lane", *CLOCKED, *(("name", "op") if named else ())), share)
    members = _by_name(events, share, groups, own) if named else _by_kind(events, groups)
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    owned = own_stretches(start, end, local_parent(events))
    free, found = np.ones(len(start), np.bool_), []
    for mask in members:
        chosen = (mask & free)[owned.owner]
        found.append(clip(union(owned.start[chosen], owned.end[chosen]), low, high))
        free &= ~mask
    return found


def _by_kind(events: pl.DataFrame, groups: Sequence[Group]) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    kinds = {kind: name for name, of_type in (("communication", COMMUNICATION), ("memory", COPY)) for kind in of_type}
    kind = events["kind"]
    types = kind.cast(pl.String).replace_strict(kinds, default="computation", return_dtype=pl.Enum(TYPES))
    return [(types == each.text).to_numpy() for each in groups]


def _by_name(
    events: pl.DataFrame, share: Share, groups: Sequence[Group], own: Sequence[OwnClass]
) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Names are looked at once each; the events then follow theirs."""
    key = ["name", "kind", "op"]
    names = events.select(key).unique().join(share.ops.select("op", "category"), on="op", how="left")
    told = classified(names, own)
    classes = {each.name for each in own} | _CLASSES | set(share.ops["category"].drop_nulls())
    columns = [_membership(each, told, classes).alias(str(place)) for place, each in enumerate(groups)]
    rows = events.select(key).join(
        told.select(*key, *columns), on=key, how="left", nulls_equal=True, maintain_order="left"
    )
    return [rows[str(place)].to_numpy() for place in range(len(groups))]


def _membership(group: Group, told: pl.DataFrame, classes: set[str]) -> pl.Series:
    if group.is_type:
        return told["type"] == group.text
    if group.text in classes:
        return told["class"] == group.text
    names = told["name"].cast(pl.String).to_list()
    return pl.Series([group.name.search(name) is not None for name in names], dtype=pl.Boolean)
