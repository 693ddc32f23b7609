"""What is said of steps that are left out."""

from __future__ import annotations

import pytest

from building import Building, Lane
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (9, "1 partial step is left out of {}: nothing tells when it ended"),
        (1, "2 partial steps are left out of {}: the recording began or ended within, or the work ran outside;"
            " nothing tells when the last ended"),
    ],
)  # fmt: skip
def test_of_the_last_inferred_step_nothing_tells_when_it_ended(first: int, told: str) -> None:
    """A step is an execution, and lasts until the next one; of the first one the recording may have less work."""
    b = Building(format="xplane")
    for number in range(6):
        start = number * 100
        b.event(Lane("XLA Modules", 0, "modules"), "jit_f(9)", start, start + 50, "module")
        for op in range(first if number == 0 else 9):
            b.event(Lane("XLA Ops", 0, "ops", work=True), "dot", start + 5 * op, start + 5 * op + 5, "op")
    trace = b.trace()
    for name, of in (("steps", "these lengths"), ("step_time", "these figures"), ("step_parts", "the average")):
        assert told.format(of) in note_texts(run_analysis(get_analysis(name), trace).notes)
