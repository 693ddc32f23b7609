"""Tables with a row for each rank as a few rows, one for each group of ranks that are alike.

Csv and json keep the rows of single ranks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import TEXT_UNITS, Column, Result, Unit
from tracehound.draw.cell_text import IDENTIFYING_COLUMNS
from tracehound.model.units import count_hosts_and_processes, count_noun, format_names, format_ranges
from tracehound.numeric.intervals import Ints

RANKS_COLUMN: Final = Column("ranks", "text", "ranks of which the row is")
"""The column in place of that of a single rank."""

_MOST_RANGES: Final = 4
"""Ranges of ranks that a row names at most."""

MANY_RANKS: Final = 8
"""Tables of more ranks are grouped."""

MOST_GROUPS: Final = 6
"""Groups with rows of their own, the largest ones; the ranks of all others share the last row."""

ALIKE_SHARES: Final = 0.02
ALIKE_FRACTION: Final = 0.05
NEGLIGIBLE_TIME: Final = 0.01
"""Neighbors in the order of a value are alike if their shares, or the fractions of other numbers, differ by no more.

So are times that differ by no more than this fraction of the longest time in any of the columns of the rows that may be
in one group, such as those of one step.
"""

WIDEST_GROUP: Final = 4
"""Values of a group differ by at most so many times the difference of neighbors."""


def ranks_cell(ranks: Collection[int]) -> str:
    """The ranks of a row: ``3``, ``0-7``, ``0, 8, 16 and 61 more``."""
    return format_ranges(ranks, _MOST_RANGES)


def label_ranks(cell: str) -> str:
    """The words for the ranks of a row: ``rank 3``, ``ranks 0-7``."""
    return f"rank {cell}" if cell.isdigit() else f"ranks {cell}"


def group_ranks(
    result: Result, alike: Sequence[str], *, summaries: Mapping[str, pl.Expr] | None = None, most: int = MOST_GROUPS
) -> Result:
    """The rows of ranks that are alike in these columns as one row; the group with most ranks comes first.

    A number is the median of the group's ranks unless `summaries` has another expression for its column; texts are
    the first and the last, hosts are counted.
    """
    table = result.table
    groups = number_alike_ranks(table, [result.column(name) for name in alike])
    shown = groups.value_counts(name="ranks").sort("ranks", groups.name, descending=[True, False])[groups.name]
    last = shown.head(most - 1 if len(shown) > most else most)
    group = pl.when(pl.col("group").is_in(last.implode())).then("group")
    rows = table.with_columns(groups).with_columns(group.alias("group"))
    columns = [column for column in result.columns if column.name != "rank"]
    found = summaries or {}
    summarized = (
        rows.group_by("group")
        .agg(
            pl.col("rank").sort(),
            *(found.get(column.name, _summary(column)).alias(column.name) for column in columns),
        )
        .sort(pl.col("group").is_null(), pl.col("rank").list.len(), pl.col("rank").list.first(),
              descending=[False, True, False])
    )  # fmt: skip
    texts = {column.name: _group_texts(column, summarized[column.name]) for column in columns if _is_text(column)}
    ranks = [ranks_cell(members) for members in summarized["rank"].to_list()]
    grouped = summarized.with_columns(pl.Series("ranks", ranks, pl.String), *texts.values())
    shown_columns = (RANKS_COLUMN, *columns)
    return replace(
        result,
        columns=shown_columns,
        table=grouped.select(column.name for column in shown_columns),
        total=grouped.height,
        all_rows=None,
        rows_text=f"{count_noun(grouped.height, 'group')} of {table.height:,} ranks",
    )


def number_alike_ranks(table: pl.DataFrame, columns: Sequence[Column], widest: int = WIDEST_GROUP) -> pl.Series:
    """The number of the group of each row, as `group`: rows with equal texts and alike numbers have one number."""
    texts = [table[column.name].cast(pl.String).fill_null("") for column in columns if _must_be_equal(column)]
    equal = pl.DataFrame(texts).select(pl.struct(pl.all()).rank("dense")).to_series() if texts else None
    kinds = equal.to_numpy().astype(np.int64) if equal is not None else np.zeros(table.height, np.int64)
    times = [column.name for column in columns if column.unit in _TIME_UNITS]
    longest = np.zeros(int(kinds.max(initial=0)) + 1)
    for name in times:
        np.maximum.at(longest, kinds, table[name].abs().fill_null(0).to_numpy())
    negligible = NEGLIGIBLE_TIME * longest
    keys = [pl.Series("equal", kinds)]
    for column in columns:
        if not _must_be_equal(column):
            least = negligible if column.name in times else np.zeros(len(longest))
            keys.append(_number_alike(column, table[column.name], kinds, least, widest).alias(column.name))
    return pl.DataFrame(keys).select(pl.struct(pl.all()).rank("dense").alias("group")).to_series()


_TIME_UNITS: Final[tuple[Unit, ...]] = ("time", "difference")


def _must_be_equal(column: Column) -> bool:
    """True if rows with other values of this column, such as another step, are not alike."""
    return _is_text(column) or column.unit in ("flag", "number") or column.name in IDENTIFYING_COLUMNS


def _number_alike(
    column: Column, values: pl.Series, kinds: Ints, least: npt.NDArray[np.float64], widest: int
) -> pl.Series:
    """Numbers for the values of a column, by kind of row: alike values of one kind have the same number.

    Values that differ by the `least` difference of their kind are alike.
    """
    numbers = values.cast(pl.Float64).fill_nan(None).fill_null(_UNKNOWN).to_numpy()
    groups, number = np.zeros(len(numbers), np.int64), 0
    first = last = -math.inf
    kind = -1
    for row in np.lexsort((numbers, kinds)).tolist():
        value = float(numbers[row])
        near = ALIKE_SHARES if column.unit == "share" else max(ALIKE_FRACTION * abs(value), float(least[kinds[row]]))
        if kinds[row] != kind or value - last > near or value - first > widest * near:
            number, first = number + 1, value
        kind, last, groups[row] = kinds[row], value, number
    return pl.Series(groups)


_UNKNOWN: Final = -1e300


def _summary(column: Column) -> pl.Expr:
    value = pl.col(column.name)
    if _is_text(column):
        return value.drop_nulls()
    if column.unit == "flag":
        return value.any()
    median = value.median()
    return median if column.unit in ("share", "decimal", "rate") else median.round().cast(pl.Int64)


def _is_text(column: Column) -> bool:
    return column.unit in TEXT_UNITS


def _group_texts(column: Column, names: pl.Series) -> pl.Series:
    """The cell of each group for its names."""
    return pl.Series(column.name, [group_text(column, each) for each in names.to_list()], pl.String)


def group_text(column: Column, names: Sequence[str]) -> str | None:
    """The cell of a group for the names of its ranks: hosts are counted, of other names two stand for all."""
    several = [*dict.fromkeys(names)]
    if column.name == "host" and len(several) > 1:
        return count_hosts_and_processes(several)
    return format_names(several, 2) or None
