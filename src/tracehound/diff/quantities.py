"""What was measured of a run, as numbers: a row for each step, a column for each quantity.

Owns their averages, medians and spreads. Only what is not 0 is held: of thousands of names most are in a few steps, and
a number for each step and name would fill the memory. Knows no op and no test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.intervals import Ints

Floats = npt.NDArray[np.float64]


class Quantities(Struct, frozen=True, eq=False):
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
        """The standard deviations of a sample, as all tables have them; NaN for one step alone."""
        return (
            self.spreads * np.sqrt(self.height / (self.height - 1)) if self.height > 1 else np.full(self.width, np.nan)
        )

    def means_off(self, centre: Floats) -> Floats:
        """The averages of what the steps differ by from a value for each column: sharp for large values near it."""
        return (self._sums(self.value - centre[self.column]) - self._zeros * centre) / max(1, self.height)

    @property
    def _zeros(self) -> Ints:
        return max(1, self.height) - np.bincount(self.column, minlength=self.width)

    def _sums(self, values: Floats) -> Floats:
        if self.width == 1:
            return np.array([values.sum()])  # a column by itself is added up with less rounding
        return np.bincount(self.column, values, self.width).astype(np.float64)

    def block(self, low: int, high: int) -> Floats:
        """All cells of the columns `[low, high)`: a row for each of these and a column for each step."""
        first, last = np.searchsorted(self.column, (low, high)).tolist()
        cells = np.zeros((high - low, self.height))
        cells[self.column[first:last] - low, self.row[first:last]] = self.value[first:last]
        return cells

    def chosen(self, columns: Ints) -> Quantities:
        """Some of the columns, in this order."""
        place = np.full(self.width, -1)
        place[columns] = np.arange(len(columns))
        keep = place[self.column] >= 0
        return summed(self.row[keep], place[self.column[keep]], self.value[keep], (self.height, len(columns)))

    def folded(self, size: int) -> Quantities:
        """The averages of neighbouring steps: of `size` of them, and of one more here and there where some are left."""
        if size == 1:
            return self
        blocks = self.height // size
        block = np.arange(self.height) * blocks // self.height
        value = self.value / np.bincount(block)[block[self.row]]
        return summed(block[self.row], self.column, value, (blocks, self.width))


def summed(row: Ints, column: Ints, value: Floats, shape: tuple[int, int]) -> Quantities:
    """Values in any order; what is of one step and one quantity is added up. The shape has rows and columns."""
    height, width = shape
    cells, at = np.unique(column * height + row, return_inverse=True)
    sums = np.bincount(at, value, len(cells)).astype(np.float64)
    cells, sums = cells[sums != 0], sums[sums != 0]
    return Quantities(height, width, cells % max(1, height), cells // max(1, height), sums)


def filled(values: Floats) -> Quantities:
    """A row for each step, a column for each quantity."""
    height, width = values.shape
    column, row = np.nonzero(values.T)
    return Quantities(height, width, row, column, values[row, column])


def over(above: Quantities, below: Quantities) -> Quantities:
    """The steps of one run, then those of another, of the same quantities."""
    row, column = np.append(above.row, below.row + above.height), np.append(above.column, below.column)
    return summed(row, column, np.append(above.value, below.value), (above.height + below.height, above.width))


def beside(every: Sequence[Quantities]) -> Quantities:
    """The same steps, of all these quantities."""
    width, shifted = 0, []
    for each in every:
        shifted.append(each.column + width)
        width += each.width
    row, column = np.concatenate([each.row for each in every]), np.concatenate(shifted)
    return Quantities(every[0].height, width, row, column, np.concatenate([each.value for each in every]))
