"""Quantities of two profiles: sums over groups of ops, step by step, verdicts, and factors of kernels' times.

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
from tracehound.analysis.timing.device_busy import COMMUNICATION_KINDS, COPY_KINDS
from tracehound.diff.op_identity import IDENTITY_COLUMNS, NO_MATCH, OpMatch, op_categories
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
from tracehound.formats.xla.op_kinds import op_kind
from tracehound.numeric.intervals import Ints


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
    """The rows with the types of these columns: values in whole units are rounded, and cut where a frame ends."""
    types = empty_table(columns).schema
    found = pl.DataFrame({name: rows[name] for name in types}, strict=False)
    fractions = [name for name in types if types[name].is_integer() and found[name].dtype.is_float()]
    return found.with_columns(pl.col(fractions).fill_nan(None).round().clip(-MAX_WHOLE, MAX_WHOLE)).cast(types)


MAX_WHOLE: Final = 2.0**63 - 1024
"""The largest fraction that a frame can hold as a whole number: a damaged file may state more."""


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


AS_ALL_KERNELS: Final = "as all kernels"
"""The verdict on an op that changed by the factor of nearly all: there is one cause, which is no op's own."""

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


class KernelFactor(Struct, frozen=True):
    """The ratio of the times of kernels, where nearly all changed by one; `ranks` and `steps` limit it, if not empty.

    `by_rank` and `by_step` have the ratios of these alone.
    """

    factor: float
    by_rank: tuple[tuple[int, float], ...] = ()
    by_step: tuple[tuple[int, float], ...] = ()


class OpTimes:
    """Times of the matched kernels of both runs: of the mean over ranks, of each rank, and of each step."""

    def __init__(
        self,
        baseline: RunProfile,
        candidate: RunProfile,
        sides: tuple[RunOpQuantities, RunOpQuantities],
        matches: Sequence[OpMatch],
    ) -> None:
        self._runs = baseline, candidate
        self._sides = sides
        self._matches = matches
        self._names, self._groups, parts = _describe_matches(sides, matches)
        self._communicates = np.array([part == "communication" for part in parts], np.bool_)
        self._is_compute = np.array(
            [part == "compute" and match.how != NO_MATCH for part, match in zip(parts, matches, strict=True)],
            np.float64,
        )
        self._numbers = [
            _match_of_ops(run, side, matches, at) for at, (run, side) in enumerate(zip(self._runs, sides, strict=True))
        ]
        self._time, self._count, self._exposed = (
            sum_matched_ops(sides, matches, column).means for column in ("time", "count", "exposed")
        )

    def kernel_factor(self) -> KernelFactor | None:
        """The factor by which nearly all kernels changed, of the ranks or steps that differ; None without one."""
        ranks = [(rank, self.factor_of_ranks((rank,))) for rank in self._common_ranks]
        changed = tuple((rank, factor) for rank, factor in ranks if factor is not None)
        overall = kernel_time_factor(self._time, self._count, self._is_compute)
        if changed and len(changed) < len(ranks):
            return KernelFactor(overall or changed[0][1], by_rank=changed)
        steps = tuple((step, factor) for step, factor in self._step_factors() if factor is not None)
        if steps and len(steps) <= self._runs[1].steps.height // 2:
            return KernelFactor(overall or steps[0][1], by_step=steps)
        return None if overall is None else KernelFactor(overall)

    def factor_of_ranks(self, ranks: tuple[int, ...]) -> float | None:
        """The factor by which nearly all kernels of these ranks changed; without ranks of the mean over all."""
        if not ranks:
            return kernel_time_factor(self._time, self._count, self._is_compute)
        return kernel_time_factor(*self._of_ranks(ranks), self._is_compute)

    @property
    def changed_as_all(self) -> list[bool]:
        """For each match whether it changed by the factor of all kernels, or nearly; all False without a factor."""
        factor = self.factor_of_ranks(())
        if factor is None:
            return [False] * len(self._matches)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.abs(np.log(self._time[1] / self._time[0]) - np.log(factor))
        near = (self._is_compute > 0) & (apart <= max(MAX_SPREAD * abs(np.log(factor)), np.log(MIN_FACTOR)))
        return [bool(each) for each in near]

    def main_op(self, group: str, change: float, ranks: tuple[int, ...]) -> tuple[str, float | None]:
        """The op that explains most of the change of a category, and the ratio of the times of one execution."""
        of_group = np.flatnonzero(np.array([name == group for name in self._groups], np.bool_))
        if not len(of_group) or not change or (ranks and any(run.rank_ops.is_empty() for run in self._runs)):
            return "", None
        time, count = self._of_ranks(ranks) if ranks else (self._time, self._count)
        effect = (time if ranks else self._exposed)[1] - (time if ranks else self._exposed)[0]
        most = int(of_group[np.abs(effect[of_group]).argmax()])
        if effect[most] / change < DETAIL_SHARE:
            return "", None
        if not (count[0][most] and count[1][most] and time[0][most]):
            return self._names[most], None
        ratio = time[1][most] / count[1][most] / (time[0][most] / count[0][most])
        return self._names[most], float(ratio)

    def communication_change(self, ranks: tuple[int, ...]) -> float | None:
        """The change of the time of communication, hidden or not; None where it is unknown for these ranks."""
        if ranks and any(run.rank_ops.is_empty() for run in self._runs):
            return None
        time, _ = self._of_ranks(ranks) if ranks else (self._time, self._count)
        return float((time[1] - time[0])[self._communicates].sum())

    @property
    def _common_ranks(self) -> list[int]:
        """The ranks of which both runs know the times, if these are all."""
        ranks = [run.rank_ops["rank"].unique().sort().to_list() for run in self._runs]
        return ranks[1] if ranks[0] == ranks[1] and len(ranks[1]) >= MIN_RANKS else []

    def _of_ranks(self, ranks: Sequence[int]) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Time and count of each match in a mean step of these ranks, in both runs."""
        sums = []
        for run, number in zip(self._runs, self._numbers, strict=True):
            rows = run.rank_ops.filter(pl.col("rank").is_in(list(ranks)))
            match = number[rows["op"].to_numpy()]
            known = match >= 0
            sums.append(
                [
                    np.bincount(match[known], rows[column].to_numpy()[known], len(self._matches)) / max(1, len(ranks))
                    for column in ("time", "count")
                ]
            )
        (time_before, count_before), (time_after, count_after) = sums
        return (time_before, time_after), (count_before, count_after)

    def _step_factors(self) -> list[tuple[int, float | None]]:
        """The factor of each step of the candidate, against the mean step of the baseline."""
        side, found = self._sides[1], []
        groups = [match.candidate for match in self._matches]
        if side.steps.len() * len(groups) > MAX_FACTOR_CELLS:
            return []
        sums = [side.sum_groups(column, groups).dense_columns(0, len(groups)) for column in ("time", "count")]
        for row, step in enumerate(side.steps.to_list()):
            time, count = (values[:, row] for values in sums)
            pairs = (self._time[0], time), (self._count[0], count)
            found.append((step, kernel_time_factor(*pairs, self._is_compute)))
        return found


MAX_FACTOR_CELLS: Final = 1_000_000
"""Where steps times ops are more, no step is named by the factor of its kernels: a matrix of all takes much memory."""


def _describe_matches(
    sides: tuple[RunOpQuantities, RunOpQuantities], matches: Sequence[OpMatch]
) -> tuple[list[str], list[str], list[str]]:
    """Name and category of each match, and the part of a step that it belongs to: those of its longest op."""
    categories = [op_categories(side.ops).to_list() for side in sides]
    names, kinds, times = ([side.ops[column].to_list() for side in sides] for column in ("name", "category", "time"))
    found = []
    for match in matches:
        at, members = (0, match.baseline) if match.baseline else (1, match.candidate)
        row = max(members, key=lambda op, at=at: (times[at][op], -op))  # type: ignore[misc]
        found.append((names[at][row], categories[at][row], part_of_op(names[at][row], kinds[at][row])))
    return [row[0] for row in found], [row[1] for row in found], [row[2] for row in found]


def _match_of_ops(run: RunProfile, side: RunOpQuantities, matches: Sequence[OpMatch], at: int) -> Ints:
    """The match of each op of `named_ops`, -1 for none."""
    place = pl.DataFrame(
        [(row, number) for number, match in enumerate(matches) for row in match.sides[at]],
        schema={"row": pl.Int64, "match": pl.Int64},
        orient="row",
    )
    rows = side.ops.select(IDENTITY_COLUMNS).with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    known = rows.join(place, on="row", how="left")
    found = run.named_ops.join(known, on=IDENTITY_COLUMNS, how="left", maintain_order="left")
    return found["match"].fill_null(-1).to_numpy()


def part_of_op(name: str, category: str) -> str:
    """The part of a step that an op of this name and kind or HLO category belongs to: one of `WORK_CLASSES`."""
    kinds = {category, op_kind(name, category)}
    if kinds.intersection(COMMUNICATION_KINDS):
        return "communication"
    return "copy" if kinds.intersection(COPY_KINDS) else "compute"


DETAIL_SHARE: Final = 0.6
"""An op or event is named if it has at least so large a share of the change of its part."""

MIN_RANKS: Final = 2
"""With fewer ranks none differs from others."""

MIN_FACTOR: Final = 1.02
"""Kernels that changed by less than this factor did not change."""

MIN_COVERED: Final = 0.8
"""A factor is that of nearly all kernels if these have at least so large a share of the time of all, in both runs."""

MIN_KERNELS: Final = 3
"""Fewer different kernels are named one by one."""

MAX_SPREAD: Final = 0.25
"""The most that ratios may spread: the standard deviation of their logarithms, as a share of the logarithm's mean."""

EQUAL_COUNT: Final = 0.01
"""Counts that differ by no more than this share are equal."""


def kernel_time_factor(time: tuple[Floats, Floats], count: tuple[Floats, Floats], computes: Floats) -> float | None:
    """The factor by which nearly all kernels changed, from the times and counts of their matches; None without one.

    It is the weighted mean of the logarithms of ratios of times, where both runs execute a kernel equally often;
    weights are the times.
    """
    whole = [float((side * computes).sum()) for side in time]
    with np.errstate(invalid="ignore"):
        alike = np.abs(count[1] - count[0]) <= EQUAL_COUNT * np.maximum(count[0], count[1])
    usable = (computes > 0) & alike & (time[0] > 0) & (time[1] > 0)
    if usable.sum() < MIN_KERNELS or min(whole) <= 0:
        return None
    if any(float(side[usable].sum()) < MIN_COVERED * total for side, total in zip(time, whole, strict=True)):
        return None
    ratio = np.log(time[1][usable] / time[0][usable])
    weight = np.sqrt(time[0][usable] * time[1][usable])
    mean = float((ratio * weight).sum() / weight.sum())
    spread = float(np.sqrt(((ratio - mean) ** 2 * weight).sum() / weight.sum()))
    if abs(mean) < np.log(MIN_FACTOR) or spread > MAX_SPREAD * abs(mean):
        return None
    return float(np.exp(mean))
