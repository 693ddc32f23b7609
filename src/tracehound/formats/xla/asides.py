"""What lies on the streams of a GPU and keeps nothing busy: lifetimes of memory, page faults, what CUPTI itself costs.

Owns on which lines such events are, and the lines beside those on which they are shown. CUPTI's collector names a line
after what is on it: ``Stream #0(MemcpyH2D,MemoryResidency)``; and ``CUPTI overhead`` where that is among it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from tracehound.formats.wire import Rows
from tracehound.formats.xla.xspace import Line

_MIXED: Final = re.compile(r"stream\b.*\b(memoryresidency|unifiedmemory)\b|cupti overhead$", re.IGNORECASE)

_IDLE: Final = re.compile(
    r"Memory \S+$|UM_(?!BYTES_TRANSFER_)|(DRIVER_)?COMPILER$|BUFFER_FLUSH$|INSTRUMENTATION$|RESOURCE$|<UNKNOWN>$"
    r"|(RUNTIME_TRIGGERED_MODULE|LAZY_FUNCTION)_LOADING$|COMMAND_BUFFER_FULL$|ACTIVITY_BUFFER_REQUEST$"
    r"|UVM_ACTIVITY_INIT$"
)

_FIRST: Final = -(1 << 62)
"""Ids of lines that are in no file."""


def mixed(line: str) -> bool:
    """Whether a line of this name may have events that keep nothing busy beside work."""
    return _MIXED.match(line) is not None


def idle(name: str) -> bool:
    """Whether an event of this name, on such a line, keeps nothing busy."""
    return _IDLE.match(name) is not None


def name_beside(line: str) -> str:
    """The name of the lane beside a line."""
    return f"Beside {line}"


def with_asides(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines of a GPU, and after them an empty one beside each that needs it."""
    asides = [
        replace(line, id=_FIRST + at, name=name_beside(line.name), display_id=0, stretches=())
        for at, line in enumerate(lines)
        if mixed(line.name)
    ]
    return (*lines, *asides)


def asides_of(lines: Sequence[Line]) -> Rows:
    """For each of these lines the position of that beside it, -1 for none."""
    found = np.full(len(lines), -1, np.int64)
    for position, line in enumerate(lines):
        if 0 <= line.id - _FIRST < len(lines):
            found[line.id - _FIRST] = position
    return found
