"""Traces that Kineto records on demand: its configuration, the files that it writes, and the wait for them.

Kineto opens ``FILE.tmp`` when it begins to record and renames it to FILE at the end, with the process id before
``.json``. Versions after PyTorch 2.13 write only below /tmp, or below ``KINETO_ONDEMAND_TRACE_DIR`` of the job: for
other paths they use a default name in /tmp, and nothing says so.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from tracehound.errors import TracehoundError

KINETO_POLL_SECONDS: Final = 5
"""Kineto asks the daemon for requests once in so many seconds."""

KINETO_WARM_UP_SECONDS: Final = 5
"""Kineto records and discards so many seconds before the first that it keeps."""

COMMON_START_SECONDS: Final = 2 * KINETO_POLL_SECONDS + KINETO_WARM_UP_SECONDS + 1
"""Seconds from a request to a start that several processes can have in common; one poll of them may fail.

A process that fetches the request too late for its warm-up records nothing."""

DETAILS: Final = {
    "shapes": "PROFILE_REPORT_INPUT_SHAPES",
    "stacks": "PROFILE_WITH_STACK",
    "memory": "PROFILE_PROFILE_MEMORY",
    "flops": "PROFILE_WITH_FLOPS",
    "modules": "PROFILE_WITH_MODULES",
}
"""Details that Kineto can record of operators, and the keys of its configuration that switch them on."""

_CONFIG_SYNTAX: Final = frozenset("=#")
_FOLDER_SUFFIX: Final = ".json"


class KinetoRequest(Struct, frozen=True):
    """A trace that Kineto is to record, of a duration or of iterations, and the file to write it to.

    Iterations are those of the optimizer, or of calls of ``torch.profiler``'s ``step``; a process without them records
    the duration. `start_ms` is the wall clock (Unix ms) at which to begin, 0 for as soon as possible.
    """

    file: Path
    duration_ms: int
    iterations: int = 0
    start_ms: int = 0
    details: Collection[str] = ()


def kineto_config(request: KinetoRequest) -> str:
    """The request in Kineto's configuration language, a ``KEY=value`` a line."""
    start = (
        {
            "PROFILE_START_ITERATION": 0,
            "PROFILE_START_ITERATION_ROUNDUP": 1,
            "ACTIVITIES_ITERATIONS": request.iterations,
        }
        if request.iterations
        else {"PROFILE_START_TIME": request.start_ms}
    )
    details = {key: "true" if name in request.details else "false" for name, key in DETAILS.items()}
    lines = {
        "ACTIVITIES_LOG_FILE": request.file,
        "ACTIVITIES_DURATION_MSECS": request.duration_ms,
        **start,
        **details,
    }
    return "\n".join(f"{key}={value}" for key, value in lines.items())


def refuse_folder(folder: Path) -> None:
    """Raise TracehoundError for a folder whose name Kineto would misread: its configuration has no quotes."""
    text = str(folder)
    remedy = "name another LOGDIR"
    if not text.isprintable() or not _CONFIG_SYNTAX.isdisjoint(text) or text != text.strip():
        message = "Kineto's configuration cannot name a folder with =, # or control characters"
        raise TracehoundError(message, folder, remedy=remedy)
    if _FOLDER_SUFFIX in text:
        raise TracehoundError(
            f"Kineto would put the process id before the {_FOLDER_SUFFIX} of the folder", folder, remedy=remedy
        )


def process_file(file: Path, pid: int) -> Path:
    """The file that Kineto writes for a process, if it accepts the path."""
    return file.with_name(f"{file.stem}_{pid}.json")


def default_process_file(pid: int) -> Path:
    """The file that Kineto writes for a process if it does not accept the path."""
    return Path(f"/tmp/libkineto_activities_{pid}.json")  # noqa: S108, Kineto's choice


TraceState = Literal["absent", "recording", "complete", "ended"]
"""The state of a trace: no file yet; a file that grows; a finished file; the process has ended without one."""

POLL_SECONDS: Final = 0.25

UNCHANGED_SECONDS: Final = 1.0
"""A file that ends like JSON and has not changed for so long is finished."""

_FileStamp = tuple[int, int, int]
"""Inode, size and time of change of a file: equal as long as nobody has written to it."""


class TraceWatch(Struct):
    """The trace of one process on this machine's disk, at the first of `paths` where a file appears.

    `earlier` has the stamps of files of earlier requests, under names that Kineto uses again: they do not count.
    `is_local` says that the process was seen on this machine. `path` is the file, once there is one.
    """

    pid: int
    paths: tuple[Path, ...]
    earlier: dict[Path, _FileStamp | None]
    is_local: bool
    state: TraceState = "absent"
    path: Path | None = None
    _stamp: _FileStamp | None = None
    _unchanged_since: float = 0.0

    @property
    def is_open(self) -> bool:
        """True as long as the trace may still be completed."""
        return self.state in ("absent", "recording")

    def update(self, now: float) -> None:
        """Look at the files; `now` is in seconds, on any clock."""
        ended = self.is_local and not _process_exists(self.pid)  # asked first: what it wrote is there afterwards
        for path in self.paths:
            stamp = _file_stamp(path)
            if stamp not in (None, self.earlier.get(path)):
                self._update_written(path, stamp, now, ended=ended)
                return
        if ended:
            self.state = "ended"
        elif any(_file_stamp(path) not in (None, self.earlier.get(path)) for path in map(_temporary_file, self.paths)):
            self.state = "recording"

    def _update_written(self, path: Path, stamp: _FileStamp | None, now: float, *, ended: bool) -> None:
        """Look at a file under its final name: it is complete once it rests and ends like JSON."""
        if stamp != self._stamp:
            self._stamp, self._unchanged_since = stamp, now
        self.path, self.state = path, "recording"
        if now - self._unchanged_since >= UNCHANGED_SECONDS:
            if _ends_like_json(path):
                self.state = "complete"
            elif ended:
                self.state = "ended"


def watch_traces(file: Path, pids: Sequence[int], *, is_local: bool) -> list[TraceWatch]:
    """Watches of the traces that processes are about to write, or have written.

    `file` is of one request alone. `is_local`: the processes may run on this machine.
    """
    watches = list[TraceWatch]()
    for pid in pids:
        default = default_process_file(pid)
        earlier = {path: _file_stamp(path) for path in (default, _temporary_file(default))}
        watches.append(TraceWatch(pid, (process_file(file, pid), default), earlier, is_local and _process_exists(pid)))
    return watches


class WaitLimits(Struct, frozen=True):
    """The longest waits, in seconds: for the first sign of a trace, and for its end."""

    sign: float
    end: float


WaitListener = Callable[[float, Sequence[TraceWatch]], None]
"""Called at each look with the seconds waited so far and the watches, as long as some are open."""


def wait_for_traces(watches: Sequence[TraceWatch], limits: WaitLimits, listen: WaitListener) -> None:
    """Update the watches until all traces are complete, have ended, or have taken longer than the limits."""
    begun = time.monotonic()
    while True:
        now = time.monotonic()
        for watch in watches:
            if watch.is_open:
                watch.update(now)
        waited = now - begun
        states = {watch.state for watch in watches if watch.is_open}
        if not states or waited > limits.end or (states == {"absent"} and waited > limits.sign):
            return
        listen(waited, watches)
        time.sleep(POLL_SECONDS)


def _temporary_file(path: Path) -> Path:
    """The name of a file while Kineto writes it."""
    return path.with_name(f"{path.name}.tmp")


def _file_stamp(path: Path) -> _FileStamp | None:
    """The stamp of a regular file; None if there is none."""
    with suppress(OSError):
        state = path.stat()
        if stat.S_ISREG(state.st_mode):
            return state.st_ino, state.st_size, state.st_mtime_ns
    return None


_END_BYTES: Final = 64


def _ends_like_json(path: Path) -> bool:
    """True if the file ends like a JSON document, or if it cannot be read, which whoever opens it will say."""
    try:
        with path.open("rb") as file:
            file.seek(-min(_END_BYTES, path.stat().st_size), os.SEEK_END)
            return file.read(_END_BYTES).rstrip().endswith((b"}", b"]"))
    except OSError:
        return True


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
