"""The user's home directory and the current one, neither of which a process need have.

A container may run it as a user that nobody listed, and where it runs may be removed meanwhile. Owns where the user's
own folders are. Knows nothing of what is kept in them.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def home() -> Path | None:
    """The home directory of the user: that of HOME, if that is not empty, else the one that is listed.

    None where there is none, and where it does not exist: to make it is not a program's business.
    """
    try:
        own = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    return Path(own) if os.path.isdir(own) else None  # noqa: PTH112, pathlib's raises where one may not look


def here() -> Path | None:
    """The current folder; None where it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def folder(variable: str, usual: str) -> Path | None:
    """The folder that a variable of the XDG base directories names, else the `usual` one in the home directory.

    A variable that is no absolute path counts as not set, as the standard says. None where there is no home directory
    either.
    """
    said, own = Path(os.environ.get(variable, "")), home()
    if said.is_absolute():
        return said
    return None if own is None else own / usual
