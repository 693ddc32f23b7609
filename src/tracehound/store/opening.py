"""A trace that is being opened: its files are known, their events are read when someone asks.

Owns the order of reading, its cancelling, and what happens when one file of many is bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracehound.errors import TracehoundError
from tracehound.formats import FORMATS
from tracehound.store.find import Found, find
from tracehound.store.place import place
from tracehound.trace import Note, Part, Trace


class CancelledError(Exception):
    """Reading was given up because nobody waits for it any more."""


@dataclass(frozen=True)
class Reading:
    """How far the reading has come: `file` of `files` (from 0), bytes of it read, events found in it."""

    file: int
    files: int
    path: Path
    read: int
    size: int
    events: int


Listener = Callable[[Reading], None]


def ignore(reading: Reading) -> None:
    """A `Listener` that does nothing."""


@dataclass
class Opening:
    """The files of one trace. Iterate `parts` to read them, one after the other.

    `notes` grows by what was wrong with files that could not be read at all.
    """

    name: str
    files: tuple[Found, ...]
    notes: list[Note] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all files on disk."""
        return sum(file.size for file in self.files)

    def parts(self, listen: Listener = ignore, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Part]:
        """Read file after file.

        A bad file is noted and passed over, unless no file could be read: then its error is raised. Ends early with
        CancelledError soon after `cancelled()` becomes true.
        """
        good, failure = 0, None
        for number, found in enumerate(self.files):

            def tell(read: int, events: int, number: int = number, found: Found = found) -> None:
                if cancelled():
                    raise CancelledError
                listen(Reading(number, len(self.files), found.path, read, found.size, events))

            try:
                tell(0, 0)
                part = found.format.read(found.path, tell)
            except TracehoundError as error:
                failure = error
                self.notes.append(Note("dropped", f"file not read: {error.message}", 1, str(found.path)))
                continue
            good += 1
            yield part
        if not good and failure is not None:
            raise failure


def open_paths(paths: Sequence[Path | str], run: str | None = None) -> Opening:
    """Find the files of the trace under `paths`; nothing is decoded yet.

    Raises TracehoundError when there is none.
    """
    named = [Path(path) for path in paths]
    found = find(named, run)
    return Opening(_name(named), found.files, list(found.notes))


def load(opening: Opening, listen: Listener = ignore) -> Trace:
    """Read every file and place them on one clock."""
    return place(opening.name, tuple(opening.parts(listen)), opening.notes)


def args(trace: Trace, event: int) -> dict[str, Any]:
    """Everything that the event carries in its file, decoded now: the values are as untrusted as the file."""
    part = trace.parts[event >> 32]
    for candidate in FORMATS:
        if candidate.name == part.format:
            record = trace.event(event)["record"]
            return candidate.args(part, record) if record is not None else {}
    raise KeyError(part.format)


def _name(paths: Sequence[Path]) -> str:
    first = paths[0].resolve()
    name = first.name or str(first)
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"
