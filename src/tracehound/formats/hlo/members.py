"""Which devices an HLO collective joins: groups of ids, as a proto has them and as HLO writes them.

Owns the forms of replica groups: listed, iota, and along axes of a mesh; and what their numbers stand for. Knows no
ranks: ids are those of the program's device assignment. A hostile file may claim any number of devices: groups are made
only as far as `MOST`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Final, Literal

import numpy as np

from tracehound.formats.hlo.fields import Message

REPLICA_GROUPS, DEVICE_LIST, IOTA_LIST, MESH_LIST = 49, 87, 92, 93
CHANNEL, GLOBAL_IDS = 26, 71

MOST: Final = 1 << 16
"""Devices in all groups together, more than any job has."""

Groups = tuple[tuple[int, ...], ...]

Numbers = Literal["replica", "partition", "device", "replica of all partitions"]
"""What the numbers in groups stand for: a group of replicas is one in each partition, or one with all partitions of
them; a group of partitions one in each replica; ``device`` numbers are positions in the device assignment."""

Part = tuple[int, int, int]
"""Part of an axis of a mesh: the axis, the product of what lies before it in that axis, its size."""

_DIGITS: Final = 9

_LISTED: Final = re.compile(r"replica_groups=\{(\{[\d,{}\s]*\})\}")
_GROUP: Final = re.compile(r"\{([\d,\s]*)\}")
_TILED: Final = r"\[([\d,]+)\](?:T\(([\d,]+)\))?"
_IOTA: Final = re.compile(rf"replica_groups=\[([\d,]+)\]<={_TILED}")
_MESH: Final = re.compile(
    r"replica_groups=mesh\[((?:'[^']*'|[^'\]])*)\](?:,\s?device_ids=\(([\d,\s]*|\[[\d,]+\](?:T\([\d,]+\))?)\))?"
    r"\s?\{((?:'[^']*'|[^'}])*)\}"
)
_ARRAY: Final = re.compile(_TILED)
_AXIS: Final = re.compile(r"(?:'([^']*)'|(?<![^',=\s])([^',=\s]+))=(\d+)")
_PART: Final = re.compile(r"(?:'([^']*)'|([^',:\s]+))(?::\((\d+)\)(\d+))?")
_LIST: Final = re.compile(r"replica_groups=\{[\d,{}\s]*\}")


def replicas_of(proto: Message) -> list[tuple[int, ...]]:
    """The devices of each replica, one for each partition, in the device assignment of a program."""
    return list(zip(*(partition.numbers(_REPLICAS) for partition in proto.all(_PARTITIONS)), strict=False))


_REPLICAS, _PARTITIONS = 1, 3


def groups_of(fields: Message) -> tuple[Groups | None, str]:
    """The groups that an instruction's proto names, and how HLO writes them: ``{{0,1},{2,3}}``, ``[2,2]<=[4]``.

    The groups are empty where all devices are one, None where they make no sense; the text is empty where the proto
    says nothing of them.
    """
    listed = fields.one(DEVICE_LIST)
    compact = fields.one(IOTA_LIST) or (listed.one(2) if listed else None)
    if compact is not None:
        return _compact(compact)
    if (mesh := fields.one(MESH_LIST)) is not None:
        return _of_mesh(mesh)
    told = listed.all(1) if listed and 1 in listed else fields.all(REPLICA_GROUPS)
    found = tuple(tuple(one.numbers(1)) for one in told)
    return found, written(found) if found or listed or REPLICA_GROUPS in fields else ""


def spelt(text: str) -> str:
    """The part of an HLO line that names the groups; empty where it names none, and all devices are one group."""
    match = _LIST.search(text) or _IOTA.search(text) or _MESH.search(text)
    return match[0] if match else ""


def groups(text: str) -> Groups:
    """The groups that an HLO line names, each by its ids; empty where it names none or they make no sense.

    All spellings: ``{{0,1},{2,3}}``; ``[4,2]<=[2,4]T(1,0)``, the ids 0 to 7 in the shape [2,4], transposed, read as
    four groups of two; ``mesh['data'=4,'model'=2] {'model'}``, those that differ in their place along one axis.
    """
    if listed := _LISTED.search(text):
        found = [_numbers(inside) for inside in _GROUP.findall(listed[1])]
        return tuple(group for group in found if group) if sum(map(len, found)) <= MOST else ()
    if tiled := _IOTA.search(text):
        return iota(_numbers(tiled[1]), _numbers(tiled[2]), _numbers(tiled[3] or "")) or ()
    mesh = _MESH.search(text)
    return _along(mesh[1], mesh[2] or "", mesh[3]) or () if mesh else ()


def numbers_of(opcode: str, channel: object, flat: object) -> Numbers:
    """What the numbers in the groups of a collective are, by whether it has a channel and ids of all devices.

    As XLA decides it (CollectiveOpGroupMode).
    """
    if not channel:
        return "replica"
    if opcode in ("collective-permute", "all-to-all", "collective-broadcast", "ragged-all-to-all"):
        return "partition"
    return "device" if flat else "replica of all partitions"


def placed(found: Groups, numbers: Numbers, replicas: int, partitions: int) -> Groups | None:
    """The groups by the positions of their devices in the assignment, replica by replica; of no groups what that means.

    None where a group has what the program does not, or nobody knows how many replicas and partitions that runs on.
    """
    if not 0 < replicas * partitions <= MOST:
        return None
    laid = np.arange(replicas * partitions).reshape(replicas, partitions)
    rows = {"partition": laid.T, "device": laid.reshape(-1, 1)}.get(numbers, laid)
    given = [list(group) for group in found] or [list(range(len(rows)))]
    if any(not 0 <= number < len(rows) for group in given for number in group):
        return None
    if numbers == "replica of all partitions":
        return tuple(tuple(rows[group].ravel().tolist()) for group in given)
    return tuple(tuple(column[group].tolist()) for column in rows.T for group in given)


def taking_part(opcode: str, text: str, replicas: int, partitions: int) -> tuple[str, int | None]:
    """The part of a collective's HLO line that names the groups, and how many devices the largest has; None: unknown.

    Where a program runs on several replicas and several partitions, the groups are spelt by positions of devices.
    """
    form, found = spelt(text), groups(text)
    if not form or (not found and any(map(str.isdigit, form))):
        return form, None
    numbers = numbers_of(opcode, "channel_id=" in text, "use_global_device_ids=true" in text)
    there = placed(found, numbers, replicas, partitions)
    if there is None:
        return form, None if numbers == "replica of all partitions" else max(map(len, found), default=None)
    plain = there == found or (not found and len(there) == 1)
    return form if plain else f"replica_groups={written(there)}", max(map(len, there))


def written(found: Groups) -> str:
    """Groups as HLO lists them: ``{{0,1},{2,3}}``."""
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in found) + "}"


def iota(shape: tuple[int, ...], reshape: tuple[int, ...], order: tuple[int, ...] = ()) -> Groups | None:
    """The groups of ``[shape]<=[reshape]T(order)``: an arange of `reshape`, transposed, cut into `shape`.

    None where these do not fit together.
    """
    laid = _tiled(reshape, order)
    if laid is None or len(shape) != 2 or min(shape) < 1 or prod(shape) != len(laid):
        return None
    return tuple(tuple(group) for group in np.array(laid).reshape(shape).tolist())


def along_axes(sizes: Sequence[int], parts: Sequence[Part], devices: Sequence[int]) -> Groups | None:
    """The groups of the devices of a mesh of these `sizes` that differ in the given parts of its axes alone.

    A part is an axis, the product of what lies before it in that axis, and its size. `devices` are numbered by their
    place where none are listed. None where parts and axes do not fit together.
    """
    count = prod(sizes)
    if not 0 < count <= MOST or min(sizes, default=1) < 1 or len(devices) not in (0, count):
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


def _tiled(reshape: tuple[int, ...], order: tuple[int, ...]) -> list[int] | None:
    """The numbers of an arange of `reshape`, transposed; None where these do not fit together."""
    fits = 0 < prod(reshape) <= MOST and min(reshape, default=1) > 0
    if not fits or (order and sorted(order) != list(range(len(reshape)))):
        return None
    return np.arange(prod(reshape)).reshape(reshape).transpose(order or range(len(reshape))).ravel().tolist()


def _along(named: str, devices: str, along: str) -> Groups | None:
    """The groups of a mesh in text: its axes, its devices where they have another order, and those axes it is along."""
    axes = [(quoted or bare, int(size[:_DIGITS])) for quoted, bare, size in _AXIS.findall(named)]
    places = {name: at for at, (name, _) in enumerate(axes)}
    parts = list[Part]()
    for quoted, bare, before, size in _PART.findall(along):
        if (at := places.get(quoted or bare)) is None:
            return None
        parts.append((at, int(before[:_DIGITS]), int(size[:_DIGITS])) if before else (at, 1, axes[at][1]))
    tiled = _ARRAY.match(devices)
    order = _tiled(_numbers(tiled[1]), _numbers(tiled[2] or "")) if tiled else _numbers(devices)
    return None if order is None else along_axes([size for _, size in axes], parts, order)


def _of_mesh(fields: Message) -> tuple[Groups | None, str]:
    """The groups along some axes of a mesh: ``mesh['data'=4,'model'=2] {'model'}``."""
    mesh = fields.one(1)
    axes = [(axis.text(1), axis.number(2)) for axis in mesh.all(1)] if mesh else []
    parts = [_axis_part(one, axes) for one in fields.all(2)]
    devices = mesh.numbers(2) if mesh else []
    named = ",".join(f"'{name}'={size}" for name, size in axes)
    order = f", device_ids=({','.join(map(str, devices))})" if devices else ""
    along = ",".join(
        f"'{axes[at][0]}'{f':({before}){size}' if size != axes[at][1] else ''}" if 0 <= at < len(axes) else "?"
        for at, before, size in parts
    )
    return along_axes([size for _, size in axes], parts, devices), f"mesh[{named}]{order} {{{along}}}"


def _axis_part(part: Message, axes: list[tuple[str, int]]) -> Part:
    at, inner = part.number(1), part.one(2)
    size = axes[at][1] if 0 <= at < len(axes) else 0
    return (at, inner.number(1, 1), inner.number(2, 1)) if inner else (at, 1, size)


def _compact(fields: Message) -> tuple[Groups | None, str]:
    shape = (fields.number(1), fields.number(2))
    reshape = tuple(fields.numbers(3)) or (prod(shape),)
    order = tuple(fields.numbers(4)) or tuple(range(len(reshape)))
    turned = f"T({','.join(map(str, order))})" if order != tuple(range(len(reshape))) else ""
    return iota(shape, reshape, order), f"[{shape[0]},{shape[1]}]<=[{','.join(map(str, reshape))}]{turned}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word[:_DIGITS]) for word in text.replace(" ", "").split(",") if word)
