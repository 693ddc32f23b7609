"""Where the events of a line begin and end, found for a whole stretch of bytes at once.

Owns framing: a guess by the bytes with which events begin, proved by following the lengths from one to the next.
Decodes nothing but what lies in the first eight bytes of an event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import uint64

from tracehound.formats.wire import BYTES, PADDING, Bytes, Data, Rows, WireError, field_at, varint

Flags = npt.NDArray[np.bool_]

EVENT = 4
TAG = EVENT << 3 | BYTES
METADATA_TAG, OFFSET_TAG = 1 << 3, 2 << 3
"""The fields with which writers begin an event; stats, which have the tag of events, go on with another field."""


class Heads(NamedTuple):
    """The events that begin at the front of some bytes and follow one another.

    `head` is the offset of each event's tag, `end` that after its last byte. Of the usual ones `metadata` is the id
    and `at` where the offset's varint begins; `odd` are the rows of the others. What lies from `after` on is no event
    (`stopped`), or one that the bytes do not hold whole.
    """

    head: Rows
    end: Rows
    metadata: Rows
    at: Rows
    odd: Rows
    after: int
    stopped: bool


class Marks:
    """Memory for a mark on every byte of a piece of at most `size` bytes, used again for the next piece."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._flags = np.empty((3, size + PADDING), np.bool_)

    def likely(self, piece: Bytes) -> Rows:
        """Where an event may begin: the tag, and an offset's tag behind a length and an id of one or two bytes each."""
        size = piece.size
        opens, places, soon = self._flags if size <= self._size else np.empty((3, size + PADDING), np.bool_)
        np.equal(piece.raw[:size], TAG, out=opens[:size])
        np.equal(piece.raw[: size + 6], OFFSET_TAG, out=places[: size + 6])
        np.logical_or(places[4 : size + 4], places[5 : size + 5], out=soon[:size])
        np.logical_or(soon[:size], places[6 : size + 6], out=soon[:size])
        np.logical_and(opens[:size], soon[:size], out=opens[:size])
        return np.flatnonzero(opens[:size])


def heads(piece: Bytes, marks: Marks) -> Heads:
    """The events at the front of the piece."""
    head, end, metadata, at = _guess(piece, marks.likely(piece))
    whole = int(np.searchsorted(end, piece.size, side="right")) if len(end) else 0
    chained = whole > 0 and head[0] == 0 and bool((end[: whole - 1] == head[1:whole]).all())
    if not chained:
        return _repaired(piece, head, end, metadata, at)
    after = int(end[whole - 1])
    if after == piece.size or _is_cut(piece, after):
        nothing = np.empty(0, np.int64)
        return Heads(head[:whole], end[:whole], metadata[:whole], at[:whole], nothing, after, stopped=False)
    return _repaired(piece, head, end, metadata, at)


def _is_cut(piece: Bytes, at: int) -> bool:
    """Whether an event that begins here is not whole."""
    try:
        field_at(piece.data, at, piece.size)
    except WireError as error:
        return error.overrun
    return False


_BITS, _BYTE, _LONG = uint64(0x7F), uint64(0xFF), uint64(0x80 << 8)
_NAME, _PLACE = uint64(METADATA_TAG), uint64(OFFSET_TAG)


def _guess(piece: Bytes, head: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """Those of the likely places where an event does seem to begin: head, end, id and the place of the offset."""
    word = piece.words[head]
    length = word >> uint64(8)
    length &= _BITS
    body = word >> uint64(16)
    at = head + 5
    end = head + 2
    sound = np.ones(len(head), np.bool_)
    long = word & _LONG
    if long.any():
        long >>= uint64(15)
        length += long * ((word >> uint64(9)) & uint64(0x3F80))
        body >>= long << uint64(3)
        sound = (long & (word >> uint64(23))) == 0
        at += long.view(np.int64)
        end += long.view(np.int64)
    end += length.view(np.int64)
    metadata = body >> uint64(8)
    metadata &= _BITS
    then = body >> uint64(16)
    two = body & _LONG
    if two.any():
        two >>= uint64(15)
        metadata += two * ((body >> uint64(9)) & uint64(0x3F80))
        then >>= two << uint64(3)
        at += two.view(np.int64)
        sound &= (two & (body >> uint64(23))) == 0
    body &= _BYTE
    sound &= body == _NAME
    then &= _BYTE
    sound &= then == _PLACE
    ids: Rows = metadata.view(np.int64)
    return (head, end, ids, at) if sound.all() else (head[sound], end[sound], ids[sound], at[sound])


def _repaired(piece: Bytes, head: Rows, end: Rows, metadata: Rows, at: Rows) -> Heads:
    """The chain of events from the front on, through what the guess missed or took for an event."""
    breaks = np.append(np.flatnonzero(end[:-1] != head[1:]), len(head) - 1)
    kept, odd = [], []
    here, stopped = 0, False
    while here < piece.size:
        row = int(np.searchsorted(head, here))
        if row < len(head) and head[row] == here:
            last = int(breaks[np.searchsorted(breaks, row)]) + 1
            whole = row + int(np.searchsorted(end[row:last], piece.size, side="right"))
            if whole == row:
                break
            kept.append(np.arange(row, whole))
            here = int(end[whole - 1])
            continue
        try:
            field, after = field_at(piece.data, here, piece.size)
        except WireError as error:
            stopped = not error.overrun
            break
        if (field.number, field.wire) != (EVENT, BYTES):
            stopped = True
            break
        odd.append((here, after))
        here = after
    rows = np.concatenate(kept) if kept else np.empty(0, np.int64)
    heads_odd, ends_odd = np.array(odd, np.int64).reshape(-1, 2).T
    nothing = np.zeros(len(odd), np.int64)
    order = np.argsort(np.concatenate([head[rows], heads_odd]))
    columns = ((head, heads_odd), (end, ends_odd), (metadata, nothing), (at, nothing))
    merged = [np.concatenate([usual[rows], other])[order] for usual, other in columns]
    return Heads(merged[0], merged[1], merged[2], merged[3], np.flatnonzero(order >= len(rows)), here, stopped)


CHAIN = 12
"""So many events in a row are no accident."""

REACH = 1 << 16
"""How far the next event is looked for; those of profiles are seldom longer than a hundred bytes."""


def head_near(data: Data, at: int, end: int) -> int | None:
    """Where, from `at` on, an event of the line that ends at `end` seems to begin; to be proved by who gets there."""
    stop = min(at + REACH, end)
    while (at := data.find(bytes([TAG]), at, stop)) >= 0:
        if _is_chain(data, at, end):
            return at
        at += 1
    return None


def _is_chain(data: Data, at: int, end: int) -> bool:
    """Whether events of the usual kind follow one another from `at` on, `CHAIN` of them or to the last."""
    try:
        for count in range(CHAIN):
            if at >= end or data[at] != TAG:
                return count > CHAIN // 4 and ends_line(data, at, end)
            size, body = varint(data, at + 1, end)
            if data[body] != METADATA_TAG:
                return False
            _, after = varint(data, body + 1, end)
            if data[after] != OFFSET_TAG or body + size > end:
                return False
            at = body + size
    except (WireError, IndexError):
        return False
    return True


def ends_line(data: Data, at: int, end: int) -> bool:
    """Whether other fields of a line follow from `at` to its very end."""
    try:
        while at < end:
            field, at = field_at(data, at, end)
            if field.number == EVENT:
                return False
    except WireError:
        return False
    return True
