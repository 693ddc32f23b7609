"""The user's home directory, which a process need not have: a container may run it as a user that nobody listed.

Owns where the user's own folders are. Knows nothing of what is kept in them.
"""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path | None:
    """The home directory of the user; None where there is none."""
    try:
        return Path.home()
    except RuntimeError:
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
