"""Notes about outliers: steps that are far from the others of their run.

An average hides them, and a test of averages calls them noise. Knows no op and no other run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tracehound.diff.run_profile import STEP_PARTS, RunProfile
from tracehound.diff.step_statistics import MIN_STEPS
from tracehound.model.notes import Note, note

OUTLIER_DEVIATIONS: Final = 5.0
"""A step is an outlier if it is so many robust standard deviations (1.4826 times the median of the distances) from the
median step, and `OUTLIER_MIN_SHARE` of the median."""

OUTLIER_MIN_SHARE: Final = 0.1

_MAX_OUTLIER_NOTES: Final = 3
_MAD_TO_DEVIATION: Final = 1.4826


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
