"""How the time of work grows with what is worked on."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

TOO_FAST = 9
"""Four times as much takes about four times as long, and sixteen times where each part is looked at with each other."""


def growth(work: Callable[[int], object], size: int = 4000) -> float:
    """How many times as long work of four times the size takes, of the processor's time; the least of several goes."""
    return min(_took(work, 4 * size) for _ in range(5)) / min(_took(work, size) for _ in range(5))


def _took(work: Callable[[int], object], size: int) -> float:
    begun = process_time()
    work(size)
    return process_time() - begun
