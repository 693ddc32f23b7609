"""Which devices take part in a collective together.

Owns replica groups in their forms: listed, iota, or one of all; and what their numbers stand for. Knows no text but
that of HLO. A hostile proto may claim any number of devices: groups are made only as far as `MOST`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from tracehound.formats.hlo_fields import Message
from tracehound.hlo.instruction import CHANNEL, Instruction

REPLICA_GROUPS, PAIRS, GLOBAL_IDS, DEVICE_LIST, IOTA_LIST, MESH_LIST = 49, 52, 71, 87, 92, 93

MOST: Final = 1 << 16
"""Devices in all groups together, more than any job has."""

Groups = tuple[tuple[int, ...], ...]

Part = tuple[int, int, int]
"""Part of an axis of a mesh: the axis, the product of what lies before it in that axis, its size."""


@dataclass(frozen=True)
class Members:
    """Who takes part. `groups` is empty where all do, None where the proto says it in no way that is known here.

    `form` is how HLO writes them: ``{{0,1},{2,3}}`` or ``[4,2]<=[2,4]T(1,0)``. `mode` says what the numbers are:
    ``replica`` and ``partition`` ids, or positions in the flattened device assignment (``device``); a collective over
    partitions of replica groups is ``replica of all partitions``.
    """

    groups: Groups | None
    form: str
    mode: str


def members_of(instruction: Instruction) -> Members | None:
    """Who takes part in a collective; None where the proto has no groups at all, as a ``-done`` has none."""
    fields = instruction.fields
    groups, form = _groups(fields)
    if not form and not instruction.collective:
        return None
    return Members(groups, form, _mode(instruction))


def pairs_of(instruction: Instruction) -> Groups:
    """Source and target of each transfer of a collective-permute."""
    return tuple((pair.number(1), pair.number(2)) for pair in instruction.fields.all(PAIRS))


def iota(shape: tuple[int, ...], reshape: tuple[int, ...], order: tuple[int, ...]) -> Groups | None:
    """The groups of ``[shape]<=[reshape]T(order)``: an arange of `reshape`, transposed, cut into `shape`.

    None where these do not fit together.
    """
    count = prod(reshape)
    fits = len(shape) == 2 and 0 < count <= MOST and prod(shape) == count and min(*shape, *reshape) > 0
    if not fits or sorted(order) != list(range(len(reshape))):
        return None
    laid = np.arange(count).reshape(reshape).transpose(order).reshape(shape)
    return tuple(tuple(group) for group in laid.tolist())


def _groups(fields: Message) -> tuple[Groups | None, str]:
    """The groups and how HLO writes them, in whichever field they are."""
    listed = fields.one(DEVICE_LIST)
    compact = fields.one(IOTA_LIST) or (listed.one(2) if listed else None)
    if compact is not None:
        return _compact(compact)
    if (mesh := fields.one(MESH_LIST)) is not None:
        return _of_mesh(mesh)
    told = listed.all(1) if listed and 1 in listed else fields.all(REPLICA_GROUPS)
    groups = tuple(tuple(one.numbers(1)) for one in told)
    return groups, _written(groups) if groups or listed or REPLICA_GROUPS in fields else ""


def _of_mesh(fields: Message) -> tuple[Groups | None, str]:
    """The groups along some axes of a mesh: ``mesh['data'=4,'model'=2] {'model'}``."""
    mesh = fields.one(1)
    axes = [(axis.text(1), axis.number(2)) for axis in mesh.all(1)] if mesh else []
    parts = [_axis_part(one, axes) for one in fields.all(2)]
    named = ",".join(f"'{name}'={size}" for name, size in axes)
    along = ",".join(
        f"'{axes[at][0]}'{f':({before}){size}' if size != axes[at][1] else ''}" if 0 <= at < len(axes) else "?"
        for at, before, size in parts
    )
    groups = along_axes([size for _, size in axes], parts, mesh.numbers(2) if mesh else [])
    return groups, f"mesh[{named}] {{{along}}}"


def _axis_part(part: Message, axes: list[tuple[str, int]]) -> Part:
    at, inner = part.number(1), part.one(2)
    size = axes[at][1] if 0 <= at < len(axes) else 0
    return (at, inner.number(1, 1), inner.number(2, 1)) if inner else (at, 1, size)


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
    groups = laid.transpose([*rest, *chosen]).reshape(-1, prod(cuts[at][2] for at in chosen))
    return tuple(tuple(group) for group in groups.tolist())


def _compact(fields: Message) -> tuple[Groups | None, str]:
    shape = (fields.number(1), fields.number(2))
    reshape = tuple(fields.numbers(3)) or (prod(shape),)
    order = tuple(fields.numbers(4)) or tuple(range(len(reshape)))
    turned = f"T({','.join(map(str, order))})" if order != tuple(range(len(reshape))) else ""
    return iota(shape, reshape, order), f"[{shape[0]},{shape[1]}]<=[{','.join(map(str, reshape))}]{turned}"


def _written(groups: Groups) -> str:
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"


def _mode(instruction: Instruction) -> str:
    """What the numbers are, as XLA decides it by channel and flag."""
    channel, flat = instruction.fields.number(CHANNEL), instruction.fields.number(GLOBAL_IDS)
    if not channel:
        return "replica"
    if instruction.collective in ("collective-permute", "all-to-all", "collective-broadcast", "ragged-all-to-all"):
        return "partition"
    return "device" if flat else "replica of all partitions"
