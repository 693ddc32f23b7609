"""What Kineto's memory events tell: how much the allocators of a device or of the host hold after each.

Owns the spelling of their args and the names of the counters. Knows no lanes and no times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from tracehound.formats.counters import Said
from tracehound.formats.json_columns import whole_numbers
from tracehound.formats.kineto_args import Args
from tracehound.intervals import Ints

CPU: Final = 0
"""PyTorch's DeviceType of the host; all others are devices."""

Held = Literal["allocated", "reserved", "change"]

TITLES: Final[Mapping[Held, str]] = {
    "allocated": "memory allocated",
    "reserved": "memory reserved",
    "change": "memory change",
}
"""The names of the counters. Older files tell no totals: the sum of what was allocated and freed stands for them."""


class Memory(NamedTuple):
    """A counter of memory: of device `device` (-1: of the host), of what its allocator holds."""

    device: int
    held: Held


_ARGS: Final = ("allocated", "reserved", "change")
"""What tells the value of a counter, in the order of `TITLES`."""


def devices(args: Sequence[Args]) -> Ints:
    """The devices whose allocators they are, -1 for the host's."""
    kinds, numbers = (whole_numbers([getattr(said, name) for said in args]) for name in ("holder_type", "holder"))
    return np.where(kinds <= CPU, -1, np.maximum(numbers, 0))


def held(args: Sequence[Args], device: Ints) -> Said:
    """What events of these devices tell, by counter; `change` is what was allocated just then, below 0 where freed."""
    columns = [np.fromiter(map(attrgetter(name), args), object, len(args)) for name in _ARGS]
    totals = np.array([[value is not msgspec.UNSET for value in column] for column in columns[:-1]])
    told = np.vstack([totals, ~totals.any(axis=0)])
    event, what = np.nonzero(told.T)
    known, number = np.unique(device, return_inverse=True)
    keys = [Memory(each, held) for each in known.tolist() for held in TITLES]
    return Said(event, keys, number[event] * len(TITLES) + what, np.vstack(columns).T[told.T])
