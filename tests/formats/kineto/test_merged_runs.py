"""Files merged of several ranks' files: which process is whose, and nothing of one is taken for another's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from exporting import job, opened, rank, rows, x
from growth import TOO_FAST, growth
from short import first
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.draw.notes import note_text
from tracehound.formats.kineto.process_ids import find_merged_runs, without_run_mark
from tracehound.model.trace import Trace, collect_frame


@pytest.mark.parametrize(
    ("processes", "names", "marks", "ranks"),
    [
        (["[TP00] 10", "[TP00] 0", "[TP01] 11", "[TP01] 0"], {}, ("TP00", "TP01"), (0, 1)),
        (["[TP10] 1", "[TP9] 1"], {}, ("TP9", "TP10"), (9, 10)),
        (["[DP00-TP00] 1", "[DP00-TP01] 1", "[DP01-TP00] 1"], {}, ("DP00-TP00", "DP00-TP01", "DP01-TP00"), (None,) * 3),
        (["rank0_10", "rank1_10"], {}, ("rank0", "rank1"), (0, 1)),
        (["Rank 3: 10", "Rank 1: 10"], {}, ("Rank 1", "Rank 3"), (1, 3)),
        ([10, 0, 11, 1], {10: "rank 0: python", 0: "rank 0: python", 11: "rank 4: python", 1: "rank 4: x"},
         ("rank 0", "rank 4"), (0, 4)),
        ([10, 11], {10: "ranks 0,1: python", 11: "ranks 2-3: python"}, ("ranks 0,1", "ranks 2-3"), (None, None)),
        (["[a1] 10", "[b1] 10"], {}, ("a1", "b1"), (None, None)),
        (["[TP03] 10", "[TP03] 0"], {}, ("TP03",), (3,)),
        (["[20261125120000] 10", "[20261125120001] 10"], {}, ("20261125120000", "20261125120001"), (None, None)),
    ],
)  # fmt: skip
def test_marks_tell_whose_processes_are(processes: list, names: dict, marks: tuple, ranks: tuple) -> None:
    found = find_merged_runs(processes, names)
    assert found.marks == marks
    assert found.ranks == ranks
    assert all(marks[found.run_of(each)] in str(each) + names.get(each, "") for each in processes)


@pytest.mark.parametrize(
    ("processes", "names"),
    [
        ([], {}),
        ([10, 0], {10: "python", 0: "python"}),
        (["[python] 10", "[python] 0"], {}),
        (["[DP00-TP00] 10"], {}),
        ([10, 0], {10: "rank 5: python", 0: "rank 5: python"}),
        (["[TP00] 10", "[TP01] 11", 0], {}),
        ([10, 11], {10: "rank 0: python"}),
        (["CPU functions", "CUDA functions"], {}),
        ([10, 11], {10: "[kworker]", 11: "ranking 1: x"}),
        (["[] 1", "[ 2"], {}),
    ],
)
def test_other_files_are_of_one_run(processes: list, names: dict) -> None:
    found = find_merged_runs(processes, names)
    assert not found.has_several_runs
    assert not found.is_merged
    assert found.ranks == (None,)
    assert [found.run_of(each) for each in processes] == [0] * len(processes)


@pytest.mark.parametrize(
    ("merged", "before"),
    [("[TP00] 10", 10), ("rank 3: python", "python"), ("rank1_12", 12), (10, 10), ("python", "python"), (None, None),
     ("[TP0] " + "9" * 30, "9" * 30)],
)  # fmt: skip
def test_what_a_process_was_called_before(merged: Any, before: Any) -> None:
    assert without_run_mark(merged) == before


def merged(documents: list[dict[str, Any]], mark: Callable[[int, Any], object]) -> dict[str, Any]:
    """As scripts do it: all events in one list, with other ids of processes, and what the first says of its run."""
    events = [
        {**event, "pid": mark(number, event["pid"])}
        for number, document in enumerate(documents)
        for event in document["traceEvents"]
    ]
    return {**documents[0], "traceEvents": events}


def step(number: int, ts: float, dur: float) -> dict[str, Any]:
    return x("user_annotation", f"ProfilerStep#{number}", ts, dur)


def ranks(count: int) -> list[dict[str, Any]]:
    """Ranks of one machine each: their processes, devices, correlation and External ids have the same numbers."""
    tie, gpu = {"External id": 9}, {"device": 0, "stream": 7, "correlation": 9}
    sent = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float"}
    return [
        rank(
            number,
            at=100 + 7 * number,
            files=[
                step(1, 100 + 7 * number, 60),
                step(2, 160 + 7 * number, 40 + number),
                x("cpu_op", ("record_param_comms", "aten::mm")[number % 2], 190, 3, **tie, **sent),
                x("cuda_runtime", "cudaLaunchKernel", 191, 1, correlation=9, **tie),
                x("kernel", "custom", 200 + number, 5, 0, 7, **gpu, **tie),
            ],
        )
        for number in range(count)
    ]


SEEN = ("name", "start", "end", "kind", "self", "bytes", "rank", "step", "depth", "correlation")
MARKS: dict[str, Callable[[int, Any], object]] = {
    "bracketed": lambda number, pid: f"[TP{number:02}] {pid}",
    "ranked": lambda number, pid: f"rank{number}_{pid}",
}


def launches(trace: Trace) -> list[tuple[Any, ...]]:
    """Each launched event with the start of its launch, and the hosts of both."""
    events = collect_frame(trace.events())
    host = trace.lanes.select("lane", "host")
    both = events.drop_nulls("launch").join(events.select(launch="id", called="start", caller="lane"), on="launch")
    placed = both.join(host, on="lane").join(host.select(caller="lane", of="host"), on="caller")
    return placed.select(pl.col("name").cast(pl.String), "start", "called", "host", "of").sort(pl.all()).rows()


@pytest.mark.parametrize(
    ("mark", "count"), first(1, (("ranked", 3), ("bracketed", 2), ("ranked", 11), ("bracketed", 11)))
)
def test_a_merged_file_is_read_as_the_files_that_it_was_merged_of(tmp_path: Path, mark: str, count: int) -> None:
    documents = ranks(count)
    apart = opened(*job(tmp_path, *documents))
    path = tmp_path / "merged.json"
    path.write_text(json.dumps(merged(documents, MARKS[mark])))
    one = opened(path)
    assert rows(one, *SEEN) == rows(apart, *SEEN)
    assert launches(one) == launches(apart)
    assert {host == of for *_, host, of in launches(one)} == {True}
    assert one.ranks.select("rank", "device", "label").equals(apart.ranks.select("rank", "device", "label"))
    assert [host.name for host in one.hosts] == [host.name for host in apart.hosts]
    for name in ("breakdown", "steps", "step_parts", "idle", "launches", "kernels", "operators", "collectives"):
        analysis = get_analysis(name)
        places = [column.name for column in analysis.columns if column.unit == "id"]
        found, there = (run_analysis(analysis, trace, None, Options()).table.drop(places) for trace in (one, apart))
        assert sorted(found.rows(), key=repr) == sorted(there.rows(), key=repr), name


def test_it_is_said_that_a_file_was_merged(tmp_path: Path) -> None:
    path = tmp_path / "merged.json"
    path.write_text(json.dumps(merged(ranks(3), MARKS["bracketed"])))
    trace = opened(path)
    (note,) = (note for note in trace.notes if "merged" in note_text(note))
    assert (note.level, note.count) == ("inferred", 3)
    assert "TP00, TP01, TP02" in note_text(note)
    assert not [note for note in trace.notes if re.search("counted through|no rank", note_text(note))]
    assert trace.parts[0].facts.rank is None


def test_marks_that_are_no_ranks_leave_ranks_to_be_counted(tmp_path: Path) -> None:
    path = tmp_path / "merged.json"
    path.write_text(json.dumps(merged(ranks(2), lambda number, pid: f"[2026112512000{number}] {pid}")))
    trace = opened(path)
    assert trace.ranks.select("rank", "inferred").rows() == [(0, True), (1, True)]
    assert len(trace.hosts) == 2


def test_a_piece_of_a_merged_file_has_its_own_rank(tmp_path: Path) -> None:
    path = tmp_path / "piece.json"
    whole = merged(ranks(3), MARKS["bracketed"])
    mine = [event for event in whole["traceEvents"] if str(event["pid"]).startswith("[TP02]")]
    path.write_text(json.dumps({**whole, "traceEvents": mine}))
    trace = opened(path)
    assert trace.ranks.select("rank", "inferred").rows() == [(2, False)]
    assert [note_text(note) for note in trace.notes if "merged" in note_text(note)] == [
        "part of a file merged from several ranks: TP02"
    ]


def test_memory_of_several_ranks_is_said_to_be_one(tmp_path: Path) -> None:
    held = {"Bytes": 64, "Addr": 1, "Device Type": 1, "Device Id": 0, "Total Allocated": 64, "Total Reserved": 128}
    instant = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 10, "tid": 10, "ts": 110, "args": held}
    documents = [rank(number, files=[instant]) for number in range(2)]
    path = tmp_path / "merged.json"
    path.write_text(json.dumps(merged(documents, MARKS["bracketed"])))
    one = opened(path)
    assert [note.count for note in one.notes if "memory of several ranks" in note_text(note)] == [4]
    for name in ("memory", "memory_blocks", "memory_curve"):
        table = run_analysis(get_analysis(name), one, None, Options()).table
        assert set(table["rank"]) == {0}, f"{name}: what is there once is shown once, of the first of the file"
    assert not [note for note in opened(*job(tmp_path, *documents)).notes if "memory of several" in note_text(note)]


def test_the_name_of_a_process_takes_as_long_as_it_is() -> None:
    assert growth(lambda size: find_merged_runs([1], {1: "rank 0" + " " * size})) < TOO_FAST
