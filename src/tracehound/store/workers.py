"""Worker processes that are called like an executor, and whose death is always noticed.

Owns the processes and the talk with them. Each has a pipe of its own, which ends when its worker does, whatever that
was doing: nobody waits for one that was killed, and the others go on. (`ProcessPoolExecutor` has one pipe and one lock
for the results of all. When a worker is killed in the middle of a result the pipe stays open, and who reads it waits
for the rest for ever.) Knows nothing of what they do.
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

from tracehound.heap import hold, release

LONG: Final = 0.2
"""Seconds of work after which a worker hands the memory that it took back."""

P = ParamSpec("P")
T = TypeVar("T")


class _Worker(Struct, frozen=True):
    """A process, and our end of its pipe."""

    process: BaseProcess
    line: Connection

    def answer(self, asked: bytes) -> bytes:
        """Have the worker do something, and wait. Raises BrokenExecutor when it dies."""
        try:
            self.line.send_bytes(asked)
            return self.line.recv_bytes()
        except (EOFError, OSError) as error:
            raise BrokenExecutor("a worker process was killed") from error

    def end(self) -> None:
        """Kill it, unless it is dead, and leave nothing of it."""
        self.process.kill()
        self.process.join()
        self.line.close()


class Workers(Executor):
    """At most so many processes, started when there is anything to do; `settle` is the first that each does.

    A future whose worker was killed raises BrokenExecutor; another worker is started when there is more to do.
    Functions, arguments and results are pickled.
    """

    def __init__(self, most: int, settle: Callable[[], None]) -> None:
        self._most = most
        self._settle = settle
        self._threads = ThreadPoolExecutor(most, "tracehound worker")  # each waits for one worker
        self._free = SimpleQueue[_Worker | None]()  # a place for each of them; None is one that is not started yet
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._begun = self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a worker call the function."""
        self.start()
        return self._threads.submit(self._call, fn, *args, **kwargs)

    def start(self) -> None:
        """Have the workers ready, unless they are: as copies of this process where that can be, else when needed."""
        with self._lock:
            begun, self._begun = self._begun, True
        if begun:
            return
        copies = _copyable()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's of threads: `_copyable` has looked at them
            for _ in range(self._most):
                self._free.put(self._copied() if copies else None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002, Executor's
        """Take no more work. The workers end when they have done theirs, or with this process."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            for worker in self._workers:
                worker.end()

    def kill(self) -> None:
        """End the workers at once, whatever they do."""
        with self._lock:
            self._ended = True
            for worker in self._workers:
                worker.process.kill()
        self.shutdown(cancel_futures=True)

    def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Have a free worker call the function."""
        asked = pickle.dumps((fn, args, kwargs))
        worker = self._free.get()
        try:
            worker = worker or self._started(multiprocessing.get_context("spawn"))
            answer = worker.answer(asked)
        except BrokenExecutor:
            worker = None
            raise
        finally:
            self._free.put(worker)
        done, result = pickle.loads(answer)  # noqa: S301, from our own process
        if not done:
            raise result
        return result  # type: ignore[no-any-return]

    def _copied(self) -> _Worker | None:
        """A copy of this process; None where there is no room for one now: then it is tried again when needed."""
        try:
            return self._started(multiprocessing.get_context("fork"))
        except BrokenExecutor:
            return None

    def _started(self, way: ForkContext | SpawnContext) -> _Worker:
        """Another worker. Raises BrokenExecutor when there can be none."""
        with self._lock:
            if self._ended:
                raise BrokenExecutor("the workers were ended")
            worker = _started(self._settle, way)
            self._workers.append(worker)
        return worker


_HARMLESS: Final = ("jemalloc_bg_thd", "polars-ooc-clea")
"""Threads that polars starts when it is imported: the allocator's, which knows of copies, and one that tidies up."""


def _copyable() -> bool:
    """Whether a copy of this process works: it has one thread, and those of no other would be missed in the copy.

    A lock that another thread holds stays locked in a copy for ever, and polars has no threads there if it has started
    them here. A copy is there at once; a new process first imports for a third of a second all that this one has.
    """
    try:
        threads = [(task / "comm").read_text("utf-8", "replace").strip() for task in Path("/proc/self/task").iterdir()]
    except OSError:
        return False
    return hasattr(os, "fork") and len([name for name in threads if name not in _HARMLESS]) == 1


def _started(settle: Callable[[], None], way: ForkContext | SpawnContext) -> _Worker:
    ours, theirs = way.Pipe()
    with theirs:  # which only the worker holds from now on
        process = way.Process(target=_serve, args=(theirs, settle), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # or Ctrl-C hits it before it can settle
        try:
            process.start()
        except OSError as error:
            raise BrokenExecutor(f"no worker process can be started: {error}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return _Worker(process, ours)


def _serve(line: Connection, settle: Callable[[], None]) -> None:
    """Do what is asked, one after the other, until nobody is there to ask."""
    settle()
    hold()
    with suppress(EOFError, OSError):
        while True:
            asked = line.recv_bytes()
            begun = monotonic()
            line.send_bytes(_answer(asked))
            if monotonic() - begun > LONG:
                release()


def _answer(asked: bytes) -> bytes:
    """Whether it was done, and the result or the error."""
    try:
        fn, args, kwargs = pickle.loads(asked)  # noqa: S301, from the process that started this one
        return pickle.dumps((True, fn(*args, **kwargs)))
    except BaseException as error:  # noqa: BLE001, polars' panics are no Exception
        return pickle.dumps((False, _portable(error)))


def _portable(error: BaseException) -> BaseException:
    """The error, or its words where another process could not make it again."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301, our own
    except Exception:  # noqa: BLE001, whatever the error's class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
