"""Collectives that a thread of its own carries out (gloo, MPI), and the calls on other threads that asked for them.

Owns which call each is of. Knows the host's threads of one rank alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.ranks.calls import collective_of
from tracehound.analysis.result import Share
from tracehound.intervals import Ints
from tracehound.trace import collected

_CALLS: Final = "c10d::"
"""How the names of PyTorch's calls for collectives begin."""


def asked(share: Share) -> pl.DataFrame:
    """The collectives on threads whose call ran on another one, whenever they ran, sorted by (lane, start).

    Columns: `lane` and `start` of the collective; `call`, `caller` and `asked`: the event of the call, its lane and its
    start. The file has nothing that ties the two together, but calls are taken up in their order: each collective, in
    the order of starts, is of the earliest call for one of its kind that began before it and is not yet taken.
    """
    ours = (pl.col("kind") == "collective") | pl.col("name").cat.starts_with(_CALLS)
    rows = collected(share.threads.filter(ours).select("id", "lane", "start", "kind", "parent", name="name"))
    names = rows["name"].unique().cast(pl.String).drop_nulls().to_list()
    what = pl.col("name").cast(pl.String).replace_strict({name: collective_of(name) for name in names}, default=None)
    rows = rows.with_columns(what.cast(pl.String).alias("what")).drop_nulls("what").sort("start", "id")
    done = rows.filter(pl.col("kind") == "collective")
    calls = rows.filter((pl.col("kind") != "collective") & ~pl.col("parent").is_in(rows["id"].implode()))
    pairs = [
        _paired(mine, calls.filter(pl.col("what") == kind))
        for (kind,), mine in done.partition_by("what", as_dict=True).items()
    ]
    found = pl.concat(pairs) if pairs else _paired(done, calls)
    return found.filter(pl.col("lane") != pl.col("caller")).sort("lane", "start")


def _paired(done: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Collectives of one kind with their calls, both in the order of their starts; what has no call is left out."""
    call = in_turn(calls["start"].to_numpy(), done["start"].to_numpy())
    known = call >= 0
    its = calls.select(call="id", caller="lane", asked="start")[call[known]]
    return pl.concat([done.select("lane", "start").filter(pl.Series(known, dtype=pl.Boolean)), its], how="horizontal")


def in_turn(asked: Ints, begun: Ints) -> Ints:
    """For each thing that began, in order, the earliest of what was asked for by then that is not yet taken; else -1.

    Both are sorted times; returns positions in `asked`.
    """
    there = np.searchsorted(asked, begun, side="right")
    count = np.arange(1, len(begun) + 1)
    taken = count + np.minimum(np.minimum.accumulate(there - count), 0)
    return np.where(np.diff(taken, prepend=0) > 0, taken - 1, -1)
