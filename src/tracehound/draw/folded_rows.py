"""Rows that say the same of several ranks or files, as one row each: for people, who read pages and no lists.

Csv and json keep all rows. Knows the tables that repeat themselves, and no width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.ranks.same_gaps import group_same_gaps
from tracehound.analysis.result import Column, Result
from tracehound.draw.rank_groups import MANY_RANKS, RANKS_COLUMN, group_text, number_alike_ranks, ranks_cell
from tracehound.model.units import count_noun, format_count, join_some

FILES_COLUMN: Final = Column("files", "count", "files of which the row is")

_NAMED_FILES: Final = 2
"""Files after the first that a row names at most."""

TABLES_OF_RANKS: Final = (
    "overview", "breakdown", "duty_cycle", "steps", "step_time", "step_parts", "utilization", "memory", "kernel_types",
    "overlap", "async_overlap", "idle", "queue", "transfers", "slices", "distributed", "stragglers", "arrivals",
    "clocks",
)  # fmt: skip
"""Analyses with rows of single ranks, in which the rows of many ranks may be alike."""


def fold_rows(result: Result) -> Result:
    """The result with one row for what several ranks or files have in common; any other result as it is."""
    match result.analysis:
        case "gaps":
            return fold_gaps(result)
        case "health":
            return fold_messages(result)
        case name if name in TABLES_OF_RANKS:
            return fold_alike_ranks(result)
        case _:
            return result


def fold_alike_ranks(result: Result, compared: Sequence[Column] = ()) -> Result:
    """A table of more than `MANY_RANKS` ranks with one row for alike rows of several: its values are the first's.

    Alike are equal texts, shares within 2 points, and other numbers within 5 % (times also within 1 % of the longest)
    in the `compared` columns: if none are given, in all that do not say where a rank is or when something begins. The
    rows of a cut result are folded before the cut.
    """
    rows = result.uncut_table
    if "rank" not in _names_of(result.columns) or rows["rank"].drop_nulls().n_unique() <= MANY_RANKS:
        return result
    every = [
        column
        for column in result.columns
        if column.name not in ("rank", *_PLACE_COLUMNS) and column.unit not in ("instant", "id", "host")
    ]
    return _with_row_of_each_group(result, rows, group_alike_rows(rows, compared or every))


def group_alike_rows(rows: pl.DataFrame, compared: Sequence[Column]) -> list[list[int]]:
    """The numbers of alike rows, in the order of the first ones; at most one row of a rank in a group."""
    groups = (
        rows.select("rank", number_alike_ranks(rows, compared, widest=1))
        .with_row_index("row")
        .with_columns(
            pl.int_range(pl.len()).over("group", "rank").alias("nth"),
            pl.when(pl.col("rank").is_null()).then("row").alias("sum"),
        )
        .group_by("group", "nth", "sum", maintain_order=True)
        .agg("row")
    )
    return groups["row"].to_list()


_PLACE_COLUMNS: Final = ("host", "device")
"""Columns that say where a rank is."""


def _names_of(columns: Sequence[Column]) -> set[str]:
    return {column.name for column in columns}


def _with_row_of_each_group(result: Result, rows: pl.DataFrame, groups: list[list[int]]) -> Result:
    """The result with the first row of each group, and the ranks of all of them; no more rows than before.

    The table still has the rank of that row, which leads to its lane.
    """
    groups = groups[: result.table.height]
    if all(len(group) == 1 for group in groups):
        return result
    rank = rows["rank"].to_list()
    ranks = [None if rank[group[0]] is None else ranks_cell([rank[row] for row in group]) for group in groups]
    texts = [pl.Series("ranks", ranks, pl.String)]
    for column in result.columns:
        if column.name in _PLACE_COLUMNS and column.unit == "text":
            names = rows[column.name].fill_null("").to_list()
            cells = [group_text(column, [names[row] for row in group]) for group in groups]
            texts.append(pl.Series(column.name, cells, pl.String))
    table = rows[[group[0] for group in groups]].with_columns(texts)
    columns = tuple(
        replace(RANKS_COLUMN, null_text=column.null_text) if column.name == "rank" else column
        for column in result.columns
    )
    counted = sum(map(len, groups))
    of = f"{counted:,} of {result.total:,}" if counted < result.total else f"{counted:,}"
    return replace(
        result,
        columns=columns,
        table=table.select(*(column.name for column in columns), "rank"),
        all_rows=rows,
        rows_text=f"{count_noun(len(groups), 'group')} of ranks ({of} rows)",
    )


def fold_gaps(result: Result) -> Result:
    """Gaps with one row for the same gap on several ranks: its times and events are those of the first of its rows.

    The rows of a cut result are folded before the cut.
    """
    rows = result.uncut_table
    if not {"rank", "start", "duration", "why"} <= _names_of(result.columns):
        return result
    most = result.table.height if result.table.height < rows.height else None
    return _with_row_of_each_group(result, rows, group_same_gaps(rows, most))


def fold_messages(result: Result) -> Result:
    """Health with one row for a message that several files have: they count, and the first ones are named.

    Messages that differ in their numbers alone are one; its row has the numbers of the first file and the sum of the
    counts. The column of messages must have sentences. The rows of a cut result are folded before the cut.
    """
    table, names = result.uncut_table, _names_of(result.columns)
    if not {"level", "count", "what", "where"} <= names or "files" in names or table.is_empty():
        return result
    file = pl.col("where").str.split(", ").list.first().alias("file")
    without_numbers = pl.col("what").str.replace_all(_NUMBER, "0").alias("message")
    groups = (
        table.with_columns(file, without_numbers)
        .group_by("level", "message", maintain_order=True)
        .agg(pl.col("count").sum(), pl.col("what", "where").first(), pl.col("file").unique(maintain_order=True))
        .with_columns(pl.col("file").list.len().cast(pl.Int64).alias("files"))
    )
    if groups.height == table.height:
        return result
    where = [_places_text(first, files) for first, files in groups.select("where", "file").iter_rows()]
    columns = tuple(
        each for column in result.columns for each in ((column, FILES_COLUMN) if column.name == "count" else (column,))
    )
    folded = groups.with_columns(pl.Series("where", where, pl.String)).select(column.name for column in columns)
    total = groups.height if result.total == table.height else result.total
    cut = folded.head(result.table.height) if result.table.height < table.height else folded
    return replace(result, columns=columns, table=cut, total=total, all_rows=None)


_NUMBER: Final = r"[0-9][0-9,.]*"


def _places_text(first: str, files: list[str]) -> str:
    return f"{first}; also {join_some(files[1:], _NAMED_FILES)}" if len(files) > 1 else first


def occurrences_text(count: int, files: int) -> str:
    """Number of occurrences of a message of health: ``12``, ``12 in 3 files``, ``in 3 files``; "" for once."""
    number = format_count(count) if count > files else ""
    return " ".join(filter(None, (number, f"in {format_count(files)} files" if files > 1 else "")))
