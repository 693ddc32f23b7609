"""What an XLA profile says of the cost of an op, as columns of `ops`.

Owns the field numbers of a stat that holds a message of its own: bytes by memory and direction. Where the file does not
count, the shapes of the HLO tell; knows no events.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tracehound.formats.hlo import flops as hlo_flops
from tracehound.formats.hlo.cost import LARGEST, Cost
from tracehound.formats.hlo.line import HOST_SPACE, VECTOR_SPACE, bytes_in, line
from tracehound.formats.wire import BYTES, VARINT, WireError, fields
from tracehound.formats.xla.xstats import Value

Columns = dict[str, int | str | None]

ACCESS, OPERATION, SPACE, SIZE = 1, 1, 2, 3
READ, WRITE = 1, 2
HBM, CMEM, VMEM = 1, 2, 3

_COLUMNS: Final = MappingProxyType(
    {
        (READ, CMEM): "cmem_read",
        (WRITE, CMEM): "cmem_written",
        (READ, VMEM): "vmem_read",
        (WRITE, VMEM): "vmem_written",
    }
)


def accessed(breakdown: Value | None) -> Columns:
    """The bytes of each memory in a `memory_access_breakdown`; what is damaged says nothing of any."""
    if not isinstance(breakdown, bytes):
        return {}
    found: Columns = {"hbm_bytes": 0}
    try:
        for part in fields(breakdown, 0, len(breakdown)):
            if (part.number, part.wire) == (ACCESS, BYTES):
                inner = fields(breakdown, part.at, part.at + part.value)
                one = {each.number: each.value for each in inner if each.wire == VARINT}
                space, size = one.get(SPACE, 0), one.get(SIZE, 0)
                name = "hbm_bytes" if space == HBM else _COLUMNS.get((one.get(OPERATION, 0), space))
                if name is not None:
                    found[name] = int(found.get(name) or 0) + size
    except WireError:
        return {}
    return {name: size for name, size in found.items() if int(size or 0) < LARGEST}


def of_shapes(cost: Cost | None) -> Columns:
    """What the HLO proto tells of an op."""
    if cost is None:
        return {}
    return {
        "estimated_flops": cost.flops,
        "estimated_bytes": cost.bytes,
        "host_bytes": cost.on_host,
        "dtype": cost.dtype or None,
    }


def told_by_text(name: str, text: str) -> Columns:
    """What the HLO line of an op tells: how much of it lies on the host, and what a custom call may compute."""
    found = line(text)
    if found is None:
        return {}
    on_host = bytes_in(found, HOST_SPACE)
    columns: Columns = {"host_bytes": on_host if on_host < LARGEST else None}
    if found.opcode == "custom-call" and found.operands:  # without any it may only give out memory
        flops = hlo_flops.custom_call(f"{found.target} {name}", found.results, found.operands)
        moved = sum(one.bytes for one in (*found.results, *found.operands))
        columns["estimated_flops"] = flops if flops is not None and flops < LARGEST else None
        columns["estimated_bytes"] = moved if moved < LARGEST else None
    return columns


def off_chip(text: str, moved: int | None) -> Columns:
    """Which of the bytes that an op of a TPU moves are those of its main memory, by its HLO line.

    For files that tell no bytes by memory: those of operands and results that lie on the chip are taken off.
    """
    found = line(text) if moved is not None else None
    if found is None or moved is None:
        return {}
    return {"hbm_bytes": max(0, moved - bytes_in(found, VECTOR_SPACE))}
