"""Steps that are far from the others of their run: an average hides them, and a test of averages calls them noise.

Owns which steps those are. Knows no op and no other run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tracehound.diff.noise import LEAST
from tracehound.diff.profile import PARTS, Profile
from tracehound.units import duration, plural

FAR: Final = 5.0
"""A step is far from the median step where it is by so many robust standard deviations (1.4826 times the median of the
distances), and by `LARGE` of the median."""

LARGE: Final = 0.1

_MOST: Final = 3
_NORMAL: Final = 1.4826


def outliers(run: Profile, name: str) -> list[str]:
    """The steps of a run (its `name` in words) that take far longer or shorter than its others, a line each.

    At most three lines, the farthest first, and one that counts the rest; none with fewer than `LEAST` steps.
    """
    length = run.steps["duration"].to_numpy()
    if len(length) < LEAST:
        return []
    usual = float(np.median(length))
    off = length - usual
    far = np.abs(off) > max(FAR * _NORMAL * float(np.median(np.abs(off))), LARGE * usual)
    rows = sorted(np.flatnonzero(far).tolist(), key=lambda row: -abs(off[row]))
    told = [_told(run, name, row, float(off[row])) for row in rows[:_MOST]]
    left = len(rows) - len(told)
    return [*told, *([f"{plural(left, 'other step')} of the {name} far from its median, too"] if left > 0 else [])]


def _told(run: Profile, name: str, row: int, off: float) -> str:
    parts = run.steps.select(PARTS)
    grown = parts.to_numpy()[row] - np.median(parts.to_numpy(), axis=0)
    most = int(np.argmax(grown * np.sign(off)))
    step, length = run.steps.select("step", "duration").row(row)
    way = "more" if off > 0 else "less"
    return (
        f"step {step} of the {name} takes {duration(round(length))}, {duration(round(abs(off)))} {way} than its median"
        f" step, most of it {PARTS[most]}"
    )
