"""What the columns of an answer are called.

Owns the names of columns that the statement gives none: the expression as it was written, as other databases have it
(polars calls them after a column in them). Knows no table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tracehound.query.listed import is_column, listed, placed
from tracehound.query.statement import Statement, Token

_TWICE: Final = re.compile(r":\d+$")
"""What polars adds to a name that is taken."""

_VALUES: Final = ("word", "quoted", "number", "text", "time")


def called(statement: Statement, columns: Sequence[str]) -> list[str]:
    """The names of the columns that polars gives; COUNT(*) is a count, as people call it."""
    names = list(columns)
    for at, item in placed(listed(statement.tokens), len(columns)):
        if _unnamed(item, columns[at]):
            words = _written(item)
            names[at] = "count" if words.lower() in ("count(*)", "count()") else words
    taken: dict[str, int] = {}
    for at, name in enumerate(names):
        taken[name] = taken.get(name, -1) + 1
        names[at] = f"{name}:{taken[name]}" if taken[name] else name
    return names


def counted(statement: Statement, columns: Sequence[str]) -> set[int]:
    """The places of columns that are a COUNT of something, whatever that is."""
    return {at for at, item in placed(listed(statement.tokens), len(columns)) if _is_count(item)}


def _unnamed(item: Sequence[Token], column: str) -> bool:
    """Whether an item is no column by itself, and was given no name; `column` is what polars calls it."""
    if is_column(item):
        return False
    depth = 0
    for token in item:
        depth += (token.text in "([") - (token.text in ")]")
        if depth == 0 and token.kind == "word" and token.name == "as":
            return False
    *_, before, last = item if len(item) > 1 else [item[0], item[0]]
    behind_value = len(item) > 1 and (before.kind in _VALUES or before.text in ")]")
    return not (
        behind_value
        and last.kind in ("word", "quoted")
        and last.name in (column.lower(), _TWICE.sub("", column.lower()))
    )


def _is_count(item: Sequence[Token]) -> bool:
    if [token.text.lower() for token in item[:2]] != ["count", "("]:
        return False
    depth = 0
    for at, token in enumerate(item[1:], 1):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return at == len(item) - 1 or item[at + 1].kind in ("word", "quoted")
    return False


def _written(item: Sequence[Token]) -> str:
    """The tokens of an item, with one blank where there were any."""
    words = item[0].text
    for before, token in pairwise(item):
        words += f"{' ' * (token.start > before.start + len(before.text))}{token.text}"
    return " ".join(words.split())
