"""The user's home directory, the XDG folders, and the current folder; each of them may be missing.

A container may run a process as a user without an entry in the password database, and the current folder may be removed
meanwhile.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def home_dir() -> Path | None:
    """The home directory of the user: HOME if it is not empty, else that of the password database.

    None if there is none or it does not exist; it is never created.
    """
    try:
        own = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    return Path(own) if os.path.isdir(own) else None  # noqa: PTH112, pathlib's raises without permission


def current_dir() -> Path | None:
    """The current folder; None if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def xdg_dir(variable: str, usual: str) -> Path | None:
    """The folder in an XDG variable, else the folder `usual` in the home directory.

    A variable that is not an absolute path counts as not set, as the standard says. None without a home directory.
    """
    said, own = Path(os.environ.get(variable, "")), home_dir()
    if said.is_absolute():
        return said
    return None if own is None else own / usual
