"""The folder of one recording, which all ranks of a job agree on without talking to each other.

Ranks meet in the file system: the first that wants to record makes a folder named after the minute and writes into it
at which step the recording begins; the others find it. They rely on `mkdir` and `rename`, which are atomic on network
file systems, too, and not on lists of files, which network file systems cache. The layout is that of a TensorBoard log
folder, of which Tracehound opens the newest recording.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Final, NamedTuple

_FIRST_STEP_FILE: Final = ".first_step"


class Recording(NamedTuple):
    """A rank's part in a recording that is about to begin: the job's steps from `first_step` up to `end_step`."""

    run: Path
    """The folder of the recording."""
    file: Path
    """The file that the rank will leave there."""
    partial: Path
    """A hidden folder for what is not finished; as long as it exists the rank takes part."""
    first_step: int
    end_step: int

    def publish(self, written: Path) -> None:
        """Give the finished file its name. Raises OSError."""
        written.replace(self.file)
        shutil.rmtree(self.partial, ignore_errors=True)

    def discard(self) -> None:
        """Remove what is unfinished, and the folder of the recording if no other rank uses it."""
        shutil.rmtree(self.partial, ignore_errors=True)
        if [path.name for path in self.run.iterdir()] == [_FIRST_STEP_FILE]:
            (self.run / _FIRST_STEP_FILE).unlink()
            self.run.rmdir()


class Request(NamedTuple):
    """A rank's wish to record: `steps` steps of the job from `first_step` on, known at step `now`."""

    file_name: str
    now: int
    first_step: int
    steps: int


def join_recording(folder: Path, request: Request) -> Recording:
    """Take part in the recording that another rank has begun in `folder` within the last minute, else begin one.

    The first rank decides at which step a recording begins. A rank that comes later than that, by a signal that took
    its time, begins at once. Raises OSError.
    """
    profiles = folder.absolute() / "plugins" / "profile"
    profiles.mkdir(parents=True, exist_ok=True)
    minute = int(time.time()) // 60
    for nearby in (minute - 1, minute, minute + 1):  # hosts' clocks differ, and a minute may just have ended
        for run in takewhile(Path.is_dir, _run_folders(profiles, nearby)):
            if recording := _join_run(run, request):
                return recording
    for run in _run_folders(profiles, minute):
        _begin_run(run, request.first_step)
        if recording := _join_run(run, request):
            return recording
    raise AssertionError("names do not end")


def _run_folders(profiles: Path, minute: int) -> Iterator[Path]:
    """Folders for the recordings of a minute (since 1970, UTC), in the order in which they are used.

    Named as runs in a log folder of TensorBoard are, but with a number in place of the seconds: the newest sorts last.
    """
    name = time.strftime("%Y_%m_%d_%H_%M", time.gmtime(60 * minute))
    return (profiles / f"{name}_{number:02}" for number in count())


def _begin_run(run: Path, first_step: int) -> None:
    """Make the folder of a recording, complete from its first moment on; does nothing if another rank has made it."""
    made = run.with_name(f".{secrets.token_hex(8)}.partial")
    made.mkdir()
    try:
        (made / _FIRST_STEP_FILE).write_text(str(first_step), encoding="ascii")
        if not run.exists():
            made.rename(run)
    except OSError:
        if not run.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _join_run(run: Path, request: Request) -> Recording | None:
    """A rank's part in the recording of this folder; None if that is over, or if it is this rank's earlier one."""
    try:
        first_step = int((run / _FIRST_STEP_FILE).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None
    file = run / request.file_name
    if request.now > first_step + request.steps or file.exists():
        return None
    partial = run / f".{request.file_name}.partial"
    with suppress(FileExistsError, FileNotFoundError):  # a recording before this one, or the folder was just removed
        partial.mkdir()
        first_step = max(first_step, request.now + 1)
        return Recording(run, file, partial, first_step, first_step + request.steps)
    return None
