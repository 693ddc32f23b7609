"""Engines of a data-parallel server, each with ranks and groups that are numbered from 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs import Rank, asked
from tracehound.draw.notes import note_text
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files


def server(folder: Path, name: str, engines: int = 2, *, members: bool = True, listed: bool = False) -> Trace:
    """A server with two ranks in each engine, whose groups have equal names; each engine has 5 collectives."""
    for engine in range(engines):
        for number in (0, 1):
            rank = Rank(number)
            rank.groups = [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}] if listed else []
            for call in range(5):
                start = 1000 * call + 100 * engine
                named = {"Process_Group_Ranks": "[0, 1]"} if members else {}
                rank.collective(start, start + 5 + 20 * number, start + 80, Seq=call, **named)
            path = folder / name.format(engine=engine, rank=number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(rank.document()))
    return load_trace(open_trace_files([folder]))


@pytest.mark.parametrize(
    "name", ["dp{engine}_tp{rank}_rank{rank}.json", "rank{rank}-engine_{engine}.json", "node{engine}/rank{rank}.json"]
)
@pytest.mark.parametrize("told", [{"members": True}, {"members": False, "listed": True}, {"members": False}])
def test_collectives_of_engines_are_matched_within_each(tmp_path: Path, name: str, told: dict[str, bool]) -> None:
    trace = server(tmp_path, name, **told)
    found = asked("collective_calls", trace)
    assert found.table["ranks"].to_list() == [2] * 10
    assert not [note for note in found.notes if note.level == "missing"], [note_text(note) for note in found.notes]


def test_ranks_that_are_claimed_twice_without_engines_are_of_other_runs(tmp_path: Path) -> None:
    trace = server(tmp_path, "x{rank}{engine}.json")
    notes = [note.code for note in asked("collective_calls", trace).notes]
    assert "calls_of_another_run" in notes


def test_an_engine_of_which_a_rank_is_missing_is_no_engine_of_another_run(tmp_path: Path) -> None:
    server(tmp_path, "dp{engine}_rank{rank}.json", engines=3)
    (tmp_path / "dp2_rank1.json").unlink()
    trace = load_trace(open_trace_files([tmp_path]))
    assert asked("collective_calls", trace).table["ranks"].to_list() == [2] * 10
