"""How an array is spread over devices, as HLO writes it: ``{devices=[8,1]<=[8]}``.

Owns the field numbers of OpSharding.
"""

from __future__ import annotations

from typing import Final

from tracehound.formats.hlo.fields import DEEPEST, Message

TYPE, DIMENSIONS, DEVICES, PARTS, REPLICATED_LAST, LAST_TYPES, RESHAPE, ORDER = 1, 3, 4, 5, 6, 8, 9, 10
REPLICATED, MAXIMAL, TUPLE, OTHER = 0, 1, 2, 3
WORDS: Final = {0: "replicated", 1: "maximal", 4: "manual", 5: "unknown", 6: "unreduced"}

LONGEST: Final = 64
"""Devices that are listed one by one."""


def sharding_text(proto: Message | None, depth: int = 0) -> str:
    """The sharding in an OpSharding; of nonsense what there is of it."""
    if proto is None:
        return "{}"
    kind = proto.number(TYPE)
    if kind == TUPLE and depth < DEEPEST:
        return f"{{{', '.join(sharding_text(part, depth + 1) for part in proto.all(PARTS))}}}"
    if kind == MAXIMAL:
        return f"{{maximal device={_listed(proto.numbers(DEVICES))}}}"
    if kind != OTHER:
        return f"{{{WORDS.get(kind, 'unknown')}}}"
    return f"{{devices=[{_joined(proto.numbers(DIMENSIONS))}]{_assigned(proto)}{_last(proto)}}}"


def _assigned(proto: Message) -> str:
    """Which devices, in which order."""
    reshape, order = proto.numbers(RESHAPE), proto.numbers(ORDER)
    if not reshape:
        return _listed(proto.numbers(DEVICES))
    turned = f"T({_joined(order)})" if order != list(range(len(order))) else ""
    return f"<=[{_joined(reshape)}]{turned}"


def _last(proto: Message) -> str:
    if proto.number(REPLICATED_LAST):
        return " last_tile_dim_replicate"
    last = [WORDS.get(kind, "unknown") for kind in proto.numbers(LAST_TYPES)]
    return f" last_tile_dims={{{', '.join(last)}}}" if last else ""


def _listed(devices: list[int]) -> str:
    return _joined(devices[:LONGEST]) + (",..." if len(devices) > LONGEST else "")


def _joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
