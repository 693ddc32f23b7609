"""What the instructions of an HLO module cost, estimated from their shapes: for profiles that do not count (GPU, CPU).

Owns the field numbers of HloProto that say what an instruction computes, and what it reads and writes. An instruction
is read only when it, or a fusion around it, is asked for. The rules for single instructions are `hlo_flops`'.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tracehound.formats import hlo_flops
from tracehound.formats.hlo import (
    COMPUTATION,
    ID,
    INSTRUCTION,
    MODULE,
    NAME,
    OPCODE,
    OPERANDS,
    SHAPE,
    TARGET,
    packed,
)
from tracehound.formats.hlo_flops import Convolution, Side
from tracehound.formats.hlo_shape import DIMENSIONS, ELEMENT_TYPE, ELEMENTS, LAYOUT, MEMORY_SPACE, TUPLE, TUPLE_SHAPES
from tracehound.formats.hlo_shapes import Array
from tracehound.formats.wire import BYTES, VARINT, Bytes, Field, Rows, WireError, fields, rounds, signed

COMPUTATION_ID, ROOT_ID, WINDOW, CONVOLUTION, DOT, CALLED, GROUPS, BATCH_GROUPS = 5, 6, 15, 16, 30, 38, 50, 58
LEFT_CONTRACTING = 1
SIZE, STRIDE, PADDING, DILATION, BASE_DILATION = 1, 2, 3, 5, 6
INPUT_BATCH, INPUT_FEATURE, INPUT_SPATIAL, KERNEL_OUTPUT, OUTPUT_SPATIAL = 7, 8, 11, 4, 12
HOST_SPACE = 5
"""The memory space of the host in a layout."""

LARGEST = 1 << 63
_MOST = 1 << 16
"""A fusion holds fewer instructions than this."""

_SLICES = ("slice", "dynamic-slice", "gather")
_FREE = frozenset({"parameter", "constant", "bitcast", "get-tuple-element", "tuple", "after-all", "iota"})
_CALLING = frozenset({"while", "call", "conditional", "async-start", "async-update", "async-done"})
"""What runs other computations, whose instructions are ops of their own."""


class Cost(NamedTuple):
    """Operations and bytes of one execution; None where shapes do not tell. `dtype` is what a product multiplies."""

    flops: int | None
    bytes: int | None
    on_host: int = 0
    dtype: str = ""


class _Instruction(NamedTuple):
    opcode: str
    results: tuple[Array, ...]
    operands: tuple[int, ...]
    called: tuple[int, ...]
    contracting: tuple[int, ...]
    convolution: Convolution | None
    target: str


def costs(file: Bytes, start: int, end: int, wanted: Collection[str]) -> dict[str, Cost]:
    """The cost of the instructions with these names in the HloProto `[start, end)`; what is damaged has none."""
    try:
        module = _Module(file, start, end)
    except WireError:
        return {}
    found = {}
    for row in module.rows_of(wanted):
        try:
            found[module.name(row)] = module.cost(row)
        except (WireError, RecursionError):
            continue
    return found


@dataclass
class _Module:
    """The instructions of a module, read when they are asked for."""

    file: Bytes
    start: int
    end: int
    _read: dict[int, _Instruction] = field(default_factory=dict)
    _fused: dict[tuple[int, ...], tuple[int, str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bodies: dict[int, range] = {}
        self._roots: dict[int, int] = {}
        spans: list[tuple[int, int]] = []
        for proto in _inside(self.file, self.start, self.end, MODULE):
            for computation in _inside(self.file, proto.at, proto.at + proto.value, COMPUTATION):
                first, number, root = len(spans), -1, -1
                for part in fields(self.file.data, computation.at, computation.at + computation.value):
                    if (part.number, part.wire) == (INSTRUCTION, BYTES):
                        spans.append((part.at, part.at + part.value))
                    elif (part.number, part.wire) == (COMPUTATION_ID, VARINT):
                        number = part.value
                    elif (part.number, part.wire) == (ROOT_ID, VARINT):
                        root = part.value
                self._bodies[number], self._roots[number] = range(first, len(spans)), root
        self._span: Rows = np.array(spans, np.int64).reshape(-1, 2)
        self._named = np.zeros((len(spans), 2), np.int64)
        ids = np.full(len(spans), -1, np.int64)
        for now in rounds(self.file.words, self._span[:, 0].copy(), self._span[:, 1].copy()):
            here, known = now.where(NAME, BYTES), now.where(ID, VARINT)
            self._named[now.message[here], 0] = now.at[here]
            self._named[now.message[here], 1] = now.at[here] + now.value[here].view(np.int64)
            ids[now.message[known]] = now.value[known].view(np.int64)
        self._row = {number: row for row, number in enumerate(ids.tolist())}

    def name(self, row: int) -> str:
        """The name of an instruction."""
        low, high = self._named[row].tolist()
        return self.file.text(low, high)

    def rows_of(self, wanted: Collection[str]) -> list[int]:
        """The instructions with these names."""
        return [row for row in range(len(self._span)) if self.name(row) in wanted]

    def cost(self, row: int) -> Cost:
        """What an instruction that is an op of its own costs."""
        this = self._instruction(row)
        if this.opcode in _CALLING:
            return Cost(None, None)
        operands = [array for one in this.operands for array in self._results(one)]
        on_host = sum(one.bytes for one in (*operands, *this.results) if one.on_host)
        if this.opcode == "custom-call":
            names = f"{this.target} {self.name(row)}"
            flops = hlo_flops.custom_call(names, this.results, operands, this.convolution)
            return _bounded(Cost(flops, _library_bytes(this, operands), on_host, _dtype(operands)))
        if this.opcode == "fusion":
            return _bounded(self._fusion(this, on_host))
        flops = self._flops(this)
        return _bounded(Cost(flops, self._moved(this), on_host, self._multiplies(this)))

    def _fusion(self, this: _Instruction, on_host: int) -> Cost:
        """The operations inside, and the bytes that pass its border."""
        flops, dtype, read = self._inside(this.called)
        root = self._instruction(at) if (at := self._root(this.called)) is not None else this
        written = sum(one.bytes for one in this.results)
        if root.opcode == "dynamic-update-slice" and len(root.operands) > 1:
            written = sum(one.bytes for one in self._results(root.operands[1]))
        return Cost(flops, read + written, on_host, dtype)

    def _root(self, called: tuple[int, ...]) -> int | None:
        """The instruction that makes the result of a fusion."""
        return self._row.get(self._roots.get(called[0], -1)) if called else None

    def _inside(self, called: tuple[int, ...]) -> tuple[int, str, int]:
        """Operations in a fusion, the type that its product multiplies, and bytes that it reads of its parameters.

        Of an array that is only sliced the slices are read.
        """
        if called in self._fused:
            return self._fused[called]
        body = [row for one in called for row in self._bodies.get(one, range(0))][:_MOST]
        inner = {row: self._instruction(row) for row in body}
        flops, dtype = 0, ""
        users: dict[int | None, list[_Instruction]] = {}
        for one in inner.values():
            more, kind = self._inside(one.called)[:2] if one.opcode == "fusion" else (
                self._flops(one), self._multiplies(one)
            )  # fmt: skip
            flops, dtype = flops + more, dtype or kind
            for operand in one.operands:
                users.setdefault(self._row.get(operand), []).append(one)
        read = sum(_read_of(one, users.get(row, [])) for row, one in inner.items() if one.opcode == "parameter")
        self._fused[called] = flops, dtype, read
        return self._fused[called]

    def _moved(self, this: _Instruction) -> int:
        """Bytes that an instruction reads and writes."""
        if this.opcode in _FREE:
            return 0
        written = sum(one.bytes for one in this.results)
        if this.opcode in _SLICES:
            return 2 * written
        if this.opcode == "dynamic-update-slice" and len(this.operands) > 1:
            return 2 * sum(one.bytes for one in self._results(this.operands[1]))
        return written + sum(one.bytes for operand in this.operands for one in self._results(operand))

    def _flops(self, this: _Instruction) -> int:
        """The operations of an instruction that is no fusion."""
        sources = [self._results(one) for one in this.operands]
        if not this.results or not sources or not all(sources):
            return 0
        result = this.results[0]
        if this.opcode == "dot":
            return hlo_flops.product(sources[0][0], result, this.contracting)
        if this.opcode == "convolution" and this.convolution is not None and len(sources) > 1:
            return hlo_flops.convolution(this.convolution, sources[0][0], sources[1][0], result)
        if this.opcode in ("reduce", "all-reduce"):
            return hlo_flops.reduction(this.opcode, sources[0][0], result)
        return hlo_flops.elementwise(this.opcode, result)

    def _multiplies(self, this: _Instruction) -> str:
        """The type of what a product multiplies; nothing for other instructions."""
        if this.opcode not in ("dot", "convolution") or not this.operands:
            return ""
        return _dtype(self._results(this.operands[0]))

    def _results(self, number: int) -> tuple[Array, ...]:
        row = self._row.get(number)
        return self._instruction(row).results if row is not None else ()

    def _instruction(self, row: int) -> _Instruction:
        if row not in self._read:
            self._read[row] = _instruction(self.file, *self._span[row].tolist())
        return self._read[row]


def _read_of(parameter: _Instruction, users: Sequence[_Instruction]) -> int:
    """Bytes that a fusion reads of a parameter."""
    whole = sum(one.bytes for one in parameter.results)
    if users and all(user.opcode in _SLICES for user in users):
        return min(whole, sum(one.bytes for user in users for one in user.results))
    return whole


def _library_bytes(this: _Instruction, operands: Sequence[Array]) -> int:
    """Operands and results of a custom call, without the workspace that a library asks for: a last result in bytes."""
    results = this.results
    if len(results) > 1 and results[-1].element in ("s8", "u8") and len(results[-1].dims) == 1:
        results = results[:-1]
    return sum(one.bytes for one in (*operands, *results))


def _dtype(operands: Sequence[Array]) -> str:
    return operands[0].element if operands else ""


def _bounded(cost: Cost) -> Cost:
    """The same without numbers that no frame can hold."""
    flops, moved = (value if value is not None and value < LARGEST else None for value in cost[:2])
    return Cost(flops, moved, cost.on_host if cost.on_host < LARGEST else 0, cost.dtype)


def _inside(file: Bytes, start: int, end: int, number: int) -> list[Field]:
    """The messages with this number."""
    return [part for part in fields(file.data, start, end) if (part.number, part.wire) == (number, BYTES)]


def _instruction(file: Bytes, start: int, end: int) -> _Instruction:
    """One instruction. Raises WireError."""
    parts: dict[int, list[Field]] = {}
    for part in fields(file.data, start, end):
        parts.setdefault(part.number, []).append(part)
    how = None
    if CONVOLUTION in parts and WINDOW in parts:
        groups, batches = (_number(parts, one) or 1 for one in (GROUPS, BATCH_GROUPS))
        how = _convolution(file, parts[CONVOLUTION][-1], parts[WINDOW][-1], groups, batches)
    shape = parts.get(SHAPE)
    return _Instruction(
        opcode=_text(file, parts, OPCODE),
        results=_arrays(file, shape[-1].at, shape[-1].at + shape[-1].value) if shape else (),
        operands=_numbers(file, parts.get(OPERANDS, ())),
        called=_numbers(file, parts.get(CALLED, ())),
        contracting=_repeated(file, parts[DOT][-1], LEFT_CONTRACTING) if DOT in parts else (),
        convolution=how,
        target=_text(file, parts, TARGET),
    )


def _text(file: Bytes, parts: dict[int, list[Field]], number: int) -> str:
    found = parts.get(number)
    return file.text(found[-1].at, found[-1].at + found[-1].value) if found and found[-1].wire == BYTES else ""


def _number(parts: dict[int, list[Field]], number: int) -> int:
    found = parts.get(number)
    return signed(found[-1].value) if found and found[-1].wire == VARINT else 0


def _numbers(file: Bytes, found: Sequence[Field]) -> tuple[int, ...]:
    """A repeated number, packed or not."""
    values: list[int] = []
    for part in found:
        values.extend(packed(file, part.at, part.at + part.value) if part.wire == BYTES else [part.value])
    return tuple(map(signed, values))


def _repeated(file: Bytes, message: Field, number: int) -> tuple[int, ...]:
    """A repeated number of a message."""
    inner = fields(file.data, message.at, message.at + message.value)
    return _numbers(file, [part for part in inner if part.number == number])


def _arrays(file: Bytes, start: int, end: int) -> tuple[Array, ...]:
    """The arrays of a ShapeProto, those of a tuple in order. Raises WireError."""
    element, dims, space, inner = 0, list[int](), 0, list[Array]()
    for part in fields(file.data, start, end):
        stop = part.at + part.value
        if (part.number, part.wire) == (ELEMENT_TYPE, VARINT):
            element = part.value
        elif part.number == DIMENSIONS:
            dims.extend(packed(file, part.at, stop) if part.wire == BYTES else [part.value])
        elif (part.number, part.wire) == (TUPLE_SHAPES, BYTES):
            inner.extend(_arrays(file, part.at, stop))
        elif (part.number, part.wire) == (LAYOUT, BYTES):
            space = next((one.value for one in fields(file.data, part.at, stop) if one.number == MEMORY_SPACE), 0)
    if element == TUPLE:
        return tuple(inner)
    return (Array(ELEMENTS.get(element, "opaque"), tuple(dims), space == HOST_SPACE),)


def _convolution(file: Bytes, numbers: Field, window: Field, groups: int, batches: int) -> Convolution:
    """How a convolution's dimensions lie, and its window. Raises WireError."""
    single = {
        part.number: part.value
        for part in fields(file.data, numbers.at, numbers.at + numbers.value)
        if part.wire == VARINT
    }
    sides = [
        {part.number: signed(part.value) for part in fields(file.data, side.at, side.at + side.value)}
        for side in _inside(file, window.at, window.at + window.value, 1)
    ]
    return Convolution(
        input_batch=single.get(INPUT_BATCH, 0),
        input_feature=single.get(INPUT_FEATURE, 0),
        input_spatial=_repeated(file, numbers, INPUT_SPATIAL),
        kernel_output=single.get(KERNEL_OUTPUT, 0),
        output_spatial=_repeated(file, numbers, OUTPUT_SPATIAL),
        window=[
            Side(
                side.get(SIZE, 1), side.get(STRIDE, 1), side.get(PADDING, 0), side.get(DILATION, 1),
                side.get(BASE_DILATION, 1),
            )
            for side in sides
        ],
        groups=groups,
        batch_groups=batches,
    )  # fmt: skip
