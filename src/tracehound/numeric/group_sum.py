"""Sums of values by group number."""

from __future__ import annotations

import numpy as np

from tracehound.numeric.intervals import Ints
from tracehound.numeric.native import row_loops


def sum_groups(group: Ints, values: Ints, many: int) -> Ints:
    """The sum of the values of each group; a row with a group below 0 belongs to none."""
    if (found := row_loops.sum_by_group(group, values, many)) is not None:
        return found
    sums = np.zeros(many + 1, np.int64)  # the last sum, at -1, is for rows without a group
    np.add.at(sums, group, values)
    return sums[:-1]
