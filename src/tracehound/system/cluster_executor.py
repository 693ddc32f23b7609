"""Workers that may be on other machines: an Executor whose workers find, read and map files themselves.

Any Executor of `concurrent.futures` can be one: a process pool, MPI's, an adapter of Ray's.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")

_CALLS_PER_SLOT: Final = 2
"""Calls under way for each that runs: the next one lies ready when a worker is done."""


class ClusterExecutor(Executor):
    """Workers that share a file system or buckets with this process, but neither its memory nor its cache.

    `width` is the number of calls that run at once, `name` what messages call the workers.
    """

    def __init__(self, executor: Executor, width: int, name: str = "the workers") -> None:
        self.width = max(1, width)
        self.name = name
        self._executor = executor

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let any worker call the function."""
        return self._executor.submit(fn, *args, **kwargs)

    def submit_near(self, worker: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a worker call the function, if possible the one of this name, whose cache may hold what it needs."""
        del worker  # an Executor as such cannot choose
        return self.submit(fn, *args, **kwargs)

    def result(self, future: Future[T]) -> T:
        """The result of a call. Raises its error, and BrokenExecutor if its worker was killed."""
        return future.result()

    def run_all(
        self, calls: Iterable[tuple[K, Callable[[], Future[T]]]], listen: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[K, Future[T]]]:
        """Submit the calls, as many at a time as keep the workers busy; yields each when it is done, with its key.

        `listen` is called now and then and may raise, which cancels the calls that are left. Raises BrokenExecutor if
        the cluster is gone.
        """
        waiting, running = iter(calls), dict[Future[T], K]()
        try:
            while True:
                while len(running) < _CALLS_PER_SLOT * self.width and (call := next(waiting, None)) is not None:
                    running[call[1]()] = call[0]
                if not running:
                    return
                listen()
                self.check_alive()
                for future in wait(running, _POLL_SECONDS, FIRST_COMPLETED).done:
                    yield running.pop(future), future
        finally:
            for future in running:
                self.cancel(future)

    def check_alive(self) -> None:
        """Raise BrokenExecutor if the workers are gone for good."""

    def cancel(self, future: Future[Any]) -> None:
        """Cancel a call that nobody needs any more."""
        future.cancel()

    def close(self) -> None:
        """Leave the workers; the Executor that was given stays open."""


_POLL_SECONDS: Final = 0.1


def current_worker() -> str:
    """The name of the worker that runs this: its address in a Dask cluster, else the name of the machine."""
    if (dask := sys.modules.get("distributed")) is not None:
        try:
            return str(dask.get_worker().address)
        except ValueError:  # not in a worker
            pass
    return platform.node()
