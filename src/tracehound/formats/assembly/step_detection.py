"""Steps of a file: step marks, executions of the repeated module, or what recurs on hosts; and the step of each event.

Steps that are not marked are inferred.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.model.notes import Note
from tracehound.model.trace import STEPS, collect_frame
from tracehound.numeric.intervals import Ints

MIN_REPETITIONS = 3
"""A module or annotation that ran fewer times is not taken for the step of a loop."""


class DetectedSteps(NamedTuple):
    """The steps of a file, schema `STEPS`, and the notes on them."""

    steps: pl.DataFrame
    notes: tuple[Note, ...] = ()


def steps_from_marks(marks: pl.DataFrame) -> DetectedSteps:
    """Return the steps that the profiler marked, sorted by (rank, start).

    `marks` are the events whose `step` is set, sorted, with their id (`event`), `host` and `rank`. Marks on a host
    count for all ranks it drives; where the host has marks, those on devices only repeat them and are left out.
    Overlapping marks of one number are one step, that of the longest: several threads mark it. Of those that do not
    overlap, the first keeps the number and the others get the next free ones, so that a number is one step of a host or
    rank: a loop that runs again counts from 0 again. Such a mark inside a longer one of another number is left out
    where the number has other marks: its events have a step.
    """
    on_host = marks["rank"].null_count()
    chosen = marks.filter(pl.col("rank").is_null()) if 0 < on_host < marks.height else marks
    if _are_distinct_intervals(chosen):
        host = chosen["host"].to_numpy()
        if (host != host[0]).any():  # else no two marks of a rank begin together
            chosen = chosen.sort(-_LENGTH, maintain_order=True)
        return DetectedSteps(_to_steps_schema(chosen, inferred=False))
    numbered = _renumber_repeated_marks(_merge_overlapping_marks(chosen.with_row_index("row")))
    renumbered = numbered.filter(pl.col("step") != pl.col("said")).sort("start", "row")
    steps = _to_steps_schema(numbered.sort(-_LENGTH, "row"), inferred=False)
    if renumbered.is_empty():
        return DetectedSteps(steps)
    first = renumbered.row(0, named=True)
    where = f"{first['name']} is step {first['step']}"
    return DetectedSteps(steps, (Note("inferred", STEP_NUMBERS_REPEATED, renumbered.height, where=where),))


STEP_NUMBERS_REPEATED: Final = "step_numbers_repeated"
"""The code of the note on steps that do not keep their marked number."""

_LENGTH: Final = pl.col("end") - pl.col("start")
_HOST_AND_RANK: Final = ("host", "rank")
_LARGEST_NUMBER: Final = (1 << 31) - 1


def _are_distinct_intervals(marks: pl.DataFrame) -> bool:
    """True if the marks of each host and rank follow one another and have a number each, as in most files."""
    host, start, end, step = (marks[name].to_numpy() for name in ("host", "start", "end", "step"))
    rank = _ranks_or_none(marks)
    by_time, by_number = np.lexsort((start, rank, host)), np.lexsort((step, rank, host))
    follows = np.logical_or(host[by_time][1:] != host[by_time][:-1], rank[by_time][1:] != rank[by_time][:-1])
    follows |= start[by_time][1:] >= end[by_time][:-1]
    same_number = np.logical_and.reduce(
        [values[by_number][1:] == values[by_number][:-1] for values in (host, rank, step)]
    )
    return bool((end > start).all() and follows.all() and not same_number.any())


def _ranks_or_none(rows: pl.DataFrame) -> Ints:
    """Return the ranks of rows, -1 for none."""
    return np.array([-1 if rank is None else rank for rank in rows["rank"].to_list()], np.int64)


def _merge_overlapping_marks(marks: pl.DataFrame) -> pl.DataFrame:
    """Keep one mark for each interval that marks of one number cover, without redundant ones inside others."""
    reach = pl.col("end").cum_max().shift(1)
    ordered = marks.sort("start", -pl.col("end"), "row").with_columns(
        (reach >= pl.col("end")).over(_HOST_AND_RANK).fill_null(value=False).alias("inside")
    )
    begins = (reach <= pl.col("start")) & (pl.col("start").shift(1) < pl.col("start"))
    intervals = ordered.with_columns(
        pl.col("inside").first().over(*_HOST_AND_RANK, "start", "end"),
        begins.fill_null(value=True).cum_sum().over(*_HOST_AND_RANK, "step").alias("stretch"),
    )
    longest = intervals.sort(-_LENGTH, "row").unique(
        [*_HOST_AND_RANK, "step", "stretch"], keep="first", maintain_order=True
    )
    needed = ~pl.col("inside") | (pl.col("inside").all() & (pl.int_range(pl.len()) == 0)).over(*_HOST_AND_RANK, "step")
    return longest.filter(needed)


def _renumber_repeated_marks(marks: pl.DataFrame) -> pl.DataFrame:
    """Give each mark a number of its own; the file's number stays in `said`.

    Where no number is left after the largest, all marks are counted from 0 in the order of time.
    """
    is_repeated = (pl.int_range(pl.len()) > 0).over(*_HOST_AND_RANK, "step")
    ordered = marks.sort("start", "step").with_columns(pl.col("step").alias("said"), is_repeated.alias("is_repeated"))
    number = pl.col("step").max() + pl.col("is_repeated").cum_sum()
    fits = number.max() <= _LARGEST_NUMBER
    return ordered.with_columns(
        pl.when(~fits.over(_HOST_AND_RANK))
        .then(pl.int_range(pl.len()).over(_HOST_AND_RANK))
        .when("is_repeated")
        .then(number.over(_HOST_AND_RANK))
        .otherwise("step")
        .alias("step")
    )


def steps_from_executions(runs: pl.DataFrame, recorded: str = "") -> pl.DataFrame:
    """Infer steps from the repeated module with the most device time: one per execution, per rank.

    `runs` are the executions of modules on devices, sorted, with their id (`event`), `host` and `rank`. A step lasts
    from one start to the next; the last one until its own end. Steps are numbered from 0 on each rank; the numbers of
    all ranks are matched when their files are merged. Empty where nothing repeats at least `MIN_REPETITIONS` times. The
    module named by the file (`recorded`) is preferred to all others, however often it ran.
    """
    by_name = runs.group_by("name", maintain_order=True).agg(
        (pl.col("end") - pl.col("start")).sum().alias("time"),
        (pl.len() / pl.col("rank").n_unique()).alias("executions"),
    )
    is_recorded = pl.col("name").cast(pl.String) == recorded
    repeating = by_name.filter(is_recorded | (pl.col("executions") >= MIN_REPETITIONS))
    leading = repeating.sort(is_recorded, "time", descending=True, maintain_order=True)
    if leading.is_empty():
        return pl.DataFrame(schema=STEPS)
    chosen = runs.filter(pl.col("name") == leading["name"][0]).sort("rank", "start", maintain_order=True)
    spaced = chosen.with_columns(
        pl.col("start").shift(-1).over("rank").fill_null(pl.col("end")).alias("end"),
        (pl.col("start").cum_count().over("rank") - 1).alias("step"),
    )
    return _to_steps_schema(spaced, inferred=True)


def _to_steps_schema(rows: pl.DataFrame, *, inferred: bool) -> pl.DataFrame:
    columns = (
        pl.lit(inferred).alias(name) if name == "inferred" else pl.col(name).cast(dtype)
        for name, dtype in STEPS.items()
    )
    steps = rows.select_seq(columns)
    order = np.lexsort((steps["start"].to_numpy(), _ranks_or_none(steps)))
    return steps if (order[1:] > order[:-1]).all() else steps[order]


class StepCalendar(NamedTuple):
    """Steps of hosts or ranks, by time: finds the step of an instant.

    `of` says whether a step holds for the events of its "host" or of its "rank". `group` is that host or rank, by which
    steps are sorted, and then by their `start`.
    """

    of: str
    group: Ints
    start: Ints
    end: Ints
    step: Ints

    def steps_at(self, host: Ints, rank: Ints, begins: npt.NDArray[np.intp], start: Ints) -> Ints:
        """Return the step of events at their start; -1 for none.

        Events come lane by lane, those of each in the order of their start: `begins` has the row at which each lane
        begins, `host` and `rank` (-1: none) are those of the lane.
        """
        step = np.full(len(start), -1, np.int64)
        groups = host if self.of == "host" else rank
        bounds = np.searchsorted(self.group, groups), np.searchsorted(self.group, groups, side="right")
        for low, high, first, last in zip(begins, np.append(begins, len(start))[1:], *bounds, strict=True):
            if first < last:
                step[low:high] = self._steps_of_lane(slice(first, last), start[low:high])
        return step

    def _steps_of_lane(self, steps: slice, start: Ints) -> Ints:
        """Return the steps of one lane's events: the last step that has begun, if it has not ended."""
        begun = np.searchsorted(start, self.start[steps])
        events = np.diff(np.append(begun, len(start)), prepend=0)  # before the first step, and from each to the next
        end = np.repeat(np.append(0, self.end[steps]), events)
        return np.where(start < end, np.repeat(np.append(-1, self.step[steps]), events), -1)


def step_calendar(steps: pl.DataFrame) -> StepCalendar:
    """Return the calendar of a file's steps, which are all of hosts or all of ranks."""
    of = "rank" if steps["rank"].null_count() == 0 else "host"
    columns = [steps[name].cast(pl.Int64).to_numpy() for name in (of, "start", "end", "step")]
    order = np.lexsort((columns[1], columns[0]))
    return StepCalendar(of, *(column[order] for column in columns))


GRAPH_LAUNCHES: Final = ("cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch")
"""Calls that replay a graph; inference engines decode one token with each."""

OPTIMIZER_PREFIX: Final = "Optimizer.step#"
"""PyTorch itself annotates an optimizer's step; it ends a step of training."""

_ENGINE_STEP: Final = r"^(?:execute_(?:\w*_)?context_\d+.*_generation_\d+|step\[\w+)"
"""Annotations with which vLLM, SGLang and similar engines mark each step."""

_STEP_INTERNAL: Final = r"^(?:enumerate\(|nccl:|gloo:|mpi:|ucc:|Optimizer\.|## Call CompiledFxGraph)"
"""PyTorch's own annotations, which recur inside a step."""

_MIN_COVERAGE: Final = 0.5
"""Annotations of one name are iterations if they cover at least this share of the time from the first to the last."""


def steps_from_recurrence(found: pl.DataFrame) -> pl.DataFrame:
    """Infer steps from annotations and calls of hosts; schema `STEPS`, without ids of events; empty if nothing recurs.

    `found` has events of hosts (`host`, `lane`, `start`, `end`, `name`, `kind`) in the order of their starts. The first
    of these that exists is used: the annotations of an inference engine (of nested ones the outer); annotations with
    one name except for its digits that follow one another at least `MIN_REPETITIONS` times on a thread and cover half
    of the time (of several the ones that take the most time, on the thread that runs most of them, or else annotates
    first); the ends of an optimizer's steps; replays of graphs, each of which lasts until the next.
    """
    annotations = found.filter(pl.col("kind") == "annotation")
    for intervals in (
        _outermost_annotations(annotations.filter(pl.col("name").str.contains(_ENGINE_STEP))),
        _loop_iterations(annotations.filter(~pl.col("name").str.contains(_STEP_INTERNAL))),
        _optimizer_intervals(annotations.filter(pl.col("name").str.starts_with(OPTIMIZER_PREFIX))),
        _graph_replay_intervals(found.filter(pl.col("name").is_in(GRAPH_LAUNCHES))),
    ):
        if intervals.height:
            return _number_steps(intervals)
    return pl.DataFrame(schema=STEPS)


def count_similar_annotations(steps: pl.DataFrame, found: pl.DataFrame) -> int:
    """Count the annotations among `found` on other threads whose names are like those of the inferred steps."""
    is_loop_annotation = (
        ~pl.col("name").str.contains(_ENGINE_STEP)
        & ~pl.col("name").str.contains(_STEP_INTERNAL)
        & ~pl.col("name").is_in(GRAPH_LAUNCHES)
    )
    step_names = steps.filter(is_loop_annotation).select(_name_without_digits()).unique()
    similar = (
        found.filter(pl.col("kind") == "annotation")
        .select(_name_without_digits())
        .join(step_names, on="name", how="semi")
    )
    return similar.height - steps.height if step_names.height else 0


def add_step_events(steps: pl.DataFrame, scan: pl.LazyFrame) -> pl.DataFrame:
    """Add the ids of the events that the steps were inferred from, taken from the scanned events."""
    marks = collect_frame(
        scan.filter(pl.col("name").is_in(steps["name"].unique().to_list()) & pl.col("rank").is_null()).select(
            "id", "start", "end", pl.col("name").cast(pl.String)
        )
    )
    edge = "end" if _is_by_optimizer(steps) else "start"
    first = marks.sort("end", descending=True, maintain_order=True).unique([edge, "name"], keep="first")
    ids = steps.join(first.select(edge, "name", "id"), on=[edge, "name"], how="left", maintain_order="left")["id"]
    return steps.with_columns(ids.alias("event"))


def inference_source(steps: pl.DataFrame) -> Literal["optimizer", "graph", "annotation"]:
    """Return the source of inferred steps: ends of the optimizer, replays of graphs, or annotations."""
    if _is_by_optimizer(steps):
        return "optimizer"
    return "graph" if steps["name"][0] in GRAPH_LAUNCHES else "annotation"


def _is_by_optimizer(steps: pl.DataFrame) -> bool:
    """Return whether the steps were inferred from an optimizer's."""
    return bool(steps["name"].str.starts_with(OPTIMIZER_PREFIX).any())


def _outermost_annotations(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep annotations that no other one of their host contains."""
    reach = pl.col("end").cum_max().shift(1).over("host", order_by="start")
    ordered = rows.sort("start", pl.col("end") - pl.col("start"), descending=[False, True], maintain_order=True)
    return ordered.filter((reach <= pl.col("start")).fill_null(value=True))


def _loop_iterations(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep the annotations of one name on one thread that look like the iterations of a loop."""
    alike = rows.with_columns(
        _name_without_digits().alias("alike"), pl.col("start").min().over("host", "lane").alias("begun")
    )
    length = pl.col("end") - pl.col("start")
    groups = alike.group_by("host", "lane", "alike", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("begun").first(),
        length.sum().alias("time"),
        (pl.col("end").max() - pl.col("start").min()).alias("span"),
        (pl.col("start").shift(-1) >= pl.col("end")).fill_null(value=True).all().alias("apart"),
    )
    loops = groups.filter(
        (pl.col("count") >= MIN_REPETITIONS) & pl.col("apart") & (pl.col("time") >= _MIN_COVERAGE * pl.col("span"))
    )
    longest = loops.sort("time", descending=True, maintain_order=True).head(1)
    same = loops.join(longest.select("alike"), on="alike", how="semi", maintain_order="left")
    leading = same.sort("count", "begun", descending=[True, False], maintain_order=True).head(1)
    return alike.join(leading.select("host", "lane", "alike"), on=["host", "lane", "alike"], maintain_order="left")


def _name_without_digits() -> pl.Expr:
    """Expression for names with their digits replaced."""
    return pl.col("name").str.replace_all(r"\d+", "#")


def _optimizer_intervals(rows: pl.DataFrame) -> pl.DataFrame:
    """Intervals from one optimizer step's end to the next; of several optimizers the one that steps most often."""
    leading = _keep_most_frequent_name(rows).sort("end", maintain_order=True)  # they may nest
    begun = leading.with_columns(pl.col("end").shift(1).alias("start"))
    return begun.slice(1) if leading.height >= MIN_REPETITIONS else begun.clear()


def _graph_replay_intervals(rows: pl.DataFrame) -> pl.DataFrame:
    """Intervals from one replay's start to the next; the last lasts until its own end."""
    leading = _keep_most_frequent_name(rows)
    if leading.height < MIN_REPETITIONS:
        return leading.clear()
    return leading.with_columns(pl.col("start").shift(-1).fill_null(pl.col("end")).alias("end"))


def _keep_most_frequent_name(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep the rows of the most frequent thread and name."""
    counts = rows.group_by("host", "lane", "name", maintain_order=True).agg(pl.len().alias("count"))
    leading = counts.sort("count", descending=True, maintain_order=True).head(1).drop("count")
    return rows.join(leading, on=["host", "lane", "name"], maintain_order="left")


def _number_steps(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        pl.int_range(pl.len(), dtype=pl.Int32).over("host").alias("step"),
        "host",
        pl.lit(None, pl.Int32).alias("rank"),
        "name",
        "start",
        "end",
        pl.lit(value=True).alias("inferred"),
        pl.lit(None, pl.Int64).alias("event"),
        pl.lit(None, pl.Int64).alias("run"),
    ).cast(STEPS)
