"""How far the reading of many files has come.

Owns the adding up. Knows no face: who listens says it in words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field


class Reading(Struct, frozen=True):
    """How far the reading has come.

    `path` is a file that is being read, `done` of `files` are read; of the `size` bytes of all of them `read` are, and
    held `events`; `seconds` have passed. `running` has bytes and events of each file that is being read.
    """

    path: Path
    done: int
    files: int
    read: int
    size: int
    events: int
    seconds: float
    running: Mapping[Path, tuple[int, int]] = field(default_factory=dict)

    @property
    def left(self) -> float | None:
        """Seconds that the rest will take, if it goes on like this; None where that cannot be told yet."""
        if self.seconds < 1 or not self.read:
            return None
        return self.seconds * max(0, self.size - self.read) / self.read


Listener = Callable[[Reading], None]


def ignore(reading: Reading) -> None:
    """A `Listener` that does nothing."""


class Count(Struct):
    """Adds up what several files tell, and tells it on. `size` is the bytes of all `files`."""

    files: int
    size: int
    listen: Listener
    _started: float = field(default_factory=time.monotonic)
    _done: int = 0
    _read: int = 0
    _events: int = 0
    _running: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def tell(self, path: Path, read: int, events: int) -> None:
        """So many bytes of a file were read, and so many events found in it."""
        self._running[path] = (read, events)
        self.listen(
            Reading(
                path=path,
                done=self._done,
                files=self.files,
                read=self._read + sum(read for read, _ in self._running.values()),
                size=self.size,
                events=self._events + sum(events for _, events in self._running.values()),
                seconds=time.monotonic() - self._started,
                running=dict(self._running),
            )
        )

    def finish(self, path: Path, size: int, events: int) -> None:
        """A file was read, or given up."""
        self._running.pop(path, None)
        self._done += 1
        self._read += size
        self._events += events
