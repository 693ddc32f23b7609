"""Samples of counters out of JSON events -> the samples of a part.

Owns which values of such an event are numbers, and what the counters are called. What a process is (a device, a host)
is for the formats.
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

from tracehound.formats.json.columns import INVALID, Codes
from tracehound.formats.spill import Column, Kept, Spill
from tracehound.intervals import Ints
from tracehound.trace import COUNTERS, schema

Values = npt.NDArray[np.float64]


class Series(NamedTuple):
    """What tells the counters of a file apart: the process as the file spells it, the event's name, and the arg's."""

    process: int | float | str | None
    name: str
    arg: str


class _Sample(msgspec.Struct, gc=False):
    """What a counter event says; the args are looked at as they come."""

    args: Any = None


_SAMPLE: Final = msgspec.json.Decoder(_Sample)


class Said(NamedTuple):
    """What events say of counters, one event after the other, as columns.

    The position of the event among them, that of the counter in `keys`, and the value (NaN: none).
    """

    event: npt.NDArray[np.intp]
    keys: Sequence[Any]
    key: Ints
    values: Values


class Samples(Struct):
    """The samples of a segment so far: `keys` numbers the counters, whatever tells them apart.

    `broken` has the ordinals of events without a time, without a value, or with one that is no number.
    """

    keys: Codes = field(default_factory=Codes)
    broken: list[int] = field(default_factory=list)
    _number: array[int] = field(default_factory=lambda: array("i"))
    _time: array[int] = field(default_factory=lambda: array("q"))
    _value: array[float] = field(default_factory=lambda: array("d"))
    _ordinal: array[int] = field(default_factory=lambda: array("q"))

    def add(self, ordinal: int, time: int, values: Mapping[Any, object]) -> None:
        """The values of counters, by their keys, at one time; what is no number is left out."""
        found = {key: value for key, said in values.items() if (value := number(said)) is not None}
        if not found or len(found) < len(values) or time == INVALID:
            self.broken.append(ordinal)
        for key, value in found.items() if time != INVALID else ():
            self._number.append(self.keys[key])
            self._time.append(time)
            self._value.append(value)
            self._ordinal.append(ordinal)

    def extend(self, ordinals: Ints, time: Ints, said: Said) -> None:
        """What many events say, at a time each."""
        value, timed = said.values, time != INVALID
        sound = np.isfinite(value)
        good = np.bincount(said.event[sound], minlength=len(time)) > 0
        good[said.event[~sound]] = False
        self.broken.extend(ordinals[~(good & timed)].tolist())
        kept = np.flatnonzero(sound & timed[said.event])
        _, first, number = np.unique(said.key[kept], return_index=True, return_inverse=True)
        codes = np.empty(len(first), np.int32)
        for each in np.argsort(first).tolist():
            codes[each] = self.keys[said.keys[said.key[kept[first[each]]]]]
        self._number.frombytes(codes[number].tobytes())
        self._time.frombytes(time[said.event[kept]].tobytes())
        self._value.frombytes(value[kept].tobytes())
        self._ordinal.frombytes(ordinals[said.event[kept]].tobytes())

    def done(self) -> Sampled:
        """All of them, in the order of the file."""
        return Sampled(
            tuple(self.keys),
            np.array(self._number, np.int32),
            np.array(self._time, np.int64),
            np.array(self._value, np.float64),
            np.array(self._ordinal, np.int64),
        )


class Sampled(NamedTuple):
    """Samples as columns: position in `keys`, time in the ticks of the format, value, and ordinal of the event."""

    keys: tuple[Any, ...]
    number: npt.NDArray[np.int32]
    time: Ints
    value: Values
    ordinal: Ints

    def at(self, rows: npt.NDArray[Any]) -> Sampled:
        """Some of them."""
        return Sampled(self.keys, self.number[rows], self.time[rows], self.value[rows], self.ordinal[rows])

    def put(self, spill: Spill, name: str) -> SampledAside:
        """Put them aside under this name. Raises OSError as writing does."""
        columns = {each: Column(getattr(self, each)) for each in _ASIDE}
        return SampledAside(self.keys, spill.put(columns, _ASIDE, name) if self.keys else None)


class SampledAside(NamedTuple):
    """Samples that were put aside; None where there are none."""

    keys: tuple[Any, ...]
    kept: Kept | None


_ASIDE: Final = schema({"number": pl.Int32(), "time": pl.Int64(), "value": pl.Float64(), "ordinal": pl.Int64()})

NONE: Final = Sampled((), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.int64))


def joined(shares: Sequence[SampledAside], firsts: Sequence[int]) -> Sampled:
    """The samples of all shares, whose first events have the ordinals `firsts`; counters are numbered anew."""
    codes = Codes()
    parts = [_numbered(share, first, codes) for share, first in zip(shares, firsts, strict=True)]
    return Sampled(tuple(codes), *map(np.concatenate, zip(NONE[1:], *(part[1:] for part in parts), strict=True)))


def _numbered(share: SampledAside, first: int, codes: Codes) -> Sampled:
    """The samples of a share as numbered for all."""
    if share.kept is None:
        return NONE
    read = share.kept.read(0, share.kept.height, list(_ASIDE))
    number, time, value, ordinal = (read[name].values for name in _ASIDE)
    return Sampled(
        share.keys, np.array([codes[key] for key in share.keys], np.int32)[number], time, value, ordinal + first
    )


def args_of(event: msgspec.Raw) -> Mapping[str, object]:
    """The args of an event, as JSON; empty where it has none that can be read."""
    try:
        args = _SAMPLE.decode(event).args
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return args if isinstance(args, dict) else {}


def number(value: object) -> float | None:
    """A finite number, also one in text; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def numbers(values: Collection[object]) -> Values:
    """The same of many; NaN for what is none."""
    found = None
    if set(map(type, values)) <= {int, float}:
        with suppress(OverflowError):
            found = np.fromiter(values, np.float64, len(values))
    if found is None:
        read = map(number, values)
        return np.fromiter((math.nan if value is None else value for value in read), np.float64, len(values))
    found[~np.isfinite(found)] = math.nan
    return found


class Counters(Struct, frozen=True, eq=False):
    """The counters of a file: a row of `RAW_LANES` for each in `lanes`, and `samples` of the schema `COUNTERS`.

    Lanes of the samples are rows of `lanes`; times are on the clock of the file's events.
    """

    lanes: Sequence[Mapping[str, object]] = ()
    samples: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COUNTERS))


def counters(found: Sampled, ps: Callable[[Ints], Ints], lane: Callable[[Any], Mapping[str, object]]) -> Counters:
    """The counters of these samples: `ps` makes the times, and `lane` says what the counter of a key is.

    Counters stand in the order in which they come in the file.
    """
    samples = pl.DataFrame(
        {"lane": found.number, "time": ps(found.time), "value": found.value}, schema_overrides=COUNTERS
    )
    lanes = [{**lane(key), "order": order} for order, key in enumerate(found.keys)]
    return Counters(lanes, samples.sort("lane", "time", maintain_order=True))


def with_others(first: Counters, others: Counters) -> Counters:
    """The counters of both, the others after the first."""
    many = len(first.lanes)
    lanes = [*first.lanes, *({**lane, "order": many + at} for at, lane in enumerate(others.lanes))]
    samples = others.samples.with_columns(pl.col("lane") + many)
    return Counters(lanes, pl.concat([first.samples, samples]))


def titled(series: Sequence[Series]) -> dict[Series, tuple[str, str]]:
    """The name and the unit of each counter.

    Of a counter of one value the arg's name is the unit, unless the counter's own name holds it; of several values it
    tells them apart.
    """
    several = Counter((one.process, one.name) for one in series)
    return {one: _titled(one, several[one.process, one.name]) for one in series}


def _titled(series: Series, values: int) -> tuple[str, str]:
    if values > 1:
        return f"{series.name}: {series.arg}", ""
    known = set(series.name.lower().split())
    return series.name or series.arg, "" if known.issuperset(series.arg.lower().split()) else series.arg
