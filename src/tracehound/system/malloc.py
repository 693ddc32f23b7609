"""Tuning of glibc's malloc: how much freed memory the process keeps, and returning it to the system.

Reading a trace leaves holes of many sizes in the heap, which the C library keeps for this process alone: a third of all
memory of several workers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Final

_MMAP_THRESHOLD: Final = -3
_MMAP_MAX: Final = -4
_TRIM_THRESHOLD: Final = -1
_ARENA_MAX: Final = -8

_KEPT_BYTES: Final = 32 << 20
"""Freed bytes that a reading process keeps for its next needs; glibc accepts no larger mmap threshold."""

_KEPT_BYTES_LARGE: Final = 512 << 20
"""Freed bytes that an analyzing process keeps: a few arrays with a number for each event of a large trace."""


def use_single_arena() -> None:
    """Let all threads share one heap; the per-thread heaps of the C library would hold nothing large.

    Call it before a second thread starts. Does nothing without glibc.
    """
    _set_malloc_options({_ARENA_MAX: 1})


def keep_freed_memory() -> None:
    """Keep up to `_KEPT_BYTES` of freed memory, so that arrays of chunks are not allocated from the system again.

    Does nothing without glibc.
    """
    _set_malloc_options({_MMAP_THRESHOLD: _KEPT_BYTES, _TRIM_THRESHOLD: _KEPT_BYTES})


def keep_large_freed_memory() -> None:
    """Keep up to `_KEPT_BYTES_LARGE` of freed memory, for arrays of all events.

    By default the C library gets every large array from the system and returns it when it is freed: a pass over five
    million events then spends most of its time on the first touch of memory pages.
    """
    _set_malloc_options({_MMAP_MAX: 0, _TRIM_THRESHOLD: _KEPT_BYTES_LARGE})


def _set_malloc_options(options: Mapping[int, int]) -> None:
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        for option, value in options.items():
            tune(option, value)


def return_free_memory() -> None:
    """Return free memory to the system, which takes some milliseconds. Does nothing without glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
