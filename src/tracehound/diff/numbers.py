"""Two profiles as numbers: sums over groups of ops, step by step, and what the steps say of their differences.

Owns the arithmetic of a comparison. Knows no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.result import Column, blank
from tracehound.diff.identity import IDENTITY
from tracehound.diff.matching import Match
from tracehound.diff.noise import HINT, NOTHING, chances, level, little
from tracehound.diff.profile import Profile
from tracehound.diff.quantities import Floats, Quantities, beside, summed


class Pair(Struct, frozen=True, eq=False):
    """The same quantities of both runs."""

    base: Quantities
    other: Quantities

    @property
    def means(self) -> tuple[Floats, Floats]:
        """The averages over the steps; 0 where there is none."""
        return self.base.means, self.other.means

    def beside(self, *more: Pair) -> Pair:
        """These quantities and more."""
        every = (self, *more)
        return Pair(beside([each.base for each in every]), beside([each.other for each in every]))

    def columns(self) -> dict[str, Floats]:
        """What tables say of them: averages, medians and spreads of both sides, change and relative."""
        base, other = self.means
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(base > 0, (other - base) / base, np.nan)
        told = {"base": base, "other": other, "change": other - base, "relative": relative}
        for name, side in (("base", self.base), ("other", self.other)):
            told |= {f"{name}_median": side.medians, f"{name}_spread": side.sample_spreads}
        return told


def tabled(rows: Mapping[str, object], columns: Sequence[Column]) -> pl.DataFrame:
    """The rows as these columns have them: what is counted in whole units is rounded."""
    types = blank(columns).schema
    found = pl.DataFrame({name: rows[name] for name in types}, strict=False)
    fractions = [name for name in types if types[name].is_integer() and found[name].dtype.is_float()]
    return found.with_columns(pl.col(fractions).fill_nan(None).round()).cast(types)


class Side:
    """One run's ops as numbers; `by` tells them apart."""

    def __init__(self, profile: Profile, by: tuple[str, ...]) -> None:
        self.steps = profile.steps["step"]
        self.ops = profile.ops.group_by(by).agg(pl.col("time").sum()).sort(by)
        numbered = self.ops.select(by).with_row_index("at")
        rows = profile.ops.join(numbered, on=by).join(self.steps.to_frame().with_row_index("row"), on="step")
        self._at, self._row = (rows[name].cast(pl.Int64).to_numpy() for name in ("at", "row"))
        self._rows = rows
        known = (
            self.ops.select(by).join(profile.longest, on=by, how="left") if set(by) >= {*IDENTITY} else pl.DataFrame()
        )
        self._longest = known

    def grouped(self, name: str, groups: Sequence[tuple[int, ...]]) -> Quantities:
        """The sums of a column over groups of ops, step by step."""
        group = np.full(self.ops.height + 1, len(groups))
        for number, members in enumerate(groups):
            group[list(members)] = number
        of_row = group[self._at]
        mine = of_row < len(groups)
        values = self._rows[name].to_numpy()[mine]
        return summed(self._row[mine], of_row[mine], values, (len(self.steps), len(groups)))

    def longest_of(self, groups: Sequence[tuple[int, ...]]) -> list[int | None]:
        """The longest execution among each group of ops; None where none is known."""
        event, length = (self._longest[name].to_list() for name in ("event", "length"))
        ranked = ([(length[row], event[row]) for row in members if event[row] is not None] for members in groups)
        return [max(each)[1] if each else None for each in ranked]


def grouped(sides: tuple[Side, Side], found: Sequence[Match], name: str) -> Pair:
    """The sums of a column of the ops over matches, step by step."""
    base, other = sides
    return Pair(
        base.grouped(name, [match.base for match in found]), other.grouped(name, [match.other for match in found])
    )


UNCLEAR: Final = "unclear"
"""Said where the steps tell neither a change nor that there is next to none."""

FEW: Final = "too few steps"
"""Said where there is nothing to tell it by."""


ADDED: Final = "added"
"""Said of what the other run alone has: no steps are needed to tell that."""

REMOVED: Final = "removed"
"""Said of what the base alone has."""


def verdicts(*families: Pair) -> list[list[str]]:
    """What the steps say of each quantity of each family.

    All are held against each other, so that they err together in one comparison of a hundred at most (of thirty-five
    with 4 steps on a side), and equal quantities of several families are told alike. What differs by less than
    `NOTHING` is noise, however sure it is, and however much the steps differ.
    """
    together = families[0].beside(*families[1:])
    found = chances(together.base, together.other)
    if found is None:
        doubts = [FEW] * together.base.width
    else:
        rare = level(together.base.height, together.other.height)
        base, other = together.means
        nothing = np.abs(other - base) < NOTHING * np.maximum(np.abs(base), np.abs(other))
        found = np.where(nothing, 1.0, found)
        rest = np.where(nothing | little(together.base, together.other), "noise", UNCLEAR)
        doubts = [
            "" if each <= rare else "perhaps " if each <= HINT else otherwise
            for each, otherwise in zip(found.tolist(), rest.tolist(), strict=True)
        ]
    said = [_word(*each) for each in zip(doubts, *together.means, strict=True)]
    bounds = np.cumsum([0, *(each.base.width for each in families)]).tolist()
    return [said[low:high] for low, high in pairwise(bounds)]


def often(times: Pair, of_time: Sequence[str], counts: Pair, of_count: Sequence[str]) -> list[str]:
    """What is said of time, and of how often a thing is there where that explains the time.

    The steps tell of its change then, which is in proportion no less than that of the time: each is no slower, or no
    faster, than before. Where the steps tell of no change of time, it is said alone.
    """
    words = {"slower": "more often", "faster": "less often"}
    (base, other), (few, many) = times.means, counts.means
    explains = np.abs(many - few) * base >= np.abs(other - base) * few
    said = []
    for time, count, why in zip(of_time, of_count, explains, strict=True):
        word = words.get(count, "") if why and time in ("the same", "noise", UNCLEAR, count) else ""
        said.append(f"{time}, {word}" if word and time == count else word or time)
    return said


def more(word: str) -> str:
    """Of what a step goes to there is more or less."""
    return word.replace("slower", "more").replace("faster", "less")


def _word(doubt: str, base: float, other: float) -> str:
    if base == other:
        return "the same"
    if doubt not in ("", "perhaps "):
        return doubt
    return f"{doubt}slower" if other > base else f"{doubt}faster"
