"""The rank map as a matrix: a row for each rank in the order of the map, a column for each step.

Also which part of it is visible, in which bins, and the scale of its five levels. Draws nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.ranks.rank_step_values import (
    NOTABLE,
    SMALLEST_IS_WORST,
    MapValue,
    counted_rows,
    machine_name,
    order_ranks,
    rank_means,
)
from tracehound.numeric.intervals import Ints

Floats = npt.NDArray[np.float64]

LEVELS: Final = 5
"""Levels of the scale, from the best to the worst."""

NO_VALUE: Final = -1
"""The level of a cell without a value."""

WIDEST_CELL: Final = 8
"""Most characters for one step."""

_GOOD_QUANTILE: Final = 0.1
_BAD_QUANTILE: Final = 0.9
"""The scale spans at least the values between these quantiles."""

_SMALL_BINS: Final = (1, 2, 4, 8)
"""Ranks in a small bin; larger ones hold a multiple of the last, as machines do."""


class RankMatrix(Struct, frozen=True, eq=False, dict=True):
    """The values of all ranks (rows, in the order of the map) in all steps (columns, by number); NaN: none.

    `table_rows` has the row of each cell in the table, -1 for none. `bounds` are the values at the good and at the bad
    end of the scale. `typical` is the median over ranks of each step.
    """

    value: MapValue
    by: str
    ranks: Ints
    hosts: tuple[str, ...]
    groups: tuple[str, ...]
    steps: Ints
    values: Floats
    table_rows: Ints
    bounds: tuple[float, float]
    typical: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Number of ranks and of steps."""
        return len(self.ranks), len(self.steps)

    @cached_property
    def badness(self) -> Floats:
        """The values, with the sign that makes the worst the largest."""
        return -self.values if self.value in SMALLEST_IS_WORST else self.values

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The machine of each rank, or its process group, by which the rows are ordered; empty in other orders."""
        if self.by == "host":
            return tuple(map(machine_name, self.hosts))
        return tuple(f"group {text.partition(':')[0]}" if text else "" for text in self.groups * (self.by == "group"))

    @property
    def has_gaps(self) -> bool:
        """True if some rank lacks a value in some step."""
        return bool(np.isnan(self.values).any())

    def levels(self, worst: Floats) -> npt.NDArray[np.int8]:
        """The level of each of these worst values of bins (as `badness`): 0 is the best, `NO_VALUE` none."""
        sign = -1 if self.value in SMALLEST_IS_WORST else 1
        good, bad = (sign * bound for bound in self.bounds)
        scaled = (np.nan_to_num(worst, nan=good) - good) / ((bad - good) or 1)
        found = np.clip(np.floor(scaled * LEVELS), 0, LEVELS - 1)
        return np.where(np.isnan(worst), NO_VALUE, found).astype(np.int8)

    @property
    def thresholds(self) -> list[float]:
        """The value at which each level begins, but the first."""
        good, bad = self.bounds
        return [good + (bad - good) * level / LEVELS for level in range(1, LEVELS)]

    def worst_cell(self, rows: slice = slice(None), columns: slice = slice(None)) -> tuple[int, int] | None:
        """Row and column of the worst value in a part of the matrix; None if there is none."""
        part = self.badness[rows, columns]
        if not np.isfinite(part).any():
            return None
        row, column = np.unravel_index(int(np.nanargmax(part)), part.shape)
        return (rows.start or 0) + int(row), (columns.start or 0) + int(column)

    @property
    def standout_cell(self) -> tuple[int, int] | None:
        """Row and column of the value that is worst against the median of its step; None if there is no value."""
        sign = -1 if self.value in SMALLEST_IS_WORST else 1
        excess = self.badness - sign * self.typical
        if not np.isfinite(excess).any():
            return None
        row, column = np.unravel_index(int(np.nanargmax(excess)), excess.shape)
        return int(row), int(column)

    def find_cell(self, rank: int, step: int) -> tuple[int, int] | None:
        """Row and column of a rank and a step; None if the map lacks one of them."""
        row, column = np.flatnonzero(self.ranks == rank), np.flatnonzero(self.steps == step)
        return (int(row[0]), int(column[0])) if len(row) and len(column) else None


class RankMapData:
    """The rows of the analysis rank_map, prepared to be shown: a matrix of each value, in each order.

    What is computed is kept, so that changing value and order costs little the second time.
    """

    def __init__(self, table: pl.DataFrame) -> None:
        """`table` has all rows, in any order."""
        self._table = table
        self._ranks = table["rank"].unique().sort()
        self._steps = table["step"].unique().sort().to_numpy()
        self._at = (
            np.searchsorted(self._ranks.to_numpy(), table["rank"].to_numpy()),
            np.searchsorted(self._steps, table["step"].to_numpy()),
        )
        self._table_rows = np.full((len(self._ranks), len(self._steps)), -1, np.int64)
        self._table_rows[self._at] = np.arange(table.height)
        counted = counted_rows(table.with_row_index("place"))["place"].to_numpy()
        self._is_counted = np.isin(self._table_rows, counted)
        self._step_time = float(np.median(table["step_time"].to_numpy())) if table.height else 0.0
        self._means: dict[MapValue, pl.DataFrame] = {}
        self._matrices: dict[tuple[MapValue, str], RankMatrix] = {}

    def matrix(self, value: MapValue, by: str) -> RankMatrix:
        """The matrix of a value with its rows in this order."""
        if (value, "rank") not in self._matrices:
            self._means[value] = rank_means(self._table, value)
            self._matrices[value, "rank"] = self._matrix_by_rank(value)
        if (value, by) not in self._matrices:
            self._matrices[value, by] = self._reorder(self._matrices[value, "rank"], by)
        return self._matrices[value, by]

    def _reorder(self, whole: RankMatrix, by: str) -> RankMatrix:
        """The matrix with its rows in another order."""
        ordered = order_ranks(self._means[whole.value], whole.value, by).to_numpy()
        order = np.searchsorted(whole.ranks, ordered)
        return replace(
            whole,
            by=by,
            ranks=whole.ranks[order],
            hosts=tuple(whole.hosts[row] for row in order),
            groups=tuple(whole.groups[row] for row in order),
            values=whole.values[order],
            table_rows=whole.table_rows[order],
        )

    def _matrix_by_rank(self, value: MapValue) -> RankMatrix:
        """The matrix by rank."""
        matrix = np.full(self._table_rows.shape, np.nan)
        matrix[self._at] = self._table[value].cast(pl.Float64).fill_null(np.nan).to_numpy()
        hosts, groups = (tuple(self._means[value][name].fill_null("").to_list()) for name in ("host", "process_group"))
        return RankMatrix(
            value, "rank", self._ranks.to_numpy(), hosts, groups, self._steps, matrix, self._table_rows,
            _scale_bounds(np.where(self._is_counted, matrix, np.nan), value, self._step_time), _median_of_ranks(matrix),
        )  # fmt: skip


def _median_of_ranks(values: Floats) -> Floats:
    """The median of each step over the ranks that have the value; NaN if none has."""
    known = np.isfinite(values).any(axis=0)
    found = np.full(values.shape[1], np.nan)
    found[known] = np.nanmedian(values[:, known], axis=0)
    return found


def _scale_bounds(counted: Floats, value: MapValue, step_time: float) -> tuple[float, float]:
    """The values at the good and the bad end of the scale, from those of complete steps (NaN: none).

    From the best tenth of the values to the worst tenth, or to the median step of the worst rank, if that is worse: so
    a few slow steps, such as the first, do not flatten the rest, and a slow rank among a thousand stands out. The scale
    spans twice what counts as a notable difference (`NOTABLE`), so that noise does not look like one.
    """
    known = counted[np.isfinite(counted)]
    if not len(known):
        return 0.0, 0.0
    sign = -1 if value in SMALLEST_IS_WORST else 1
    good, bad = np.quantile(sign * known, (_GOOD_QUANTILE, _BAD_QUANTILE))
    of_ranks = sign * np.nanmedian(counted[np.isfinite(counted).any(axis=1)], axis=1)
    base = {"busy": 1.0, "late": step_time}.get(value, float(np.median(known)))
    return float(sign * good), float(sign * max(bad, of_ranks.max(), good + 2 * NOTABLE[value] * base))


class MapView(Struct, frozen=True):
    """The visible part of the map: how often it was zoomed in, its first row and column, and those of the cursor."""

    zoom: int = 0
    top: int = 0
    left: int = 0
    row: int = 0
    column: int = 0


class MapBins(Struct, frozen=True):
    """The visible part in bins: `row_edges` and `column_edges` are their bounds, `cell` the characters for a column."""

    row_edges: Ints
    column_edges: Ints
    cell: int

    def row_bin(self, row: int) -> int:
        """The line of a row."""
        return int(np.searchsorted(self.row_edges, row, side="right")) - 1

    def column_bin(self, column: int) -> int:
        """The cell of a column in its line."""
        return int(np.searchsorted(self.column_edges, column, side="right")) - 1

    def rows_of(self, line: int) -> slice:
        """The rows in a line."""
        return slice(int(self.row_edges[line]), int(self.row_edges[line + 1]))

    def columns_of(self, cell: int) -> slice:
        """The columns in a cell."""
        return slice(int(self.column_edges[cell]), int(self.column_edges[cell + 1]))

    @property
    def counts(self) -> tuple[int, int]:
        """Number of lines, and of cells in each."""
        return len(self.row_edges) - 1, len(self.column_edges) - 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Most rows in a line, and most columns in a cell."""
        return int(np.diff(self.row_edges).max()), int(np.diff(self.column_edges).max())


def bin_map(matrix: RankMatrix, view: MapView, lines: int, width: int) -> MapBins:
    """The bins of the visible part for so many lines of so many characters (at least 1)."""
    (ranks, steps), lines, width = matrix.shape, max(lines, 1), max(width, 1)
    row_edges = _bin_edges(ranks, view.zoom, lines, view.top, view.row)
    column_edges = _bin_edges(steps, view.zoom, width, view.left, view.column)
    return MapBins(row_edges, column_edges, min(max(width // (len(column_edges) - 1), 1), WIDEST_CELL))


def _bin_edges(count: int, zoom: int, room: int, first: int, cursor: int) -> Ints:
    """Bounds of the bins of a part of `count` rows or columns in `room`, with the cursor in it."""
    wanted = _visible_count(count, zoom, room)
    size = _bin_size(wanted, room)
    visible = -(-wanted // size) * size  # whole bins: between two parts of bins rows would be in neither
    low = min(max(first, cursor - visible + 1), cursor)
    low = max(min(low, count - visible), 0) // size * size
    if cursor >= low + visible:
        low += size
    return np.append(np.arange(low, min(low + visible, count), size), min(low + visible, count))


def _visible_count(count: int, zoom: int, room: int) -> int:
    """Number of visible rows or columns: half as many for each zoom, but as many as have a bin of their own."""
    return max(min(count, room), -(-count >> zoom) if zoom < _MOST_ZOOMS else 1, 1)


_MOST_ZOOMS: Final = 40


def _bin_size(count: int, room: int) -> int:
    """Rows or columns in a bin: a power of two up to 8, then a multiple of 8."""
    least = -(-count // room)
    return next((size for size in _SMALL_BINS if size >= least), -(-least // _SMALL_BINS[-1]) * _SMALL_BINS[-1])


def worst_in_bins(matrix: RankMatrix, bins: MapBins) -> Floats:
    """The worst value of each bin, as `badness`; NaN where no rank of the bin has a value in its steps."""
    rows, columns = bins.row_edges, bins.column_edges
    part = matrix.badness[rows[0] : rows[-1], columns[0] : columns[-1]]
    across = np.fmax.reduceat(part, columns[:-1] - columns[0], axis=1)
    return np.asarray(np.fmax.reduceat(across, rows[:-1] - rows[0], axis=0))


def join_equal_lines(matrix: RankMatrix, bins: MapBins) -> MapBins:
    """The bins with one line for neighbors whose cells are equal."""
    levels = matrix.levels(worst_in_bins(matrix, bins))
    is_last = np.append((levels[1:] != levels[:-1]).any(axis=1), [True])
    return replace(bins, row_edges=bins.row_edges[np.append([True], is_last)])


def keep_cursor_visible(matrix: RankMatrix, view: MapView, lines: int, width: int) -> MapView:
    """The view, scrolled as little as needed to show the cursor, which is clamped to the matrix."""
    ranks, steps = matrix.shape
    inside = replace(view, row=max(0, min(view.row, ranks - 1)), column=max(0, min(view.column, steps - 1)))
    bins = bin_map(matrix, inside, lines, width)
    return replace(inside, top=int(bins.row_edges[0]), left=int(bins.column_edges[0]))


def move_cursor(matrix: RankMatrix, view: MapView, bins: MapBins, lines: int, cells: int) -> MapView:
    """The view with the cursor moved by lines and cells."""
    (ranks, steps), (height, width) = matrix.shape, bins.sizes
    row, column = (
        _move_along(*each) for each in ((view.row, lines, height, ranks), (view.column, cells, width, steps))
    )
    return replace(view, row=row, column=column)


def _move_along(at: int, by: int, size: int, count: int) -> int:
    """The first of the bin that is `by` bins away; without a move the same."""
    return at if not by else max(0, min((at // size + by) * size, count - 1))


def zoom_map(matrix: RankMatrix, view: MapView, by: int, lines: int, width: int) -> MapView:
    """The view zoomed in (1) or out (-1) around the cursor; zooming in puts it on the worst value of its cell."""
    bins = bin_map(matrix, view, lines, width)
    zoom = max(view.zoom + by, 0)
    if by > 0:
        if bins.sizes == (1, 1):
            return view
        line, cell = bins.row_bin(view.row), bins.column_bin(view.column)
        row, column = matrix.worst_cell(bins.rows_of(line), bins.columns_of(cell)) or (view.row, view.column)
        view = replace(view, row=row, column=column)
    seen = (
        _visible_count(count, zoom, room)
        for count, room in zip(matrix.shape, (max(lines, 1), max(width, 1)), strict=True)
    )
    top, left = (max(at - visible // 2, 0) for at, visible in zip((view.row, view.column), seen, strict=True))
    return keep_cursor_visible(matrix, replace(view, zoom=zoom, top=top, left=left), lines, width)
