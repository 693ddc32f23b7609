"""What reading may use: worker processes, and somewhere to keep what was read.

Owns the choice of that place: the cache, else a folder for temporary files, else memory. A place that fails is not
tried again. Knows no format and no order of reading.
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
from tracehound.store.cache import Cache, temporary
from tracehound.store.pool import Pool

_EXPECTED: Final = (
    TracehoundError, BrokenPipeError, BrokenExecutor, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit,
)  # fmt: skip
"""What ends a run and is no sign of damaged events. What polars raises for those is of any kind, panics among them."""


class Workshop(Struct):
    """A context in which files are read.

    `places` are tried in order; `troubles` says what was wrong with those that failed.
    """

    pool: Pool = field(default_factory=lambda: Pool(1))
    places: list[Callable[[], Cache]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    _cache: Cache | None = None
    _opened: list[Cache] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Nothing is started before it is needed."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the workers and give up the places.

        Raises TracehoundError instead of an error that comes of an entry damaged while it was in use.
        """
        damaged = self._damaged(error)
        self.close()
        if damaged:
            why = "what the cache held of it was damaged, and is removed"
            raise TracehoundError(why, damaged[0], remedy="run again to read the file anew") from error

    @property
    def cache(self) -> Cache | None:
        """The first place that works; None where there is none, and everything stays in memory."""
        while self._cache is None and self.places:
            try:
                self._cache = self.places[0]()
            except OSError as error:
                self._leave(error)
            else:
                self._opened.append(self._cache)
        return self._cache

    def give_up(self, failed: Cache, error: OSError) -> None:
        """A place does not work: where it is the one in use, the next is taken from now on.

        What several files were being read into when it failed fails for each of them.
        """
        if failed is self._cache:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        where = f" ({error.filename})" if error.filename else ""
        self.troubles.append(f"{(error.strerror or str(error)).lower()}{where}")
        self._cache = None
        del self.places[:1]

    def _damaged(self, error: BaseException | None) -> list[Path]:
        """The files whose entries may be what a computation failed on."""
        if error is None or isinstance(error, _EXPECTED):
            return []
        with suppress(OSError):
            return [path for cache in self._opened for path in cache.distrust()]
        return []

    def close(self) -> None:
        """End the workers at once; what they were making is removed."""
        self.pool.close()
        for cache in self._opened:
            with suppress(OSError):
                cache.close()
        self._opened.clear()
        self._cache = None
        self.places.clear()


def workshop(jobs: int, cache: Callable[[], Cache] | None) -> Workshop:
    """Workers, the cache where one is wanted, and a folder for temporary files where it is not or fails."""
    return Workshop(Pool(jobs), [*([cache] if cache else []), temporary])


def in_memory() -> Workshop:
    """Nothing but this process."""
    return Workshop()
