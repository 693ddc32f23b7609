"""The resources of reading: worker processes, and a place for the frames of files.

The place is the cache, else a folder for temporary files, else memory. A place that fails is not tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec import Struct, field

from tracehound.errors import TracehoundError
from tracehound.store.trace_cache import TraceCache, open_temporary_cache
from tracehound.store.worker_pool import WorkerPool

_EXPECTED_ERRORS: Final = (
    TracehoundError, BrokenPipeError, BrokenExecutor, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit,
)  # fmt: skip
"""Errors that end a run and do not mean damaged events. Polars may raise anything for damaged events, even panics."""


class ReadContext(Struct):
    """A context in which files are read.

    `cache_openers` are tried in order; `failures` has the errors of those that failed.
    """

    pool: WorkerPool = field(default_factory=lambda: WorkerPool(1))
    cache_openers: list[Callable[[], TraceCache]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _cache: TraceCache | None = None
    _opened: list[TraceCache] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Starts nothing: workers and caches start on first use."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the workers and close the caches.

        Raises TracehoundError instead of an error that was caused by an entry damaged while it was in use.
        """
        damaged = self._damaged_files(error)
        self.close()
        if damaged:
            why = "what the cache held of it was damaged, and is removed"
            raise TracehoundError(why, damaged[0], remedy="run again to read the file anew") from error

    @property
    def cache(self) -> TraceCache | None:
        """The first cache that works; None if there is none, and everything stays in memory."""
        while self._cache is None and self.cache_openers:
            try:
                self._cache = self.cache_openers[0]()
            except OSError as error:
                self._drop_current(error)
            else:
                self._opened.append(self._cache)
        return self._cache

    def drop_cache(self, failed: TraceCache, error: OSError) -> None:
        """Give up a cache that failed; if it is the one in use, the next one is used from now on.

        All files that were being read into the failed cache fail.
        """
        if failed is self._cache:
            self._drop_current(error)

    def _drop_current(self, error: OSError) -> None:
        where = f" ({error.filename})" if error.filename else ""
        self.failures.append(f"{(error.strerror or str(error)).lower()}{where}")
        self._cache = None
        del self.cache_openers[:1]

    def _damaged_files(self, error: BaseException | None) -> list[Path]:
        """The files whose damaged entries may have caused the error."""
        if error is None or isinstance(error, _EXPECTED_ERRORS):
            return []
        with suppress(OSError):
            return [path for cache in self._opened for path in cache.remove_damaged()]
        return []

    def close(self) -> None:
        """Kill the workers; their unfinished entries are removed."""
        self.pool.close()
        for cache in self._opened:
            with suppress(OSError):
                cache.close()
        self._opened.clear()
        self._cache = None
        self.cache_openers.clear()


def make_read_context(jobs: int, cache: Callable[[], TraceCache] | None) -> ReadContext:
    """A context with workers, the cache if one is wanted, and a temporary folder as its replacement."""
    return ReadContext(WorkerPool(jobs), [*([cache] if cache else []), open_temporary_cache])


def make_memory_context() -> ReadContext:
    """A context without workers and caches."""
    return ReadContext()
