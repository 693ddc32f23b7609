"""Attributes of an instruction as HLO writes them: ``dimensions={0,1}, to_apply=%region``, and shardings.

Owns the field numbers and the text of these attributes, in XLA's order, and the field numbers of OpSharding. Metadata
and the backend's configuration are written by `module_text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tracehound.formats.hlo.hlo_instructions import (
    BATCH_GROUP_COUNT,
    CONVOLUTION_DIMENSIONS,
    CUSTOM_CALL_TARGET,
    DOT_DIMENSIONS,
    FEATURE_GROUP_COUNT,
    FUSION_KIND,
    OPCODE,
    WINDOW_FIELD,
)
from tracehound.formats.hlo.hlo_shape import read_shape
from tracehound.formats.hlo.proto_message import MAX_NESTING, ProtoMessage
from tracehound.formats.hlo.replica_groups import CHANNEL_ID, USE_GLOBAL_DEVICE_IDS
from tracehound.hlo.hlo_module import (
    ASYNC_THREAD,
    CONTROL_PREDECESSORS,
    DIMENSIONS,
    SHARDING,
    SOURCE_TARGET_PAIRS,
    TUPLE_INDEX,
    HloModule,
    Instruction,
    collective_groups,
    source_target_pairs,
)

SLICE_DIMENSIONS, EXPONENT_BITS, MANTISSA_BITS, DYNAMIC_SLICE_SIZES, PADDING_CONFIG = 17, 18, 19, 20, 21
OUTFEED_CONFIG, DISTRIBUTION, EPSILON, FEATURE_INDEX, INFEED_CONFIG = 22, 23, 24, 25, 27
FFT_TYPE, FFT_LENGTH, GATHER_DIMENSIONS, GATHER_SLICE_SIZES = 31, 32, 33, 34
IS_HOST_TRANSFER, SCATTER_DIMENSIONS, PRECISION_CONFIG = 47, 48, 51
CONSTRAIN_LAYOUT, OPERAND_SHAPES_WITH_LAYOUT = 56, 57
IS_STABLE, COMPARISON_DIRECTION, HAS_SIDE_EFFECT, DELTA, INDICES_ARE_SORTED = 60, 63, 65, 66, 67
UNIQUE_INDICES, RNG_ALGORITHM, COMPARISON_TYPE, OUTPUT_OPERAND_ALIASING, API_VERSION = 69, 70, 72, 74, 77

_TRANSFER_OPCODES: Final = frozenset({"send", "send-done", "recv", "recv-done"})
_API_VERSION_NAMES: Final = ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")
_PRECISION_NAMES: Final = ("default", "high", "highest", "packed_nibble")

AttributeWriter = Callable[[ProtoMessage], str]


class HloAttribute(NamedTuple):
    """One attribute: it exists where a proto has one of these fields; `write` gives "" where it has no value."""

    fields: tuple[int, ...]
    write: AttributeWriter


def attribute_texts(module: HloModule, instruction: Instruction) -> list[str]:
    """The attributes, each as ``name=value``, in XLA's order."""
    fields = instruction.fields
    present = fields.fields_by_number.keys()
    texts = (
        (name, one.write(fields)) for name, one in _ATTRIBUTES_IN_ORDER.items() if not present.isdisjoint(one.fields)
    )
    attributes = [f"{name}={value}" for name, value in texts if value]
    called = [*_computation_attributes(module, instruction), *_sharding_and_control_attributes(module, fields)]
    return [*_collective_attributes(instruction), *_dimension_attributes(instruction), *attributes, *called]


def _dimension_attributes(instruction: Instruction) -> Iterator[str]:
    """The attribute ``dimensions``, or ``iota_dimension``."""
    numbers = instruction.fields.numbers(DIMENSIONS)
    if instruction.opcode == "iota":
        yield f"iota_dimension={numbers[0] if numbers else 0}"
    elif numbers or instruction.opcode == "broadcast":
        yield f"dimensions={_braced_list(numbers)}"


def _computation_attributes(module: HloModule, instruction: Instruction) -> Iterator[str]:
    """The computations that an instruction calls, each by its role."""
    called = [f"%{module.computations[number].name}" for number in module.calls[instruction.row]]
    parts = _COMPUTATION_ROLES.get(instruction.opcode)
    if parts and len(parts) == len(called):
        yield from (f"{part}={name}" for part, name in sorted(zip(parts, called, strict=True), reverse=True))
    elif instruction.opcode == "conditional" and called:
        yield f"branch_computations={{{', '.join(called)}}}"
    elif instruction.opcode == "custom-call" and called:
        yield f"called_computations={{{', '.join(called)}}}"
    elif called:
        yield f"{'calls' if instruction.opcode in _OPCODES_WITH_CALLS else 'to_apply'}={', '.join(called)}"


_COMPUTATION_ROLES: Final = {"while": ("body", "condition"), "select-and-scatter": ("select", "scatter")}
_OPCODES_WITH_CALLS: Final = frozenset({"fusion", "async-start", "async-update", "async-done"})


def _collective_attributes(instruction: Instruction) -> Iterator[str]:
    """Channel, device groups and transfers of a collective."""
    fields = instruction.fields
    if fields.number(CHANNEL_ID):
        yield f"channel_id={fields.number(CHANNEL_ID)}"
    members = collective_groups(instruction)
    if members is not None and members.form:
        yield f"replica_groups={members.form}"
    if SOURCE_TARGET_PAIRS in fields:
        yield f"source_target_pairs={_braced_list([_braced_list(pair) for pair in source_target_pairs(instruction)])}"
    if fields.number(USE_GLOBAL_DEVICE_IDS):
        yield "use_global_device_ids=true"
    if instruction.opcode in _TRANSFER_OPCODES and fields.number(IS_HOST_TRANSFER):
        yield "is_host_transfer=true"


def _sharding_and_control_attributes(module: HloModule, fields: ProtoMessage) -> Iterator[str]:
    """Sharding, control predecessors and execution thread."""
    if SHARDING in fields:
        yield f"sharding={sharding_text(fields.submessage(SHARDING))}"
    if before := [
        f"%{module.names[module.row_by_id[one]]}"
        for one in fields.numbers(CONTROL_PREDECESSORS)
        if one in module.row_by_id
    ]:
        yield f"control-predecessors={{{', '.join(before)}}}"
    if (thread := fields.text(ASYNC_THREAD)) and thread != "main":
        yield f'async_execution_thread="{escape_quotes(thread)}"'


def escape_quotes(text: str) -> str:
    """A text with quotes, backslashes and newlines escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _braced_list(values: Sequence[object]) -> str:
    """Values as HLO lists them: ``{0,1}``."""
    return "{" + ",".join(map(str, values)) + "}"


def _number_attribute(field: int) -> HloAttribute:
    """A number, written where the proto has it."""
    return HloAttribute((field,), lambda fields: str(fields.number(field)) if field in fields else "")


def _count_attribute(field: int) -> HloAttribute:
    """A number, written where it is above one."""
    return HloAttribute((field,), lambda fields: str(fields.number(field)) if fields.number(field) > 1 else "")


def _flag_attribute(field: int) -> HloAttribute:
    """A flag, written where it is set."""
    return HloAttribute((field,), lambda fields: "true" if fields.number(field) else "")


def _word_attribute(field: int) -> HloAttribute:
    """A word without quotes."""
    return HloAttribute((field,), lambda fields: fields.text(field))


def _quoted_attribute(field: int) -> HloAttribute:
    """A text in quotes."""
    return HloAttribute((field,), lambda fields: f'"{escape_quotes(fields.text(field))}"' if fields.text(field) else "")


def _list_attribute(field: int) -> HloAttribute:
    """A list of numbers, written where the proto has it."""
    return HloAttribute((field,), lambda fields: _braced_list(fields.numbers(field)) if field in fields else "")


def _nested_list_attribute(field: int, number: int) -> HloAttribute:
    """A list in a message, written where that message exists."""

    def write(fields: ProtoMessage) -> str:
        inner = fields.submessage(field)
        return _braced_list(inner.numbers(number)) if inner else ""

    return HloAttribute((field,), write)


def _nonempty_list_attribute(field: int, number: int) -> HloAttribute:
    """A list in a message, written where it is not empty."""

    def write(fields: ProtoMessage) -> str:
        inner = fields.submessage(field)
        return _braced_list(numbers) if inner and (numbers := inner.numbers(number)) else ""

    return HloAttribute((field,), write)


def _index_vector_dimension(fields: ProtoMessage) -> str:
    """The index vector dimension of a gather or scatter."""
    numbers = fields.submessage(GATHER_DIMENSIONS) or fields.submessage(SCATTER_DIMENSIONS)
    return str(numbers.number(4)) if numbers else ""


def _rng_distribution(fields: ProtoMessage) -> str:
    """The distribution of random numbers."""
    return {1: "rng_uniform", 2: "rng_normal"}.get(fields.number(DISTRIBUTION), "")


def _rng_algorithm(fields: ProtoMessage) -> str:
    """The algorithm of a random bit generator."""
    return {1: "rng_three_fry", 2: "rng_philox"}.get(fields.number(RNG_ALGORITHM), "")


def _fft_type(fields: ProtoMessage) -> str:
    """The type of a Fourier transform."""
    return dict(enumerate(("FFT", "IFFT", "RFFT", "IRFFT"))).get(fields.number(FFT_TYPE), "")


def _tuple_index(fields: ProtoMessage) -> str:
    """The index of a ``get-tuple-element``."""
    return str(fields.number(TUPLE_INDEX)) if fields.text(OPCODE) == "get-tuple-element" else ""


def _slice_ranges(fields: ProtoMessage) -> str:
    """The ranges of a slice: ``{[0:4], [0:8:2]}``."""
    parts = [(one.number(1), one.number(2), one.number(3)) for one in fields.submessages(SLICE_DIMENSIONS)]
    texts = [f"[{low}:{high}]" if step in (0, 1) else f"[{low}:{high}:{step}]" for low, high, step in parts]
    return f"{{{', '.join(texts)}}}" if parts else ""


def _padding_text(fields: ProtoMessage) -> str:
    """The padding of each dimension: ``0_1x0_0``."""
    config = fields.submessage(PADDING_CONFIG)
    edges = [(one.number(1), one.number(2), one.number(3)) for one in config.submessages(1)] if config else []
    inside = any(inner for _, _, inner in edges)
    return "x".join(f"{low}_{high}_{inner}" if inside else f"{low}_{high}" for low, high, inner in edges)


def _window_text(fields: ProtoMessage) -> str:
    """The window of a convolution or reduction: ``{size=3x3 pad=1_1x1_1}``."""
    window = fields.submessage(WINDOW_FIELD)
    dims = list(window.submessages(1)) if window else []
    if not dims:
        return ""
    parts = [f"size={'x'.join(str(dim.number(1)) for dim in dims)}"]
    for name, number in (("stride", 2), ("lhs_dilate", 6), ("rhs_dilate", 5), ("rhs_reversal", 7)):
        default = 0 if number == 7 else 1
        values = [dim.number(number, default) for dim in dims]
        text = f"{name}={'x'.join(map(str, values))}"
        if any(value != default for value in values):
            parts.append(text)
    if any(dim.number(3) or dim.number(4) for dim in dims):
        parts.insert(1 + (len(parts) > 1 and parts[1].startswith("stride")),
                     f"pad={'x'.join(f'{dim.number(3)}_{dim.number(4)}' for dim in dims)}")  # fmt: skip
    return f"{{{' '.join(parts)}}}"


def _dimension_labels(fields: ProtoMessage) -> str:
    """``bf01_oi01->bf01``: the roles of the dimensions of input, kernel and output."""
    numbers = fields.submessage(CONVOLUTION_DIMENSIONS)
    if numbers is None:
        return ""
    sides = (("bf", 7, 8, 11), ("io", 3, 4, 6), ("bf", 9, 10, 12))
    texts = []
    for letters, first, second, spatial in sides:
        places = {numbers.number(first): letters[0], numbers.number(second): letters[1]}
        places |= {at: str(number) for number, at in enumerate(numbers.numbers(spatial))}
        texts.append("".join(places[at] for at in sorted(places)))
    return f"{texts[0]}_{texts[1]}->{texts[2]}"


def _operand_precisions(fields: ProtoMessage) -> str:
    """The precision of each operand."""
    config = fields.submessage(PRECISION_CONFIG)
    numbers = config.numbers(1) if config else []
    words = [_PRECISION_NAMES[one] if 0 <= one < len(_PRECISION_NAMES) else str(one) for one in numbers]
    return f"{{{','.join(words)}}}" if any(numbers) else ""


def _operand_layouts(fields: ProtoMessage) -> str:
    """The shapes that a custom call demands of its operands."""
    if not fields.number(CONSTRAIN_LAYOUT):
        return ""
    return f"{{{', '.join(read_shape(one).text for one in fields.submessages(OPERAND_SHAPES_WITH_LAYOUT))}}}"


def _api_version_name(fields: ProtoMessage) -> str:
    """The API version of a custom call."""
    number = fields.number(API_VERSION)
    return f"API_VERSION_{_API_VERSION_NAMES[number]}" if 1 < number < len(_API_VERSION_NAMES) else ""


def _comparison_type(fields: ProtoMessage) -> str:
    """The type of a comparison, where it is a total order."""
    return "TOTALORDER" if fields.text(COMPARISON_TYPE) == "TOTALORDER" else ""


def _output_aliases(fields: ProtoMessage) -> str:
    """The operands whose memory the outputs share."""
    texts = [
        f"{_braced_list(one.numbers(1))}: ({one.number(2)}, {_braced_list(one.numbers(3))})"
        for one in fields.submessages(OUTPUT_OPERAND_ALIASING)
    ]
    return f"{{{', '.join(texts)}}}" if texts else ""


_ATTRIBUTES_IN_ORDER: Final[dict[str, HloAttribute]] = {
    "slice": HloAttribute((SLICE_DIMENSIONS,), _slice_ranges),
    "dynamic_slice_sizes": _list_attribute(DYNAMIC_SLICE_SIZES),
    "padding": HloAttribute((PADDING_CONFIG,), _padding_text),
    "direction": _word_attribute(COMPARISON_DIRECTION),
    "index": HloAttribute((OPCODE,), _tuple_index),
    "window": HloAttribute((WINDOW_FIELD,), _window_text),
    "dim_labels": HloAttribute((CONVOLUTION_DIMENSIONS,), _dimension_labels),
    "feature_group_count": _count_attribute(FEATURE_GROUP_COUNT),
    "batch_group_count": _count_attribute(BATCH_GROUP_COUNT),
    "lhs_batch_dims": _nonempty_list_attribute(DOT_DIMENSIONS, 3),
    "lhs_contracting_dims": _nonempty_list_attribute(DOT_DIMENSIONS, 1),
    "rhs_batch_dims": _nonempty_list_attribute(DOT_DIMENSIONS, 4),
    "rhs_contracting_dims": _nonempty_list_attribute(DOT_DIMENSIONS, 2),
    "operand_precision": HloAttribute((PRECISION_CONFIG,), _operand_precisions),
    "offset_dims": _nested_list_attribute(GATHER_DIMENSIONS, 1),
    "collapsed_slice_dims": _nested_list_attribute(GATHER_DIMENSIONS, 2),
    "start_index_map": _nested_list_attribute(GATHER_DIMENSIONS, 3),
    "operand_batching_dims": _nonempty_list_attribute(GATHER_DIMENSIONS, 5),
    "start_indices_batching_dims": _nonempty_list_attribute(GATHER_DIMENSIONS, 6),
    "update_window_dims": _nested_list_attribute(SCATTER_DIMENSIONS, 1),
    "inserted_window_dims": _nested_list_attribute(SCATTER_DIMENSIONS, 2),
    "scatter_dims_to_operand_dims": _nested_list_attribute(SCATTER_DIMENSIONS, 3),
    "input_batching_dims": _nonempty_list_attribute(SCATTER_DIMENSIONS, 5),
    "scatter_indices_batching_dims": _nonempty_list_attribute(SCATTER_DIMENSIONS, 6),
    "index_vector_dim": HloAttribute((GATHER_DIMENSIONS, SCATTER_DIMENSIONS), _index_vector_dimension),
    "slice_sizes": _list_attribute(GATHER_SLICE_SIZES),
    "exponent_bits": _number_attribute(EXPONENT_BITS),
    "mantissa_bits": _number_attribute(MANTISSA_BITS),
    "distribution": HloAttribute((DISTRIBUTION,), _rng_distribution),
    "algorithm": HloAttribute((RNG_ALGORITHM,), _rng_algorithm),
    "fft_type": HloAttribute((FFT_LENGTH,), _fft_type),
    "fft_length": _list_attribute(FFT_LENGTH),
    "feature_index": _number_attribute(FEATURE_INDEX),
    "delta": _number_attribute(DELTA),
    "infeed_config": _quoted_attribute(INFEED_CONFIG),
    "outfeed_config": _quoted_attribute(OUTFEED_CONFIG),
    "type": HloAttribute((COMPARISON_TYPE,), _comparison_type),
    "indices_are_sorted": _flag_attribute(INDICES_ARE_SORTED),
    "unique_indices": _flag_attribute(UNIQUE_INDICES),
    "is_stable": _flag_attribute(IS_STABLE),
    "kind": _word_attribute(FUSION_KIND),
    "custom_call_target": _quoted_attribute(CUSTOM_CALL_TARGET),
    "operand_layout_constraints": HloAttribute((CONSTRAIN_LAYOUT,), _operand_layouts),
    "output_to_operand_aliasing": HloAttribute((OUTPUT_OPERAND_ALIASING,), _output_aliases),
    "custom_call_has_side_effect": _flag_attribute(HAS_SIDE_EFFECT),
    "api_version": HloAttribute((API_VERSION,), _api_version_name),
}  # fmt: skip


(
    SHARDING_TYPE,
    TILE_DIMENSIONS,
    TILE_DEVICES,
    TUPLE_SHARDINGS,
    REPLICATE_LAST_DIMENSION,
    LAST_DIMENSION_TYPES,
    IOTA_RESHAPE,
    IOTA_TRANSPOSE,
) = 1, 3, 4, 5, 6, 8, 9, 10
REPLICATED_SHARDING, MAXIMAL_SHARDING, TUPLE_SHARDING, TILED_SHARDING = 0, 1, 2, 3
SHARDING_NAMES: Final = {0: "replicated", 1: "maximal", 4: "manual", 5: "unknown", 6: "unreduced"}

MAX_LISTED_DEVICES: Final = 64
"""Devices that are listed one by one."""


def sharding_text(proto: ProtoMessage | None, depth: int = 0) -> str:
    """The sharding in an OpSharding, ``{devices=[8,1]<=[8]}``, as far as it can be read."""
    if proto is None:
        return "{}"
    kind = proto.number(SHARDING_TYPE)
    if kind == TUPLE_SHARDING and depth < MAX_NESTING:
        return f"{{{', '.join(sharding_text(part, depth + 1) for part in proto.submessages(TUPLE_SHARDINGS))}}}"
    if kind == MAXIMAL_SHARDING:
        return f"{{maximal device={_device_list_text(proto.numbers(TILE_DEVICES))}}}"
    if kind != TILED_SHARDING:
        return f"{{{SHARDING_NAMES.get(kind, 'unknown')}}}"
    tiles = _comma_separated(proto.numbers(TILE_DIMENSIONS))
    return f"{{devices=[{tiles}]{_tile_devices_text(proto)}{_last_dimensions_text(proto)}}}"


def _tile_devices_text(proto: ProtoMessage) -> str:
    """The devices of the tiles, in their order."""
    reshape, order = proto.numbers(IOTA_RESHAPE), proto.numbers(IOTA_TRANSPOSE)
    if not reshape:
        return _device_list_text(proto.numbers(TILE_DEVICES))
    turned = f"T({_comma_separated(order)})" if order != list(range(len(order))) else ""
    return f"<=[{_comma_separated(reshape)}]{turned}"


def _last_dimensions_text(proto: ProtoMessage) -> str:
    """The meaning of the last tile dimensions."""
    if proto.number(REPLICATE_LAST_DIMENSION):
        return " last_tile_dim_replicate"
    last = [SHARDING_NAMES.get(kind, "unknown") for kind in proto.numbers(LAST_DIMENSION_TYPES)]
    return f" last_tile_dims={{{', '.join(last)}}}" if last else ""


def _device_list_text(devices: list[int]) -> str:
    """The first devices of a list."""
    return _comma_separated(devices[:MAX_LISTED_DEVICES]) + (",..." if len(devices) > MAX_LISTED_DEVICES else "")


def _comma_separated(numbers: list[int]) -> str:
    """Numbers with commas between them."""
    return ",".join(map(str, numbers))
