"""Matches between the ops of two runs.

Owns the criteria, from the surest to the last resort. An op is identified by `IDENTITY_COLUMNS`; a match may be of one
with many or of many with many (one fusion against three kernels). An op without a match stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.diff.op_identity import IDENTITY_COLUMNS, named_scope
from tracehound.formats.xla.op_kinds import op_kind

MATCH_CRITERIA: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (IDENTITY_COLUMNS[:7], "the same in all"),
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
"""Columns that two matched ops share, and the name of that criterion; the surest first.

A criterion applies only to ops that have all its words: a trace without scopes is not matched by them. Beside
`IDENTITY_COLUMNS` there are `place`, the named part of the scope; `kind`, whether an HLO op computes, communicates or
copies: communication in a scope is not matched with computation there; and `unscoped`, the name of an op without a
scope, and of all ops where one run has no scopes: names that a compiler gave (``fusion``) say nothing about ops with
different scopes. The operators around a kernel identify it better than its name, which differs between devices."""

NO_MATCH: Final = "no match"


class OpMatch(Struct, frozen=True):
    """Matched ops of the baseline and of the candidate; one side is empty where there is no match.

    They are positions in the frames of ops that were matched.
    """

    baseline: tuple[int, ...]
    candidate: tuple[int, ...]
    how: str

    @property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Baseline and candidate."""
        return self.baseline, self.candidate


def match_ops(baseline: pl.DataFrame, candidate: pl.DataFrame) -> list[OpMatch]:
    """The matches of two frames of ops (`IDENTITY_COLUMNS`, distinct rows); every op is in exactly one."""
    scoped = all((frame["scope"] != "").any() for frame in (baseline, candidate))
    rest = tuple(
        {
            row: _matching_words(op, scoped=scoped)
            for row, op in enumerate(frame.select(IDENTITY_COLUMNS).iter_rows(named=True))
        }
        for frame in (baseline, candidate)
    )
    found: list[OpMatch] = []
    for columns, how in MATCH_CRITERIA:
        for ours, theirs in _rows_with_equal_words(rest, columns):
            found.append(OpMatch(ours, theirs, how))
            for row in ours:
                del rest[0][row]
            for row in theirs:
                del rest[1][row]
    found += [OpMatch((row,), (), NO_MATCH) for row in rest[0]]
    return found + [OpMatch((), (row,), NO_MATCH) for row in rest[1]]


def _matching_words(op: Mapping[str, str], *, scoped: bool) -> dict[str, str]:
    """All words of an op that a criterion may use; `scoped`: both runs have scopes."""
    name = "" if scoped and op["scope"] else op["name"]
    return {**op, "place": named_scope(op["scope"]), "kind": op_kind(op["name"], op["category"]), "unscoped": name}


def _rows_with_equal_words(
    sides: Sequence[Mapping[int, Mapping[str, str]]], columns: tuple[str, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The rows of both sides with equal words in these columns."""
    whole = columns == MATCH_CRITERIA[0][0]
    ours, theirs = (_rows_by_words(side, columns, whole=whole) for side in sides)
    return ((tuple(rows), tuple(theirs[words])) for words, rows in ours.items() if words in theirs)


def _rows_by_words(
    side: Mapping[int, Mapping[str, str]], columns: tuple[str, ...], *, whole: bool
) -> dict[tuple[str, ...], list[int]]:
    """The rows by their words in these columns; with `whole` also those with empty words."""
    found: dict[tuple[str, ...], list[int]] = {}
    for row, op in side.items():
        words = tuple(op[column] for column in columns)
        if whole or all(words):
            found.setdefault(words, []).append(row)
    return found
