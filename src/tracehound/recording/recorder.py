"""The recorder of a training loop: counts steps, starts and ends recordings, and keeps their errors from the loop."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from tracehound.errors import TracehoundError, printable
from tracehound.recording.findings_process import start_findings
from tracehound.recording.run_folder import Recording, Request, join_recording
from tracehound.recording.step_profiler import Framework, Options, StepProfiler, find_framework
from tracehound.recording.triggers import SignalWatch, TouchedFile

_LOGGER: Final = logging.getLogger("tracehound")


def record(
    folder: str | os.PathLike[str] = "traces",
    *,
    steps: int = 3,
    wait: int = 2,
    on_signal: int | None = None,
    on_file: str | os.PathLike[str] | None = None,
    findings: bool = False,
    framework: str | None = None,
    options: Options | None = None,
) -> Recorder:
    """A recorder for the training loop of this process, which calls `Recorder.step` at the end of each step.

    It records `steps` whole steps into a new folder below `folder`, one file for each rank; ``tracehound FOLDER`` opens
    them. `wait` steps pass before that, and one more, in which the profiler warms up.

    With `on_signal` (``signal.SIGUSR1``) or `on_file` (a path) nothing is recorded until the signal arrives or the file
    is touched; each time makes another recording. With `findings` the process of rank 0 starts a process that writes
    ``findings.txt`` beside the files. `framework` is ``"torch"`` or ``"jax"``, by default the one that is imported.
    `options` are more settings of its profiler: arguments of ``torch.profiler.profile`` or attributes of
    ``jax.profiler.ProfileOptions``.

    Raises TracehoundError if an argument cannot be used. Later errors never reach the training loop: they are logged,
    in one line.
    """
    if steps < 1 or wait < 0:
        raise TracehoundError(f"tracehound.record: steps={steps}, wait={wait}", remedy="record one step or more")
    if "://" in os.fspath(folder):
        raise TracehoundError(f"tracehound.record: {os.fspath(folder)} is no local folder", remedy="copy it afterwards")
    plan = RecordingPlan(Path(folder), steps, wait, find_framework(framework), options or {}, findings)
    for name in plan.options:
        if not plan.framework.has_option(name):
            raise TracehoundError(f"tracehound.record: the profiler has no option {name!r}", remedy="check the name")
    return Recorder(plan, on_signal, None if on_file is None else TouchedFile(Path(on_file)))


class RecordingPlan(NamedTuple):
    """The arguments of `record` about each recording, checked."""

    folder: Path
    steps: int
    wait: int
    framework: Framework
    options: Options
    findings: bool


class Recorder:
    """The recorder that `record` makes: a context around a training loop, or an object whose `step` is called back."""

    def __init__(self, plan: RecordingPlan, on_signal: int | None = None, on_file: TouchedFile | None = None) -> None:
        self.recordings: list[Path] = []
        """The folders of the finished recordings."""
        self._plan = plan
        self._step = 0
        self._requested = on_signal is None and on_file is None
        self._file = on_file
        self._signal = None if on_signal is None else _watch_signal(on_signal, self.request_recording)
        self._recording: Recording | None = None
        self._profiler: StepProfiler | None = None
        self._findings_process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Begin the first step."""
        self._begin_step()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the recorder; if the loop has raised an exception, drop the recording that it interrupts."""
        if kind is not None:
            self._abandon_recording()
        self.close()

    def request_recording(self) -> None:
        """Ask for a recording, which begins after the waiting steps; during a recording, for another one after it."""
        self._requested = True

    def step(self, *_: object, **__: object) -> None:
        """End one step of the training loop and begin the next. Takes any arguments, as a callback may get some."""
        self._step += 1
        self._begin_step()

    def close(self) -> None:
        """End a recording that still runs, with the steps that it has; wait for no signal and no file any more."""
        recording = self._recording
        if recording is not None and self._step > recording.first_step:
            self._finish_recording(recording)
        elif recording is not None:
            self._abandon_recording()
            text = "tracehound.record: nothing recorded: step() was called %d times before the end, needed were %d"
            _LOGGER.warning(text, self._step, recording.end_step)
        self._requested, self._file = False, None
        if self._signal is not None:
            self._signal.restore()
            self._signal = None

    def _begin_step(self) -> None:
        """Do what is due before the step with the number `self._step`."""
        if self._findings_process is not None and self._findings_process.poll() is not None:
            self._findings_process = None
        recording = self._recording
        if recording is None:
            if self._requested or (self._file is not None and self._file.was_touched()):
                self._begin_recording()
        elif self._step >= recording.end_step:
            self._finish_recording(recording)
        elif self._step >= recording.first_step - 1:
            self._record_step(recording)

    def _begin_recording(self) -> None:
        """Agree with the other ranks on the folder and the first step, which may be the next one."""
        self._requested = False
        framework, step = self._plan.framework, self._step
        try:
            name = framework.file_name(framework.read_process().rank)
            request = Request(name, step, step + self._plan.wait + 1, self._plan.steps)
            recording = self._recording = join_recording(self._plan.folder, request)
        except Exception as error:  # noqa: BLE001, whatever it is, training goes on
            self._report_failure(error)
            return
        if step == recording.first_step - 1:
            self._record_step(recording)

    def _record_step(self, recording: Recording) -> None:
        """Let the profiler begin a step."""
        try:
            if self._profiler is None:
                make_profiler = self._plan.framework.make_profiler
                self._profiler = make_profiler(recording.partial, recording.first_step, self._plan.options)
            self._profiler.begin_step(self._step)
        except Exception as error:  # noqa: BLE001, whatever a profiler raises, training goes on
            self._report_failure(error)

    def _finish_recording(self, recording: Recording) -> None:
        """Write the file, and start the process of the findings."""
        recorded = self._step - recording.first_step
        try:
            assert self._profiler is not None  # noqa: S101, for the type checker
            recording.publish(self._profiler.write_trace())
            self._recording = self._profiler = None
            self.recordings.append(recording.run)
            _LOGGER.info("tracehound.record: %d steps recorded in %s", recorded, recording.run)
        except Exception as error:  # noqa: BLE001, whatever a profiler raises, training goes on
            self._report_failure(error)
            return
        if self._plan.findings:
            self._start_findings(recording.run)

    def _start_findings(self, run: Path) -> None:
        """Start the process of the findings, if this is the process of rank 0."""
        framework = self._plan.framework
        try:
            process = framework.read_process()
            if process.rank == 0:
                names = [framework.file_name(rank) for rank in range(process.ranks)]
                self._findings_process = start_findings(run, names)
        except Exception as error:  # noqa: BLE001, whatever it is, training goes on
            _LOGGER.warning("tracehound.record: no findings of %s: %s", run, _one_line(error))

    def _report_failure(self, error: Exception) -> None:
        """Log an error in one line, and end the recording."""
        self._abandon_recording()
        text = "tracehound.record: recording failed at step %d: %s; training goes on"
        _LOGGER.warning(text, self._step, _one_line(error))

    def _abandon_recording(self) -> None:
        """Stop the profiler and remove what it has written."""
        recording, profiler = self._recording, self._profiler
        self._recording = self._profiler = None
        if profiler is not None:
            with suppress(Exception):
                profiler.abandon()
        if recording is not None:
            with suppress(OSError):
                recording.discard()


_LONGEST_ERROR: Final = 400
"""Characters of an error that are logged."""


def _one_line(error: Exception) -> str:
    return printable(f"{type(error).__name__}: {error}")[:_LONGEST_ERROR]


def _watch_signal(number: int, on_arrival: Callable[[], None]) -> SignalWatch | None:
    """A watch for a signal; None, and a line in the log, outside of the main thread, where Python sets no handlers.

    Raises TracehoundError for a signal that cannot be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        text = "tracehound.record: signal %d starts no recording; call record() in the main thread, or give on_file"
        _LOGGER.warning(text, number)
        return None
    try:
        return SignalWatch(number, on_arrival)
    except (TypeError, ValueError, OSError) as error:
        remedy = "give on_signal=signal.SIGUSR1"
        raise TracehoundError(f"tracehound.record: signal {number} cannot be handled", remedy=remedy) from error
