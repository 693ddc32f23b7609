"""The fields of one message of an HLO proto, gathered by number.

Owns how repeated and packed numbers, texts and nested messages are taken out of a message. Knows no message. A message
that makes no sense from some byte on is read up to there.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from tracehound.formats.wire import BYTES, FIXED32, FIXED64, VARINT, Bytes, Field, WireError, fields, signed, varint

DEEPEST = 32
"""Messages inside messages are followed so far: shapes of tuples of tuples end long before."""


class Message(Struct, frozen=True):
    """One message in some bytes; `whole` says that all of it made sense."""

    file: Bytes
    start: int
    end: int
    parts: dict[int, list[Field]] = field(default_factory=dict)
    whole: bool = True

    def __contains__(self, number: int) -> bool:
        return number in self.parts

    def number(self, number: int, default: int = 0) -> int:
        """The last varint with this field number, as a signed one."""
        found = [part.value for part in self.parts.get(number, ()) if part.wire == VARINT]
        return signed(found[-1]) if found else default

    def numbers(self, number: int) -> list[int]:
        """All varints with this field number, packed or not."""
        found: list[int] = []
        for part in self.parts.get(number, ()):
            if part.wire == VARINT:
                found.append(signed(part.value))
            elif part.wire == BYTES:
                found.extend(packed(self.file, part.at, part.at + part.value))
        return found

    def text(self, number: int) -> str:
        """The last text with this field number."""
        texts = self.texts(number)
        return texts[-1] if texts else ""

    def texts(self, number: int) -> list[str]:
        """All texts with this field number."""
        return [self.file.text(low, high) for low, high in self._spans(number)]

    def raw(self, number: int) -> bytes:
        """The bytes of the last field with this number."""
        spans = self._spans(number)
        return bytes(self.file.data[spans[-1][0] : spans[-1][1]]) if spans else b""

    def fixed(self, number: int) -> bytes:
        """The bytes of numbers of fixed size with this field number, packed or not."""
        found = []
        for part in self.parts.get(number, ()):
            if part.wire == BYTES:
                found.append(bytes(self.file.data[part.at : part.at + part.value]))
            elif part.wire in (FIXED32, FIXED64):
                found.append(part.value.to_bytes(4 if part.wire == FIXED32 else 8, "little"))
        return b"".join(found)

    def one(self, number: int) -> Message | None:
        """The last message with this field number."""
        spans = self._spans(number)
        return message(self.file, *spans[-1]) if spans else None

    def all(self, number: int) -> Iterator[Message]:
        """All messages with this field number."""
        return (message(self.file, *span) for span in self._spans(number))

    def pairs(self, number: int) -> dict[str, str]:
        """The entries of a map of texts."""
        return {entry.text(1): entry.text(2) for entry in self.all(number)}

    def _spans(self, number: int) -> list[tuple[int, int]]:
        return [(part.at, part.at + part.value) for part in self.parts.get(number, ()) if part.wire == BYTES]


def message(file: Bytes, start: int, end: int) -> Message:
    """The message in `[start, end)`, as far as it makes sense."""
    parts: dict[int, list[Field]] = {}
    try:
        for part in fields(file.data, start, end):
            parts.setdefault(part.number, []).append(part)
    except WireError:
        return Message(file, start, end, parts, whole=False)
    return Message(file, start, end, parts)


def packed(file: Bytes, at: int, end: int) -> list[int]:
    """The signed varints in `[at, end)`, up to the first that makes no sense."""
    values = []
    while at < end:
        try:
            value, at = varint(file.data, at, end)
        except WireError:
            break
        values.append(signed(value))
    return values
