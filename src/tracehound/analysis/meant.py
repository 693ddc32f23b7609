"""Which column of a result a person means, and which value of it.

Owns how columns are called and how the values of a unit are written: ``1.5ms``, ``64MiB``, ``20GB/s``, ``10%``. Knows
no grammar and no rows.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from tracehound.analysis.result import Column, Unit
from tracehound.errors import TracehoundError
from tracehound.units import parse_duration

NUMBER: Final = re.compile(r"[+-]?(?:[0-9][0-9_,]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
UNIT: Final = re.compile(r"(?!(?:and|or)\b)(?:%|[a-zµμ]{1,3}(?:/s)?(?!\w))", re.IGNORECASE)
"""What may stand after a number."""

_LIKE: MappingProxyType[Unit, Unit] = MappingProxyType({"instant": "time", "number": "count", "depth": "count"})
"""Units whose values are compared with those of another."""

_BYTES = MappingProxyType(
    {
        "": 1, "b": 1,
        "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
        "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    }
)  # fmt: skip

_FLOPS = MappingProxyType({"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15})
_PER_SECOND = MappingProxyType({"rate": _BYTES, "flops": _FLOPS})

_EXAMPLES: MappingProxyType[Unit, str] = MappingProxyType(
    {
        "time": "1.5ms",
        "bytes": "64MiB",
        "rate": "20GB/s",
        "flops": "5T",
        "share": "10%",
        "count": "100",
        "flag": "yes",
        "text": '"gemm"',
    }
)


def heading(column: Column) -> str:
    """The name of a column as people write it."""
    return column.name.replace("_", " ")


def example(column: Column) -> str:
    """How a value of the column is written."""
    return _EXAMPLES.get(_like(column), "1")


def column(name: str, columns: Sequence[Column]) -> Column | None:
    """The column that is called so, or the only one whose name begins so; case does not matter."""
    plain = _plain(name)
    return next((each for each in columns if _plain(each.name) == plain), None) or begun(plain, columns)


def begun(name: str, columns: Sequence[Column]) -> Column | None:
    """The only column whose name begins so."""
    found = [each for each in columns if name and _plain(each.name).startswith(name)]
    return found[0] if len(found) == 1 else None


def near(name: str, columns: Sequence[Column]) -> str:
    """What to say to who named a column that is none."""
    names, plain = [heading(each) for each in columns], _plain(name)
    close = [other for other in names if plain and _plain(other).startswith(plain)]
    close = close or difflib.get_close_matches(plain, names, 1)
    if len(close) == 1:
        return f"did you mean {close[0]}?"
    listed = ", ".join(close or names) or "none"
    return f"there are {listed}; in quotes it is text" if name else f"there are {listed}"


def comparable(one: Column, name: str, columns: Sequence[Column]) -> Column:
    """The column of that name, whose values can be held against those of `one`; else TracehoundError."""
    other = column(name, columns)
    if other is None:
        what = f"{name!r} is not a value of {heading(one)}" if name else f"nothing to compare {heading(one)} with"
        raise TracehoundError(what, remedy=f"such as {example(one)}")
    if _like(other) != _like(one):
        raise TracehoundError(f"{heading(one)} and {heading(other)} cannot be compared")
    return other


def amount(of: Column, number: str, unit: str) -> int | float:
    """A value of a column, raw; TracehoundError when it is not written in a unit of the column."""
    found = _amount(of, number, unit)
    return float(found) if abs(found) >= 2**63 else found


def _amount(of: Column, number: str, unit: str) -> int | float:
    value = Decimal(number.replace(",", "").replace("_", ""))
    low = unit.lower()
    match _like(of):
        case "time":
            return 0 if not value and not unit else parse_duration(f"{number}{unit}")
        case "bytes" if low in _BYTES:
            return float(value * _BYTES[low])
        case "rate" | "flops" as kind if low.removesuffix("/s") in _PER_SECOND[kind]:
            return float(value * _PER_SECOND[kind][low.removesuffix("/s")])
        case "share" if unit == "%":
            return float(value / 100)
        case "share" if not unit and abs(value) <= 1:
            return float(value)
        case "count" if not unit:
            return int(value) if abs(value) < 2**63 and value == value.to_integral_value() else float(value)
    raise TracehoundError(f"{number}{unit} is not a value of {heading(of)}", remedy=f"such as {example(of)}")


def _plain(name: str) -> str:
    return name.lower().replace("_", " ")


def _like(of: Column) -> Unit:
    return _LIKE.get(of.unit, of.unit)
