"""Costs of an op as columns of `ops`: from the memory breakdown of its stats, else from the shapes in its HLO."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tracehound.formats.hlo import cost_model as hlo_flops
from tracehound.formats.hlo.cost_model import COST_LIMIT, InstructionCost
from tracehound.formats.hlo.hlo_line_parser import HOST_SPACE, VECTOR_SPACE, bytes_in_memory_space, parse_line
from tracehound.formats.protobuf_wire import BYTES, VARINT, WireError, iterate_fields

CostColumns = dict[str, int | str | None]

ACCESS_FIELD, OPERATION_FIELD, SPACE_FIELD, SIZE_FIELD = 1, 1, 2, 3
READ, WRITE = 1, 2
HBM, CMEM, VMEM = 1, 2, 3

_COLUMN_OF_ACCESS: Final = MappingProxyType(
    {
        (READ, CMEM): "cmem_read",
        (WRITE, CMEM): "cmem_written",
        (READ, VMEM): "vmem_read",
        (WRITE, VMEM): "vmem_written",
    }
)


def bytes_by_memory(breakdown: object) -> CostColumns:
    """Bytes of each memory in a `memory_access_breakdown`; empty if it is damaged."""
    if not isinstance(breakdown, bytes):
        return {}
    columns: CostColumns = {"hbm_bytes": 0}
    try:
        for part in iterate_fields(breakdown, 0, len(breakdown)):
            if (part.number, part.wire) == (ACCESS_FIELD, BYTES):
                fields_ = iterate_fields(breakdown, part.at, part.at + part.value)
                values = {each.number: each.value for each in fields_ if each.wire == VARINT}
                space, size = values.get(SPACE_FIELD, 0), values.get(SIZE_FIELD, 0)
                name = "hbm_bytes" if space == HBM else _COLUMN_OF_ACCESS.get((values.get(OPERATION_FIELD, 0), space))
                if name is not None:
                    columns[name] = int(columns.get(name) or 0) + size
    except WireError:
        return {}
    return {name: size for name, size in columns.items() if int(size or 0) < COST_LIMIT}


def cost_from_hlo_proto(cost: InstructionCost | None) -> CostColumns:
    """Cost of an op by its HLO proto."""
    if cost is None:
        return {}
    return {
        "estimated_flops": cost.flops,
        "estimated_bytes": cost.bytes,
        "host_bytes": cost.on_host,
        "dtype": cost.dtype or None,
    }


def cost_from_hlo_text(name: str, text: str) -> CostColumns:
    """Cost of an op by its HLO line: its bytes in host memory, and the estimated cost of a custom call."""
    instruction = parse_line(text)
    if instruction is None:
        return {}
    on_host = bytes_in_memory_space(instruction, HOST_SPACE)
    columns: CostColumns = {"host_bytes": on_host if on_host < COST_LIMIT else None}
    if instruction.opcode == "custom-call" and instruction.operands:  # without operands it may only allocate memory
        flops = hlo_flops.custom_call_flops(f"{instruction.target} {name}", instruction.results, instruction.operands)
        moved = sum(shape.bytes for shape in (*instruction.results, *instruction.operands))
        columns["estimated_flops"] = flops if flops is not None and flops < COST_LIMIT else None
        columns["estimated_bytes"] = moved if moved < COST_LIMIT else None
    return columns


def hbm_bytes_from_hlo_text(text: str, moved: int | None) -> CostColumns:
    """Bytes in main memory among those that a TPU op moves, by its HLO line.

    For files without bytes by memory: the bytes of operands and results on the chip are subtracted.
    """
    instruction = parse_line(text) if moved is not None else None
    if instruction is None or moved is None:
        return {}
    return {"hbm_bytes": max(0, moved - bytes_in_memory_space(instruction, VECTOR_SPACE))}
