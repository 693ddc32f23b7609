"""Presses keys in a program that runs in a pseudo-terminal, and says what each key causes: bytes, and until when.

Owns the terminal's side. Knows no program and no meaning of a key. The bytes are read as they come and only counted:
nothing here takes the time of the program that is measured.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pexpect

TICK = 0.02
"""Seconds between two looks at whether the program still works."""

QUIET = 0.15
"""Seconds without a byte and without work after which a key has caused all that it causes."""

WORK = 0.2
"""A program that uses no more of a processor than this part is at rest: an idle one only looks for keys."""

PATIENCE = 120.0
"""Seconds after which what a key causes is taken to be over, though the program still works."""


@dataclass(frozen=True)
class Effect:
    """What a key caused: seconds until the last byte of it, bytes, and seconds that the drawing thread worked."""

    seconds: float
    sent: int
    work: float


class Terminal:
    """Runs a command in a pseudo-terminal of a size; nothing else reads what it writes."""

    def __init__(self, command: Sequence[str], columns: int, rows: int, environment: dict[str, str]) -> None:
        program, *arguments = command
        self._child = pexpect.spawn(program, arguments, dimensions=(rows, columns), env=environment)
        self._tasks = Path(f"/proc/{self._child.pid}/task")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._child.close(force=True)

    def press(self, key: str) -> Effect:
        """Press a key and wait until it has caused all that it causes."""
        before, began = self._worked(self._child.pid), time.perf_counter()
        os.write(self._child.child_fd, key.encode())
        last, sent = self._until_quiet(began, QUIET)
        return Effect(last - began, sent, self._worked(self._child.pid) - before)

    def settle(self, quiet: float = QUIET) -> int:
        """Wait until it is at rest for so many seconds; the bytes that it wrote meanwhile."""
        return self._until_quiet(time.perf_counter(), quiet)[1]

    def watch(self, seconds: float) -> int:
        """The bytes that it writes in so many seconds."""
        ends, sent = time.perf_counter() + seconds, 0
        while (left := ends - time.perf_counter()) > 0:
            sent += len(self._read(left))
        return sent

    def _until_quiet(self, began: float, quiet: float) -> tuple[float, int]:
        """When the last byte came (`began`, if none did), and how many there were."""
        last = rested = looked = began
        sent, worked = 0, self._all_worked()
        while (now := time.perf_counter()) - max(last, rested) < quiet and now - began < PATIENCE:
            data = self._read(TICK)
            now = time.perf_counter()
            if data:
                last, sent = now, sent + len(data)
            if now - looked >= TICK:
                before, worked = worked, self._all_worked()
                if worked - before > WORK * (now - looked) or self._waits():
                    rested = now
                looked = now
        return last, sent

    def _read(self, seconds: float) -> bytes:
        """What it writes next; nothing when it is silent for so long, or has ended."""
        if select.select([self._child.child_fd], [], [], seconds)[0]:
            with suppress(OSError):
                return os.read(self._child.child_fd, 1 << 16)
        return b""

    def _all_worked(self) -> float:
        """Seconds that its threads were on a processor; 0 where the system does not tell."""
        return sum(map(self._worked, self._threads()))

    def _worked(self, thread: int) -> float:
        return int(self._told(thread, "schedstat").split()[0]) / 1e9

    def _waits(self) -> bool:
        """Whether one of its threads would work if others left it a processor."""
        return any(self._told(thread, "stat").rpartition(")")[2].split()[:1] == ["R"] for thread in self._threads())

    def _threads(self) -> list[int]:
        with suppress(OSError):
            return [int(task.name) for task in self._tasks.iterdir()]
        return []

    def _told(self, thread: int, name: str) -> str:
        """What the system tells of a thread; nothing of one that has ended."""
        with suppress(OSError):
            return (self._tasks / str(thread) / name).read_text() or "0"
        return "0"
