"""Columns of an answer: the items of the SELECT behind them, their names, and the table columns that they come from.

Columns without a name get the expression as it was written, as in other databases (polars names them after a column in
it). Origins are traced through aliases, WITH and subqueries; where that is not plain, a column has no origin: better no
unit than a wrong one. Knows no table but by the given names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import dropwhile, pairwise, takewhile
from typing import Final

from msgspec import Struct

from tracehound.query.sql_statement import SqlStatement, SqlToken

_CLAUSES_AFTER_LIST: Final = (
    *("from", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "fetch"),
    *("union", "intersect", "except"),
)
"""Keywords that may follow the list of a SELECT."""


def parse_select_list(tokens: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """The items of the outermost SELECT; empty where there is no such list."""
    depth, items, inside = 0, [list[SqlToken]()], False
    tokens = list(dropwhile(lambda token: token.text == "(", tokens))
    for at, token in enumerate(tokens):
        depth += (token.text in "([") - (token.text in ")]")
        if depth < 0:
            break
        outside = depth == 0 and token.text not in ")]"
        if not inside:
            inside = outside and token.kind == "word" and token.name == "select"
            continue
        if (
            outside
            and token.kind == "word"
            and token.name in _CLAUSES_AFTER_LIST
            and not _is_column_named_like_keyword(tokens, at)
        ):
            break
        if outside and token.text == ",":
            items.append([])
        else:
            items[-1].append(token)
    if items[0] and items[0][0].name in ("distinct", "all"):
        items[0] = items[0][1:]
    return [] if any(not item or item[0].name == "on" for item in items) else items


def _is_column_named_like_keyword(tokens: Sequence[SqlToken], at: int) -> bool:
    """True for a keyword behind a dot, or in the place of a value: a column with the name of a keyword."""
    return at > 0 and tokens[at - 1].text in (".", ",", "+", "-", "/", "%", "=", "<", ">", "|", "select")


def items_by_column(items: Sequence[list[SqlToken]], count: int) -> list[tuple[int, list[SqlToken]]]:
    """Items with the positions of their columns; without those from an item that stands for several columns."""
    wide = [
        at for at, item in enumerate(items) if item[-1].text == "*" or item[0].name == "columns" or _is_star_item(item)
    ]
    if not wide:
        return list(enumerate(items)) if len(items) == count else []
    behind = len(items) - wide[-1] - 1
    return [*enumerate(items[: wide[0]]), *zip(range(count - behind, count), items[wide[-1] + 1 :], strict=True)]


def _is_star_item(item: Sequence[SqlToken]) -> bool:
    """True for ``*`` or ``t.*``, with EXCLUDE and the like or without."""
    return item[0].text == "*" or [token.text for token in item[1:3]] == [".", "*"]


def is_column(value: Sequence[SqlToken]) -> bool:
    """True for ``name`` or ``table.name``."""
    signs = (token.kind in ("word", "quoted") if at % 2 == 0 else token.text == "." for at, token in enumerate(value))
    return len(value) % 2 == 1 and all(signs)


_POLARS_DUPLICATE_SUFFIX: Final = re.compile(r":\d+$")
"""Suffix that polars adds to a name that is taken."""

_VALUE_KINDS: Final = ("word", "quoted", "number", "text", "time")


def answer_column_names(statement: SqlStatement, columns: Sequence[str]) -> list[str]:
    """Names for the columns that polars returns; COUNT(*) is called count."""
    names = list(columns)
    for at, item in items_by_column(parse_select_list(statement.tokens), len(columns)):
        if _lacks_name(item, columns[at]):
            words = _item_text(item)
            names[at] = "count" if words.lower() in ("count(*)", "count()") else words
    taken: dict[str, int] = {}
    for at, name in enumerate(names):
        taken[name] = taken.get(name, -1) + 1
        names[at] = f"{name}:{taken[name]}" if taken[name] else name
    return names


def count_columns(statement: SqlStatement, columns: Sequence[str]) -> set[int]:
    """The positions of columns that are a COUNT of anything."""
    return {
        at for at, item in items_by_column(parse_select_list(statement.tokens), len(columns)) if _is_count_call(item)
    }


def _lacks_name(item: Sequence[SqlToken], column: str) -> bool:
    """True for an expression without a name; `column` is the name that polars gives it."""
    if is_column(item):
        return False
    depth = 0
    for token in item:
        depth += (token.text in "([") - (token.text in ")]")
        if depth == 0 and token.kind == "word" and token.name == "as":
            return False
    *_, before, last = item if len(item) > 1 else [item[0], item[0]]
    behind_value = len(item) > 1 and (before.kind in _VALUE_KINDS or before.text in ")]")
    return not (
        behind_value
        and last.kind in ("word", "quoted")
        and last.name in (column.lower(), _POLARS_DUPLICATE_SUFFIX.sub("", column.lower()))
    )


def _is_count_call(item: Sequence[SqlToken]) -> bool:
    """True for COUNT(...), with a name or without."""
    if [token.text.lower() for token in item[:2]] != ["count", "("]:
        return False
    depth = 0
    for at, token in enumerate(item[1:], 1):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return at == len(item) - 1 or item[at + 1].kind in ("word", "quoted")
    return False


def _item_text(item: Sequence[SqlToken]) -> str:
    """The tokens of an item, with one blank where there were any."""
    words = item[0].text
    for before, token in pairwise(item):
        words += f"{' ' * (token.start > before.start + len(before.text))}{token.text}"
    return " ".join(words.split())


_UNIT_KEEPING_FUNCTIONS: Final = (
    *("sum", "total", "avg", "min", "max", "median", "quantile_cont", "quantile_disc", "first", "last"),
    *("first_value", "last_value", "lag", "lead", "abs", "round", "coalesce", "ifnull", "nullif", "cast"),
)
"""Functions whose value has the unit of their first argument."""

_AFTER_CALL: Final = ("over", "filter")
"""Keywords that may follow a function's brackets and leave its unit as it is."""


class ColumnOrigin(Struct, frozen=True):
    """A column of a table; `table` is empty where the statement does not name it."""

    name: str
    table: str = ""


class _StatementNames(Struct, frozen=True):
    """Names in a statement: those that stand for tables, and those that inner SELECTs give to columns."""

    tables: Mapping[str, str]
    columns: Mapping[str, Collection[ColumnOrigin | None]]


def column_origins(
    statement: SqlStatement, columns: Sequence[str], tables: Collection[str]
) -> list[ColumnOrigin | None]:
    """The origins of the columns that polars returns; None for computed ones."""
    tokens = statement.tokens
    outer = parse_select_list(tokens)
    inner = [parse_select_list(tokens[at:]) for at, token in enumerate(tokens) if token.name == "select"]
    named = _tables_by_alias(tokens, tables)
    names = _StatementNames(
        named, _origins_of_inner_columns(tokens, [items for items in inner if items != outer], named)
    )
    found: list[ColumnOrigin | None] = [_origin_of_star_column(column, names.tables) for column in columns]
    for at, item in items_by_column(outer, len(columns)):
        found[at] = _origin_of_value(_split_alias(item)[0], names.tables)
    return [_trace_origin(origin, names) for origin in found]


def _origin_of_star_column(column: str, tables: Mapping[str, str]) -> ColumnOrigin:
    """The origin of a column from a star; polars adds the table's name where two tables have the column."""
    name, _, table = column.partition(":")
    return ColumnOrigin(name, tables.get(table.lower(), ""))


def _tables_by_alias(tokens: Sequence[SqlToken], tables: Collection[str]) -> dict[str, str]:
    """The tables behind the names after FROM and JOIN; empty for a subquery, or for a name of two tables."""
    words = [token.name for token in tokens]
    own = {name for name, *behind in zip(words, words[1:], words[2:], strict=False) if behind == ["as", "("]}
    found = defaultdict[str, set[str]](set)
    for at, name in enumerate(words[1:], 1):
        if words[at - 1] in ("from", "join", ","):
            alias = next((word for word in words[at + 1 : at + 3] if word != "as"), name)
            for called in (name, alias):
                found[called].add(name if name in tables and name not in own else "")
    return {name: found[name].pop() if len(found[name]) == 1 else "" for name in found}


def _origins_of_inner_columns(
    tokens: Sequence[SqlToken], lists: Sequence[Sequence[Sequence[SqlToken]]], tables: Mapping[str, str]
) -> dict[str, set[ColumnOrigin | None]]:
    """The origins behind the names in inner SELECTs; None for computed ones, under the names of all columns in them."""
    found = defaultdict[str, set[ColumnOrigin | None]](set)
    for value, name in (_split_alias(item) for items in lists for item in items):
        for called in [name] if name else [token.name for token in value]:
            found[called].add(_origin_of_value(value, tables))
    for name in _renamed_columns(tokens):
        found[name].add(None)
    return found


def _renamed_columns(tokens: Sequence[SqlToken]) -> Iterator[str]:
    """The columns in WITH k(name, name) AS (...), and those behind the alias of a subquery."""
    for at, token in enumerate(tokens[:-1]):
        if token.kind in ("word", "quoted") and tokens[at + 1].text == "(" and at:
            inside = [*takewhile(lambda inner: inner.text != ")", tokens[at + 2 :])]
            behind = [after.name for after in tokens[at + len(inside) + 3 :][:2]]
            if tokens[at - 1].name in ("as", ")") or behind == ["as", "("]:
                yield from (inner.name for inner in inside)


def _split_alias(item: Sequence[SqlToken]) -> tuple[Sequence[SqlToken], str]:
    """An item without its alias, and the alias; for a plain column the column's name."""
    depth = 0
    for at, token in enumerate(item):
        depth += (token.text in "([") - (token.text in ")]")
        if depth == 0 and token.kind == "word" and token.name == "as":
            return item[:at], item[-1].name
    if is_column(item):
        return item, item[-1].name
    given = len(item) > 1 and item[-1].kind in ("word", "quoted") and item[-2].text not in "+-*/%=<>|."
    return (item[:-1], item[-1].name) if given else (item, "")


def _origin_of_value(value: Sequence[SqlToken], tables: Mapping[str, str]) -> ColumnOrigin | None:
    """The column behind a value, as it is or through functions that keep its unit."""
    if is_column(value):
        return ColumnOrigin(value[-1].name, tables.get(value[0].name, "") if len(value) > 1 else "")
    if len(value) < 3 or value[0].name not in _UNIT_KEEPING_FUNCTIONS or value[1].text != "(":
        return None
    depth, ends = 0, [len(value)]
    for at, token in enumerate(value):
        depth += (token.text in "([") - (token.text in ")]")
        if (depth == 1 and (token.text == "," or token.name == "as")) or (depth == 0 and token.text == ")"):
            ends.append(at)
        if depth == 0 and token.text == ")":
            break
    if value[at + 1 :] and value[at + 1].name not in _AFTER_CALL:
        return None
    argument = value[2 : min(ends)]
    return _origin_of_value(argument[1:] if argument and argument[0].name == "distinct" else argument, tables)


def _trace_origin(
    origin: ColumnOrigin | None, names: _StatementNames, seen: frozenset[str] = frozenset()
) -> ColumnOrigin | None:
    """The table column behind a name from inner SELECTs."""
    if origin is None or origin.table or not (inner := names.columns.get(origin.name)) or inner == {origin}:
        return origin
    if len(inner) > 1 or origin.name in seen:
        return None
    return _trace_origin(next(iter(inner)), names, seen | {origin.name})
