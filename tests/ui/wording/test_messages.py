"""What the explorer says in words, without a screen."""

from __future__ import annotations

import pytest

from building import Building, stream
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.ui.wording import messages


@pytest.mark.parametrize("analysis", ["modules", "stacks", "host"])
def test_why_a_table_is_empty_is_said_once(analysis: str) -> None:
    """Its own notes tell it by what recorded the trace."""
    b = Building(format="xplane")
    b.event(stream(), "gemm", 0, 1)
    result = run_analysis(get_analysis(analysis), b.trace())
    assert messages.why_empty(result, b.trace(), None) == "\n".join(note_texts(result.notes))
    assert result.notes
