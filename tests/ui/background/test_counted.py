"""From the row of a table to the events that it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import Building, stream, thread
from exploring import read_once
from tracehound.analysis import named, run
from tracehound.analysis.result import Options
from tracehound.store import load
from tracehound.trace import Trace, Window
from tracehound.ui.background import counted
from tracehound.ui.background.answers import Snapshot
from tracehound.ui.background.counted import Counted, CountingRow, counting
from tracehound.ui.state.walk import Walk


def rows(trace: Trace, analysis: str) -> list[CountingRow]:
    """The rows of a table that count events."""
    question = Snapshot.of(0, trace, frozenset()).question(analysis, Window(), ())
    table = run(named(analysis), trace, options=Options()).table
    found = [counting(trace, values, question) for values in table.rows(named=True) if values["count"]]
    return [row for row in found if row is not None]


def walks(trace: Trace, analysis: str) -> list[tuple[CountingRow, Walk]]:
    known = Counted()
    return [(row, known.walk(row)) for row in rows(trace, analysis)]


@pytest.mark.parametrize(("analysis", "leads", "what"), [("host", "longest", "event"), ("operators", "event", "name")])
def test_a_walk_begins_at_the_event_to_which_the_row_leads(analysis: str, leads: str, what: str, samples: Path) -> None:
    found = walks(load(read_once(samples / "torch_stacks")), analysis)
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
    monkeypatch.setattr(counted, "event_of", lambda *_: other)
    ((_, walk),) = walks(trace, "ops")
    assert walk.words == "2 of 3"
