"""Steps that are far from the others are named, with what they went to; ordinary ones are not."""

from __future__ import annotations

import re

import polars as pl
import pytest
from msgspec.structs import replace
from runs import measured, run
from test_run_comparison import compared

from short import first
from tracehound.diff.comparison_tables import outlier_notes
from tracehound.draw.notes import note_texts


@pytest.mark.parametrize("seed", first(1, range(8)))
def test_a_stretched_step_is_the_one_that_is_told(seed: int) -> None:
    found = compared(run(seed=seed), run(seed=seed + 100, stretch=(3, 900)))
    told = [note for note in note_texts(found.step.notes) if note.startswith("step ")]
    assert len(told) == 1
    assert told[0].startswith("step 3 of the candidate takes 1.4")
    more = re.fullmatch(r".*takes 1\.\d\d ms, (\d+) us more than its median step \(mostly idle\)", told[0])
    assert more is not None
    assert int(more[1]) == pytest.approx(900, abs=20)


@pytest.mark.parametrize("seed", first(1, range(20)))
def test_noise_is_far_from_nothing(seed: int) -> None:
    assert outlier_notes(measured(run(seed=seed, noise=0.05)), "baseline") == []


def test_few_steps_have_no_others() -> None:
    assert outlier_notes(measured(run(steps=3, stretch=(1, 900))), "baseline") == []


def test_many_are_counted() -> None:
    found = measured(run(steps=30))
    lengths = pl.Series("duration", [1e9] * 20 + [5e9] * 5 + [2e8] * 5)
    found = replace(found, steps=found.steps.with_columns(lengths))
    told = note_texts(outlier_notes(found, "baseline"))
    assert len(told) == 4
    assert told[0].startswith("step 20 of the baseline takes 5.00 ms, 4.00 ms more than")
    assert told[-1] == "7 more steps of the baseline far from its median"
