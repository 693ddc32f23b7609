"""An on-demand capture of the PyTorch processes of a machine: dynolog triggers them, then their files are collected.

Kineto creates no folders, and the machine may be another one. So the processes write into a folder that exists there,
and what they have completed is moved into the folder of the run, if this machine sees it.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from tracehound.capture.capture_files import PROFILE_MODE, RunFolder, folder_error
from tracehound.capture.dynolog import MatchedProcesses, ProcessFilter, match_processes, trigger_processes
from tracehound.capture.kineto_files import (
    COMMON_START_SECONDS,
    KinetoRequest,
    TraceWatch,
    WaitLimits,
    WaitListener,
    kineto_config,
    refuse_folder,
    wait_for_traces,
    watch_traces,
)
from tracehound.capture.server_address import ServerAddress
from tracehound.system.atomic_file import atomic_write

SIGN_SECONDS: Final = 10.0
"""A process of which no file is seen so many seconds after the end of the capture writes to another disk."""

ITERATION_SIGN_SECONDS: Final = 120.0
"""The same, from the request, where iterations are recorded: the next one begins at an unknown time."""

WRITING_SECONDS: Final = 300.0
"""The default limit for writing the files, which takes minutes after a long capture of a large model."""


class OnDemandPlan(Struct, frozen=True):
    """The processes to capture, by which daemon, the folder for them to write into, and for how long.

    Iterations, if not 0, come before the duration. `timeout_s` limits the wait for the files; 0 for the default.
    """

    address: ServerAddress
    folder: Path
    duration_ms: int
    iterations: int = 0
    processes: ProcessFilter = ProcessFilter()
    details: Collection[str] = ()
    timeout_s: float = 0.0

    @property
    def limits(self) -> WaitLimits:
        """The longest waits for the files."""
        end = COMMON_START_SECONDS + self.duration_ms / 1000
        sign = ITERATION_SIGN_SECONDS if self.iterations else end + SIGN_SECONDS
        return WaitLimits(sign, self.timeout_s or end + WRITING_SECONDS)


class TriggeredTraces(Struct, frozen=True):
    """A capture under way: the answer of the daemon, the files that are to come, and the wall clock of the start.

    `start_s` is in seconds since 1970; 0 if each process begins when it can.
    """

    plan: OnDemandPlan
    found: MatchedProcesses
    watches: tuple[TraceWatch, ...]
    start_s: float = 0.0


class ProcessOutcome(Struct, frozen=True):
    """The trace of one process: the file, or the problem and what to do about it."""

    pid: int
    path: Path | None = None
    problem: str = ""


def count_processes(plan: OnDemandPlan) -> int:
    """The number of processes that a capture would reach. Raises TracehoundError if there are none."""
    refuse_folder(plan.folder)
    request = KinetoRequest(plan.folder / "unused.json", plan.duration_ms)
    return len(match_processes(plan.address, plan.processes, kineto_config(request)).matched)


def create_write_folder(folder: Path) -> None:
    """Create the folder for the processes to write into. Raises TracehoundError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise folder_error(folder, error) from error


def trigger_traces(plan: OnDemandPlan, processes: int) -> TriggeredTraces:
    """Let the processes record. Raises TracehoundError if all are busy.

    Several processes begin at one time, so that their traces cover the same steps.
    """
    file = plan.folder / f"{plan.address.file_stem}.{time.time_ns() // 10**6}.json"
    start_s = time.time() + COMMON_START_SECONDS if processes > 1 and not plan.iterations else 0.0
    request = KinetoRequest(file, plan.duration_ms, plan.iterations, int(start_s * 1000), plan.details)
    found = trigger_processes(plan.address, plan.processes, kineto_config(request))
    watches = watch_traces(file, found.triggered, is_local=plan.address.is_loopback)
    return TriggeredTraces(plan, found, tuple(watches), start_s)


def collect_traces(triggered: TriggeredTraces, run: RunFolder, listen: WaitListener) -> list[ProcessOutcome]:
    """Wait for the files of all processes and move them into the folder of the run; an outcome for each, in order."""
    limits = triggered.plan.limits
    wait_for_traces(triggered.watches, limits, listen)
    return [_collect_trace(watch, triggered.plan, limits, run) for watch in triggered.watches]


def expected_paths(watches: Sequence[TraceWatch]) -> list[Path]:
    """The files that the processes are to write, those that are there under the names that they have."""
    return [watch.path or watch.paths[0] for watch in watches]


def _collect_trace(watch: TraceWatch, plan: OnDemandPlan, limits: WaitLimits, run: RunFolder) -> ProcessOutcome:
    """The outcome of a process whose trace is no longer waited for."""
    path = watch.path or watch.paths[0]
    if watch.state == "complete":
        return ProcessOutcome(watch.pid, _move_file(path, run.path / f"{plan.address.file_stem}_{watch.pid}.json"))
    if watch.state == "ended":
        problem = "it ended before its trace was written"
    elif watch.state == "recording":
        problem = f"still not written after {limits.end:,.0f} s: {path}; give it more time (--timeout 600s)"
    elif plan.address.is_loopback:
        problem = (
            f"no trace after {min(limits.sign, limits.end):,.0f} s: another profile may run there, or it cannot write"
            f" {path} (not allowed to, or on another disk: a container, a tunnel)"
        )
    else:
        wanted, default = watch.paths
        place = f"{plan.address.host}:{wanted}"
        if default.parent not in wanted.parents:
            place += f" (newer versions of PyTorch: {default})"
        remedy = "copy it from there, or name a LOGDIR on a disk that both machines share"
        problem = f"the job wrote it on its own machine: {place}; {remedy}"
    return ProcessOutcome(watch.pid, problem=problem)


def _move_file(source: Path, target: Path) -> Path:
    """Move a complete trace, also to another disk; returns where it is: `source` if it cannot be moved."""
    try:
        try:
            source.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with source.open("rb") as original, atomic_write(target, PROFILE_MODE) as copy:
                shutil.copyfileobj(original, copy)
            source.unlink()
    except OSError:
        return target if target.exists() else source
    with suppress(OSError):
        target.chmod(PROFILE_MODE)
    return target
