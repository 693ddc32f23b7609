"""Files of captures, where TensorBoard looks for them: ``LOGDIR/plugins/profile/RUN/HOST_PORT.xplane.pb``.

A run is named after the time at which it began, in UTC: ``2026_01_31_09_30_00``. Files are readable by their owner
alone, and are complete or not there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from tracehound.capture.server_address import ServerAddress
from tracehound.errors import TracehoundError
from tracehound.system.atomic_file import atomic_write

PROFILE_MODE: Final = 0o600
"""Permissions of a profile: it tells much about a job."""

PROFILE_SUFFIX: Final = ".xplane.pb"

_RUN_NAME: Final = "%Y_%m_%d_%H_%M_%S"

_MAX_RUNS_AT_ONCE: Final = 60
"""So many runs may begin in one second; each takes the name of the next free one."""


class RunFolder(Struct, frozen=True):
    """The folder of a new run, `path`, and the folders that were created for it, the innermost first.

    `path` begins with the log folder as the user named it.
    """

    path: Path
    created: tuple[Path, ...]

    def profile_path(self, address: ServerAddress) -> Path:
        """The path of a server's profile."""
        return self.path / f"{address.file_stem}{PROFILE_SUFFIX}"

    def remove_if_empty(self) -> None:
        """Remove the created folders, if nothing was written into them."""
        with suppress(OSError):
            for folder in self.created:
                folder.rmdir()


def create_run_folder(logdir: Path) -> RunFolder:
    """Create the folder of a new run, named after the present time. Raises TracehoundError."""
    root = logdir / "plugins" / "profile"
    now = time.time()
    try:
        missing = [folder for folder in (root, *root.parents) if not folder.exists()]
        root.mkdir(parents=True, exist_ok=True)
        for later in range(_MAX_RUNS_AT_ONCE):
            path = root / time.strftime(_RUN_NAME, time.gmtime(now + later))
            with suppress(FileExistsError):
                path.mkdir()
                return RunFolder(path, (path, *missing))
    except OSError as error:
        raise folder_error(root, error) from error
    raise TracehoundError("too many captures begin here at once", root, remedy="name another LOGDIR")


def folder_error(folder: Path, error: OSError) -> TracehoundError:
    """The error of a folder for captures that cannot be made."""
    reason = (error.strerror or str(error)).lower()
    return TracehoundError(f"no folder for captures: {reason}", folder, remedy="name another LOGDIR")


def save_profile(path: Path, xspace: memoryview) -> None:
    """Write a profile, completely or not at all. Raises OSError."""
    with atomic_write(path, PROFILE_MODE) as file:
        file.write(xspace)


def move_server_file(written: Path, path: Path) -> Path | None:
    """Move the profile that a server wrote to `written`, on a disk that this machine shares, to `path`.

    Returns where it is: `written` if it cannot be moved, None if it is not there.
    """
    if not written.is_file():
        return None
    try:
        written.rename(path)
    except OSError:
        return written
    with suppress(OSError):
        path.chmod(PROFILE_MODE)
        written.parent.rmdir()
    return path
