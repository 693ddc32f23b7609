"""Protocol buffers at the wire: one field at a time, and the k-th field of many messages at once.

Owns varints, tags and lengths. Knows no message. Two readers of the same grammar: `fields` walks one message in plain
Python; `rounds` walks thousands together with numpy, a field of each per round, which is some fifty times as fast.

A message lies between two offsets. `rounds` reads eight bytes wherever it looks, and so reads a copy of the bytes with
spare ones at the end (`File.piece`): such copies are small enough to stay in the processor's cache.
"""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from numpy import uint64

Data = bytes | bytearray | mmap.mmap
Rows = npt.NDArray[np.int64]
Words = npt.NDArray[uint64]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

PADDING = 32

_MASK64 = (1 << 64) - 1


class ShortenedError(Exception):
    """A file ends before the byte that it had when it was opened."""


class WireError(ValueError):
    """The bytes at `at` are no protocol buffer; `overrun` when they may be the beginning of one that was cut."""

    def __init__(self, at: int, what: str, *, overrun: bool = False) -> None:
        super().__init__(what)
        self.at = at
        self.what = what
        self.overrun = overrun


class Field(NamedTuple):
    """One field of a message.

    `value` is the varint or the bits of a fixed number, unsigned; of `BYTES` their length, and `at` where they begin.
    """

    number: int
    wire: int
    value: int
    at: int


def varint(data: Data, at: int, end: int) -> tuple[int, int]:
    """The unsigned varint at `at` and the offset after it."""
    value = shift = 0
    for here in range(at, min(end, at + 10)):
        byte = data[here]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, here + 1
        shift += 7
    if end < at + 10:
        raise WireError(at, "varint runs past the end", overrun=True)
    raise WireError(at, "varint of more than 10 bytes")


def fields(data: Data, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in `[start, end)`. Raises WireError where it makes no sense."""
    at = start
    while at < end:
        field, at = field_at(data, at, end)
        yield field


def field_at(data: Data, at: int, end: int) -> tuple[Field, int]:
    """The field at `at`, and the offset after it."""
    begin = at
    key, at = varint(data, at, end)
    number, wire = key >> 3, key & 7
    if not 0 < number < 1 << 29:
        raise WireError(begin, f"no field has the number {number}")
    if wire == VARINT:
        value, after = varint(data, at, end)
        return Field(number, wire, value, at), after
    if wire == BYTES:
        value, at = varint(data, at, end)
        after = at + value
    elif wire in (FIXED64, FIXED32):
        after = at + (8 if wire == FIXED64 else 4)
        value = int.from_bytes(data[at:after], "little")
    else:
        raise WireError(begin, f"no field has the wire type {wire}")
    if after > end:
        raise WireError(begin, f"field {number} runs {after - end:,} bytes past the end", overrun=True)
    return Field(number, wire, value, at), after


def signed(value: int) -> int:
    """An unsigned 64-bit number as the int64 with the same bits."""
    return value - (1 << 64) if value >> 63 else value


class Bytes(Struct, frozen=True):
    """Some bytes, and spare ones at the end.

    `raw` are they as numbers, `words` holds at every offset the eight bytes from there as one little-endian number;
    `size` does not count the spare ones.
    """

    data: bytes | bytearray
    raw: npt.NDArray[np.uint8]
    words: Words
    size: int

    def text(self, start: int, end: int) -> str:
        """The string in `[start, end)`; what is no UTF-8 is replaced."""
        return self.data[start:end].decode("utf-8", "replace")


def bytes_of(data: bytes) -> Bytes:
    """The bytes, ready for bulk reading."""
    return _spacious(data + bytes(PADDING), len(data))


def _spacious(data: bytes | bytearray, size: int) -> Bytes:
    words: Words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, 0, (1,))
    return Bytes(data, np.frombuffer(data, np.uint8), words, size)


class File(Struct, frozen=True):
    """All bytes of an inflated file: in memory, or mapped from the open file `descriptor`.

    A few bytes are looked at where they are mapped; pieces are read, so that what is mapped does not pile up in memory.
    """

    data: Data
    size: int
    descriptor: int | None = None

    def read(self, start: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `start` on. Raises ShortenedError, and OSError as reading does."""
        if self.descriptor is None:
            into[:] = memoryview(self.data)[start : start + len(into)]
            return
        while into:
            count = os.preadv(self.descriptor, [into], start)
            if not count:
                raise ShortenedError
            start, into = start + count, into[count:]

    def text(self, start: int, end: int) -> str:
        """The string in `[start, end)`; what is no UTF-8 is replaced."""
        return self.data[start:end].decode("utf-8", "replace")

    def piece(self, *spans: tuple[int, int]) -> Bytes:
        """A copy of the bytes in these spans, one after the other, ready for bulk reading."""
        return Room(sum(end - start for start, end in spans)).piece(self, *spans)


class Room:
    """Memory in which one piece after the other is read: new memory for each would cost more than reading it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = bytearray(size + PADDING)
        self._view = memoryview(self._data)
        self._whole = _spacious(self._data, size)

    def piece(self, file: File, *spans: tuple[int, int]) -> Bytes:
        """A copy of the bytes in these spans, one after the other, good until the next."""
        size = sum(end - start for start, end in spans)
        if size > self._size:
            return file.piece(*spans)
        at = 0
        for start, end in spans:
            file.read(start, self._view[at : at + end - start])
            at += end - start
        self._data[at : at + PADDING] = bytes(PADDING)
        return replace(self._whole, size=size)


AT_ONCE = 1 << 22
"""Bytes of messages that are copied to be read together."""


def together(file: File, start: Rows, end: Rows) -> Iterator[tuple[slice, Bytes, int]]:
    """Messages in ascending order in groups that are read together: which ones, their bytes, and where those begin."""
    low = 0
    while low < len(start):
        base = int(start[low])
        high = max(low + 1, int(np.searchsorted(end, base + AT_ONCE, side="right")))
        yield slice(low, high), file.piece((base, max(base, int(end[high - 1])))), base
        low = high


_SEVENS = uint64(0x7F7F7F7F7F7F7F7F)
_LAST_BUT_ONE = uint64(_MASK64 - 1)
_SEVEN_BITS, _BYTE, _HIGH_STOP = uint64(7), uint64(8), uint64(0x80 << 56)
_FOLDS = (
    (1, uint64(0x7F007F007F007F00), uint64(1)),
    (2, uint64(0x3FFF00003FFF0000), uint64(2)),
    (4, uint64(0x0FFFFFFF00000000), uint64(4)),
)


def first_varint(word: Words) -> tuple[Words, Rows]:
    """The varint at the front of each word, and its length in bytes; length 9 where it does not end in the word.

    The lowest clear continuation bit marks its last byte: taking 1 from all such bits of a word leaves the payload of
    the bytes up to there set, and of no others. The seven payload bits of those bytes are pushed together in as many
    steps as the longest varint needs, pairs first.
    """
    payload = word | _SEVENS  # all but the clear continuation bits
    np.subtract(_LAST_BUT_ONE, payload, out=payload)
    payload &= _SEVENS
    count = np.bitwise_count(payload)
    most = int(count.max(initial=0))
    size = (count // 7).astype(np.int64)
    if most == 56:
        whole = np.flatnonzero(size == 8)
        size[whole] += (word[whole] >> uint64(63)).view(np.int64)
    bits = np.bitwise_and(word, payload, out=payload)
    for reach, high, shift in _FOLDS:
        if most <= 7 * reach:
            break
        upper = bits & high
        bits ^= upper
        upper >>= shift
        bits |= upper
    return bits, size


def varints(data: Words, at: Rows) -> tuple[Words, Rows]:
    """The varint at each offset and its length; length 0 where there is none (more than 10 bytes)."""
    value, size = first_varint(data[at])
    long = np.flatnonzero(size > 8)
    if len(long):
        rest, more = first_varint(data[at[long] + 8])
        value[long] |= rest << uint64(56)
        size[long] = np.where(more <= 2, 8 + more, 0)
    return value, size


class Spans:
    """Where the messages of one repeated field lie: the offsets of their tags, first bytes and ends."""

    def __init__(self, number: int) -> None:
        self.tag = number << 3 | BYTES
        self.head, self.start, self.end = array("q"), array("q"), array("q")

    def add(self, head: int, start: int, end: int) -> None:
        """One more message."""
        self.head.append(head)
        self.start.append(start)
        self.end.append(end)

    def arrays(self) -> tuple[Rows, Rows, Rows]:
        """Offsets of the tags, of the first bytes and after the last."""
        head, start, end = (np.frombuffer(column, np.int64) for column in (self.head, self.start, self.end))
        return head, start, end

    def pairs(self) -> list[tuple[int, int]]:
        """Offsets of the first bytes and after the last."""
        return list(zip(self.start, self.end, strict=True))


def repeated(data: Data, at: int, end: int, spans: Spans) -> int:
    """Pass over consecutive `BYTES` fields with the tag of `spans`, adding them there; the offset after them."""
    key, add = spans.tag, spans.add
    while at < end and data[at] == key:
        begin = at
        try:
            size, start = varint(data, at + 1, end)
        except WireError as error:
            raise WireError(begin, error.what, overrun=error.overrun) from None
        at = start + size
        if at > end:
            raise WireError(begin, f"field {key >> 3} runs {at - end:,} bytes past the end", overrun=True)
        add(begin, start, at)
    return at


class Round(NamedTuple):
    """The k-th field of every message that has one.

    `message` is the position of the message, the rest as in `Field`. `number` 0 marks a message that makes no sense
    from `at` on; it is in no later round.
    """

    message: Rows
    number: Rows
    wire: Rows
    value: Words
    at: Rows

    def where(self, number: int, wire: int) -> npt.NDArray[np.bool_]:
        """Which of the fields have this number and wire type."""
        mask: npt.NDArray[np.bool_] = (self.number == number) & (self.wire == wire)
        return mask


def rounds(data: Words, start: Rows, end: Rows) -> Iterator[Round]:
    """The first fields of the messages in `[start, end)`, then the second ones, and so on until all have ended."""
    message = np.flatnonzero(start < end)
    at, end = start[message], end[message]
    while len(message):
        word = data[at]
        key, size = word & uint64(0xFF), np.ones(len(at), np.int64)
        if (key > 0x7F).any():
            key, size = varints(data, at)
            value, length = varints(data, at + size)
        else:
            value, length = first_varint((word >> _BYTE) | _HIGH_STOP)
            long = np.flatnonzero(length > 7)
            if len(long):
                value[long], length[long] = varints(data, at[long] + 1)
        wire = (key & _SEVEN_BITS).astype(np.int64)
        number = (key >> uint64(3)).astype(np.int64)
        payload, after, sound = _payload(data, at + size, end, wire, value, length)
        sound &= (size > 0) & (number > 0) & (number < 1 << 29)
        if not sound.all():
            number = np.where(sound, number, 0)
            after = np.where(sound, after, end)
            payload = np.where(sound, payload, at)
        yield Round(message, number, wire, value, payload)
        live = after < end
        if live.all():
            at = after
        else:
            message, at, end = message[live], after[live], end[live]


def _payload(
    data: Words, body: Rows, end: Rows, wire: Rows, value: Words, length: Rows
) -> tuple[Rows, Rows, npt.NDArray[np.bool_]]:
    """Where each field's content begins, where it ends, and whether it lies inside its message.

    `value` holds the varint at `body`; the fixed numbers among the fields are put into it.
    """
    is_varint = wire == VARINT
    if is_varint.all():
        after = body + length
        return body, after, (length > 0) & (after <= end)
    is_bytes = wire == BYTES
    payload = np.where(is_bytes, body + length, body)
    room = np.maximum(end - payload, 0).view(uint64)
    sound = (length > 0) & (payload <= end) & (~is_bytes | (value <= room))
    after = payload + np.where(is_bytes & sound, value, uint64(0)).view(np.int64)
    after = np.where(is_varint, body + length, after)
    for kind, size in ((FIXED64, 8), (FIXED32, 4)):
        fixed = np.flatnonzero(wire == kind)
        if len(fixed):
            bits = data[body[fixed]]
            value[fixed] = bits if size == 8 else bits & uint64(0xFFFFFFFF)
            after[fixed] = body[fixed] + size
            sound[fixed] = True
    known = is_varint | is_bytes | (wire == FIXED64) | (wire == FIXED32)
    return payload, after, sound & known & (after <= end)
