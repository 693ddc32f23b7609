"""What Kineto's memory events tell: how much the allocators of a device or of the host hold after each.

Owns the spelling of their args and the names of the counters. Knows no lanes and no times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from tracehound.formats.assembly.counters import Said, Values, numbers
from tracehound.formats.json.columns import integer, whole_numbers
from tracehound.formats.kineto.args import InstantArgs
from tracehound.formats.kineto.tally import NO_ADDRESS, UNSAID, What
from tracehound.formats.kineto.values import size
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


CPU_PREFIX: Final = "CPU "
"""What stands before the names of the counters of the host's own memory."""

ON_HOST: Final = f"{CPU_PREFIX}{TITLES['allocated']}"
"""The counter of what the host's allocator holds, as far as it was recorded: in this recording, or one before it."""


class Memory(NamedTuple):
    """A counter of memory: of device `device` (-1: of the host), of what its allocator holds."""

    device: int
    held: Held


class Totals(NamedTuple):
    """A column of events of memory: which tell it, and the values (NaN: no number)."""

    told: Mask
    values: Values


def devices(kinds: Ints, holders: Ints) -> Ints:
    """The devices whose allocators they are, -1 for the host's; of types and numbers that are -1 where absent.

    A number that no device has, beyond Int32, stands for the first, as in the args of kernels.
    """
    return np.where(kinds <= CPU, -1, np.where((holders >= 0) & (holders < 1 << 31), holders, 0))


def devices_of(args: Sequence[InstantArgs]) -> Ints:
    """The same of events."""
    return devices(whole_numbers([said.holder_type for said in args]), whole_numbers([said.holder for said in args]))


def lacks(args: Sequence[InstantArgs]) -> dict[What, Mask]:
    """Which events do not say how much was allocated or freed, of which device's memory, or where."""
    sizes = _absent(size(said.change) for said in args)
    kinds = _absent(integer(said.holder_type) for said in args)
    return {UNSAID: sizes | kinds, NO_ADDRESS: _absent(integer(said.address) for said in args)}


def _absent(values: Iterable[int | None]) -> Mask:
    return np.fromiter((value is None for value in values), np.bool_)


def held_by(args: Sequence[InstantArgs], device: Ints) -> Said:
    """What events of these devices tell: see `held`."""
    allocated, reserved = _totals([said.allocated for said in args]), _totals([said.reserved for said in args])
    changed = numbers([said.change for said in args]) if _totals_lack(allocated, reserved) else np.zeros(len(args))
    return held(allocated, reserved, changed, device)


def held(allocated: Totals, reserved: Totals, changed: Values, device: Ints) -> Said:
    """What events tell, by counter, in the order of `TITLES`.

    `change` is what was allocated just then, below 0 where freed; it counts where no total is told. Sizes that cannot
    be true are not told.
    """
    told = np.vstack([allocated.told, reserved.told, ~(allocated.told | reserved.told)])
    values = np.vstack([allocated.values, reserved.values, changed])
    told &= ~(np.abs(values) > MOST_BYTES)
    told[:2] &= ~(values[:2] < 0)
    event, what = np.nonzero(told.T)
    known, number = np.unique(device, return_inverse=True)
    keys = [Memory(each, held) for each in known.tolist() for held in TITLES]
    return Said(event, keys, number[event] * len(TITLES) + what, values.T[told.T])


def _totals(column: Sequence[object]) -> Totals:
    told = np.ones(len(column), np.bool_)
    if msgspec.UnsetType in set(map(type, column)):
        told = np.array([value is not msgspec.UNSET for value in column])
    return Totals(told, numbers(column) if told.any() else np.zeros(len(column)))


def _totals_lack(allocated: Totals, reserved: Totals) -> bool:
    return not (allocated.told | reserved.told).all()
