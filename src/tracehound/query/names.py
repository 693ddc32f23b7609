"""What the columns of an answer are called.

Owns the names of columns that the statement gives none: the expression as it was written, as other databases have it
(polars calls them after a column in them). Knows no table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, pairwise
from typing import Final

from tracehound.query.statement import Statement, Token

_ENDS: Final = (
    *("from", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "fetch"),
    *("union", "intersect", "except"),
)
"""What may follow the list of a SELECT."""

_TWICE: Final = re.compile(r":\d+$")
"""What polars adds to a name that is taken."""

_VALUES: Final = ("word", "quoted", "number", "text", "time")


def called(statement: Statement, columns: Sequence[str]) -> list[str]:
    """The names of the columns that polars gives; COUNT(*) is a count, as people call it."""
    names = list(columns)
    for at, item in _placed(_items(statement.tokens), len(columns)):
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
    return {at for at, item in _placed(_items(statement.tokens), len(columns)) if _is_count(item)}


def _items(tokens: Sequence[Token]) -> list[list[Token]]:
    """What the outermost SELECT lists, item by item; nothing where there is no such list."""
    depth, items, inside = 0, [list[Token]()], False
    tokens = list(dropwhile(lambda token: token.text == "(", tokens))
    for at, token in enumerate(tokens):
        depth += (token.text in "([") - (token.text in ")]")
        if depth < 0:
            break
        outside = depth == 0 and token.text not in ")]"
        if not inside:
            inside = outside and token.kind == "word" and token.name == "select"
            continue
        if outside and token.kind == "word" and token.name in _ENDS and not _is_member(tokens, at):
            break
        if outside and token.text == ",":
            items.append([])
        else:
            items[-1].append(token)
    if items[0] and items[0][0].name in ("distinct", "all"):
        items[0] = items[0][1:]
    return [] if any(not item or item[0].name == "on" for item in items) else items


def _is_member(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word is behind a dot, or stands where only a value can: a column that is called like a word of SQL."""
    return at > 0 and tokens[at - 1].text in (".", ",", "+", "-", "/", "%", "=", "<", ">", "|", "select")


def _placed(items: Sequence[list[Token]], count: int) -> list[tuple[int, list[Token]]]:
    """Items with their places among so many columns; of what stands for several columns nothing is told."""
    wide = [at for at, item in enumerate(items) if item[-1].text == "*" or item[0].name == "columns" or _is_star(item)]
    if not wide:
        return list(enumerate(items)) if len(items) == count else []
    behind = len(items) - wide[-1] - 1
    return [*enumerate(items[: wide[0]]), *zip(range(count - behind, count), items[wide[-1] + 1 :], strict=True)]


def _is_star(item: Sequence[Token]) -> bool:
    """Whether it is ``*`` or ``t.*``, with EXCLUDE and the like or without."""
    return item[0].text == "*" or [token.text for token in item[1:3]] == [".", "*"]


def _unnamed(item: Sequence[Token], column: str) -> bool:
    """Whether an item is no column by itself, and was given no name; `column` is what polars calls it."""
    if all((token.kind in ("word", "quoted")) if at % 2 == 0 else token.text == "." for at, token in enumerate(item)):
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
