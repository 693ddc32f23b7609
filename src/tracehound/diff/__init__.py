"""Comparison of two runs: what became slower, faster, new or gone, step for step, and whether that exceeds chance.

A `RunProfile` has the measurements of one run, a `Comparison` the differences of two. Knows no form and no widget.
"""

from __future__ import annotations

from tracehound.diff.baseline_file import load_baseline, refuse_non_baseline, save_baseline
from tracehound.diff.comparable_work import SETTINGS as COMPARISON_SETTINGS
from tracehound.diff.comparison_tables import comparability_notes
from tracehound.diff.gate_conditions import (
    COMPARISON_GRAMMAR,
    SINGLE_RUN_GRAMMAR,
    GateCondition,
    GateVerdict,
    judge_comparison,
    judge_run,
    parse_condition,
)
from tracehound.diff.headline import headline_facts
from tracehound.diff.run_comparison import DEFINITION, Comparison, compare_runs
from tracehound.diff.run_profile import RunProfile, incomplete_run_notes, profile_run

__all__ = [
    "COMPARISON_GRAMMAR",
    "COMPARISON_SETTINGS",
    "DEFINITION",
    "SINGLE_RUN_GRAMMAR",
    "Comparison",
    "GateCondition",
    "GateVerdict",
    "RunProfile",
    "comparability_notes",
    "compare_runs",
    "headline_facts",
    "incomplete_run_notes",
    "judge_comparison",
    "judge_run",
    "load_baseline",
    "parse_condition",
    "profile_run",
    "refuse_non_baseline",
    "save_baseline",
]
