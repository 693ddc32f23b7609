"""What host threads did: once for all ranks that a host drives."""

from __future__ import annotations

import pytest

from building import US, Building, Lane, stream, thread
from tracehound.analysis import host, named, run
from tracehound.analysis.threads import during

MAIN = thread("python")


def test_the_threads_of_a_host_are_read_once_for_all_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Building(format="xplane")
    for rank in range(4):
        b.event(Lane("XLA Ops", rank, "ops", work=True), "dot", rank, 10 + rank, "op")
    b.event(MAIN, "train", 0, 20, "step")
    b.event(MAIN, "StepMarker", 5, 15, "runtime")
    seen = []

    def counted(*asked: object) -> object:
        seen.append(asked)
        return during(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(host, "during", counted)
    rows = run(named("host"), b.trace()).table
    assert rows.select("event", "doing", "time").rows() == [
        ("StepMarker", "tracing the next step", 10 * US),
        ("train", "tracing the next step", 10 * US),
    ]
    assert len(seen) == 1


def test_a_call_that_waits_for_its_copy_is_told_of_the_rank_whose_copy_it_is() -> None:
    b = Building()
    b.event(stream(), "Memcpy DtoH (Device -> Pageable)", 0, 20, "copy", correlation=1)
    b.event(MAIN, "cudaMemcpyAsync", 0, 21, "runtime", correlation=1)
    assert run(named("host"), b.trace()).table["doing"].to_list() == ["blocked on a copy"]
