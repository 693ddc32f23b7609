"""Worker processes behind an Executor that always notices their death.

Each worker has its own pipe, which closes when the worker dies: a waiting caller gets an error and the other workers go
on. `ProcessPoolExecutor` has one pipe and one lock for all results; if a worker is killed in the middle of a result,
the reader waits for the rest forever.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Final, ParamSpec, TypeVar

from msgspec import Struct

from tracehound.system.malloc import keep_freed_memory, return_free_memory

LONG_CALL_SECONDS: Final = 0.2
"""After a call of this many seconds a worker returns its free memory."""

P = ParamSpec("P")
T = TypeVar("T")


class _WorkerProcess(Struct, frozen=True):
    """A process, and this side of its pipe."""

    process: BaseProcess
    pipe: Connection

    def call(self, asked: bytes) -> bytes:
        """Send a request to the worker and wait for its answer. Raises BrokenExecutor if it dies."""
        try:
            self.pipe.send_bytes(asked)
            return self.pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise BrokenExecutor("a worker process was killed") from error

    def kill(self) -> None:
        """Kill the process if it lives, and close the pipe."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class WorkerExecutor(Executor):
    """At most `most` processes, started on first use; each calls `settle` first.

    A future whose worker was killed raises BrokenExecutor; another worker is started for the next call. Functions,
    arguments and results are pickled.
    """

    def __init__(self, most: int, settle: Callable[[], None]) -> None:
        self._most = most
        self._settle = settle
        self._threads = ThreadPoolExecutor(most, "tracehound worker")  # each waits for one worker
        self._free = SimpleQueue[_WorkerProcess | None]()  # one for each worker; None for one not started yet
        self._lock = threading.Lock()
        self._workers: list[_WorkerProcess] = []
        self._begun = self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a worker call the function."""
        self.start()
        return self._threads.submit(self._call, fn, *args, **kwargs)

    def start(self) -> None:
        """Start the workers: as forks of this process if possible, else each when it is needed."""
        with self._lock:
            begun, self._begun = self._begun, True
        if begun:
            return
        copies = _can_fork()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # Python's warning about threads: `_can_fork` has checked them
            for _ in range(self._most):
                self._free.put(self._fork_worker() if copies else None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002, Executor's
        """Accept no more calls. The workers end after their present calls, or with this process."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            for worker in self._workers:
                worker.kill()

    def kill(self) -> None:
        """Kill the workers at once."""
        with self._lock:
            self._ended = True
            for worker in self._workers:
                worker.process.kill()
        self.shutdown(cancel_futures=True)

    def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Let a free worker call the function."""
        asked = pickle.dumps((fn, args, kwargs))
        worker = self._free.get()
        try:
            worker = worker or self._start_worker(multiprocessing.get_context("spawn"))
            answer = worker.call(asked)
        except BrokenExecutor:
            worker = None
            raise
        finally:
            self._free.put(worker)
        done, result = pickle.loads(answer)  # noqa: S301, from our own process
        if not done:
            raise result
        return result  # type: ignore[no-any-return]

    def _fork_worker(self) -> _WorkerProcess | None:
        """A fork of this process; None if there is no memory for it now, then it is tried again when needed."""
        try:
            return self._start_worker(multiprocessing.get_context("fork"))
        except BrokenExecutor:
            return None

    def _start_worker(self, way: ForkContext | SpawnContext) -> _WorkerProcess:
        """Start another worker. Raises BrokenExecutor if that is impossible."""
        with self._lock:
            if self._ended:
                raise BrokenExecutor("the workers were ended")
            worker = _start_process(self._settle, way)
            self._workers.append(worker)
        return worker


_HARMLESS_THREADS: Final = ("jemalloc_bg_thd", "polars-ooc-clea")
"""Threads that polars starts when it is imported: the allocator's, which survives a fork, and one that cleans up."""


def _can_fork() -> bool:
    """True if a fork of this process works: it has one thread, so no other one would be missing in the fork.

    A lock that another thread holds would stay locked in the fork forever, and polars would lack the threads that it
    has started here. A fork is ready at once; a new process first imports for a third of a second.
    """
    try:
        threads = [(task / "comm").read_text("utf-8", "replace").strip() for task in Path("/proc/self/task").iterdir()]
    except OSError:
        return False
    return hasattr(os, "fork") and len([name for name in threads if name not in _HARMLESS_THREADS]) == 1


def _start_process(settle: Callable[[], None], way: ForkContext | SpawnContext) -> _WorkerProcess:
    ours, theirs = way.Pipe()
    with theirs:  # only the worker keeps it open
        process = way.Process(target=_serve_calls, args=(theirs, settle), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # or Ctrl-C hits it before `settle`
        try:
            process.start()
        except OSError as error:
            raise BrokenExecutor(f"no worker process can be started: {error}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return _WorkerProcess(process, ours)


def _serve_calls(pipe: Connection, settle: Callable[[], None]) -> None:
    """Answer requests, one after the other, until the pipe is closed."""
    settle()
    keep_freed_memory()
    with suppress(EOFError, OSError):
        while True:
            asked = pipe.recv_bytes()
            begun = monotonic()
            pipe.send_bytes(_answer_call(asked))
            if monotonic() - begun > LONG_CALL_SECONDS:
                return_free_memory()


def _answer_call(asked: bytes) -> bytes:
    """Call the requested function; returns pickled (True, result) or (False, error)."""
    try:
        fn, args, kwargs = pickle.loads(asked)  # noqa: S301, from the process that started this one
        return pickle.dumps((True, fn(*args, **kwargs)))
    except BaseException as error:  # noqa: BLE001, polars' panics are no Exception
        return pickle.dumps((False, _picklable_error(error)))


def _picklable_error(error: BaseException) -> BaseException:
    """The error, or a RuntimeError with its message if another process could not unpickle it."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301, our own
    except Exception:  # noqa: BLE001, whatever the error's class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
