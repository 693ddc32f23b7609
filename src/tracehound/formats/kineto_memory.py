"""What Kineto's memory events tell: how much the allocators of a device or of the host hold after each.

Owns the spelling of their args and the names of the counters. Knows no lanes and no times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from tracehound.formats.counters import Said, numbers
from tracehound.formats.json_columns import whole_numbers
from tracehound.formats.kineto_args import InstantArgs
from tracehound.formats.sizes import MOST_BYTES
from tracehound.intervals import Ints, Mask

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


def devices(args: Sequence[InstantArgs]) -> Ints:
    """The devices whose allocators they are, -1 for the host's."""
    kinds = whole_numbers([said.holder_type for said in args])
    return np.where(kinds <= CPU, -1, np.maximum(whole_numbers([said.holder for said in args]), 0))


def held(args: Sequence[InstantArgs], device: Ints) -> Said:
    """What events of these devices tell, by counter, in the order of `TITLES`.

    `change` is what was allocated just then, below 0 where freed; it counts where no total is told. Sizes that cannot
    be true are not told.
    """
    columns = [[said.allocated for said in args], [said.reserved for said in args], [said.change for said in args]]
    totals = np.array([_told(column) for column in columns[:-1]])
    told = np.vstack([totals, ~totals.any(axis=0)])
    values = np.vstack(
        [numbers(column) if some.any() else np.zeros(len(args)) for column, some in zip(columns, told, strict=True)]
    )
    told &= ~(np.abs(values) > MOST_BYTES)
    event, what = np.nonzero(told.T)
    known, number = np.unique(device, return_inverse=True)
    keys = [Memory(each, held) for each in known.tolist() for held in TITLES]
    return Said(event, keys, number[event] * len(TITLES) + what, values.T[told.T])


def _told(column: Sequence[object]) -> Mask:
    if msgspec.UnsetType not in set(map(type, column)):
        return np.ones(len(column), np.bool_)
    return np.array([value is not msgspec.UNSET for value in column])
