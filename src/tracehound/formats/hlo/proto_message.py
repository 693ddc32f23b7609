"""Protobuf messages of HLO: the fields of one message by number, and selected fields of many messages at once.

Knows no field's meaning: the caller names the number. A message that makes no sense from some byte on is read up to
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, field

from tracehound.formats.protobuf_wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Offsets,
    PaddedBytes,
    WireError,
    WireField,
    as_signed,
    iterate_fields,
    iterate_message_fields,
    read_varint,
)

MAX_NESTING = 32
"""Messages inside messages are followed to this depth. Real shapes of nested tuples are far shallower."""


class ProtoMessage(Struct, frozen=True):
    """One protobuf message in some bytes; `complete` says that all of it could be read."""

    file: PaddedBytes
    start: int
    end: int
    fields_by_number: dict[int, list[WireField]] = field(default_factory=dict)
    complete: bool = True

    def __contains__(self, number: int) -> bool:
        return number in self.fields_by_number

    def number(self, number: int, default: int = 0) -> int:
        """The last varint with this field number, as a signed number."""
        found = [part.value for part in self.fields_by_number.get(number, ()) if part.wire == VARINT]
        return as_signed(found[-1]) if found else default

    def numbers(self, number: int) -> list[int]:
        """All varints with this field number, packed or not."""
        found: list[int] = []
        for part in self.fields_by_number.get(number, ()):
            if part.wire == VARINT:
                found.append(as_signed(part.value))
            elif part.wire == BYTES:
                found.extend(read_packed_varints(self.file, part.at, part.at + part.value))
        return found

    def text(self, number: int) -> str:
        """The last text with this field number."""
        texts = self.texts(number)
        return texts[-1] if texts else ""

    def texts(self, number: int) -> list[str]:
        """All texts with this field number."""
        return [self.file.text(low, high) for low, high in self._byte_ranges(number)]

    def raw_bytes(self, number: int) -> bytes:
        """The bytes of the last field with this number."""
        spans = self._byte_ranges(number)
        return bytes(self.file.data[spans[-1][0] : spans[-1][1]]) if spans else b""

    def fixed_bytes(self, number: int) -> bytes:
        """The bytes of numbers of fixed size with this field number, packed or not."""
        found = []
        for part in self.fields_by_number.get(number, ()):
            if part.wire == BYTES:
                found.append(bytes(self.file.data[part.at : part.at + part.value]))
            elif part.wire in (FIXED32, FIXED64):
                found.append(part.value.to_bytes(4 if part.wire == FIXED32 else 8, "little"))
        return b"".join(found)

    def submessage(self, number: int) -> ProtoMessage | None:
        """The last message with this field number."""
        spans = self._byte_ranges(number)
        return read_message(self.file, *spans[-1]) if spans else None

    def submessages(self, number: int) -> Iterator[ProtoMessage]:
        """All messages with this field number."""
        return (read_message(self.file, *span) for span in self._byte_ranges(number))

    def text_map(self, number: int) -> dict[str, str]:
        """The entries of a map from text to text."""
        return {entry.text(1): entry.text(2) for entry in self.submessages(number)}

    def _byte_ranges(self, number: int) -> list[tuple[int, int]]:
        """Start and end of each field with a length and this number."""
        return [(part.at, part.at + part.value) for part in self.fields_by_number.get(number, ()) if part.wire == BYTES]


def read_message(file: PaddedBytes, start: int, end: int) -> ProtoMessage:
    """The message in `[start, end)`, as far as it can be read."""
    fields_by_number: dict[int, list[WireField]] = {}
    try:
        for part in iterate_fields(file.data, start, end):
            fields_by_number.setdefault(part.number, []).append(part)
    except WireError:
        return ProtoMessage(file, start, end, fields_by_number, complete=False)
    return ProtoMessage(file, start, end, fields_by_number)


def read_packed_varints(file: PaddedBytes, at: int, end: int) -> list[int]:
    """The signed varints in `[at, end)`, up to the first that cannot be read."""
    values = []
    while at < end:
        try:
            value, at = read_varint(file.data, at, end)
        except WireError:
            break
        values.append(as_signed(value))
    return values


class MessageTable:
    """The messages at `[start, end)` of some bytes, in this order, with selected fields of all of them.

    `ids` has the id of each, -1 without one; `sound` says that every message could be read completely.
    """

    def __init__(
        self, file: PaddedBytes, start: Offsets, end: Offsets, id_: int, sized: Sequence[int], listed: Sequence[int]
    ) -> None:
        """Read these field numbers: an id, fields with a length (texts, messages), and lists of ids."""
        self._file, self._start, self._end = file, start, end
        self.ids: Offsets = np.full(len(start), -1, np.int64)
        self.sound = True
        self._spans = {number: np.zeros((2, len(start)), np.int64) for number in sized}
        self._lists: dict[int, dict[int, list[int | tuple[int, int]]]] = {number: {} for number in listed}
        for now in iterate_message_fields(file, start, end):
            self.sound &= bool(now.number.all())
            ids = now.field_mask(id_, VARINT)
            self.ids[now.message[ids]] = now.value[ids].view(np.int64)
            for number, (low, high) in self._spans.items():
                here = now.field_mask(number, BYTES)
                low[now.message[here]] = now.at[here]
                high[now.message[here]] = now.at[here] + now.value[here].view(np.int64)
            for number, lists in self._lists.items():
                plain, dense = now.field_mask(number, VARINT), now.field_mask(number, BYTES)
                begin, value = now.at, now.value.view(np.int64)
                for row, one in zip(now.message[plain].tolist(), value[plain].tolist(), strict=True):
                    lists.setdefault(row, []).append(one)
                packs = zip(begin[dense].tolist(), (begin + value)[dense].tolist(), strict=True)
                for row, pack in zip(now.message[dense].tolist(), packs, strict=True):
                    lists.setdefault(row, []).append(pack)

    def message(self, row: int) -> ProtoMessage:
        """All fields of the message in this row."""
        return read_message(self._file, int(self._start[row]), int(self._end[row]))

    def field_range(self, number: int, row: int) -> tuple[int, int]:
        """Start and end of a field of one message, `(0, 0)` where it has none."""
        low, high = self._spans[number][:, row].tolist()
        return low, high

    def text(self, number: int, row: int) -> str:
        """A text of one message."""
        return self._file.text(*self.field_range(number, row))

    def texts(self, number: int) -> list[str]:
        """A text of every message."""
        low, high = self._spans[number].tolist()
        return [self._file.text(a, b) for a, b in zip(low, high, strict=True)]

    def id_list(self, number: int, row: int) -> list[int]:
        """The ids in a list of one message: single fields, or one field with many of them, packed."""
        found = list[int]()
        for part in self._lists[number].get(row, ()):
            found += read_packed_varints(self._file, *part) if isinstance(part, tuple) else (part,)
        return found
