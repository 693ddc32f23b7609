"""The profile of one run: times of its steps and ops, step by step; small, and all that a comparison needs.

Owns the map over ranks that measures it, and the averages over ranks. Times are ps in a step, averaged over the ranks
that have the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.analysis.analysis_run import run_analyses
from tracehound.analysis.rank_trace import RankTrace, RunContext, run_context
from tracehound.analysis.ranks.process_groups import missing_job_ranks_notes
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_table, make_result
from tracehound.analysis.timing.device_busy import COMMUNICATION_KINDS, COPY_KINDS, parent_rows
from tracehound.analysis.topics import is_memory_only
from tracehound.diff import compared_intervals, step_measures
from tracehound.diff.compared_intervals import IN_WINDOW, WHOLE_RUN, ComparedIntervals, ComparedWork, compared_work
from tracehound.diff.idle_reasons import BETWEEN_KERNELS
from tracehound.diff.op_identity import IDENTITY_COLUMNS, MEMORY_ONLY, identify_ops, op_categories
from tracehound.diff.step_measures import MEASURE_SCHEMA
from tracehound.model.notes import Note, note
from tracehound.model.trace import PROFILERS, Trace, Window
from tracehound.model.units import count_noun
from tracehound.numeric.intervals import Ints
from tracehound.numeric.self_time import self_intervals
from tracehound.store.merge_files import not_one_run_note

STEP_PARTS: Final = ("compute", "communication", "copy", "idle")
"""The parts of a step's time; they add up to it."""


_OP_SUMS: Final = ("count", "time", "exposed")

INTERVAL_SCHEMA: Final = dict.fromkeys(("rank", "step", "start", "end", "duration"), pl.Int64)

LONGEST_SCHEMA: Final = {**dict.fromkeys(IDENTITY_COLUMNS, pl.String), "event": pl.Int64, "length": pl.Int64}


RANK_PART_SCHEMA: Final = {
    "rank": pl.Int64,
    "phase": pl.String,
    "part": pl.String,
    "name": pl.String,
    "time": pl.Float64,
}
"""Part is one of `STEP_PARTS`, name the category of ops or the reason of idle time; ps of exposed or idle time."""

RANK_OP_SCHEMA: Final = {
    "rank": pl.Int64,
    "phase": pl.String,
    "op": pl.Int64,
    "count": pl.Float64,
    "time": pl.Float64,
}

SHAPE_SCHEMA: Final = {"name": pl.String, "dims": pl.String}


class RunProfile(Struct, frozen=True, eq=False):
    """The measurements of one run.

    `steps` has a row for each step: step, ranks (their number), duration and `STEP_PARTS`. `ops` has a row for each
    step and op: step, `IDENTITY_COLUMNS`, count, time (self time; several streams add up) and exposed (see
    `exposed_times_by_interval`). `measures` has the other measures of each step (`MEASURE_SCHEMA`). `what` is the kind
    of the steps, `of` that of the events behind the ops, and `form` the profiler that wrote them; `outside` is the
    share of the work's time that is in no step, `partial` the steps that are partial on any rank (left out, unless
    there are no others), `ranks_left_out` the number of ranks without a step, where others have some, `missing_data`
    notes about data missing from its files, and `doubt` the reason why the files are hardly of one run; empty where
    they may be. While the trace of a run is open, `step_intervals` has the steps of each rank (rank, step, start, end,
    and duration on the clock that measures it) and `longest` the longest execution of each op (`IDENTITY_COLUMNS`,
    event, length); a saved profile has neither.

    `phase` of `steps` is that of inference (prefill, decode, mixed), "" where a step has none. `rank_parts` has the
    mean step of each rank and phase by its parts (`RANK_PART_SCHEMA`), `rank_ops` its mean count and time of each op of
    `named_ops` (rank, phase, op as a row number, count, time), which a saved profile does not have. `shapes` has the
    shapes of ops in one step, in their order (name, dims in JSON), and `devices` the models of the devices.
    """

    name: str
    ranks: int
    what: str
    of: str
    steps: pl.DataFrame
    ops: pl.DataFrame
    measures: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MEASURE_SCHEMA))
    form: str = ""
    outside: float = 0.0
    missing_data: tuple[Note, ...] = ()
    partial: tuple[int, ...] = ()
    ranks_left_out: int = 0
    step_intervals: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=INTERVAL_SCHEMA))
    longest: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LONGEST_SCHEMA))
    doubt: Note | None = None
    rank_parts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=RANK_PART_SCHEMA))
    rank_ops: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=RANK_OP_SCHEMA))
    named_ops: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema=dict.fromkeys(IDENTITY_COLUMNS, pl.String))
    )
    shapes: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SHAPE_SCHEMA))
    devices: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The unit of comparison: ``steps``, ``executions`` (of any program), ``the whole run`` or ``the window``."""
        return self.what.split(" of ", 1)[0]

    @property
    def extent_text(self) -> str:
        """The extent of the measurement, in words: ``6 steps on 2 ranks, work on the device``."""
        every = self.ranks + self.ranks_left_out
        ranks = f"{f'{self.ranks:,} of ' * (self.ranks_left_out > 0)}{count_noun(every, 'rank')}"
        if self.steps.is_empty():
            return f"nothing on {ranks}"
        one = self.steps.height == 1
        what = self.what.replace("steps", "step", 1).replace("executions", "execution", 1) if one else self.what
        count = "" if self.what in (WHOLE_RUN, IN_WINDOW) else f"{self.steps.height:,} "
        if (phases := self.steps["phase"].unique()).len() == 1 and phases[0]:
            count += f"{phases[0]} "
        left = len(set(self.partial) - set(self.steps["step"].to_list()))
        lacking = f", {count_noun(left, 'partial step')} left out" if left else ", partial" if self.partial else ""
        return f"{count}{what} on {ranks}, {self.of}{lacking}"


def note_unlike_runs(baseline: RunProfile, candidate: RunProfile) -> Note | None:
    """A note about measurements that differ in kind between the runs; None where they are alike."""
    if baseline.of != candidate.of:
        return note("runs_not_alike", baseline=baseline.of, candidate=candidate.of)
    if baseline.unit != candidate.unit:
        return note("runs_not_alike", baseline=baseline.what, candidate=candidate.what)
    return None


def incomplete_run_notes(runs: Mapping[str, RunProfile]) -> list[Note]:
    """Notes about data missing from the files of these runs, one for each run."""
    return [_incomplete_run_note(name, run.missing_data) for name, run in runs.items() if run.missing_data]


def _incomplete_run_note(run: str, lost: Sequence[Note]) -> Note:
    """A note that the files of a run lack data, with the first of the missing parts."""
    first, *more = lost
    times = first.count if first.level == "dropped" else 0
    return note("run_not_whole", run=run, first=first, where=first.location_text, times=times, more=len(more))


_PROFILE_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("step", "count", "step"),
    Column("what", "text", "what the step is"),
    Column("of", "text", "what the ops are"),
    Column("outside", "time", "in which the rank works in no step"),
    Column("worked", "time", "in which the rank works"),
    Column("partial", "flag", "the recording began or ended within it"),
    Column("start", "instant", "start of the step; null in the rows of ops"),
    Column("end", "instant", "its end"),
    Column("duration", "time", "length of the step; null in the rows of ops"),
    Column("phase", "text", "phase of inference, where the step has one"),
    *(Column(name, "text", name) for name in IDENTITY_COLUMNS),
    Column("count", "count", "executions that begin in the step"),
    Column("time", "time", "own time"),
    Column("exposed", "time", "time that goes to it and to nothing else"),
    Column("class", "count", "class of the work"),
    Column("event", "id", "the longest execution that begins in the step"),
    Column("length", "time", "of the longest"),
)


def profile_run(trace: Trace, window: Window, executor: Executor | None = None) -> RunProfile:
    """The profile of a run, in a window."""
    if is_memory_only(trace):
        return _profile_memory_timeline(trace, window)
    analyses = [(_PROFILE_ANALYSIS, Options()), (step_measures.MEASURES_ANALYSIS, Options())]
    rows, measure_rows = (result.table for result in run_analyses(analyses, trace, window, executor))
    all_ranks = rows["rank"].n_unique()
    rows, measure_rows = _keep_ranks_with_steps(rows, measure_rows)
    partial, left_out = _find_partial_steps(rows)
    complete_rows, measure_rows = (
        rows.filter(~pl.col("step").is_in(left_out)),
        measure_rows.filter(~pl.col("step").is_in(left_out)),
    )
    steps, ops = (
        complete_rows.filter(pl.col("duration").is_not_null()),
        complete_rows.filter(pl.col("duration").is_null()),
    )
    ranks = steps.group_by("step").agg(pl.len().cast(pl.Int64).alias("ranks"))
    parts = ops.group_by("step", "class").agg(pl.col("exposed").sum())
    phases = steps.select("rank", "step", pl.col("phase").fill_null(""))
    lengths = (
        steps.group_by("step")
        .agg(pl.col("duration").sum().cast(pl.Float64), pl.col("phase").fill_null("").max())
        .join(ranks, on="step")
    )
    for number, part in enumerate(compared_intervals.WORK_CLASSES):
        mine = parts.filter(pl.col("class") == number).select("step", pl.col("exposed").alias(part))
        lengths = lengths.join(mine, on="step", how="left")
    lengths = lengths.with_columns(pl.col(*compared_intervals.WORK_CLASSES).fill_null(0).cast(pl.Float64))
    idle = (pl.col("duration") - pl.sum_horizontal(compared_intervals.WORK_CLASSES)).alias("idle")
    mean = pl.col("duration", *STEP_PARTS) / pl.col("ranks")
    of_ops = ops.group_by("step", *IDENTITY_COLUMNS).agg(pl.col(_OP_SUMS).sum().cast(pl.Float64))
    step_intervals = steps.select(list(INTERVAL_SCHEMA))
    named_ops = ops.select(IDENTITY_COLUMNS).unique().sort(IDENTITY_COLUMNS)
    return RunProfile(
        name=trace.name,
        ranks=rows["rank"].n_unique(),
        what=_joined_values(rows["what"]),
        of=_joined_values(rows["of"]),
        steps=lengths.with_columns(idle)
        .with_columns(mean)
        .select("step", "ranks", "duration", *STEP_PARTS, "phase")
        .sort("step"),
        ops=of_ops.join(ranks, on="step")
        .with_columns(pl.col(_OP_SUMS) / pl.col("ranks"))
        .drop("ranks")
        .sort("step", *IDENTITY_COLUMNS),
        measures=_all_measures(trace, measure_rows, step_intervals, ranks),
        form=_joined_values(pl.Series([PROFILERS[part.format] for part in trace.parts], dtype=pl.String)),
        outside=_share_outside_steps(rows),
        missing_data=_missing_data_notes(trace, window),
        partial=partial,
        ranks_left_out=all_ranks - rows["rank"].n_unique(),
        step_intervals=step_intervals,
        longest=_longest_executions(ops),
        doubt=not_one_run_note(trace, window.ranks),
        rank_parts=_rank_parts(steps, phases, ops, measure_rows),
        rank_ops=_rank_ops(phases, ops, named_ops),
        named_ops=named_ops,
        shapes=_shapes_of_ops(measure_rows),
        devices=_device_models(trace, rows["rank"].unique().to_list()),
    )


def _rank_parts(steps: pl.DataFrame, phases: pl.DataFrame, ops: pl.DataFrame, measures: pl.DataFrame) -> pl.DataFrame:
    """The mean step of each rank and phase by its parts (`RANK_PART_SCHEMA`); they add up to its duration."""
    exposed = ops.select(
        "rank",
        "step",
        pl.col("class")
        .replace_strict(dict(enumerate(compared_intervals.WORK_CLASSES)), return_dtype=pl.String)
        .alias("part"),
        op_categories(ops).alias("name"),
        pl.col("exposed").cast(pl.Float64).alias("time"),
    )
    idle = measures.filter(topic=step_measures.REASONS).select(
        "rank", "step", pl.lit("idle").alias("part"), "name", pl.col("value").cast(pl.Float64).alias("time")
    )
    known = pl.concat([exposed, idle]).group_by("rank", "step").agg(pl.col("time").sum().alias("known"))
    rest = steps.join(known, on=["rank", "step"], how="left").select(
        "rank",
        "step",
        pl.lit("idle").alias("part"),
        pl.lit(BETWEEN_KERNELS).alias("name"),
        (pl.col("duration") - pl.col("known").fill_null(0)).alias("time"),
    )
    number = phases.group_by("rank", "phase").agg(pl.len().alias("steps"))
    every = pl.concat([exposed, idle, rest.filter(pl.col("time") != 0)]).join(phases, on=["rank", "step"])
    return (
        every.group_by("rank", "phase", "part", "name")
        .agg(pl.col("time").sum())
        .join(number, on=["rank", "phase"])
        .with_columns(pl.col("time") / pl.col("steps"))
        .select(list(RANK_PART_SCHEMA))
        .sort("rank", "phase", "part", "name")
    )


def _rank_ops(phases: pl.DataFrame, ops: pl.DataFrame, named_ops: pl.DataFrame) -> pl.DataFrame:
    """The mean count and time of each op in a step of each rank and phase (`RANK_OP_SCHEMA`)."""
    numbered = named_ops.with_row_index("op").with_columns(pl.col("op").cast(pl.Int64))
    number = phases.group_by("rank", "phase").agg(pl.len().alias("steps"))
    sums = (
        ops.drop("phase")
        .join(phases, on=["rank", "step"])
        .join(numbered, on=IDENTITY_COLUMNS)
        .group_by("rank", "phase", "op")
        .agg(pl.col("count", "time").sum().cast(pl.Float64))
    )
    mean = pl.col("count", "time") / pl.col("steps")
    return (
        sums.join(number, on=["rank", "phase"])
        .with_columns(mean)
        .select(list(RANK_OP_SCHEMA))
        .sort("rank", "phase", "op")
    )


def _shapes_of_ops(measures: pl.DataFrame) -> pl.DataFrame:
    """The shapes of ops in a step of the first rank, in their order (`SHAPE_SCHEMA`)."""
    rows = measures.filter(topic=step_measures.SHAPES)
    first = rows.filter(pl.col("rank") == pl.col("rank").min()).sort("step", "value")
    parts = first["name"].str.split_exact(step_measures.SHAPE_SEPARATOR, 1).struct
    return pl.DataFrame({"name": parts.field("field_0"), "dims": parts.field("field_1")}, schema=SHAPE_SCHEMA)


def _device_models(trace: Trace, ranks: Sequence[int]) -> tuple[str, ...]:
    """The models of the devices of these ranks, else the kinds of their devices (GPU, TPU, CPU)."""
    of_ranks = trace.ranks.filter(pl.col("rank").is_in(list(ranks)))
    kind = pl.col("label").str.extract(r"^([A-Za-z]+)", 1)
    models = of_ranks.select(pl.when(pl.col("model") != "").then("model").otherwise(kind).alias("model")).to_series()
    return tuple(models.drop_nulls().unique().sort().to_list())


def _missing_data_notes(trace: Trace, window: Window) -> tuple[Note, ...]:
    """Notes about data missing from the files, and about missing ranks of the job, unless the trace has one rank."""
    dropped = (each for each in trace.notes if each.level == "dropped")
    return (*dropped, *(missing_job_ranks_notes(run_context(trace, window)) if trace.ranks.height > 1 else ()))


def _keep_ranks_with_steps(rows: pl.DataFrame, more: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the ranks that have steps or executions, if any has: the whole run of another rank is no step."""
    ranks = rows.filter(~pl.col("what").is_in([WHOLE_RUN, IN_WINDOW]))["rank"].unique()
    have = pl.col("rank").is_in(ranks.implode())
    return (rows.filter(have), more.filter(have)) if len(ranks) else (rows, more)


def _find_partial_steps(rows: pl.DataFrame) -> tuple[tuple[int, ...], list[int]]:
    """The steps that are partial on any rank, and those that are left out: none where there are no others."""
    steps = rows.filter(pl.col("duration").is_not_null())
    partial = steps.filter("partial")["step"].unique().sort().to_list()
    return tuple(partial), partial if len(partial) < steps["step"].n_unique() else []


def _profile_memory_timeline(trace: Trace, window: Window) -> RunProfile:
    """The profile of a memory timeline: one interval, in which no time is measured."""
    low, high = window.clip_bounds(*trace.span)
    ranks = trace.ranks["rank"].to_list() if window.ranks is None else list(window.ranks)
    until = high + (window.end is None)  # with the last sample
    step_intervals = pl.DataFrame(
        [(rank, 0, low, until, until - low) for rank in ranks], schema=INTERVAL_SCHEMA, orient="row"
    )
    one = {"step": 0, "ranks": len(ranks), **dict.fromkeys(("duration", *STEP_PARTS), 0.0), "phase": ""}
    ops = {"step": pl.Int64(), **dict.fromkeys(IDENTITY_COLUMNS, pl.String()), **dict.fromkeys(_OP_SUMS, pl.Float64())}
    return RunProfile(
        name=trace.name,
        ranks=len(ranks),
        what=IN_WINDOW if window.limits_time else WHOLE_RUN,
        of=MEMORY_ONLY,
        steps=pl.DataFrame([one]),
        ops=pl.DataFrame(schema=ops),
        measures=step_measures.counter_measures(trace, step_intervals)
        .select(list(MEASURE_SCHEMA))
        .sort("step", "topic", "name"),
        form=PROFILERS["memory_timeline"],
        step_intervals=step_intervals,
        doubt=not_one_run_note(trace, window.ranks),
    )


def _share_outside_steps(rows: pl.DataFrame) -> float:
    """The share of the time of all ranks' work that is in no step."""
    outside, worked = rows.unique("rank").select(pl.col("outside", "worked").sum()).row(0)
    return float(outside / worked) if worked else 0.0


def _all_measures(trace: Trace, rows: pl.DataFrame, step_intervals: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """`MEASURE_SCHEMA` of ranks and of counters."""
    tables = [
        step_measures.average_over_ranks(rows.filter(pl.col("topic") != step_measures.SHAPES), ranks),
        step_measures.counter_measures(trace, step_intervals).select(list(MEASURE_SCHEMA)),
    ]
    return pl.concat(tables).sort("step", "topic", "name")


def _longest_executions(ops: pl.DataFrame) -> pl.DataFrame:
    """The longest execution of each op on any rank, in any step."""
    by_length = ops.drop_nulls("event").sort("length", "event", descending=[True, False])
    return by_length.unique(IDENTITY_COLUMNS, keep="first", maintain_order=True).select(list(LONGEST_SCHEMA))


def _joined_values(words: pl.Series) -> str:
    """The distinct values, joined by "and"."""
    return " and ".join(words.unique().sort().to_list())


def _step_rows_of_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row per step, and a row per step and op."""
    del options
    traced = compared_work(rank_trace)
    here, (outside, worked) = traced.on_own_clock(), traced.time_outside_intervals
    rank_trace, events, intervals = here.rank_trace, here.events, here.intervals
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    owned = self_intervals(start, end, parent_rows(events))
    found = identify_ops(events, rank_trace)
    kinds = [found.ops["kind"].is_in(names).to_numpy() for names in (COMMUNICATION_KINDS, COPY_KINDS)]
    classes = compared_intervals.work_classes(kinds)
    began = np.searchsorted(intervals.start, start, side="right") - 1
    inside = (began >= 0) & (start < np.append(intervals.end, 0)[began])
    times = {
        "count": compared_intervals.EventTimes(
            np.flatnonzero(inside), began[inside], np.ones(int(inside.sum()), np.int64)
        ),
        "time": compared_intervals.self_times_by_interval(owned, intervals),
        "exposed": compared_intervals.exposed_times_by_interval(owned, classes[found.row], intervals),
    }
    named = found.ops.drop("kind").with_columns(pl.Series("class", classes, pl.Int64))
    longest = events[times["count"].event].select("id", (pl.col("end") - pl.col("start")).alias("length"))
    return pl.concat(
        [_step_rows(intervals, traced), _op_rows_of_steps(named, found.row, times, longest, intervals)], how="diagonal"
    ).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(intervals.what).alias("what"),
        pl.lit(here.of).alias("of"),
        pl.lit(outside, pl.Int64).alias("outside"),
        pl.lit(worked, pl.Int64).alias("worked"),
    )


def _step_rows(intervals: ComparedIntervals, traced: ComparedWork) -> pl.DataFrame:
    """Duration of the steps, start and end in the trace, and whether they are partial."""
    in_trace, partial = traced.intervals, traced.partial
    columns = {
        "step": intervals.number,
        "start": in_trace.start,
        "end": in_trace.end,
        "duration": intervals.end - intervals.start,
        "phase": [""] * len(intervals.number) if intervals.phase is None else intervals.phase,
    }
    return pl.DataFrame(
        {**columns, "partial": np.zeros(len(intervals.number), np.bool_) if partial is None else partial}
    )


def _op_rows_of_steps(
    named: pl.DataFrame,
    row: Ints,
    times: Mapping[str, compared_intervals.EventTimes],
    events: pl.DataFrame,
    intervals: ComparedIntervals,
) -> pl.DataFrame:
    """Count, time and longest execution of each op in each step; `events` are the counted ones, with their lengths."""
    rows = [
        pl.DataFrame({"unit": row[found.event], "step": intervals.number[found.interval], name: found.time})
        for name, found in times.items()
    ]
    rows[0] = rows[0].hstack(events)
    return (
        pl.concat(rows, how="diagonal")
        .group_by("unit", "step")
        .agg(
            pl.col(*times).sum(),
            pl.col("id").sort_by("length", "id", descending=[False, True], nulls_last=False).last().alias("event"),
            pl.col("length").max(),
        )
        .join(named.with_row_index("unit").with_columns(pl.col("unit").cast(pl.Int64)), on="unit")
        .drop("unit")
        .with_columns(pl.lit(None, pl.Int64).alias("duration"))
    )


def _join_rank_profiles(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks in one table."""
    filled = [table for table in tables if table.height]
    rows = pl.concat(filled, how="diagonal_relaxed") if filled else empty_table(_PROFILE_COLUMNS)
    return make_result(_PROFILE_ANALYSIS, rows, context, options)


_PROFILE_ANALYSIS = Analysis(
    name="profile",
    title="Profile",
    question="What does each step go to?",
    definition="Times of each step and op, averaged over the ranks that have the step.",
    columns=_PROFILE_COLUMNS,
    per_rank=_step_rows_of_rank,
    combine=_join_rank_profiles,
)
