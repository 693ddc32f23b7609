"""What the explorer says in words, without a screen."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

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


def test_the_top_finding_of_some_ranks_says_of_how_many() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 1)
    findings = run_analysis(get_analysis("findings"), b.trace())
    row = {"finding": "rank 3 is late", "cost": 61_000_000_000, "share": 0.388, "share_of": "step"}
    one = replace(findings, table=pl.DataFrame([row], schema=findings.table.schema))
    *costs, title = messages.top_finding_parts(one, "")
    assert (costs, title) == (["38.8 % of step time, 61.0 ms", "38.8 %, 61.0 ms"], "rank 3 is late")
    of_some = messages.top_finding_parts(one, "1 of 8 ranks read")
    assert of_some == (*(f"1 of 8 ranks read · {cost}" for cost in costs), title)
    none = replace(findings, table=findings.table.clear())
    assert messages.top_finding_parts(none, "") == (messages.NO_FINDINGS,)
    assert messages.top_finding_parts(none, "1 of 8 ranks read") == (messages.COMPUTING,)
