"""Sizes that can be true.

Owns the bound. What a file says of more bytes is damaged: it is no size, and sums of such numbers overflow.
"""

from __future__ import annotations

from typing import Final

from tracehound.formats.spill import Column
from tracehound.intervals import Mask

MOST_BYTES: Final = 1 << 44
"""16 TiB, more than any memory has; half a million of them can be summed up in Int64."""

NO_SIZE: Final = "size_out_of_range"
"""What is said of events whose size is none."""


def possible(sizes: Column, least: int = 0) -> tuple[Column, Mask]:
    """The sizes without those below `least` and beyond the bound; and which these were."""
    beyond = (sizes.values < least) | (sizes.values > MOST_BYTES)
    if sizes.valid is not None:
        beyond &= sizes.valid
    if not beyond.any():
        return sizes, beyond
    return Column(sizes.values, ~beyond if sizes.valid is None else sizes.valid & ~beyond), beyond
