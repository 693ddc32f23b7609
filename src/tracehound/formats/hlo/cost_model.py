"""Estimated operations and bytes of HLO instructions, from their shapes.

They are for profiles that do not count operations and bytes (GPU, CPU). Owns the field numbers of HloProto that say how
an instruction computes, reads and writes. An instruction is read only when it, or a fusion around it, is asked for. The
rules are those of XLA's HloCostAnalysis for everything that XLA itself computes: a multiplication and an addition are
two operations, an elementwise operation one for each element, a transcendental function none. For library calls behind
a custom call XLA has no rule; for matrix products, convolutions and attention the shapes are enough.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from tracehound.formats.hlo.hlo_instructions import (
    BATCH_GROUP_COUNT,
    CALLED_COMPUTATIONS,
    CONVOLUTION_DIMENSIONS,
    CUSTOM_CALL_TARGET,
    DOT_DIMENSIONS,
    ELEMENTWISE_OPCODES,
    FEATURE_GROUP_COUNT,
    OPCODE,
    OPERANDS,
    SHAPE,
    WINDOW_FIELD,
    InstructionIndex,
)
from tracehound.formats.hlo.hlo_line_parser import ArrayShape
from tracehound.formats.hlo.hlo_shape import HloShape, read_shape
from tracehound.formats.hlo.proto_message import ProtoMessage
from tracehound.formats.protobuf_wire import WireError

LEFT_CONTRACTING_DIMENSIONS = 1
WINDOW_SIZE, WINDOW_STRIDE, WINDOW_PADDING, WINDOW_DILATION, WINDOW_BASE_DILATION = 1, 2, 3, 5, 6
INPUT_BATCH, INPUT_FEATURE, INPUT_SPATIAL, KERNEL_OUTPUT, OUTPUT_SPATIAL = 7, 8, 11, 4, 12

COST_LIMIT = 1 << 63
"""Costs of so many operations or bytes, and more, are dropped: an Int64 column cannot hold them."""
_MAX_FUSED_INSTRUCTIONS = 1 << 16
"""At most so many instructions of a fusion are counted."""

_SLICING_OPCODES = ("slice", "dynamic-slice", "gather")
_NO_TRAFFIC_OPCODES = frozenset({"parameter", "constant", "bitcast", "get-tuple-element", "tuple", "after-all", "iota"})
_CALLING_OPCODES = frozenset({"while", "call", "conditional", "async-start", "async-update", "async-done"})
"""Opcodes that run other computations, whose instructions are ops of their own."""


class InstructionCost(NamedTuple):
    """Operations and bytes of one execution; None where shapes are not enough. `dtype` is what a product multiplies."""

    flops: int | None
    bytes: int | None
    on_host: int = 0
    dtype: str = ""


class _ParsedInstruction(NamedTuple):
    """The fields of an instruction that its cost depends on."""

    opcode: str
    results: tuple[ArrayShape, ...]
    operands: tuple[int, ...]
    called: tuple[int, ...]
    contracting: tuple[int, ...]
    convolution: Convolution | None
    target: str


def estimate_costs(module: InstructionIndex, wanted: Collection[str]) -> dict[str, InstructionCost]:
    """Costs of the instructions with these names; a damaged instruction has none."""
    estimator, found = _CostEstimator(module), dict[str, InstructionCost]()
    for name, row in module.rows_of_names(wanted).items():
        try:
            found[name] = estimator.cost_of_row(row)
        except (WireError, RecursionError):
            continue
    return found


class _CostEstimator(Struct):
    """Estimates costs of the instructions of one module, each read when it is needed."""

    module: InstructionIndex
    _parsed: dict[int, _ParsedInstruction] = field(default_factory=dict)
    _fused: dict[tuple[int, ...], tuple[int, str, int]] = field(default_factory=dict)

    def cost_of_row(self, row: int) -> InstructionCost:
        """The cost of an instruction that is an op of its own."""
        this = self._parsed_instruction(row)
        if this.opcode in _CALLING_OPCODES:
            return InstructionCost(None, None)
        operands = [array for one in this.operands for array in self._results_of_id(one)]
        on_host = sum(one.bytes for one in (*operands, *this.results) if one.on_host)
        if this.opcode == "custom-call":
            names = f"{this.target} {self.module.names[row]}"
            flops = custom_call_flops(names, this.results, operands, this.convolution)
            return _drop_large_numbers(
                InstructionCost(flops, _custom_call_bytes(this, operands), on_host, _first_operand_dtype(operands))
            )
        if this.opcode == "fusion":
            return _drop_large_numbers(self._fusion_cost(this, on_host))
        flops = self._count_flops(this)
        return _drop_large_numbers(
            InstructionCost(flops, self._bytes_accessed(this), on_host, self._multiplied_dtype(this))
        )

    def _fusion_cost(self, this: _ParsedInstruction, on_host: int) -> InstructionCost:
        """The operations inside a fusion, and the bytes that it reads and writes."""
        flops, dtype, read = self._fused_totals(this.called)
        at = self.module.root_row(this.called[0]) if this.called else None
        root = this if at is None else self._parsed_instruction(at)
        written = sum(one.bytes for one in this.results)
        if root.opcode == "dynamic-update-slice" and len(root.operands) > 1:
            written = sum(one.bytes for one in self._results_of_id(root.operands[1]))
        return InstructionCost(flops, read + written, on_host, dtype)

    def _fused_totals(self, called: tuple[int, ...]) -> tuple[int, str, int]:
        """Operations in a fusion, the type that its product multiplies, and the bytes that it reads of its parameters.

        Of an array that is only sliced, the slices count as read.
        """
        if called in self._fused:
            return self._fused[called]
        body = [row for one in called for row in self.module.computation_rows.get(one, range(0))][
            :_MAX_FUSED_INSTRUCTIONS
        ]
        inner = {row: self._parsed_instruction(row) for row in body}
        flops, dtype = 0, ""
        users: dict[int | None, list[_ParsedInstruction]] = {}
        for one in inner.values():
            more, kind = self._fused_totals(one.called)[:2] if one.opcode == "fusion" else (
                self._count_flops(one), self._multiplied_dtype(one)
            )  # fmt: skip
            flops, dtype = flops + more, dtype or kind
            for operand in one.operands:
                users.setdefault(self.module.row_by_id.get(operand), []).append(one)
        read = sum(
            _parameter_bytes_read(one, users.get(row, [])) for row, one in inner.items() if one.opcode == "parameter"
        )
        self._fused[called] = flops, dtype, read
        return self._fused[called]

    def _bytes_accessed(self, this: _ParsedInstruction) -> int:
        """Bytes that an instruction reads and writes."""
        if this.opcode in _NO_TRAFFIC_OPCODES:
            return 0
        written = sum(one.bytes for one in this.results)
        if this.opcode in _SLICING_OPCODES:
            return 2 * written
        if this.opcode == "dynamic-update-slice" and len(this.operands) > 1:
            return 2 * sum(one.bytes for one in self._results_of_id(this.operands[1]))
        return written + sum(one.bytes for operand in this.operands for one in self._results_of_id(operand))

    def _count_flops(self, this: _ParsedInstruction) -> int:
        """The operations of an instruction that is not a fusion."""
        sources = [self._results_of_id(one) for one in this.operands]
        if not this.results or not sources or not all(sources):
            return 0
        result = this.results[0]
        if this.opcode == "dot":
            return dot_flops(sources[0][0], result, this.contracting)
        if this.opcode == "convolution" and this.convolution is not None and len(sources) > 1:
            return convolution_flops(this.convolution, sources[0][0], sources[1][0], result)
        if this.opcode in ("reduce", "all-reduce"):
            return reduction_flops(this.opcode, sources[0][0], result)
        return elementwise_flops(this.opcode, result)

    def _multiplied_dtype(self, this: _ParsedInstruction) -> str:
        """The element type that a product multiplies; "" for other instructions."""
        if this.opcode not in ("dot", "convolution") or not this.operands:
            return ""
        return _first_operand_dtype(self._results_of_id(this.operands[0]))

    def _results_of_id(self, number: int) -> tuple[ArrayShape, ...]:
        """The result arrays of the instruction with this id."""
        row = self.module.row_by_id.get(number)
        return self._parsed_instruction(row).results if row is not None else ()

    def _parsed_instruction(self, row: int) -> _ParsedInstruction:
        """The instruction in this row, read once."""
        if row not in self._parsed:
            self._parsed[row] = _parse_instruction(self.module.table.message(row))
        return self._parsed[row]


def _parameter_bytes_read(parameter: _ParsedInstruction, users: Sequence[_ParsedInstruction]) -> int:
    """Bytes that a fusion reads of a parameter."""
    whole = sum(one.bytes for one in parameter.results)
    if users and all(user.opcode in _SLICING_OPCODES for user in users):
        return min(whole, sum(one.bytes for user in users for one in user.results))
    return whole


def _custom_call_bytes(this: _ParsedInstruction, operands: Sequence[ArrayShape]) -> int | None:
    """Operands and results of a custom call, without the workspace of a library: a last result in bytes.

    None without operands: the call may only allocate memory.
    """
    if not operands:
        return None
    results = this.results
    if len(results) > 1 and results[-1].element in ("s8", "u8") and len(results[-1].dims) == 1:
        results = results[:-1]
    return sum(one.bytes for one in (*operands, *results))


def _first_operand_dtype(operands: Sequence[ArrayShape]) -> str:
    """The element type of the first operand."""
    return operands[0].element if operands else ""


def _drop_large_numbers(cost: InstructionCost) -> InstructionCost:
    """The cost without numbers that do not fit in Int64."""
    flops, moved = (value if value is not None and value < COST_LIMIT else None for value in cost[:2])
    return InstructionCost(flops, moved, cost.on_host if cost.on_host < COST_LIMIT else 0, cost.dtype)


def _parse_instruction(proto: ProtoMessage) -> _ParsedInstruction:
    """One instruction, as far as its message can be read."""
    dot = proto.submessage(DOT_DIMENSIONS)
    return _ParsedInstruction(
        opcode=proto.text(OPCODE),
        results=tuple(_array_of_shape(leaf) for leaf in read_shape(proto.submessage(SHAPE)).arrays)
        if SHAPE in proto
        else (),
        operands=tuple(proto.numbers(OPERANDS)),
        called=tuple(proto.numbers(CALLED_COMPUTATIONS)),
        contracting=tuple(dot.numbers(LEFT_CONTRACTING_DIMENSIONS)) if dot is not None else (),
        convolution=_parse_convolution(proto),
        target=proto.text(CUSTOM_CALL_TARGET),
    )


def _array_of_shape(leaf: HloShape) -> ArrayShape:
    """An array of a shape, with negative dimensions taken as 0."""
    return ArrayShape(leaf.element, tuple(max(0, dim) for dim in leaf.dims), leaf.memory_space)


def _parse_convolution(proto: ProtoMessage) -> Convolution | None:
    """The dimension numbers and the window of a convolution; None where the instruction does not have them."""
    numbers, window = proto.submessage(CONVOLUTION_DIMENSIONS), proto.submessage(WINDOW_FIELD)
    if numbers is None or window is None:
        return None
    return Convolution(
        input_batch=numbers.number(INPUT_BATCH),
        input_feature=numbers.number(INPUT_FEATURE),
        input_spatial=numbers.numbers(INPUT_SPATIAL),
        kernel_output=numbers.number(KERNEL_OUTPUT),
        output_spatial=numbers.numbers(OUTPUT_SPATIAL),
        window=[
            WindowDimension(
                side.number(WINDOW_SIZE, 1), side.number(WINDOW_STRIDE, 1), side.number(WINDOW_PADDING),
                side.number(WINDOW_DILATION, 1), side.number(WINDOW_BASE_DILATION, 1),
            )
            for side in window.submessages(1)
        ],
        groups=proto.number(FEATURE_GROUP_COUNT) or 1,
        batch_groups=proto.number(BATCH_GROUP_COUNT) or 1,
    )  # fmt: skip


_TRANSCENDENTAL_OPCODES = frozenset({
    "atan2", "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic",
    "power", "rsqrt", "sine", "sqrt", "tan", "tanh",
})  # fmt: skip
_ARITHMETIC_OPCODES = (ELEMENTWISE_OPCODES - _TRANSCENDENTAL_OPCODES) | {"map"}

_GEMM_NAME = re.compile(r"gemm|matmul|cublas|hipblas", re.IGNORECASE)
_CONVOLUTION_NAME = re.compile(r"__cudnn\$conv(?!BiasActivationForwardGraph)(\w*)", re.IGNORECASE)
_ATTENTION_NAME = re.compile(r"fmha|mha_|_mha|attn|attention", re.IGNORECASE)
_ATTENTION_PASS = re.compile(r"fwd|forward|bwd|backward|dkv|_dq(?=_|\b)", re.IGNORECASE)
_ATTENTION_PASS_FACTORS = {"bwd": (5, 2), "backward": (5, 2), "dkv": (2, 1), "_dq": (3, 2)}
"""Operations of each attention pass as a fraction of the forward pass, by the first word that names a pass."""

_MAX_WINDOW_POSITIONS = 1 << 22
"""Window positions are counted one by one up to so many."""


class WindowDimension(NamedTuple):
    """One spatial dimension of a convolution's window, as HLO states it."""

    size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    base_dilation: int = 1


class Convolution(NamedTuple):
    """Dimension numbers of a convolution's input, kernel and output; spatial ones in the order of the window."""

    input_batch: int
    input_feature: int
    input_spatial: Sequence[int]
    kernel_output: int
    output_spatial: Sequence[int]
    window: Sequence[WindowDimension]
    groups: int = 1
    batch_groups: int = 1


def elementwise_flops(opcode: str, result: ArrayShape) -> int:
    """Operations of an elementwise instruction: one for each element of its result; 0 for other instructions."""
    return result.elements if opcode in _ARITHMETIC_OPCODES else 0


def reduction_flops(opcode: str, operand: ArrayShape, result: ArrayShape) -> int:
    """Operations of a reduction: one for each element but the first of a result; between devices one for each."""
    return result.elements if opcode == "all-reduce" else max(0, operand.elements - result.elements)


def dot_flops(left: ArrayShape, result: ArrayShape, contracting: Sequence[int]) -> int:
    """Operations of a matrix product: two for each element of the result and of the contracted dimensions."""
    return 2 * result.elements * math.prod(left.dims[at] for at in contracting if 0 <= at < len(left.dims))


def convolution_flops(how: Convolution, source: ArrayShape, kernel: ArrayShape, result: ArrayShape) -> int:
    """Operations of a convolution, without those on padding. 0 where the dimensions do not fit."""
    try:
        features = source.dims[how.input_feature] // max(1, how.groups)
        batch = source.dims[how.input_batch] // max(1, how.batch_groups)
        made = kernel.dims[how.kernel_output]
        valid = math.prod(
            _count_valid_positions(side, source.dims[at], result.dims[to])
            for side, at, to in zip(how.window, how.input_spatial, how.output_spatial, strict=True)
        )
    except (IndexError, ValueError):
        return 0
    return 2 * features * made * batch * valid


def _count_valid_positions(side: WindowDimension, base: int, out: int) -> int:
    """Pairs of an output position and a window position that meet an element of the input."""
    if max(side.size, 1) * max(out, 1) > _MAX_WINDOW_POSITIONS:
        return side.size * out
    at = np.arange(out)[:, None] * side.stride - side.padding + np.arange(side.size)[None, :] * side.dilation
    spread = max(1, side.base_dilation)
    return int(((at >= 0) & (at % spread == 0) & (at < base * spread)).sum())


def custom_call_flops(
    names: str, results: Sequence[ArrayShape], operands: Sequence[ArrayShape], how: Convolution | None = None
) -> int | None:
    """Operations behind a custom call; None where the shapes are not enough.

    `names` are its target and its other names. A matrix product takes two for each of m*n*k, attention four for each
    query, key and channel of a head (masks are unknown: a causal one takes half), its backward pass two and a half
    times as many, a half of that pass (keys and values, or queries) two or one and a half.
    """
    real = [one for one in operands if len(one.dims) > 1]
    if not results or len(real) < 2:
        return None
    if convolving := _CONVOLUTION_NAME.search(names):
        return _library_convolution_flops(convolving[1], results[0], real, how)
    if _ATTENTION_NAME.search(names):
        return _attention_flops(names, operands)
    return _gemm_flops(real[0], real[1], results[0]) if _GEMM_NAME.search(names) else None


def _library_convolution_flops(
    which: str, result: ArrayShape, operands: Sequence[ArrayShape], how: Convolution | None
) -> int | None:
    """Operations of a library's convolution: forward, backward input and backward filter count alike, roles swapped."""
    if how is None:
        return None
    first, second = operands[:2]
    roles = {
        "backwardinput": (result, second, first),
        "backwardfilter": (first, result, second),
    }
    source, kernel, made = roles.get(which.lower(), (first, second, result))
    return convolution_flops(how, source, kernel, made) or None


def _gemm_flops(left: ArrayShape, right: ArrayShape, result: ArrayShape) -> int | None:
    """2 m n k, whatever is transposed: the three sizes multiply to (m n k)^2, for each element of a batch."""
    batch = 1
    if min(map(len, (left.dims, right.dims, result.dims))) > 2:
        for one, two, three in zip(left.dims[:-2], right.dims[:-2], result.dims[:-2], strict=False):
            if not one == two == three:
                break
            batch *= one
    whole = left.elements * right.elements * result.elements
    root = math.isqrt(whole // batch) if batch else 0
    return 2 * root if root and root * root * batch == whole else None


def _attention_flops(names: str, operands: Sequence[ArrayShape]) -> int | None:
    """Operations of attention. Queries and keys are the first two operands of one type and size per channel."""
    heads = [one for one in operands if len(one.dims) > 2 and one.element.startswith(("bf16", "f16", "f8", "f32"))]
    if len(heads) < 2 or heads[0].dims[-1] != heads[1].dims[-1]:
        return None
    queries, keys = heads[:2]
    length = max(keys.dims[-3:-1])
    named = _ATTENTION_PASS.search(names)
    times, of = _ATTENTION_PASS_FACTORS.get(named[0].lower(), (1, 1)) if named else (1, 1)
    return 4 * queries.elements * length * times // of
