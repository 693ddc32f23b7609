"""Two profiles -> what differs, and by how much of the step's difference.

Owns the results of a comparison. All times are of a step: averaged over the ranks that have it, then over the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.result import Column, Result
from tracehound.diff.identity import IDENTITY
from tracehound.diff.matching import ALONE, Match, matched
from tracehound.diff.noise import HINT, LEAST, Floats, chances, level
from tracehound.diff.profile import PARTS, Profile
from tracehound.units import share

DEFINITION: Final = """\
Compared are steps: those that the profiler marked, else the inferred ones, else the executions of the module that takes
most time, else the whole run. A time is that of one step, averaged over the ranks that have it and then over the steps.
compute, communication, copy and idle add up to the step: communication that computation hides costs nothing, copies
that either hides neither. An op's time is its own (what is nested inside does not count), and ops of several streams
add up to more than the time that passes; exposed is the part of it that the step's time goes to: an instant belongs to
one op alone, of the classes in that order, then to the one that began first. So the differences in exposed time and in
idle time add up to the difference of the step.

Ops are the same in both runs by the surest of these that finds a partner: module, scope, shapes, name and operator
alike; then fewer of them. Numbers that a compiler gives (.123, .clone, .remat) are no part of a name, and of a match
one op may stand against many. What has no partner is listed as added or removed.

A change is called one (slower, faster, more, less) only where the steps tell it from chance: a permutation test over
the steps of both runs, for ops over all of them at once, which errs in one comparison of a hundred at most (of
thirty-five with 4 steps on a side); "perhaps" stands before what errs in one of twenty. With fewer than 4 steps on a
side nothing is called a change."""

STEP: Final = (
    Column("part", "text", "the step, and what it goes to"),
    Column("base", "time", "average of a step in the base"),
    Column("other", "time", "average of a step in the other run"),
    Column("change", "difference", "other less base"),
    Column("relative", "growth", "change / base"),
    Column("base_median", "time", "median step of the base", brief=False),
    Column("other_median", "time", "median step of the other run", brief=False),
    Column("base_spread", "time", "standard deviation among the steps of the base", brief=False),
    Column("other_spread", "time", "standard deviation among the steps of the other run", brief=False),
    Column("verdict", "text", "what the steps tell from chance"),
)

_ALIKE: Final = ("base", "other", "change", "relative", "exposed_change", "of_step", "verdict")

OPS: Final = (
    Column("name", "text", "op, or the largest of those that are one"),
    Column("category", "text", "kind of kernel, or HLO category"),
    Column("base", "time", "own time in a step of the base"),
    Column("other", "time", "own time in a step of the other run"),
    Column("change", "difference", "other less base"),
    Column("relative", "growth", "change / base"),
    Column("verdict", "text", "what the steps tell from chance"),
    Column("exposed_change", "difference", "of the time that the step goes to"),
    Column("of_step", "growth", "exposed change / base step"),
    Column("base_count", "decimal", "executions in a step of the base", brief=False),
    Column("other_count", "decimal", "executions in a step of the other run", brief=False),
    Column("base_ops", "count", "distinct ops of the base in it", brief=False),
    Column("other_ops", "count", "distinct ops of the other run in it", brief=False),
    Column("module", "text", "XLA module", brief=False),
    Column("operator", "text", "operator or scope that it runs for", brief=False),
    Column("matched_by", "text", "what both have in common", brief=False),
)


CATEGORIES: Final = tuple(column for column in OPS if column.name in (*_ALIKE, "category"))


@dataclass(frozen=True, eq=False)
class Comparison:
    """What differs between two runs, in results for any form: categories and ops come by what they do to the step."""

    base: Profile
    other: Profile
    step: Result
    categories: Result
    ops: Result


def compare(base: Profile, other: Profile, top: int | None = None) -> Comparison:
    """The two runs side by side; at most `top` rows of ops."""
    return Comparison(base, other, _step(base, other), _categories(base, other, top), _ops(base, other, top))


def _step(base: Profile, other: Profile) -> Result:
    names = ("duration", *PARTS)
    ours, theirs = (side.steps.select(names).to_numpy().astype(np.float64) for side in (base, other))
    rows = {
        "part": ["step", *PARTS],
        **_sides(ours.mean(axis=0), theirs.mean(axis=0)),
        "base_median": _rounded(np.median(ours, axis=0)),
        "other_median": _rounded(np.median(theirs, axis=0)),
        "base_spread": _rounded(ours.std(axis=0)),
        "other_spread": _rounded(theirs.std(axis=0)),
        "verdict": _verdicts(ours, theirs),
    }
    of_part = pl.col("verdict").str.replace("slower", "more").str.replace("faster", "less")
    told = pl.when(pl.col("part") == "step").then("verdict").otherwise(of_part).alias("verdict")
    table = pl.DataFrame(rows).with_columns(told).select(column.name for column in STEP)
    return Result("diff", "Step", STEP, table, table.height, tuple(_about_steps(base, other)))


def _about_steps(base: Profile, other: Profile) -> list[str]:
    notes = []
    if min(base.steps.height, other.steps.height) < LEAST:
        notes.append(f"too few steps to tell a change from chance: it takes {LEAST} on either side")
    if base.of != other.of:
        notes.append(f"not alike: of the base {base.of}, of the other {other.of} is compared")
    return notes


def _ops(base: Profile, other: Profile, top: int | None) -> Result:
    sides = [_Side(profile, IDENTITY) for profile in (base, other)]
    found = matched(*(side.ops for side in sides))
    numbers = _Numbers.of(sides, found)
    count = [values.mean(axis=0) for values in _grouped(sides, found, "count")]
    named = [_described(match, sides) for match in found]
    rows = {
        **{name: [row[name] for row in named] for name in ("name", "category", "module", "operator")},
        **numbers.columns(base),
        "verdict": [_alone(match) or word for match, word in zip(found, _verdicts(*numbers.own), strict=True)],
        "base_count": count[0],
        "other_count": count[1],
        "base_ops": [len(match.base) for match in found],
        "other_ops": [len(match.other) for match in found],
        "matched_by": [match.how for match in found],
    }
    words = dict.fromkeys(("name", "category", "module", "operator"), pl.String)
    table = _by_weight(pl.DataFrame(rows, schema_overrides=words), OPS)
    return _result("diff-ops", "Ops", OPS, table, top, _about_ops(found, numbers.own, table))


def _categories(base: Profile, other: Profile, top: int | None) -> Result:
    """Ops that are of a kind, together."""
    sides = [_Side(profile, ("category",)) for profile in (base, other)]
    places = [{name: at for at, (name,) in enumerate(side.ops.select("category").iter_rows())} for side in sides]
    names = sorted(set(places[0]) | set(places[1]))
    base_of, other_of = ([(place[name],) if name in place else () for name in names] for place in places)
    found = [Match(ours, theirs, "category") for ours, theirs in zip(base_of, other_of, strict=True)]
    numbers = _Numbers.of(sides, found)
    rows = {"category": names, **numbers.columns(base), "verdict": _verdicts(*numbers.own)}
    table = _by_weight(pl.DataFrame(rows, schema_overrides={"category": pl.String}), CATEGORIES)
    return _result("diff-categories", "Categories", CATEGORIES, table, top, [])


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Own and exposed times of matches in both runs: a row for each step, a column for each match."""

    own: list[Floats]
    exposed: list[Floats]

    @classmethod
    def of(cls, sides: Sequence[_Side], found: Sequence[Match]) -> _Numbers:
        """Those of these matches."""
        return cls(_grouped(sides, found, "time"), _grouped(sides, found, "exposed"))

    def columns(self, base: Profile) -> dict[str, object]:
        """What tables say of them."""
        means = [values.mean(axis=0) for values in self.own]
        change = self.exposed[1].mean(axis=0) - self.exposed[0].mean(axis=0)
        whole = float(base.steps["duration"].to_numpy().mean())
        of_step = change / whole if whole else np.full(len(change), np.nan)
        return {**_sides(*means), "exposed_change": _rounded(change), "of_step": of_step}


def _grouped(sides: Sequence[_Side], found: Sequence[Match], name: str) -> list[Floats]:
    return [
        side.grouped(name, [match.base if number == 0 else match.other for match in found])
        for number, side in enumerate(sides)
    ]


def _by_weight(rows: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """The rows that change the step most first; of those that do not, the longest."""
    first = columns[0].name
    return rows.sort(
        pl.col("exposed_change").abs(), pl.max_horizontal("base", "other"), first, descending=[True, True, False]
    ).select(column.name for column in columns)


def _result(
    name: str, title: str, columns: tuple[Column, ...], table: pl.DataFrame, top: int | None, notes: Sequence[str]
) -> Result:
    shown = table if top is None else table.head(top)
    return Result(name, title, columns, shown, table.height, tuple(notes))


class _Side:
    """One run's ops as numbers; `by` tells them apart."""

    def __init__(self, profile: Profile, by: tuple[str, ...]) -> None:
        self.steps = profile.steps["step"]
        self.ops = profile.ops.group_by(by).agg(pl.col("time").sum()).sort(by)
        numbered = self.ops.select(by).with_row_index("at")
        rows = profile.ops.join(numbered, on=by).join(self.steps.to_frame().with_row_index("row"), on="step")
        self._at, self._row = rows["at"].to_numpy(), rows["row"].to_numpy()
        self._rows = rows

    def grouped(self, name: str, groups: Sequence[tuple[int, ...]]) -> Floats:
        """The sums of a column over groups of ops, step by step."""
        group = np.full(self.ops.height + 1, len(groups))
        for number, members in enumerate(groups):
            group[list(members)] = number
        sums = np.zeros((len(self.steps), len(groups) + 1))
        np.add.at(sums, (self._row, group[self._at]), self._rows[name].to_numpy())
        return sums[:, :-1]


def _described(match: Match, sides: Sequence[_Side]) -> dict[str, str]:
    """What a match is called: as its op with the most time, in the base where it has one."""
    side, members = (sides[0], match.base) if match.base else (sides[1], match.other)
    rows = side.ops[list(members)]
    row = rows.row(int(rows["time"].arg_max() or 0), named=True)
    alike = rows["name"].n_unique() - 1
    return {
        "name": f"{row['name']} and {alike} more" if alike else row["name"],
        "category": row["category"],
        "module": row["module"],
        "operator": row["operator"] or row["scope"],
    }


def _alone(match: Match) -> str:
    """What is said of an op without a partner; "" for others."""
    return "" if match.how != ALONE else "removed" if match.base else "added"


def _verdicts(base: Floats, other: Floats) -> list[str]:
    """What the steps say of each column."""
    found = chances(base, other)
    if found is None:
        doubts = ["too few steps"] * base.shape[1]
    else:
        rare = level(len(base), len(other))
        doubts = ["" if each <= rare else "perhaps " if each <= HINT else "noise" for each in found.tolist()]
    return [_word(*each) for each in zip(doubts, base.mean(axis=0), other.mean(axis=0), strict=True)]


def _word(doubt: str, base: float, other: float) -> str:
    if base == other:
        return "the same"
    if doubt not in ("", "perhaps "):
        return doubt
    return f"{doubt}slower" if other > base else f"{doubt}faster"


def _sides(base: Floats, other: Floats) -> dict[str, object]:
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(base > 0, (other - base) / base, np.nan)
    return {"base": _rounded(base), "other": _rounded(other), "change": _rounded(other - base), "relative": relative}


def _rounded(values: Floats) -> list[int]:
    return [round(value) for value in values.tolist()]


def _about_ops(found: Sequence[Match], own: Sequence[Floats], table: pl.DataFrame) -> list[str]:
    """How much of each run found a partner, and what the differences add up to."""
    alone = np.array([match.how == ALONE for match in found], np.bool_)
    shares = [1 - float(side[:, alone].sum()) / float(side.sum()) if side.sum() else 1.0 for side in own]
    notes = [
        f"matched: {share(shares[0])} of the ops' time in the base, {share(shares[1])} in the other",
        "verdicts: held against all rows of their table at once, so that one table in a hundred errs; the same change"
        " may be told from chance among few rows and not among many",
    ]
    if not table.filter((pl.col("change") != 0) | (pl.col("exposed_change") != 0)).height:
        notes.append("no difference")
    return notes
