"""Comparable work of two runs: ranks of both, steps of one phase of inference, and the ratio of the work of a step.

Prefill steps and decode steps do different work, so that only steps of one phase are compared with each other. The
ratio of the work is that of samples or tokens, as given, or of recorded shapes.
"""

from __future__ import annotations

import math
from typing import Final

import orjson
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings, Setting
from tracehound.analysis.result import Column, Result
from tracehound.diff.comparison_numbers import MIN_RANKS, rows_to_table
from tracehound.diff.run_profile import STEP_PARTS, RunProfile
from tracehound.errors import TracehoundError, printable


def common_phases(baseline: RunProfile, candidate: RunProfile) -> tuple[str, ...]:
    """The phases of inference that both runs have, the one with most time first; none where few steps have any."""
    times = []
    for run in (baseline, candidate):
        sums = dict(run.steps.group_by("phase").agg(pl.col("duration").sum()).iter_rows())
        total = sum(sums.values())
        if not total or sums.get("", 0.0) > MAX_WITHOUT_PHASE * total:
            return ()
        times.append({phase: time / total for phase, time in sums.items() if phase})
    both = times[0].keys() & times[1].keys()
    return tuple(sorted(both, key=lambda phase: (-times[0][phase] - times[1][phase], phase)))


MAX_WITHOUT_PHASE: Final = 0.5
"""Phases are compared one by one unless steps without a phase have a larger share of the time."""


def steps_of_phase(run: RunProfile, phase: str) -> RunProfile:
    """The profile of the steps of one phase."""
    steps = run.steps.filter(phase=phase)
    of_phase = pl.col("step").is_in(steps["step"].implode())
    return replace(
        run,
        steps=steps,
        ops=run.ops.filter(of_phase),
        measures=run.measures.filter(of_phase),
        rank_parts=run.rank_parts.filter(phase=phase),
        rank_ops=run.rank_ops.filter(phase=phase),
    )


PHASE: Final = Setting("phase", "", "compare the steps of this phase of inference: prefill, decode or mixed", str.strip)


def compared_phase(baseline: RunProfile, candidate: RunProfile, given: ChosenSettings) -> tuple[RunProfile, RunProfile]:
    """Both profiles with the steps of the given phase alone, else of the common one with most time.

    Without a common phase they have all steps. Raises TracehoundError for a given phase that a run does not have.
    """
    phases, wanted = common_phases(baseline, candidate), PHASE.value_in(given)
    if wanted and not all((run.steps["phase"] == wanted).any() for run in (baseline, candidate)):
        known = ", ".join(phases) or "no phase that both runs have"
        raise TracehoundError(f"not both runs have steps of phase {printable(wanted)!r}", remedy=f"there is {known}")
    phase = wanted or next(iter(phases), "")
    return (steps_of_phase(baseline, phase), steps_of_phase(candidate, phase)) if phase else (baseline, candidate)


RANK_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("baseline", "time", "average of a step in the baseline"),
    Column("candidate", "time", "average of a step in the candidate"),
    Column("change", "difference", "candidate less baseline"),
    Column("relative", "growth", "change / baseline"),
    *(Column(f"{part}_change", "difference", f"change of {part} on the rank") for part in STEP_PARTS),
)


def rank_table(baseline: RunProfile, candidate: RunProfile, top: int | None) -> Result | None:
    """The mean step of each rank, if both runs have the same ranks and more than one; None otherwise.

    The rank that changed most by itself, without communication, comes first: others may wait for it there.
    """
    sums = [
        run.rank_parts.group_by("rank").agg(
            pl.col("time").sum().alias("step"),
            *(pl.col("time").filter(pl.col("part") == part).sum().alias(part) for part in STEP_PARTS),
        )
        for run in (baseline, candidate)
    ]
    ranks = [each["rank"].sort().to_list() for each in sums]
    if ranks[0] != ranks[1] or len(ranks[0]) < MIN_RANKS:
        return None
    rows = sums[0].join(sums[1], on="rank", suffix="_after").with_columns(
        pl.col("step").alias("baseline"),
        pl.col("step_after").alias("candidate"),
        (pl.col("step_after") - pl.col("step")).alias("change"),
        (pl.col("step_after") / pl.col("step") - 1).alias("relative"),
        *((pl.col(f"{part}_after") - pl.col(part)).alias(f"{part}_change") for part in STEP_PARTS),
    )  # fmt: skip
    own = (pl.col("change") - pl.col("communication_change")).abs()
    table = rows_to_table(rows.sort(-own, "rank").to_dict(as_series=False), RANK_COLUMNS)
    return Result("diff-ranks", "Ranks", RANK_COLUMNS, table.head(top) if top else table, table.height)


class WorkRatio(Struct, frozen=True):
    """The ratio of the work of a step in both runs: of `samples` or `tokens` as given, or of dimensions of shapes.

    `before` and `after` are the numbers of samples or tokens, or the dimension that differs most often (the smallest of
    these); `is_first` says that it is most often the first dimension of a shape.
    """

    unit: str
    before: float
    after: float
    is_first: bool = False

    @property
    def ratio(self) -> float:
        """Candidate / baseline."""
        return self.after / self.before


def parse_amounts(text: str) -> tuple[float, float] | None:
    """A number of a step in both runs, ``64``, or one of each, ``64,128``; None for no text.

    Raises TracehoundError for anything else.
    """
    if not text:
        return None
    words = text.split(",")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or not all(MIN_AMOUNT <= number <= MAX_AMOUNT for number in numbers):
        raise TracehoundError(
            f"{printable(text)!r} is not a number of a step", remedy="write N, or BASELINE,CANDIDATE: 64 or 64,128"
        )
    return numbers[0], numbers[-1]


MIN_AMOUNT: Final = 1e-9
MAX_AMOUNT: Final = 1e18

SAMPLES: Final = Setting(
    "samples", "", "samples in a step: N, or BASELINE,CANDIDATE; gives time per sample", parse_amounts
)
TOKENS: Final = Setting("tokens", "", "tokens in a step: N, or BASELINE,CANDIDATE; gives time per token", parse_amounts)


SETTINGS: Final = (SAMPLES, TOKENS, PHASE)
"""The settings of a comparison."""


def given_work(given: ChosenSettings) -> WorkRatio | None:
    """The ratio of the samples or tokens that the user gave; None without any."""
    for setting in (SAMPLES, TOKENS):
        if (amounts := setting.value_in(given)) is not None:
            return WorkRatio(setting.name, *amounts)
    return None


def work_ratio(
    baseline: pl.DataFrame, candidate: pl.DataFrame, flops: tuple[float, float] | None = None
) -> WorkRatio | None:
    """The ratio by which most dimensions of the recorded shapes differ that differ at all; None where none does.

    Ops of one name are paired by the order of their different shapes; each pair of dimensions counts once for each pair
    of shapes. It is the ratio of the work only where the FLOPs of a step say so, too (a program divided among more
    devices has smaller shapes), or where these are unknown and it is the first dimension: the batch.
    """
    ours, theirs = (_shapes_by_name(frame) for frame in (baseline, candidate))
    votes: dict[float, dict[tuple[int, int], tuple[int, int]]] = {}
    for name in ours.keys() & theirs.keys():
        if len(ours[name]) != len(theirs[name]):
            continue
        for one, another in zip(ours[name], theirs[name], strict=True):
            for before, after, place in _different_dimensions(one, another):
                pairs = votes.setdefault(round(after / before, 9), {})
                many, first = pairs.get((before, after), (0, 0))
                pairs[before, after] = (many + 1, first + (place == 0))
    counted = {ratio: sum(many for many, _ in pairs.values()) for ratio, pairs in votes.items()}
    if not counted:
        return None
    ratio = max(counted, key=lambda each: (counted[each], -each))
    if counted[ratio] < MIN_VOTES * sum(counted.values()):
        return None
    (before, after), (many, first) = max(votes[ratio].items(), key=lambda each: (each[1][0], -each[0][0]))
    found = WorkRatio("", before, after, first * 2 > many)
    if flops is None:
        return found if found.is_first else None
    return found if abs(math.log(flops[1] / flops[0] / found.ratio)) <= math.log(EQUAL_RATIO) else None


EQUAL_RATIO: Final = 1.25
"""The ratios of FLOPs and of shapes are equal up to this factor: some ops do not grow with the batch."""


MIN_VOTES: Final = 0.5
"""A ratio counts if at least so large a share of the dimensions that differ has it."""

_Shape = tuple[tuple[int, ...], ...]


def _shapes_by_name(shapes: pl.DataFrame) -> dict[str, list[_Shape]]:
    """The different shapes of each op, in their order."""
    found: dict[str, list[_Shape]] = {}
    for name, dims in shapes.iter_rows():
        try:
            read = orjson.loads(dims)
        except orjson.JSONDecodeError:
            continue
        shape = tuple(
            tuple(size for size in each if isinstance(size, int)) if isinstance(each, list) else () for each in read
        ) if isinstance(read, list) else ()  # fmt: skip
        of_name = found.setdefault(name, [])
        if shape not in of_name:
            of_name.append(shape)
    return found


def _different_dimensions(one: _Shape, another: _Shape) -> list[tuple[int, int, int]]:
    """The dimensions that differ between two shapes of equal rank: both sizes, and the place in the tensor."""
    if [len(each) for each in one] != [len(each) for each in another]:
        return []
    return [
        (before, after, place)
        for tensor, other in zip(one, another, strict=True)
        for place, (before, after) in enumerate(zip(tensor, other, strict=True))
        if before != after and before > 0 and after > 0
    ]
