"""Tables and notes of a comparison: the columns of all tables, the tables of measures beside the ops, and the notes.

The measures are launches, idle causes, compiling, annotations, modules, and counters. All times are those of a step,
averaged over the ranks that have it, then over the steps. Knows no trace: a profile has the measurements. The notes are
on data that cannot be compared, doubtful runs, matched ops, and outlier steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Column, Result
from tracehound.diff.comparable_work import common_phases
from tracehound.diff.comparison_numbers import (
    ADDED,
    DETAIL_SHARE,
    REMOVED,
    QuantityPair,
    RunOpQuantities,
    judge_changes,
    rows_to_table,
)
from tracehound.diff.idle_reasons import NAME_SEPARATOR
from tracehound.diff.op_identity import DEVICE_WORK, MEMORY_ONLY, NO_MATCH, OpMatch, op_categories
from tracehound.diff.run_profile import STEP_PARTS, RunProfile, incomplete_run_notes, note_unlike_runs
from tracehound.diff.step_measures import REASONS
from tracehound.diff.step_statistics import MIN_STEPS, StepQuantities, quantities_of_array, sum_quantities
from tracehound.formats.export_metadata import is_exported_counter
from tracehound.formats.torch_names import UTILIZATION_COUNTERS
from tracehound.model.notes import Note, note

VERDICT_MEANING: Final = "change that the steps tell from noise; unclear: steps vary too much"

STEP_COLUMNS: Final = (
    Column("part", "text", "the step, and its parts (memsets count as copies)"),
    Column("baseline", "time", "mean per step of the baseline"),
    Column("candidate", "time", "mean per step of the candidate"),
    Column("change", "difference", "candidate - baseline"),
    Column("relative", "growth", "change / baseline"),
    Column("baseline_median", "time", "median step of the baseline", brief=False),
    Column("candidate_median", "time", "median step of the candidate", brief=False),
    Column("baseline_spread", "time", "sample standard deviation over the steps of the baseline", brief=False),
    Column("candidate_spread", "time", "sample standard deviation over the steps of the candidate", brief=False),
    Column("verdict", "text", VERDICT_MEANING, non_key=True),
)

_SPREAD_COLUMNS: Final = tuple(column for column in STEP_COLUMNS if column.name.endswith(("_median", "_spread")))

_SHARED_COLUMNS: Final = (
    "baseline",
    "candidate",
    "change",
    "relative",
    "exposed_change",
    "of_step",
    "verdict",
    *(column.name for column in _SPREAD_COLUMNS),
)

OP_COLUMNS: Final = (
    Column("name", "text", "op; of several that were matched as one, the largest"),
    Column("category", "text", "kind of kernel, or HLO category", brief=False),
    Column("candidate_category", "text", "category in the candidate, if it differs", brief=False),
    Column("baseline", "time", "self time per step of the baseline"),
    Column("candidate", "time", "self time per step of the candidate"),
    Column("change", "difference", "candidate - baseline"),
    Column("relative", "growth", "change / baseline", brief=False),
    Column("verdict", "text", VERDICT_MEANING, non_key=True),
    Column("candidate_name", "text", "its name in the candidate, if it differs", brief=False),
    Column("exposed_change", "difference", "change of the time that only this op takes in a step", brief=False),
    Column("of_step", "growth", "exposed change / step of the baseline"),
    Column("baseline_count", "decimal", "executions per step of the baseline", brief=False),
    Column("candidate_count", "decimal", "executions per step of the candidate", brief=False),
    *_SPREAD_COLUMNS,
    Column("baseline_ops", "count", "different ops of the baseline in it", brief=False),
    Column("candidate_ops", "count", "different ops of the candidate in it", brief=False),
    Column("module", "text", "XLA module", brief=False),
    Column("operator", "text", "operators or scope that it runs for, outermost first", brief=False),
    Column("matched_by", "text", "what was equal in both runs", brief=False),
    Column("baseline_event", "id", "the longest execution in the baseline"),
    Column("candidate_event", "id", "the longest execution in the candidate"),
)


CATEGORY_COLUMNS: Final = (
    Column("category", "text", "kind of work (memsets count as copies), or HLO category"),
    *(replace(column, brief=column not in _SPREAD_COLUMNS) for column in OP_COLUMNS if column.name in _SHARED_COLUMNS),
)


CAUSE_COLUMNS: Final = (
    Column("part", "text", "launches, idle time by cause, or compiling"),
    Column("baseline_count", "decimal", "occurrences per step of the baseline", brief=False),
    Column("candidate_count", "decimal", "occurrences per step of the candidate", brief=False),
    *(column for column in STEP_COLUMNS if column.name in _SHARED_COLUMNS),
)

IDLE_COLUMNS: Final = (
    Column("reason", "text", "cause of the idle time, or what the host did meanwhile"),
    Column("event", "text", "event of the host behind most of it"),
    *(column for column in STEP_COLUMNS if column.name in _SHARED_COLUMNS),
)

ANNOTATION_COLUMNS: Final = (
    Column("mark", "text", "annotation or class of modules: its time on the host, or of its work on the device"),
    *CAUSE_COLUMNS[1:],
)

MEMORY_COLUMNS: Final = (
    Column("counter", "text", "counter in bytes"),
    Column("baseline", "bytes", "mean peak of a step of the baseline"),
    Column("candidate", "bytes", "mean peak of a step of the candidate"),
    Column("relative", "growth", "change / baseline"),
    *(replace(column, unit="bytes") for column in _SPREAD_COLUMNS),
    STEP_COLUMNS[-1],
)

COUNTER_COLUMNS: Final = (
    Column("counter", "text", "counter"),
    Column("baseline", "decimal", "mean over a step of the baseline"),
    Column("candidate", "decimal", "mean over a step of the candidate"),
    MEMORY_COLUMNS[3],
    *(replace(column, unit="decimal") for column in _SPREAD_COLUMNS),
    STEP_COLUMNS[-1],
)

WATERFALL_COLUMNS: Final = (
    Column("part", "text", "kind of ops, or idle; first and last the step itself"),
    Column("from", "time", "the step before this change; none for the step itself"),
    Column("to", "time", "the step after it"),
    Column("change", "difference", "change of the time that only this op takes in a step"),
    Column("of_step", "growth", "change / step of the baseline"),
    Column("verdict", "text", "what the steps tell from chance of its own time", non_key=True),
)


PHASE_COLUMNS: Final = (
    Column("phase", "text", "phase of inference"),
    Column("baseline_count", "count", "steps of the baseline"),
    Column("candidate_count", "count", "steps of the candidate"),
    *(column for column in STEP_COLUMNS if column.name != "part"),
)


def phase_table(baseline: RunProfile, candidate: RunProfile) -> Result | None:
    """The mean step of each phase of inference that both runs have; None with fewer than two phases."""
    runs = baseline, candidate
    if len({phase for run in runs for phase in run.steps["phase"].unique().to_list()}) < MIN_PHASES:
        return None
    rows = []
    for phase in common_phases(baseline, candidate):
        steps = [run.steps.filter(phase=phase)["duration"].to_numpy()[:, None] for run in runs]
        pair = QuantityPair(quantities_of_array(steps[0]), quantities_of_array(steps[1]))
        counts = {"baseline_count": len(steps[0]), "candidate_count": len(steps[1])}
        verdict = judge_changes(pair)[0][0]
        numbers = {name: values[0] for name, values in pair.table_columns().items()}
        rows.append({"phase": phase, **counts, **numbers, "verdict": verdict})
    if not rows:
        return None
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    table = rows_to_table(columns, PHASE_COLUMNS)
    return Result("diff-phases", "Phases of inference", PHASE_COLUMNS, table, table.height)


MIN_PHASES: Final = 2
"""With fewer phases they have no table."""


TIMED_TOPICS: Final = ("launches", "idle", "compiling")
"""Topics that are measured in ps, in the order of the table."""

ANNOTATION_TOPICS: Final = ("annotations", "modules")
"""Annotations of the program, in the order of the table."""


class MeasureTable(Struct, frozen=True, eq=False):
    """A table of named quantities; `time` and `count` have a column for each of them."""

    analysis: str
    title: str
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    time: QuantityPair
    count: QuantityPair
    notes: tuple[Note, ...] = ()
    details: tuple[str, ...] = ()
    """A word more for each row, in the second column; empty where the table has no such column."""
    program: bool = False
    """True where the rows are parts of the program: a row that one run lacks was added to it, or removed."""

    def result(self, verdicts: Sequence[str], top: int | None) -> Result:
        """The table, given the verdicts on its quantities."""
        baseline_count, candidate_count = self.count.means
        rows = {
            self.columns[0].name: pl.Series(self.names, dtype=pl.String),
            **({self.columns[1].name: pl.Series(self.details, dtype=pl.String)} if self.details else {}),
            **self.time.table_columns(),
            "baseline_count": baseline_count,
            "candidate_count": candidate_count,
            "verdict": pl.Series(self._with_added_and_removed(verdicts) if self.program else verdicts, dtype=pl.String),
        }
        shown = rows_to_table(rows, self.columns)
        return Result(
            self.analysis, self.title, self.columns, shown.head(top) if top else shown, shown.height, self.notes
        )

    def _with_added_and_removed(self, verdicts: Sequence[str]) -> list[str]:
        """The verdicts, with "added" or "removed" for rows that one run lacks."""
        baseline, candidate = (time + count for time, count in zip(self.time.means, self.count.means, strict=True))
        return [
            word if ours and theirs else ADDED if theirs else REMOVED
            for word, ours, theirs in zip(verdicts, baseline.tolist(), candidate.tolist(), strict=True)
        ]


def measure_tables(baseline: RunProfile, candidate: RunProfile) -> list[MeasureTable]:
    """The tables that have rows or notes."""
    if baseline.measures.is_empty() and candidate.measures.is_empty():
        return []
    of_memory = MEMORY_ONLY in (baseline.of, candidate.of)
    found = [] if of_memory else [_cause_table(baseline, candidate), _annotation_table(baseline, candidate)]
    found += [_counter_table(baseline, candidate, *each) for each in _COUNTER_TABLES[: 1 if of_memory else None]]
    return [section for section in found if section.names or section.notes]


_COUNTER_TABLES: Final = (("memory", "Memory", MEMORY_COLUMNS), ("counters", "Counters", COUNTER_COLUMNS))


def _cause_table(baseline: RunProfile, candidate: RunProfile) -> MeasureTable:
    """Launches, gaps and compilations; a row that one run lacks counts as 0 there."""
    keys = _measure_keys(baseline, candidate, TIMED_TOPICS)
    notes: tuple[Note, ...] = ()
    without = [
        run for run, side in (("the baseline", baseline), ("the candidate", candidate)) if side.of != DEVICE_WORK
    ]
    if without:
        keys = [key for key in keys if key[0] == "compiling"]
        notes = (note("no_device_work_to_compare", runs=tuple(without)),)
    elif keys and (baseline.measures.is_empty() or candidate.measures.is_empty()):
        keys, notes = [], (note("not_measured_in_baseline"),)
    names = tuple(f"idle: {name}" if topic == "idle" else name for topic, name in keys)
    time, count = (
        QuantityPair(_measures_by_step(baseline, keys, column), _measures_by_step(candidate, keys, column))
        for column in ("value", "count")
    )
    return MeasureTable("diff-causes", "Launches, gaps and compiling", CAUSE_COLUMNS, names, time, count, notes)


def reason_table(baseline: RunProfile, candidate: RunProfile) -> list[MeasureTable]:
    """Idle time by its reasons, with the event behind most of each; none where a run has no reasons measured."""
    rows = [run.measures.filter(topic=REASONS) for run in (baseline, candidate)]
    if not all(each.height for each in rows) or MEMORY_ONLY in (baseline.of, candidate.of):
        return []
    parts = pl.col("name").str.splitn(NAME_SEPARATOR, 2).struct
    split = [
        each.with_columns(parts.field("field_0").alias("name"), parts.field("field_1").fill_null("").alias("event"))
        for each in rows
    ]
    runs = [replace(run, measures=each) for run, each in zip((baseline, candidate), split, strict=True)]
    keys = _measure_keys(runs[0], runs[1], (REASONS,))
    time = QuantityPair(*(_measures_by_step(run, keys, "value") for run in runs))
    order = np.argsort(-np.abs(time.means[1] - time.means[0]), kind="stable")
    time = QuantityPair(time.baseline.select_columns(order), time.candidate.select_columns(order))
    names = tuple(keys[at][1] for at in order.tolist())
    events = pl.concat(split).group_by("name", "event").agg(pl.col("value").sum())
    events = events.with_columns(pl.col("value").sum().over("name").alias("whole"))
    longest = dict(
        events.filter(pl.col("event") != "")
        .filter(pl.col("value") >= DETAIL_SHARE * pl.col("whole"))
        .select("name", "event")
        .iter_rows()
    )
    details = tuple(longest.get(name, "") for name in names)
    return [
        MeasureTable("diff-idle", "Idle time by what the host ran", IDLE_COLUMNS, names, time, time, details=details)
    ]


def _annotation_table(baseline: RunProfile, candidate: RunProfile) -> MeasureTable:
    """Annotations and modules; a row that one run lacks is added or removed."""
    keys = _measure_keys(baseline, candidate, ANNOTATION_TOPICS)
    time, count = (
        QuantityPair(_measures_by_step(baseline, keys, column), _measures_by_step(candidate, keys, column))
        for column in ("value", "count")
    )
    names = tuple(name for _, name in keys)
    return MeasureTable("diff-marks", "Annotations and modules", ANNOTATION_COLUMNS, names, time, count, program=True)


def _measure_keys(baseline: RunProfile, candidate: RunProfile, topics: Sequence[str]) -> list[tuple[str, str]]:
    """Topic and name of the measures of either run, topic by topic, the longest first."""
    both = pl.concat([baseline.measures, candidate.measures]).filter(pl.col("topic").is_in(topics))
    weights = both.group_by("topic", "name").agg(pl.col("value").sum()).sort("value", "name", descending=[True, False])
    return sorted(weights.select("topic", "name").iter_rows(), key=lambda key: topics.index(key[0]))


def _counter_table(
    baseline: RunProfile, candidate: RunProfile, topic: str, title: str, columns: tuple[Column, ...]
) -> MeasureTable:
    """Counters that both runs have; a note names the others, except those that an export computed."""
    ours, theirs = (_counters_in_every_step(side, topic) for side in (baseline, candidate))
    names = sorted(ours & theirs)
    in_one_run = ((ours - theirs, "the baseline"), (theirs - ours, "the candidate"))
    names_in_one_run = (
        (sorted(name for name in left if not is_exported_counter(name)), run) for left, run in in_one_run
    )
    notes = tuple(note("recorded_in_one_run", run=run, names=tuple(left)) for left, run in names_in_one_run if left)
    if MEMORY_ONLY in (baseline.of, candidate.of) and (unlike := note_unlike_runs(baseline, candidate)) is not None:
        notes = (*notes, unlike)
    keys = [(topic, name) for name in names]
    if topic == "memory":
        notes = (*notes, *(each for name in names for each in _memory_before_notes(baseline, candidate, name)))
    time = QuantityPair(_measures_by_step(baseline, keys, "value"), _measures_by_step(candidate, keys, "value"))
    titles = tuple(f"{name} (%)" if name in UTILIZATION_COUNTERS.values() else name for name in names)
    return MeasureTable(f"diff-{topic}", title, columns, titles, time, time, notes)


def _memory_before_notes(baseline: RunProfile, candidate: RunProfile, name: str) -> Iterator[Note]:
    """A note about memory that is left out since it was allocated before the recordings."""
    most = pl.col("value").max().fill_null(0)
    left = [side.measures.filter(topic="before", name=name).select(most).item() for side in (baseline, candidate)]
    if any(left):
        yield note("memory_from_before", name=name, baseline=left[0], candidate=left[1])


def _counters_in_every_step(profile: RunProfile, topic: str) -> set[str]:
    """Counters with a value in all steps."""
    steps = profile.measures.filter(topic=topic).group_by("name").agg(pl.col("step").n_unique())
    return set(steps.filter(pl.col("step") == profile.steps.height)["name"].to_list())


def _measures_by_step(profile: RunProfile, keys: Sequence[tuple[str, str]], column: str) -> StepQuantities:
    """A row for each step and a column for each measure; 0 where there is none."""
    places = pl.DataFrame(keys, schema={"topic": pl.String, "name": pl.String}, orient="row").with_row_index("place")
    steps = profile.steps.select("step").with_row_index("row")
    rows = profile.measures.join(places, on=("topic", "name")).join(steps, on="step")
    row, place = (rows[name].cast(pl.Int64).to_numpy() for name in ("row", "place"))
    return sum_quantities(row, place, rows[column].to_numpy(), (steps.height, len(keys)))


OUTLIER_DEVIATIONS: Final = 5.0
"""A step is an outlier if it is so many robust standard deviations (1.4826 times the median of the distances) from the
median step, and `OUTLIER_MIN_SHARE` of the median."""

OUTLIER_MIN_SHARE: Final = 0.1

OUTLIER_STEP: Final = "outlier_step"
"""Code of the note about a step that is far from the median of its run."""

_MAX_OUTLIER_NOTES: Final = 3
_MAD_TO_DEVIATION: Final = 1.4826


MIN_OUTSIDE_SHARE: Final = 0.0005
"""A smaller share of work in no step gets no note: it would print as 0.0 %."""


def _profiler_notes(baseline: RunProfile, candidate: RunProfile) -> list[Note]:
    """A note where different profilers wrote the runs: not everything can be compared."""
    if baseline.form == candidate.form or not baseline.form or not candidate.form:
        return []
    return [note("profilers_differ", baseline=baseline.form, candidate=candidate.form)]


def comparability_notes(baseline: RunProfile, candidate: RunProfile) -> list[Note]:
    """Notes about the whole comparison: different profilers, and files that are hardly of one run."""
    runs = (("baseline", baseline), ("candidate", candidate))
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
        notes.append(note("work_in_no_step", baseline=baseline.outside, candidate=candidate.outside))
    runs = {"baseline": baseline, "candidate": candidate}
    outliers = [line for name, run in runs.items() for line in outlier_notes(run, name)]
    return [*notes, *outliers, *incomplete_run_notes(runs)]


def category_notes(sides: tuple[RunOpQuantities, RunOpQuantities], matches: Sequence[OpMatch]) -> list[Note]:
    """A note where ops are matched across categories: one may lose the time that another gets."""
    categories = [op_categories(side.ops).to_list() for side in sides]
    both = [match for match in matches if match.how != NO_MATCH]
    across = sum(
        not {categories[0][op] for op in match.baseline}.intersection(categories[1][op] for op in match.candidate)
        for match in both
    )
    return [note("categories_of_own_run", ops=across)] if across else []


def cross_category_notes(ops: pl.DataFrame) -> list[Note]:
    """A note about ops with a partner of another category, with the longest of them."""
    rows = ops.drop_nulls("candidate_category").sort(pl.max_horizontal("baseline", "candidate"), descending=True)
    if rows.is_empty():
        return []
    longest = rows.row(0, named=True)
    return [
        note(
            "matched_across_categories",
            ops=rows.height,
            baseline=int(rows["baseline"].sum()),
            candidate=int(rows["candidate"].sum()),
            name=longest["name"],
            category=longest["category"],
            candidate_name=longest["candidate_name"] or longest["name"],
            candidate_category=longest["candidate_category"],
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
        notes = [note("ops_matched", baseline=baseline, candidate=candidate)]
    else:
        notes = [note("no_ops_matched", run="candidate" if total_times[0] else "baseline")]
    changed = (
        (pl.col("change") != 0)
        | (pl.col("exposed_change") != 0)
        | (pl.col("baseline_count") != pl.col("candidate_count"))
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
    return note(OUTLIER_STEP, run=name, step=step, length=round(length), off=round(off), part=STEP_PARTS[most])
