"""Sentences of notes on tables (filters, order, hidden columns), queries, searches and comparisons of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.analysis.devices.kernel_classes import KERNEL_CLASSES
from tracehound.analysis.result import SETTING_NOTE
from tracehound.errors import printable
from tracehound.model.notes import SentenceTemplate
from tracehound.model.short_names import cut_middle, shorten_kernel_name
from tracehound.model.units import (
    PS_PER_S,
    count_noun,
    format_bytes,
    format_count,
    format_duration,
    format_duration_in_words,
    format_ranks,
    format_share,
    join_some,
)


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
    wanted = f"a time divided by {by} is a time, so much shorter and cut to whole picoseconds"
    return f"{wanted} ({', '.join(columns)}): divide by a unit to get a number, duration / 1ms"


def _run_not_whole(run: str, first: str, where: str, times: int, more: int) -> str:
    """Dropped data is named with its place, or its count (`times`)."""
    place = f" ({where or format_count(times)})" if times else ""
    others = f", and {more} more" if more else ""
    return f"the {run} is not whole: {first}{place}{others}; see health"


def _more_outlier_steps(run: str, steps: int) -> str:
    return f"{count_noun(steps, 'other step')} of the {run} far from its median, too"


def _outlier_step(run: str, step: int, length: int, off: int, part: str) -> str:
    apart = f"{format_duration(abs(off))} {'more' if off > 0 else 'less'} than its median step"
    return f"step {step} of the {run} takes {format_duration(length)}, {apart}, most of it {part}"


def _work_in_no_step(baseline: float, candidate: float) -> str:
    shares = f"{format_share(baseline)} of the baseline's and {format_share(candidate)} of the candidate's"
    return f"in no step, and not compared: {shares} time of work"


def _matched_across_categories(
    ops: int, baseline: int, candidate: int, name: str, category: str, candidate_name: str, candidate_category: str
) -> str:
    times = f"{format_duration(baseline)} against {format_duration(candidate)}"
    longest = f"{name} ({category}) is {candidate_name} ({candidate_category}) in the candidate"
    return f"matched across categories: {count_noun(ops, 'op')}, {times}; {longest}"


def _ops_matched(baseline: float, candidate: float) -> str:
    return f"matched: {format_share(baseline)} of op time in the baseline, {format_share(candidate)} in the candidate"


def _no_device_work(runs: tuple[str, ...]) -> str:
    return f"launches and gaps: no work of a device was recorded in {' and '.join(runs)}"


def _recorded_in_one_run(run: str, names: tuple[str, ...]) -> str:
    return f"recorded in {run} alone: {', '.join(names)}"


def _memory_from_before(name: str, baseline: float, candidate: float) -> str:
    left = f"{format_bytes(baseline)} in the baseline, {format_bytes(candidate)} in the candidate"
    return f"{name}: without what is left from before the recording, {left}"


_STEP_PHRASES: Final = {"steps": "step time", "executions": "time of an execution"}
_STEP_NOUNS: Final = {"steps": "step", "executions": "execution"}


def _step_time_changed(
    baseline: int, candidate: int, verdict: str, steps: tuple[int, int], unit: str, phase: str
) -> str:
    """The first line of a comparison: both times, the change, and whether it is more than chance."""
    subject = f"{phase} {_STEP_PHRASES.get(unit, f'time of {unit}')}".strip()
    if verdict == "the same":
        return f"no change: {subject} {format_duration_in_words(baseline)} in both runs"
    growth = f" ({_growth_in_words((candidate - baseline) / baseline)})" if baseline else ""
    times = f"{format_duration_in_words(baseline)} -> {format_duration_in_words(candidate)}"
    return f"{subject} {times}, {_signed_duration(candidate - baseline)}{growth}: {_verdict_in_words(verdict, steps)}"


def _verdict_in_words(verdict: str, steps: tuple[int, int]) -> str:
    ours, theirs = steps
    if verdict == "unclear":
        return f"inconclusive: steps vary too much for {ours:,} against {theirs:,}; record more"
    if verdict == "too few steps":
        return f"inconclusive: only {ours:,} against {theirs:,}; record at least 4 of each"
    if verdict == "noise":
        return "no change beyond chance"
    if verdict.startswith("perhaps "):
        return f"{verdict} (chance alone does that in one of 20 comparisons)"
    return f"{verdict}, more than chance"


def _phases_compared(
    compared: str,
    phases: tuple[str, ...],
    baseline: tuple[int, ...],
    candidate: tuple[int, ...],
    verdicts: tuple[str, ...],
) -> str:
    """The mean steps of all phases of inference; the tables are of one."""
    facts = [
        f"{phase} {format_duration_in_words(before)} -> {format_duration_in_words(after)} ({verdict})"
        for phase, before, after, verdict in zip(phases, baseline, candidate, verdicts, strict=True)
    ]
    return f"tables are of {compared} steps alone; all phases: {', '.join(facts)}"


def _signed_duration(ps: int) -> str:
    return f"{'+' * (ps > 0)}{format_duration_in_words(ps)}"


def _growth_in_words(fraction: float) -> str:
    return (
        f"{fraction * 100:+.3g} %" if abs(fraction) < 10 else f"{fraction + 1:,.0f} times" if fraction < 1e6 else "new"
    )


_PART_NAMES: Final = {"communication": "communication", "copy": "copies"}
_CATEGORY_NAMES: Final = {
    "gemm": "GEMMs",
    "convolution": "convolutions",
    "op": "operators",
    "synchronization": "idle in synchronization",
    "allocation": "idle in memory allocation",
}
_ACTIVITY_STARTS: Final = ("running", "launching", "calling", "tracing", "blocked", "compiling", "sending", "loading a")
"""Starts of reasons of idle time that say what the host is at."""

_KERNEL_CLASSES: Final = frozenset(name for name, _ in KERNEL_CLASSES) - {"gemm", "convolution"}


def _change_explained(
    parts: tuple[str, ...],
    names: tuple[str, ...],
    changes: tuple[int, ...],
    details: tuple[str, ...],
    factors: tuple[float, ...],
    total: int,
    rest: int,
    ranks: str | None,
) -> str:
    """The parts that explain the change, the largest first; `ranks` is a phrase about the ranks that they are of."""
    items = _changed_parts(parts, names, changes, details, factors)
    where = f", {ranks}" if ranks else ""
    if len(items) == 1 and changes[0] * total > 0:
        return f"why: {items[0]} of {_signed_duration(total)}{where}"
    if abs(rest) >= _LITTLE_REST * max(abs(total), *map(abs, changes)):
        items.append(f"all else {_signed_duration(rest)}")
    return f"why: {', '.join(items)}{where}"


def _changes_offset(
    parts: tuple[str, ...],
    names: tuple[str, ...],
    changes: tuple[int, ...],
    details: tuple[str, ...],
    factors: tuple[float, ...],
    total: int,
    rest: int,
    ranks: str | None,
) -> str:
    """The parts that changed though the step did not."""
    del total
    items = [*_changed_parts(parts, names, changes, details, factors), f"all else {_signed_duration(rest)}"]
    return f"but parts of it changed: {', '.join(items)}{f', {ranks}' if ranks else ''}"


def _changed_parts(
    parts: tuple[str, ...],
    names: tuple[str, ...],
    changes: tuple[int, ...],
    details: tuple[str, ...],
    factors: tuple[float, ...],
) -> list[str]:
    return [
        f"{_part_name(part, name, detail, factor)}{_op_detail(part, detail, factor)} {_signed_duration(change)}"
        for part, name, change, detail, factor in zip(parts, names, changes, details, factors, strict=True)
    ]


_LITTLE_REST: Final = 0.02
"""What is left of a change is told from this share of it on."""


def _late_ranks(ranks: tuple[int, ...], waiting: int) -> str:
    others = f"the other {count_noun(waiting, 'rank')} {'waits' if waiting == 1 else 'wait'}"
    return f"on {format_ranks(ranks)}; {others} in communication meanwhile"


def _uneven_rank(rank: int, change: int) -> str:
    return f"most on rank {rank}: {_signed_duration(change)} outside communication"


def _part_name(part: str, name: str, detail: str, factor: float) -> str:
    if part in _PART_NAMES:
        return name or _PART_NAMES[part]
    if part == "idle":
        activity = f"host {name}" if name.startswith(_ACTIVITY_STARTS) else _CATEGORY_NAMES.get(name, name)
        return f"{activity}{f' ({_short_name(detail)})' if detail else ''}"
    if factor and not detail:
        return f"{name} {factor:.3g} times as long"
    return _CATEGORY_NAMES.get(name, f"{name} kernels" if name in _KERNEL_CLASSES else name)


def _op_detail(part: str, detail: str, factor: float) -> str:
    """The op behind most of the change of a category of kernels, with the ratio of its times."""
    if part != "compute" or not detail:
        return ""
    return f" ({_short_name(detail)}{f' {factor:.3g} times as long' if factor else ', in one run only'})"


def _short_name(name: str) -> str:
    return cut_middle(shorten_kernel_name(name), _MAX_NAME)


_MAX_NAME: Final = 48


def _kernels_changed_by_factor(factor: float, where: str, numbers: tuple[int, ...], factors: tuple[float, ...]) -> str:
    """The factor of all kernels, or the ranks or steps in which they changed by one factor."""
    some = [
        f"{each:.3g} times as long {'on' if where == 'rank' else 'in'} {where} {number}"
        for number, each in zip(numbers, factors, strict=True)
    ]
    cause = "a slower device" if max(factors, default=factor) > 1 else "a faster device"
    return f"all kernels {join_some(some, 4) or f'{factor:.3g} times as long'}: clocks or {cause}"


def _runs_compared(
    steps: tuple[int, int],
    unit: str,
    ranks: tuple[int, int],
    devices: tuple[str, ...],
    matched: tuple[float, float] | None,
    launches: tuple[float, float] | None,
    flops: tuple[float, float] | None,
) -> str:
    """The factors that say how comparable two runs are."""
    noun = _STEP_NOUNS.get(unit)
    facts = [f"{steps[0]:,} {noun}{'s' * (steps[0] != 1)} against {steps[1]:,}"] if noun else [unit]
    facts.append(f"{count_noun(ranks[0], 'rank')} {'each' if ranks[0] == ranks[1] else f'against {ranks[1]:,}'}")
    models = dict.fromkeys(model or "unknown device" for model in devices)
    facts.append(" against ".join(models))
    if matched is not None:
        facts.append(f"{_percent_in_words(min(matched))} of op time in both runs")
    each = f" per {noun}" if noun else ""
    if launches is not None:
        facts.append(f"launches{each} {_pair_in_words(*launches)}")
    if flops is not None:
        facts.append(f"FLOPs{each} {_pair_in_words(*flops)}")
    return f"compared: {', '.join(facts)}"


def _percent_in_words(share: float) -> str:
    return f"{share * 100:.3g} %"


def _pair_in_words(before: float, after: float) -> str:
    """Two amounts with three significant digits, or one if they are equal: ``1,220 in both``."""
    texts = [f"{value:,.0f}" if 1 <= value < 1e6 else f"{value:.3g}" for value in (before, after)]
    return f"{texts[0]} in both" if texts[0] == texts[1] else f"{texts[0]} against {texts[1]}"


def _work_differs(unit: str, before: float, after: float, baseline: int, candidate: int, *, is_first: bool) -> str:
    """The ratio of the work of a step, and the time of a unit of work."""
    if unit:
        noun = unit.removesuffix("s")
        times = [round(time / number) for time, number in ((baseline, before), (candidate, after))]
        change = f" ({_growth_in_words(times[1] / times[0] - 1)})" if times[0] else ""
        rates = [number / time * PS_PER_S if time else 0.0 for time, number in ((baseline, before), (candidate, after))]
        each = f"{format_duration_in_words(times[0])} -> {format_duration_in_words(times[1])}{change}"
        return f"time per {noun}: {each}; {unit} per second: {_pair_in_words(*rates)}"
    ratio, what = after / before, "first dimension" if is_first else "dimension"
    speed = f": {ratio * baseline / candidate:.3g} times as much per second" if candidate else ""
    shapes = f"{what} {before:,.0f} -> {after:,.0f} in most recorded shapes that differ"
    return f"work per step {ratio:.3g} times as much ({shapes}){speed}; --set samples=N gives time per sample"


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
        "duration, start and end of events are on the trace's clock, to which the profiler aligned the device's piece"
        " by piece: {events:,} of {of:,} last otherwise on that, as device_duration and self say"
    ),
    "search_refused": "{why}",
    "hlo_sentence": "{text}",
    "steps_inconclusive": (
        "inconclusive where it says unclear: steps vary too much for {baseline:,} against {candidate:,}; record more"
        " (see medians and spreads)"
    ),
    "runs_not_alike": "not alike: of the baseline {baseline}, of the candidate {candidate} is compared",
    "profilers_differ": (
        "{baseline} against {candidate}: ops share no names, only the step, its parts and its gaps are comparable"
    ),
    "run_in_doubt": "{run}: {doubt}",
    "run_not_whole": _run_not_whole,
    "too_few_steps": "too few steps to tell a change from chance: it takes {least} on either side",
    "work_in_no_step": _work_in_no_step,
    "outlier_step": _outlier_step,
    "more_outlier_steps": _more_outlier_steps,
    "categories_of_own_run": (
        "{ops:,} matched ops are of another category in the candidate: what one category lost another may have gained"
    ),
    "matched_across_categories": _matched_across_categories,
    "ops_matched": _ops_matched,
    "no_ops_matched": "matched: nothing, for no op takes any time in the {run}",
    "no_difference": "no difference",
    "no_device_work_to_compare": _no_device_work,
    "not_measured_in_baseline": "launches, gaps and counters: not in the baseline, which an older version saved",
    "recorded_in_one_run": _recorded_in_one_run,
    "memory_from_before": _memory_from_before,
    "step_time_changed": _step_time_changed,
    "change_explained": _change_explained,
    "changes_offset": _changes_offset,
    "change_of_late_ranks": _late_ranks,
    "change_of_uneven_rank": _uneven_rank,
    "kernels_changed_by_factor": _kernels_changed_by_factor,
    "runs_compared": _runs_compared,
    "work_differs": _work_differs,
    "phases_compared": _phases_compared,
    "tested_alone": "tested alone: rows of the tables are tested together, so that each needs stronger evidence",
}
