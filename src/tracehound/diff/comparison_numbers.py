"""Quantities of two profiles: sums over groups of ops, step by step, and verdicts on their differences.

Owns the arithmetic of a comparison. Knows no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.result import Column, empty_table
from tracehound.diff.op_identity import IDENTITY_COLUMNS, OpMatch
from tracehound.diff.run_profile import RunProfile
from tracehound.diff.step_statistics import (
    NEGLIGIBLE_CHANGE,
    PERHAPS_PROBABILITY,
    Floats,
    StepQuantities,
    change_probabilities,
    is_little_change,
    join_quantities,
    significance_level,
    sum_quantities,
)


class QuantityPair(Struct, frozen=True, eq=False):
    """Quantities of both runs, with equal columns."""

    baseline: StepQuantities
    candidate: StepQuantities

    @property
    def means(self) -> tuple[Floats, Floats]:
        """The averages over the steps; 0 where there is none."""
        return self.baseline.means, self.candidate.means

    def join(self, *more: QuantityPair) -> QuantityPair:
        """These quantities and further ones."""
        every = (self, *more)
        return QuantityPair(
            join_quantities([each.baseline for each in every]), join_quantities([each.candidate for each in every])
        )

    def table_columns(self) -> dict[str, Floats]:
        """Columns of tables: averages, medians and spreads of both runs, change and relative change."""
        baseline, candidate = self.means
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(baseline > 0, (candidate - baseline) / baseline, np.nan)
        told = {"baseline": baseline, "candidate": candidate, "change": candidate - baseline, "relative": relative}
        for name, side in (("baseline", self.baseline), ("candidate", self.candidate)):
            told |= {f"{name}_median": side.medians, f"{name}_spread": side.sample_spreads}
        return told


def rows_to_table(rows: Mapping[str, object], columns: Sequence[Column]) -> pl.DataFrame:
    """The rows with the types of these columns: values in whole units are rounded."""
    types = empty_table(columns).schema
    found = pl.DataFrame({name: rows[name] for name in types}, strict=False)
    fractions = [name for name in types if types[name].is_integer() and found[name].dtype.is_float()]
    return found.with_columns(pl.col(fractions).fill_nan(None).round()).cast(types)


class RunOpQuantities:
    """The ops of one run as quantities; the columns `by` identify them."""

    def __init__(self, profile: RunProfile, by: tuple[str, ...]) -> None:
        self.steps = profile.steps["step"]
        self.ops = profile.ops.group_by(by).agg(pl.col("time").sum()).sort(by)
        numbered = self.ops.select(by).with_row_index("at")
        rows = profile.ops.join(numbered, on=by).join(self.steps.to_frame().with_row_index("row"), on="step")
        self._at, self._row = (rows[name].cast(pl.Int64).to_numpy() for name in ("at", "row"))
        self._rows = rows
        known = (
            self.ops.select(by).join(profile.longest, on=by, how="left")
            if set(by) >= {*IDENTITY_COLUMNS}
            else pl.DataFrame()
        )
        self._longest = known

    def sum_groups(self, name: str, groups: Sequence[tuple[int, ...]]) -> StepQuantities:
        """The sums of a column over groups of ops, step by step."""
        group = np.full(self.ops.height + 1, len(groups))
        for number, members in enumerate(groups):
            group[list(members)] = number
        of_row = group[self._at]
        mine = of_row < len(groups)
        values = self._rows[name].to_numpy()[mine]
        return sum_quantities(self._row[mine], of_row[mine], values, (len(self.steps), len(groups)))

    def longest_events(self, groups: Sequence[tuple[int, ...]]) -> list[int | None]:
        """The longest execution among each group of ops; None where none is known."""
        event, length = (self._longest[name].to_list() for name in ("event", "length"))
        ranked = ([(length[row], event[row]) for row in members if event[row] is not None] for members in groups)
        return [max(each)[1] if each else None for each in ranked]


def sum_matched_ops(
    sides: tuple[RunOpQuantities, RunOpQuantities], found: Sequence[OpMatch], name: str
) -> QuantityPair:
    """The sums of a column of the ops over matches, step by step."""
    baseline, candidate = sides
    return QuantityPair(
        baseline.sum_groups(name, [match.baseline for match in found]),
        candidate.sum_groups(name, [match.candidate for match in found]),
    )


UNCLEAR: Final = "unclear"
"""The verdict where the steps show neither a change nor that there is next to none."""

TOO_FEW: Final = "too few steps"
"""The verdict with too few steps for a test."""


ADDED: Final = "added"
"""The verdict on rows that only the candidate has: no steps are needed for it."""

REMOVED: Final = "removed"
"""The verdict on rows that only the baseline has."""


def judge_changes(*families: QuantityPair) -> list[list[str]]:
    """Verdicts on the changes of all quantities of all families.

    All are tested together, so that they err in one comparison of a hundred at most (of thirty-five with 4 steps on a
    side), and equal quantities of several families get equal verdicts. A difference of less than `NEGLIGIBLE_CHANGE` is
    noise, however sure it is, and however much the steps differ.
    """
    all_quantities = families[0].join(*families[1:])
    probabilities = change_probabilities(all_quantities.baseline, all_quantities.candidate)
    if probabilities is None:
        doubts = [TOO_FEW] * all_quantities.baseline.width
    else:
        max_probability = significance_level(all_quantities.baseline.height, all_quantities.candidate.height)
        baseline, candidate = all_quantities.means
        nothing = np.abs(candidate - baseline) < NEGLIGIBLE_CHANGE * np.maximum(np.abs(baseline), np.abs(candidate))
        probabilities = np.where(nothing, 1.0, probabilities)
        rest = np.where(nothing | is_little_change(all_quantities.baseline, all_quantities.candidate), "noise", UNCLEAR)
        doubts = [
            "" if each <= max_probability else "perhaps " if each <= PERHAPS_PROBABILITY else otherwise
            for each, otherwise in zip(probabilities.tolist(), rest.tolist(), strict=True)
        ]
    all_verdicts = [_change_word(*each) for each in zip(doubts, *all_quantities.means, strict=True)]
    bounds = np.cumsum([0, *(each.baseline.width for each in families)]).tolist()
    return [all_verdicts[low:high] for low, high in pairwise(bounds)]


def explain_by_count(
    times: QuantityPair, of_time: Sequence[str], counts: QuantityPair, of_count: Sequence[str]
) -> list[str]:
    """Verdicts on times, with "more often" or "less often" where the count explains the change of time.

    It explains it where the steps show its change and it changed in proportion by no less than the time: each execution
    is no slower, or no faster, than before. Where the steps show no change of time, the count's verdict stands alone.
    """
    words = {"slower": "more often", "faster": "less often"}
    (baseline, candidate), (few, many) = times.means, counts.means
    explains = np.abs(many - few) * baseline >= np.abs(candidate - baseline) * few
    explained = []
    for time, count, why in zip(of_time, of_count, explains, strict=True):
        word = words.get(count, "") if why and time in ("the same", "noise", UNCLEAR, count) else ""
        explained.append(f"{time}, {word}" if word and time == count else word or time)
    return explained


def as_more_or_less(word: str) -> str:
    """The verdict with "more" for "slower" and "less" for "faster", for parts of a step."""
    return word.replace("slower", "more").replace("faster", "less")


def _change_word(doubt: str, baseline: float, candidate: float) -> str:
    """The verdict on one change."""
    if baseline == candidate:
        return "the same"
    if doubt not in ("", "perhaps "):
        return doubt
    return f"{doubt}slower" if candidate > baseline else f"{doubt}faster"
