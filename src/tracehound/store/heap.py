"""Memory that this process holds and has no use for.

Owns how much of it is held, and handing it back. Reading leaves holes of many sizes in the heap, which the C library
keeps for this process alone: of all that several workers held, that was a third.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1

_HELD: Final = 32 << 20
"""So much that is free stays with a process that works, for what it needs next; glibc accepts no larger threshold."""


def hold() -> None:
    """Have the C library keep what is freed, up to `_HELD`: else the arrays of every slice are fetched anew.

    Does nothing where the C library is not glibc.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_MMAP_THRESHOLD, _HELD)
        tune(_TRIM_THRESHOLD, _HELD)


def release() -> None:
    """Hand back what is free, which takes some milliseconds. Does nothing where the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
