"""Lists of Python values out of JSON -> numpy columns.

Times are exact, integers may be spelled in any way, and repeated values are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from tracehound.model.units import PS_PER_US
from tracehound.numeric.intervals import Ints

CodeArray = npt.NDArray[np.int32]
"""Numbers that stand for values."""

INVALID: Final = int(np.iinfo(np.int64).min)
"""Stands for an invalid time, or one that Int64 cannot hold."""

MISSING: Final = -1
"""Stands for an id that is absent or negative."""

NS_PER_US: Final = 1_000

_FLOAT_HOLDS: Final = {NS_PER_US: 2.0**43, PS_PER_US: 2.0**33}
"""Below this many microseconds the nearest float is within half a tick of the text's value, and a float holds the
number of ticks.
"""


class ValueCodes(dict[Any, int]):
    """Numbers values in the order of their first appearance; `codes[value]` is a value's number."""

    def __missing__(self, value: object) -> int:
        code = self[value] = len(self)
        return code

    def encode_values(self, values: Iterable[Any], count: int) -> CodeArray:
        """Return the numbers of these values, of which there are `count`."""
        return np.fromiter(map(self.__getitem__, values), np.int32, count)


class ResultsByCode:
    """Results of a function on the values that `codes` number, computed once for each: small integers."""

    def __init__(self, codes: ValueCodes, function: Callable[[Any], int]) -> None:
        self._codes = codes
        self._function = function
        self._known = np.empty(0, np.int8)

    def results_of_codes(self, column: CodeArray) -> npt.NDArray[np.int8]:
        """Return the result for each number in the column."""
        return self.all_results()[column]

    def all_results(self) -> npt.NDArray[np.int8]:
        """Return the results for all values so far."""
        if len(self._known) < len(self._codes):
            fresh = [self._function(value) for value in islice(self._codes, len(self._known), None)]
            self._known = np.concatenate([self._known, np.array(fresh, np.int8)])
        return self._known


def to_ticks(values: Sequence[Any], per_us: int) -> Ints | None:
    """Convert microseconds to integer ticks, `per_us` per microsecond; None where floats are not exact enough.

    With None the caller must pass the times as the file spells them to `to_exact_ticks`.
    """
    if not len(values):
        return np.empty(0, np.int64)
    try:
        if isinstance(values[0], int) and set(map(type, values)) <= {int, bool}:
            return _multiply_checked(np.fromiter(values, np.int64, len(values)), per_us)
        us = np.fromiter(values, np.float64, len(values))
    except (TypeError, ValueError, OverflowError):
        return None
    low, high, bound = us.min(), us.max(), _FLOAT_HOLDS[per_us]
    if low > -bound and high < bound:  # false for NaN
        integers = np.floor(us)
        us -= integers
        us *= per_us
        np.rint(us, us)
        integers *= per_us
        integers += us
        return integers.astype(np.int64)
    return None


def to_exact_ticks(values: Sequence[Any], per_us: int) -> Ints:
    """Convert microseconds, given as JSON, decimals, ints or text, to ticks; `INVALID` for other values."""
    found = _parse_plain_decimals(values, per_us) if len(values) and isinstance(values[0], msgspec.Raw) else None
    return (
        np.fromiter((_exact_tick(value, per_us) for value in values), np.int64, len(values)) if found is None else found
    )


def _parse_plain_decimals(numbers: Sequence[msgspec.Raw], per_us: int) -> Ints | None:
    """Parse JSON numbers all at once; None if some are null, or have an exponent, parts of a tick, or too many digits.

    They are parsed as integers without their decimal points, and each point's position gives the factor to divide by.
    """
    text = b",".join([*numbers, b""])
    if b"e" in text or b"E" in text or b"null" in text:
        return None
    characters = np.frombuffer(text, np.uint8)
    ends, points = np.flatnonzero(characters == ord(",")), np.flatnonzero(characters == ord("."))
    decimals = np.zeros(len(ends), np.int64)
    rows = np.searchsorted(ends, points)
    decimals[rows] = ends[rows] - points - 1
    if per_us % 10 ** int(decimals.max()):
        return None
    digits = np.fromstring(text.replace(b".", b""), np.int64, len(ends), sep=",")
    return _multiply_checked(digits, per_us // 10**decimals)


def _multiply_checked(values: Ints, factor: Ints | int) -> Ints | None:
    """Return the products, or None where one is too large."""
    most = 2**62 // factor
    return values * factor if np.all((values > -most) & (values < most)) else None


def _exact_tick(value: object, per_us: int) -> int:
    if isinstance(value, msgspec.Raw):
        value = str(value, "ascii")
    if isinstance(value, int):
        tick = value * per_us
        return tick if abs(tick) < 2**62 else INVALID
    try:
        us = Decimal(value) if isinstance(value, str | float | Decimal) else Decimal("NaN")
        if abs(us) * per_us < 2**62:  # raises for NaN
            return int((us * per_us).to_integral_value(ROUND_HALF_EVEN))
    except ArithmeticError:
        pass
    return INVALID


def parse_counts(values: Sequence[Any]) -> Ints:
    """Parse ids and counts, given as ints, floats or text; `MISSING` for invalid, negative and too large ones."""
    try:
        return np.maximum(np.fromiter(values, np.int64, len(values)), MISSING)
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(parse_count, values), np.int64, len(values))


def parse_ids(values: Sequence[Any]) -> tuple[Ints, list[int]]:
    """Parse ids as `parse_counts` does; also return the rows of ids too large for Int64. The unsigned -1 is no id."""
    try:
        return np.maximum(np.fromiter(values, np.int64, len(values)), MISSING), []
    except (TypeError, ValueError, OverflowError):
        large = [row for row, value in enumerate(values) if isinstance(value, int) and value >= 2**63]
        return parse_counts(values), [row for row in large if values[row] != _NO_ID]


_NO_ID: Final = 2**64 - 1


def parse_count(value: object) -> int:
    """Parse one id or count, as `parse_counts` does."""
    number = parse_integer(value)
    return MISSING if number is None or number < 0 else number


def parse_integer(value: object) -> int | None:
    """Parse a number as an Int64; text may be hexadecimal (``0x1f``) or end in ``.0``.

    None for other values and larger numbers.
    """
    if not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = _parse_integer_text(value) if isinstance(value, str) else int(value)
    except (ValueError, ArithmeticError):
        return None
    return number if abs(number) < 2**63 else None


def _parse_integer_text(text: str) -> int:
    if "x" in text.lower():
        return int(text, 16)
    before, point, after = text.partition(".")
    return int(before if point and not after.strip().strip("0") else text)


def as_text(value: object) -> str:
    """Return a field as a string, whatever it is; null is the empty string."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def as_id(value: object) -> int | float | str | None:
    """Return a process, thread or device id, whatever it is."""
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int | float | str | None) else str(value)
