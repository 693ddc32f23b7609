"""Protocol buffers at the wire: one field at a time, and the k-th field of many messages at once.

Varints, tags and lengths are decoded here, without knowledge of any message type. Two readers share the grammar:
`iterate_fields` walks one message in plain Python; `iterate_field_rounds` walks thousands together with numpy, a field
of each per round, which is some fifty times as fast.

A message lies between two offsets. `iterate_field_rounds` reads eight bytes at each offset, so it needs a copy of the
bytes with padding at the end (`InflatedFile.read_intervals`): such copies are small enough for the processor's cache.
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

BytesLike = bytes | bytearray | mmap.mmap
Offsets = npt.NDArray[np.int64]
Words = npt.NDArray[uint64]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

PADDING = 32

_MASK64 = (1 << 64) - 1


class FileShortenedError(Exception):
    """A file ends before the byte that it had when it was opened."""


class WireError(ValueError):
    """The bytes at `at` are no protocol buffer.

    `overrun` says that they may be the start of one that was cut.
    """

    def __init__(self, at: int, what: str, *, overrun: bool = False) -> None:
        super().__init__(what)
        self.at = at
        self.what = what
        self.overrun = overrun


class WireField(NamedTuple):
    """One field of a message.

    `value` is the varint or the bits of a fixed number, unsigned; for `BYTES` their length, and `at` is their start.
    """

    number: int
    wire: int
    value: int
    at: int


def read_varint(data: BytesLike, at: int, end: int) -> tuple[int, int]:
    """Return the unsigned varint at `at` and the offset after it."""
    if at < end and (byte := data[at]) < 0x80:  # most are of one byte
        return byte, at + 1
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


def iterate_fields(data: BytesLike, start: int, end: int) -> Iterator[WireField]:
    """Yield the fields of the message in `[start, end)`. Raises WireError for invalid bytes."""
    at = start
    while at < end:
        field, at = read_field(data, at, end)
        yield field


def read_field(data: BytesLike, at: int, end: int) -> tuple[WireField, int]:
    """Return the field at `at` and the offset after it."""
    tag_at = at
    key, at = read_varint(data, at, end)
    number, wire = key >> 3, key & 7
    if not 0 < number < 1 << 29:
        raise WireError(tag_at, f"no field has the number {number}")
    if wire == VARINT:
        value, after = read_varint(data, at, end)
        return WireField(number, wire, value, at), after
    if wire == BYTES:
        value, at = read_varint(data, at, end)
        after = at + value
    elif wire in (FIXED64, FIXED32):
        after = at + (8 if wire == FIXED64 else 4)
        value = int.from_bytes(data[at:after], "little")
    else:
        raise WireError(tag_at, f"no field has the wire type {wire}")
    if after > end:
        raise WireError(tag_at, f"field {number} runs {after - end:,} bytes past the end", overrun=True)
    return WireField(number, wire, value, at), after


def as_signed(value: int) -> int:
    """Convert an unsigned 64-bit number to the int64 with the same bits."""
    return value - (1 << 64) if value >> 63 else value


class PaddedBytes(Struct, frozen=True):
    """Some bytes with padding at the end.

    `raw` has them as numbers, `words` at each offset the next eight bytes as one little-endian number; `size` excludes
    the padding.
    """

    data: bytes | bytearray
    raw: npt.NDArray[np.uint8]
    words: Words
    size: int

    def text(self, start: int, end: int) -> str:
        """Return the string in `[start, end)`; bytes that are not UTF-8 are replaced."""
        return self.data[start:end].decode("utf-8", "replace")


def pad_bytes(data: bytes) -> PaddedBytes:
    """Copy the bytes with padding, ready for bulk reading."""
    return _padded_view(data + bytes(PADDING), len(data))


def _padded_view(data: bytes | bytearray, size: int) -> PaddedBytes:
    words: Words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, 0, (1,))
    return PaddedBytes(data, np.frombuffer(data, np.uint8), words, size)


class InflatedFile(Struct, frozen=True):
    """All bytes of an inflated file: in memory, or mapped from the open file `descriptor`.

    A few bytes are read through the mapping; chunks are read from the file, so that mapped pages do not fill the
    memory.
    """

    data: BytesLike
    size: int
    descriptor: int | None = None

    def read(self, start: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `start` on. Raises FileShortenedError, and OSError as reading does."""
        if self.descriptor is None:
            into[:] = memoryview(self.data)[start : start + len(into)]
            return
        while into:
            count = os.preadv(self.descriptor, [into], start)
            if not count:
                raise FileShortenedError
            start, into = start + count, into[count:]

    def text(self, start: int, end: int) -> str:
        """Return the string in `[start, end)`; bytes that are not UTF-8 are replaced."""
        return self.data[start:end].decode("utf-8", "replace")

    def read_intervals(self, *intervals: tuple[int, int]) -> PaddedBytes:
        """Return a copy of the bytes in these intervals, concatenated, ready for bulk reading."""
        return ReadBuffer(sum(end - start for start, end in intervals)).read_intervals(self, *intervals)


class ReadBuffer:
    """Reused memory into which chunks are read: new memory for each would cost more than the reading."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = bytearray(size + PADDING)
        self._view = memoryview(self._data)
        self._padded = _padded_view(self._data, size)

    def read_intervals(self, file: InflatedFile, *intervals: tuple[int, int]) -> PaddedBytes:
        """Return a copy of the bytes in these intervals, concatenated; it is valid until the next call."""
        size = sum(end - start for start, end in intervals)
        if size > self._size:
            return file.read_intervals(*intervals)
        at = 0
        for start, end in intervals:
            file.read(start, self._view[at : at + end - start])
            at += end - start
        self._data[at : at + PADDING] = bytes(PADDING)
        return replace(self._padded, size=size)


GROUP_BYTES = 1 << 22
"""The bytes of messages that are copied to be read together."""


def read_message_groups(file: InflatedFile, start: Offsets, end: Offsets) -> Iterator[tuple[slice, PaddedBytes, int]]:
    """Yield ascending messages in groups that are read together: their slice, their bytes, and the offset of these."""
    low = 0
    while low < len(start):
        base = int(start[low])
        high = max(low + 1, int(np.searchsorted(end, base + GROUP_BYTES, side="right")))
        yield slice(low, high), file.read_intervals((base, max(base, int(end[high - 1])))), base
        low = high


_SEVENS = uint64(0x7F7F7F7F7F7F7F7F)
_LAST_BUT_ONE = uint64(_MASK64 - 1)
_SEVEN_BITS, _BYTE, _HIGH_STOP = uint64(7), uint64(8), uint64(0x80 << 56)
_FOLDS = (
    (1, uint64(0x7F007F007F007F00), uint64(1)),
    (2, uint64(0x3FFF00003FFF0000), uint64(2)),
    (4, uint64(0x0FFFFFFF00000000), uint64(4)),
)


def decode_leading_varints(word: Words) -> tuple[Words, Offsets]:
    """Return the varint at the front of each word, and its length in bytes; length 9 where it does not end in the word.

    The lowest clear continuation bit marks its last byte: subtracting 1 from all such bits of a word leaves the payload
    of the bytes up to there set, and no others. The seven payload bits of those bytes are pushed together in as many
    steps as the longest varint needs, pairs first.
    """
    payload = word | _SEVENS  # all but the clear continuation bits
    np.subtract(_LAST_BUT_ONE, payload, out=payload)
    payload &= _SEVENS
    count = np.bitwise_count(payload)
    longest = int(count.max(initial=0))
    size = (count // 7).astype(np.int64)
    if longest == 56:
        full = np.flatnonzero(size == 8)
        size[full] += (word[full] >> uint64(63)).view(np.int64)
    bits = np.bitwise_and(word, payload, out=payload)
    for width, high, shift in _FOLDS:
        if longest <= 7 * width:
            break
        upper = bits & high
        bits ^= upper
        upper >>= shift
        bits |= upper
    return bits, size


def decode_varints(data: Words, at: Offsets) -> tuple[Words, Offsets]:
    """Return the varint at each offset and its length; length 0 where there is none (more than 10 bytes)."""
    value, size = decode_leading_varints(data[at])
    long = np.flatnonzero(size > 8)
    if len(long):
        rest, more = decode_leading_varints(data[at[long] + 8])
        value[long] |= rest << uint64(56)
        size[long] = np.where(more <= 2, 8 + more, 0)
    return value, size


class MessageOffsets:
    """Offsets of the messages of one repeated field: their tags, first bytes and ends."""

    def __init__(self, number: int) -> None:
        self.tag = number << 3 | BYTES
        self.head, self.start, self.end = array("q"), array("q"), array("q")

    def add(self, head: int, start: int, end: int) -> None:
        """Add one message."""
        self.head.append(head)
        self.start.append(start)
        self.end.append(end)

    def arrays(self) -> tuple[Offsets, Offsets, Offsets]:
        """Return the offsets of the tags, of the first bytes and after the last."""
        head, start, end = (np.frombuffer(column, np.int64) for column in (self.head, self.start, self.end))
        return head, start, end

    def pairs(self) -> list[tuple[int, int]]:
        """Return the offsets of the first bytes and after the last."""
        return list(zip(self.start, self.end, strict=True))


def collect_repeated_fields(data: BytesLike, at: int, end: int, spans: MessageOffsets) -> int:
    """Skip consecutive `BYTES` fields with the tag of `spans`, adding them there; return the offset after them."""
    key, add = spans.tag, spans.add
    while at < end and data[at] == key:
        begin = at
        try:
            size, start = read_varint(data, at + 1, end)
        except WireError as error:
            raise WireError(begin, error.what, overrun=error.overrun) from None
        at = start + size
        if at > end:
            raise WireError(begin, f"field {key >> 3} runs {at - end:,} bytes past the end", overrun=True)
        add(begin, start, at)
    return at


class FieldRound(NamedTuple):
    """Fields of several messages: the k-th of each message that has one.

    `message` is the position of the message, the rest is as in `WireField`. `number` 0 marks a message that is invalid
    from `at` on; later rounds leave it out.
    """

    message: Offsets
    number: Offsets
    wire: Offsets
    value: Words
    at: Offsets

    def field_mask(self, number: int, wire: int) -> npt.NDArray[np.bool_]:
        """Return the mask of fields with this number and wire type."""
        mask: npt.NDArray[np.bool_] = (self.number == number) & (self.wire == wire)
        return mask


def iterate_message_fields(file: PaddedBytes, start: Offsets, end: Offsets) -> Iterator[FieldRound]:
    """Yield the fields of the messages in `[start, end)`, those of one message in their order.

    The fields of few messages come all at once, of many a field of each at a time: a round takes as long for one
    message as for a hundred.
    """
    if len(start) > _FEW_MESSAGES:
        yield from iterate_field_rounds(file.words, start, end)
        return
    fields = [
        (message, *field)
        for message, (low, high) in enumerate(zip(start.tolist(), end.tolist(), strict=True))
        for field in _iterate_valid_fields(file.data, low, high)
    ]
    if fields:
        message, number, wire, value, at = zip(*fields, strict=True)
        yield FieldRound(
            np.array(message, np.int64),
            np.array(number, np.int64),
            np.array(wire, np.int64),
            np.array(value, uint64),
            np.array(at, np.int64),
        )


_FEW_MESSAGES = 32


def _iterate_valid_fields(data: BytesLike, start: int, end: int) -> Iterator[WireField]:
    """Yield the fields of a message, and one with the number 0 where it is invalid."""
    try:
        yield from iterate_fields(data, start, end)
    except WireError as error:
        yield WireField(0, VARINT, 0, error.at)


def iterate_field_rounds(data: Words, start: Offsets, end: Offsets) -> Iterator[FieldRound]:
    """Yield the first fields of the messages in `[start, end)`, then the second ones, until all messages have ended."""
    message = np.flatnonzero(start < end)
    at, end = start[message], end[message]
    while len(message):
        word = data[at]
        key, size = word & uint64(0xFF), np.ones(len(at), np.int64)
        if (key > 0x7F).any():
            key, size = decode_varints(data, at)
            value, length = decode_varints(data, at + size)
        else:
            value, length = decode_leading_varints((word >> _BYTE) | _HIGH_STOP)
            long = np.flatnonzero(length > 7)
            if len(long):
                value[long], length[long] = decode_varints(data, at[long] + 1)
        wire = (key & _SEVEN_BITS).astype(np.int64)
        number = (key >> uint64(3)).astype(np.int64)
        payload, after, sound = _field_bounds(data, at + size, end, wire, value, length)
        sound &= (size > 0) & (number > 0) & (number < 1 << 29)
        if not sound.all():
            number = np.where(sound, number, 0)
            after = np.where(sound, after, end)
            payload = np.where(sound, payload, at)
        yield FieldRound(message, number, wire, value, payload)
        live = after < end
        if live.all():
            at = after
        else:
            message, at, end = message[live], after[live], end[live]


def _field_bounds(
    data: Words, body: Offsets, end: Offsets, wire: Offsets, value: Words, length: Offsets
) -> tuple[Offsets, Offsets, npt.NDArray[np.bool_]]:
    """Return the start and the end of each field's content, and whether it lies inside its message.

    `value` holds the varint at `body`; fixed numbers among the fields are written into it.
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
