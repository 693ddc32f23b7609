"""Which column of a table each column of an answer is, whatever the statement calls it.

Owns the way from a column of the answer through aliases, WITH and subqueries to a table. Where that is not plain, a
column has no origin: better no unit than a wrong one. Knows no table but by the names that it is given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct

from tracehound.query.listed import is_column, listed, placed
from tracehound.query.statement import Statement, Token

_KEEPING: Final = (
    *("sum", "total", "avg", "min", "max", "median", "quantile_cont", "quantile_disc", "first", "last"),
    *("first_value", "last_value", "lag", "lead", "abs", "round", "coalesce", "ifnull", "nullif", "cast"),
)
"""Functions whose value is of the kind of their first argument."""

_BEHIND_CALLS: Final = ("over", "filter")
"""What may follow the brackets of a function and leaves the kind of its value as it is."""


class Origin(Struct, frozen=True):
    """A column of a table: of `table`, where the statement says of which."""

    name: str
    table: str = ""


class _Names(Struct, frozen=True):
    """What names mean in a statement: those that stand for tables, and those that inner SELECTs give to columns."""

    tables: Mapping[str, str]
    columns: Mapping[str, Collection[Origin | None]]


def origins(statement: Statement, columns: Sequence[str], tables: Collection[str]) -> list[Origin | None]:
    """The origins of the columns that polars gives; None for one that was worked out."""
    tokens = statement.tokens
    outer = listed(tokens)
    inner = [listed(tokens[at:]) for at, token in enumerate(tokens) if token.name == "select"]
    named = _tables(tokens, tables)
    names = _Names(named, _columns(tokens, [items for items in inner if items != outer], named))
    found: list[Origin | None] = [_starred(column, names.tables) for column in columns]
    for at, item in placed(outer, len(columns)):
        found[at] = _origin(_named(item)[0], names.tables)
    return [_traced(origin, names) for origin in found]


def _starred(column: str, tables: Mapping[str, str]) -> Origin:
    """What a column is that came with a star: of the table whose name polars adds, where two have one of its name."""
    name, _, table = column.partition(":")
    return Origin(name, tables.get(table.lower(), ""))


def _tables(tokens: Sequence[Token], tables: Collection[str]) -> dict[str, str]:
    """The tables that names stand for behind FROM and JOIN; empty for what stands for a subquery, or for two tables."""
    words = [token.name for token in tokens]
    own = {name for name, *behind in zip(words, words[1:], words[2:], strict=False) if behind == ["as", "("]}
    found = defaultdict[str, set[str]](set)
    for at, name in enumerate(words[1:], 1):
        if words[at - 1] in ("from", "join", ","):
            alias = next((word for word in words[at + 1 : at + 3] if word != "as"), name)
            for called in (name, alias):
                found[called].add(name if name in tables and name not in own else "")
    return {name: found[name].pop() if len(found[name]) == 1 else "" for name in found}


def _columns(
    tokens: Sequence[Token], lists: Sequence[Sequence[Sequence[Token]]], tables: Mapping[str, str]
) -> dict[str, set[Origin | None]]:
    """What inner SELECTs call by a name; None for what they work out, which may be called like any column in it."""
    found = defaultdict[str, set[Origin | None]](set)
    for value, name in (_named(item) for items in lists for item in items):
        for called in [name] if name else [token.name for token in value]:
            found[called].add(_origin(value, tables))
    for name in _renamed(tokens):
        found[name].add(None)
    return found


def _renamed(tokens: Sequence[Token]) -> Iterator[str]:
    """The columns in WITH k(name, name) AS (...), and those behind the alias of a subquery."""
    for at, token in enumerate(tokens[:-1]):
        if token.kind in ("word", "quoted") and tokens[at + 1].text == "(" and at:
            inside = [*takewhile(lambda inner: inner.text != ")", tokens[at + 2 :])]
            behind = [after.name for after in tokens[at + len(inside) + 3 :][:2]]
            if tokens[at - 1].name in ("as", ")") or behind == ["as", "("]:
                yield from (inner.name for inner in inside)


def _named(item: Sequence[Token]) -> tuple[Sequence[Token], str]:
    """An item without the name that it is given, and its name: of a column by itself the column's."""
    depth = 0
    for at, token in enumerate(item):
        depth += (token.text in "([") - (token.text in ")]")
        if depth == 0 and token.kind == "word" and token.name == "as":
            return item[:at], item[-1].name
    if is_column(item):
        return item, item[-1].name
    given = len(item) > 1 and item[-1].kind in ("word", "quoted") and item[-2].text not in "+-*/%=<>|."
    return (item[:-1], item[-1].name) if given else (item, "")


def _origin(value: Sequence[Token], tables: Mapping[str, str]) -> Origin | None:
    """The column that a value is, as it stands or through functions that keep its kind."""
    if is_column(value):
        return Origin(value[-1].name, tables.get(value[0].name, "") if len(value) > 1 else "")
    if len(value) < 3 or value[0].name not in _KEEPING or value[1].text != "(":
        return None
    depth, ends = 0, [len(value)]
    for at, token in enumerate(value):
        depth += (token.text in "([") - (token.text in ")]")
        if (depth == 1 and (token.text == "," or token.name == "as")) or (depth == 0 and token.text == ")"):
            ends.append(at)
        if depth == 0 and token.text == ")":
            break
    if value[at + 1 :] and value[at + 1].name not in _BEHIND_CALLS:
        return None
    argument = value[2 : min(ends)]
    return _origin(argument[1:] if argument and argument[0].name == "distinct" else argument, tables)


def _traced(origin: Origin | None, names: _Names, seen: frozenset[str] = frozenset()) -> Origin | None:
    """The column of a table behind what inner SELECTs call so."""
    if origin is None or origin.table or not (inner := names.columns.get(origin.name)) or inner == {origin}:
        return origin
    if len(inner) > 1 or origin.name in seen:
        return None
    return _traced(next(iter(inner)), names, seen | {origin.name})
