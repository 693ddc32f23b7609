"""What Kineto's memory events tell: how much the allocators of a device or of the host hold after each.

Owns the spelling of their args and the names of the counters. Knows no lanes and no times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from tracehound.formats.json_columns import whole_number

CPU: Final = 0
"""PyTorch's DeviceType of the host; all others are devices."""

Held = Literal["allocated", "reserved", "change"]

TITLES: Final[Mapping[Held, str]] = {
    "allocated": "memory allocated",
    "reserved": "memory reserved",
    "change": "memory change",
}
"""The names of the counters. Older files tell no totals: the sum of what was allocated and freed stands for them."""


_TOTALS: Final[Mapping[Held, str]] = {"allocated": "Total Allocated", "reserved": "Total Reserved"}


class Memory(NamedTuple):
    """A counter of memory: of device `device` (-1: of the host), of what its allocator holds."""

    device: int
    held: Held


def allocations(args: Mapping[str, object], device: int) -> Mapping[Memory, object]:
    """What an event of a device tells, by counter; `change` is what was allocated just then, below 0 where freed."""
    totals = {Memory(device, held): args[name] for held, name in _TOTALS.items() if name in args}
    return totals or {Memory(device, "change"): args.get("Bytes")}


def device_of(args: Mapping[str, object]) -> int:
    """The device whose allocator it is, -1 for the host's."""
    kind, device = whole_number(args.get("Device Type")), whole_number(args.get("Device Id"))
    return -1 if kind <= CPU else max(device, 0)
