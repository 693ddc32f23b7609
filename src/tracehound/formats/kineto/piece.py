"""The events of a Kineto file as columns, and what their signatures and names tell at once.

Owns those columns. Knows no spelling, no lanes and no frames.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from tracehound.formats.json.columns import Numbers
from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.names import category
from tracehound.intervals import Ints, Mask

Signature = tuple[str, Id, Id]
"""Category, process and thread of an event."""

GLOO: Final = "gloo:"
"""How the annotations of Gloo's collectives begin, which run on the host."""

MEMORY: Final = "[memory]"
"""The name of the instants at which memory is allocated or freed."""

OWN: Final = ("Record Window End", "Iteration Start")
"""How the names of the profiler's own instants begin, which are not drawn."""


class Piece(NamedTuple):
    """The columns of some events, complete ones and instants; times in ns.

    `record` is the ordinal of the element in the segment. `signature`, `name` and `device` are numbers that `Columns`
    gave; `device` is -1 on a host, and ids and `bytes` are -1 where there are none. `collective` says that the args
    name one.
    """

    record: Ints
    signature: Numbers
    name: Numbers
    start: Ints
    length: Ints
    correlation: Ints
    external: Ints
    device: Numbers
    bytes: Ints
    collective: Mask

    def at(self, rows: Ints) -> Piece:
        """The columns of these rows."""
        return Piece(*(column.take(rows) for column in cast("tuple[Any, ...]", self)))


NO_EVENTS: Final = Piece(*(np.empty(0, dtype) for dtype in "qiiqqqqiq?"))


def on_device(signature: Signature) -> bool:
    """Whether events of this signature are drawn on a device."""
    return category(signature[0]).row not in ("thread", "none")


def waits(signature: Signature) -> bool:
    """Whether events of this signature may tell what was waited for."""
    return category(signature[0]).row == "sync"


def calls(signature: Signature) -> bool:
    """Whether events of this signature may tell what an operator was called with."""
    return category(signature[0]).kind in ("op", "annotation")
