"""The recorder around a profiler that fails where a real one seldom does, and the steps that it asks a profiler for."""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import tracehound
from tracehound.errors import TracehoundError
from tracehound.recording import recorder as recorder_module
from tracehound.recording.recorder import Recorder, RecordingPlan
from tracehound.recording.step_profiler import Framework, Process, StepProfiler
from tracehound.recording.triggers import TouchedFile


class FakeProfiler:
    """A profiler that notes what is asked of it, and fails at one of its methods."""

    def __init__(self, folder: Path, asked: list[str], failing: str) -> None:
        self.folder, self.asked, self.failing = folder, asked, failing

    def _ask(self, what: str, method: str) -> None:
        self.asked.append(what)
        if method == self.failing:
            raise RuntimeError("the profiler\nis \x1b[31mbusy")

    def begin_step(self, step: int) -> None:
        self._ask(f"step {step}", "begin_step")

    def write_trace(self) -> Path:
        file = self.folder / "file"
        file.write_text("half a tra", encoding="ascii")
        self._ask("write", "write_trace")
        return file

    def abandon(self) -> None:
        self._ask("abandon", "abandon")


class Job:
    """A recorder of a job with fake profilers, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs"
        self.asked: list[str] = []
        self.failing = ""

    def framework(self, rank: int = 0, ranks: int = 1) -> Framework:
        def make(folder: Path, first_step: int, _: object) -> StepProfiler:
            self.asked.append(f"first {first_step}")
            return FakeProfiler(folder, self.asked, self.failing)

        return Framework(lambda: Process(rank, ranks), "rank{}.json".format, make, {"known"}.__contains__)

    def recorder(self, *, findings: bool = False, **triggers: int | TouchedFile) -> Recorder:
        plan = RecordingPlan(self.folder, 2, 1, self.framework(), {}, findings)
        return Recorder(plan, **triggers)  # type: ignore[arg-type]

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file() or "partial" in path.name)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """A function that gives the lines that were logged."""
    caplog.set_level(logging.WARNING, "tracehound")
    return lambda: [record.getMessage() for record in caplog.records]


WHOLE = ["first 2", "step 1", "step 2", "step 3", "write"]
"""One recording of two steps after a step of waiting and one of warm-up."""


def test_the_steps_of_one_recording(job: Job) -> None:
    with job.recorder() as recorder:
        for _ in range(9):
            recorder.step()
    assert job.asked == WHOLE
    (run,) = recorder.recordings
    assert run.parent == job.folder / "plugins" / "profile"
    assert job.files() == [".first_step", "rank0.json"]


def test_step_is_a_callback_with_any_arguments(job: Job) -> None:
    recorder = job.recorder()
    for number in range(6):
        recorder.step(number, loss=0.1)
    assert job.asked == ["first 3", "step 2", "step 3", "step 4", "write"], "the first call ends the first step"


def test_a_loop_that_ends_early_leaves_the_steps_that_it_had(job: Job) -> None:
    with job.recorder() as recorder:
        for _ in range(3):
            recorder.step()
    assert job.asked == WHOLE
    assert job.files() == [".first_step", "rank0.json"]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_loop_that_ends_before_a_whole_step_says_so(job: Job, steps: int, logged: Callable[[], list[str]]) -> None:
    with job.recorder() as recorder:
        for _ in range(steps):
            recorder.step()
    assert logged() == [
        f"tracehound.record: nothing recorded: step() was called {steps} times before the end, needed were 4"
    ]
    assert job.asked == ([*WHOLE[: steps + 1], "abandon"] if steps else [])
    assert job.files() == []


def test_an_exception_of_the_loop_ends_it_and_the_recording(job: Job, logged: Callable[[], list[str]]) -> None:
    def train() -> None:
        with job.recorder() as recorder:
            for _ in range(3):
                recorder.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert job.asked == [*WHOLE[:-1], "abandon"]
    assert (job.files(), logged()) == ([], [])


@pytest.mark.parametrize(
    ("failing", "step", "asked"),
    [("begin_step", 1, ["first 2", "step 1", "abandon"]), ("write_trace", 4, [*WHOLE, "abandon"])],
)
def test_a_profiler_that_fails_costs_one_line(
    job: Job, failing: str, step: int, asked: list[str], logged: Callable[[], list[str]]
) -> None:
    job.failing = failing
    with job.recorder() as recorder:
        for _ in range(9):
            recorder.step()
    said = "RuntimeError: the profiler is \u241b[31mbusy"
    assert logged() == [f"tracehound.record: recording failed at step {step}: {said}; training goes on"]
    assert (job.asked, job.files(), recorder.recordings) == (asked, [], [])


def test_a_profiler_that_fails_while_the_recorder_closes_costs_one_line(
    job: Job, logged: Callable[[], list[str]]
) -> None:
    job.failing = "write_trace"
    with job.recorder() as recorder:
        for _ in range(3):
            recorder.step()
    assert len(logged()) == 1
    assert job.files() == []


def test_a_folder_that_cannot_be_made_costs_one_line(job: Job, logged: Callable[[], list[str]]) -> None:
    job.folder.write_text("a file", encoding="ascii")
    with job.recorder() as recorder:
        for _ in range(9):
            recorder.step()
    (line,) = logged()
    assert "recording failed at step 0: NotADirectoryError: " in line
    assert str(job.folder) in line
    assert job.asked == []


def test_a_signal_starts_a_recording_each_time(job: Job) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with job.recorder(on_signal=signal.SIGUSR1) as recorder:
        for step in range(16):
            if step in (2, 9):
                signal.raise_signal(signal.SIGUSR1)
            recorder.step()
    again = ["first 5", "step 4", "step 5", "step 6", "write", "first 12", "step 11", "step 12", "step 13", "write"]
    assert job.asked == again
    assert len(set(recorder.recordings)) == 2
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_touched_file_starts_a_recording_after_the_one_that_runs(job: Job, tmp_path: Path) -> None:
    with job.recorder(on_file=TouchedFile(tmp_path / "go")) as recorder:
        for step in range(16):
            if step in (2, 5):
                (tmp_path / "go").write_text(str(step), encoding="ascii")
            recorder.step()
    assert job.asked[:5] == ["first 5", "step 4", "step 5", "step 6", "write"]
    assert job.asked[5:] == ["first 10", "step 9", "step 10", "step 11", "write"]


def test_a_failure_leaves_the_next_request_its_chance(job: Job, logged: Callable[[], list[str]]) -> None:
    job.failing = "begin_step"
    with job.recorder(on_signal=signal.SIGUSR1) as recorder:
        for step in range(16):
            if step in (2, 9):
                recorder.request_recording()
                job.failing = "begin_step" if step == 2 else ""
            recorder.step()
    assert len(logged()) == 1
    assert job.files() == [".first_step", "rank0.json"]


def test_another_thread_gets_no_signal_and_is_told(job: Job, logged: Callable[[], list[str]]) -> None:
    thread = threading.Thread(target=lambda: job.recorder(on_signal=signal.SIGUSR1).close())
    thread.start()
    thread.join()
    assert logged() == [
        "tracehound.record: signal 10 starts no recording; call record() in the main thread, or give on_file"
    ]


def test_findings_that_cannot_start_cost_one_line(
    job: Job, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], list[str]]
) -> None:
    def fail(run: Path, names: list[str]) -> subprocess.Popen[bytes]:
        raise OSError(f"no process for {names} in {run.name}")

    monkeypatch.setattr(recorder_module, "start_findings", fail)
    with job.recorder(findings=True) as recorder:
        for _ in range(9):
            recorder.step()
    (run,) = recorder.recordings
    assert logged() == [
        f"tracehound.record: no findings of {run}: OSError: no process for ['rank0.json'] in {run.name}"
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"steps": 0}, "steps=0, wait=2; record one step or more"),
        ({"wait": -1}, "steps=3, wait=-1"),
        ({"folder": "gs://bucket/traces"}, "gs://bucket/traces is no local folder; copy it afterwards"),
        ({"framework": "keras"}, "unknown framework 'keras'; give framework='torch' or 'jax'"),
        ({"on_signal": signal.SIGKILL}, "signal 9 cannot be handled; give on_signal=signal.SIGUSR1"),
    ],
)
def test_arguments_that_cannot_be_used_are_errors_at_once(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(TracehoundError) as caught:
        tracehound.record(**{"framework": "torch", **arguments})  # type: ignore[arg-type]
    assert said in str(caught.value)
