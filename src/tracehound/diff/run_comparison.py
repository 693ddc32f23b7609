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

from tracehound.analysis.result import Column, Result
from tracehound.diff.compared_intervals import IN_WINDOW, WHOLE_RUN
from tracehound.diff.comparison_numbers import (
    ADDED,
    REMOVED,
    UNCLEAR,
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
    STEP_COLUMNS,
    WATERFALL_COLUMNS,
    category_notes,
    cross_category_notes,
    measure_tables,
    op_notes,
    step_notes,
)
from tracehound.diff.op_identity import IDENTITY_COLUMNS, MEMORY_ONLY
from tracehound.diff.op_matching import NO_MATCH, OpMatch, match_ops
from tracehound.diff.run_profile import STEP_PARTS, RunProfile
from tracehound.diff.step_statistics import quantities_of_array
from tracehound.model.notes import Note, note

DEFINITION: Final = """\
Steps are compared: those that the profiler marked, or else the inferred ones, or else the executions of the module
with the most device time, or else the whole run. A step lasts to the end of the device work that it launched, and
begins no earlier than the end of the step before (as in step_parts). Partial steps are left out, and a note has the
share of work in no step. Steps, ops and gaps of a device with a clock of its own (TPU) are measured on it. If no
device work was recorded, host operators are compared. Times are per step, averaged over the ranks that have the step,
then over steps. compute, communication, copy and idle add up to the step: hidden communication and hidden copies count
as nothing. Memsets count as copies, in the step and in the categories; if a file has HLO categories, these are used,
and copies are in several. An op's time is its self time, and ops of several streams add up to more than the time that
passes. exposed is the part of an op's time that the step's time consists of: each instant belongs to one op, of the
classes in that order, and of those to the one that began first. So differences in exposed time and in idle time add up
to the difference of the step.

Ops of the two runs are matched by the strictest of these that finds a partner: equal module, scope, shapes, name and
operator; then fewer of them. Compiler numbers (.123, .clone, .remat) are not part of a name. One op may match several:
a row has the name and category of the longest in the baseline, and those of the longest in the candidate if they
differ. Categories count each run's ops by their own categories. Ops, categories, annotations and classes of modules
without a partner are listed as added or removed.

Gaps of the whole device have causes as in `tracehound report PATH idle`. For a counter of bytes the peak of a step is
compared, for others the mean over its time; only counters of both runs are compared. PyTorch's host allocator is
counted only while a profiler records, so memory from before a recording that is never freed in it is left out.

A verdict is a change (slower, faster, more, less; more or less often, alone or behind the others, if the count tells
and changed in proportion by no less than the time, so that each is no slower, or no faster, than before) only if the
steps tell it from noise: a permutation test over the steps of both runs, for the step by itself and for all rows of
all tables at once, so that each of the two is wrong in at most one comparison of a hundred (of thirty-five with 4
steps in a run); "perhaps" marks what is wrong in one of twenty. With fewer than 4 steps in a run nothing is called a
change. "noise" means that there is next to no change (with three standard errors added, it is below 5 % of the larger
mean), and is also the verdict on differences below 0.01 % of the larger mean, however certain. "unclear" means that
the steps tell neither, since they vary too much: a large change of means may come from a single step (see medians and
spreads). With more than 1,000 steps in a run, the test (and no other number) uses means of neighboring steps, as many
as leave 1,000 at most."""


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

    @property
    def results(self) -> tuple[Result, ...]:
        """The tables with something to show: of a memory timeline only its counters are known."""
        if MEMORY_ONLY in (self.baseline.of, self.candidate.of):
            return self.sections
        return (self.step, self.categories, self.ops, *self.sections)

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


def compare_runs(baseline: RunProfile, candidate: RunProfile, top: int | None = None) -> Comparison:
    """The comparison of two runs; at most `top` rows of a table."""
    sides = RunOpQuantities(baseline, IDENTITY_COLUMNS), RunOpQuantities(candidate, IDENTITY_COLUMNS)
    category_runs = (
        RunOpQuantities(_count_memsets_as_copies(baseline), ("category",)),
        RunOpQuantities(_count_memsets_as_copies(candidate), ("category",)),
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
    op_verdicts = explain_by_count(op_times, op_verdicts, counts, count_verdicts)
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
                "diff-categories", "Categories", CATEGORY_COLUMNS, category_table, top, category_notes(table)
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
        ],
    )
    waterfall = _waterfall_result(whole_step.table, category_table)
    return Comparison(
        baseline, candidate, whole_step, of_category, of_op, waterfall, tuple(others), _match_numbers(sides, ops)
    )


def _with_inconclusive_note(baseline: RunProfile, candidate: RunProfile, tables: Sequence[Result]) -> list[Result]:
    """The tables, with a note that explains unclear verdicts on the first table that has one."""
    why = note("steps_inconclusive", base=baseline.steps.height, other=candidate.steps.height)
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


def _count_memsets_as_copies(run: RunProfile) -> RunProfile:
    """The run with memsets among the copies, as in the parts of a step."""
    category = pl.when(pl.col("category") == "memset").then(pl.lit("copy")).otherwise("category")
    return replace(run, ops=run.ops.with_columns(category.alias("category")))


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
    base_count, other_count = sum_matched_ops(sides, matches, "count").means
    labels = [_match_labels(match, sides) for match in matches]
    renamed = [_renamed_labels(match, sides) for match in matches]
    events = [side.longest_events([match.sides[number] for match in matches]) for number, side in enumerate(sides)]
    rows = {
        **{name: [row[name] for row in labels] for name in ("name", "category", "module", "operator")},
        **{f"other_{word}": [row[word] for row in renamed] for word in _LABELS_OF_BOTH},
        **_time_columns(baseline, sides, matches, times),
        "verdict": [_added_or_removed(match) or word for match, word in zip(matches, verdicts, strict=True)],
        "base_count": base_count,
        "other_count": other_count,
        "base_ops": [len(match.baseline) for match in matches],
        "other_ops": [len(match.candidate) for match in matches],
        "matched_by": [match.how for match in matches],
        "base_event": events[0],
        "other_event": events[1],
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
        pl.col("exposed_change").abs(), pl.max_horizontal("base", "other"), columns[0].name,
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
        step.filter(part="step").select("base", "other", "change", "verdict").row(0)
    )
    after = baseline + pl.col("change").cum_sum()
    of_step = pl.col("change") / baseline if baseline else pl.lit(None, pl.Float64)
    names = [column.name for column in WATERFALL_COLUMNS]
    steps = changes.with_columns((after - pl.col("change")).alias("from"), after.alias("to"), of_step.alias("of_step"))
    relative = whole_change / baseline if baseline else None
    ends = pl.DataFrame(
        [
            ("base step", None, baseline, None, None, ""),
            ("other step", None, candidate, whole_change, relative, verdict),
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
    times = pl.col("base", "other").sum()
    all_time, renamed_time = (sum(rows.select(times).row(0)) for rows in (ops, ops.drop_nulls("other_name")))
    many_renamed = renamed_time > RENAMED_TIME_SHARE * all_time
    return tuple(
        replace(column, brief=many_renamed) if column.name == "other_name" else column for column in OP_COLUMNS
    )
