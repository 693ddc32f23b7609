"""Steps that are far from the others of their run: an average hides them, and a test of averages calls them noise.

Owns which steps those are. Knows no op and no other run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tracehound.diff.noise import LEAST
from tracehound.diff.profile import PARTS, Profile
from tracehound.notes import Note, note

FAR: Final = 5.0
"""A step is far from the median step where it is by so many robust standard deviations (1.4826 times the median of the
distances), and by `LARGE` of the median."""

LARGE: Final = 0.1

_MOST: Final = 3
_NORMAL: Final = 1.4826


def outliers(run: Profile, name: str) -> list[Note]:
    """The steps of a run (its `name` in words) that take far longer or shorter than its others, a note each.

    At most three notes, the farthest first, and one that counts the rest; none with fewer than `LEAST` steps.
    """
    length = run.steps["duration"].to_numpy()
    if len(length) < LEAST:
        return []
    usual = float(np.median(length))
    off = length - usual
    far = np.abs(off) > max(FAR * _NORMAL * float(np.median(np.abs(off))), LARGE * usual)
    rows = sorted(np.flatnonzero(far).tolist(), key=lambda row: -abs(off[row]))
    notes = [_outlier(run, name, row, float(off[row])) for row in rows[:_MOST]]
    left = len(rows) - len(notes)
    return [*notes, *([note("more_outlier_steps", run=name, steps=left)] if left > 0 else [])]


def _outlier(run: Profile, name: str, row: int, off: float) -> Note:
    parts = run.steps.select(PARTS)
    grown = parts.to_numpy()[row] - np.median(parts.to_numpy(), axis=0)
    most = int(np.argmax(grown * np.sign(off)))
    step, length = run.steps.select("step", "duration").row(row)
    return note("outlier_step", run=name, step=step, length=round(length), off=round(off), part=PARTS[most])
