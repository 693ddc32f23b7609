"""Which ops of two runs are the same.

Owns the ways of telling that, from the surest to the last resort. An op here is what `IDENTITY` tells from others; a
match may be of one with many or of many with many (one fusion against three kernels). What finds no match stays alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.diff.identity import IDENTITY
from tracehound.diff.names import place
from tracehound.formats.xla.kinds import op_kind

WAYS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (IDENTITY[:7], "the same in all"),
    (("module", "scope", "signature"), "module, scope and shapes"),
    (("module", "name", "scope"), "module, name and scope"),
    (("module", "category", "place", "signature"), "module, category, place and shapes"),
    (("module", "name", "signature"), "module, name and shapes"),
    (("module", "category", "scope"), "module, category and scope"),
    (("module", "category", "place", "family"), "module, category, place and family"),
    (("module", "category", "place"), "module, category and place"),
    (("module", "category", "family"), "module, category and family"),
    (("module", "kind", "scope"), "module, kind and scope"),
    (("module", "kind", "place"), "module, kind and place"),
    (("scope", "signature"), "scope and shapes"),
    (("name", "scope"), "name and scope"),
    (("name", "signature"), "name and shapes"),
    (("kind", "scope"), "kind and scope"),
    (("signature",), "shapes"),
    (("path", "name"), "call path and name"),
    (("path", "family"), "call path and family"),
    (("path", "category"), "call path and category"),
    (("operator", "name"), "operator and name"),
    (("operator", "family"), "operator and family"),
    (("unscoped", "category"), "name"),
    (("family", "category"), "family"),
    (("path",), "call path"),
    (("operator",), "operator"),
)
"""What two ops have in common that are taken for one, the surest first, and how that is said.

A way is open only to ops that have all its words: a trace without scopes is not matched by them. Beside `IDENTITY`
there are `place`, the named part of the scope; `kind`, whether an HLO op computes, communicates or copies: what
communicates in a scope is not what computes there; and `unscoped`, the name of an op without a scope, and of all where
one run has no scopes: names that a compiler gave (``fusion``) tell nothing of ops whose scopes differ. The operators
around a kernel tell more of it than its own name, which is another on another device.
"""

ALONE: Final = "no match"


class Match(Struct, frozen=True):
    """Ops of the base and of the other run that are one; `base` or `other` is empty where there is no match.

    They are positions in the frames of ops that were matched.
    """

    base: tuple[int, ...]
    other: tuple[int, ...]
    how: str

    @property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Base and other."""
        return self.base, self.other


def matched(base: pl.DataFrame, other: pl.DataFrame) -> list[Match]:
    """Every op of two frames (`IDENTITY`, distinct rows) in just one match."""
    scoped = all((frame["scope"] != "").any() for frame in (base, other))
    rest = tuple(
        {row: _told(op, scoped=scoped) for row, op in enumerate(frame.select(IDENTITY).iter_rows(named=True))}
        for frame in (base, other)
    )
    found: list[Match] = []
    for columns, how in WAYS:
        for ours, theirs in _agreeing(rest, columns):
            found.append(Match(ours, theirs, how))
            for row in ours:
                del rest[0][row]
            for row in theirs:
                del rest[1][row]
    found += [Match((row,), (), ALONE) for row in rest[0]]
    return found + [Match((), (row,), ALONE) for row in rest[1]]


def _told(op: Mapping[str, str], *, scoped: bool) -> dict[str, str]:
    """All words of an op that a way may ask for; `scoped`: both runs have scopes."""
    name = "" if scoped and op["scope"] else op["name"]
    return {**op, "place": place(op["scope"]), "kind": op_kind(op["name"], op["category"]), "unscoped": name}


def _agreeing(
    sides: Sequence[Mapping[int, Mapping[str, str]]], columns: tuple[str, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The rows of both sides with the same words in these columns."""
    whole = columns == WAYS[0][0]
    ours, theirs = (_by_words(side, columns, whole=whole) for side in sides)
    return ((tuple(rows), tuple(theirs[words])) for words, rows in ours.items() if words in theirs)


def _by_words(
    side: Mapping[int, Mapping[str, str]], columns: tuple[str, ...], *, whole: bool
) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for row, op in side.items():
        words = tuple(op[column] for column in columns)
        if whole or all(words):
            found.setdefault(words, []).append(row)
    return found
