"""Queries: a checked SQL statement over a trace, and its answer as a result like that of an analysis.

Owns the running of a query: events are read lazily, analyses run only when they are named, and the columns of the
answer get names and units. Knows no form of output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.analysis import ANALYSES, Options, run_analyses
from tracehound.analysis.result import HOST_ACTIVITY, Column, Result
from tracehound.analysis.timing import other_step_work
from tracehound.analysis.timing.device_clock import CLOCK_TOLERANCE
from tracehound.draw.notes import render_note_columns
from tracehound.errors import TracehoundError
from tracehound.model.notes import Note, note
from tracehound.model.old_names import CURRENT_NAMES, current_name
from tracehound.model.trace import Trace, Window, collect_streaming
from tracehound.query.answer_columns import answer_column_names, column_origins, count_columns
from tracehound.query.polars_errors import translate_polars_errors, unknown_table_name
from tracehound.query.sql_statement import SqlStatement, parse_statement
from tracehound.query.sql_tables import (
    ALL_TABLES,
    EVENTS_TABLE,
    WIDE_TYPE,
    SqlTable,
    analysis_frame,
    answer_column,
    empty_frame,
    frames_by_name,
    model_frames,
    refuse_unused_settings,
    table_with_settings,
)

RESULT_NAME = "query"
"""The name of the result, in place of an analysis's."""


class CheckedQuery(Struct, frozen=True):
    """A valid statement; `tables` are those that it names, in the order of `ALL_TABLES`."""

    statement: SqlStatement
    tables: tuple[SqlTable, ...]


def prepare_query(text: str, words: Sequence[str] = ()) -> CheckedQuery:
    """The query in a text, checked against the tables; no trace is needed.

    ``NAME=VALUE`` words choose settings of the analyses that it names, each of all that have one of its name, and
    ``ANALYSIS.NAME=VALUE`` of one alone. Raises TracehoundError with the error and its position, for everything that
    does not depend on the rows.
    """
    statement = parse_statement(text)
    there = {table.name: table for table in ALL_TABLES}
    needed: dict[str, SqlTable] = {}
    while True:
        with translate_polars_errors(statement):
            try:
                _query_frame(statement, [(table, empty_frame(table)) for table in needed.values()]).collect_schema()
                break
            except pl.exceptions.SQLInterfaceError as error:  # polars itself says which tables it needs
                name = current_name(unknown_table_name(str(error)).lower())
                if name not in there or name in needed:
                    raise
                needed[name] = table_with_settings(there[name], words)
    tables = tuple(needed[table.name] for table in ALL_TABLES if table.name in needed)
    refuse_unused_settings(tables, words)
    return CheckedQuery(statement, tables)


def answer_query(
    query: CheckedQuery,
    trace: Trace,
    window: Window | None = None,
    top: int | None = None,
    executor: Executor | None = None,
    collect: Callable[[pl.LazyFrame], pl.DataFrame] = collect_streaming,
) -> Result:
    """The answer in the window: at most `top` rows, and the number of all.

    No column of the result is hidden: ids are plain numbers. `collect` reads the rows. Raises TracehoundError for
    errors that depend on the rows.
    """
    window = window or Window()
    rows = _query_frame(query.statement, _frames_of_tables(query, trace, window, executor))
    with translate_polars_errors(query.statement):
        table = collect(rows if top is None else rows.head(top))
        cut = top is not None and table.height == top
        total = collect(rows.select(pl.len())).item() if cut else table.height
    table = table.select(map(_narrow_integers, table))
    names, counts = answer_column_names(query.statement, table.columns), count_columns(query.statement, table.columns)
    found = column_origins(query.statement, table.columns, [*CURRENT_NAMES, *(table.name for table in query.tables)])
    columns = [
        Column(name, "count", "") if at in counts else answer_column(name, kind, origin, query.tables)
        for at, (name, kind, origin) in enumerate(zip(names, table.dtypes, found, strict=True))
    ]
    table = _plain_types(table).rename(dict(zip(table.columns, names, strict=True)))
    return Result(
        analysis=RESULT_NAME,
        title="Query",
        columns=tuple(columns),
        table=table,
        total=total,
        notes=(
            *_setting_notes(query.tables),
            *_empty_column_notes(table),
            *_divided_time_notes(query.statement, columns),
            *_step_by_time_notes(query, trace, window, collect),
            *_two_clock_notes(query, trace, collect),
        ),
        window=window.clip_bounds(*trace.span) if window.limits_time else None,
    )


def _query_frame(statement: SqlStatement, tables: Iterable[tuple[SqlTable, pl.LazyFrame]]) -> pl.LazyFrame:
    """The rows of a statement over these tables, lazily."""
    names = {token.name for token in statement.tokens if token.kind in ("word", "quoted")}
    frames = dict[str, pl.LazyFrame]()
    for table, frame in tables:
        frames |= frames_by_name(table, frame, names)
    return pl.SQLContext(frames=frames, eager=False).execute(statement.sql)


def _frames_of_tables(
    query: CheckedQuery, trace: Trace, window: Window, executor: Executor | None
) -> list[tuple[SqlTable, pl.LazyFrame]]:
    """The tables that the query names, and their frames."""
    named = {table.name: table for table in query.tables}
    asked = [(each, Options(given=named[each.name].given)) for each in ANALYSES if each.name in named]
    results = map(render_note_columns, run_analyses(asked, trace, window, executor)) if asked else ()
    lazily = [(named[name], frame) for name, frame in model_frames(trace, window).items() if name in named]
    return [*lazily, *((named[each.analysis], analysis_frame(each, named[each.analysis])) for each in results)]


def _setting_notes(tables: Sequence[SqlTable]) -> list[Note]:
    """Notes about chosen settings of analyses."""
    return [
        note("query_setting_chosen", table=table.name, name=name, value=value)
        for table in tables
        for name, value in table.given
    ]


def _empty_column_notes(table: pl.DataFrame) -> list[Note]:
    """A note with the columns without any value: text output leaves them out."""
    blank = [name for name in table.columns if table.height and table[name].null_count() == table.height]
    return [note("columns_without_value", columns=tuple(blank))] if blank else []


def _divided_time_notes(statement: SqlStatement, columns: Sequence[Column]) -> list[Note]:
    """A note where a time is divided by a number that would turn picoseconds into another unit: it stays a time."""
    times = tuple(column.name for column in columns if column.unit == "time")
    return [note("times_divided", by=statement.time_divisor, columns=times)] if statement.time_divisor and times else []


def _step_by_time_notes(
    query: CheckedQuery, trace: Trace, window: Window, collect: Callable[[pl.LazyFrame], pl.DataFrame]
) -> list[Note]:
    """A note where the statement uses steps, and the step of some events is known by time alone; not with --step."""
    asks = EVENTS_TABLE in query.tables and any(token.name == "step" for token in query.statement.tokens)
    why = other_step_work.unknown_steps_note(trace, window, collect) if asks and window.steps is None else None
    return [] if why is None else [why]


def _two_clock_notes(query: CheckedQuery, trace: Trace, collect: Callable[[pl.LazyFrame], pl.DataFrame]) -> list[Note]:
    """A note where the statement uses times, and the lengths of events differ between trace and device clock."""
    asks = EVENTS_TABLE in query.tables and any(token.name in _TIME_COLUMNS for token in query.statement.tokens)
    if not asks or not any(part.format in _FORMATS_WITH_DEVICE_CLOCK for part in trace.parts):
        return []
    devices = trace.lanes.filter(pl.col("rank").is_not_null())["lane"].to_list()
    events = trace.events(devices).drop_nulls("device_start")
    own, traced = pl.col("device_end") - pl.col("device_start"), pl.col("end") - pl.col("start")
    far, every = collect(
        events.select(((own - traced).abs() > CLOCK_TOLERANCE * traced).sum(), pl.len().alias("all"))
    ).row(0)
    return [note("events_of_two_lengths", events=far, of=every)] if far else []


_TIME_COLUMNS: Final = ("duration", "start")
"""Columns with times of events; ``end`` is also a keyword of SQL."""

_FORMATS_WITH_DEVICE_CLOCK: Final = ("xplane", "chrome")
"""Formats that may have the clocks of devices."""


def _plain_types(table: pl.DataFrame) -> pl.DataFrame:
    """The rows with types that every form can write: times in ps, other special types as text."""
    return table.select(_plain_expression(name, kind) for name, kind in table.schema.items())


def _narrow_integers(value: pl.Series) -> pl.Series:
    """Wide whole numbers in 64 bits; if one does not fit, the nearest floating point numbers."""
    if value.dtype != WIDE_TYPE:
        return value
    fits = value.cast(pl.Int64, strict=False)
    return fits if fits.null_count() == value.null_count() else value.cast(pl.Float64)


def _plain_expression(name: str, kind: pl.DataType) -> pl.Expr:
    """A column as a plain type."""
    value = pl.col(name)
    match kind:
        case pl.Duration():
            return value.cast(pl.Int64)
        case pl.Decimal():
            return value.cast(pl.Float64)
        case pl.List(inner=inner) if kind != HOST_ACTIVITY:
            parts = value.cast(pl.List(pl.Int64)) if isinstance(inner, pl.Duration) else value
            return parts.cast(pl.List(pl.String)).list.join(", ", ignore_nulls=False)
        case pl.Binary():
            return value.bin.encode("hex")
        case pl.Struct():
            raise TracehoundError(f"column {name!r} is not a single value", where="query", remedy="select its fields")
        case _ if kind.is_temporal() or kind == pl.Null:
            return value.cast(pl.String)
        case _:
            return value
