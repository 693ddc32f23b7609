"""The workers of a run: how many, started when first needed, and how they live beside who started them.

Knows nothing of what they do.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import redirect_stderr, suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from tracehound.stopping import as_usual

if TYPE_CHECKING:
    from tracehound.store.workers import Workers

MOST: Final = 8
"""So many workers are enough to keep a disk busy; `--jobs` asks for more."""

_NICE: Final = 5
"""How much a worker gives way to the explorer that waits for it."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs() -> int:
    """Workers when the user says nothing."""
    return min(cores(), MOST)


class Pool(Struct):
    """At most `jobs` worker processes; with one job there are none, and `executor` is None."""

    jobs: int
    _executor: Workers | None = None

    @property
    def started(self) -> bool:
        """Whether there are workers already."""
        return self._executor is not None

    def start(self) -> None:
        """Have the workers ready before there is anything to do, where there are any: they begin sooner now."""
        if (workers := self.executor) is not None:
            workers.start()

    @property
    def executor(self) -> Workers | None:
        """The workers, for `submit`."""
        if self.jobs < 2:
            return None
        if self._executor is None:
            # Imported by who starts processes: the others start sooner without.
            from multiprocessing import resource_tracker  # noqa: PLC0415

            from tracehound.store.workers import Workers  # noqa: PLC0415

            with redirect_stderr(sys.__stderr__):  # the explorer's own has no descriptor to hand on
                resource_tracker.ensure_running()
            self._executor = Workers(self.jobs, _begin)
        return self._executor

    def close(self) -> None:
        """End the workers at once, whatever they do."""
        if self._executor is not None:
            self._executor.kill()
            self._executor = None


def _begin() -> None:
    """Settle a worker: what it does matters less than the face, and it dies with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    as_usual()
    with suppress(OSError):
        os.nice(_NICE)
    threading.Thread(target=_die_with_parent, name="tracehound watch", daemon=True).start()


def _die_with_parent() -> None:
    import multiprocessing  # noqa: PLC0415, a worker has it anyway

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
