"""A big XLA profile made of a real one: the events of every line again and again, each time later.

    python tests/benchmarks/grow_xplane.py SOURCE TARGET SIZE          SOURCE an xplane.pb, SIZE such as 200M or 2.1G

Works on the bytes of the protocol buffer. Only numbers in events differ between the copies: offsets (and those of the
device's own clock) move by the length of the profile, the ids that tie events together (runs, producers, consumers) and
the numbers of steps past those of the copy before. All else, metadata and HLO above all, stands once, as in the source.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from measure import size_of, size_text

Words = npt.NDArray[np.uint64]

MASK: Final = (1 << 64) - 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
PLANE: Final = 1
PLANE_LINE, PLANE_STAT_NAMES = 3, 5
LINE_START_NS, LINE_EVENT = 3, 4
EVENT_NAME, EVENT_OFFSET, EVENT_DURATION, EVENT_STAT, EVENT_OCCURRENCES = 1, 2, 3, 4, 5
STAT_NAME, STAT_UNSIGNED, STAT_SIGNED = 1, 3, 4

MOVED: Final = ("device_offset_ps",)
COUNTED: Final = (("run_id",), ("_p", "_c", "producer_id", "consumer_id"), ("group_id",), ("step_num",))
"""Ids of one kind each: all of a kind move by the same step."""

_SEQUENTIAL: Final = 1 << 40
"""Ids below are numbered through; those above are hashes, and move by little."""

_GAP_PS: Final = 10**9


class Field(NamedTuple):
    """A field of a message; `value` is the number of a varint, `[low, high)` the content, `begin` where its tag is."""

    number: int
    wire: int
    value: int
    begin: int
    low: int
    high: int


class Slot(NamedTuple):
    """A varint that copies change: it grows by `step` with each."""

    value: int
    step: int


Token = bytes | Slot | tuple[bytes, Slot]
"""Bytes as they are, a number, or a stat: its head, and the number that ends it."""


@dataclass(frozen=True)
class Grown:
    """What was written."""

    size: int
    events: int
    copies: int


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes, low: int, high: int) -> Iterator[Field]:
    at = low
    while at < high:
        begin = at
        key, at = _varint(data, at)
        value, start = 0, at
        if key & 7 == VARINT:
            value, at = _varint(data, at)
        elif key & 7 == BYTES:
            length, start = _varint(data, at)
            at = start + length
        else:
            at += {FIXED64: 8, FIXED32: 4}[key & 7]
        yield Field(key >> 3, key & 7, value, begin, start, at)


def _written(value: int) -> bytes:
    value &= MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _block(number: int, length: int) -> bytes:
    """What stands before the content of a message of some length."""
    return _written(number << 3 | BYTES) + _written(length)


def _lengths(values: Words) -> npt.NDArray[np.int64]:
    """Bytes that each number takes as a varint."""
    lengths = np.ones(len(values), np.int64)
    for shift in range(7, 64, 7):
        lengths += (values >> np.uint64(shift)) != 0
    return lengths


class Line:
    """The events of one line, ready to be written again and again."""

    def __init__(self, events: Sequence[Sequence[Token]]) -> None:
        self.events = events
        slots = [_slot(token) for event in events for token in event if not isinstance(token, bytes)]
        self.values = np.array([slot.value for slot in slots], np.uint64)
        self.steps = np.array([slot.step for slot in slots], np.uint64)
        self._copies = range(0)
        """Those whose numbers have the lengths that the following is made for."""
        self._bytes = np.zeros(0, np.uint8)
        self._digits: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.uint8]]] = []
        """For each byte of a varint: the numbers that have it, its places, and the bit for more to follow."""

    def _fit(self, copy: int) -> None:
        """Lay out a copy, and find out how many more have the same layout."""
        values = self.values + np.uint64(copy) * self.steps
        lengths = _lengths(values)
        out, at, numbers = bytearray(), [], iter(values.tolist())
        for event in self.events:
            body, inside = _event(event, numbers)
            out += _block(LINE_EVENT, len(body))
            at += [len(out) + place for place in inside]
            out += body
        places = np.array(at, np.int64)
        self._bytes = np.frombuffer(bytes(out), np.uint8).copy()
        self._digits = []
        for byte in range(int(lengths.max(initial=0))):
            have = np.flatnonzero(lengths > byte)
            self._digits.append(
                (have, places[have] + byte, np.where(lengths[have] > byte + 1, 0x80, 0).astype(np.uint8))
            )
        largest = np.where(lengths < 10, (np.uint64(1) << (7 * np.minimum(lengths, 9)).astype(np.uint64)) - 1, MASK)
        room = (largest.astype(np.uint64) - values) // np.maximum(self.steps, 1)
        self._copies = range(copy, copy + 1 + min(int(room.min(initial=MASK)), 1 << 40))

    def size(self, copy: int) -> int:
        """Bytes of a copy."""
        if copy not in self._copies:
            self._fit(copy)
        return len(self._bytes)

    def copy(self, copy: int) -> memoryview:
        """The bytes of a copy, until the next is asked for."""
        if copy not in self._copies:
            self._fit(copy)
        values = self.values + np.uint64(copy) * self.steps
        for byte, (have, places, more) in enumerate(self._digits):
            self._bytes[places] = (values[have] >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F | more
        return self._bytes.data


def _slot(token: Slot | tuple[bytes, Slot]) -> Slot:
    return token if isinstance(token, Slot) else token[1]


def _event(event: Sequence[Token], numbers: Iterator[int]) -> tuple[bytes, list[int]]:
    """The bytes of an event with its next numbers, and where in them those are."""
    out, places = bytearray(), []
    for token in event:
        if isinstance(token, bytes):
            out += token
            continue
        number = _written(next(numbers))
        if not isinstance(token, Slot):
            out += _block(EVENT_STAT, len(token[0]) + len(number)) + token[0]
        places.append(len(out))
        out += number
    return bytes(out), places


@dataclass(frozen=True)
class Steps:
    """How far a copy moves: times by `span` (ps), and the stats of these names (their ids in the plane)."""

    span: int
    stats: dict[int, int]

    def event(self, data: bytes, event: Field) -> list[Token]:
        """An event as bytes and the numbers between them."""
        tokens: list[Token] = []
        fields = list(_fields(data, event.low, event.high))
        lacks_offset = not any(field.number in (EVENT_OFFSET, EVENT_OCCURRENCES) for field in fields)
        for field in fields:
            stat = self._stat(data, field) if field.number == EVENT_STAT else None
            if field.number == EVENT_OFFSET:
                tokens += [data[field.begin : field.low], Slot(field.value, self.span)]
            else:
                tokens.append(stat or data[field.begin : field.high])
            if field.number == EVENT_NAME and lacks_offset:
                tokens += [_written(EVENT_OFFSET << 3), Slot(0, self.span)]
        return tokens

    def _stat(self, data: bytes, stat: Field) -> tuple[bytes, Slot] | None:
        """A stat that moves, or None; what it is called comes first, then its number."""
        fields = list(_fields(data, stat.low, stat.high))
        if len(fields) != 2 or fields[0].number != STAT_NAME or fields[1].number not in (STAT_UNSIGNED, STAT_SIGNED):
            return None
        step = self.stats.get(fields[0].value, 0)
        return (data[stat.low : fields[1].low], Slot(fields[1].value, step)) if step else None


def grow(source: Path, target: Path, size: int) -> Grown:
    """Write as many copies as come nearest to `size` bytes (at least one)."""
    data = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    top = list(_fields(data, 0, len(data)))
    planes = [list(_fields(data, field.low, field.high)) if field.number == PLANE else [] for field in top]
    span = _span(data, planes)
    grown = [_lines(data, plane, span) for plane in planes]
    lines = [line for plane in grown for line in plane.values()]
    copies = 1 + max(0, round((size - len(data)) / max(1, sum(line.size(1) for line in lines))))
    with target.open("wb") as out:
        for field, plane, moving in zip(top, planes, grown, strict=True):
            if field.number != PLANE:
                out.write(data[field.begin : field.high])
                continue
            sizes = {at: sum(line.size(copy) for copy in range(copies)) for at, line in moving.items()}
            frames = {at: _frame(data, plane[at], size) for at, size in sizes.items()}
            rest = sum(f.high - f.begin for at, f in enumerate(plane) if at not in moving)
            out.write(_block(PLANE, rest + sum(len(b) + sizes[at] + len(a) for at, (b, a) in frames.items())))
            for at, part in enumerate(plane):
                if at not in moving:
                    out.write(data[part.begin : part.high])
                    continue
                before, after = frames[at]
                out.write(before)
                out.writelines(moving[at].copy(copy) for copy in range(copies))
                out.write(after)
        written = out.tell()
    return Grown(written, copies * sum(len(line.events) for line in lines), copies)


def _lines(data: bytes, plane: Sequence[Field], span: int) -> dict[int, Line]:
    """The lines of a plane by their place in it."""
    steps = Steps(span, _stat_steps(data, plane, span))
    events = {at: _events(data, line) for at, line in enumerate(plane) if line.number == PLANE_LINE}
    return {at: Line([steps.event(data, event) for event in found]) for at, found in events.items() if found}


def _events(data: bytes, line: Field) -> list[Field]:
    return [field for field in _fields(data, line.low, line.high) if field.number == LINE_EVENT]


def _frame(data: bytes, line: Field, size: int) -> tuple[bytes, bytes]:
    """What stands before and after the events of a line when those take so many bytes."""
    fields = list(_fields(data, line.low, line.high))
    first = next(at for at, field in enumerate(fields) if field.number == LINE_EVENT)
    before = b"".join(data[f.begin : f.high] for f in fields[:first])
    after = b"".join(data[f.begin : f.high] for f in fields[first:] if f.number != LINE_EVENT)
    return _block(PLANE_LINE, len(before) + size + len(after)) + before, after


def _span(data: bytes, planes: Iterable[Sequence[Field]]) -> int:
    """Ps from the first event to the end of the last, over all lines, and a little."""
    starts, ends = [0], [0]
    for line in (field for plane in planes for field in plane if field.number == PLANE_LINE):
        fields = list(_fields(data, line.low, line.high))
        begin = 1000 * next((field.value for field in fields if field.number == LINE_START_NS), 0)
        for event in (field for field in fields if field.number == LINE_EVENT):
            found = {field.number: _signed(field.value) for field in _fields(data, event.low, event.high)}
            starts.append(begin + found.get(EVENT_OFFSET, 0))
            ends.append(starts[-1] + found.get(EVENT_DURATION, 0))
    return max(ends) - min(starts[1:], default=0) + _GAP_PS


def _stat_steps(data: bytes, plane: Sequence[Field], span: int) -> dict[int, int]:
    """How far the stats that move do so, by the id of their name in this plane."""
    ids: dict[str, int] = {}
    for entry in (field for field in plane if field.number == PLANE_STAT_NAMES):
        pair = {field.number: field for field in _fields(data, entry.low, entry.high)}
        name = next((f for f in _fields(data, pair[2].low, pair[2].high) if f.number == 2), None) if 2 in pair else None
        if name is not None and 1 in pair:
            ids[data[name.low : name.high].decode("utf-8", "replace")] = pair[1].value
    steps = {ids[name]: span for name in MOVED if name in ids}
    for kind in COUNTED:
        mine = {ids[name] for name in kind if name in ids}
        top = max(_values(data, plane, mine), default=0)
        steps |= dict.fromkeys(mine, top + 1 if top < _SEQUENTIAL else 1 << 20)
    return steps


def _values(data: bytes, plane: Sequence[Field], names: set[int]) -> Iterator[int]:
    """The numbers of all stats of these names."""
    lines = (line for line in plane if line.number == PLANE_LINE) if names else ()
    for event in (event for line in lines for event in _events(data, line)):
        for stat in (field for field in _fields(data, event.low, event.high) if field.number == EVENT_STAT):
            found = {field.number: field.value for field in _fields(data, stat.low, stat.high)}
            if found.get(STAT_NAME) in names:
                yield found.get(STAT_UNSIGNED, found.get(STAT_SIGNED, 0))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("size", type=size_of)
    asked = parser.parse_args()
    grown = grow(asked.source, asked.target, asked.size)
    print(f"{asked.target}: {size_text(grown.size)}, {grown.events:,} events, {grown.copies} copies")


if __name__ == "__main__":
    main()
