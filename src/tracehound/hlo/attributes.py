"""What an instruction says besides its operands, as HLO writes it: ``dimensions={0,1}, to_apply=%region``.

Owns the field numbers and the words of these attributes, in the order in which XLA writes them. Metadata and the
backend's configuration are `text`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tracehound.formats.hlo.fields import Message
from tracehound.formats.hlo.located import (
    BATCH_GROUPS,
    CONVOLUTION,
    DOT,
    FEATURE_GROUPS,
    FUSION_KIND,
    OPCODE,
    TARGET,
    WINDOW,
)
from tracehound.formats.hlo.members import CHANNEL, GLOBAL_IDS
from tracehound.formats.hlo.shape import shape_of
from tracehound.hlo.groups import PAIRS, members_of, pairs_of
from tracehound.hlo.instruction import ASYNC_THREAD, DIMENSIONS, PREDECESSORS, SHARDING, TUPLE_INDEX, Instruction
from tracehound.hlo.module import Module
from tracehound.hlo.sharding import sharding_text

SLICES, EXPONENT, MANTISSA, DYNAMIC_SIZES, PADDING = 17, 18, 19, 20, 21
OUTFEED, DISTRIBUTION, EPSILON, FEATURE, INFEED, FFT_TYPE, FFT_LENGTH, GATHER, GATHER_SIZES = (
    22, 23, 24, 25, 27, 31, 32, 33, 34,
)  # fmt: skip
HOST_TRANSFER, SCATTER, PRECISION, CONSTRAINED, CONSTRAINED_SHAPES = 47, 48, 51, 56, 57
STABLE, DIRECTION, SIDE_EFFECT, DELTA, SORTED, UNIQUE, RNG_ALGORITHM, COMPARISON, ALIASING, API = (
    60, 63, 65, 66, 67, 69, 70, 72, 74, 77,
)  # fmt: skip

_TRANSFERS: Final = frozenset({"send", "send-done", "recv", "recv-done"})
_APIS: Final = ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")
_PRECISIONS: Final = ("default", "high", "highest", "packed_nibble")

Writer = Callable[[Message], str]


class Attribute(NamedTuple):
    """One attribute: it is looked for where a proto has one of these fields; `write` gives nothing where it is not."""

    fields: tuple[int, ...]
    write: Writer


def attributes_of(module: Module, instruction: Instruction) -> list[str]:
    """The attributes, each as ``name=value``, in XLA's order."""
    fields = instruction.fields
    present = fields.parts.keys()
    told = ((name, one.write(fields)) for name, one in _OWN.items() if not present.isdisjoint(one.fields))
    own = [f"{name}={value}" for name, value in told if value]
    called = [*_called(module, instruction), *_late(module, fields)]
    return [*_exchanged(instruction), *_dimensions(instruction), *own, *called]


def _dimensions(instruction: Instruction) -> Iterator[str]:
    numbers = instruction.fields.numbers(DIMENSIONS)
    if instruction.opcode == "iota":
        yield f"iota_dimension={numbers[0] if numbers else 0}"
    elif numbers or instruction.opcode == "broadcast":
        yield f"dimensions={_braced(numbers)}"


def _called(module: Module, instruction: Instruction) -> Iterator[str]:
    """The computations that it calls, by the part that each plays."""
    called = [f"%{module.computations[number].name}" for number in module.calls[instruction.row]]
    parts = _PARTS.get(instruction.opcode)
    if parts and len(parts) == len(called):
        yield from (f"{part}={name}" for part, name in sorted(zip(parts, called, strict=True), reverse=True))
    elif instruction.opcode == "conditional" and called:
        yield f"branch_computations={{{', '.join(called)}}}"
    elif instruction.opcode == "custom-call" and called:
        yield f"called_computations={{{', '.join(called)}}}"
    elif called:
        yield f"{'calls' if instruction.opcode in _CALLS else 'to_apply'}={', '.join(called)}"


_PARTS: Final = {"while": ("body", "condition"), "select-and-scatter": ("select", "scatter")}
_CALLS: Final = frozenset({"fusion", "async-start", "async-update", "async-done"})


def _exchanged(instruction: Instruction) -> Iterator[str]:
    """Who exchanges what with whom."""
    fields = instruction.fields
    if fields.number(CHANNEL):
        yield f"channel_id={fields.number(CHANNEL)}"
    members = members_of(instruction)
    if members is not None and members.form:
        yield f"replica_groups={members.form}"
    if PAIRS in fields:
        yield f"source_target_pairs={_braced([_braced(pair) for pair in pairs_of(instruction)])}"
    if fields.number(GLOBAL_IDS):
        yield "use_global_device_ids=true"
    if instruction.opcode in _TRANSFERS and fields.number(HOST_TRANSFER):
        yield "is_host_transfer=true"


def _late(module: Module, fields: Message) -> Iterator[str]:
    if SHARDING in fields:
        yield f"sharding={sharding_text(fields.one(SHARDING))}"
    if before := [f"%{module.names[module.by_id[one]]}" for one in fields.numbers(PREDECESSORS) if one in module.by_id]:
        yield f"control-predecessors={{{', '.join(before)}}}"
    if (thread := fields.text(ASYNC_THREAD)) and thread != "main":
        yield f'async_execution_thread="{escaped(thread)}"'


def escaped(text: str) -> str:
    """A text between quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _braced(values: Sequence[object]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _number(field: int) -> Attribute:
    return Attribute((field,), lambda fields: str(fields.number(field)) if field in fields else "")


def _above_one(field: int) -> Attribute:
    return Attribute((field,), lambda fields: str(fields.number(field)) if fields.number(field) > 1 else "")


def _flag(field: int) -> Attribute:
    return Attribute((field,), lambda fields: "true" if fields.number(field) else "")


def _word(field: int) -> Attribute:
    return Attribute((field,), lambda fields: fields.text(field))


def _quoted(field: int) -> Attribute:
    return Attribute((field,), lambda fields: f'"{escaped(fields.text(field))}"' if fields.text(field) else "")


def _list(field: int) -> Attribute:
    return Attribute((field,), lambda fields: _braced(fields.numbers(field)) if field in fields else "")


def _inner(field: int, number: int) -> Attribute:
    """A list in a message, written where that message is."""

    def write(fields: Message) -> str:
        inner = fields.one(field)
        return _braced(inner.numbers(number)) if inner else ""

    return Attribute((field,), write)


def _inner_list(field: int, number: int) -> Attribute:
    """A list in a message, written where it is not empty."""

    def write(fields: Message) -> str:
        inner = fields.one(field)
        return _braced(numbers) if inner and (numbers := inner.numbers(number)) else ""

    return Attribute((field,), write)


def _index_vector(fields: Message) -> str:
    numbers = fields.one(GATHER) or fields.one(SCATTER)
    return str(numbers.number(4)) if numbers else ""


def _distribution(fields: Message) -> str:
    return {1: "rng_uniform", 2: "rng_normal"}.get(fields.number(DISTRIBUTION), "")


def _algorithm(fields: Message) -> str:
    return {1: "rng_three_fry", 2: "rng_philox"}.get(fields.number(RNG_ALGORITHM), "")


def _fft(fields: Message) -> str:
    return dict(enumerate(("FFT", "IFFT", "RFFT", "IRFFT"))).get(fields.number(FFT_TYPE), "")


def _index(fields: Message) -> str:
    return str(fields.number(TUPLE_INDEX)) if fields.text(OPCODE) == "get-tuple-element" else ""


def _slices(fields: Message) -> str:
    parts = [(one.number(1), one.number(2), one.number(3)) for one in fields.all(SLICES)]
    texts = [f"[{low}:{high}]" if step in (0, 1) else f"[{low}:{high}:{step}]" for low, high, step in parts]
    return f"{{{', '.join(texts)}}}" if parts else ""


def _padding(fields: Message) -> str:
    config = fields.one(PADDING)
    edges = [(one.number(1), one.number(2), one.number(3)) for one in config.all(1)] if config else []
    inside = any(inner for _, _, inner in edges)
    return "x".join(f"{low}_{high}_{inner}" if inside else f"{low}_{high}" for low, high, inner in edges)


def _window(fields: Message) -> str:
    window = fields.one(WINDOW)
    dims = list(window.all(1)) if window else []
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


def _labels(fields: Message) -> str:
    """``bf01_oi01->bf01``: which dimension of input, kernel and output is what."""
    numbers = fields.one(CONVOLUTION)
    if numbers is None:
        return ""
    sides = (("bf", 7, 8, 11), ("io", 3, 4, 6), ("bf", 9, 10, 12))
    texts = []
    for letters, first, second, spatial in sides:
        places = {numbers.number(first): letters[0], numbers.number(second): letters[1]}
        places |= {at: str(number) for number, at in enumerate(numbers.numbers(spatial))}
        texts.append("".join(places[at] for at in sorted(places)))
    return f"{texts[0]}_{texts[1]}->{texts[2]}"


def _precision(fields: Message) -> str:
    config = fields.one(PRECISION)
    numbers = config.numbers(1) if config else []
    words = [_PRECISIONS[one] if 0 <= one < len(_PRECISIONS) else str(one) for one in numbers]
    return f"{{{','.join(words)}}}" if any(numbers) else ""


def _constraints(fields: Message) -> str:
    if not fields.number(CONSTRAINED):
        return ""
    return f"{{{', '.join(shape_of(one).text for one in fields.all(CONSTRAINED_SHAPES))}}}"


def _api(fields: Message) -> str:
    number = fields.number(API)
    return f"API_VERSION_{_APIS[number]}" if 1 < number < len(_APIS) else ""


def _aliasing(fields: Message) -> str:
    texts = [f"{_braced(one.numbers(1))}: ({one.number(2)}, {_braced(one.numbers(3))})" for one in fields.all(ALIASING)]
    return f"{{{', '.join(texts)}}}" if texts else ""


_OWN: Final[dict[str, Attribute]] = {
    "slice": Attribute((SLICES,), _slices),
    "dynamic_slice_sizes": _list(DYNAMIC_SIZES),
    "padding": Attribute((PADDING,), _padding),
    "direction": _word(DIRECTION),
    "index": Attribute((OPCODE,), _index),
    "window": Attribute((WINDOW,), _window),
    "dim_labels": Attribute((CONVOLUTION,), _labels),
    "feature_group_count": _above_one(FEATURE_GROUPS),
    "batch_group_count": _above_one(BATCH_GROUPS),
    "lhs_batch_dims": _inner_list(DOT, 3),
    "lhs_contracting_dims": _inner_list(DOT, 1),
    "rhs_batch_dims": _inner_list(DOT, 4),
    "rhs_contracting_dims": _inner_list(DOT, 2),
    "operand_precision": Attribute((PRECISION,), _precision),
    "offset_dims": _inner(GATHER, 1),
    "collapsed_slice_dims": _inner(GATHER, 2),
    "start_index_map": _inner(GATHER, 3),
    "operand_batching_dims": _inner_list(GATHER, 5),
    "start_indices_batching_dims": _inner_list(GATHER, 6),
    "update_window_dims": _inner(SCATTER, 1),
    "inserted_window_dims": _inner(SCATTER, 2),
    "scatter_dims_to_operand_dims": _inner(SCATTER, 3),
    "input_batching_dims": _inner_list(SCATTER, 5),
    "scatter_indices_batching_dims": _inner_list(SCATTER, 6),
    "index_vector_dim": Attribute((GATHER, SCATTER), _index_vector),
    "slice_sizes": _list(GATHER_SIZES),
    "exponent_bits": _number(EXPONENT),
    "mantissa_bits": _number(MANTISSA),
    "distribution": Attribute((DISTRIBUTION,), _distribution),
    "algorithm": Attribute((RNG_ALGORITHM,), _algorithm),
    "fft_type": Attribute((FFT_LENGTH,), _fft),
    "fft_length": _list(FFT_LENGTH),
    "feature_index": _number(FEATURE),
    "delta": _number(DELTA),
    "infeed_config": _quoted(INFEED),
    "outfeed_config": _quoted(OUTFEED),
    "type": Attribute((COMPARISON,), lambda fields: "TOTALORDER" if fields.text(COMPARISON) == "TOTALORDER" else ""),
    "indices_are_sorted": _flag(SORTED),
    "unique_indices": _flag(UNIQUE),
    "is_stable": _flag(STABLE),
    "kind": _word(FUSION_KIND),
    "custom_call_target": _quoted(TARGET),
    "operand_layout_constraints": Attribute((CONSTRAINED,), _constraints),
    "output_to_operand_aliasing": Attribute((ALIASING,), _aliasing),
    "custom_call_has_side_effect": _flag(SIDE_EFFECT),
    "api_version": Attribute((API,), _api),
}  # fmt: skip
