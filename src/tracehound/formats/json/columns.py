"""Lists of Python values out of JSON -> numpy columns.

Owns exact times, whole numbers of any spelling, and the coding of repeated values. Knows no event and no format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from tracehound.intervals import Ints
from tracehound.units import PS_PER_US

Numbers = npt.NDArray[np.int32]
"""Numbers that stand for values."""

INVALID: Final = int(np.iinfo(np.int64).min)
"""Stands for a time that is none, or that Int64 cannot hold."""

MISSING: Final = -1
"""Stands for an id that is absent or negative."""

NS_PER_US: Final = 1_000

_FLOAT_HOLDS: Final = {NS_PER_US: 2.0**43, PS_PER_US: 2.0**33}
"""Below this many microseconds the nearest float is nearer than half a tick to what the text says, and a float holds
the number of ticks."""


class Codes(dict[Any, int]):
    """Numbers values in the order of their first appearance; asked by `codes[value]`."""

    def __missing__(self, value: object) -> int:
        code = self[value] = len(self)
        return code

    def column(self, values: Iterable[Any], count: int) -> Numbers:
        """The numbers of these values, of which there are `count`."""
        return np.fromiter(map(self.__getitem__, values), np.int32, count)


class Answers:
    """What a question about the values that some `Codes` number is answered with, asked once of each: small numbers."""

    def __init__(self, codes: Codes, question: Callable[[Any], int]) -> None:
        self._codes = codes
        self._question = question
        self._known = np.empty(0, np.int8)

    def of(self, column: Numbers) -> npt.NDArray[np.int8]:
        """For each number in the column, the answer for its value."""
        return self.all()[column]

    def all(self) -> npt.NDArray[np.int8]:
        """The answers for all values so far."""
        if len(self._known) < len(self._codes):
            fresh = [self._question(value) for value in islice(self._codes, len(self._known), None)]
            self._known = np.concatenate([self._known, np.array(fresh, np.int8)])
        return self._known


def ticks(values: Sequence[Any], per_us: int) -> Ints | None:
    """Microseconds as whole ticks, of which there are `per_us` to one; None where floats cannot tell them exactly.

    None asks the caller for the times as the file spells them, and to use `exact_ticks`.
    """
    if not len(values):
        return np.empty(0, np.int64)
    try:
        if isinstance(values[0], int) and set(map(type, values)) <= {int, bool}:
            return _multiplied(np.fromiter(values, np.int64, len(values)), per_us)
        us = np.fromiter(values, np.float64, len(values))
    except (TypeError, ValueError, OverflowError):
        return None
    low, high, bound = us.min(), us.max(), _FLOAT_HOLDS[per_us]
    if low > -bound and high < bound:  # false for NaN
        whole = np.floor(us)
        us -= whole
        us *= per_us
        np.rint(us, us)
        whole *= per_us
        whole += us
        return whole.astype(np.int64)
    return None


def exact_ticks(values: Sequence[Any], per_us: int) -> Ints:
    """Microseconds, given as JSON, decimals, ints or text, as whole ticks; `INVALID` for what is no such time."""
    found = _plain(values, per_us) if len(values) and isinstance(values[0], msgspec.Raw) else None
    return np.fromiter((_exact(value, per_us) for value in values), np.int64, len(values)) if found is None else found


def _plain(numbers: Sequence[msgspec.Raw], per_us: int) -> Ints | None:
    """Numbers of JSON all at once; None where some are null, or have an exponent, parts of a tick, or too many digits.

    They are read as whole numbers without their points, and each point tells by what its number is too large.
    """
    text = b",".join([*numbers, b""])
    if b"e" in text or b"E" in text or b"null" in text:
        return None
    characters = np.frombuffer(text, np.uint8)
    ends, points = np.flatnonzero(characters == ord(",")), np.flatnonzero(characters == ord("."))
    decimals = np.zeros(len(ends), np.int64)
    of = np.searchsorted(ends, points)
    decimals[of] = ends[of] - points - 1
    if per_us % 10 ** int(decimals.max()):
        return None
    digits = np.fromstring(text.replace(b".", b""), np.int64, len(ends), sep=",")
    return _multiplied(digits, per_us // 10**decimals)


def _multiplied(values: Ints, factor: Ints | int) -> Ints | None:
    """None where that is too much for any."""
    most = 2**62 // factor
    return values * factor if np.all((values > -most) & (values < most)) else None


def _exact(value: object, per_us: int) -> int:
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


def whole_numbers(values: Sequence[Any]) -> Ints:
    """Ids and counts, given as ints, floats or text; `MISSING` for what is none, is negative or exceeds Int64."""
    try:
        return np.maximum(np.fromiter(values, np.int64, len(values)), MISSING)
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(whole_number, values), np.int64, len(values))


def ids(values: Sequence[Any]) -> tuple[Ints, list[int]]:
    """The same, and which rows have an id that Int64 cannot hold; the unsigned -1 stands for none."""
    try:
        return np.maximum(np.fromiter(values, np.int64, len(values)), MISSING), []
    except (TypeError, ValueError, OverflowError):
        large = [row for row, value in enumerate(values) if isinstance(value, int) and value >= 2**63]
        return whole_numbers(values), [row for row in large if values[row] != _NO_ID]


_NO_ID: Final = 2**64 - 1


def whole_number(value: object) -> int:
    """One id or count, as `whole_numbers` reads it."""
    number = integer(value)
    return MISSING if number is None or number < 0 else number


def integer(value: object) -> int | None:
    """A number as a whole one of Int64; text may be hexadecimal (``0x1f``) or end in ``.0``.

    None for what is none, or exceeds that.
    """
    if not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = _in_text(value) if isinstance(value, str) else int(value)
    except (ValueError, ArithmeticError):
        return None
    return number if abs(number) < 2**63 else None


def _in_text(text: str) -> int:
    if "x" in text.lower():
        return int(text, 16)
    before, point, after = text.partition(".")
    return int(before if point and not after.strip().strip("0") else text)


def as_text(value: object) -> str:
    """A field that should be a string, whatever it is; null is the empty string."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def as_id(value: object) -> int | float | str | None:
    """A process, thread or device id, whatever it is."""
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int | float | str | None) else str(value)
