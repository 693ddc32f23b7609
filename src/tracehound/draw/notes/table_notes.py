"""Sentences of notes on tables (filters, order, hidden columns), queries, searches and comparisons of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.analysis.result import SETTING_NOTE
from tracehound.draw.notes.sentence_template import SentenceTemplate
from tracehound.errors import printable
from tracehound.model.units import count_noun, format_bytes, format_count, format_duration, format_share


def _rows_filtered(filter: str, passed: int, of: int, above: int) -> str:  # noqa: A002, the value's name
    more = f", and {above:,} above them" if above else ""
    return f"where {printable(filter)}: {passed:,} of {of:,} rows{more}"


def _columns_hidden(columns: tuple[str, ...]) -> str:
    return f"hidden: {', '.join(columns)}"


def _rows_sorted(column: str, *, falling: bool) -> str:
    return f"sorted by {column}, {'falling' if falling else 'rising'}"


def _columns_without_value(columns: tuple[str, ...]) -> str:
    return f"no value: {', '.join(columns)}"


def _times_divided(by: str, columns: tuple[str, ...]) -> str:
    wanted = f"a time divided by {by} is a time in whole picoseconds"
    return f"{wanted} ({', '.join(columns)}); divide by a unit to get a number: duration / 1ms"


def _run_not_whole(run: str, first: str, where: str, times: int, more: int) -> str:
    """Dropped data is named with its place, or its count (`times`)."""
    place = f" ({where or format_count(times)})" if times else ""
    others = f", and {more} more" if more else ""
    return f"the {run} is incomplete: {first}{place}{others}; see health"


def _more_outlier_steps(run: str, steps: int) -> str:
    return f"{count_noun(steps, 'more step')} of the {run} far from its median"


def _outlier_step(run: str, step: int, length: int, off: int, part: str) -> str:
    apart = f"{format_duration(abs(off))} {'more' if off > 0 else 'less'} than its median step"
    return f"step {step} of the {run} takes {format_duration(length)}, {apart} (mostly {part})"


def _work_in_no_step(base: float, other: float) -> str:
    shares = f"{format_share(base)} of work time in the baseline, {format_share(other)} in the candidate"
    return f"not compared, since it is in no step: {shares}"


def _matched_across_categories(
    ops: int, base: int, other: int, name: str, category: str, other_name: str, other_category: str
) -> str:
    times = f"{format_duration(base)} against {format_duration(other)}"
    longest = f"{name} ({category}) is {other_name} ({other_category}) in the candidate"
    return f"matched across categories: {count_noun(ops, 'op')}, {times}; {longest}"


def _categories_of_own_run(ops: int) -> str:
    which = f"{count_noun(ops, 'op')} {'has' if ops == 1 else 'have'} another category in the other run"
    return f"{which}: each run's ops count in its own categories"


def _ops_matched(base: float, other: float) -> str:
    return f"matched ops: {format_share(base)} of the ops' time in the baseline, {format_share(other)} in the candidate"


def _no_device_work(runs: tuple[str, ...]) -> str:
    return f"launches and gaps are empty: no device work was recorded in {' and '.join(runs)}"


def _recorded_in_one_run(run: str, names: tuple[str, ...]) -> str:
    return f"only in {run}: {', '.join(names)}"


def _memory_from_before(name: str, base: float, other: float) -> str:
    left = f"{format_bytes(base)} in the baseline, {format_bytes(other)} in the candidate"
    return f"{name} without memory from before the recording: {left}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "text": "{text}",
    SETTING_NOTE: "with {name}={value}",
    "query_setting_chosen": "{table} with {name}={value}",
    "rows_filtered": _rows_filtered,
    "columns_hidden": _columns_hidden,
    "rows_sorted": _rows_sorted,
    "columns_without_value": _columns_without_value,
    "times_divided": _times_divided,
    "events_of_two_lengths": (
        "duration, start and end of events are on the trace's clock; {events:,} of {of:,} differ on the device's own"
        " clock (device_duration and self)"
    ),
    "search_refused": "{why}",
    "hlo_sentence": "{text}",
    "steps_inconclusive": (
        "unclear: steps vary too much for {base:,} against {other:,} (see median and spread); record more steps"
    ),
    "runs_not_alike": "the runs are not alike: baseline {base}, candidate {other}",
    "profilers_differ": (
        "{base} against {other}: ops share no names, so only the step, its parts and its gaps are comparable"
    ),
    "run_in_doubt": "{run}: {doubt}",
    "run_not_whole": _run_not_whole,
    "too_few_steps": "too few steps to tell a change from noise: at least {least} in each run are needed",
    "work_in_no_step": _work_in_no_step,
    "outlier_step": _outlier_step,
    "more_outlier_steps": _more_outlier_steps,
    "categories_of_own_run": _categories_of_own_run,
    "matched_across_categories": _matched_across_categories,
    "ops_matched": _ops_matched,
    "no_ops_matched": "no ops matched: no op takes any time in the {run}",
    "no_difference": "no difference",
    "no_device_work_to_compare": _no_device_work,
    "not_measured_in_baseline": "launches, gaps and counters are not in the baseline: an older version saved it",
    "recorded_in_one_run": _recorded_in_one_run,
    "memory_from_before": _memory_from_before,
    "tested_alone": "conditions are tested one by one; table rows are tested together and need stronger evidence",
}

HEADLINES: Final = frozenset(
    {
        SETTING_NOTE,
        "query_setting_chosen",
        "rows_filtered",
        "no_difference",
        "hlo_sentence",
        "search_refused",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""

WARNINGS: Final = frozenset(
    {
        "runs_not_alike",
        "profilers_differ",
        "run_in_doubt",
        "run_not_whole",
        "too_few_steps",
        "steps_inconclusive",
    }
)
"""Codes of notes on lost or doubtful data, whatever their level."""
