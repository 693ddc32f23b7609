"""What polars says of a statement that it cannot run -> one line for the person who wrote it.

Owns the words and the hints. Knows no trace.
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
from tracehound.query.statement import TABLES as LISTING
from tracehound.query.statement import Statement
from tracehound.query.tables import TABLES, Table

SHOWN: Final = 12
"""So many names are listed where none is near; of more the reader is sent to the list of tables."""

_SYNTAX = re.compile(r"sql parser error: (?P<what>.*?)(?: at Line: (?P<line>\d+), Column: (?P<column>\d+))?")
_COLUMN = re.compile(r'unable to find column "(?P<name>[^"]*)"; valid columns: \[(?P<there>.*)\]')
_OF_TABLE = re.compile(r"no column named '(?P<name>.*)' found in table '(?P<table>.*)'")
_RELATION = re.compile(r"relation '(?P<name>.*)' was not found")
_ALIAS = re.compile(r"no table or struct column named '(?P<name>.*)' found")
_QUALIFIED = re.compile(r"'(?P<name>\w+):(?P<table>\w+)'")
_FUNCTION = re.compile(r"unsupported function '(?P<name>.*)'")
_TOO_LONG = re.compile(r"2\^32|maximum length reached|big-?idx|rt64", re.IGNORECASE)
_PATTERN = re.compile(r"regex error: .*?\nerror: (?P<what>[^\n]*)", re.DOTALL)

_MOST: Final = (1 << 32) - 1
"""Rows of the longest table that polars can hold."""

_ELSEWHERE = MappingProxyType(
    {"ts": "start", "dur": "duration", "tid": "lane", "pid": "host", "cat": "kind", "category": "kind", "time": "start"}
)
"""What other tools call the columns of events."""

_SPREAD = re.compile(r"`(?P<what>std|var)` operation not supported for dtype `time`")
_SPREADS = MappingProxyType({"std": "stddev", "var": "variance"})
"""What measures spread, which polars has for numbers alone, and how that is called in SQL."""

FUNCTIONS: Final = (
    *("abs", "avg", "cbrt", "ceil", "coalesce", "concat", "concat_ws", "corr", "count", "covar", "date", "dense_rank"),
    *("ends_with", "exp", "first", "first_value", "floor", "greatest", "if", "ifnull", "initcap", "lag", "last"),
    *("last_value", "lead", "least", "left", "length", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "median"),
    *("min", "mod", "nullif", "pow", "quantile_cont", "quantile_disc", "rank", "regexp_like", "regexp_replace"),
    *("replace", "reverse", "right", "round", "row_number", "rtrim", "sign", "split_part", "sqrt", "starts_with"),
    *("stddev", "string_agg", "strpos", "substr", "sum", "trim", "upper", "variance"),
)
"""Functions that polars has and that measure, count and cut text; it names none itself."""

_PERCENTILE = re.compile(r"p(?P<part>[1-9][0-9])|.*(quantile|percentile).*")
CALLED_ELSEWHERE = MappingProxyType(
    {"mean": "avg", "std": "stddev", "var": "variance", "len": "length", "instr": "strpos", "countif": "count"}
)
"""What other databases call functions."""

_TIMES = ("duration[μs]", "Duration('μs')")
"""How polars calls the type of times."""

_NUMBERS = re.compile(r"\b(?:dyn (?:int|float)|[iuf]\d+)\b")
"""How polars calls those of numbers."""


@contextmanager
def refusals(statement: Statement) -> Iterator[None]:
    """A context in which polars' errors become ours; an overflow of the machine's memory stays what it is."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refusal(statement, str(error)) from error


def named(name: str) -> Table:
    """The table of that name; TracehoundError with the nearest one when there is none."""
    for table in TABLES:
        if table.name == name:
            return table
    raise TracehoundError(f"no table {name!r}", remedy=_hint(name, [table.name for table in TABLES]))


def missing(message: str) -> str:
    """The table that polars says it does not know; empty when it says something else."""
    found = _RELATION.fullmatch(_first_line(message))
    return found["name"] if found else ""


def refusal(statement: Statement, message: str) -> TracehoundError:
    """The error for what polars said."""
    line = _first_line(message)
    if found := _SYNTAX.fullmatch(line):
        where = statement.place_of(int(found["line"]), int(found["column"])) if found["line"] else "query"
        what = found["what"].replace("Expected:", "expected").replace("found: EOF", "but it ends").replace(": ", " ")
        return TracehoundError(what, where=where, remedy="see tracehound query --help")
    if found := _PATTERN.search(message):
        return TracehoundError(f"not a regular expression: {found['what']}", where="query")
    if _TOO_LONG.search(message):
        what = f"on the way to the answer there are more than {_MOST:,} rows"
        return TracehoundError(what, where="query", remedy="join tables ON what they share, or take fewer rows of each")
    return _unknown(statement, line) or _other(line)


def _unknown(statement: Statement, line: str) -> TracehoundError | None:
    """The error for a name that means nothing, where that is what polars said."""
    if found := _RELATION.fullmatch(line):
        return _no_table(statement, found["name"])
    if found := _COLUMN.fullmatch(line):
        return _no_column(statement, found["name"], re.findall(r'"([^"]*)"', found["there"]))
    if found := _OF_TABLE.fullmatch(line):
        there = [column.name for t in TABLES if t.name == found["table"].lower() for column in t.columns]
        return _no_column(statement, found["name"], there)
    if found := _FUNCTION.fullmatch(line):
        return _no_function(statement, found["name"])
    if found := _ALIAS.fullmatch(line):
        return TracehoundError(f"no table {found['name']!r} in this query", where=statement.place(found["name"]))
    return None


def _other(line: str) -> TracehoundError:
    """In polars' own words, but for the types that stand for times and for numbers beside them."""
    about_times = any(theirs in line for theirs in _TIMES)
    for theirs in _TIMES:
        line = line.replace(theirs, "time")
    if about_times:
        line = _NUMBERS.sub("number", line)
    line = _QUALIFIED.sub(r"'\g<table>.\g<name>'", line)
    if found := _SPREAD.fullmatch(line):
        name = _SPREADS[found["what"]]
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
    return message.strip().split("\n", 1)[0].strip()


def _no_table(statement: Statement, name: str) -> TracehoundError:
    return TracehoundError(
        f"no table {name!r}",
        where=statement.place(name) or "query",
        remedy=_hint(name, [table.name for table in TABLES]),
    )


def _no_column(statement: Statement, name: str, there: Sequence[str]) -> TracehoundError:
    where = statement.place(name) or "query"
    if any(token.kind == "quoted" and token.name == name.lower() for token in statement.tokens) and not _near(
        name, there
    ):
        return TracehoundError(f"no column {name!r}", where=where, remedy=f"text stands in single quotes: '{name}'")
    return TracehoundError(f"no column {name!r}", where=where, remedy=_hint(name, there))


def _no_function(statement: Statement, name: str) -> TracehoundError:
    """For a percentile in other databases' words how it is written here, with the part that a name like p99 says."""
    word = name.lower()
    if found := _PERCENTILE.fullmatch(word):
        remedy = f"did you mean quantile_cont(duration, 0.{found['part'] or '99'})?"
    elif word in CALLED_ELSEWHERE:
        remedy = f"did you mean {CALLED_ELSEWHERE[word]}?"
    else:
        near = _near(word, FUNCTIONS)
        remedy = f"did you mean {near}?" if near else "polars' SQL reference lists them"
    return TracehoundError(f"no function {name!r}", where=statement.place(name) or "query", remedy=remedy)


def _hint(name: str, there: Sequence[str]) -> str:
    near = _near(name, there)
    if near:
        return f"did you mean {near}?"
    return f"there are {', '.join(there)}" if 0 < len(there) <= SHOWN else f"{LISTING} lists them"


def _near(name: str, there: Sequence[str]) -> str:
    """The one that was meant, if any: by another tool's word for it, by its beginning, by its letters."""
    word = name.lower()
    if _ELSEWHERE.get(word) in there:
        return _ELSEWHERE[word]
    begun = [other for other in there if len(word) > 1 and (other.startswith(word) or word.startswith(other))]
    return next(iter([*begun, *difflib.get_close_matches(word, there, 1)]), "")
