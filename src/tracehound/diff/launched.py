"""Which operator a kernel runs for: the outermost one around the call that launched it.

Owns that way from a device's event to the name of an operator. What has no such way gets none.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracehound.analysis.busy import local_parent
from tracehound.analysis.result import Share
from tracehound.intervals import Ints
from tracehound.trace import collected


def operators(share: Share, launch: pl.Series) -> pl.Series:
    """The name of the operator for each launch (ids of host events, null: none); "" where there is none."""
    nothing = pl.Series("operator", [""]).new_from_index(0, len(launch))
    if launch.null_count() == len(launch):
        return nothing
    calls = collected(share.threads.select("id", "name", "kind", "parent", "depth"))
    if calls.is_empty():
        return nothing
    ids, wanted = calls["id"].to_numpy(), launch.fill_null(-1).to_numpy()
    row = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    top = np.where(ids[row] == wanted, outermost(calls)[row], -1)
    names = calls["name"].cast(pl.String).gather(pl.Series(np.maximum(top, 0)))
    return (
        pl.select(pl.when(pl.Series(top >= 0)).then(names.fill_null("")).otherwise(pl.lit("")))
        .to_series()
        .alias("operator")
    )


def outermost(calls: pl.DataFrame) -> Ints:
    """The row of the outermost operator around each host event, itself included; -1 for none."""
    parent, depth = local_parent(calls), calls["depth"].to_numpy()
    is_op = (calls["kind"] == "op").to_numpy()
    top = np.where(is_op, np.arange(len(parent)), -1)
    order = np.argsort(depth, kind="stable")
    edges = np.flatnonzero(np.diff(depth[order])) + 1
    for rows in np.split(order, edges):
        inner = rows[parent[rows] >= 0]
        above = top[parent[inner]]
        top[inner] = np.where(above >= 0, above, top[inner])
    return top
