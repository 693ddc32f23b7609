"""Gaps that several ranks have at the same time, for the same cause."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracehound.numeric.intervals import Ints


def group_same_gaps(gaps: pl.DataFrame, most: int | None = None) -> list[list[int]]:
    """The rows of each gap, in the order of the first ones; at most one row of a rank, at most `most` groups.

    The same gap: one cause (`why`), and an overlap of at least half of the longer gap.
    """
    start, rank = gaps["start"].to_numpy(), gaps["rank"].to_numpy()
    length = gaps["duration"].to_numpy()
    end, cause = start + length, gaps["why"].fill_null("").rank("dense").to_numpy()
    by_start = np.argsort(start, kind="stable")
    starts, left = start[by_start], np.ones(len(start), np.bool_)
    groups = list[list[int]]()
    for first in range(len(start)):
        if most is not None and len(groups) == most:
            break
        if not left[first]:
            continue
        # a gap that overlaps it so much is at most twice as long
        low = np.searchsorted(starts, start[first] - 3 * length[first] // 2)
        high = np.searchsorted(starts, start[first] + length[first] // 2, side="right")
        near = by_start[low:high]
        near = near[left[near] & (cause[near] == cause[first])]
        shared = np.minimum(end[near], end[first]) - np.maximum(start[near], start[first])
        alike = 2 * shared >= np.maximum(length[near], length[first])
        group = _best_row_of_each_rank(near[alike], rank, shared[alike], first)
        left[group] = False
        groups.append(group)
    return groups


def _best_row_of_each_rank(rows: Ints, rank: Ints, shared: Ints, first: int) -> list[int]:
    """Of each rank the row that overlaps the `first` one most; the first one leads."""
    best = rows[np.argsort(-shared, kind="stable")]
    _, at = np.unique(rank[best], return_index=True)
    return [first, *sorted(row for row in best[at].tolist() if rank[row] != rank[first])]
