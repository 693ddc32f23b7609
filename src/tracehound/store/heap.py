"""Memory that this process holds and has no use for.

Owns handing it back. Reading leaves holes of many sizes in the heap, which the C library keeps for this process alone:
of all that several workers held, that was a third.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1

KEPT: Final = 32 << 20
"""So much that is free stays with a process that works, for what it needs next."""


def keep() -> None:
    """Have the C library keep what was freed, up to `KEPT`: else it fetches arrays of every slice from the system anew.

    Without glibc nothing is to be done.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_MMAP_THRESHOLD, KEPT)
        tune(_TRIM_THRESHOLD, KEPT)


def release() -> None:
    """Hand back what is free, which takes some milliseconds. Without glibc nothing is to be done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
