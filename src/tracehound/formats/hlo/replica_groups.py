"""Device groups of HLO collectives, as protos hold them and as HLO writes them.

Owns the forms of replica groups (listed, iota, along axes of a mesh) and the meaning of their numbers. Knows no ranks:
ids are those of the program's device assignment. A hostile file may claim any number of devices: groups are made only
up to `MAX_DEVICES`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Final, Literal

import numpy as np

from tracehound.formats.hlo.proto_message import ProtoMessage

REPLICA_GROUPS, COLLECTIVE_DEVICE_LIST, IOTA_DEVICE_LIST, MESH_AXES_LIST = 49, 87, 92, 93
CHANNEL_ID, USE_GLOBAL_DEVICE_IDS = 26, 71

MAX_DEVICES: Final = 1 << 16
"""Devices in all groups of a collective, more than any job has."""

DeviceGroups = tuple[tuple[int, ...], ...]

GroupNumbering = Literal["replica", "partition", "device", "replica of all partitions"]
"""The meaning of the numbers in groups. Groups of ``replica`` numbers exist in each partition, those of ``partition``
numbers in each replica; ``replica of all partitions`` stands for a replica with all its partitions; ``device``
numbers are positions in the device assignment."""

AxisPart = tuple[int, int, int]
"""Part of a mesh axis: the axis, the product of the parts before it in that axis, its size."""

_MAX_ID_DIGITS: Final = 9

_GROUPS_INSIDE_BRACES: Final = re.compile(r"replica_groups=\{(\{[\d,{}\s]*\})\}")
_ONE_GROUP: Final = re.compile(r"\{([\d,\s]*)\}")
_IOTA_PATTERN: Final = r"\[([\d,]+)\](?:T\(([\d,]+)\))?"
_IOTA_GROUPS: Final = re.compile(rf"replica_groups=\[([\d,]+)\]<={_IOTA_PATTERN}")
_MESH_GROUPS: Final = re.compile(
    r"replica_groups=mesh\[((?:'[^']*'|[^'\]])*)\](?:,\s?device_ids=\(([\d,\s]*|\[[\d,]+\](?:T\([\d,]+\))?)\))?"
    r"\s?\{((?:'[^']*'|[^'}])*)\}"
)
_IOTA_NUMBERS: Final = re.compile(_IOTA_PATTERN)
_MESH_AXIS: Final = re.compile(r"(?:'([^']*)'|(?<![^',=\s])([^',=\s]+))=(\d+)")
_MESH_AXIS_PART: Final = re.compile(r"(?:'([^']*)'|([^',:\s]+))(?::\((\d+)\)(\d+))?")
_LISTED_GROUPS: Final = re.compile(r"replica_groups=\{[\d,{}\s]*\}")


def read_device_assignment(proto: ProtoMessage) -> list[tuple[int, ...]]:
    """The devices of each replica, one for each partition, in the device assignment of a program."""
    return list(
        zip(
            *(partition.numbers(_REPLICA_DEVICE_IDS) for partition in proto.submessages(_COMPUTATION_DEVICES)),
            strict=False,
        )
    )


_REPLICA_DEVICE_IDS, _COMPUTATION_DEVICES = 1, 3


def read_groups(fields: ProtoMessage) -> tuple[DeviceGroups | None, str]:
    """The groups in an instruction's proto, and their HLO text: ``{{0,1},{2,3}}``, ``[2,2]<=[4]``.

    The groups are empty where all devices form one group, None where they make no sense; the text is empty where the
    proto has no groups.
    """
    listed = fields.submessage(COLLECTIVE_DEVICE_LIST)
    compact = fields.submessage(IOTA_DEVICE_LIST) or (listed.submessage(2) if listed else None)
    if compact is not None:
        return _read_iota_groups(compact)
    if (mesh := fields.submessage(MESH_AXES_LIST)) is not None:
        return _read_mesh_groups(mesh)
    told = listed.submessages(1) if listed and 1 in listed else fields.submessages(REPLICA_GROUPS)
    found = tuple(tuple(one.numbers(1)) for one in told)
    return found, format_groups(found) if found or listed or REPLICA_GROUPS in fields else ""


def find_groups_text(text: str) -> str:
    """The part of an HLO line with the groups; empty where it has none, and all devices form one group."""
    match = _LISTED_GROUPS.search(text) or _IOTA_GROUPS.search(text) or _MESH_GROUPS.search(text)
    return match[0] if match else ""


def parse_groups(text: str) -> DeviceGroups:
    """The groups in an HLO line, each by its ids; empty where it has none or they make no sense.

    All spellings: ``{{0,1},{2,3}}``; ``[4,2]<=[2,4]T(1,0)``, the ids 0 to 7 in the shape [2,4], transposed, read as
    four groups of two; ``mesh['data'=4,'model'=2] {'model'}``, devices that differ in their position along one axis.
    """
    if listed := _GROUPS_INSIDE_BRACES.search(text):
        found = [_parse_ids(inside) for inside in _ONE_GROUP.findall(listed[1])]
        return tuple(group for group in found if group) if sum(map(len, found)) <= MAX_DEVICES else ()
    if tiled := _IOTA_GROUPS.search(text):
        return iota_groups(_parse_ids(tiled[1]), _parse_ids(tiled[2]), _parse_ids(tiled[3] or "")) or ()
    mesh = _MESH_GROUPS.search(text)
    return _parse_mesh_groups(mesh[1], mesh[2] or "", mesh[3]) or () if mesh else ()


def group_numbering(opcode: str, channel: object, flat: object) -> GroupNumbering:
    """The meaning of a collective's group numbers, from its channel and its flag for global device ids.

    Follows XLA's CollectiveOpGroupMode.
    """
    if not channel:
        return "replica"
    if opcode in ("collective-permute", "all-to-all", "collective-broadcast", "ragged-all-to-all"):
        return "partition"
    return "device" if flat else "replica of all partitions"


def groups_by_position(
    found: DeviceGroups, numbers: GroupNumbering, replicas: int, partitions: int
) -> DeviceGroups | None:
    """The groups by device positions in the assignment, replica by replica; no groups stand for one group of all.

    None where a group has a number that the program does not have, or where its replicas and partitions are unknown.
    """
    if not 0 < replicas * partitions <= MAX_DEVICES:
        return None
    laid = np.arange(replicas * partitions).reshape(replicas, partitions)
    rows = {"partition": laid.T, "device": laid.reshape(-1, 1)}.get(numbers, laid)
    given = [list(group) for group in found] or [list(range(len(rows)))]
    if any(not 0 <= number < len(rows) for group in given for number in group):
        return None
    if numbers == "replica of all partitions":
        return tuple(tuple(rows[group].ravel().tolist()) for group in given)
    return tuple(tuple(column[group].tolist()) for column in rows.T for group in given)


def groups_text_and_size(opcode: str, text: str, replicas: int, partitions: int) -> tuple[str, int | None]:
    """The part of a collective's HLO line with the groups, and the size of the largest group; None: unknown.

    For a program with several replicas and several partitions the groups are written by device positions.
    """
    form, found = find_groups_text(text), parse_groups(text)
    if not form or (not found and any(map(str.isdigit, form))):
        return form, None
    numbers = group_numbering(opcode, "channel_id=" in text, "use_global_device_ids=true" in text)
    there = groups_by_position(found, numbers, replicas, partitions)
    if there is None:
        return form, None if numbers == "replica of all partitions" else max(map(len, found), default=None)
    plain = there == found or (not found and len(there) == 1)
    return form if plain else f"replica_groups={format_groups(there)}", max(map(len, there))


def format_groups(found: DeviceGroups) -> str:
    """Groups as HLO lists them: ``{{0,1},{2,3}}``."""
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in found) + "}"


def iota_groups(shape: tuple[int, ...], reshape: tuple[int, ...], order: tuple[int, ...] = ()) -> DeviceGroups | None:
    """The groups of ``[shape]<=[reshape]T(order)``: an arange of `reshape`, transposed, cut into `shape`.

    None where these do not fit together.
    """
    laid = _iota_numbers(reshape, order)
    if laid is None or len(shape) != 2 or min(shape) < 1 or prod(shape) != len(laid):
        return None
    return tuple(tuple(group) for group in np.array(laid).reshape(shape).tolist())


def mesh_groups(sizes: Sequence[int], parts: Sequence[AxisPart], devices: Sequence[int]) -> DeviceGroups | None:
    """Groups of the mesh devices that differ in the given parts of its axes only; `sizes` are those of the axes.

    A part is an axis, the product of the parts before it in that axis, and its size. `devices` are numbered by position
    where none are listed. None where parts and axes do not fit together.
    """
    count = prod(sizes)
    if not 0 < count <= MAX_DEVICES or min(sizes, default=1) < 1 or len(devices) not in (0, count):
        return None
    cuts: list[tuple[int, int, int]] = []
    for axis, size in enumerate(sizes):
        mine = sorted((before, length) for at, before, length in parts if at == axis)
        edges = sorted({1, size, *(before for before, _ in mine), *(before * length for before, length in mine)})
        if any(low < 1 or high % low or high > size for low, high in pairwise(edges)):
            return None
        cuts += [(axis, low, high // low) for low, high in pairwise(edges)] or [(axis, 1, 1)]
    if not set(parts) <= set(cuts):
        return None
    chosen = [cuts.index(part) for part in parts]
    rest = [at for at in range(len(cuts)) if at not in chosen]
    laid = np.array(devices or range(count), np.int64).reshape([size for _, _, size in cuts])
    found = laid.transpose([*rest, *chosen]).reshape(-1, prod(cuts[at][2] for at in chosen))
    return tuple(tuple(group) for group in found.tolist())


def _iota_numbers(reshape: tuple[int, ...], order: tuple[int, ...]) -> list[int] | None:
    """The numbers of an arange of `reshape`, transposed; None where these do not fit together."""
    fits = 0 < prod(reshape) <= MAX_DEVICES and min(reshape, default=1) > 0
    if not fits or (order and sorted(order) != list(range(len(reshape)))):
        return None
    return np.arange(prod(reshape)).reshape(reshape).transpose(order or range(len(reshape))).ravel().tolist()


def _parse_mesh_groups(named: str, devices: str, along: str) -> DeviceGroups | None:
    """The groups of a mesh in text: its axes, its devices where they have another order, and the axes of the groups."""
    axes = [(quoted or bare, int(size[:_MAX_ID_DIGITS])) for quoted, bare, size in _MESH_AXIS.findall(named)]
    places = {name: at for at, (name, _) in enumerate(axes)}
    parts = list[AxisPart]()
    for quoted, bare, before, size in _MESH_AXIS_PART.findall(along):
        if (at := places.get(quoted or bare)) is None:
            return None
        parts.append((at, int(before[:_MAX_ID_DIGITS]), int(size[:_MAX_ID_DIGITS])) if before else (at, 1, axes[at][1]))
    tiled = _IOTA_NUMBERS.match(devices)
    order = _iota_numbers(_parse_ids(tiled[1]), _parse_ids(tiled[2] or "")) if tiled else _parse_ids(devices)
    return None if order is None else mesh_groups([size for _, size in axes], parts, order)


def _read_mesh_groups(fields: ProtoMessage) -> tuple[DeviceGroups | None, str]:
    """The groups along some axes of a mesh proto, and their text: ``mesh['data'=4,'model'=2] {'model'}``."""
    mesh = fields.submessage(1)
    axes = [(axis.text(1), axis.number(2)) for axis in mesh.submessages(1)] if mesh else []
    parts = [_read_axis_part(one, axes) for one in fields.submessages(2)]
    devices = mesh.numbers(2) if mesh else []
    named = ",".join(f"'{name}'={size}" for name, size in axes)
    order = f", device_ids=({','.join(map(str, devices))})" if devices else ""
    along = ",".join(
        f"'{axes[at][0]}'{f':({before}){size}' if size != axes[at][1] else ''}" if 0 <= at < len(axes) else "?"
        for at, before, size in parts
    )
    return mesh_groups([size for _, size in axes], parts, devices), f"mesh[{named}]{order} {{{along}}}"


def _read_axis_part(part: ProtoMessage, axes: list[tuple[str, int]]) -> AxisPart:
    """One part of a mesh axis, from its proto."""
    at, inner = part.number(1), part.submessage(2)
    size = axes[at][1] if 0 <= at < len(axes) else 0
    return (at, inner.number(1, 1), inner.number(2, 1)) if inner else (at, 1, size)


def _read_iota_groups(fields: ProtoMessage) -> tuple[DeviceGroups | None, str]:
    """The groups of an iota device list proto, and their text."""
    shape = (fields.number(1), fields.number(2))
    reshape = tuple(fields.numbers(3)) or (prod(shape),)
    order = tuple(fields.numbers(4)) or tuple(range(len(reshape)))
    turned = f"T({','.join(map(str, order))})" if order != tuple(range(len(reshape))) else ""
    return iota_groups(shape, reshape, order), f"[{shape[0]},{shape[1]}]<=[{','.join(map(str, reshape))}]{turned}"


def _parse_ids(text: str) -> tuple[int, ...]:
    """The numbers of a text with commas."""
    return tuple(int(word[:_MAX_ID_DIGITS]) for word in text.replace(" ", "").split(",") if word)
