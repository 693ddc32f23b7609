"""What belongs to compilations, whichever portions tell of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracehound.formats.spill import Spill, SpilledRows
from tracehound.formats.xla.compiler_events import (
    CompilationCollector,
    mark_spilled_compilations,
    merge_compilations_by_row,
)
from tracehound.formats.xla.compiler_events import mark_compilations as of_frame
from tracehound.model.trace import KIND, KIND_CODES, KINDS
from tracehound.numeric.intervals import Intervals

Row = tuple[int, int, int, str]


def kept(rows: list[Row]) -> SpilledRows:
    schema = {"lane": pl.Int64(), "start": pl.Int64(), "end": pl.Int64(), "kind": KIND}
    return Spill().spill_frame(pl.DataFrame(rows, schema, orient="row"), "some")


def told(rows: list[Row]) -> dict[int, Intervals]:
    compiling = CompilationCollector()
    for row in rows:
        line, start, end = (np.array([number]) for number in row[:3])
        compiling.add(line, np.array([KIND_CODES[row[3]]]), start, end)
    return compiling.intervals()


def test_lines_drawn_together_and_portions_tell_of_one_another() -> None:
    one = told([(0, 0, 10, "compile"), (0, 20, 90, "annotation")])
    other = told([(2, 5, 30, "compile"), (3, 0, 5, "compile")])
    spans = merge_compilations_by_row([one, other], {0: 0, 1: 1, 2: 0, 3: 3})
    assert {line: list(zip(*these, strict=True)) for line, these in spans.items()} == {
        0: [(0, 30)], 2: [(0, 30)], 3: [(0, 5)],
    }  # fmt: skip


def test_a_kind_that_says_more_than_compile_stays() -> None:
    events = kept([(0, 5, 6, kind) for kind in KINDS])
    found = mark_spilled_compilations(events, {0: Intervals(np.array([5]), np.array([6]))})
    assert {kind for kind, now in zip(KINDS, found.read_frame()["kind"], strict=True) if kind != now} == {
        "annotation", "runtime", "transfer", "other",
    }  # fmt: skip


def test_events_without_compilations_stay_as_they_are() -> None:
    events = kept([(1, 5, 6, "annotation")])
    assert mark_spilled_compilations(events, {0: Intervals(np.array([0]), np.array([9]))}) is events


@pytest.mark.parametrize("seed", range(20))
def test_frames_tell_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [
        (int(lane), int(start), int(start + length), kind)
        for lane, start, length, kind in zip(
            random.integers(0, 3, 60), random.integers(0, 100, 60), random.integers(0, 9, 60),
            random.choice(["compile", "annotation", "python"], 60, p=[0.1, 0.6, 0.3]), strict=True,
        )
    ]  # fmt: skip
    events = kept(rows)
    assert mark_spilled_compilations(events, told(rows)).read_frame().equals(of_frame(events.read_frame()))
