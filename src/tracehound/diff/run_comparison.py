"""Comparison of two profiles: their differences, and the share of each in the difference of the step.

Owns the results of a comparison. All times are those of a step, averaged over the ranks that have it, then over the
steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.result import Column, Result
from tracehound.diff.comparable_work import compared_phase, given_work, rank_table
from tracehound.diff.compared_intervals import IN_WINDOW, WHOLE_RUN
from tracehound.diff.comparison_numbers import (
    ADDED,
    AS_ALL_KERNELS,
    REMOVED,
    UNCLEAR,
    OpTimes,
    QuantityPair,
    RunOpQuantities,
    as_more_or_less,
    explain_by_count,
    judge_changes,
    rows_to_table,
    sum_matched_ops,
)
from tracehound.diff.comparison_tables import (
    CATEGORY_COLUMNS,
    OP_COLUMNS,
    OUTLIER_STEP,
    STEP_COLUMNS,
    WATERFALL_COLUMNS,
    category_notes,
    cross_category_notes,
    measure_tables,
    op_notes,
    phase_table,
    reason_table,
    step_notes,
)
from tracehound.diff.headline import Headline, find_headline, headline_notes
from tracehound.diff.op_identity import (
    IDENTITY_COLUMNS,
    MEMORY_ONLY,
    NO_MATCH,
    OpMatch,
    match_ops,
    op_categories,
)
from tracehound.diff.run_profile import STEP_PARTS, RunProfile, note_unlike_runs
from tracehound.diff.step_statistics import quantities_of_array
from tracehound.model.notes import Note, note

DEFINITION: Final = """\
Compared are steps: those that the profiler marked, else the inferred ones, else the executions of the module that takes
most time, else the whole run. A step lasts until the device work that it launched has ended, and begins no earlier than
the step before has ended (as in step_parts); partial steps are left out, and of the work in no step a note says how
much it is. Steps with a phase of inference in their names (prefill, decode) are compared with those of the same phase
alone: tables are of the phase with most time, or of phase=NAME. A device with a clock of its own (TPU) measures its
steps, ops and pauses. Where no work of a device was recorded the operators of the host are compared. A time is that of
one step, averaged over the ranks that have it and then over the steps. compute, communication, copy and idle add up to
the step: communication that computation hides costs nothing, copies that either hides neither. Memsets are among the
copies, in the step as in the categories. The category of a kernel is its class (gemm, attention, elementwise, as in
kernels --set by=class), that of an HLO op its HLO category. An op's time is its own (what is nested inside does not
count), and ops of several streams add up to more than the time that passes; exposed is the part of it that the step's
time goes to: an instant belongs to one op alone, of the classes in that order, then to the one that began first. So the
differences in exposed time and in idle time add up to the difference of the step.

The headline has the mean step of both runs and the parts that changed most: computation by category, communication,
copies, and idle time by reason. All parts add up to the change; they are named however sure the steps are of each. They
are means over ranks; but where communication is at least a quarter of the change, and some ranks (at most half) explain
half of it or more without communication, they are those of these ranks: the others wait for them. Kernels changed by
one factor where those that both runs execute equally often are at least 80 % of the time of all, the mean of the
logarithms of their ratios, weighted by time, is that of a factor of 1.02 or more, and their standard deviation at most
a quarter of the mean; that is looked for in the mean step, on each rank and in each step. The work of a step is that of
the recorded shapes: of dimensions that differ the ratio that most have, if FLOPs of HLO ops (where known) have it, too,
within a factor of 1.25, or if it is that of the first dimension.

Ops are the same in both runs by the surest of these that finds a partner: module, scope, shapes, name and operator
alike; then fewer of them. Numbers that a compiler gives (.123, .clone, .remat) are no part of a name, and of a match
one op may stand against many: it has the name and category of the longest in the baseline, and beside them those of the
candidate's longest where they are others. Of categories each run's ops count in their own. What has no partner is
listed as added or removed, and so is a category, an annotation or a class of modules that one run alone has.

Pauses of the whole device are put down to causes as `tracehound report PATH idle` does. The reason of idle time is that
cause; where the cause is the host, and before the first work of a run and after its last, each instant has what the
thread that launches the next work (XLA: the program's own) is at, named by the innermost event there: so reasons add up
to the idle time. Time in which nothing but an annotation or the mark of a step is open is unrecorded host time. Of a
counter of bytes the peak in a step is compared, of others the average over its time; only counters that both runs have.
What PyTorch's allocator of the host has is counted while a profiler records: of it, what is left from before a
recording and never taken back in it is not compared.

A change is called one (slower, faster, more, less; more or less often, alone or behind the others, where the count
tells and changed in proportion by no less than the time, so that each is no slower, or no faster, than before) only
where the steps tell it from chance: a permutation test over the steps of both runs, of the step by itself, of reasons
of idle time and each phase by themselves, and of all rows of all other tables at once, so that each of these errs in
one comparison of a hundred at most (of thirty-five with 4 steps on a side); "perhaps" stands before what errs in one of
twenty. "as all kernels" is said of a kernel that changed by the factor of all. With fewer than 4 steps on a side
nothing is called a change. "noise" is said where they tell that there is next to none (with three standard errors on
top the change is below 5 % of the larger average), and of what differs by less than 0.01 % of the larger average,
however sure; "unclear" where they tell neither, since they differ too much among themselves: however large a change of
averages is, it may be of a single step (the medians and spreads tell). With more than 1,000 on a side the test, and no
other number, takes the average of neighboring steps for one, as many as leave 1,000 at most."""


class Comparison(Struct, frozen=True, eq=False):
    """The differences between two runs, as results for any form; categories and ops with the largest effect come first.

    `waterfall` leads from the step of the baseline to that of the candidate; `sections` have the other measures. `keys`
    has, for both runs, the match of each op (`IDENTITY_COLUMNS`): matched ops have an equal number in `match`.
    """

    baseline: RunProfile
    candidate: RunProfile
    step: Result
    categories: Result
    ops: Result
    waterfall: Result
    sections: tuple[Result, ...]
    keys: tuple[pl.DataFrame, pl.DataFrame]
    headline: Headline | None = None

    @property
    def results(self) -> tuple[Result, ...]:
        """The tables with something to show: of a memory timeline only its counters are known."""
        if MEMORY_ONLY in (self.baseline.of, self.candidate.of):
            return self.sections
        return (self.step, self.categories, self.ops, *self.sections)

    @property
    def headline_notes(self) -> list[Note]:
        """The first facts of the comparison as notes: none of a memory timeline."""
        unlike = note_unlike_runs(self.baseline, self.candidate)
        notes = headline_notes(self.headline) if self.headline is not None else []
        if self.headline is not None and self.headline.verdict == UNCLEAR:
            notes[-1:-1] = [each for each in self.step.notes if each.code == OUTLIER_STEP][:1]
        notes += [
            note(
                "phases_compared",
                compared=self.headline.phase if self.headline else "",
                phases=tuple(each.table["phase"]),
                baseline=tuple(each.table["baseline"]),
                candidate=tuple(each.table["candidate"]),
                verdicts=tuple(each.table["verdict"]),
            )
            for each in self.sections
            if each.analysis == "diff-phases"
        ]
        return [unlike, *notes] if unlike is not None else notes

    @property
    def scope(self) -> str:
        """The scope of the tables' values: ``in an average step``; the scopes of both runs where they differ."""
        scopes = [_SCOPE_PHRASES.get(side.unit, side.unit) for side in (self.baseline, self.candidate)]
        return " against ".join(dict.fromkeys(scopes))


_SCOPE_PHRASES: Final = {
    "steps": "in an average step",
    "executions": "in an average execution",
    WHOLE_RUN: "in the whole run",
    IN_WINDOW: "in the window",
}


SECTION_ORDER: Final = (
    "diff-phases",
    "diff-ranks",
    "diff-idle",
    "diff-causes",
    "diff-marks",
    "diff-memory",
    "diff-counters",
)
"""The order of the tables beside the step, the categories and the ops."""


def compare_runs(
    baseline: RunProfile, candidate: RunProfile, top: int | None = None, given: ChosenSettings = ()
) -> Comparison:
    """The comparison of two runs; at most `top` rows of a table.

    `given` are chosen settings (`comparable_work.SETTINGS`). Of runs with phases of inference the steps of one phase
    are compared, and a table has them all. Raises TracehoundError for a given phase that a run does not have.
    """
    phases = phase_table(baseline, candidate)
    baseline, candidate = compared_phase(baseline, candidate, given)
    sides = RunOpQuantities(baseline, IDENTITY_COLUMNS), RunOpQuantities(candidate, IDENTITY_COLUMNS)
    category_runs = (
        RunOpQuantities(_with_categories_of_tables(baseline), ("category",)),
        RunOpQuantities(_with_categories_of_tables(candidate), ("category",)),
    )
    ops, categories = match_ops(*(side.ops for side in sides)), _match_categories(*category_runs)
    step, parts = (_step_quantities(baseline, candidate, names) for names in (("duration",), STEP_PARTS))
    op_times, category_times = (sum_matched_ops(*each, "time") for each in ((sides, ops), (category_runs, categories)))
    counts, tables = sum_matched_ops(sides, ops, "count"), measure_tables(baseline, candidate)
    step_verdict, (part_verdicts, category_verdicts, op_verdicts, count_verdicts, *rest) = (
        judge_changes(step),
        judge_changes(
            parts, category_times, op_times, counts, *(pair for each in tables for pair in (each.time, each.count))
        ),
    )
    kernels = OpTimes(baseline, candidate, sides, ops)
    op_verdicts = [
        AS_ALL_KERNELS if as_all and word != "the same" else word
        for word, as_all in zip(
            explain_by_count(op_times, op_verdicts, counts, count_verdicts), kernels.changed_as_all, strict=True
        )
    ]
    reasons = reason_table(baseline, candidate)
    table = _op_rows(baseline, sides, ops, op_times, op_verdicts)
    category_table = _category_rows(baseline, category_runs, categories, category_times, category_verdicts)
    whole_step, of_category, of_op, *others = _with_inconclusive_note(
        baseline,
        candidate,
        [
            _step_result(
                step.join(parts),
                [*step_verdict[0], *map(as_more_or_less, part_verdicts)],
                step_notes(baseline, candidate),
            ),
            _top_rows_result(
                "diff-categories", "Categories", CATEGORY_COLUMNS, category_table, top, category_notes(sides, ops)
            ),
            _top_rows_result(
                "diff-ops",
                "Ops",
                _op_columns(table),
                table,
                top,
                [*op_notes(ops, op_times, table), *cross_category_notes(table)],
            ),
            *(
                each.result(explain_by_count(each.time, list(map(as_more_or_less, of_time)), each.count, of_count), top)
                for each, of_time, of_count in zip(tables, rest[::2], rest[1::2], strict=True)
            ),
            *(each.result(list(map(as_more_or_less, judge_changes(each.time)[0])), top) for each in reasons),
        ],
    )
    waterfall = _waterfall_result(whole_step.table, category_table)
    is_timed = MEMORY_ONLY not in (baseline.of, candidate.of)
    verdict, work = step_verdict[0][0], given_work(given)
    headline = find_headline(baseline, candidate, sides, ops, kernels, verdict, work) if is_timed else None
    sections = [*others, *(each for each in (phases, rank_table(baseline, candidate, top)) if each is not None)]
    sections.sort(key=lambda each: SECTION_ORDER.index(each.analysis))
    keys = _match_numbers(sides, ops)
    return Comparison(baseline, candidate, whole_step, of_category, of_op, waterfall, tuple(sections), keys, headline)


def _with_inconclusive_note(baseline: RunProfile, candidate: RunProfile, tables: Sequence[Result]) -> list[Result]:
    """The tables, with a note that explains unclear verdicts on the first table that has one."""
    why = note("steps_inconclusive", baseline=baseline.steps.height, candidate=candidate.steps.height)
    first = next((table for table in tables if UNCLEAR in table.table["verdict"]), None)
    return [replace(table, notes=(why, *table.notes)) if table is first else table for table in tables]


def _step_quantities(baseline: RunProfile, candidate: RunProfile, names: Sequence[str]) -> QuantityPair:
    """These columns of the steps, of both runs."""
    return QuantityPair(
        *(quantities_of_array(side.steps.select(names).to_numpy().astype(np.float64)) for side in (baseline, candidate))
    )


def _step_result(quantities: QuantityPair, verdicts: Sequence[str], notes: Sequence[Note]) -> Result:
    """The table of the step and its parts."""
    rows = rows_to_table(
        {"part": ["step", *STEP_PARTS], **quantities.table_columns(), "verdict": verdicts}, STEP_COLUMNS
    )
    return Result("diff", "Step", STEP_COLUMNS, rows, rows.height, tuple(notes))


def _with_categories_of_tables(run: RunProfile) -> RunProfile:
    """The run with classes as the categories of kernels, and memsets among the copies."""
    return replace(run, ops=run.ops.with_columns(op_categories(run.ops)))


def _match_categories(baseline: RunOpQuantities, candidate: RunOpQuantities) -> list[OpMatch]:
    """Matches of all ops of a category."""
    ours, theirs = (
        {name: (at,) for at, (name,) in enumerate(side.ops.select("category").iter_rows())}
        for side in (baseline, candidate)
    )
    both = [(ours.get(name, ()), theirs.get(name, ())) for name in sorted({*ours, *theirs})]
    return [OpMatch(here, there, "category" if here and there else NO_MATCH) for here, there in both]


def _category_rows(
    baseline: RunProfile,
    sides: tuple[RunOpQuantities, RunOpQuantities],
    matches: Sequence[OpMatch],
    times: QuantityPair,
    verdicts: Sequence[str],
) -> pl.DataFrame:
    """The rows of the table of categories."""
    names = [_longest_op(_ops_of_match(match, sides))["category"] for match in matches]
    row_verdicts = [_added_or_removed(match) or word for match, word in zip(matches, verdicts, strict=True)]
    rows = {"category": names, **_time_columns(baseline, sides, matches, times), "verdict": row_verdicts}
    return _sort_by_step_change(rows, CATEGORY_COLUMNS)


def _op_rows(
    baseline: RunProfile,
    sides: tuple[RunOpQuantities, RunOpQuantities],
    matches: Sequence[OpMatch],
    times: QuantityPair,
    verdicts: Sequence[str],
) -> pl.DataFrame:
    """The rows of the table of ops."""
    baseline_count, candidate_count = sum_matched_ops(sides, matches, "count").means
    labels = [_match_labels(match, sides) for match in matches]
    renamed = [_renamed_labels(match, sides) for match in matches]
    events = [side.longest_events([match.sides[number] for match in matches]) for number, side in enumerate(sides)]
    rows = {
        **{name: [row[name] for row in labels] for name in ("name", "category", "module", "operator")},
        **{f"candidate_{word}": [row[word] for row in renamed] for word in _LABELS_OF_BOTH},
        **_time_columns(baseline, sides, matches, times),
        "verdict": [_added_or_removed(match) or word for match, word in zip(matches, verdicts, strict=True)],
        "baseline_count": baseline_count,
        "candidate_count": candidate_count,
        "baseline_ops": [len(match.baseline) for match in matches],
        "candidate_ops": [len(match.candidate) for match in matches],
        "matched_by": [match.how for match in matches],
        "baseline_event": events[0],
        "candidate_event": events[1],
    }
    return _sort_by_step_change(rows, OP_COLUMNS)


def _time_columns(
    baseline: RunProfile,
    sides: tuple[RunOpQuantities, RunOpQuantities],
    matches: Sequence[OpMatch],
    times: QuantityPair,
) -> dict[str, object]:
    """The columns about the times of matches, and about their effect on the step."""
    before, after = sum_matched_ops(sides, matches, "exposed").means
    step = float(baseline.steps["duration"].sum()) / max(1, baseline.steps.height)
    of_step = (after - before) / step if step else np.full(len(before), np.nan)
    return {**times.table_columns(), "exposed_change": after - before, "of_step": of_step}


def _sort_by_step_change(rows: Mapping[str, object], columns: Sequence[Column]) -> pl.DataFrame:
    """The rows, largest change of the step first; rows without a change by time."""
    return rows_to_table(rows, columns).sort(
        pl.col("exposed_change").abs(), pl.max_horizontal("baseline", "candidate"), columns[0].name,
        descending=[True, True, False],
    )  # fmt: skip


def _top_rows_result(
    name: str, title: str, columns: tuple[Column, ...], table: pl.DataFrame, top: int | None, notes: Sequence[Note]
) -> Result:
    """A result with the first rows of a table."""
    shown = table if top is None else table.head(top)
    return Result(name, title, columns, shown, table.height, tuple(notes))


def _waterfall_result(step: pl.DataFrame, categories: pl.DataFrame) -> Result:
    """The changes from the step of the baseline to that of the candidate, the largest first."""
    idle = step.filter(part="idle").select("part", "change", "verdict")
    kinds = categories.select(pl.col("category").alias("part"), pl.col("exposed_change").alias("change"), "verdict")
    changes = pl.concat([kinds, idle]).filter(pl.col("change") != 0)
    changes = changes.sort(pl.col("change").abs(), "part", descending=[True, False])
    baseline, candidate, whole_change, verdict = (
        step.filter(part="step").select("baseline", "candidate", "change", "verdict").row(0)
    )
    after = baseline + pl.col("change").cum_sum()
    of_step = pl.col("change") / baseline if baseline else pl.lit(None, pl.Float64)
    names = [column.name for column in WATERFALL_COLUMNS]
    steps = changes.with_columns((after - pl.col("change")).alias("from"), after.alias("to"), of_step.alias("of_step"))
    relative = whole_change / baseline if baseline else None
    ends = pl.DataFrame(
        [
            ("baseline step", None, baseline, None, None, ""),
            ("candidate step", None, candidate, whole_change, relative, verdict),
        ],
        schema=steps.select(names).schema,
        orient="row",
    )
    table = pl.concat([ends[:1], steps.select(names), ends[1:]])
    return Result("diff-waterfall", "Where the change comes from", WATERFALL_COLUMNS, table, table.height)


def _match_numbers(
    sides: tuple[RunOpQuantities, RunOpQuantities], found: Sequence[OpMatch]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The number of each op's match, for both runs."""
    ours, theirs = (
        [(row, number) for number, match in enumerate(found) for row in match.sides[side]] for side in range(len(sides))
    )
    return _with_match_number(sides[0], ours), _with_match_number(sides[1], theirs)


def _with_match_number(side: RunOpQuantities, numbers: Sequence[tuple[int, int]]) -> pl.DataFrame:
    """The ops of one run with the numbers of their matches."""
    match = pl.Series("match", [number for _, number in sorted(numbers)], dtype=pl.Int64)
    return side.ops.select(IDENTITY_COLUMNS).with_columns(match)


def _match_labels(match: OpMatch, sides: tuple[RunOpQuantities, RunOpQuantities]) -> dict[str, str]:
    """Name, category, module and operator of a match: those of its longest op, in the baseline where it has one."""
    return _labels_of_ops(_ops_of_match(match, sides))


def _renamed_labels(match: OpMatch, sides: tuple[RunOpQuantities, RunOpQuantities]) -> dict[str, str | None]:
    """The labels of a match's longest op in the candidate, where they differ from those in the baseline."""
    if not (match.baseline and match.candidate):
        return dict.fromkeys(_LABELS_OF_BOTH)
    ops_of_runs = [side.ops[list(members)] for side, members in zip(sides, match.sides, strict=True)]
    baseline, candidate = map(_longest_op, ops_of_runs)
    labels = _labels_of_ops(ops_of_runs[1])
    return {word: labels[word] if baseline[word] != candidate[word] else None for word in _LABELS_OF_BOTH}


_LABELS_OF_BOTH: Final = ("name", "category")
"""Labels that are shown for both runs of a match."""


def _labels_of_ops(ops: pl.DataFrame) -> dict[str, str]:
    """Labels of matched ops: those of the longest one."""
    row, alike = _longest_op(ops), ops["name"].n_unique() - 1
    return {
        "name": f"{row['name']} and {alike} more" if alike else row["name"],
        "category": row["category"],
        "module": row["module"],
        "operator": row["path"] or row["operator"] or row["scope"],
    }


def _ops_of_match(match: OpMatch, sides: tuple[RunOpQuantities, RunOpQuantities]) -> pl.DataFrame:
    """The ops of a match, in the baseline where it has some."""
    side, members = (sides[0], match.baseline) if match.baseline else (sides[1], match.candidate)
    return side.ops[list(members)]


def _longest_op(ops: pl.DataFrame) -> dict[str, str]:
    """The op with the most time."""
    return ops.row(int(ops["time"].arg_max() or 0), named=True)


def _added_or_removed(match: OpMatch) -> str:
    """The verdict on a match without a partner; "" for others."""
    return "" if match.how != NO_MATCH else REMOVED if match.baseline else ADDED


RENAMED_TIME_SHARE: Final = 0.25
"""Where so large a share of the time is in renamed ops, narrow tables show the new names, too."""


def _op_columns(ops: pl.DataFrame) -> tuple[Column, ...]:
    """The columns of ops; the candidate's names are brief where many ops are renamed."""
    times = pl.col("baseline", "candidate").sum()
    all_time, renamed_time = (sum(rows.select(times).row(0)) for rows in (ops, ops.drop_nulls("candidate_name")))
    many_renamed = renamed_time > RENAMED_TIME_SHARE * all_time
    return tuple(
        replace(column, brief=many_renamed) if column.name == "candidate_name" else column for column in OP_COLUMNS
    )
