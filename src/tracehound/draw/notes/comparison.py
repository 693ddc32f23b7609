"""What notes say of a comparison of two runs.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import bytes_, count, duration, plural, share


def _run_not_whole(run: str, first: str, where: str, times: int, more: int) -> str:
    """What is dropped is said with its place, or how often (`times`)."""
    place = f" ({where or count(times)})" if times else ""
    others = f", and {more} more" if more else ""
    return f"the {run} is not whole: {first}{place}{others}; see health"


def _more_outlier_steps(run: str, steps: int) -> str:
    return f"{plural(steps, 'other step')} of the {run} far from its median, too"


def _outlier_step(run: str, step: int, length: int, off: int, part: str) -> str:
    apart = f"{duration(abs(off))} {'more' if off > 0 else 'less'} than its median step"
    return f"step {step} of the {run} takes {duration(length)}, {apart}, most of it {part}"


def _work_in_no_step(base: float, other: float) -> str:
    return f"in no step, and not compared: {share(base)} of the base's and {share(other)} of the other's time of work"


def _matched_across_categories(
    ops: int, base: int, other: int, name: str, category: str, other_name: str, other_category: str
) -> str:
    times = f"{duration(base)} against {duration(other)}"
    longest = f"{name} ({category}) is {other_name} ({other_category}) in the other run"
    return f"matched across categories: {plural(ops, 'op')}, {times}; {longest}"


def _ops_matched(base: float, other: float) -> str:
    return f"matched: {share(base)} of the ops' time in the base, {share(other)} in the other"


def _no_device_work(runs: tuple[str, ...]) -> str:
    return f"launches and gaps: no work of a device was recorded in {' and '.join(runs)}"


def _recorded_in_one_run(run: str, names: tuple[str, ...]) -> str:
    return f"recorded in {run} alone: {', '.join(names)}"


def _memory_from_before(name: str, base: float, other: float) -> str:
    left = f"{bytes_(base)} in the base, {bytes_(other)} in the other run"
    return f"{name}: without what is left from before the recording, {left}"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "steps_inconclusive": (
        "unclear: {base:,} steps against {other:,} tell neither a change nor that there is next to none: they differ"
        " too much among themselves (see medians and spreads); more steps may"
    ),
    "runs_not_alike": "not alike: of the base {base}, of the other {other} is compared",
    "profilers_differ": (
        "{base} against {other}: ops share no names, only the step, its parts and its gaps are comparable"
    ),
    "run_in_doubt": "{run}: {doubt}",
    "run_not_whole": _run_not_whole,
    "too_few_steps": "too few steps to tell a change from chance: it takes {least} on either side",
    "work_in_no_step": _work_in_no_step,
    "outlier_step": _outlier_step,
    "more_outlier_steps": _more_outlier_steps,
    "categories_of_own_run": (
        "ops are in the categories of their own run, which for {ops:,} of them differ: what one category is without"
        " another may have"
    ),
    "matched_across_categories": _matched_across_categories,
    "ops_matched": _ops_matched,
    "no_ops_matched": "matched: nothing, for no op takes any time in the {run}",
    "no_difference": "no difference",
    "no_device_work_to_compare": _no_device_work,
    "not_measured_in_baseline": "launches, gaps and counters: not in the baseline, which an older version saved",
    "recorded_in_one_run": _recorded_in_one_run,
    "memory_from_before": _memory_from_before,
    "tested_alone": "tested alone: rows of the tables are tested together, so that each needs stronger evidence",
}
