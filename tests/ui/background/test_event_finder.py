"""From the row of a table to the events that it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import Building, stream, thread
from exploring import read_once
from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.result import Options
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace
from tracehound.ui.background import event_finder
from tracehound.ui.background.analysis_runner import TraceSnapshot
from tracehound.ui.background.event_finder import AggregateRow, RowEventFinder, counting_row
from tracehound.ui.state.event_walk import EventWalk


def rows(trace: Trace, analysis: str) -> list[AggregateRow]:
    """The rows of a table that count events."""
    question = TraceSnapshot.of(0, trace, frozenset()).question(analysis, Window(), ())
    table = run_analysis(get_analysis(analysis), trace, options=Options()).table
    found = [counting_row(trace, values, question) for values in table.rows(named=True) if values["count"]]
    return [row for row in found if row is not None]


def walks(trace: Trace, analysis: str) -> list[tuple[AggregateRow, EventWalk]]:
    known = RowEventFinder()
    return [(row, known.walk(row)) for row in rows(trace, analysis)]


@pytest.mark.parametrize(("analysis", "leads", "what"), [("host", "longest", "event"), ("operators", "event", "name")])
def test_a_walk_begins_at_the_event_to_which_the_row_leads(analysis: str, leads: str, what: str, samples: Path) -> None:
    found = walks(load_trace(read_once(samples / "torch_stacks")), analysis)
    assert len(found) > 10
    for row, walk in found:
        assert (walk.event, walk.what, len(walk)) == (row.values[leads], row.values[what], row.values["count"])


def test_of_a_row_that_leads_elsewhere_it_begins_at_the_last_before_that(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Building()
    for start in (10, 30, 50):
        b.event(stream(), "gemm", start, start + 5)
    b.event(thread(), "aten::mm", 40, 45, "op")
    trace = b.trace()
    other = trace.events().filter(name="aten::mm").collect()["id"].item()
    monkeypatch.setattr(event_finder, "event_of_row", lambda *_: other)
    ((_, walk),) = walks(trace, "ops")
    assert walk.words == "2 of 3"
