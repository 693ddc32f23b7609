"""The worker processes of a run: how many, started when first needed, ended with the process that started them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import redirect_stderr, suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from tracehound.system.stop_signals import restore_default_signals

if TYPE_CHECKING:
    from tracehound.store.worker_processes import WorkerExecutor

MAX_DEFAULT_JOBS: Final = 8
"""This many workers keep a disk busy; `--jobs` allows more."""

_WORKER_NICE: Final = 5
"""The niceness of a worker, so that the explorer stays responsive."""


def count_cores() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs() -> int:
    """Default number of workers."""
    return min(count_cores(), MAX_DEFAULT_JOBS)


class WorkerPool(Struct):
    """At most `jobs` worker processes; with one job there are none and `executor` is None."""

    jobs: int
    _executor: WorkerExecutor | None = None

    @property
    def started(self) -> bool:
        """True if there are workers already."""
        return self._executor is not None

    def start(self) -> None:
        """Start the workers, if there are any, before they are needed: they start faster now."""
        if (workers := self.executor) is not None:
            workers.start()

    @property
    def executor(self) -> WorkerExecutor | None:
        """The workers as an Executor, started on first use; None with one job."""
        if self.jobs < 2:
            return None
        if self._executor is None:
            # Imported only to start processes: runs without workers start faster.
            from multiprocessing import resource_tracker  # noqa: PLC0415

            from tracehound.store.worker_processes import WorkerExecutor  # noqa: PLC0415

            with redirect_stderr(sys.__stderr__):  # the explorer's stderr has no file descriptor to inherit
                resource_tracker.ensure_running()
            self._executor = WorkerExecutor(self.jobs, _set_up_worker)
        return self._executor

    def close(self) -> None:
        """Kill the workers at once."""
        if self._executor is not None:
            self._executor.kill()
            self._executor = None


def _set_up_worker() -> None:
    """Set up a worker: low priority, default signals, and its end with the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    restore_default_signals()
    with suppress(OSError):
        os.nice(_WORKER_NICE)
    threading.Thread(target=_exit_with_parent, name="tracehound watch", daemon=True).start()


def _exit_with_parent() -> None:
    import multiprocessing  # noqa: PLC0415, a worker has it anyway

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
