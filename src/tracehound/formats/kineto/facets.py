"""The facets of a segment of a Kineto file: how kernels were launched, operators called, collectives and memory moved.

Owns which args make which columns, by `values`. Args that repeat are numbered, so that a text is looked at once however
often it stands there. Knows no lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, islice, repeat
from operator import attrgetter, is_not
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import polars as pl

from tracehound.facets import FACETS
from tracehound.formats.assembly.batches import joined, one_after_the_other
from tracehound.formats.json.columns import INVALID, Codes, Numbers
from tracehound.formats.kineto.args import NO_ARGS, NOTHING, Args, InstantArgs
from tracehound.formats.kineto.tally import UNSIZED, Tally
from tracehound.formats.kineto.values import (
    count,
    cupti_id,
    extent,
    json_text,
    natural,
    number,
    percentage,
    shapes,
    signed,
    size,
    text,
    valued,
)
from tracehound.formats.sizes import MOST_BYTES, possible
from tracehound.formats.spill import Column, Kept, Spill
from tracehound.intervals import Ints


class Combinations:
    """The args of one facet that events share: each combination of them has a number, and its values are told once.

    They are kept over segments, which have most in common, as long as they are few.
    """

    def __init__(self, facet: str) -> None:
        self._facet = facet
        self._keys = Codes()
        self._series: list[pl.Series] = []  # kept: polars frees categories that no series uses
        self._told = 0
        self._columns: dict[str, Column] = {}

    @property
    def many(self) -> bool:
        """Whether they are too many to be kept."""
        return len(self._keys) > _MANY

    def numbers(self, keys: Sequence[_Combination]) -> Numbers:
        """The number of each."""
        try:
            return self._keys.column(keys, len(keys))
        except TypeError:  # a list or an object where a number or a text should be
            return self._keys.column([tuple(map(_hashable, key)) for key in keys], len(keys))

    def columns(self) -> Mapping[str, Column]:
        """The values of all so far, in the order of their numbers."""
        shared = (column for column in _VALUES[self._facet] if column not in _OWN[self._facet])
        fresh = zip(*map(_apart, islice(self._keys, self._told, None)), strict=True)
        for name, values in zip(shared, fresh, strict=False):
            parts = [self._columns[name]] if name in self._columns else []
            parts.append(valued(values, _VALUES[self._facet][name], FACETS[self._facet][name], self._series))
            self._columns[name] = one_after_the_other(parts)
        self._told = len(self._keys)
        return self._columns


_MANY: Final = 1 << 14
"""Combinations of more are not kept for the next segment: they would be those of texts that hardly repeat."""


class Known(dict[str, Combinations]):
    """The combinations of each facet that earlier segments had."""

    def of(self, facet: str) -> Combinations:
        """Those to number on with."""
        if facet not in self or self[facet].many:
            self[facet] = Combinations(facet)
        return self[facet]


class Facets:
    """The facets of a segment so far. A record is the ordinal of an event in the segment."""

    def __init__(self, known: Known) -> None:
        self._tables = {name: _Table(name, known.of(name)) for name in _VALUES}

    def add(self, facet: str, records: Ints, args: Sequence[Args]) -> None:
        """What events carry of a facet; those that carry nothing of it are left out in the end."""
        if args:
            table = self._tables[facet]
            table.add(records, table.made(_own(facet, args)), table.numbers(list(_combinations(facet, args))))

    def add_columns(self, facet: str, records: Ints, own: Mapping[str, Column], numbers: Numbers | None = None) -> None:
        """The same of columns: those that seldom repeat, and the numbers of the combinations of the others."""
        self._tables[facet].add(records, own, numbers)

    def number(self, facet: str, combination: _Combination) -> int:
        """The number of a combination."""
        return int(self._tables[facet].numbers([combination])[0])

    def add_memory(
        self, records: Ints, time: Ints, device: Ints, threads: Sequence[object], args: Sequence[InstantArgs]
    ) -> None:
        """Events of memory at these times (ns as in the file), which have a place where they have a time."""
        timed = time != INVALID
        columns = {
            "time": time[timed],
            "device": device[timed],
            **{name: compress(map(attrgetter(field), args), timed) for name, field in _FIELDS["allocated"].items()},
            "thread": compress(threads, timed),
        }
        table = self._tables["allocated"]
        table.add(records[timed], table.made(columns), None)

    def put(self, spill: Spill, name: str, tally: Tally) -> dict[str, Kept]:
        """Put those of which there is any row aside, under names that start with this one; times are as in the file.

        Columns without any value are left out. Events of memory with a size that cannot be true are counted.
        """
        made = {facet: table.columns() for facet, table in self._tables.items()}
        made["allocated"] = _with_sizes(made["allocated"], tally)
        return {
            facet: spill.put(columns, {each: FACETS[facet][each] for each in columns}, f"{name}-{facet}")
            for facet, columns in made.items()
            if len(columns["record"].values)
        }


class _Table:
    """The rows of one facet: the args in `_OWN` are kept row by row, of the others the number of their combination."""

    def __init__(self, name: str, combinations: Combinations) -> None:
        self._name, self._schema = name, FACETS[name]
        self._combinations = combinations
        self._slices: list[dict[str, Column]] = []
        self._series: list[pl.Series] = []

    def made(self, own: Mapping[str, Ints | Iterable[Any]]) -> dict[str, Column]:
        """Columns of what the file says."""
        makes = _VALUES[self._name]
        return {name: valued(values, makes[name], self._schema[name], self._series) for name, values in own.items()}

    def numbers(self, combinations: Sequence[_Combination]) -> Numbers:
        """The numbers of combinations."""
        return self._combinations.numbers(combinations)

    def add(self, records: Ints, own: Mapping[str, Column], numbers: Numbers | None) -> None:
        """Append rows: the columns in `_OWN`, and the numbers of the combinations of the others."""
        shared = {} if numbers is None else {_NUMBER: Column(numbers)}
        self._slices.append({**own, **shared, "record": Column(records)})

    def columns(self) -> dict[str, Column]:
        """The rows that tell anything, of the columns that do."""
        found = joined(self._slices, [len(columns["record"].values) for columns in self._slices])
        if len(found) and np.any(np.diff(found["record"].values) < 0):  # slices whose events came in two ways
            order = np.argsort(found["record"].values, kind="stable")
            found = {name: column.at(order) for name, column in found.items()}
        record, numbers = found.pop("record", _NOTHING), found.pop(_NUMBER, None)
        if numbers is not None:
            found.update({name: known.at(numbers.values) for name, known in self._combinations.columns().items()})
        found = {name: column for name, column in found.items() if column.valid is None or column.valid.any()}
        told = np.zeros(len(record.values), np.bool_)
        for column in found.values():
            told |= True if column.valid is None else column.valid
        columns = {"record": record, **{name: found[name] for name in self._schema if name in found}}
        return columns if told.all() else {name: column.at(np.flatnonzero(told)) for name, column in columns.items()}


def _with_sizes(memory: dict[str, Column], tally: Tally) -> dict[str, Column]:
    """Events of memory without the sizes that cannot be true."""
    sized = {name: possible(memory[name], least) for name, least in _LEAST.items() if name in memory}
    if sized:
        odd = np.logical_or.reduce([beyond for _, beyond in sized.values()])
        tally.rows(UNSIZED, odd, memory["record"].values)
    return memory | {name: sizes for name, (sizes, _) in sized.items()}


_LEAST: Final = MappingProxyType({"bytes": -MOST_BYTES, "allocated": 0, "reserved": 0})
"""The sizes of events of memory, and what each is at least."""


_NUMBER: Final = ""
"""The column of the numbers of combinations."""

_NOTHING: Final = Column(np.empty(0, np.int64))


_Combination = bytes | tuple[Any, ...]
"""The args of an event that others have, too, as the file spells them: JSON texts in one, or any values."""

_BETWEEN: Final = b"\0"
"""What JSON cannot hold stands between texts: one key of all of them is made and looked up faster than several."""


NO_TEXTS: Final = _BETWEEN * 5
"""What six texts make that are not there."""


def _own(facet: str, args: Sequence[Any]) -> dict[str, Iterable[Any]]:
    """The columns in `_OWN`, as the file spells them."""
    return {column: map(attrgetter(_FIELDS[facet][column]), args) for column in _OWN[facet]}


def _combinations(facet: str, args: Sequence[Any]) -> Iterable[_Combination]:
    """The other columns of each event, as the file spells them; JSON as its bytes, which outlive the slice."""
    if facet == "called":
        return _texts(args)
    fields = {column: field for column, field in _FIELDS[facet].items() if column not in _OWN[facet]}
    read = {column: list(map(attrgetter(field), args)) for column, field in fields.items()}
    for column, old in _OLD.items():
        if column in read and _told(args, old):
            read[column] = [
                getattr(one, old) if new is None else new for one, new in zip(args, read[column], strict=True)
            ]
    return zip(
        *(
            map(bytes, values) if _VALUES[facet][column] is extent else _apart_from_words(values)
            for column, values in read.items()
        ),
        strict=True,
    )


def _apart_from_words(values: Sequence[Any]) -> Sequence[Any]:
    """The values without true and false, which Python takes for 1 and 0."""
    return (
        [None if isinstance(value, bool) else value for value in values] if bool in set(map(type, values)) else values
    )


def _texts(args: Sequence[Args]) -> list[bytes]:
    """What operators were called with, in the order of `_VALUES`."""
    dims: Iterable[bytes] = map(attrgetter("dims"), args)
    if _told(args, "dims_old"):
        dims = [said.dims_old if said.dims is NOTHING else said.dims for said in args]
    return [
        NO_TEXTS
        if each is NOTHING
        and said.types is NOTHING
        and said.strides is NOTHING
        and said.concrete is NOTHING
        and said.stack is NOTHING
        and said.hierarchy is NOTHING
        else _BETWEEN.join((each, said.types, said.strides, said.concrete, said.stack, said.hierarchy))
        for each, said in zip(dims, args, strict=True)
    ]


def _apart(key: _Combination) -> Sequence[Any]:
    """The values of a combination."""
    return key.split(_BETWEEN) if isinstance(key, bytes) else key


def _told(args: Sequence[Any], field: str) -> bool:
    """Whether the file tells it of any of them."""
    return any(map(is_not, map(attrgetter(field), args), repeat(getattr(NO_ARGS, field))))


def _hashable(value: object) -> object:
    return value if isinstance(value, int | float | str | bytes | None) else str(value)


_VALUES: Final[Mapping[str, Mapping[str, Callable[[Any], Any]]]] = MappingProxyType(
    {
        "launched": {
            "grid": extent,
            "block": extent,
            "registers": count,
            "shared": natural,
            "blocks_per_sm": number,
            "warps_per_sm": number,
            "occupancy": percentage,
        },
        "called": {
            "dims": shapes,
            "types": json_text,
            "strides": shapes,
            "concrete": json_text,
            "stack": json_text,
            "hierarchy": json_text,
            "sequence": natural,
            "forward": natural,
        },
        "communicated": {
            "collective": text,
            "dtype": text,
            "group": text,
            "description": text,
            "ranks": text,
            "size": count,
            "sequence": natural,
            "elements_in": natural,
            "elements_out": natural,
            "split_in": text,
            "split_out": text,
            "source": count,
            "destination": count,
        },
        "waited": {
            "stream": cupti_id,
            "recorded": cupti_id,
        },
        "allocated": {
            "time": signed,
            "device": signed,
            "bytes": size,
            "address": signed,
            "allocated": size,
            "reserved": size,
            "thread": natural,
        },
    }
)
"""What makes the value of a column of what the file says, or None."""

_OWN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "launched": (),
        "called": ("sequence", "forward"),
        "communicated": (),
        "waited": ("recorded",),
        "allocated": tuple(_VALUES["allocated"]),
    }
)
"""Columns whose values seldom repeat."""

_FIELDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "launched": {column: column for column in _VALUES["launched"]},
        "called": {column: column for column in _VALUES["called"]},
        "communicated": {**{column: column for column in _VALUES["communicated"]}, "sequence": "collective_number"},
        "waited": {"stream": "awaited", "recorded": "recorded"},
        "allocated": {"bytes": "change", **{column: column for column in ("address", "allocated", "reserved")}},
    }
)
"""The fields of `Args` that columns are read from."""

_OLD: Final[Mapping[str, str]] = MappingProxyType({"occupancy": "occupancy_old"})
"""Where older files have the same."""
