"""Notes on a comparison: data that cannot be compared, doubtful runs, matched ops, and outlier steps.

Outliers are steps that are far from the others of their run: an average hides them, and a test of averages calls them
noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.diff.comparison_numbers import QuantityPair
from tracehound.diff.op_matching import NO_MATCH, OpMatch
from tracehound.diff.run_profile import STEP_PARTS, RunProfile, incomplete_run_notes, note_unlike_runs
from tracehound.diff.step_statistics import MIN_STEPS
from tracehound.model.notes import Note, note

OUTLIER_DEVIATIONS: Final = 5.0
"""A step is an outlier if it is so many robust standard deviations (1.4826 times the median of the distances) from the
median step, and `OUTLIER_MIN_SHARE` of the median."""

OUTLIER_MIN_SHARE: Final = 0.1

_MAX_OUTLIER_NOTES: Final = 3
_MAD_TO_DEVIATION: Final = 1.4826


MIN_OUTSIDE_SHARE: Final = 0.0005
"""A smaller share of work in no step gets no note: it would print as 0.0 %."""


def _profiler_notes(baseline: RunProfile, candidate: RunProfile) -> list[Note]:
    """A note where different profilers wrote the runs: not everything can be compared."""
    if baseline.form == candidate.form or not baseline.form or not candidate.form:
        return []
    return [note("profilers_differ", base=baseline.form, other=candidate.form)]


def comparability_notes(baseline: RunProfile, candidate: RunProfile) -> list[Note]:
    """Notes about the whole comparison: different profilers, and files that are hardly of one run."""
    runs = (("base", baseline), ("other run", candidate))
    alone = [note("run_in_doubt", run=name, doubt=run.doubt) for name, run in runs if run.doubt is not None]
    return [*_profiler_notes(baseline, candidate), *alone]


def step_notes(baseline: RunProfile, candidate: RunProfile) -> list[Note]:
    """Notes about the steps of both runs."""
    notes = []
    if min(baseline.steps.height, candidate.steps.height) < MIN_STEPS:
        notes.append(note("too_few_steps", least=MIN_STEPS))
    if (unlike := note_unlike_runs(baseline, candidate)) is not None:
        notes.append(unlike)
    notes += _profiler_notes(baseline, candidate)
    if max(baseline.outside, candidate.outside) >= MIN_OUTSIDE_SHARE:
        notes.append(note("work_in_no_step", base=baseline.outside, other=candidate.outside))
    runs = {"base": baseline, "other run": candidate}
    outliers = [line for name, run in runs.items() for line in outlier_notes(run, name)]
    return [*notes, *outliers, *incomplete_run_notes(runs)]


def category_notes(ops: pl.DataFrame) -> list[Note]:
    """A note where ops are matched across categories: one may lose the time that another gets."""
    across = ops.drop_nulls("other_category").height
    return [note("categories_of_own_run", ops=across)] if across else []


def cross_category_notes(ops: pl.DataFrame) -> list[Note]:
    """A note about ops with a partner of another category, with the longest of them."""
    rows = ops.drop_nulls("other_category").sort(pl.max_horizontal("base", "other"), descending=True)
    if rows.is_empty():
        return []
    longest = rows.row(0, named=True)
    return [
        note(
            "matched_across_categories",
            ops=rows.height,
            base=int(rows["base"].sum()),
            other=int(rows["other"].sum()),
            name=longest["name"],
            category=longest["category"],
            other_name=longest["other_name"] or longest["name"],
            other_category=longest["other_category"],
        )
    ]


def op_notes(matches: Sequence[OpMatch], times: QuantityPair, table: pl.DataFrame) -> list[Note]:
    """Notes about the share of each run that is matched, and about runs without a difference."""
    unmatched = np.array([match.how == NO_MATCH for match in matches], np.bool_)
    total_times = [float(side.sum()) for side in times.means]
    if all(total_times):
        baseline, candidate = (
            1 - float(side[unmatched].sum()) / time for side, time in zip(times.means, total_times, strict=True)
        )
        notes = [note("ops_matched", base=baseline, other=candidate)]
    else:
        notes = [note("no_ops_matched", run="other" if total_times[0] else "base")]
    changed = (
        (pl.col("change") != 0) | (pl.col("exposed_change") != 0) | (pl.col("base_count") != pl.col("other_count"))
    )
    if not table.filter(changed).height:
        notes.append(note("no_difference"))
    return notes


def outlier_notes(run: RunProfile, name: str) -> list[Note]:
    """The steps of a run (its `name` in words) that take far longer or shorter than its others, a note each.

    At most three notes, the farthest first, and one that counts the rest; none with fewer than `MIN_STEPS` steps.
    """
    length = run.steps["duration"].to_numpy()
    if len(length) < MIN_STEPS:
        return []
    usual = float(np.median(length))
    off = length - usual
    far = np.abs(off) > max(
        OUTLIER_DEVIATIONS * _MAD_TO_DEVIATION * float(np.median(np.abs(off))), OUTLIER_MIN_SHARE * usual
    )
    rows = sorted(np.flatnonzero(far).tolist(), key=lambda row: -abs(off[row]))
    notes = [_outlier_note(run, name, row, float(off[row])) for row in rows[:_MAX_OUTLIER_NOTES]]
    left = len(rows) - len(notes)
    return [*notes, *([note("more_outlier_steps", run=name, steps=left)] if left > 0 else [])]


def _outlier_note(run: RunProfile, name: str, row: int, off: float) -> Note:
    """A note about one step, with the part of it that differs most from the median."""
    parts = run.steps.select(STEP_PARTS)
    grown = parts.to_numpy()[row] - np.median(parts.to_numpy(), axis=0)
    most = int(np.argmax(grown * np.sign(off)))
    step, length = run.steps.select("step", "duration").row(row)
    return note("outlier_step", run=name, step=step, length=round(length), off=round(off), part=STEP_PARTS[most])
