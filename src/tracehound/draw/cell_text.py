"""Text of one value of a result, for panes and reports.

Defines the format of each unit, the alignment of columns, and which columns are brief. Has no widths and no colors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import TEXT_UNITS, Column, Result, Unit, depth_column
from tracehound.errors import printable
from tracehound.model import short_names, units
from tracehound.model.units import count_noun

NO_VALUE = "–"
"""Text of a cell without a value."""

MOST_COMPARED_ROWS: Final = 20_000
"""Rows compared by their names, at most: comparing more would delay each key press."""

SHARED_NAME_LIMIT: Final = 20
"""Another column must tell rows apart once more than one row in so many shares its name with another row."""

AMOUNT_UNITS: Final[tuple[Unit, ...]] = (
    "time", "bytes", "rate", "flops", "share", "count", "decimal", "difference", "growth",
)  # fmt: skip
"""Units of numbers that say how much."""

IDENTIFYING_COLUMNS: Final = ("rank", "step", "ordinal")
"""Columns whose numbers identify a row and are no amounts."""

MOST_HOST_THREADS = 4
"""Host threads, or thread pools, listed per gap at most."""


def format_cell(column: Column, value: object, unit: units.TimeUnit = "auto") -> str:
    """The text of `value`, on one line and safe to print; `unit` is for times.

    None, NaN and an empty list become ``–``. An `id` has no text.
    """
    if column.unit == "id":
        return ""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return column.null_text or NO_VALUE
    if column.unit == "flag":
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _format_number(column.unit, value, unit)
    if column.unit == "host":
        return "; ".join(format_host_activity(value)) or NO_VALUE
    return printable(str(value)) or NO_VALUE


def column_alignment(column: Column) -> Literal["left", "right"]:
    """Right for numbers, left for text."""
    return "left" if column.unit in (*TEXT_UNITS, "flag", "host") else "right"


def column_heading(column: Column) -> str:
    """The column name with spaces for underscores. Printable, since the user of a query can choose any name."""
    return printable(column.name.replace("_", " "))


def columns_without_ids(result: Result) -> tuple[Column, ...]:
    """All columns but those of ids."""
    return tuple(column for column in result.columns if column.unit != "id")


def readable_columns(result: Result) -> tuple[Column, ...]:
    """The columns that people read. The depth in a tree is not one of them: the indentation of names shows it."""
    return tuple(column for column in columns_without_ids(result) if column.unit != "depth")


def columns_with_values(columns: Sequence[Column], table: pl.DataFrame) -> tuple[Column, ...]:
    """The columns with a value in at least one row; all columns if none has a value or there are no rows."""
    return tuple(c for c in columns if table[c.name].null_count() < table.height) or tuple(columns)


def is_amount(column: Column) -> bool:
    """True for a column of numbers that are amounts."""
    return column.unit in AMOUNT_UNITS and column.name not in IDENTIFYING_COLUMNS


def is_all_zero(column: Column, values: pl.Series) -> bool:
    """True for a column of amounts that are zero or null in all rows. Such a column is hidden first."""
    return is_amount(column) and bool((values.fill_null(0) == 0).all())


def mark_large_times_brief(columns: Sequence[Column], table: pl.DataFrame) -> tuple[Column, ...]:
    """The columns, with `brief` set for parts of a time that are a large fraction of their sum in these rows.

    `brief` is cleared for parts that are a negligible fraction; the other columns keep it as it is.
    """
    times = {column.name: float(table[column.name].sum()) for column in columns if column.is_part}
    total = sum(times.values())
    if not total:
        return tuple(columns)
    large = {name for name, time in times.items() if time >= LARGE_FRACTION * total}
    small = {name for name, time in times.items() if 0 < time < SMALL_FRACTION * total}
    return tuple(
        replace(column, brief=(column.brief or column.name in large) and column.name not in small) for column in columns
    )


LARGE_FRACTION: Final = 0.05
SMALL_FRACTION: Final = 0.001
"""A part of a time is large from the first fraction on, and negligible below the second."""


def mark_distinguishing_column_brief(columns: Sequence[Column], table: pl.DataFrame) -> tuple[Column, ...]:
    """The columns, with `brief` set for one text column that tells apart rows with the same name.

    A column that was not brief moves behind the name, so that it stays visible. The choice is the text column that,
    with the name, has the most distinct values in the first rows; columns marked `found` are left out. Nothing changes
    if few rows share a name, or in a tree, whose branches tell rows apart.
    """
    rows = table.head(MOST_COMPARED_ROWS)
    texts = [column for column in columns if column.unit == "text" and column.name != "name" and not column.non_key]
    has_names = any(column.name == "name" for column in columns) and depth_column(columns) is None
    different = rows["name"].n_unique() if has_names else rows.height
    if (rows.height - different) * SHARED_NAME_LIMIT <= rows.height or not texts:
        return tuple(columns)
    pairs = {c.name: rows.select(pl.struct("name", c.name).n_unique()).item() for c in texts}
    best = max(texts, key=lambda column: pairs[column.name])
    if best.brief or pairs[best.name] == different:
        return tuple(columns)
    others = [column for column in columns if column is not best]
    position = 1 + next((at for at, column in enumerate(others) if column.name == "name"), -1)
    return (*others[:position], replace(best, brief=True), *others[position:])


def format_column(result: Result, column: Column, unit: units.TimeUnit = "auto") -> list[str]:
    """The cells of one column of a result, from top to bottom."""
    return [format_cell(column, value, unit) for value in result.table[column.name].to_list()]


def describe_share_bases(columns: Sequence[Column]) -> list[str]:
    """The base of every share, one line for each base: ``share: % of the self time of all ops``."""
    bases: dict[str, list[str]] = {}
    for column in columns:
        if column.unit == "share" and column.base:
            bases.setdefault(column.base, []).append(column_heading(column))
    return [f"{', '.join(names)}: % of {base}" for base, names in bases.items()]


def common_share_base(result: Result) -> str:
    """The base that all shares of a table have, for its title: ``% of the span``. Empty if they have several.

    A base that differs from row to row is in the column `BASE_COLUMN`.
    """
    if not result.table.height:
        return ""
    if any(column.name == BASE_COLUMN and column.unit == "text" for column in result.columns):
        values = result.table[BASE_COLUMN].drop_nulls().unique().to_list()
        return f"% of {_BASE_NAMES.get(values[0], f'the {values[0]}')}" if len(values) == 1 else ""
    columns = columns_with_values(result.columns, result.table)
    bases = describe_share_bases(columns)
    if len(bases) != 1:
        return ""
    shares = [column for column in columns if column.unit == "share" and column.base]
    return bases[0] if len(shares) == 1 else f"% of {shares[0].base}"


BASE_COLUMN: Final = "share_of"
"""The column that names the base of each row's share."""

_BASE_NAMES: Final = {"step": "step time"}
"""Bases whose names in a title are not those in a cell."""


def several_share_bases(columns: Sequence[Column]) -> list[str]:
    """The bases of shares, if they have several."""
    bases = describe_share_bases(columns)
    return bases if len(bases) > 1 else []


def drop_common_base_column(result: Result) -> Result:
    """The result without the column that names the base of each row, if all rows have the one in the title."""
    if BASE_COLUMN not in result.table.columns or not common_share_base(result).startswith("% of "):
        return result
    columns = tuple(column for column in result.columns if column.name != BASE_COLUMN)
    return replace(result, columns=columns, table=result.table.drop(BASE_COLUMN))


def format_host_activity(value: object, width: int = 0) -> list[str]:
    """The activity of host threads, for a value of a `host` column: ``python: aten::addmm 62 %, aten::t 8 %``.

    One line for each of the `MOST_HOST_THREADS` busiest threads. Threads of one pool with the same activity share a
    line, with their number and the largest share. With `width`, event names are shortened so that a line fits if
    possible.
    """
    found = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    threads: dict[str, list[Mapping[str, Any]]] = {}
    for cover in found:
        threads.setdefault(cover["thread"], []).append(cover)
    pools: dict[tuple[str, str], list[str]] = {}
    for thread, events in threads.items():
        pools.setdefault((short_names.thread_pool_name(thread), events[0]["event"]), []).append(thread)
    lines = []
    for (pool, _), members in list(pools.items())[:MOST_HOST_THREADS]:
        if len(members) == 1:
            lines.append(_format_thread(printable(members[0]), threads[members[0]], width))
        else:
            most = max((threads[member][0] for member in members), key=lambda cover: float(cover["share"]))
            lines.append(_format_thread(f"{printable(pool)} ×{len(members)}", [most], width, "up to "))
    left = sum(map(len, list(pools.values())[MOST_HOST_THREADS:]))
    return [*lines, f"{count_noun(left, 'more thread')}"] if left else lines


def _format_thread(name: str, events: Sequence[Mapping[str, Any]], width: int, about: str = "") -> str:
    """One line: the thread, and each event with its share. The names of events divide the remaining width.

    If that is too little for all events, the last ones are left out, so that no share is cut off.
    """
    name = short_names.cut_middle(name, max(20, width // 3)) if width else name
    spare = width - len(name) - len(events) * len(f"{about}, 100 %") - 1
    least = _SHORTEST_EVENT_NAME if len(events) > 1 else 1
    room = max(least, spare // len(events)) if width else 0
    did = [f"{_format_host_event(e, room)} {about}{e['share'] * 100:.0f} %" for e in events]
    line = f"{name}: {', '.join(did)}"
    return _format_thread(name, events[:-1], width, about) if width and len(line) > width and len(events) > 1 else line


_SHORTEST_EVENT_NAME: Final = 16
"""Event names are not cut below this length, in characters, while an event can be left out instead."""


def _format_host_event(cover: Mapping[str, Any], room: int) -> str:
    """The event, after the annotation around it if both fit: ``load_batch: sleep``."""
    event = short_names.shorten_kernel_name(cover["event"], room)
    inside = printable(cover["inside"] or "")
    return f"{inside}: {event}" if inside and (not room or len(inside) + 2 + len(event) <= room) else event


def _format_number(kind: Unit, value: float, unit: units.TimeUnit) -> str:
    if kind in _TIME_FORMATS:
        return _TIME_FORMATS[kind](round(value), unit)
    if kind in _NUMBER_FORMATS:
        return _NUMBER_FORMATS[kind](value)
    return units.format_count(value) if isinstance(value, int) else f"{value:,.2f}"


_TIME_FORMATS: Final[Mapping[Unit, Callable[[int, units.TimeUnit], str]]] = {
    "time": partial(units.format_duration, digits=units.CELL_DIGITS),
    "instant": units.format_instant,
    "difference": partial(units.format_time_difference, digits=units.CELL_DIGITS),
}

_NUMBER_FORMATS: Final[Mapping[Unit, Callable[[float], str]]] = {
    "bytes": units.format_bytes,
    "rate": units.format_bandwidth,
    "flops": units.format_flops,
    "share": partial(units.format_share, digits=units.CELL_DIGITS),
    "growth": partial(units.format_growth, digits=units.CELL_DIGITS),
    "number": units.format_number,
}


def naming_column(columns: Sequence[Column], distinct: Mapping[str, int]) -> str:
    """The name of the column that identifies a row: `name`, else the text column with the most distinct values.

    Columns that are not brief (an address) count only if no text column is brief. Empty if there is no text column.
    `distinct` has the number of distinct values of each column.
    """
    texts = [column for column in columns if column.unit == "text"]
    if any(column.name == "name" for column in texts):
        return "name"
    telling = [column.name for column in texts if column.brief] or [column.name for column in texts]
    return max(telling, key=lambda name: distinct[name], default="")
