"""Kineto's configuration for an on-demand trace, and the wait for its files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dynolog_daemon import KinetoConfig
from tracehound.capture import kineto_files
from tracehound.capture.kineto_files import (
    KinetoRequest,
    TraceWatch,
    WaitLimits,
    kineto_config,
    process_file,
    refuse_folder,
    wait_for_traces,
    watch_traces,
)
from tracehound.errors import TracehoundError

WHOLE = '{"traceEvents": [{"name": "a"}\n  ],"traceName": "x" }'
PID = 2**31 - 1
"""A number that no process of this machine has."""


@pytest.fixture(autouse=True)
def default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Kineto's default files, in place of /tmp."""
    folder = tmp_path / "default"
    folder.mkdir()
    monkeypatch.setattr(kineto_files, "default_process_file", lambda pid: folder / f"libkineto_activities_{pid}.json")
    monkeypatch.setattr(kineto_files, "POLL_SECONDS", 0.01)
    return folder


def watch(folder: Path, *, is_local: bool = False, pid: int = PID) -> TraceWatch:
    (found,) = watch_traces(folder / "x.json", [pid], is_local=is_local)
    return found


def test_a_duration_in_the_words_of_kineto():
    request = KinetoRequest(Path("/traces/x.json"), 2000, start_ms=1_795_946_895_531, details=("shapes", "stacks"))
    assert KinetoConfig.parse(kineto_config(request)).values == {
        "ACTIVITIES_LOG_FILE": "/traces/x.json",
        "ACTIVITIES_DURATION_MSECS": "2000",
        "PROFILE_START_TIME": "1795946895531",
        "PROFILE_REPORT_INPUT_SHAPES": "true",
        "PROFILE_WITH_STACK": "true",
        "PROFILE_PROFILE_MEMORY": "false",
        "PROFILE_WITH_FLOPS": "false",
        "PROFILE_WITH_MODULES": "false",
    }


def test_iterations_in_the_words_of_kineto():
    """The duration is for processes without iterations."""
    values = KinetoConfig.parse(kineto_config(KinetoRequest(Path("/traces/x.json"), 2000, iterations=3))).values
    assert "PROFILE_START_TIME" not in values
    assert values["ACTIVITIES_DURATION_MSECS"] == "2000"
    assert values["ACTIVITIES_ITERATIONS"] == "3"
    assert values["PROFILE_START_ITERATION"] == "0"
    assert values["PROFILE_START_ITERATION_ROUNDUP"] == "1"


@pytest.mark.parametrize("name", ["/a=b", "/a#b", "/a\nb", "/a\x1b[2J", "/runs.json/a", "/a ", "/\udcff"])
def test_a_folder_that_kineto_would_misread_is_refused(name: str):
    with pytest.raises(TracehoundError) as caught:
        refuse_folder(Path(name))
    assert str(caught.value).isprintable()
    assert str(caught.value).endswith("; name another LOGDIR")


@pytest.mark.parametrize("name", ["/data", "/home/a b/it's", "/d\u00e4ta/json"])
def test_other_folders_are_accepted(name: str):
    refuse_folder(Path(name))
    config = KinetoConfig.parse(kineto_config(KinetoRequest(Path(name, "x.json"), 1)))
    assert config.file(7) == process_file(Path(name, "x.json"), 7)


def test_a_trace_grows_is_renamed_and_rests(tmp_path: Path):
    seen = watch(tmp_path)
    seen.update(0)
    assert (seen.state, seen.path) == ("absent", None)
    temporary = tmp_path / f"x_{PID}.json.tmp"
    temporary.touch()
    seen.update(1)
    assert (seen.state, seen.path) == ("recording", None)
    temporary.write_text(WHOLE[:-1])
    seen.update(2)
    assert seen.state == "recording"
    temporary.write_text(WHOLE)
    temporary.rename(tmp_path / f"x_{PID}.json")
    seen.update(3)
    assert seen.state == "recording"
    seen.update(3.5)
    assert seen.state == "recording"
    seen.update(4)
    assert (seen.state, seen.path) == ("complete", tmp_path / f"x_{PID}.json")


def test_a_trace_that_is_written_in_place_is_complete_when_it_ends_like_json(tmp_path: Path):
    seen, path = watch(tmp_path), tmp_path / f"x_{PID}.json"
    for now, end in ((0, 0), (10, 20), (20, -1)):
        path.write_text(WHOLE[:end])
        seen.update(now)
        seen.update(now + 5)
        assert seen.state == "recording"
    path.write_text(f"{WHOLE}\n")
    seen.update(30)
    assert seen.state == "recording"
    seen.update(31)
    assert seen.state == "complete"


def test_a_trace_that_is_there_before_anyone_looks_counts(tmp_path: Path):
    """A process may answer a request before the daemon's reply is read."""
    path = tmp_path / f"x_{PID}.json"
    path.write_text(WHOLE)
    seen = watch(tmp_path)
    seen.update(0)
    seen.update(1)
    assert (seen.state, seen.path) == ("complete", path)


def test_a_trace_in_the_default_folder_is_found(tmp_path: Path, default_folder: Path):
    path = default_folder / f"libkineto_activities_{PID}.json"
    path.write_text(WHOLE)
    seen = watch(tmp_path)
    seen.update(0)
    seen.update(5)
    assert seen.state == "absent", "it is of an earlier request"
    Path(f"{path}.tmp").touch()
    seen.update(6)
    assert seen.state == "recording"
    Path(f"{path}.tmp").write_text(WHOLE)
    Path(f"{path}.tmp").rename(path)
    seen.update(7)
    seen.update(8)
    assert (seen.state, seen.path) == ("complete", path)


def test_a_pipe_is_no_trace(tmp_path: Path):
    os.mkfifo(tmp_path / f"x_{PID}.json")
    seen = watch(tmp_path)
    seen.update(0)
    assert seen.state == "absent"


def test_a_process_ends_before_its_trace_is_written(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        seen = watch(tmp_path, is_local=True, pid=process.pid)
        Path(tmp_path, f"x_{process.pid}.json.tmp").touch()
        seen.update(0)
        assert seen.state == "recording"
        process.communicate(b"\n")
    seen.update(1)
    assert seen.state == "ended"


@pytest.mark.parametrize(("text", "state"), [(WHOLE, "complete"), (WHOLE[:20], "ended")])
def test_a_process_ends_as_soon_as_it_has_written(tmp_path: Path, text: str, state: str):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        seen = watch(tmp_path, is_local=True, pid=process.pid)
        Path(tmp_path, f"x_{process.pid}.json").write_text(text)
        process.communicate(b"\n")
    seen.update(0)
    assert seen.state == "recording"
    seen.update(5)
    assert seen.state == state


def test_a_number_that_is_no_process_here_cannot_end(tmp_path: Path):
    """A container numbers its processes itself."""
    seen = watch(tmp_path, is_local=True)
    seen.update(0)
    assert seen.state == "absent"


def wait(watches: Sequence[TraceWatch], sign: float, end: float) -> list[float]:
    """The times at which the listener was called, s."""
    waited = list[float]()
    wait_for_traces(watches, WaitLimits(sign, end), lambda seconds, _: waited.append(seconds))
    return waited


def test_the_wait_ends_when_nothing_begins(tmp_path: Path):
    seen = watch(tmp_path)
    assert wait([seen], sign=0.1, end=1000)[-1] <= 0.1
    assert seen.state == "absent"


def test_the_wait_goes_on_while_one_records(tmp_path: Path):
    watches = watch_traces(tmp_path / "x.json", [PID, PID - 1], is_local=False)
    Path(tmp_path / f"x_{PID}.json.tmp").touch()
    assert wait(watches, sign=0.05, end=0.3)[-1] > 0.05
    assert [each.state for each in watches] == ["recording", "absent"]


def test_the_wait_for_another_ends_once_one_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kineto_files, "UNCHANGED_SECONDS", 0.05)
    watches = watch_traces(tmp_path / "x.json", [PID, PID - 1], is_local=False)
    Path(tmp_path / f"x_{PID}.json").write_text(WHOLE)
    wait(watches, sign=0.2, end=1000)
    assert [each.state for each in watches] == ["complete", "absent"]
