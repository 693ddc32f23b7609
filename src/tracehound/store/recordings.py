"""Recordings of one process in several files, told apart by their times, and the one of them to open.

A profile by stage (prefill, decode), a repeating schedule and a profiler that is started again leave several files of
one process, whose times do not overlap. A recording has at most one file of each process.
"""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from tracehound.model.notes import Note

MIN_START_DISTANCE_NS: Final = 10**10
"""Files of one process that start this far apart are different recordings, even if their ends are unknown."""


class RecordedFile(Struct, frozen=True):
    """A file and its process; None: unknown. Times are in ns, since 1970 if `wall`; None: unknown.

    `dated` says that `start` is from the file's name, which names each recording.
    """

    path: Path
    process: Hashable | None = None
    start: int | None = None
    end: int | None = None
    wall: bool = False
    dated: bool = False


class RecordingFiles(Struct, frozen=True):
    """The files of one recording, and the names by which it can be chosen.

    A name is the part of a file's name that differs between recordings.
    """

    names: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The name that messages show."""
        return self.names[0]


class Recordings(Struct, frozen=True):
    """The recordings of some processes, sorted by time.

    `certain` is false if files of one process may overlap in time: then they may be of different processes.
    """

    recordings: tuple[RecordingFiles, ...]
    certain: bool = True

    def chosen(self, run: str | None) -> RecordingFiles | None:
        """The recording called `run`, which may also be the name of one of its files; None without one.

        Without `run` the newest of those with most processes.
        """
        if run is None:
            return max(reversed(self.recordings), key=lambda each: len(each.files))
        return next(
            (each for each in self.recordings if run in each.names or run in {path.name for path in each.files}), None
        )

    def left_out(self, chosen: RecordingFiles) -> tuple[list[Path], list[Note]]:
        """The files of all recordings but the chosen one, and notes about them."""
        at = self.recordings.index(chosen)
        older, newer = self.recordings[:at], self.recordings[at + 1 :]
        notes = [
            Note(
                "inferred"
                if max(len(each.files) for each in others) < len(chosen.files) and others is newer
                else "info",
                "older_recordings" if others is older else "newer_recordings",
                sum(len(each.files) for each in others),
                file=str(others[-1].files[-1]),
                values=(("opened", chosen.name), ("names", tuple(each.name for each in others))),
            )
            for others in (older, newer)
            if others
        ]
        return [path for each in (*older, *newer) for path in each.files], notes


def find_recordings(files: Sequence[RecordedFile]) -> Recordings | None:
    """The recordings among these files; None if no process has several files that may be apart in time.

    The process with the most files gives the number of recordings and their times. A file of another process belongs
    to the recording with the same name; else, if the process has as many files, to that in its turn; else to the
    nearest in time.
    """
    processes: dict[Hashable, list[RecordedFile]] = {}
    for file in files:
        if file.process is not None:
            processes.setdefault(file.process, []).append(file)
    sorted_files = {process: sorted(each, key=_time_sort_key) for process, each in processes.items()}
    states = {process: _state(each) for process, each in sorted_files.items()}
    sorted_files = {process: each for process, each in sorted_files.items() if states[process] != "overlapping"}
    leading = max(sorted_files.values(), key=len, default=[])
    if len(leading) < 2:
        return None
    names = _recording_names(leading)
    found: list[list[tuple[str, RecordedFile]]] = [[] for _ in leading]
    for each in sorted_files.values():
        for number, (name, file) in enumerate(zip(_recording_names(each), each, strict=True)):
            found[_recording_of(name, file, number, each, names, leading)].append((name, file))
    recordings = tuple(
        RecordingFiles(
            tuple(dict.fromkeys((names[at], *(name for name, _ in each)))), tuple(file.path for _, file in each)
        )
        for at, each in enumerate(found)
    )
    return Recordings(recordings, "unknown" not in states.values())


def _time_sort_key(file: RecordedFile) -> tuple[int, str]:
    return file.start or 0, str(file.path)


def _state(files: Sequence[RecordedFile]) -> Literal["apart", "overlapping", "unknown"]:
    """The relation in time of sorted files of one process."""
    states = {_state_of_pair(before, after) for before, after in pairwise(files)}
    if "overlapping" in states:
        return "overlapping"
    return "unknown" if "unknown" in states else "apart"


def _state_of_pair(before: RecordedFile, after: RecordedFile) -> Literal["apart", "overlapping", "unknown"]:
    if before.dated and after.dated:
        return "apart"
    if before.start is None or after.start is None or before.wall != after.wall:
        return "unknown"
    if before.end is not None:
        return "apart" if before.end <= after.start else "overlapping"
    return "apart" if after.start - before.start >= MIN_START_DISTANCE_NS else "unknown"


def _recording_of(
    name: str,
    file: RecordedFile,
    number: int,
    files: Sequence[RecordedFile],
    names: Sequence[str],
    leading: Sequence[RecordedFile],
) -> int:
    """The number of the recording that has a file, the one with this number of its process."""
    if name in names:
        return names.index(name)
    if len(files) == len(leading):
        return number
    if not file.dated and (within := [at for at, each in enumerate(names) if each in _words(file.path.name)]):
        return within[-1]
    times = [each.start or 0 for each in leading]
    return bisect([(before + after) // 2 for before, after in pairwise(times)], file.start or 0)


_SEPARATORS: Final = re.compile(r"([-_. /()]+)")
_ENDINGS: Final = re.compile(r"(\.pt)?(\.trace)?\.json(\.gz)?$|\.gz$", re.IGNORECASE)


def _words(text: str) -> list[str]:
    return _SEPARATORS.split(_ENDINGS.sub("", text))


def _recording_names(files: Sequence[RecordedFile]) -> list[str]:
    """A name for each file of a process: the words of its path between those that all of them share."""
    if files[0].dated:
        return [str(file.start) for file in files]
    paths = [file.path for file in files]
    folder = os.path.commonpath(path.absolute().parent for path in paths)
    words = [_words(os.path.relpath(path, folder)) for path in paths]
    shortest = min(map(len, words))
    before = next((at for at in range(shortest) if len({each[at] for each in words}) > 1), shortest)
    after = next(
        (at for at in range(shortest - before) if len({each[-1 - at] for each in words}) > 1), shortest - before
    )
    middle = ["".join(each[before : len(each) - after]).strip("-_. /()") for each in words]
    return [name or _ENDINGS.sub("", path.name) for name, path in zip(middle, paths, strict=True)]


def left_out_paths(recordings: Recordings, run: str | None) -> tuple[Mapping[Path, None], list[Note]]:
    """The files that are not opened, and notes about them; all recordings stay if it is not certain that they are."""
    chosen = recordings.chosen(run) if run is not None or recordings.certain else None
    if chosen is None:
        return {}, []
    left, notes = recordings.left_out(chosen)
    return dict.fromkeys(left), notes
