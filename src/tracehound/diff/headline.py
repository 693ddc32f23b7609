"""The headline of a comparison: how much longer a step is, and the named parts that explain the change.

Owns the choice of parts (categories of ops, communication, copies, reasons of idle time) and of the ranks that they are
of, the factor by which all kernels changed, how comparable the runs are, and the ratio of their work. Parts without
significance of their own are named: their sum explains the change. All times are ps in a mean step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from tracehound.diff.comparable_work import WorkRatio, work_ratio
from tracehound.diff.comparison_numbers import (
    DETAIL_SHARE,
    MIN_RANKS,
    KernelFactor,
    OpTimes,
    RunOpQuantities,
    part_of_op,
    sum_matched_ops,
)
from tracehound.diff.idle_reasons import BETWEEN_KERNELS, NAME_SEPARATOR
from tracehound.diff.op_identity import NO_MATCH, OpMatch, op_categories
from tracehound.diff.run_profile import RunProfile
from tracehound.diff.step_measures import REASONS, WORK
from tracehound.model.notes import Note, note

PartTimes = Mapping[tuple[str, str], float]
"""The time of each part of a step, by one of `STEP_PARTS` and a category or reason."""

ALL_KERNELS: Final = "all kernels"
"""Name of the part of all computation, where it changed by one factor."""

HIDDEN: Final = ("communication less hidden by computation", "communication more hidden by computation")
"""Names of the part of communication that takes more, or less, of a step though it lasts about as long."""

HIDING_SHARE: Final = 0.25
"""Communication lasts about as long if its own change is no larger share of the change of its exposed time."""

NO_CHANGE: Final = ("noise", "the same")
"""Verdicts on a step that hardly changed."""

UNKNOWN_REASON: Final = "idle time"
"""Name of idle time whose reasons were not measured."""


class PartChange(Struct, frozen=True):
    """The change of one part of a step; `part` is one of `STEP_PARTS`, `name` its category or reason.

    `detail` is the op or event that explains most of it, "" where none does; `factor` is the ratio of the times of one
    execution of that op, or of all kernels; None where it is unknown.
    """

    part: str
    name: str
    baseline: float
    candidate: float
    detail: str = ""
    factor: float | None = None

    @property
    def change(self) -> float:
        """Candidate less baseline, ps in a step."""
        return self.candidate - self.baseline


class Headline(Struct, frozen=True):
    """The first facts of a comparison; `baseline` and `candidate` are mean steps in ps, `steps` their numbers.

    `parts` add up to the change, the largest first. They are of the mean over ranks; with `late_ranks` of these ranks,
    for which `waiting` others wait in communication. `uneven` is a rank on which the largest part changed most, with
    that change. `launches` and `flops` are of a step, in both runs; `matched` is the share of op time in ops of both.
    """

    baseline: float
    candidate: float
    verdict: str
    steps: tuple[int, int]
    unit: str
    ranks: tuple[int, int]
    devices: tuple[tuple[str, ...], tuple[str, ...]]
    parts: tuple[PartChange, ...] = ()
    late_ranks: tuple[int, ...] = ()
    waiting: int = 0
    uneven: tuple[int, float] | None = None
    kernels: KernelFactor | None = None
    phase: str = ""
    matched: tuple[float, float] | None = None
    launches: tuple[float, float] | None = None
    flops: tuple[float, float] | None = None
    work: WorkRatio | None = None

    @property
    def change(self) -> float:
        """Candidate less baseline, ps in a step."""
        return self.candidate - self.baseline

    @property
    def is_changed(self) -> bool:
        """False where the steps tell that there is next to no change."""
        return self.verdict not in NO_CHANGE

    @property
    def main_parts(self) -> tuple[PartChange, ...]:
        """The parts that are worth a name: the largest, until what is left is small."""
        limit = MIN_PART_SHARE * max(abs(self.change), max((abs(part.change) for part in self.parts), default=0.0))
        least = (MIN_STEP_SHARE if self.is_changed else MIN_OFFSET_SHARE) * max(self.baseline, self.candidate)
        return tuple(part for part in self.parts if abs(part.change) >= max(limit, least))[:MAX_PARTS]


MAX_PARTS: Final = 4
"""A headline names at most so many parts."""

MIN_PART_SHARE: Final = 0.05
"""Parts with a smaller share of the change, or of the largest part's, are not named."""

MIN_STEP_SHARE: Final = 0.001
"""Parts that change the step by less than this share of it are not named."""

MIN_OFFSET_SHARE: Final = 0.02
"""Where the step did not change, parts that offset one another are named from this share of it on."""


def headline_notes(headline: Headline) -> list[Note]:
    """The headline as notes: the step, the parts that explain its change, comparability, and the ratio of work."""
    found = [
        note(
            "step_time_changed",
            baseline=round(headline.baseline),
            candidate=round(headline.candidate),
            verdict=headline.verdict,
            steps=headline.steps,
            unit=headline.unit,
            phase=headline.phase,
        )
    ]
    if parts := headline.main_parts:
        found.append(
            note(
                "change_explained" if headline.is_changed else "changes_offset",
                parts=tuple(part.part for part in parts),
                names=tuple(part.name for part in parts),
                changes=tuple(round(part.change) for part in parts),
                details=tuple(part.detail for part in parts),
                factors=tuple(part.factor or 0.0 for part in parts),
                total=round(headline.change),
                rest=round(sum(part.change for part in headline.parts) - sum(part.change for part in parts)),
                ranks=_note_ranks(headline),
            )
        )
    if (kernels := headline.kernels) is not None:
        some = kernels.by_rank or kernels.by_step
        found.append(
            note(
                "kernels_changed_by_factor",
                factor=kernels.factor,
                where="rank" if kernels.by_rank else "step",
                numbers=tuple(number for number, _ in some),
                factors=tuple(factor for _, factor in some),
            )
        )
    found.append(
        note(
            "runs_compared",
            steps=headline.steps,
            unit=headline.unit,
            ranks=headline.ranks,
            devices=tuple(", ".join(models) for models in headline.devices),
            matched=headline.matched,
            launches=headline.launches,
            flops=headline.flops,
        )
    )
    if (work := headline.work) is not None:
        found.append(
            note(
                "work_differs",
                unit=work.unit,
                before=work.before,
                after=work.after,
                is_first=work.is_first,
                baseline=round(headline.baseline),
                candidate=round(headline.candidate),
            )
        )
    return found


def _note_ranks(headline: Headline) -> Note | None:
    """A note about the ranks that the parts of the headline are of; None for the mean over ranks."""
    if headline.late_ranks:
        return note("change_of_late_ranks", ranks=headline.late_ranks, waiting=headline.waiting)
    if headline.uneven is not None:
        rank, change = headline.uneven
        return note("change_of_uneven_rank", rank=rank, change=round(change))
    return None


def headline_facts(headline: Headline) -> dict[str, Any]:
    """The headline as data, for programs: times in ps of a mean step, shares as fractions."""
    kernels, work = headline.kernels, headline.work
    by_rank, by_step = (kernels.by_rank, kernels.by_step) if kernels else ((), ())
    return {
        "baseline_ps": headline.baseline,
        "candidate_ps": headline.candidate,
        "change_ps": headline.change,
        "relative": headline.change / headline.baseline if headline.baseline else None,
        "verdict": headline.verdict,
        "sure": headline.verdict in ("slower", "faster"),
        "unit": headline.unit,
        "phase": headline.phase or None,
        "steps": list(headline.steps),
        "ranks": list(headline.ranks),
        "devices": [list(models) for models in headline.devices],
        "parts": [{**asdict(part), "change": part.change} | {"detail": part.detail or None} for part in headline.parts],
        "parts_of_ranks": list(headline.late_ranks),
        "waiting_ranks": headline.waiting,
        "kernel_factor": kernels.factor if kernels else None,
        "kernel_factor_by_rank": [{"rank": rank, "factor": factor} for rank, factor in by_rank],
        "kernel_factor_by_step": [{"step": step, "factor": factor} for step, factor in by_step],
        "matched": headline.matched,
        "launches_per_step": headline.launches,
        "flops_per_step": headline.flops,
        "work": None if work is None else {**asdict(work), "ratio": work.ratio},
    }


def find_headline(
    baseline: RunProfile,
    candidate: RunProfile,
    sides: tuple[RunOpQuantities, RunOpQuantities],
    matches: Sequence[OpMatch],
    times: OpTimes,
    verdict: str,
    given: WorkRatio | None = None,
) -> Headline:
    """The headline of two runs whose ops are matched; `given` is the ratio of their work as the user knows it."""
    runs = baseline, candidate
    steps = [run.steps["duration"] for run in runs]
    before, after = (float(each.sum()) / max(1, len(each)) for each in steps)
    scope = _scope_of_parts(baseline, candidate, after - before)
    factor = times.kernel_factor()
    flops = _amounts_per_step(runs, WORK, "FLOPs", "value")
    phases = {phase for run in runs for phase in run.steps["phase"].unique().to_list()}
    return Headline(
        before,
        after,
        verdict,
        (baseline.steps.height, candidate.steps.height),
        " against ".join(dict.fromkeys(run.unit for run in runs)),
        (baseline.ranks, candidate.ranks),
        (baseline.devices, candidate.devices),
        _part_changes(scope, times),
        scope.late_ranks,
        scope.waiting,
        _uneven_rank(baseline, candidate, scope),
        factor,
        phases.pop() if len(phases) == 1 else "",
        _matched_shares(sides, matches),
        _amounts_per_step(runs, "launches", "launches", "count"),
        flops,
        given or work_ratio(baseline.shapes, candidate.shapes, flops),
    )


class PartScope(Struct, frozen=True):
    """The parts of a mean step in both runs, and the ranks that they are of; none: the mean over ranks."""

    baseline: PartTimes
    candidate: PartTimes
    late_ranks: tuple[int, ...] = ()
    waiting: int = 0


def mean_step_parts(run: RunProfile, *, with_reasons: bool = True) -> PartTimes:
    """The parts of a mean step, averaged over ranks; they add up to it. Without reasons idle time is one part."""
    height = max(1, run.steps.height)
    known = _parts_of_categories(run)
    ops = run.ops.select("name", "category", "exposed", op_categories(run.ops).alias("group"))
    found: dict[tuple[str, str], float] = {}
    sums = ops.group_by("group", "category").agg(pl.col("exposed").sum(), pl.col("name").first())
    for group, category, exposed, name in sums.sort("group", "category").iter_rows():
        key = (known.get(group) or part_of_op(name, category), group)
        found[key] = found.get(key, 0.0) + exposed / height
    idle = float(run.steps["idle"].sum()) / height
    if not with_reasons:
        return {**found, ("idle", UNKNOWN_REASON): idle}
    reasons = run.measures.filter(topic=REASONS).group_by("name").agg(pl.col("value").sum() / height)
    times = {("idle", name): value for name, value in reasons.iter_rows()}
    rest = idle - sum(times.values())
    between = ("idle", BETWEEN_KERNELS)
    return {**found, **times, between: times.get(between, 0.0) + rest}


def _parts_of_categories(run: RunProfile) -> dict[str, str]:
    """The part of a step in which the ops of a category have most of their time, as far as it was measured."""
    rows = run.rank_parts.filter(pl.col("part") != "idle").group_by("name", "part").agg(pl.col("time").sum())
    return dict(rows.sort("time", "part").select("name", "part").iter_rows())


def _scope_of_parts(baseline: RunProfile, candidate: RunProfile, change: float) -> PartScope:
    """The parts to be compared: those of the late ranks, if others wait for them, else of the mean over ranks."""
    measured = all(
        run.measures.filter(topic=REASONS).height or not run.steps["idle"].sum() for run in (baseline, candidate)
    )
    before, after = (mean_step_parts(run, with_reasons=measured) for run in (baseline, candidate))
    mean = PartScope(before, after)
    ranks = [run.rank_parts["rank"].unique().sort().to_list() for run in (baseline, candidate)]
    if len(ranks[1]) < MIN_RANKS or ranks[0] != ranks[1]:
        return mean
    late = _late_ranks(baseline.rank_parts, candidate.rank_parts, change)
    if not late or len(late) > len(ranks[1]) // 2:
        return mean
    before, after = (_parts_of_ranks(run.rank_parts, late) for run in (baseline, candidate))
    return PartScope(before, after, late, len(ranks[1]) - len(late))


WAITING_SHARE: Final = 0.25
"""Ranks wait if the mean of their communication explains at least so large a share of the change."""

LATE_SHARE: Final = 0.5
"""A rank is late if its own parts, without communication, explain at least so large a share of the change."""


def _late_ranks(baseline: pl.DataFrame, candidate: pl.DataFrame, change: float) -> tuple[int, ...]:
    """The ranks that the others wait for in the slower run: they explain the change without communication."""
    is_communication = pl.col("part") == "communication"
    sums = [
        parts.group_by("rank").agg(
            pl.col("time").filter(is_communication).sum().alias("communication"),
            pl.col("time").filter(~is_communication).sum().alias("own"),
        ).sort("rank")
        for parts in (baseline, candidate)
    ]  # fmt: skip
    communication, own = (
        (sums[1][name] - sums[0][name]).to_numpy() * np.sign(change) for name in ("communication", "own")
    )
    if not change or communication.mean() < WAITING_SHARE * abs(change):
        return ()
    late = (own >= LATE_SHARE * max(abs(change), own.max())) & (communication < WAITING_SHARE * abs(change))
    return tuple(sums[1]["rank"].filter(pl.Series(late)).to_list())


def _parts_of_ranks(parts: pl.DataFrame, ranks: Sequence[int]) -> PartTimes:
    """The parts of a mean step, averaged over these ranks."""
    sums = parts.filter(pl.col("rank").is_in(list(ranks))).group_by("part", "name").agg(pl.col("time").sum())
    return {(part, name): time / len(ranks) for part, name, time in sums.iter_rows()}


def _part_changes(scope: PartScope, times: OpTimes) -> tuple[PartChange, ...]:
    """The changes of all parts, the largest first: idle time by reasons, computation as a whole if of one factor."""
    groups: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    factor = times.factor_of_ranks(scope.late_ranks)
    for part, name in sorted({**scope.baseline, **scope.candidate}):
        reason, _, event = name.partition(NAME_SEPARATOR) if part == "idle" else (name, "", "")
        shown = ALL_KERNELS if factor and part == "compute" else "" if part in ("communication", "copy") else reason
        values = (scope.baseline.get((part, name), 0.0), scope.candidate.get((part, name), 0.0))
        groups.setdefault((part, shown), []).append((event, *values))
    changes = [
        _part_change(part, name, members, times, scope.late_ranks, factor) for (part, name), members in groups.items()
    ]
    return tuple(sorted(changes, key=lambda each: (-abs(each.change), each.part, each.name)))


def _part_change(
    part: str,
    name: str,
    members: Sequence[tuple[str, float, float]],
    times: OpTimes,
    ranks: tuple[int, ...],
    factor: float | None,
) -> PartChange:
    """The change of one part, with the op or event behind most of it."""
    before, after = sum(member[1] for member in members), sum(member[2] for member in members)
    if name == ALL_KERNELS:
        return PartChange(part, name, before, after, factor=factor)
    if part == "compute":
        return PartChange(part, name, before, after, *times.main_op(name, after - before, ranks))
    if part == "communication":
        own = times.communication_change(ranks)
        hiding = own is not None and abs(own) <= HIDING_SHARE * abs(after - before)
        return PartChange(part, HIDDEN[after < before] if hiding and after != before else name, before, after)
    event, low, high = max(members, key=lambda member: (abs(member[2] - member[1]), member[0]))
    is_main = after != before and abs(high - low) >= DETAIL_SHARE * abs(after - before)
    return PartChange(part, name, before, after, event if is_main else "")


def _uneven_rank(baseline: RunProfile, candidate: RunProfile, scope: PartScope) -> tuple[int, float] | None:
    """The rank whose own time changed most, if the mean over ranks hides it: by more than twice the mean, with that."""
    ranks = [run.rank_parts["rank"].unique().sort().to_list() for run in (baseline, candidate)]
    if scope.late_ranks or ranks[0] != ranks[1] or len(ranks[0]) < MIN_RANKS:
        return None
    own = pl.col("part") != "communication"
    before, after = (
        run.rank_parts.filter(own).group_by("rank").agg(pl.col("time").sum()).sort("rank")
        for run in (baseline, candidate)
    )
    if before["rank"].to_list() != after["rank"].to_list():
        return None
    change = (after["time"] - before["time"]).to_numpy()
    most = int(np.abs(change).argmax())
    mean_step = float(before["time"].mean() or 0.0)  # type: ignore[arg-type]
    is_uneven = abs(change[most]) > UNEVEN_RATIO * abs(change.mean()) and abs(change[most]) > UNEVEN_SHARE * mean_step
    return (int(after["rank"][most]), float(change[most])) if is_uneven else None


UNEVEN_RATIO: Final = 2.0
UNEVEN_SHARE: Final = 0.02
"""A rank is named if it changed by more than this ratio of the mean and this share of a step."""


def _matched_shares(
    sides: tuple[RunOpQuantities, RunOpQuantities], matches: Sequence[OpMatch]
) -> tuple[float, float] | None:
    """The shares of the ops' time that are in ops of both runs; None without any time."""
    times = sum_matched_ops(sides, matches, "time").means
    matched = np.array([match.how != NO_MATCH for match in matches], np.bool_)
    totals = [float(side.sum()) for side in times]
    if not all(totals):
        return None
    before, after = (float(side[matched].sum()) / total for side, total in zip(times, totals, strict=True))
    return before, after


def _amounts_per_step(runs: Sequence[RunProfile], topic: str, name: str, column: str) -> tuple[float, float] | None:
    """The mean amount of a measure in a step of both runs; None where a run has none."""
    before, after = (
        float(run.measures.filter(topic=topic, name=name)[column].sum()) / max(1, run.steps.height) for run in runs
    )
    return (before, after) if before > 0 and after > 0 else None
