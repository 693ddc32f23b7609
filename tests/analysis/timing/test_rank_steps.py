"""What is said of steps that are left out."""

from __future__ import annotations

import pytest

from building import Building, Lane
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (9, "1 partial step left out of {}: its end is unknown"),
        (1, "2 partial steps left out of {}: the recording began or ended inside, or work ran outside of it; "
            "the end of the last step is unknown"),
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
    for name, of in (("steps", "these lengths"), ("step_time", "these figures"), ("step_parts", "the mean")):
        assert told.format(of) in note_texts(run_analysis(get_analysis(name), trace).notes)
