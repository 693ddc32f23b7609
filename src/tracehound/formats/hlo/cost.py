"""What the instructions of an HLO module cost, estimated from their shapes: for profiles that do not count (GPU, CPU).

Owns the field numbers of HloProto that say how an instruction computes, and what it reads and writes. An instruction is
read only when it, or a fusion around it, is asked for. The rules for single instructions are `hlo.flops`'.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from tracehound.formats.hlo import flops as hlo_flops
from tracehound.formats.hlo.fields import Message
from tracehound.formats.hlo.flops import Convolution, Side
from tracehound.formats.hlo.line import Array
from tracehound.formats.hlo.located import (
    BATCH_GROUPS,
    CALLED,
    CONVOLUTION,
    DOT,
    FEATURE_GROUPS,
    OPCODE,
    OPERANDS,
    SHAPE,
    TARGET,
    WINDOW,
    Located,
)
from tracehound.formats.hlo.shape import Shape, shape_of
from tracehound.formats.wire import WireError

LEFT_CONTRACTING = 1
SIZE, STRIDE, PADDING, DILATION, BASE_DILATION = 1, 2, 3, 5, 6
INPUT_BATCH, INPUT_FEATURE, INPUT_SPATIAL, KERNEL_OUTPUT, OUTPUT_SPATIAL = 7, 8, 11, 4, 12

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


def costs(module: Located, wanted: Collection[str]) -> dict[str, Cost]:
    """The cost of the instructions with these names; what is damaged has none."""
    estimate, found = _Estimate(module), dict[str, Cost]()
    for name, row in module.named(wanted).items():
        try:
            found[name] = estimate.of(row)
        except (WireError, RecursionError):
            continue
    return found


class _Estimate(Struct):
    """What the instructions of a module cost, each read when it is needed."""

    module: Located
    _read: dict[int, _Instruction] = field(default_factory=dict)
    _fused: dict[tuple[int, ...], tuple[int, str, int]] = field(default_factory=dict)

    def of(self, row: int) -> Cost:
        """What an instruction that is an op of its own costs."""
        this = self._instruction(row)
        if this.opcode in _CALLING:
            return Cost(None, None)
        operands = [array for one in this.operands for array in self._results(one)]
        on_host = sum(one.bytes for one in (*operands, *this.results) if one.on_host)
        if this.opcode == "custom-call":
            names = f"{this.target} {self.module.names[row]}"
            flops = hlo_flops.custom_call(names, this.results, operands, this.convolution)
            return _bounded(Cost(flops, _library_bytes(this, operands), on_host, _dtype(operands)))
        if this.opcode == "fusion":
            return _bounded(self._fusion(this, on_host))
        flops = self._flops(this)
        return _bounded(Cost(flops, self._moved(this), on_host, self._multiplies(this)))

    def _fusion(self, this: _Instruction, on_host: int) -> Cost:
        """The operations inside, and the bytes that pass its border."""
        flops, dtype, read = self._inside(this.called)
        at = self.module.root(this.called[0]) if this.called else None
        root = this if at is None else self._instruction(at)
        written = sum(one.bytes for one in this.results)
        if root.opcode == "dynamic-update-slice" and len(root.operands) > 1:
            written = sum(one.bytes for one in self._results(root.operands[1]))
        return Cost(flops, read + written, on_host, dtype)

    def _inside(self, called: tuple[int, ...]) -> tuple[int, str, int]:
        """Operations in a fusion, the type that its product multiplies, and bytes that it reads of its parameters.

        Of an array that is only sliced the slices are read.
        """
        if called in self._fused:
            return self._fused[called]
        body = [row for one in called for row in self.module.bodies.get(one, range(0))][:_MOST]
        inner = {row: self._instruction(row) for row in body}
        flops, dtype = 0, ""
        users: dict[int | None, list[_Instruction]] = {}
        for one in inner.values():
            more, kind = self._inside(one.called)[:2] if one.opcode == "fusion" else (
                self._flops(one), self._multiplies(one)
            )  # fmt: skip
            flops, dtype = flops + more, dtype or kind
            for operand in one.operands:
                users.setdefault(self.module.rows.get(operand), []).append(one)
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
        row = self.module.rows.get(number)
        return self._instruction(row).results if row is not None else ()

    def _instruction(self, row: int) -> _Instruction:
        if row not in self._read:
            self._read[row] = _instruction(self.module.table.message(row))
        return self._read[row]


def _read_of(parameter: _Instruction, users: Sequence[_Instruction]) -> int:
    """Bytes that a fusion reads of a parameter."""
    whole = sum(one.bytes for one in parameter.results)
    if users and all(user.opcode in _SLICES for user in users):
        return min(whole, sum(one.bytes for user in users for one in user.results))
    return whole


def _library_bytes(this: _Instruction, operands: Sequence[Array]) -> int | None:
    """Operands and results of a custom call, without the workspace that a library asks for: a last result in bytes.

    None without operands: it may only give out memory.
    """
    if not operands:
        return None
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


def _instruction(proto: Message) -> _Instruction:
    """One instruction, as far as its message makes sense."""
    dot = proto.one(DOT)
    return _Instruction(
        opcode=proto.text(OPCODE),
        results=tuple(_array(leaf) for leaf in shape_of(proto.one(SHAPE)).leaves) if SHAPE in proto else (),
        operands=tuple(proto.numbers(OPERANDS)),
        called=tuple(proto.numbers(CALLED)),
        contracting=tuple(dot.numbers(LEFT_CONTRACTING)) if dot is not None else (),
        convolution=_convolution(proto),
        target=proto.text(TARGET),
    )


def _array(leaf: Shape) -> Array:
    return Array(leaf.element, tuple(max(0, dim) for dim in leaf.dims), leaf.memory)


def _convolution(proto: Message) -> Convolution | None:
    """How a convolution's dimensions lie, and its window; None where the instruction does not say."""
    numbers, window = proto.one(CONVOLUTION), proto.one(WINDOW)
    if numbers is None or window is None:
        return None
    return Convolution(
        input_batch=numbers.number(INPUT_BATCH),
        input_feature=numbers.number(INPUT_FEATURE),
        input_spatial=numbers.numbers(INPUT_SPATIAL),
        kernel_output=numbers.number(KERNEL_OUTPUT),
        output_spatial=numbers.numbers(OUTPUT_SPATIAL),
        window=[
            Side(
                side.number(SIZE, 1), side.number(STRIDE, 1), side.number(PADDING), side.number(DILATION, 1),
                side.number(BASE_DILATION, 1),
            )
            for side in window.all(1)
        ],
        groups=proto.number(FEATURE_GROUPS) or 1,
        batch_groups=proto.number(BATCH_GROUPS) or 1,
    )  # fmt: skip
