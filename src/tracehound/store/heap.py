"""Memory that this process holds and has no use for.

Owns handing it back. Reading leaves holes of many sizes in the heap, which the C library keeps for this process alone:
of all that several workers held, that was a third.
"""

from __future__ import annotations

import ctypes


def release() -> None:
    """Hand back what is free, which takes some milliseconds. Without glibc nothing is to be done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
