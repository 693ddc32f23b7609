"""Compilations on host threads, and the events inside them.

Compiler passes have names that say little (``dce``, ``fusion``); they lie inside a compilation. Events come in any
order, and those of one thread may be in several shards: each shard collects the intervals of its compilations, and
events inside them are marked when all shards are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import polars as pl

from tracehound.formats.protobuf_wire import Offsets
from tracehound.formats.spill import SpilledRows
from tracehound.model.trace import KIND_CODES
from tracehound.numeric.intervals import Intervals, Mask, merge, union

KINDS_INSIDE_COMPILATIONS = ("annotation", "runtime", "transfer", "other")
"""Kinds of host events that become ``compile`` inside a compilation."""

_COMPILE: Final = KIND_CODES["compile"]
_MAY_BE_INSIDE: Final = np.isin(np.arange(len(KIND_CODES)), [KIND_CODES[kind] for kind in KINDS_INSIDE_COMPILATIONS])


class CompilationCollector:
    """Collects the intervals of compilations on each line."""

    def __init__(self) -> None:
        self._intervals: dict[int, list[Intervals]] = {}

    def add(self, line: Offsets, kind: Offsets, start: Offsets, end: Offsets) -> None:
        """Add the compilations among these events."""
        compile_rows = np.flatnonzero(kind == _COMPILE)
        for number in sorted(set(line[compile_rows].tolist())):
            rows_of_line = compile_rows[line[compile_rows] == number]
            self._intervals.setdefault(number, []).append(union(start[rows_of_line], end[rows_of_line]))

    def intervals(self) -> dict[int, Intervals]:
        """Intervals by line."""
        return {line: merge(*intervals) for line, intervals in self._intervals.items()}


def merge_compilations_by_row(
    shards: Iterable[Mapping[int, Intervals]], first_line_of_row: Mapping[int, int]
) -> dict[int, Intervals]:
    """Intervals by line, merged over all lines of its lane; `first_line_of_row` has the first line of each lane."""
    by_row: dict[int, list[Intervals]] = {}
    for intervals in shards:
        for line, line_intervals in intervals.items():
            by_row.setdefault(first_line_of_row[line], []).append(line_intervals)
    merged = {row: merge(*intervals) for row, intervals in by_row.items()}
    return {line: merged[row] for line, row in first_line_of_row.items() if row in merged}


def mark_spilled_compilations(spilled: SpilledRows, intervals: Mapping[int, Intervals]) -> SpilledRows:
    """The events, whose lanes are lines, with kind ``compile`` inside the compilations of their line."""
    if spilled.runs is None:
        raise ValueError("only events belong to compilations")
    bounds = spilled.runs.bounds.tolist()
    compiling_rows = [
        (low, high, intervals[line])
        for line, low, high in zip(spilled.runs.lane.tolist(), bounds[:-1], bounds[1:], strict=True)
        if line in intervals
    ]
    if not compiling_rows:
        return spilled
    kind = spilled.read(0, spilled.height, ["kind"])["kind"].values.copy()
    for low, high, line_intervals in compiling_rows:
        start = spilled.read(low, high, ["start"])["start"].values
        kinds = kind[low:high]
        kinds[_starts_inside(line_intervals, start) & _MAY_BE_INSIDE[kinds]] = _COMPILE
    return spilled.with_column("kind", kind)


def _starts_inside(intervals: Intervals, start: Offsets) -> Mask:
    """Mask of the sorted times that lie in the intervals."""
    size = len(start) + 1
    opened = np.bincount(np.searchsorted(start, intervals.start), minlength=size)
    closed = np.bincount(np.searchsorted(start, intervals.end), minlength=size)
    inside: Mask = np.cumsum(opened - closed)[:-1] > 0
    return inside


def mark_compilations(events: pl.DataFrame) -> pl.DataFrame:
    """Host events (`lane`, `start`, `kind`, sorted or not) with kind ``compile`` inside compilations of their lane."""
    compiling = events.filter(pl.col("kind") == "compile")
    if compiling.is_empty():
        return events
    lane, start = events["lane"].to_numpy(), events["start"].to_numpy()
    inside = np.zeros(len(lane), bool)
    for (number,), rows in compiling.partition_by("lane", as_dict=True).items():
        intervals = union(rows["start"].to_numpy(), rows["end"].to_numpy())
        rows_of_lane = np.flatnonzero(lane == number)
        at = np.searchsorted(intervals.start, start[rows_of_lane], side="right") - 1
        if len(intervals.start):
            inside[rows_of_lane] = (at >= 0) & (start[rows_of_lane] < intervals.end[np.maximum(at, 0)])
    is_inside = pl.Series(inside) & events["kind"].is_in(KINDS_INSIDE_COMPILATIONS)
    compile_kind = pl.lit("compile", events.schema["kind"])
    return events.with_columns(pl.when(is_inside).then(compile_kind).otherwise(pl.col("kind")).alias("kind"))
