"""What a SELECT lists, item by item, and which column of the answer each item is.

Owns where a list begins and ends. Knows no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Final

from tracehound.query.statement import Token

_ENDS: Final = (
    *("from", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "fetch"),
    *("union", "intersect", "except"),
)
"""What may follow the list of a SELECT."""


def listed(tokens: Sequence[Token]) -> list[list[Token]]:
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


def placed(items: Sequence[list[Token]], count: int) -> list[tuple[int, list[Token]]]:
    """Items with their places among so many columns; of what stands for several columns nothing is told."""
    wide = [at for at, item in enumerate(items) if item[-1].text == "*" or item[0].name == "columns" or _is_star(item)]
    if not wide:
        return list(enumerate(items)) if len(items) == count else []
    behind = len(items) - wide[-1] - 1
    return [*enumerate(items[: wide[0]]), *zip(range(count - behind, count), items[wide[-1] + 1 :], strict=True)]


def _is_star(item: Sequence[Token]) -> bool:
    """Whether it is ``*`` or ``t.*``, with EXCLUDE and the like or without."""
    return item[0].text == "*" or [token.text for token in item[1:3]] == [".", "*"]


def is_column(value: Sequence[Token]) -> bool:
    """Whether it is ``name`` or ``table.name``."""
    signs = (token.kind in ("word", "quoted") if at % 2 == 0 else token.text == "." for at, token in enumerate(value))
    return len(value) % 2 == 1 and all(signs)
