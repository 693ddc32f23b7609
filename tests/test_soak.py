"""The explorer outlives random input, for two minutes in total."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from soak import USUAL, anything, palette, soak

pytestmark = pytest.mark.thorough

SECONDS = 30.0
"""For each of the three traces, and for the command palette."""

PATIENCE = 60.0
"""Seconds until no answer is a hang, on a machine that is busy with other tests."""


@pytest.mark.parametrize("trace", USUAL, ids=lambda path: path.name)
def test_it_outlives_anything(trace: Path) -> None:
    count, wrong = soak((str(trace),), anything(random.Random(trace.name)), SECONDS, PATIENCE)
    assert not wrong, wrong
    assert count > 0


def test_it_outlives_its_palette() -> None:
    count, wrong = soak((str(USUAL[1]),), palette(random.Random(0), 10_000), SECONDS, PATIENCE)
    assert not wrong, wrong
    assert count > 0
