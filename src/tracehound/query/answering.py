"""A statement and a trace -> a result, as an analysis gives one.

Owns the running of a query: which tables it needs, that events are read lazily and analyses made only when they are
named, and what the columns of the answer are. Knows no face.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.analysis import ANALYSES, Options, run_all
from tracehound.analysis.events.own_clock import APART
from tracehound.analysis.result import COVER, Column, Result
from tracehound.analysis.spans import other_steps
from tracehound.draw.notes import with_sentences
from tracehound.errors import TracehoundError
from tracehound.notes import Note, note
from tracehound.query.names import called, counted
from tracehound.query.origins import origins
from tracehound.query.refusal import missing, refusals
from tracehound.query.statement import Statement, read
from tracehound.query.tables import EVENTS, TABLES, WIDE, Table, analysed, column, empty, frames, refuse_idle, settled
from tracehound.trace import Trace, Window, streamed

NAME = "query"
"""What stands in a result for the name of an analysis."""


class Query(Struct, frozen=True):
    """A statement that means something: `tables` are those that it names, in the order of `TABLES`."""

    statement: Statement
    tables: tuple[Table, ...]


def prepare(text: str, words: Sequence[str] = ()) -> Query:
    """The query that a person wrote, checked against the tables; no trace is needed.

    ``NAME=VALUE`` words choose settings of the analyses that it names, each of all that have one of its name, and
    ``ANALYSIS.NAME=VALUE`` of one alone. Raises TracehoundError, which says what is wrong and where, for everything but
    what depends on the rows.
    """
    statement = read(text)
    there = {table.name: table for table in TABLES}
    needed: dict[str, Table] = {}
    while True:
        with refusals(statement):
            try:
                _queried(statement, {name: empty(table) for name, table in needed.items()}).collect_schema()
                break
            except pl.exceptions.SQLInterfaceError as error:  # polars itself says which tables it needs
                name = missing(str(error)).lower()
                if name not in there or name in needed:
                    raise
                needed[name] = settled(there[name], words)
    tables = tuple(needed[table.name] for table in TABLES if table.name in needed)
    refuse_idle(tables, words)
    return Query(statement, tables)


def answer(
    query: Query,
    trace: Trace,
    window: Window | None = None,
    top: int | None = None,
    executor: Executor | None = None,
    collect: Callable[[pl.LazyFrame], pl.DataFrame] = streamed,
) -> Result:
    """What the query finds in the window: at most `top` rows, and how many there are in all.

    A result in which no column is hidden: ids are plain numbers. `collect` says how the rows are read. Raises
    TracehoundError when the rows do not allow it.
    """
    window = window or Window()
    rows = _queried(query.statement, _tables(query, trace, window, executor))
    with refusals(query.statement):
        table = collect(rows if top is None else rows.head(top))
        cut = top is not None and table.height == top
        total = collect(rows.select(pl.len())).item() if cut else table.height
    table = table.select(map(_narrow, table))
    names, counts = called(query.statement, table.columns), counted(query.statement, table.columns)
    found = origins(query.statement, table.columns, [table.name for table in query.tables])
    columns = [
        Column(name, "count", "") if at in counts else column(name, kind, origin, query.tables)
        for at, (name, kind, origin) in enumerate(zip(names, table.dtypes, found, strict=True))
    ]
    table = _raw(table).rename(dict(zip(table.columns, names, strict=True)))
    return Result(
        analysis=NAME,
        title="Query",
        columns=tuple(columns),
        table=table,
        total=total,
        notes=(
            *_chosen(query.tables),
            *_notes(table),
            *_converted(query.statement, columns),
            *_by_time(query, trace, window, collect),
            *_by_clock(query, trace, collect),
        ),
        window=window.within(*trace.span) if window.timed else None,
    )


def _queried(statement: Statement, tables: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
    """The rows of a statement over these tables, lazily."""
    return pl.SQLContext(frames=dict(tables), eager=False).execute(statement.sql)


def _tables(query: Query, trace: Trace, window: Window, executor: Executor | None) -> dict[str, pl.LazyFrame]:
    """The tables that the query names."""
    named = {table.name: table for table in query.tables}
    asked = [(each, Options(given=named[each.name].given)) for each in ANALYSES if each.name in named]
    results = map(with_sentences, run_all(asked, trace, window, executor)) if asked else ()
    lazily = {name: frame for name, frame in frames(trace, window).items() if name in named}
    return {**lazily, **{result.analysis: analysed(result, named[result.analysis]) for result in results}}


def _chosen(tables: Sequence[Table]) -> list[Note]:
    """The settings that were chosen of analyses."""
    return [
        note("query_setting_chosen", table=table.name, name=name, value=value)
        for table in tables
        for name, value in table.given
    ]


def _notes(table: pl.DataFrame) -> list[Note]:
    """Columns without any value are named: text leaves them out."""
    blank = [name for name in table.columns if table.height and table[name].null_count() == table.height]
    return [note("columns_without_value", columns=tuple(blank))] if blank else []


def _converted(statement: Statement, columns: Sequence[Column]) -> list[Note]:
    """That times stay times, where somebody divided by what would make another unit of picoseconds."""
    times = tuple(column.name for column in columns if column.unit == "time")
    return [note("times_divided", by=statement.converts, columns=times)] if statement.converts and times else []


def _by_time(query: Query, trace: Trace, window: Window, collect: Callable[[pl.LazyFrame], pl.DataFrame]) -> list[Note]:
    """That the step of some events is known by time alone, where the statement asks for it; of --step more is said."""
    asks = EVENTS in query.tables and any(token.name == "step" for token in query.statement.tokens)
    why = other_steps.unknown(trace, window, collect) if asks and window.steps is None else None
    return [] if why is None else [why]


def _by_clock(query: Query, trace: Trace, collect: Callable[[pl.LazyFrame], pl.DataFrame]) -> list[Note]:
    """That events have two lengths, where the statement asks for when they are, and the two clocks are apart."""
    asks = EVENTS in query.tables and any(token.name in _TIMES for token in query.statement.tokens)
    if not asks or not any(part.format in _CLOCKED for part in trace.parts):
        return []
    devices = trace.lanes.filter(pl.col("rank").is_not_null())["lane"].to_list()
    events = trace.events(devices).drop_nulls("device_start")
    own, traced = pl.col("device_end") - pl.col("device_start"), pl.col("end") - pl.col("start")
    far, every = collect(events.select(((own - traced).abs() > APART * traced).sum(), pl.len().alias("all"))).row(0)
    return [note("events_of_two_lengths", events=far, of=every)] if far else []


_TIMES: Final = ("duration", "start")
"""Columns that say when events are; ``end`` is a word of SQL, too."""

_CLOCKED: Final = ("xplane", "chrome")
"""Formats that may have the clocks of devices."""


def _raw(table: pl.DataFrame) -> pl.DataFrame:
    """The rows with types that every form can write: times in ps, what has no plain type as text."""
    return table.select(_plain(name, kind) for name, kind in table.schema.items())


def _narrow(value: pl.Series) -> pl.Series:
    """Wide whole numbers in 64 bits, or where one is too large for them, as the nearest ones with a fraction."""
    if value.dtype != WIDE:
        return value
    fits = value.cast(pl.Int64, strict=False)
    return fits if fits.null_count() == value.null_count() else value.cast(pl.Float64)


def _plain(name: str, kind: pl.DataType) -> pl.Expr:
    value = pl.col(name)
    match kind:
        case pl.Duration():
            return value.cast(pl.Int64)
        case pl.Decimal():
            return value.cast(pl.Float64)
        case pl.List(inner=inner) if kind != COVER:
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
