"""Facets of a segment of a Kineto file: kernel launches, operator calls, collectives, waits and memory events.

Combinations of args that repeat are numbered, so that each text is parsed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, islice, repeat
from operator import attrgetter, is_not
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import polars as pl

from tracehound.formats.assembly.event_batches import concat_column_sets, concat_columns
from tracehound.formats.json.value_columns import INVALID, CodeArray, ValueCodes
from tracehound.formats.kineto.arg_values import (
    compact_json,
    parse_byte_size,
    parse_columns,
    parse_cupti_id,
    parse_float,
    parse_grid,
    parse_int32,
    parse_int64,
    parse_natural,
    parse_percentage,
    parse_shapes,
    parse_text,
)
from tracehound.formats.kineto.json_events import NO_ARGS, NO_JSON, EventArgs, InstantArgs
from tracehound.formats.kineto.note_counts import MEMORY_SIZE_OUT_OF_RANGE, NoteCounts
from tracehound.formats.spill import MaskedColumn, Spill, SpilledRows
from tracehound.formats.value_bounds import MAX_BYTES, drop_impossible_sizes
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.numeric.intervals import Ints


class ArgCombinations:
    """Combinations of the args of one facet that events share, each with a number and parsed once.

    They are kept over segments and files, which share most of them, as long as there are few.
    """

    def __init__(self, facet: str) -> None:
        self._facet = facet
        self._keys = ValueCodes()
        self.categories: list[pl.Series] = []  # polars frees categories that no series uses
        self._parsed_count = 0
        self._columns: dict[str, MaskedColumn] = {}

    def __len__(self) -> int:
        """The number of combinations."""
        return len(self._keys)

    def numbers(self, keys: Sequence[_Combination]) -> CodeArray:
        """Number of each combination."""
        try:
            return self._keys.encode_values(keys, len(keys))
        except TypeError:  # a list or an object where a number or a text should be
            return self._keys.encode_values([tuple(map(_to_hashable, key)) for key in keys], len(keys))

    def columns(self) -> Mapping[str, MaskedColumn]:
        """Parsed values of all combinations so far, in the order of their numbers."""
        if self._parsed_count == len(self._keys):
            return self._columns
        shared = (column for column in _COLUMN_PARSERS[self._facet] if column not in _OWN_COLUMNS[self._facet])
        fresh = zip(*map(_split_combination, islice(self._keys, self._parsed_count, None)), strict=True)
        recorded: dict[str, Iterable[Any]] = dict(zip(shared, fresh, strict=False))
        parsed = parse_columns(recorded, _COLUMN_PARSERS[self._facet], FACET_SCHEMAS[self._facet], self.categories)
        for name, column in parsed.items():
            self._columns[name] = concat_columns([self._columns[name], column]) if name in self._columns else column
        self._parsed_count = len(self._keys)
        return self._columns


_MAX_COMBINATIONS: Final = 1 << 14
"""More combinations than this are not kept for the next segment: their texts hardly repeat."""


_MAX_COMBINATIONS_OF_FILES: Final = 1 << 11
"""More combinations than this are not kept for the next file: most are those of other files."""


class KnownCombinations(dict[str, ArgCombinations]):
    """Combinations of each facet in earlier segments, of this file or others."""

    def for_facet(self, facet: str) -> ArgCombinations:
        """Combinations to continue with."""
        if facet not in self or len(self[facet]) > _MAX_COMBINATIONS:
            self[facet] = ArgCombinations(facet)
        return self[facet]

    def forget_many(self) -> None:
        """Before the next file, forget the combinations of facets that have many."""
        for facet in [facet for facet, known in self.items() if len(known) > _MAX_COMBINATIONS_OF_FILES]:
            del self[facet]


class SegmentFacets:
    """Facets of a segment so far. A record is the ordinal of an event in the segment."""

    def __init__(self, known: KnownCombinations) -> None:
        self._tables = {name: _FacetRows(name, known.for_facet(name)) for name in _COLUMN_PARSERS}

    def add(self, facet: str, records: Ints, args: Sequence[EventArgs]) -> None:
        """Add the args of events to a facet; events without any of its args are left out in the end."""
        if args:
            table = self._tables[facet]
            table.add_rows(
                records, table.make_columns(_own_args(facet, args)), table.numbers(list(_shared_args(facet, args)))
            )

    def add_columns(
        self, facet: str, records: Ints, own: Mapping[str, MaskedColumn], numbers: CodeArray | None = None
    ) -> None:
        """Add columns to a facet: those of `_OWN_COLUMNS`, and the combination numbers of the other columns."""
        self._tables[facet].add_rows(records, own, numbers)

    def combination_numbers(self, facet: str, combinations: Sequence[_Combination]) -> CodeArray:
        """Number of each combination."""
        return self._tables[facet].numbers(combinations)

    def add_memory(
        self, records: Ints, time: Ints, device: Ints, threads: Sequence[object], args: Sequence[InstantArgs]
    ) -> None:
        """Add memory events at these times (ns as in the file); those without a valid time are left out."""
        timed = time != INVALID
        columns = {
            "time": time[timed],
            "device": device[timed],
            **{name: compress(map(attrgetter(field), args), timed) for name, field in _ARG_FIELDS["allocated"].items()},
            "thread": compress(threads, timed),
        }
        table = self._tables["allocated"]
        table.add_rows(records[timed], table.make_columns(columns), None)

    def spill(self, spill: Spill, name: str, note_counts: NoteCounts) -> dict[str, SpilledRows]:
        """Spill the facets that have rows, under names that start with `name`; times are as in the file.

        Columns without any value are left out. Memory events with an impossible size are counted.
        """
        columns_of_facet = {facet: table.columns() for facet, table in self._tables.items()}
        columns_of_facet["allocated"] = _without_impossible_sizes(columns_of_facet["allocated"], note_counts)
        return {
            facet: spill.spill_columns(
                columns,
                {each: FACET_SCHEMAS[facet][each] for each in columns},
                f"{name}-{facet}",
                categories=self._tables[facet].categories,
            )
            for facet, columns in columns_of_facet.items()
            if len(columns["record"].values)
        }


class _FacetRows:
    """Rows of one facet: the columns of `_OWN_COLUMNS` row by row, and the combination number of the others."""

    def __init__(self, name: str, combinations: ArgCombinations) -> None:
        self._name, self._schema = name, FACET_SCHEMAS[name]
        self._combinations = combinations
        self._slices: list[dict[str, MaskedColumn]] = []
        self._series: list[pl.Series] = []

    def make_columns(self, own: Mapping[str, Ints | Iterable[Any]]) -> dict[str, MaskedColumn]:
        """Columns of recorded values."""
        return parse_columns(own, _COLUMN_PARSERS[self._name], self._schema, self._series)

    @property
    def categories(self) -> Sequence[pl.Series]:
        """Series with the categories of all columns."""
        return [*self._series, *self._combinations.categories]

    def numbers(self, combinations: Sequence[_Combination]) -> CodeArray:
        """Numbers of combinations."""
        return self._combinations.numbers(combinations)

    def add_rows(self, records: Ints, own: Mapping[str, MaskedColumn], numbers: CodeArray | None) -> None:
        """Append rows: the columns of `_OWN_COLUMNS`, and the combination numbers of the others."""
        shared = {} if numbers is None else {_COMBINATION_COLUMN: MaskedColumn(numbers)}
        self._slices.append({**own, **shared, "record": MaskedColumn(records)})

    def columns(self) -> dict[str, MaskedColumn]:
        """Rows and columns that have any value."""
        found = concat_column_sets(self._slices, [len(columns["record"].values) for columns in self._slices])
        if len(found) and np.any(
            np.diff(found["record"].values) < 0
        ):  # chunks with scanned events and decoded leftovers
            order = np.argsort(found["record"].values, kind="stable")
            found = {name: column.take(order) for name, column in found.items()}
        record, numbers = found.pop("record", _NO_RECORDS), found.pop(_COMBINATION_COLUMN, None)
        if numbers is not None:
            found.update({name: known.take(numbers.values) for name, known in self._combinations.columns().items()})
        found = {name: column for name, column in found.items() if column.valid is None or column.valid.any()}
        recorded = np.zeros(len(record.values), np.bool_)
        for column in found.values():
            recorded |= True if column.valid is None else column.valid
        columns = {"record": record, **{name: found[name] for name in self._schema if name in found}}
        return (
            columns
            if recorded.all()
            else {name: column.take(np.flatnonzero(recorded)) for name, column in columns.items()}
        )


def _without_impossible_sizes(memory: dict[str, MaskedColumn], note_counts: NoteCounts) -> dict[str, MaskedColumn]:
    """Memory events without impossible sizes."""
    sized = {
        name: drop_impossible_sizes(memory[name], least) for name, least in _SMALLEST_SIZES.items() if name in memory
    }
    if sized:
        impossible = np.logical_or.reduce([beyond for _, beyond in sized.values()])
        note_counts.add_mask(MEMORY_SIZE_OUT_OF_RANGE, impossible, memory["record"].values)
    return memory | {name: sizes for name, (sizes, _) in sized.items()}


_SMALLEST_SIZES: Final = MappingProxyType({"bytes": -MAX_BYTES, "allocated": 0, "reserved": 0})
"""Smallest valid value of each size of a memory event."""


_COMBINATION_COLUMN: Final = ""
"""Column of combination numbers."""

_NO_RECORDS: Final = MaskedColumn(np.empty(0, np.int64))


_Combination = bytes | tuple[Any, ...]
"""Args that events share, as the file writes them: JSON texts joined into one, or a tuple of values."""

_SEPARATOR: Final = b"\0"
"""Separator of JSON texts, which cannot hold it: one joined key is faster to make and look up than several."""


NO_COPY_ARGS: Final = (None,)
"""Key of an event without args of a copy."""

NO_CALL_ARGS: Final = _SEPARATOR * 5
"""Key of six missing texts."""


def _own_args(facet: str, args: Sequence[Any]) -> dict[str, Iterable[Any]]:
    """Recorded values of the columns of `_OWN_COLUMNS`."""
    return {column: map(attrgetter(_ARG_FIELDS[facet][column]), args) for column in _OWN_COLUMNS[facet]}


def _shared_args(facet: str, args: Sequence[Any]) -> Iterable[_Combination]:
    """Recorded values of the other columns of each event; JSON as bytes, which outlive the chunk."""
    if facet == "called":
        return _joined_call_args(args)
    fields = {column: field for column, field in _ARG_FIELDS[facet].items() if column not in _OWN_COLUMNS[facet]}
    read = {column: list(map(attrgetter(field), args)) for column, field in fields.items()}
    for column, old in _OLD_ARG_FIELDS.items():
        if column in read and _any_recorded(args, old):
            read[column] = [
                getattr(one, old) if new is None else new for one, new in zip(args, read[column], strict=True)
            ]
    return zip(
        *(
            map(bytes, values) if _COLUMN_PARSERS[facet][column] is parse_grid else _booleans_to_none(values)
            for column, values in read.items()
        ),
        strict=True,
    )


def _booleans_to_none(values: Sequence[Any]) -> Sequence[Any]:
    """The values without true and false, which Python takes for 1 and 0."""
    return (
        [None if isinstance(value, bool) else value for value in values] if bool in set(map(type, values)) else values
    )


def _joined_call_args(args: Sequence[EventArgs]) -> list[bytes]:
    """Call args of operators as joined texts, in the order of `_COLUMN_PARSERS`."""
    dims: Iterable[bytes] = map(attrgetter("dims"), args)
    if _any_recorded(args, "dims_old"):
        dims = [each_args.dims_old if each_args.dims is NO_JSON else each_args.dims for each_args in args]
    return [
        NO_CALL_ARGS
        if each is NO_JSON
        and each_args.types is NO_JSON
        and each_args.strides is NO_JSON
        and each_args.concrete is NO_JSON
        and each_args.stack is NO_JSON
        and each_args.hierarchy is NO_JSON
        else _SEPARATOR.join(
            (each, each_args.types, each_args.strides, each_args.concrete, each_args.stack, each_args.hierarchy)
        )
        for each, each_args in zip(dims, args, strict=True)
    ]


def _split_combination(key: _Combination) -> Sequence[Any]:
    """Values of a combination."""
    return key.split(_SEPARATOR) if isinstance(key, bytes) else key


def _any_recorded(args: Sequence[Any], arg: str) -> bool:
    """True if any of the events has this arg."""
    return any(map(is_not, map(attrgetter(arg), args), repeat(getattr(NO_ARGS, arg))))


def _to_hashable(value: object) -> object:
    return value if isinstance(value, int | float | str | bytes | None) else str(value)


_COLUMN_PARSERS: Final[Mapping[str, Mapping[str, Callable[[Any], Any]]]] = MappingProxyType(
    {
        "launched": {
            "grid": parse_grid,
            "block": parse_grid,
            "registers": parse_int32,
            "shared": parse_natural,
            "blocks_per_sm": parse_float,
            "warps_per_sm": parse_float,
            "occupancy": parse_percentage,
        },
        "copied": {"bandwidth": parse_float},
        "called": {
            "dims": parse_shapes,
            "types": compact_json,
            "strides": parse_shapes,
            "concrete": compact_json,
            "stack": compact_json,
            "hierarchy": compact_json,
            "sequence": parse_natural,
            "forward": parse_natural,
        },
        "communicated": {
            "collective": parse_text,
            "dtype": parse_text,
            "group": parse_text,
            "description": parse_text,
            "ranks": parse_text,
            "size": parse_int32,
            "sequence": parse_natural,
            "elements_in": parse_natural,
            "elements_out": parse_natural,
            "split_in": parse_text,
            "split_out": parse_text,
            "source": parse_int32,
            "destination": parse_int32,
        },
        "waited": {
            "stream": parse_cupti_id,
            "recorded": parse_cupti_id,
        },
        "allocated": {
            "time": parse_int64,
            "device": parse_int64,
            "bytes": parse_byte_size,
            "address": parse_int64,
            "allocated": parse_byte_size,
            "reserved": parse_byte_size,
            "thread": parse_natural,
        },
    }
)
"""Parser of each column of each facet."""

_OWN_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "launched": (),
        "copied": (),
        "called": ("sequence", "forward"),
        "communicated": (),
        "waited": ("recorded",),
        "allocated": tuple(_COLUMN_PARSERS["allocated"]),
    }
)
"""Columns of each facet whose values seldom repeat."""

_ARG_FIELDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "launched": {column: column for column in _COLUMN_PARSERS["launched"]},
        "copied": {"bandwidth": "copy_bandwidth"},
        "called": {column: column for column in _COLUMN_PARSERS["called"]},
        "communicated": {
            **{column: column for column in _COLUMN_PARSERS["communicated"]},
            "sequence": "collective_number",
        },
        "waited": {"stream": "awaited_stream", "recorded": "recorded"},
        "allocated": {"bytes": "change", **{column: column for column in ("address", "allocated", "reserved")}},
    }
)
"""Fields of `EventArgs` from which columns are read."""

_OLD_ARG_FIELDS: Final[Mapping[str, str]] = MappingProxyType({"occupancy": "occupancy_old"})
"""Fields of the same values in older files."""
