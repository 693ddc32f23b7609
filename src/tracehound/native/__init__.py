"""What is compiled: loops over bytes that no array library has, in C, without which the same is done in Python.

Owns finding the library that was built along with the package, and whether it is of this version. Where there is none
(no compiler when the package was installed, `TRACEHOUND_NATIVE=0`), every caller has a way of its own, to the same end.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Final

NAME: Final = "libtracehound.so"
"""The file beside this one that building the package makes of the sources in C."""

VERSION: Final = 6
"""Of the functions in the library: one that is older, or younger, is left alone."""


@cache
def library() -> ctypes.CDLL | None:
    """The library; None where there is none to be used."""
    if os.environ.get("TRACEHOUND_NATIVE") == "0":
        return None
    try:
        found = ctypes.CDLL(str(Path(__file__).with_name(NAME)))
        return found if found.native_version() == VERSION else None
    except (OSError, AttributeError):
        return None
