"""Folders of runs: of one job whose hosts wrote a folder each, of torch_npu, and of hosts without records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracehound.draw.notes import note_text
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files
from xspaces import Event, Line, Plane, Stat, space

SECOND = 10**9
START = 1_790_000_000 * SECOND
STAMPS = ("2026_08_01_00_00_00", "2026_08_01_00_00_01", "2026_08_01_00_00_03")


def environment(start: int | None, length: int = 4 * SECOND) -> Plane:
    times = {"profile_start_time": start, "profile_stop_time": None if start is None else start + length}
    return Plane("Task Environment", stats=[Stat(name, 3, time) for name, time in times.items() if time is not None])


def host(folder: Path, name: str, start: int | None, length: int = 4 * SECOND) -> Path:
    """The profile of a host with one TPU."""
    ops = Plane("/device:TPU:0", [Line("XLA Ops", [Event("fusion.1", 0, 1000), Event("fusion.2", 2000, 1000)])])
    path = folder / f"{name}.xplane.pb"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space(ops, environment(start, length), hostname=name))
    return path


def opened(path: Path, run: str | None = None) -> Trace:
    return load_trace(open_trace_files([path], run))


def told(trace: Trace, code: str) -> list[str]:
    return [note_text(note) for note in trace.notes if note.code == code]


def test_hosts_of_one_job_that_wrote_a_folder_each_are_one_run(tmp_path: Path) -> None:
    profile = tmp_path / "plugins" / "profile"
    host(profile / "2026_07_31_23_59_00", "w-0", START - 60 * SECOND)
    for number, stamp in enumerate(STAMPS):
        host(profile / stamp, f"w-{number}", START + number * SECOND)
    trace = opened(tmp_path)
    assert [each.name for each in trace.hosts] == ["w-0", "w-1", "w-2"]
    (note,) = told(trace, "runs_opened_together")
    assert note.startswith(f"runs {', '.join(STAMPS)} opened as one run")
    assert told(trace, "run_opened")
    assert [each.name for each in opened(tmp_path, STAMPS[0]).hosts] == ["w-0"]


@pytest.mark.parametrize(
    ("other", "start", "stamp"),
    [
        ("w-0", START - SECOND, STAMPS[0]),
        ("w-1", START - 10 * SECOND, STAMPS[0]),
        ("w-1", START, "2026_07_31_00_00_00"),
        ("w-1", None, "2026_07_31_23_59_55"),
    ],
)
def test_runs_of_one_host_or_at_other_times_are_different_runs(
    tmp_path: Path, other: str, start: int | None, stamp: str
) -> None:
    profile = tmp_path / "plugins" / "profile"
    host(profile / stamp, other, start)
    host(profile / STAMPS[1], "w-0", START)
    trace = opened(tmp_path)
    assert [each.name for each in trace.hosts] == ["w-0"]
    assert told(trace, "run_opened") == [f"run {STAMPS[1]} opened; --run NAME opens another"]


def test_hosts_without_a_clock_are_one_run_if_their_folders_are_named_after_near_times(tmp_path: Path) -> None:
    for number, stamp in enumerate(STAMPS[:2]):
        host(tmp_path / "plugins" / "profile" / stamp, f"w-{number}", None)
    assert [each.name for each in opened(tmp_path).hosts] == ["w-0", "w-1"]


def test_a_host_that_recorded_nothing_is_no_rank(tmp_path: Path) -> None:
    host(tmp_path, "w-0", START)
    (tmp_path / "w-1.xplane.pb").write_bytes(space(environment(START)))
    (tmp_path / "w-2.xplane.pb").touch()
    trace = opened(tmp_path)
    assert [each.name for each in trace.hosts] == ["w-0"]
    assert trace.ranks["label"].to_list() == ["TPU:0"]
    assert told(trace, "host_without_events")
    alone = opened(tmp_path / "w-1.xplane.pb")
    assert alone.ranks.height == 1, "there is nothing else to show"


def ascend(folder: Path, rank: int | None) -> Path:
    """The output folder of torch_npu for one process."""
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": "1790000000000.5", "dur": 5}
    results = folder / "ASCEND_PROFILER_OUTPUT"
    results.mkdir(parents=True)
    (results / "trace_view.json").write_text(json.dumps([event]))
    (results / "kernel_details.csv").write_text("Name\n")
    (results / "communication.json").write_text("{}")
    number = "" if rank is None else f"_{rank}"
    (folder / f"profiler_info{number}.json").write_text(json.dumps({"rank_id": rank}))
    (folder / "profiler_metadata.json").write_text("{}")
    data = folder / "PROF_0001" / "device_0" / "data"
    data.mkdir(parents=True)
    for number in range(3):
        (data / f"slice_{number}.bin").write_bytes(b"\1\2\3")
    return folder


def test_ranks_of_torch_npu_are_in_the_names_of_files_beside_their_traces(tmp_path: Path) -> None:
    for worker, rank in (("host-a_4000", 3), ("host-a_4001", 1)):
        ascend(tmp_path / f"{worker}_20260518120000123_ascend_pt", rank)
    trace = opened(tmp_path)
    assert trace.ranks.select("rank", "inferred").rows() == [(1, False), (3, False)]
    assert not told(trace, "path_refused")
    one = tmp_path / "host-a_4000_20260518120000123_ascend_pt"
    for path in (one, one / "ASCEND_PROFILER_OUTPUT", one / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"):
        assert opened(path).ranks["rank"].to_list() == [3]
    reader = open_trace_files([one])
    assert reader.placeholder(0).ranks["rank"].to_list() == [3]


def test_of_recordings_by_torch_npu_the_newest_is_opened(tmp_path: Path) -> None:
    for rank in (0, 1):
        for time in (20260518120000123, 20260518130000456):
            ascend(tmp_path / f"host-a_400{rank}_{time + rank}_ascend_pt", rank)
    trace = opened(tmp_path)
    assert trace.ranks["rank"].to_list() == [0, 1]
    assert all("_2026051813" in str(part.path) for part in trace.parts)
    assert "20260518120000123" in told(trace, "older_recordings")[0]
    older = opened(tmp_path, "20260518120000123")
    assert all("_2026051812" in str(part.path) for part in older.parts)


def test_an_ascend_folder_of_a_single_process_has_no_rank(tmp_path: Path) -> None:
    folder = ascend(tmp_path / "host-a_4000_20260518120000123_ascend_pt", None)
    assert opened(folder).ranks.select("rank", "inferred").rows() == [(0, True)]


def test_the_perfetto_form_of_a_profile_is_opened_where_it_is_alone(tmp_path: Path) -> None:
    names = [{"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:TPU:0"}},
             {"ph": "M", "pid": 3, "tid": 1, "name": "thread_name", "args": {"name": "XLA Ops"}}]  # fmt: skip
    event = {"ph": "X", "pid": 3, "tid": 1, "ts": 1.0, "dur": 2.0, "name": "fusion"}
    run = tmp_path / "plugins" / "profile" / STAMPS[0]
    run.mkdir(parents=True)
    (run / "perfetto_trace.json").write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": [*names, event]}))
    for path in (run, tmp_path):
        assert [part.path.name for part in opened(path).parts] == ["perfetto_trace.json"]
    host(run, "w-0", START)
    assert [part.path.name for part in opened(tmp_path).parts] == ["w-0.xplane.pb"]
