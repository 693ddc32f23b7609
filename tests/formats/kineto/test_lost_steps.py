"""Steps whose marks a damaged file lost, and files that two processes wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracehound.formats import KINETO
from tracehound.model.trace import FileFrames


def steps(pid: int, first: int, last: int) -> list[dict[str, object]]:
    mark = {"ph": "X", "cat": "user_annotation", "pid": pid, "tid": pid, "dur": 90}
    return [{**mark, "name": f"ProfilerStep#{n}", "ts": 100 * n} for n in range(first, last)]


def read(folder: Path, data: bytes) -> FileFrames:
    path = folder / "t.pt.trace.json"
    path.write_bytes(data)
    return KINETO.read(path)


def values(frames: FileFrames, code: str) -> list[object]:
    return [value for note in frames.notes if note.code == code for _, value in note.values]


def document(*rows: dict[str, object]) -> bytes:
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": rows}).encode()


@pytest.mark.parametrize("hole", [b"\0", b" ", b"\xff"])
def test_steps_in_a_hole_of_the_file_are_named(hole: bytes, tmp_path: Path) -> None:
    data = document(*steps(7, 10, 40))
    low, high = data.index(b"ProfilerStep#20") - 4, data.index(b"ProfilerStep#27")
    frames = read(tmp_path, data[:low] + hole * (high - low) + data[high:])
    (lost,) = values(frames, "steps_lost")
    assert {*range(21, 27)} <= set(lost) <= {*range(20, 28)}  # type: ignore[call-overload]  # a tuple of ints


def test_a_sound_file_with_a_gap_in_its_numbers_lost_none(tmp_path: Path) -> None:
    frames = read(tmp_path, document(*steps(7, 10, 20), *steps(7, 30, 40)))
    assert values(frames, "steps_lost") == []


def test_two_processes_that_mark_steps_wrote_one_file(tmp_path: Path) -> None:
    frames = read(tmp_path, document(*steps(7, 0, 9), *steps(8, 0, 9)))
    assert values(frames, "several_writers") == [("7", "8")]


def launches(pid: int, count: int) -> list[dict[str, object]]:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": pid, "dur": 9}
    return [{**call, "ts": 100 * n} for n in range(count)]


def test_two_processes_that_launch_work_wrote_one_file(tmp_path: Path) -> None:
    assert values(read(tmp_path, document(*launches(7, 9), *launches(8, 9))), "several_writers") == [("7", "8")]
    assert values(read(tmp_path, document(*launches(7, 900), *launches(77, 9))), "several_writers") == []


def test_a_torn_id_and_a_merged_file_are_no_second_writer(tmp_path: Path) -> None:
    frames = read(tmp_path, document(*steps(7, 0, 9), *steps(77, 9, 10)))
    assert values(frames, "several_writers") == []
    merged = [{**row, "pid": f"[TP0{row['pid']}] {row['pid']}"} for row in (*steps(7, 0, 9), *steps(8, 0, 9))]
    assert values(read(tmp_path, document(*merged)), "several_writers") == []


def test_cases_of_lost_steps_and_two_writers(shared: Path) -> None:
    cases = shared / "cases"
    assert values(KINETO.read(cases / "23-nul-hole.json"), "steps_lost") == [tuple(range(22, 30))]
    assert values(KINETO.read(cases / "21-interleaved-blocks.json"), "several_writers") == [("4100", "4200")]
    assert values(KINETO.read(cases / "21b-interleaved-appends.json"), "several_writers") == [("4100", "42000")]
    for name in ("20-two-ranks-one-file.json", "49-one-process-two-devices.json", "27-viztracer-log_torch.json"):
        assert values(KINETO.read(cases / name), "several_writers") == []
