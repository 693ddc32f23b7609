"""Scanned events of Kineto -> the columns of a segment, the same that decoded objects give.

Owns what the codes of the scanner are in the segment's own numbers. Knows no spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tracehound.formats.assembly.counters import Samples
from tracehound.formats.json.columns import MISSING, Codes, Numbers
from tracehound.formats.kineto.elements import Complete, Instant
from tracehound.formats.kineto.facets import NO_TEXTS, Facets
from tracehound.formats.kineto.memory import Totals, devices, held
from tracehound.formats.kineto.piece import MEMORY, OWN, Piece, calls, on_device
from tracehound.formats.kineto.scan import (
    ADDRESS,
    ALLOCATED,
    ARROWS,
    BYTES,
    CHANGE,
    COMPLETE,
    CORRELATION,
    DUR,
    EXTERNAL,
    EXTERNAL_OLD,
    FORWARD,
    HOLDER,
    HOLDER_TYPE,
    INSTANTS,
    NAME,
    PLACE,
    RESERVED,
    SEQUENCE,
    TS,
    Keys,
    Place,
    Scanned,
)
from tracehound.formats.kineto.tally import ENDLESS, FLOWS, NO_ADDRESS, UNSAID, Tally
from tracehound.formats.kineto.tally import MEMORY as ALLOCATIONS
from tracehound.formats.kineto.values import natural
from tracehound.formats.spill import Column
from tracehound.intervals import Ints, Mask
from tracehound.native.scan import ABSENT

T = TypeVar("T")

_DRAWN, _ALLOCATION, _OWN = range(3)
"""What an instant is by its name."""


_OF_ALL: Final = (TS, DUR, CORRELATION, EXTERNAL, EXTERNAL_OLD, BYTES)
"""The numbers that any event that is drawn may have."""


class _Answers(Generic[T]):
    """What a question about the keys of a scanner is answered with, asked of each key that is met, once."""

    def __init__(self, question: Callable[[T], int]) -> None:
        self._question = question
        self._keys: Keys[T] | None = None
        self._known = np.empty(0, np.int64)

    def of(self, keys: Keys[T], codes: Numbers) -> Ints:
        """The answer for each of these codes; questions are asked in the order in which their keys stand there."""
        self._know(keys)
        found = self._known.take(codes)
        if int(found.min(initial=0)) != _UNASKED:
            return found
        for row in self._first(codes, found).tolist():
            self._known[codes[row]] = self._question(keys.values[codes[row]])
        return self._known.take(codes)

    def unasked(self, keys: Keys[T], codes: Numbers) -> Ints:
        """Where among these codes each that was not asked of stands first."""
        self._know(keys)
        return self._first(codes, self._known.take(codes))

    def _know(self, keys: Keys[T]) -> None:
        """Have a place for the answer of every key."""
        if keys is not self._keys:
            self._keys, self._known = keys, np.empty(0, np.int64)
        missing = len(keys.values) - len(self._known)
        if missing:
            self._known = np.append(self._known, np.full(missing, _UNASKED))

    @staticmethod
    def _first(codes: Numbers, found: Ints) -> Ints:
        rows = np.flatnonzero(found == _UNASKED)
        return rows if not len(rows) else np.sort(rows[np.unique(codes[rows], return_index=True)[1]])


_OF_MEMORY: Final = {"bytes": CHANGE, "address": ADDRESS, "allocated": ALLOCATED, "reserved": RESERVED}
"""Columns of events of memory."""

_UNASKED: Final = int(np.iinfo(np.int64).min)


def _device_of(signatures: Codes, devices: Codes, place: Place) -> int:
    """The number of the device and stream of a place that is drawn on one.

    A method that `FromScan` asks itself would keep a segment's columns in memory: while a file is read nobody looks for
    cycles.
    """
    number = signatures[place.signature]
    return devices[number, place.device, place.stream] if on_device(place.signature) else MISSING


class FromScan:
    """Adds scanned events to what a segment has so far: the arguments are those of `Columns`."""

    def __init__(
        self, signatures: Codes, names: Codes, devices: Codes, tally: Tally, samples: Samples, facets: Facets
    ) -> None:
        self._tally, self._samples, self._facets = tally, samples, facets
        self._device_of = partial(_device_of, signatures, devices)
        self._signature = _Answers[Place](lambda place: signatures[place.signature])
        self._device = _Answers[Place](self._device_of)
        self._calls = _Answers[Place](lambda place: calls(place.signature))
        self._thread = _Answers[Place](lambda place: -1 if (tid := natural(place.signature[2])) is None else tid)
        self._name = _Answers[str](lambda name: names[name])
        self._instant = _Answers[str](
            lambda name: _ALLOCATION if name == MEMORY else _OWN if name.startswith(OWN) else _DRAWN
        )
        self._launched = _Answers[tuple[Any, ...]](lambda key: facets.number("launched", key))
        self._called = _Answers[bytes](lambda key: facets.number("called", key))
        self._nothing = facets.number("called", NO_TEXTS)

    def add(self, events: Scanned, first: int) -> Piece:
        """The columns of those that are drawn; `first` is the ordinal of the list's first element."""
        tags, names = events.objects.tags, events.objects.codes[NAME]
        complete, instants, arrows = _among(tags, COMPLETE), _among(tags, INSTANTS), _among(tags, ARROWS)
        self._tally.rows(FLOWS, arrows, np.arange(first, first + len(tags)))
        drawn = complete
        if instants.any():
            what = self._instant.of(events.names, names)
            drawn = complete | (instants & (what == _DRAWN))
            self._add_memory(events, np.flatnonzero(instants & (what == _ALLOCATION)), first)
        rows = np.flatnonzero(drawn)
        self._meet(events, rows)
        return self._columns(events, rows, complete, first)

    def _meet(self, events: Scanned, rows: Ints) -> None:
        """Number the places in the order of the file, those of events that are left over, too."""
        if not events.elements:
            return  # they are met in that order, one by one
        codes = events.objects.codes[PLACE][rows]
        fresh = rows[self._device.unasked(events.places, codes)].tolist()
        met = [
            (row, events.places.values[code])
            for row, code in zip(fresh, events.objects.codes[PLACE][fresh], strict=True)
        ]
        for row, event in zip(events.left.tolist(), events.elements, strict=True):
            if isinstance(event, Complete) or (isinstance(event, Instant) and not event.name.startswith(OWN)):
                met.append((row, Place((event.cat, event.pid, event.tid), event.args.device, event.args.stream)))
        for _, place in sorted(met, key=itemgetter(0)):
            self._device_of(place)

    def _columns(self, events: Scanned, rows: Ints, complete: Mask, first: int) -> Piece:
        number = {column: events.objects.numbers[column].take(rows) for column in _OF_ALL}
        places, names, launched, called = (codes.take(rows) for codes in events.objects.codes)
        record = rows + first
        self._tally.rows(ENDLESS, (number[DUR] == ABSENT) & complete[rows], record)
        device = self._device.of(events.places, places)
        devices = np.flatnonzero(device >= 0)
        if len(devices):
            how = self._launched.of(events.launched, launched[devices])
            self._facets.add_columns("launched", record[devices], {}, how.astype(np.int32))
        calling = np.flatnonzero(self._calls.of(events.places, places))
        self._add_calls(events, rows[calling], first, called[calling])
        return Piece(
            record=record,
            signature=self._signature.of(events.places, places).astype(np.int32),
            name=self._name.of(events.names, names).astype(np.int32),
            start=number[TS],
            length=_zero_where_absent(number[DUR]),
            correlation=np.maximum(number[CORRELATION], MISSING),
            external=np.maximum(np.where(number[EXTERNAL] == ABSENT, number[EXTERNAL_OLD], number[EXTERNAL]), MISSING),
            device=device.astype(np.int32),
            bytes=np.where(device >= 0, np.maximum(number[BYTES], MISSING), MISSING),
            collective=np.zeros(len(rows), np.bool_),
        )

    def _add_calls(self, events: Scanned, rows: Ints, first: int, codes: Numbers) -> None:
        """What operators, at these rows, were called with (`codes`), of those that tell anything."""
        called = self._called.of(events.called, codes).astype(np.int32)
        sequence, forward = (events.objects.numbers[column].take(rows) for column in (SEQUENCE, FORWARD))
        told = np.flatnonzero((called != self._nothing) | (sequence >= 0) | (forward >= 0))
        if len(told):
            own = {"sequence": _natural(sequence[told]), "forward": _natural(forward[told])}
            self._facets.add_columns("called", rows[told] + first, own, called[told])

    def _add_memory(self, events: Scanned, rows: Ints, first: int) -> None:
        """Allocations and frees of memory, at these rows."""
        if not len(rows):
            return
        numbers, record = events.objects.numbers[:, rows], rows + first
        time, change = numbers[TS], numbers[CHANGE]
        self._tally.add(ALLOCATIONS, len(rows), int(record[0]))
        self._tally.rows(UNSAID, (numbers[[CHANGE, HOLDER_TYPE]] == ABSENT).any(axis=0), record)
        self._tally.rows(NO_ADDRESS, numbers[ADDRESS] == ABSENT, record)
        device = devices(np.maximum(numbers[HOLDER_TYPE], MISSING), np.maximum(numbers[HOLDER], MISSING))
        changed = np.where(change == ABSENT, np.nan, change)
        self._samples.extend(
            record, time, held(_totals(numbers[ALLOCATED]), _totals(numbers[RESERVED]), changed, device)
        )
        columns = {
            "time": Column(time),
            "device": Column(device),
            **{name: _but(numbers[column], numbers[column] != ABSENT) for name, column in _OF_MEMORY.items()},
            "thread": _natural(self._thread.of(events.places, events.objects.codes[PLACE][rows])),
        }
        self._facets.add_columns("allocated", record, columns)


def _among(tags: npt.NDArray[np.uint8], which: str) -> Mask:
    found: Mask = tags == ord(which[0])
    for each in which[1:]:
        found |= tags == ord(each)
    return found


def _zero_where_absent(numbers: Ints) -> Ints:
    return np.where(numbers == ABSENT, 0, numbers)


def _natural(numbers: Ints) -> Column:
    return _but(numbers, numbers >= 0)


def _but(numbers: Ints, valid: Mask) -> Column:
    """Numbers of which some are none."""
    return Column(numbers, None if valid.all() else valid)


def _totals(numbers: Ints) -> Totals:
    return Totals(numbers != ABSENT, numbers.astype(np.float64))
