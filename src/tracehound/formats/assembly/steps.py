"""Steps of a file: the profiler's marks, or the executions of the module that repeats; and which events they hold.

Owns what a step is. Knows no bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.intervals import Ints
from tracehound.notes import Note
from tracehound.trace import STEPS

MIN_EXECUTIONS = 3
"""A module that ran fewer times is not taken for the step of a loop."""


class Told(NamedTuple):
    """The steps of a file, schema `STEPS`, and what is to be said of them."""

    steps: pl.DataFrame
    notes: tuple[Note, ...] = ()


def mark(marks: pl.DataFrame) -> Told:
    """The steps that the profiler marked, sorted by (rank, start).

    `marks` are the events whose `step` is set, sorted, with their id (`event`), `host` and `rank`. Marks on a host
    count for all ranks it drives; where the host has marks, those on devices are its shadows and are left out. Marks of
    one number that overlap are one step, that of the longest: several threads mark it. Of those that do not, the first
    keeps the number and the others are numbered on, so that a number is one step of a host or rank: a loop that runs
    again counts from 0 again. Such a mark inside of a longer one of another number is left out where the number has
    others: its events have a step.
    """
    on_host = marks.filter(pl.col("rank").is_null())
    chosen = on_host if on_host.height else marks
    numbered = _numbered_on(_apart(chosen.with_row_index("row")))
    again = numbered.filter(pl.col("step") != pl.col("said")).sort("start", "row")
    steps = _steps(numbered.sort(-_LENGTH, "row"), inferred=False)
    if again.is_empty():
        return Told(steps)
    first = again.row(0, named=True)
    where = f"{first['name']} is step {first['step']}"
    return Told(steps, (Note("inferred", AGAIN, again.height, where=where),))


AGAIN: Final = "step_numbers_repeated"
"""The note of steps that do not keep the number that they are marked with."""

_LENGTH: Final = pl.col("end") - pl.col("start")
_WHOSE: Final = ("host", "rank")
_LARGEST: Final = (1 << 31) - 1


def _apart(marks: pl.DataFrame) -> pl.DataFrame:
    """One mark for each stretch that those of one number cover, without needless ones inside of others."""
    reach = pl.col("end").cum_max().shift(1)
    ordered = marks.sort("start", -pl.col("end"), "row").with_columns(
        (reach >= pl.col("end")).over(_WHOSE).fill_null(value=False).alias("inside")
    )
    begins = (reach <= pl.col("start")) & (pl.col("start").shift(1) < pl.col("start"))
    stretches = ordered.with_columns(
        pl.col("inside").first().over(*_WHOSE, "start", "end"),
        begins.fill_null(value=True).cum_sum().over(*_WHOSE, "step").alias("stretch"),
    )
    longest = stretches.sort(-_LENGTH, "row").unique([*_WHOSE, "step", "stretch"], keep="first", maintain_order=True)
    needed = ~pl.col("inside") | (pl.col("inside").all() & (pl.int_range(pl.len()) == 0)).over(*_WHOSE, "step")
    return longest.filter(needed)


def _numbered_on(marks: pl.DataFrame) -> pl.DataFrame:
    """Marks whose numbers are their own; what the file says is `said`.

    Where no number is left after the largest, all are counted from 0 in the order of time.
    """
    again = (pl.int_range(pl.len()) > 0).over(*_WHOSE, "step")
    ordered = marks.sort("start", "step").with_columns(pl.col("step").alias("said"), again.alias("again"))
    number = pl.col("step").max() + pl.col("again").cum_sum()
    fits = number.max() <= _LARGEST
    return ordered.with_columns(
        pl.when(~fits.over(_WHOSE))
        .then(pl.int_range(pl.len()).over(_WHOSE))
        .when("again")
        .then(number.over(_WHOSE))
        .otherwise("step")
        .alias("step")
    )


def infer(runs: pl.DataFrame, told: str = "") -> pl.DataFrame:
    """Steps from the module that takes the most device time among those that repeat: one per execution, per rank.

    `runs` are the executions of modules on devices, sorted, with their id (`event`), `host` and `rank`. A step lasts
    from one start to the next; the last one until its own end. Numbered from 0 on each rank: what the steps of others
    are called is for who has all of them. Empty where nothing repeats at least `MIN_EXECUTIONS` times. The module that
    the file has `told` goes before all others, however often it ran.
    """
    by_name = runs.group_by("name", maintain_order=True).agg(
        (pl.col("end") - pl.col("start")).sum().alias("time"),
        (pl.len() / pl.col("rank").n_unique()).alias("executions"),
    )
    is_told = pl.col("name").cast(pl.String) == told
    repeating = by_name.filter(is_told | (pl.col("executions") >= MIN_EXECUTIONS))
    leading = repeating.sort(is_told, "time", descending=True, maintain_order=True)
    if leading.is_empty():
        return pl.DataFrame(schema=STEPS)
    chosen = runs.filter(pl.col("name") == leading["name"][0]).sort("rank", "start", maintain_order=True)
    spaced = chosen.with_columns(
        pl.col("start").shift(-1).over("rank").fill_null(pl.col("end")).alias("end"),
        (pl.col("start").cum_count().over("rank") - 1).alias("step"),
    )
    return _steps(spaced, inferred=True)


def _steps(rows: pl.DataFrame, *, inferred: bool) -> pl.DataFrame:
    return (
        rows.with_columns(pl.lit(inferred).alias("inferred"), pl.col("name").cast(pl.String))
        .select(*STEPS)
        .cast(STEPS)
        .sort("rank", "start", maintain_order=True)
    )


class Calendar(NamedTuple):
    """Finds the step in which an instant lies.

    `of` says what a step counts for: the events of its `host`, or those of its `rank`. `group` is that host or rank,
    by which steps are sorted, and then by their `start`.
    """

    of: str
    group: Ints
    start: Ints
    end: Ints
    step: Ints

    def at(self, host: Ints, rank: Ints, begins: npt.NDArray[np.intp], start: Ints) -> Ints:
        """The step of events at the instants of their start; -1 for none.

        Events come lane by lane, those of each in the order of their start: `begins` has the row at which each lane
        begins, `host` and `rank` (-1: none) whose the lane is.
        """
        step = np.full(len(start), -1, np.int64)
        groups = host if self.of == "host" else rank
        some = np.searchsorted(self.group, groups), np.searchsorted(self.group, groups, side="right")
        for low, high, first, last in zip(begins, np.append(begins, len(start))[1:], *some, strict=True):
            if first < last:
                step[low:high] = self._of_lane(slice(first, last), start[low:high])
        return step

    def _of_lane(self, steps: slice, start: Ints) -> Ints:
        """The step of the events of one lane: the last of its steps that has begun, if that has not ended."""
        begun = np.searchsorted(start, self.start[steps])
        events = np.diff(np.append(begun, len(start)), prepend=0)  # before the first step, and from each to the next
        end = np.repeat(np.append(0, self.end[steps]), events)
        return np.where(start < end, np.repeat(np.append(-1, self.step[steps]), events), -1)


def calendar(steps: pl.DataFrame) -> Calendar:
    """The calendar of the steps of a file, which are all of hosts or all of ranks."""
    of = "rank" if steps["rank"].null_count() == 0 else "host"
    ordered = steps.sort(of, "start", maintain_order=True)
    group, start, end, step = (ordered[name].cast(pl.Int64).to_numpy() for name in (of, "start", "end", "step"))
    return Calendar(of, group, start, end, step)
