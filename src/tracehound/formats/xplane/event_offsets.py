"""Bounds of the events of a line, found for many bytes at once.

They are guessed from the bytes with which events begin, and verified by following the lengths from one event to the
next. Only the first eight bytes of an event are decoded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import uint64

from tracehound.formats.protobuf_wire import (
    BYTES,
    PADDING,
    BytesLike,
    Offsets,
    PaddedBytes,
    WireError,
    read_field,
    read_varint,
)

Flags = npt.NDArray[np.bool_]

EVENT_FIELD = 4
EVENT_TAG = EVENT_FIELD << 3 | BYTES
METADATA_TAG, OFFSET_TAG = 1 << 3, 2 << 3
"""Fields with which writers begin an event; stats, which have the tag of events, continue with another field."""


class EventOffsets(NamedTuple):
    """Consecutive events at the front of some bytes.

    `head` is the offset of each event's tag, `end` that after its last byte. For usual events `metadata` is the id and
    `at` the offset of the offset's varint; `odd` are the rows of the other events. At `after` there is no event
    (`stopped`), or one that the bytes do not hold completely.
    """

    head: Offsets
    end: Offsets
    metadata: Offsets
    at: Offsets
    odd: Offsets
    after: int
    stopped: bool


class EventTagFinder:
    """Finds event tags in data of at most `size` bytes; its memory is used again for the next data."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._flags = np.empty((3, size + PADDING), np.bool_)

    def likely_starts(self, buffer: PaddedBytes) -> Offsets:
        """Offsets where an event may begin.

        There is an event's tag, then a length and an id of one or two bytes each, then an offset's tag.
        """
        size = buffer.size
        opens, places, soon = self._flags if size <= self._size else np.empty((3, size + PADDING), np.bool_)
        np.equal(buffer.raw[:size], EVENT_TAG, out=opens[:size])
        np.equal(buffer.raw[: size + 6], OFFSET_TAG, out=places[: size + 6])
        np.logical_or(places[4 : size + 4], places[5 : size + 5], out=soon[:size])
        np.logical_or(soon[:size], places[6 : size + 6], out=soon[:size])
        np.logical_and(opens[:size], soon[:size], out=opens[:size])
        return np.flatnonzero(opens[:size])


def find_event_bounds(buffer: PaddedBytes, tag_finder: EventTagFinder) -> EventOffsets:
    """Bounds of the events at the front of the data."""
    head, end, metadata, at = _guess_event_bounds(buffer, tag_finder.likely_starts(buffer))
    complete = int(np.searchsorted(end, buffer.size, side="right")) if len(end) else 0
    is_chain = complete > 0 and head[0] == 0 and bool((end[: complete - 1] == head[1:complete]).all())
    if not is_chain:
        return _follow_events(buffer, head, end, metadata, at)
    after = int(end[complete - 1])
    if after == buffer.size or _is_incomplete(buffer, after):
        nothing = np.empty(0, np.int64)
        return EventOffsets(
            head[:complete], end[:complete], metadata[:complete], at[:complete], nothing, after, stopped=False
        )
    return _follow_events(buffer, head, end, metadata, at)


def _is_incomplete(buffer: PaddedBytes, at: int) -> bool:
    """True if the event at this offset is cut off."""
    try:
        read_field(buffer.data, at, buffer.size)
    except WireError as error:
        return error.overrun
    return False


_BITS, _BYTE, _LONG = uint64(0x7F), uint64(0xFF), uint64(0x80 << 8)
_METADATA_TAG, _OFFSET_TAG = uint64(METADATA_TAG), uint64(OFFSET_TAG)


def _guess_event_bounds(buffer: PaddedBytes, head: Offsets) -> tuple[Offsets, Offsets, Offsets, Offsets]:
    """Those of the likely starts that look like an event: head, end, id, and position of the offset's varint."""
    word = buffer.words[head]
    length = word >> uint64(8)
    length &= _BITS
    body = word >> uint64(16)
    at = head + 5
    end = head + 2
    is_valid = np.ones(len(head), np.bool_)
    long = word & _LONG
    if long.any():
        long >>= uint64(15)
        length += long * ((word >> uint64(9)) & uint64(0x3F80))
        body >>= long << uint64(3)
        is_valid = (long & (word >> uint64(23))) == 0
        at += long.view(np.int64)
        end += long.view(np.int64)
    end += length.view(np.int64)
    metadata = body >> uint64(8)
    metadata &= _BITS
    after_id = body >> uint64(16)
    two = body & _LONG
    if two.any():
        two >>= uint64(15)
        metadata += two * ((body >> uint64(9)) & uint64(0x3F80))
        after_id >>= two << uint64(3)
        at += two.view(np.int64)
        is_valid &= (two & (body >> uint64(23))) == 0
    body &= _BYTE
    is_valid &= body == _METADATA_TAG
    after_id &= _BYTE
    is_valid &= after_id == _OFFSET_TAG
    ids: Offsets = metadata.view(np.int64)
    return (head, end, ids, at) if is_valid.all() else (head[is_valid], end[is_valid], ids[is_valid], at[is_valid])


def _follow_events(buffer: PaddedBytes, head: Offsets, end: Offsets, metadata: Offsets, at: Offsets) -> EventOffsets:
    """Chain of events from the front on, including those that the guess missed, without its wrong guesses."""
    breaks = np.append(np.flatnonzero(end[:-1] != head[1:]), len(head) - 1)
    usual_rows, unusual = [], []
    position, stopped = 0, False
    while position < buffer.size:
        row = int(np.searchsorted(head, position))
        if row < len(head) and head[row] == position:
            last = int(breaks[np.searchsorted(breaks, row)]) + 1
            complete = row + int(np.searchsorted(end[row:last], buffer.size, side="right"))
            if complete == row:
                break
            usual_rows.append(np.arange(row, complete))
            position = int(end[complete - 1])
            continue
        try:
            field, after = read_field(buffer.data, position, buffer.size)
        except WireError as error:
            stopped = not error.overrun
            break
        if (field.number, field.wire) != (EVENT_FIELD, BYTES):
            stopped = True
            break
        unusual.append((position, after))
        position = after
    rows = np.concatenate(usual_rows) if usual_rows else np.empty(0, np.int64)
    heads_odd, ends_odd = np.array(unusual, np.int64).reshape(-1, 2).T
    nothing = np.zeros(len(unusual), np.int64)
    order = np.argsort(np.concatenate([head[rows], heads_odd]))
    columns = ((head, heads_odd), (end, ends_odd), (metadata, nothing), (at, nothing))
    merged = [np.concatenate([usual[rows], other])[order] for usual, other in columns]
    return EventOffsets(
        merged[0], merged[1], merged[2], merged[3], np.flatnonzero(order >= len(rows)), position, stopped
    )


MIN_EVENTS_IN_CHAIN = 12
"""This many events in a row are no accident."""

SEARCHED_BYTES = 1 << 16
"""Bytes in which the next event is searched; events are seldom longer than a hundred bytes."""


def find_event_near(data: BytesLike, at: int, end: int) -> int | None:
    """Offset, from `at` on, at which an event of the line seems to begin; whoever decodes up to it verifies it."""
    stop = min(at + SEARCHED_BYTES, end)
    while (at := data.find(bytes([EVENT_TAG]), at, stop)) >= 0:
        if _is_event_chain(data, at, end):
            return at
        at += 1
    return None


def _is_event_chain(data: BytesLike, at: int, end: int) -> bool:
    """True if usual events follow one another from `at` on: `MIN_EVENTS_IN_CHAIN` of them, or to the last."""
    try:
        for count in range(MIN_EVENTS_IN_CHAIN):
            if at >= end or data[at] != EVENT_TAG:
                return count > MIN_EVENTS_IN_CHAIN // 4 and holds_no_more_events(data, at, end)
            size, body = read_varint(data, at + 1, end)
            if data[body] != METADATA_TAG:
                return False
            _, after = read_varint(data, body + 1, end)
            if data[after] != OFFSET_TAG or body + size > end:
                return False
            at = body + size
    except (WireError, IndexError):
        return False
    return True


def holds_no_more_events(data: BytesLike, at: int, end: int) -> bool:
    """True if only other fields of a line follow from `at` to its end."""
    try:
        while at < end:
            field, at = read_field(data, at, end)
            if field.number == EVENT_FIELD:
                return False
    except WireError:
        return False
    return True
