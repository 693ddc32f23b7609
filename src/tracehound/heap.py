"""Memory that this process holds and has no use for.

Owns how much of it is held, and handing it back. Reading leaves holes of many sizes in the heap, which the C library
keeps for this process alone: of all that several workers held, that was a third.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Final

_MMAP_THRESHOLD: Final = -3
_MMAP_MAX: Final = -4
_TRIM_THRESHOLD: Final = -1
_ARENA_MAX: Final = -8

_HELD: Final = 32 << 20
"""So much that is free stays with a process that reads, for what it needs next; glibc accepts no larger threshold."""

_HELD_LARGE: Final = 512 << 20
"""The same of one that analyses: some arrays of as many numbers as a large trace has events."""


def share() -> None:
    """Have all threads share one heap: those that the C library gives each hold nothing that is large.

    Only before there is a second thread. Does nothing where the C library is not glibc.
    """
    _tune({_ARENA_MAX: 1})


def hold() -> None:
    """Have the C library keep what is freed, up to `_HELD`: else the arrays of every slice are fetched anew.

    Does nothing where the C library is not glibc.
    """
    _tune({_MMAP_THRESHOLD: _HELD, _TRIM_THRESHOLD: _HELD})


def hold_large() -> None:
    """The same for arrays of all events, up to `_HELD_LARGE`.

    The C library fetches every such array from the system, and hands it back when it is freed: what a pass over five
    million events takes is then mostly the first touch of memory, page by page.
    """
    _tune({_MMAP_MAX: 0, _TRIM_THRESHOLD: _HELD_LARGE})


def _tune(options: Mapping[int, int]) -> None:
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        for option, value in options.items():
            tune(option, value)


def release() -> None:
    """Hand back what is free, which takes some milliseconds. Does nothing where the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
