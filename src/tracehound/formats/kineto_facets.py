"""The facets of a segment of a Kineto file: how kernels were launched, operators called, collectives and memory moved.

Owns how their args become values. Args that repeat are numbered, so that a text is looked at once however often it
stands there. Knows no lanes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import compress, repeat
from operator import attrgetter, is_not
from types import MappingProxyType, NoneType
from typing import Any, Final

import msgspec
import polars as pl

from tracehound.facets import FACETS
from tracehound.formats.json_columns import INVALID, Codes
from tracehound.formats.kineto_args import NO_ARGS, Args, Message
from tracehound.intervals import Ints


class Facets:
    """The facets of a segment so far. A record is the ordinal of an event in the segment."""

    def __init__(self) -> None:
        self._tables = {name: _Table(name) for name in _VALUES}

    def add(self, facet: str, records: Iterable[int], args: Sequence[Args | Message]) -> None:
        """What events carry of a facet; those that carry nothing of it are left out in the end."""
        if args:
            self._tables[facet].add(records, _own(facet, args), _combinations(facet, args))

    def add_memory(
        self, records: Ints, time: Ints, device: Ints, threads: Sequence[object], args: Sequence[Args]
    ) -> None:
        """Events of memory at these times (ns as in the file), which have a place where they have a time."""
        timed = time != INVALID
        columns = {
            "time": time[timed].tolist(),
            "device": device[timed].tolist(),
            **{name: compress(map(attrgetter(field), args), timed) for name, field in _FIELDS["allocated"].items()},
            "thread": compress(threads, timed),
        }
        self._tables["allocated"].add(records[timed].tolist(), columns, ())

    def frames(self) -> dict[str, pl.DataFrame]:
        """Those of which there is any row, in the schemas of `FACETS`; times are ns as in the file."""
        made = {name: table.frame() for name, table in self._tables.items()}
        return {name: frame for name, frame in made.items() if frame.height}


class _Table:
    """The rows of one facet: the args in `_OWN` are kept row by row, of the others each combination once."""

    def __init__(self, name: str) -> None:
        self._schema, self._values = FACETS[name], _VALUES[name]
        self._own: dict[str, list[Any]] = {column: [] for column in _OWN[name]}
        self._records, self._codes, self._keys = array("q"), array("i"), Codes()

    def add(
        self, records: Iterable[int], own: Mapping[str, Iterable[Any]], combinations: Iterable[_Combination]
    ) -> None:
        """Append rows."""
        self._records.extend(records)
        for column, values in self._own.items():
            values.extend(own[column])
        keys = list(combinations)
        try:
            self._codes.extend([self._keys[key] for key in keys])
        except TypeError:  # a list or an object where a number or a text should be
            self._codes.extend([self._keys[tuple(map(_hashable, key))] for key in keys])

    def frame(self) -> pl.DataFrame:
        """The rows that tell anything."""
        if not self._records:
            return pl.DataFrame(schema=self._schema)
        codes = pl.Series(self._codes, dtype=pl.Int32)
        columns = {column: self._series(column, values) for column, values in self._own.items()}
        repeated = (column for column in self._values if column not in self._own)
        for column, distinct in zip(repeated, zip(*map(_apart, self._keys), strict=True), strict=False):
            columns[column] = self._series(column, distinct).gather(codes)
        rows = pl.DataFrame([pl.Series("record", self._records, pl.Int64), *columns.values()])
        absent = [pl.lit(None, dtype).alias(name) for name, dtype in self._schema.items() if name not in rows.columns]
        return (
            rows.with_columns(absent)
            .select(self._schema.names())
            .filter(~pl.all_horizontal(pl.exclude("record").is_null()))
        )

    def _series(self, column: str, values: Sequence[Any]) -> pl.Series:
        value = self._values[column]
        plain = _plain(column, values, _RANGES[value]) if value in _RANGES else None
        if plain is not None:
            return plain.cast(self._schema[column])
        return pl.Series(column, [value(each) for each in values], self._schema[column])


def _plain(column: str, values: Sequence[Any], within: tuple[int, int]) -> pl.Series | None:
    """Whole numbers that the file spells as such, at once, without those out of a range; None where some are not."""
    types = set(map(type, values))
    if types <= {NoneType, msgspec.UnsetType}:
        return pl.Series(column, [None], pl.Int64).new_from_index(0, len(values))
    if not types <= {int, NoneType}:
        return None
    try:
        numbers = pl.Series(column, values, pl.Int64)
    except (OverflowError, TypeError, pl.exceptions.PolarsError):
        return None
    return numbers.set(~numbers.is_between(*within), None)


_Combination = bytes | tuple[Any, ...]
"""The args of an event that others have, too, as the file spells them: JSON texts in one, or any values."""

_BETWEEN: Final = b"\0"
"""What JSON cannot hold stands between texts: one key of all of them is made and looked up faster than several."""


def _own(facet: str, args: Sequence[Any]) -> dict[str, Iterable[Any]]:
    """The columns in `_OWN`, as the file spells them."""
    return {column: map(attrgetter(_FIELDS[facet][column]), args) for column in _OWN[facet]}


def _combinations(facet: str, args: Sequence[Any]) -> Iterable[_Combination]:
    """The other columns of each event, as the file spells them; JSON as its bytes, which outlive the slice."""
    fields = {column: field for column, field in _FIELDS[facet].items() if column not in _OWN[facet]}
    for column, old in _OLD.items():
        if column in fields and not _told(args, fields[column]):
            fields[column] = old
    if facet == "called":
        return map(_BETWEEN.join, map(attrgetter(*fields.values()), args))
    read = {column: map(attrgetter(field), args) for column, field in fields.items()}
    return zip(
        *(map(bytes, values) if _VALUES[facet][column] is _extent else values for column, values in read.items()),
        strict=True,
    )


def _apart(key: _Combination) -> Sequence[Any]:
    """The values of a combination."""
    return key.split(_BETWEEN) if isinstance(key, bytes) else key


def _told(args: Sequence[Any], field: str) -> bool:
    """Whether the file tells it of any of them."""
    return any(map(is_not, map(attrgetter(field), args), repeat(getattr(NO_ARGS, field))))


def _hashable(value: object) -> object:
    return value if isinstance(value, int | float | str | bytes | None) else str(value)


def _text(value: object) -> str | None:
    """Any text, or what stands where one should be; None for nothing."""
    return None if value is None else str(value) or None


@lru_cache(maxsize=1 << 12)
def _json(value: bytes) -> str | None:
    """JSON without blanks; text as it is. The same texts come in every segment."""
    try:
        said = msgspec.json.decode(value) if value else None
        return said or None if isinstance(said, str) else None if said is None else msgspec.json.encode(said).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _extent(value: bytes) -> str | None:
    """The sizes of a grid or a block: ``128,1,1``."""
    try:
        return ",".join(map(str, msgspec.json.decode(value, type=list[int]))) if value else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def _number(value: object) -> float | None:
    """A finite number that is not negative, also one in text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = float(value)
    except (ValueError, ArithmeticError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def _percentage(value: object) -> float | None:
    found = _number(value)
    return None if found is None else found / 100


def _signed(value: object) -> int | None:
    """A whole number of Int64, of any spelling."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = int(value, 0) if isinstance(value, str) else int(value)
    except (ValueError, ArithmeticError):
        return None
    return found if abs(found) < 2**63 else None


def _natural(value: object) -> int | None:
    """The same, not negative."""
    found = _signed(value)
    return found if found is not None and found >= 0 else None


def _count(value: object) -> int | None:
    """The same, of Int32."""
    found = _natural(value)
    return found if found is not None and found < 2**31 else None


_RANGES: Final[Mapping[Callable[[Any], Any], tuple[int, int]]] = MappingProxyType(
    {_signed: (1 - 2**63, 2**63 - 1), _natural: (0, 2**63 - 1), _count: (0, 2**31 - 1)}
)
"""The whole numbers that these let through."""

_VALUES: Final[Mapping[str, Mapping[str, Callable[[Any], Any]]]] = MappingProxyType(
    {
        "launched": {
            "grid": _extent,
            "block": _extent,
            "registers": _count,
            "shared": _natural,
            "blocks_per_sm": _number,
            "warps_per_sm": _number,
            "occupancy": _percentage,
        },
        "called": {
            "dims": _json,
            "types": _json,
            "strides": _json,
            "concrete": _json,
            "stack": _json,
            "hierarchy": _json,
            "sequence": _natural,
            "forward": _natural,
        },
        "communicated": {
            "collective": _text,
            "dtype": _text,
            "group": _text,
            "description": _text,
            "ranks": _text,
            "size": _count,
            "sequence": _natural,
            "elements_in": _natural,
            "elements_out": _natural,
            "split_in": _text,
            "split_out": _text,
            "source": _count,
            "destination": _count,
        },
        "allocated": {
            "time": _signed,
            "device": _signed,
            "bytes": _signed,
            "address": _signed,
            "allocated": _natural,
            "reserved": _natural,
            "thread": _natural,
        },
    }
)
"""What makes the value of a column of what the file says, or None."""

_OWN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "launched": (),
        "called": ("sequence", "forward"),
        "communicated": (),
        "allocated": tuple(_VALUES["allocated"]),
    }
)
"""Columns whose values seldom repeat."""

_FIELDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "launched": {column: column for column in _VALUES["launched"]},
        "called": {column: column for column in _VALUES["called"]},
        "communicated": {column: column for column in _VALUES["communicated"]},
        "allocated": {"bytes": "change", **{column: column for column in ("address", "allocated", "reserved")}},
    }
)
"""The fields of `Args` that columns are read from."""

_OLD: Final[Mapping[str, str]] = MappingProxyType({"dims": "dims_old", "occupancy": "occupancy_old"})
"""Where older files have the same, in slices that do not have it where newer ones do."""
