"""Samples of counters out of JSON events -> the samples of file frames.

The numbers among the values of such events are kept, and counters get names and units. The formats decide to which
device or host a process belongs.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.json.value_columns import INVALID, ValueCodes
from tracehound.formats.spill import MaskedColumn, Spill, SpilledRows
from tracehound.model.trace import COUNTERS, schema
from tracehound.numeric.intervals import Ints

FloatValues = npt.NDArray[np.float64]


class CounterKey(NamedTuple):
    """The key of a file's counter: the process as the file spells it, the event's name, and the arg's."""

    process: int | float | str | None
    name: str
    arg: str


class _CounterEvent(msgspec.Struct, gc=False):
    """A counter event with undecoded args."""

    args: Any = None


_COUNTER_EVENT_DECODER: Final = msgspec.json.Decoder(_CounterEvent)


class CounterValues(NamedTuple):
    """Values of counters in successive events, as columns.

    The position of the event among them, that of the counter in `keys`, and the value (NaN: none).
    """

    event: npt.NDArray[np.intp]
    keys: Sequence[Any]
    key: Ints
    values: FloatValues


class SampleCollector(Struct):
    """The samples of a segment so far: `keys` numbers the counters, by any key.

    `broken` has the ordinals of events without a time, without a value, or with one that is no number.
    """

    keys: ValueCodes = field(default_factory=ValueCodes)
    broken: list[int] = field(default_factory=list)
    _number: array[int] = field(default_factory=lambda: array("i"))
    _time: array[int] = field(default_factory=lambda: array("q"))
    _value: array[float] = field(default_factory=lambda: array("d"))
    _ordinal: array[int] = field(default_factory=lambda: array("q"))

    def add(self, ordinal: int, time: int, values: Mapping[Any, object]) -> None:
        """Add the values of counters, by their keys, at one time; values that are no numbers are left out."""
        found = {key: value for key, raw_value in values.items() if (value := finite_number(raw_value)) is not None}
        if not found or len(found) < len(values) or time == INVALID:
            self.broken.append(ordinal)
        for key, value in found.items() if time != INVALID else ():
            self._number.append(self.keys[key])
            self._time.append(time)
            self._value.append(value)
            self._ordinal.append(ordinal)

    def extend(self, ordinals: Ints, time: Ints, counter_values: CounterValues) -> None:
        """Add the values of many events, each with its time."""
        value, timed = counter_values.values, time != INVALID
        sound = np.isfinite(value)
        is_complete = np.bincount(counter_values.event[sound], minlength=len(time)) > 0
        is_complete[counter_values.event[~sound]] = False
        self.broken.extend(ordinals[~(is_complete & timed)].tolist())
        valid = np.flatnonzero(sound & timed[counter_values.event])
        _, first, number = np.unique(counter_values.key[valid], return_index=True, return_inverse=True)
        codes = np.empty(len(first), np.int32)
        for position in np.argsort(first).tolist():
            codes[position] = self.keys[counter_values.keys[counter_values.key[valid[first[position]]]]]
        self._number.frombytes(codes[number].tobytes())
        self._time.frombytes(time[counter_values.event[valid]].tobytes())
        self._value.frombytes(value[valid].tobytes())
        self._ordinal.frombytes(ordinals[counter_values.event[valid]].tobytes())

    def finish(self) -> CounterSamples:
        """Return all samples, in the order of the file."""
        return CounterSamples(
            tuple(self.keys),
            np.array(self._number, np.int32),
            np.array(self._time, np.int64),
            np.array(self._value, np.float64),
            np.array(self._ordinal, np.int64),
        )


class CounterSamples(NamedTuple):
    """Samples as columns: position in `keys`, time in the ticks of the format, value, and ordinal of the event."""

    keys: tuple[Any, ...]
    number: npt.NDArray[np.int32]
    time: Ints
    value: FloatValues
    ordinal: Ints

    def take(self, rows: npt.NDArray[Any]) -> CounterSamples:
        """Return some of the samples."""
        return CounterSamples(self.keys, self.number[rows], self.time[rows], self.value[rows], self.ordinal[rows])

    def spill_samples(self, spill: Spill, name: str) -> SpilledSamples:
        """Put the samples aside under this name. Raises OSError as writing does."""
        columns = {each: MaskedColumn(getattr(self, each)) for each in _SAMPLE_SCHEMA}
        return SpilledSamples(self.keys, spill.spill_columns(columns, _SAMPLE_SCHEMA, name) if self.keys else None)


class SpilledSamples(NamedTuple):
    """Samples that were put aside; `rows` is None where there are none."""

    keys: tuple[Any, ...]
    rows: SpilledRows | None


_SAMPLE_SCHEMA: Final = schema({"number": pl.Int32(), "time": pl.Int64(), "value": pl.Float64(), "ordinal": pl.Int64()})

NO_SAMPLES: Final = CounterSamples(
    (), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.int64)
)


def concat_samples(segments: Sequence[SpilledSamples], firsts: Sequence[int]) -> CounterSamples:
    """Concatenate the samples of all segments and renumber the counters; `firsts` are the segments' first ordinals."""
    codes = ValueCodes()
    parts = [_renumber_samples(segment, first, codes) for segment, first in zip(segments, firsts, strict=True)]
    return CounterSamples(
        tuple(codes), *map(np.concatenate, zip(NO_SAMPLES[1:], *(part[1:] for part in parts), strict=True))
    )


def _renumber_samples(segment: SpilledSamples, first: int, codes: ValueCodes) -> CounterSamples:
    """Return the samples of a segment with counter numbers common to all."""
    if segment.rows is None:
        return NO_SAMPLES
    read = segment.rows.read(0, segment.rows.height, list(_SAMPLE_SCHEMA))
    number, time, value, ordinal = (read[name].values for name in _SAMPLE_SCHEMA)
    return CounterSamples(
        segment.keys, np.array([codes[key] for key in segment.keys], np.int32)[number], time, value, ordinal + first
    )


def parse_event_args(event: msgspec.Raw) -> Mapping[str, object]:
    """Return the args of an event, as JSON; empty where they cannot be decoded."""
    try:
        args = _COUNTER_EVENT_DECODER.decode(event).args
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return args if isinstance(args, dict) else {}


def finite_number(value: object) -> float | None:
    """Return a finite number, also one in text; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def finite_numbers(values: Collection[object]) -> FloatValues:
    """Return many values as `finite_number` reads them; NaN for None."""
    found = None
    if set(map(type, values)) <= {int, float}:
        with suppress(OverflowError):
            found = np.fromiter(values, np.float64, len(values))
    if found is None:
        read = map(finite_number, values)
        return np.fromiter((math.nan if value is None else value for value in read), np.float64, len(values))
    found[~np.isfinite(found)] = math.nan
    return found


class FileCounters(Struct, frozen=True, eq=False):
    """The counters of a file: a row of `RAW_LANES` for each in `lanes`, and `samples` of the schema `COUNTERS`.

    Lanes of the samples are rows of `lanes`; times are on the clock of the file's events.
    """

    lanes: Sequence[Mapping[str, object]] = ()
    samples: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COUNTERS))


def build_counters(
    found: CounterSamples, ps: Callable[[Ints], Ints], lane: Callable[[Any], Mapping[str, object]]
) -> FileCounters:
    """Build the counters of these samples: `ps` converts the times, and `lane` describes the counter of a key.

    Counters keep their order in the file.
    """
    samples = pl.DataFrame(
        {"lane": found.number, "time": ps(found.time), "value": found.value}, schema_overrides=COUNTERS
    )
    lanes = [{**lane(key), "order": order} for order, key in enumerate(found.keys)]
    return FileCounters(lanes, samples.sort("lane", "time", maintain_order=True))


def append_counters(first: FileCounters, others: FileCounters) -> FileCounters:
    """Return the counters of both, those of `others` last."""
    many = len(first.lanes)
    lanes = [*first.lanes, *({**lane, "order": many + at} for at, lane in enumerate(others.lanes))]
    samples = others.samples.with_columns(pl.col("lane") + many)
    return FileCounters(lanes, pl.concat([first.samples, samples]))


def counter_titles(series: Sequence[CounterKey]) -> dict[CounterKey, tuple[str, str]]:
    """Return the name and the unit of each counter.

    For a counter of one value the arg's name is the unit, unless the counter's own name has it; for several values it
    tells them apart.
    """
    several = Counter((one.process, one.name) for one in series)
    return {one: _counter_title(one, several[one.process, one.name]) for one in series}


def _counter_title(series: CounterKey, values: int) -> tuple[str, str]:
    if values > 1:
        return f"{series.name}: {series.arg}", ""
    known = set(series.name.lower().split())
    return series.name or series.arg, "" if known.issuperset(series.arg.lower().split()) else series.arg
