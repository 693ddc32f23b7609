"""Two runs side by side: what became slower, faster, new or gone, step for step, and whether that is more than noise.

A `Profile` is what is known of one run, a `Comparison` what two of them differ in. Knows no form and no widget.
"""

from __future__ import annotations

from tracehound.diff.baseline import loaded, refuse_other, saved
from tracehound.diff.compare import DEFINITION, Comparison, compare, doubts
from tracehound.diff.gate import ALONE, GRAMMAR, Condition, Verdict, condition, judged, judged_alone
from tracehound.diff.profile import Profile, not_whole, profile

__all__ = [
    "ALONE",
    "DEFINITION",
    "GRAMMAR",
    "Comparison",
    "Condition",
    "Profile",
    "Verdict",
    "compare",
    "condition",
    "doubts",
    "judged",
    "judged_alone",
    "loaded",
    "not_whole",
    "profile",
    "refuse_other",
    "saved",
]
