"""Measured quantities of a run's steps, and the test whether two runs differ by more than chance.

Owns averages, medians and spreads, the test, and its counterpart: whether the steps show that there is next to no
difference. Only values other than 0 are held: of thousands of names most occur in a few steps, and a number for each
step and name would fill the memory. Knows no op.

Steps are taken as exchangeable where nothing changed: with the labels "baseline" and "candidate" assigned anew, a
difference as large should be rare. That is a permutation test; for many quantities at once each is compared with the
largest difference of all that differ no more (Westfall and Young's step-down max-T), so that among a thousand ops none
is called changed by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import comb
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.numeric.intervals import Ints, Mask

Floats = npt.NDArray[np.float64]


class StepQuantities(Struct, frozen=True, eq=False):
    """`height` steps of `width` quantities: the cells that are not 0, each once, by columns and then by rows."""

    height: int
    width: int
    row: Ints
    column: Ints
    value: Floats

    @property
    def means(self) -> Floats:
        """The averages over the steps; 0 where there is none."""
        return self._sums(self.value) / max(1, self.height)

    @property
    def medians(self) -> Floats:
        """The medians over the steps; 0 where there is none."""
        rising = np.append(self.value[np.lexsort((self.value, self.column))], 0.0)
        first = np.searchsorted(self.column, np.arange(self.width))
        below = first + np.bincount(self.column[self.value < 0], minlength=self.width)
        zeros = self._zeros

        def ranked(rank: int) -> Floats:
            at = np.minimum(first + rank, len(rising) - 1)
            behind = np.clip(first + rank - zeros, 0, len(rising) - 1)
            above: Floats = np.where(first + rank < below + zeros, 0.0, rising[behind])
            return np.where(first + rank < below, rising[at], above)

        last = max(1, self.height) - 1
        return (ranked(last // 2) + ranked((last + 1) // 2)) / 2

    @property
    def spreads(self) -> Floats:
        """The standard deviations among these steps and no others; 0 where there is none."""
        means = self.means
        squares = self._sums((self.value - means[self.column]) ** 2) + self._zeros * means**2
        return np.sqrt(squares / max(1, self.height))

    @property
    def sample_spreads(self) -> Floats:
        """The standard deviations of a sample, as all tables have them; NaN for a single step."""
        return (
            self.spreads * np.sqrt(self.height / (self.height - 1)) if self.height > 1 else np.full(self.width, np.nan)
        )

    def means_minus(self, center: Floats) -> Floats:
        """The averages less a value for each column: exact for large averages near that value."""
        return (self._sums(self.value - center[self.column]) - self._zeros * center) / max(1, self.height)

    @property
    def _zeros(self) -> Ints:
        """The number of cells that are 0, by column."""
        return max(1, self.height) - np.bincount(self.column, minlength=self.width)

    def _sums(self, values: Floats) -> Floats:
        """Sums of the values by column."""
        if self.width == 1:
            return np.array([values.sum()])  # a column by itself is added up with less rounding
        return np.bincount(self.column, values, self.width).astype(np.float64)

    def dense_columns(self, low: int, high: int) -> Floats:
        """All cells of the columns `[low, high)`: a row for each of these and a column for each step."""
        first, last = np.searchsorted(self.column, (low, high)).tolist()
        cells = np.zeros((high - low, self.height))
        cells[self.column[first:last] - low, self.row[first:last]] = self.value[first:last]
        return cells

    def select_columns(self, columns: Ints) -> StepQuantities:
        """Some of the columns, in this order."""
        place = np.full(self.width, -1)
        place[columns] = np.arange(len(columns))
        keep = place[self.column] >= 0
        return sum_quantities(self.row[keep], place[self.column[keep]], self.value[keep], (self.height, len(columns)))

    def average_neighbors(self, size: int) -> StepQuantities:
        """The averages of groups of `size` neighboring steps; some groups have one more, where steps are left over."""
        if size == 1:
            return self
        blocks = self.height // size
        block = np.arange(self.height) * blocks // self.height
        value = self.value / np.bincount(block)[block[self.row]]
        return sum_quantities(block[self.row], self.column, value, (blocks, self.width))


def sum_quantities(row: Ints, column: Ints, value: Floats, shape: tuple[int, int]) -> StepQuantities:
    """Quantities from values in any order; values of one cell are added up. The shape is rows, columns."""
    height, width = shape
    cells, at = np.unique(column * height + row, return_inverse=True)
    sums = np.bincount(at, value, len(cells)).astype(np.float64)
    cells, sums = cells[sums != 0], sums[sums != 0]
    return StepQuantities(height, width, cells % max(1, height), cells // max(1, height), sums)


def quantities_of_array(values: Floats) -> StepQuantities:
    """Quantities from an array with a row for each step and a column for each quantity."""
    height, width = values.shape
    column, row = np.nonzero(values.T)
    return StepQuantities(height, width, row, column, values[row, column])


def stack_steps(above: StepQuantities, below: StepQuantities) -> StepQuantities:
    """The steps of one run, then those of another, of equal quantities."""
    row, column = np.append(above.row, below.row + above.height), np.append(above.column, below.column)
    return sum_quantities(row, column, np.append(above.value, below.value), (above.height + below.height, above.width))


def join_quantities(every: Sequence[StepQuantities]) -> StepQuantities:
    """All these quantities of equal steps, side by side."""
    width, shifted = 0, []
    for each in every:
        shifted.append(each.column + width)
        width += each.width
    row, column = np.concatenate([each.row for each in every]), np.concatenate(shifted)
    return StepQuantities(every[0].height, width, row, column, np.concatenate([each.value for each in every]))


CHANGE_PROBABILITY: Final = 0.01
"""The probability with which steps that differ by chance may be called changed, where there are enough of them."""

PERHAPS_PROBABILITY: Final = 0.05
"""The probability with which they may be called "perhaps" changed."""

MIN_STEPS: Final = 4
"""Steps of each run that a test needs: 2 of 70 ways to assign labels to 4 and 4 are as extreme."""

MAX_TESTED_STEPS: Final = 1_000
"""If a run has more steps, neighboring ones are averaged for the test, so that at most so many are left: the test
assigns a label to each, again and again."""

LITTLE_CHANGE: Final = 0.05
"""A change is little if it is less than this share of the larger average, chance included."""

NEGLIGIBLE_CHANGE: Final = 0.0001
"""A change of less than this share of the larger average, 0.01 %, is none, however sure: no table prints so little."""

_MAX_STANDARD_ERRORS: Final = 3.0
"""Chance adds at most so many standard errors to an average (in 99 of 100 cases and more)."""

_MAX_EXACT_PERMUTATIONS: Final = 5_000
"""Up to so many ways to assign the labels, all are tried."""

_MAX_CELLS: Final = 4_000_000
_MAX_PERMUTATIONS, _MIN_PERMUTATIONS = 9_999, 999
"""Otherwise so many random ways, fewer where there are many steps."""

_COLUMNS_AT_ONCE: Final = 256
"""At most so many columns are tested together."""


def change_probabilities(baseline: StepQuantities, candidate: StepQuantities) -> Floats | None:
    """For each column, the probability that chance makes a mean differ as much, in it or one that differs less.

    Both sides have equal columns. If there are more than `MAX_TESTED_STEPS` steps, neighboring ones are averaged, as
    many on both sides, and so that `MIN_STEPS` are left on either. None with fewer than `MIN_STEPS` steps on a side.
    """
    fewest, most = sorted((baseline.height, candidate.height))
    if fewest < MIN_STEPS:
        return None
    size = min(-(-most // MAX_TESTED_STEPS), fewest // MIN_STEPS)
    baseline, candidate = baseline.average_neighbors(size), candidate.average_neighbors(size)
    both = stack_steps(baseline, candidate)
    spread, mean = both.spreads, both.means
    observed = np.abs(baseline.means_minus(mean) - candidate.means_minus(mean)) / np.where(spread > 0, spread, 1)
    probabilities = np.ones(both.width)
    if observed.any():
        alike = _first_proportional_column(both)
        varied = np.flatnonzero((spread > 0) & (alike == np.arange(both.width)))
        rising = varied[np.argsort(observed[varied], kind="stable")]
        found = _max_difference_probabilities(both.select_columns(rising), baseline.height, observed[rising])
        probabilities[rising] = np.maximum.accumulate(found[::-1])[::-1]  # what differs less is no surer a change
        probabilities = probabilities[alike]
    return np.where(observed > 0, probabilities, 1.0)


def is_little_change(baseline: StepQuantities, candidate: StepQuantities) -> Mask:
    """A mask of the columns that changed by less than `LITTLE_CHANGE`, with the part that may be chance.

    Both sides have equal columns, and at least `MIN_STEPS` steps.
    """
    means = baseline.means, candidate.means
    errors = (side.spreads**2 / (side.height - 1) for side in (baseline, candidate))
    most = np.abs(means[1] - means[0]) + _MAX_STANDARD_ERRORS * np.sqrt(sum(errors))
    room: Mask = most <= LITTLE_CHANGE * np.maximum(*np.abs(means))
    return room


def _first_proportional_column(values: StepQuantities) -> Ints:
    """For each column the first one proportional to it, which differs as much however the labels are assigned."""
    bounds = np.searchsorted(values.column, np.arange(values.width + 1))
    largest = np.zeros(values.width)
    np.maximum.at(largest, values.column, np.abs(values.value))
    shape = values.value / largest[values.column]
    first: dict[tuple[bytes, bytes], int] = {}
    return np.array(
        [
            first.setdefault((values.row[low:high].tobytes(), shape[low:high].tobytes()), column)
            for column, (low, high) in enumerate(pairwise(bounds.tolist()))
        ],
        np.int64,
    )


def _max_difference_probabilities(values: StepQuantities, baseline: int, observed: Floats) -> Floats:
    """The probability that each column, or one before it, differs as much as observed; columns in rising order."""
    mean, spread = values.means[:, None], values.spreads[:, None]
    counts, number = np.zeros(values.width, np.int64), 0
    at_once = max(1, min(_COLUMNS_AT_ONCE, _MAX_CELLS // values.height))
    for of_base in _label_permutations(baseline, values.height - baseline):
        weights = np.where(of_base, 1 / baseline, -1 / (values.height - baseline)).T
        number += len(of_base)
        largest = np.zeros(len(of_base))
        for low in range(0, values.width, at_once):
            high = min(low + at_once, values.width)
            scaled = (values.dense_columns(low, high) - mean[low:high]) / spread[low:high]
            for column, difference in enumerate(np.abs(scaled @ weights), low):
                np.maximum(largest, difference, out=largest)
                counts[column] += np.count_nonzero(largest >= observed[column] * (1 - 1e-9))
    exact = number == comb(values.height, baseline)
    return counts / number if exact else (counts + 1) / (number + 1)


def significance_level(baseline: int, candidate: int) -> float:
    """The probability below which so many steps show a change: the least possible, or `CHANGE_PROBABILITY`."""
    few = min(baseline, candidate, MAX_TESTED_STEPS)
    return max(CHANGE_PROBABILITY, 2 / comb(few + min(max(baseline, candidate), MAX_TESTED_STEPS), few))


def _label_permutations(baseline: int, candidate: int) -> Iterator[Mask]:
    """Ways to assign the labels, a row each, in parts: all, or random ones that are equal in every run of the code."""
    count = baseline + candidate
    if comb(count, baseline) <= _MAX_EXACT_PERMUTATIONS:
        permutations = np.zeros((comb(count, baseline), count), np.bool_)
        for row, chosen in enumerate(combinations(range(count), baseline)):
            permutations[row, list(chosen)] = True
        yield permutations
        return
    number = min(_MAX_PERMUTATIONS, max(_MIN_PERMUTATIONS, _MAX_CELLS // count))
    at_once = max(1, _MAX_CELLS // count)
    random = np.random.default_rng(0)
    for first in range(0, number, at_once):
        yield random.random((min(at_once, number - first), count)).argsort(axis=1) < baseline
