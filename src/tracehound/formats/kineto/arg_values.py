"""Parsers of the args of Kineto events: one function for each type of value, which returns None for an invalid value.

They accept every spelling of numbers, texts and sizes. `parse_columns` parses many values at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import prod
from types import MappingProxyType, NoneType
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.json.value_columns import MISSING, parse_integer
from tracehound.formats.spill import MaskedColumn, frame_to_columns
from tracehound.formats.torch_names import element_size
from tracehound.numeric.intervals import Ints


def parse_text(value: object) -> str | None:
    """Any value as text; None for null, empty text and numbers that are not finite."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return str(value) or None


@lru_cache(maxsize=1 << 12)
def compact_json(value: bytes) -> str | None:
    """JSON without blanks; a JSON string as its text. Cached, since texts repeat in every segment."""
    try:
        parsed = msgspec.json.decode(value) if value else None
        return (
            parsed or None
            if isinstance(parsed, str)
            else None
            if parsed is None
            else msgspec.json.encode(parsed).decode()
        )
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


@lru_cache(maxsize=1 << 12)
def parse_shapes(value: bytes) -> str | None:
    """Shapes as compact JSON, with sizes in any spelling written as integers."""
    compact = compact_json(value)
    if compact is None or not {".", '"'} & set(compact):
        return compact
    try:
        return msgspec.json.encode(convert_to_integers(msgspec.json.decode(compact))).decode()
    except (msgspec.MsgspecError, RecursionError):
        return compact


def convert_to_integers(value: object) -> object:
    """A size, or nested lists of sizes, with whole numbers in any spelling converted to int; other values stay."""
    if isinstance(value, list):
        return value if set(map(type, value)) == {int} else [convert_to_integers(each) for each in value]
    number = None if isinstance(value, float) and not value.is_integer() else parse_int64(value)
    return value if number is None else number


def parse_grid(value: bytes) -> str | None:
    """Sizes of a grid or a block: ``128,1,1``."""
    try:
        sizes = convert_to_integers(msgspec.json.decode(value)) if value else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return ",".join(map(str, sizes)) if isinstance(sizes, list) and set(map(type, sizes)) <= {int} else None


def parse_float(value: object) -> float | None:
    """A finite number that is not negative; text is accepted."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = float(value)
    except (ValueError, ArithmeticError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def parse_percentage(value: object) -> float | None:
    """A percentage as a fraction."""
    found = parse_float(value)
    return None if found is None else found / 100


def parse_int64(value: object) -> int | None:
    """An Int64 in any spelling; true and false are invalid."""
    return None if isinstance(value, bool) else parse_integer(value)


def recorded_int64(value: object) -> int | None:
    """An Int64 that is written as a JSON integer."""
    return parse_int64(value) if isinstance(value, int) else None


def parse_byte_size(value: object) -> int | None:
    """A number of bytes in any spelling; values beyond Int64 are clipped, and are rejected later as sizes."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        if value > _MAX_INT64:
            return _MAX_INT64
        if value < -_MAX_INT64:
            return -_MAX_INT64
    return parse_int64(value)


_MAX_INT64: Final = 2**63 - 1


def parse_natural(value: object) -> int | None:
    """An Int64 that is not negative, in any spelling."""
    found = parse_int64(value)
    return found if found is not None and found >= 0 else None


def parse_cupti_id(value: object) -> int | None:
    """An id of CUPTI that is not negative; the largest unsigned 32-bit number means none."""
    found = parse_natural(value)
    return None if found == _NO_CUPTI_ID else found


_NO_CUPTI_ID: Final = 2**32 - 1


def parse_int32(value: object) -> int | None:
    """An Int32 that is not negative, in any spelling."""
    found = parse_natural(value)
    return found if found is not None and found < 2**31 else None


_INTEGER_RANGES: Final[Mapping[Callable[[Any], Any], tuple[int, int]]] = MappingProxyType(
    {
        parse_int64: (-_MAX_INT64, _MAX_INT64),
        parse_byte_size: (-_MAX_INT64, _MAX_INT64),
        parse_natural: (0, _MAX_INT64),
        parse_int32: (0, 2**31 - 1),
    }
)
"""Range of the integers that each parser accepts."""


def parse_columns(
    recorded: Mapping[str, Ints | Iterable[Any]],
    parsers: Mapping[str, Callable[[Any], Any]],
    dtypes: Mapping[str, pl.DataType],
    series: list[pl.Series],
) -> dict[str, MaskedColumn]:
    """Columns of the values that `parsers` make of recorded values; an integer array needs no parsing.

    `series` collects the series that keep the columns' categories alive: polars frees categories that no series uses.
    """
    columns, texts = dict[str, MaskedColumn](), list[pl.Series]()
    for name, values in recorded.items():
        column = values if isinstance(values, np.ndarray) else _parse_values(name, values, parsers[name], dtypes[name])
        if isinstance(column, pl.Series):
            texts.append(column)
        else:
            columns[name] = column if isinstance(column, MaskedColumn) else MaskedColumn(column)
    series += texts
    return columns | frame_to_columns(pl.DataFrame(texts)) if texts else columns


def _parse_values(
    name: str, values: Iterable[Any], parse: Callable[[Any], Any], dtype: pl.DataType
) -> MaskedColumn | pl.Series:
    """The values that `parse` makes of recorded values: numbers, or a series of categories."""
    values = list(values)
    plain = _integer_column(values, *_INTEGER_RANGES[parse]) if parse in _INTEGER_RANGES else None
    if plain is not None:
        return plain
    parsed = [parse(each) for each in values]
    missing = parsed.count(None)
    if missing == len(parsed):
        return MaskedColumn(np.zeros(len(parsed), np.uint8), np.zeros(len(parsed), np.bool_))
    if isinstance(dtype, pl.Categorical):
        return pl.Series(name, parsed, dtype)
    numbers = np.array([0 if value is None else value for value in parsed], _NUMPY_TYPES[dtype])
    return MaskedColumn(numbers, np.array([value is not None for value in parsed]) if missing else None)


_NUMPY_TYPES: Final[Mapping[pl.DataType, npt.DTypeLike]] = MappingProxyType(
    {pl.Float64(): np.float64, pl.Int64(): np.int64, pl.Int32(): np.int32}
)


def _integer_column(values: Sequence[Any], low: int, high: int) -> MaskedColumn | None:
    """Column of values that are all JSON integers, without those out of range; None if some are not integers."""
    types = set(map(type, values))
    if types <= {NoneType, msgspec.UnsetType}:
        return MaskedColumn(np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_))
    if types != {int}:
        return None
    try:
        numbers = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return None
    within = (numbers >= low) & (numbers <= high)
    return MaskedColumn(numbers, None if within.all() else within)


def collective_message_bytes(elements_in: int, elements_out: int, dtype: object) -> int:
    """Message size of a collective in bytes: the larger of the input and the output of one rank.

    For all-reduce and broadcast these are equal; for all-gather it is the output, for reduce-scatter the input. -1 if
    unknown.
    """
    size = max(elements_in, elements_out) * element_size(dtype)
    return _size_or_missing(size)


def input_tensor_bytes(dims: object, types: object) -> int:
    """Bytes of the tensors among an operator's inputs, by `Input Dims` and `Input type`; -1 without any."""
    if not isinstance(dims, Sequence) or not isinstance(types, Sequence):
        return -1
    total = sum(_count_elements(shape) * element_size(dtype) for shape, dtype in zip(dims, types, strict=False))
    return _size_or_missing(total)


def _size_or_missing(size: int) -> int:
    return size if 0 < size < 2**63 else -1


def _count_elements(shape: object) -> int:
    if not isinstance(shape, list):
        return 0
    tensors = [inner for inner in shape if isinstance(inner, list)] or [shape]
    return sum(prod(size for size in sizes if isinstance(size, int)) for sizes in tensors)


_TRAILING_NUMBER = re.compile(r"(\d{1,18})\s*$")


def id_number(value: object) -> int:
    """The id in a field that holds a number, or text that ends with one (``stream 7``); -1 without any."""
    number = parse_integer(value)
    if number is None and isinstance(value, str) and (match := _TRAILING_NUMBER.search(value)):
        number = int(match[1])
    return MISSING if number is None or number < 0 else number
