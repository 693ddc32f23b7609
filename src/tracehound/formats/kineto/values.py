"""What stands in the args of a Kineto file -> values: a function for each kind, which gives None where it is none.

Owns the spellings of numbers, texts and extents, and how a column is made of many. Knows no facet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType, NoneType
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from tracehound.formats.json.columns import integer
from tracehound.formats.spill import Column, columns_of
from tracehound.intervals import Ints


def text(value: object) -> str | None:
    """Any text, or what stands where one should be; None for nothing."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return str(value) or None


@lru_cache(maxsize=1 << 12)
def json_text(value: bytes) -> str | None:
    """JSON without blanks; text as it is. The same texts come in every segment."""
    try:
        said = msgspec.json.decode(value) if value else None
        return said or None if isinstance(said, str) else None if said is None else msgspec.json.encode(said).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


@lru_cache(maxsize=1 << 12)
def shapes(value: bytes) -> str | None:
    """The same of `sizes_in`."""
    said = json_text(value)
    if said is None or not {".", '"'} & set(said):
        return said
    try:
        return msgspec.json.encode(sizes_in(msgspec.json.decode(said))).decode()
    except (msgspec.MsgspecError, RecursionError):
        return said


def sizes_in(value: object) -> object:
    """A size, or nested lists of them: whole numbers in any spelling as such, and what is none as it is."""
    if isinstance(value, list):
        return value if set(map(type, value)) == {int} else [sizes_in(each) for each in value]
    number = None if isinstance(value, float) and not value.is_integer() else signed(value)
    return value if number is None else number


def extent(value: bytes) -> str | None:
    """The sizes of a grid or a block: ``128,1,1``."""
    try:
        sizes = sizes_in(msgspec.json.decode(value)) if value else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return ",".join(map(str, sizes)) if isinstance(sizes, list) and set(map(type, sizes)) <= {int} else None


def number(value: object) -> float | None:
    """A finite number that is not negative, also one in text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = float(value)
    except (ValueError, ArithmeticError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def percentage(value: object) -> float | None:
    """The share that such a number of percent is."""
    found = number(value)
    return None if found is None else found / 100


def signed(value: object) -> int | None:
    """A whole number of Int64, of any spelling; true and false are none."""
    return None if isinstance(value, bool) else integer(value)


def int64(value: object) -> int | None:
    """A whole number of Int64 that is spelled as one."""
    return signed(value) if isinstance(value, int) else None


def size(value: object) -> int | None:
    """A whole number of bytes, of any spelling; what is beyond Int64, and no size, is the farthest that is not."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        if value > _LARGEST:
            return _LARGEST
        if value < -_LARGEST:
            return -_LARGEST
    return signed(value)


_LARGEST: Final = 2**63 - 1


def natural(value: object) -> int | None:
    """A whole number of Int64 that is not negative, of any spelling."""
    found = signed(value)
    return found if found is not None and found >= 0 else None


def cupti_id(value: object) -> int | None:
    """The same of an id of CUPTI's: the largest of 32 bits stands for none."""
    found = natural(value)
    return None if found == _INVALID else found


_INVALID: Final = 2**32 - 1


def count(value: object) -> int | None:
    """A whole number of Int32 that is not negative, of any spelling."""
    found = natural(value)
    return found if found is not None and found < 2**31 else None


_RANGES: Final[Mapping[Callable[[Any], Any], tuple[int, int]]] = MappingProxyType(
    {signed: (-_LARGEST, _LARGEST), size: (-_LARGEST, _LARGEST), natural: (0, _LARGEST), count: (0, 2**31 - 1)}
)
"""The whole numbers that these let through."""


def valued(
    values: Ints | Iterable[Any], value: Callable[[Any], Any], dtype: pl.DataType, series: list[pl.Series]
) -> Column:
    """A column of the values that `value` makes of what the file says; integers in an array are values already.

    `series` gets what keeps the column's categories alive: polars frees those that no series uses.
    """
    if isinstance(values, np.ndarray):
        return Column(values)
    values = list(values)
    plain = _plain(values, *_RANGES[value]) if value in _RANGES else None
    if plain is not None:
        return plain
    series.append(pl.Series("", [value(each) for each in values], dtype))
    return columns_of(series[-1].to_frame())[""]


def _plain(values: Sequence[Any], low: int, high: int) -> Column | None:
    """Whole numbers that the file spells as such, at once, without those out of a range; None where some are not."""
    types = set(map(type, values))
    if types <= {NoneType, msgspec.UnsetType}:
        return Column(np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_))
    if types != {int}:
        return None
    try:
        numbers = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return None
    within = (numbers >= low) & (numbers <= high)
    return Column(numbers, None if within.all() else within)
