"""The events of an XPlane's line -> columns: `xevents.c`, as Python sees it. What they mean is in `formats.xevents`."""

from __future__ import annotations

from ctypes import byref, c_int64
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.native import library

Rows = npt.NDArray[np.int64]


class Events(NamedTuple):
    """Events that follow one another from the front of some bytes on, to `after`: what is left is not whole.

    Each lies in `[head, end)`. Of those that are `odd` nothing else is told. `field` and `bits` have a row for each
    code of a stat; `seen` says which of these have anything: others mean nothing.
    """

    head: Rows
    end: Rows
    metadata: Rows
    start: Rows
    length: Rows
    odd: npt.NDArray[np.bool_]
    field: npt.NDArray[np.uint8]
    bits: npt.NDArray[np.uint64]
    seen: npt.NDArray[np.bool_]
    after: int


def events(data: npt.NDArray[np.uint8], codes: npt.NDArray[np.int8], stats: int) -> Events | None:
    """The events at the front of these bytes; None where anything else follows one of them, or without the library.

    `codes` are those of stats by the small ids, -1 of those that nobody wants; there are `stats` of them.
    """
    native = library()
    if native is None:
        return None
    after = c_int64()
    count = native.xevents_count(data.ctypes.data, len(data), byref(after))
    if count < 0:
        return None
    rows, odd = np.empty((5, count), np.int64), np.empty(count, np.bool_)
    field, bits = np.empty((stats, count), np.uint8), np.empty((stats, count), np.uint64)
    seen = np.zeros(stats, np.bool_)
    native.xevents_columns(
        *(data.ctypes.data, len(data), count), *(row.ctypes.data for row in rows), odd.ctypes.data,
        *(codes.ctypes.data, len(codes)), field.ctypes.data, bits.ctypes.data, seen.ctypes.data,
    )  # fmt: skip
    head, end, metadata, start, length = rows
    return Events(head, end, metadata, start, length, odd, field, bits, seen, after.value)
