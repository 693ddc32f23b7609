"""Which operators a kernel runs for: those around the call that launched it.

Owns that way from a device's event to the names of operators. What has no such way gets none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.result import Share
from tracehound.intervals import Ints
from tracehound.trace import collected

INSIDE: Final = " > "
"""Between an operator and one that it calls."""

NO_PATH: Final = -1


def callers(share: Share, launch: pl.Series) -> tuple[Ints, pl.DataFrame]:
    """For each launch (ids of host events, null: none) the operators around it, as a row of the frame.

    In the frame `operator` is the outermost one, and `path` all of them from there inwards; the words of its last row,
    for those that have none, are empty.
    """
    if launch.null_count() == len(launch):
        return np.zeros(len(launch), np.int64), _words([])
    calls = collected(share.threads.select("id", "name", "kind", "parent", "depth"))
    if calls.is_empty():
        return np.zeros(len(launch), np.int64), _words([])
    ids, wanted = calls["id"].to_numpy(), launch.fill_null(-1).to_numpy()
    row = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    ways, words = paths(calls)
    way = np.where(ids[row] == wanted, ways[row], NO_PATH)
    return np.where(way == NO_PATH, words.height - 1, way), words


def paths(calls: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
    """The path of operators down to each host event, itself included, as a row of the frame; `NO_PATH` for none.

    The frame has `operator` and `path` of each distinct path, and in its last row empty words.
    """
    parent, depth = local_parent(calls), calls["depth"].to_numpy()
    is_op = (calls["kind"] == "op").to_numpy()
    names = calls["name"].cast(pl.String).fill_null("")
    words = names.unique(maintain_order=True)
    code = names.replace_strict(words, pl.Series(range(len(words)), dtype=pl.Int64)).to_numpy()
    way = np.full(len(parent), NO_PATH)
    told: list[tuple[str, str]] = []
    order = np.argsort(depth, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = np.where(parent[rows] >= 0, way[parent[rows]], NO_PATH)
        way[rows] = above
        ops, outer = rows[is_op[rows]], above[is_op[rows]]
        steps, place = np.unique((outer + 1) * len(words) + code[ops], return_inverse=True)
        way[ops] = len(told) + place
        told += [_inwards(told, *divmod(int(step), len(words)), words) for step in steps]
    return way, _words(told)


def _words(told: list[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame([*told, ("", "")], schema={"operator": pl.String, "path": pl.String}, orient="row")


def _inwards(told: list[tuple[str, str]], outer: int, code: int, words: pl.Series) -> tuple[str, str]:
    """One operator further inside than the path `outer`, counted from 1 (0: no path)."""
    name = str(words[code])
    if outer == 0:
        return (name, name)
    operator, path = told[outer - 1]
    return (operator, f"{path}{INSIDE}{name}")
