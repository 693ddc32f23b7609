"""Ranks that meet in one folder for each recording, without talking to each other."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tracehound.recording.run_folder import Recording, Request, join_recording

NOON = 1_800_014_400
"""A full minute, in seconds since 1970: 2027-01-15 12:00 UTC."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all hosts, which a test sets."""
    now = [float(NOON)]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def request(rank: int, now: int, wait: int = 2) -> Request:
    return Request(f"rank{rank}.json", now, now + wait + 1, 3)


def finish(recording: Recording) -> None:
    written = recording.partial / "written"
    written.touch()
    recording.publish(written)


def test_the_first_rank_decides_when_a_recording_begins(tmp_path: Path) -> None:
    first = join_recording(tmp_path, request(0, now=10))
    assert first.run == tmp_path / "plugins" / "profile" / "2027_01_15_12_00_00"
    assert (first.first_step, first.end_step) == (13, 16)
    second = join_recording(tmp_path, request(1, now=11))
    assert (second.run, second.first_step, second.end_step) == (first.run, 13, 16)


def test_a_rank_that_is_late_begins_at_its_next_step(tmp_path: Path) -> None:
    first = join_recording(tmp_path, request(0, now=10))
    late = join_recording(tmp_path, request(1, now=14))
    assert (late.run, late.first_step, late.end_step) == (first.run, 15, 18)


def test_a_rank_that_comes_after_the_end_begins_another_recording(tmp_path: Path) -> None:
    join_recording(tmp_path, request(0, now=10))
    assert join_recording(tmp_path, request(1, now=17)).run.name == "2027_01_15_12_00_01"


@pytest.mark.parametrize("seconds", [-50, 59, 119])
def test_clocks_and_ranks_may_differ_by_a_minute(tmp_path: Path, clock: list[float], seconds: float) -> None:
    first = join_recording(tmp_path, request(0, now=10))
    clock[0] += seconds
    assert join_recording(tmp_path, request(1, now=10)).run == first.run


def test_a_job_that_is_started_later_gets_a_folder_of_its_own(tmp_path: Path, clock: list[float]) -> None:
    first = join_recording(tmp_path, request(0, now=10))
    clock[0] += 180
    assert join_recording(tmp_path, request(1, now=10)).run != first.run


def test_a_finished_file_is_never_overwritten(tmp_path: Path) -> None:
    runs = []
    for now in (0, 10, 10):
        recording = join_recording(tmp_path, request(0, now))
        finish(recording)
        assert recording.file.is_file()
        assert not recording.partial.exists()
        runs.append(recording.run.name)
    assert runs == ["2027_01_15_12_00_00", "2027_01_15_12_00_01", "2027_01_15_12_00_02"]


def test_a_process_with_the_same_rank_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    assert join_recording(tmp_path, request(0, 5)).run != join_recording(tmp_path, request(0, 5)).run


def test_what_is_given_up_leaves_no_folder_unless_another_rank_uses_it(tmp_path: Path) -> None:
    first, second = (join_recording(tmp_path, request(rank, 5)) for rank in range(2))
    first.discard()
    finish(second)
    assert [path.name for path in sorted(second.run.iterdir())] == [".first_step", "rank1.json"]
    third = join_recording(tmp_path, request(0, 20))
    third.discard()
    assert [path.name for path in second.run.parent.iterdir()] == [second.run.name]


def test_many_ranks_at_once_meet(tmp_path: Path) -> None:
    for turn in range(5):
        with ThreadPoolExecutor(16) as pool:
            asked = [request(rank, 100 * turn + rank % 2) for rank in range(16)]
            recordings = list(pool.map(lambda each: join_recording(tmp_path, each), asked))
        assert len({(each.run, each.first_step) for each in recordings}) == 1
        assert not list(recordings[0].run.parent.glob(".*"))


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("a file", encoding="ascii")
    with pytest.raises(NotADirectoryError):
        join_recording(tmp_path, request(0, 5))
