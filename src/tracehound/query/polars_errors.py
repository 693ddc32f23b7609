"""Errors of polars about a statement, translated to one line for the user.

Owns the messages and the hints. Knows no trace.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

import polars as pl

from tracehound.errors import TracehoundError
from tracehound.model.old_names import current_name
from tracehound.query.sql_statement import TABLES_COMMAND as LISTING
from tracehound.query.sql_statement import SqlStatement
from tracehound.query.sql_tables import ALL_TABLES, SqlTable

MAX_LISTED_NAMES: Final = 12
"""Up to so many names are listed where none is near; otherwise the hint points to the list of tables."""

_SYNTAX_ERROR = re.compile(r"sql parser error: (?P<what>.*?)(?: at Line: (?P<line>\d+), Column: (?P<column>\d+))?")
_UNKNOWN_COLUMN = re.compile(r'unable to find column "(?P<name>[^"]*)"; valid columns: \[(?P<there>.*)\]')
_UNKNOWN_COLUMN_OF_TABLE = re.compile(r"no column named '(?P<name>.*)' found in table '(?P<table>.*)'")
_UNKNOWN_TABLE = re.compile(r"relation '(?P<name>.*)' was not found")
_UNKNOWN_ALIAS = re.compile(r"no table or struct column named '(?P<name>.*)' found")
_QUALIFIED_NAME = re.compile(r"'(?P<name>\w+):(?P<table>\w+)'")
_UNKNOWN_FUNCTION = re.compile(r"unsupported function '(?P<name>.*)'")
_TOO_MANY_ROWS = re.compile(r"2\^32|maximum length reached|big-?idx|rt64", re.IGNORECASE)
_REGEX_ERROR = re.compile(r"regex error: .*?\nerror: (?P<what>[^\n]*)", re.DOTALL)

_MAX_ROWS: Final = (1 << 32) - 1
"""Rows of the longest table that polars can hold."""

_COLUMN_SYNONYMS = MappingProxyType(
    {"ts": "start", "dur": "duration", "tid": "lane", "pid": "host", "cat": "kind", "category": "kind", "time": "start"}
)
"""Names of event columns in other tools."""

_SPREAD_OF_TIMES = re.compile(r"`(?P<what>std|var)` operation not supported for dtype `time`")
_SPREAD_FUNCTIONS = MappingProxyType({"std": "stddev", "var": "variance"})
"""SQL names of the measures of spread, which polars computes for numbers only."""

SQL_FUNCTIONS: Final = (
    *("abs", "avg", "cbrt", "ceil", "coalesce", "concat", "concat_ws", "corr", "count", "covar", "date", "dense_rank"),
    *("ends_with", "exp", "first", "first_value", "floor", "greatest", "if", "ifnull", "initcap", "lag", "last"),
    *("last_value", "lead", "least", "left", "length", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "median"),
    *("min", "mod", "nullif", "pow", "quantile_cont", "quantile_disc", "rank", "regexp_like", "regexp_replace"),
    *("replace", "reverse", "right", "round", "row_number", "rtrim", "sign", "split_part", "sqrt", "starts_with"),
    *("stddev", "string_agg", "strpos", "substr", "sum", "trim", "upper", "variance"),
)
"""Functions of polars that measure, count and cut text; polars itself lists none."""

_PERCENTILE_FUNCTION = re.compile(r"p(?P<part>[1-9][0-9])|.*(quantile|percentile).*")
FUNCTION_SYNONYMS = MappingProxyType(
    {"mean": "avg", "std": "stddev", "var": "variance", "len": "length", "instr": "strpos", "countif": "count"}
)
"""Names of functions in other databases."""

_POLARS_TIME_TYPES = ("duration[μs]", "Duration('μs')")
"""Names of the time type in messages of polars."""

_POLARS_NUMBER_TYPES = re.compile(r"\b(?:dyn (?:int|float)|[iuf]\d+)\b")
"""Names of number types in messages of polars."""


@contextmanager
def translate_polars_errors(statement: SqlStatement) -> Iterator[None]:
    """A context in which errors of polars become TracehoundError; an overflow of the memory stays as it is."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise translate_error(statement, str(error)) from error


def find_table(name: str) -> SqlTable:
    """The table with this name; TracehoundError with the nearest one when there is none."""
    for table in ALL_TABLES:
        if table.name == current_name(name):
            return table
    raise TracehoundError(f"no table {name!r}", remedy=_name_hint(name, [table.name for table in ALL_TABLES]))


def unknown_table_name(message: str) -> str:
    """The unknown table in a message of polars; empty for other messages."""
    found = _UNKNOWN_TABLE.fullmatch(_first_line(message))
    return found["name"] if found else ""


def translate_error(statement: SqlStatement, message: str) -> TracehoundError:
    """The error for a message of polars."""
    line = _first_line(message)
    if found := _SYNTAX_ERROR.fullmatch(line):
        where = statement.position_in_text(int(found["line"]), int(found["column"])) if found["line"] else "query"
        what = found["what"].replace("Expected:", "expected").replace("found: EOF", "but it ends").replace(": ", " ")
        return TracehoundError(what, where=where, remedy="see tracehound query --help")
    if found := _REGEX_ERROR.search(message):
        return TracehoundError(f"not a regular expression: {found['what']}", where="query")
    if _TOO_MANY_ROWS.search(message):
        what = f"on the way to the answer there are more than {_MAX_ROWS:,} rows"
        return TracehoundError(what, where="query", remedy="join tables ON what they share, or take fewer rows of each")
    return _unknown_name_error(statement, line) or _generic_error(line)


def _unknown_name_error(statement: SqlStatement, line: str) -> TracehoundError | None:
    """The error for an unknown name, where the message is about one."""
    if found := _UNKNOWN_TABLE.fullmatch(line):
        return _no_table_error(statement, found["name"])
    if found := _UNKNOWN_COLUMN.fullmatch(line):
        return _no_column_error(statement, found["name"], re.findall(r'"([^"]*)"', found["there"]))
    if found := _UNKNOWN_COLUMN_OF_TABLE.fullmatch(line):
        table = current_name(found["table"].lower())
        there = [column.name for t in ALL_TABLES if t.name == table for column in t.columns]
        return _no_column_error(statement, found["name"], there)
    if found := _UNKNOWN_FUNCTION.fullmatch(line):
        return _no_function_error(statement, found["name"])
    if found := _UNKNOWN_ALIAS.fullmatch(line):
        return TracehoundError(
            f"no table {found['name']!r} in this query", where=statement.position_of_word(found["name"])
        )
    return None


def _generic_error(line: str) -> TracehoundError:
    """The error in polars' own words, with plain words for the types of times and numbers."""
    about_times = any(theirs in line for theirs in _POLARS_TIME_TYPES)
    for theirs in _POLARS_TIME_TYPES:
        line = line.replace(theirs, "time")
    if about_times:
        line = _POLARS_NUMBER_TYPES.sub("number", line)
    line = _QUALIFIED_NAME.sub(r"'\g<table>.\g<name>'", line)
    if found := _SPREAD_OF_TIMES.fullmatch(line):
        name = _SPREAD_FUNCTIONS[found["what"]]
        return TracehoundError(
            f"no {name} of times", where="query", remedy=f"take that of numbers: {name}(duration / 1us)"
        )
    if "unknown type" in line:
        remedy = "a time cannot be mixed with a plain number: write 0ms"
    elif not about_times:
        remedy = ""
    elif "String" in line or "str" in line:
        remedy = "write a time as a number and a unit without quotes: 1.5ms"
    else:
        remedy = "divide a time by a unit to get a number: duration / 1us"
    return TracehoundError(line, where="query", remedy=remedy)


def _first_line(message: str) -> str:
    """The first line of a message."""
    return message.strip().split("\n", 1)[0].strip()


def _no_table_error(statement: SqlStatement, name: str) -> TracehoundError:
    """The error for an unknown table."""
    return TracehoundError(
        f"no table {name!r}",
        where=statement.position_of_word(name) or "query",
        remedy=_name_hint(name, [table.name for table in ALL_TABLES]),
    )


def _no_column_error(statement: SqlStatement, name: str, there: Sequence[str]) -> TracehoundError:
    """The error for an unknown column."""
    where = statement.position_of_word(name) or "query"
    if any(token.kind == "quoted" and token.name == name.lower() for token in statement.tokens) and not _nearest_name(
        name, there
    ):
        return TracehoundError(f"no column {name!r}", where=where, remedy=f"text stands in single quotes: '{name}'")
    return TracehoundError(f"no column {name!r}", where=where, remedy=_name_hint(name, there))


def _no_function_error(statement: SqlStatement, name: str) -> TracehoundError:
    """The error for an unknown function, with the SQL form of a percentile for a name like p99."""
    word = name.lower()
    if found := _PERCENTILE_FUNCTION.fullmatch(word):
        remedy = f"did you mean quantile_cont(duration, 0.{found['part'] or '99'})?"
    elif word in FUNCTION_SYNONYMS:
        remedy = f"did you mean {FUNCTION_SYNONYMS[word]}?"
    else:
        near = _nearest_name(word, SQL_FUNCTIONS)
        remedy = f"did you mean {near}?" if near else "polars' SQL reference lists them"
    return TracehoundError(f"no function {name!r}", where=statement.position_of_word(name) or "query", remedy=remedy)


def _name_hint(name: str, there: Sequence[str]) -> str:
    """A hint with the nearest name, or with all names."""
    near = _nearest_name(name, there)
    if near:
        return f"did you mean {near}?"
    return f"there are {', '.join(there)}" if 0 < len(there) <= MAX_LISTED_NAMES else f"{LISTING} lists them"


def _nearest_name(name: str, there: Sequence[str]) -> str:
    """The name that was probably meant, if any: by another tool's name for it, by its beginning, by its letters."""
    word = name.lower()
    if _COLUMN_SYNONYMS.get(word) in there:
        return _COLUMN_SYNONYMS[word]
    begun = [other for other in there if len(word) > 1 and (other.startswith(word) or word.startswith(other))]
    return next(iter([*begun, *difflib.get_close_matches(word, there, 1)]), "")
