"""The events of the lines of an XPlane, decoded in bulk.

Owns the field numbers of XEvent and how some thousand of them become columns: those written as all writers write them
field by field for all at once, the others by the slower reader of any message. Knows no lanes: what the columns mean is
for the readers of device and host planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from numpy import uint64

from tracehound.formats.wire import (
    BYTES,
    FIXED64,
    VARINT,
    Bytes,
    File,
    Room,
    Rows,
    Words,
    first_varint,
    rounds,
    varints,
)
from tracehound.formats.xla.xheads import Heads, Marks, heads
from tracehound.formats.xla.xstats import (
    BLOB,
    DOUBLE,
    REF,
    SIGNED,
    STAT_ID,
    TEXT,
    UNSIGNED,
    Flags,
    Stats,
    joined,
    stats,
)
from tracehound.native.xevents import events

METADATA_ID, OFFSET_PS, DURATION_PS, EVENT_STAT, OCCURRENCES = 1, 2, 3, 4, 5

AT_ONCE = 1 << 19
"""Bytes of events decoded at once: enough for numpy, few enough to stay in the processor's cache."""

QUICK = 1 << 14
"""Ids of stats below this have at most two bytes."""


class TornError(Exception):
    """Where a stretch of events was said to end, none does: the line was cut in the wrong place."""


class Stretched(NamedTuple):
    """Some events of a line: they fill `[start, end)` of the file. `line` is any number."""

    line: int
    start: int
    end: int


class Wanted(Struct, frozen=True):
    """Which stats are decoded; `codes` are positions in `names`, for each of the sorted `ids`.

    `quick` has the codes of small ids, -1 of those that nobody wants: few bytes, which stay in the processor's cache.
    """

    names: tuple[str, ...]
    ids: Rows
    codes: Rows
    quick: npt.NDArray[np.int8]

    def of(self, ids: Rows) -> Rows:
        """The code of each stat with one of these ids, -1 of those that nobody wants."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, self.codes[at], -1)


def wanted(stat_names: Mapping[int, str], names: Sequence[str]) -> Wanted:
    """The stats with these names in a plane with this table."""
    code = {name: at for at, name in enumerate(names)}
    pairs = sorted((id_, code[name]) for id_, name in stat_names.items() if name in code)
    ids, codes = np.array(pairs, np.int64).reshape(-1, 2).T
    quick = np.full(QUICK, -1, np.int8)
    small = (ids >= 0) & (ids < QUICK)
    quick[ids[small]] = codes[small]
    return Wanted(tuple(names), ids, codes, quick)


class Column(Struct, frozen=True):
    """One stat of all events: the field that holds its value (0: none), and its bits.

    Of texts within the file the bits are ``at << 32 | length``, in the bytes of the slice.
    """

    field: npt.NDArray[np.uint8]
    bits: Words

    @classmethod
    def empty(cls, count: int) -> Column:
        """Of events that have none."""
        return cls(np.zeros(count, np.uint8), np.zeros(count, uint64))

    @property
    def whole(self) -> Flags:
        """Which have a whole number."""
        flags: Flags = (self.field == UNSIGNED) | (self.field == SIGNED)
        return flags


class Slice(Struct, frozen=True):
    """Events that were decoded together, in the order of the file.

    `line` is that of their stretch, `record` the byte at which an event begins, `start` (ps from the line's time) and
    `length` its times. `timed` is false where there is only a count of occurrences, `sound` where the bytes make no
    sense. `stats` are the wanted ones that any of them has, by name; `piece` has the texts.
    """

    piece: Bytes
    line: Rows
    record: Rows
    metadata: Rows
    start: Rows
    length: Rows
    timed: Flags
    sound: Flags
    stats: Mapping[str, Column]

    def later(self, ps: Rows) -> Slice:
        """The same events, each so much later."""
        return replace(self, start=self.start + ps)

    def take(self, which: Flags) -> Slice:
        """Some of the events."""
        return Slice(
            self.piece, self.line[which], self.record[which], self.metadata[which], self.start[which],
            self.length[which], self.timed[which], self.sound[which],
            {name: Column(column.field[which], column.bits[which]) for name, column in self.stats.items()},
        )  # fmt: skip


_LARGEST: Final = 1 << 31
"""No message is longer than so many bytes: what says that it is, is none."""


def slices(file: File, stretches: Sequence[Stretched], what: Wanted) -> Iterator[Slice]:
    """The events of the stretches, in their order.

    A slice's texts are good until the next. Raises TornError where a stretch is no sequence of events.
    """
    queue, room = list(reversed(stretches)), AT_ONCE
    reading, marks = Room(AT_ONCE), Marks(AT_ONCE)
    while queue:
        taken, size = [], 0
        while queue and size < room:
            one = queue.pop()
            until = min(one.end, one.start + room - size)
            taken.append(Stretched(one.line, one.start, until))
            size += until - one.start
            if until < one.end:
                queue.append(one._replace(start=until))
        piece = reading.piece(file, *((one.start, one.end) for one in taken))
        found, fields = _compiled(piece, what) or _bulk(piece, marks, what)
        if found.after < size:
            short = size - found.after
            if (
                found.stopped
                or not queue
                or queue[-1].start != taken[-1].end
                or short > taken[-1].end - taken[-1].start
            ):
                raise TornError
            queue[-1] = queue[-1]._replace(start=taken[-1].end - short)
        room = AT_ONCE if len(found.head) else 2 * room
        if room > _LARGEST:
            raise TornError
        if len(found.head):
            yield _placed(fields, found, taken)


class _Fields(NamedTuple):
    """The fields of events."""

    piece: Bytes
    metadata: Rows
    start: Rows
    length: Rows
    timed: Flags
    sound: Flags
    stats: Mapping[str, Column]

    def at(self, line: Rows, record: Rows) -> Slice:
        """The events on these lines, at these bytes."""
        piece, metadata, start, length, timed, sound, carried = self
        return Slice(piece, line, record, metadata, start, length, timed, sound, carried)


def _compiled(piece: Bytes, what: Wanted) -> tuple[Heads, _Fields] | None:
    """The events at the front of the piece, as compiled code reads them; None where there is none, or it refuses."""
    got = events(piece.raw[: piece.size], what.quick, len(what.names))
    if got is None:
        return None
    rows = np.flatnonzero(got.odd)
    found = Heads(got.head, got.end, got.metadata, got.head, rows, got.after, stopped=False)
    columns = _Columns(len(got.head), what)
    for code in np.flatnonzero(got.seen).tolist():
        columns.found[what.names[code]] = Column(got.field[code], got.bits[code])
    timed, sound = np.ones((2, len(got.head)), np.bool_)
    fields = _Fields(piece, got.metadata, got.start, got.length, timed, sound, columns.found)
    if len(rows):
        _decode_any(fields, found, rows, what, columns)
    return found, fields


def _bulk(piece: Bytes, marks: Marks, what: Wanted) -> tuple[Heads, _Fields]:
    """The same by numpy."""
    found = heads(piece, marks)
    return found, _decoded(piece, found, what)


def _placed(fields: _Fields, found: Heads, taken: Sequence[Stretched]) -> Slice:
    """The events with their lines and their places in the file."""
    if len(taken) == 1:
        return fields.at(np.full(len(found.head), taken[0].line), found.head + taken[0].start)
    lengths = np.array([one.end - one.start for one in taken], np.int64)
    begin = np.cumsum(lengths) - lengths
    shift = np.array([one.start for one in taken], np.int64) - begin
    line = np.array([one.line for one in taken], np.int64)
    which = np.searchsorted(begin, found.head, side="right") - 1
    return fields.at(line[which], found.head + shift[which])


_NO_STOP = uint64(0x80 << 56)
_TWO_BYTES = uint64(0x80 << 24)
_STAT_HEAD, _STAT_MASK = uint64(EVENT_STAT << 3 | BYTES | STAT_ID << 19), uint64(0xFF80FF)


def _decoded(piece: Bytes, found: Heads, what: Wanted) -> _Fields:
    """The fields of all events."""
    words, at = piece.words, found.at
    start, size = first_varint(words[at])
    odd = size > 8
    at = at + size
    word = words[at]
    lasts = (word & uint64(0xFF)) == uint64(DURATION_PS << 3)
    word >>= uint64(8)
    word |= _NO_STOP
    length, size = first_varint(word)
    if lasts.all():
        at += size + 1
    else:
        at += np.where(lasts, size + 1, 0)
        length = np.where(lasts, length, uint64(0))
    odd |= lasts & (size > 8)
    columns = _Columns(len(at), what)
    odd |= _walk(piece, at, found.end, what, columns)
    odd[found.odd] = True
    timed, sound = np.ones(len(at), bool), np.ones(len(at), bool)
    fields = _Fields(piece, found.metadata, start.view(np.int64), length.view(np.int64), timed, sound, columns.found)
    rows = np.flatnonzero(odd)
    if len(rows):
        _decode_any(fields, found, rows, what, columns)
    return fields


class _Columns:
    """The columns of stats of a slice, made when the first event has one."""

    def __init__(self, count: int, what: Wanted) -> None:
        self.found: dict[str, Column] = {}
        self._count = count
        self._names = what.names

    def put(self, code: int, rows: Rows, field: Rows | int, bits: Words) -> None:
        """The values of some events; of several of one event the last counts."""
        name = self._names[code]
        if name not in self.found:
            self.found[name] = Column.empty(self._count)
        column = self.found[name]
        if len(rows) == self._count and (rows[1:] > rows[:-1]).all():  # an event may have one stat several times
            column.field[:], column.bits[:] = field, bits
        else:
            column.field[rows], column.bits[rows] = field, bits

    def clear(self, rows: Rows) -> None:
        """Take away what some events have."""
        for column in self.found.values():
            column.field[rows] = 0


def _walk(piece: Bytes, at: Rows, end: Rows, what: Wanted, columns: _Columns) -> Flags:
    """The first stats of all events, then the second ones, and so on; which events hold anything else."""
    odd = at > end
    row = np.flatnonzero(at < end)
    at, end = at[row], end[row]
    while len(row):
        word = piece.words[at]
        value_at = at + 4
        after = at + ((word >> uint64(8)) & uint64(0x7F)).view(np.int64)
        after += 2
        sound = (word & _STAT_MASK) == _STAT_HEAD
        sound &= after <= end
        id_ = (word >> uint64(24)) & uint64(0x7F)
        two = word & _TWO_BYTES
        if two.any():
            two >>= uint64(31)
            id_ |= two * ((word >> uint64(25)) & uint64(0x3F80))
            value_at += two.view(np.int64)
            sound &= (two & (word >> uint64(39))) == 0
        code = what.quick[id_.view(np.int64)]
        asked = (code >= 0) & sound
        if asked.all():
            sound = _values(piece, row, value_at, after, code, columns)
        elif asked.any():
            hit = np.flatnonzero(asked)
            sound[hit] = _values(piece, row[hit], value_at[hit], after[hit], code[hit], columns)
        if not sound.all():
            odd[row[~sound]] = True
        live = sound & (after < end)
        row, at, end = (row, after, end) if live.all() else (row[live], after[live], end[live])
    return odd


def _values(piece: Bytes, row: Rows, at: Rows, after: Rows, code: npt.NDArray[np.int8], columns: _Columns) -> Flags:
    """Decode the values of wanted stats; which of them are as expected and end where their stat does."""
    word = piece.words[at]
    tag = word & uint64(0xFF)
    word >>= uint64(8)
    word |= _NO_STOP
    bits, size = first_varint(word)
    long = np.flatnonzero(size > 8)
    if len(long):
        bits[long], size[long] = varints(piece.words, at[long] + 1)
    end = at + 1
    end += size
    sound: Flags = end == after
    if len(long):
        sound &= size > 0
    field: Rows | int = int(tag[0]) >> 3
    if int(tag[0]) not in _WHOLE_TAGS or not (tag == tag[0]).all():
        field, wire = (tag >> uint64(3)).view(np.int64), (tag & uint64(7)).view(np.int64)
        sized = (wire == BYTES) & ((field == TEXT) | (field == BLOB))
        double = (wire == FIXED64) & (field == DOUBLE)
        length = np.where(sized, np.minimum(bits, uint64(1 << 31)), uint64(0))
        bits = np.where(sized, end.view(uint64) << uint64(32) | length, bits)
        bits = np.where(double, piece.words[at + 1], bits)
        ends = np.where(double, at + 9, end + length.view(np.int64))
        whole = (wire == VARINT) & ((field == UNSIGNED) | (field == SIGNED) | (field == REF))
        sound = ((size > 0) | double) & (ends == after) & (sized | double | whole)
    if not sound.all():
        row, bits, code = row[sound], bits[sound], code[sound]
        field = field if isinstance(field, int) else field[sound]
    if len(row) and code.min() == code.max():
        columns.put(int(code[0]), row, field, bits)
        return sound
    for each in np.flatnonzero(np.bincount(code)).tolist():
        mine = code == each
        columns.put(each, row[mine], field if isinstance(field, int) else field[mine], bits[mine])
    return sound


_WHOLE_TAGS = (UNSIGNED << 3 | VARINT, SIGNED << 3 | VARINT, REF << 3 | VARINT)


def _decode_any(fields: _Fields, found: Heads, rows: Rows, what: Wanted, columns: _Columns) -> None:
    """Decode these events whatever order and spelling they have."""
    piece = fields.piece
    _, size = varints(piece.words, found.head[rows] + 1)
    whole = {number: np.zeros(len(rows), np.int64) for number in (METADATA_ID, OFFSET_PS, DURATION_PS)}
    timed, sound, carried = np.ones(len(rows), bool), np.ones(len(rows), bool), []
    for now in rounds(piece.words, found.head[rows] + 1 + size, found.end[rows]):
        for number, column in whole.items():
            here = now.where(number, VARINT)
            column[now.message[here]] = now.value[here].view(np.int64)
        timed[now.message[now.where(OCCURRENCES, VARINT)]] = False
        timed[now.message[now.where(OFFSET_PS, VARINT)]] = True
        sound[now.message[now.number == 0]] = False
        held = now.where(EVENT_STAT, BYTES)
        low = now.at[held]
        carried.append(stats(piece, now.message[held], low, low + now.value[held].view(np.int64)))
    fields.metadata[rows], fields.start[rows], fields.length[rows] = whole.values()
    fields.timed[rows], fields.sound[rows] = timed, sound
    columns.clear(rows)
    table: Stats = joined(carried)
    code = what.of(table.id)
    for each in np.unique(code[code >= 0]).tolist():
        mine = table.take(code == each)
        sized = (mine.field == TEXT) | (mine.field == BLOB)
        places = mine.at.view(uint64) << uint64(32) | np.minimum(mine.value, uint64((1 << 32) - 1))
        columns.put(each, rows[mine.owner], mine.field, np.where(sized, places, mine.value))
