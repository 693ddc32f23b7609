"""A file's array of trace events, slice by slice, in constant memory.

Owns finding the array, cutting it between two events, decoding a slice with a typed decoder, the rest of the document
before and behind the array, and finding an event again. Knows no event's meaning.

A slice is about `SLICE` bytes: objects that fit the processor's cache decode several times faster than a whole file.
What a slice needs in order to be decoded is in its bytes alone, so slices may as well be decoded elsewhere.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from tracehound.errors import TracehoundError
from tracehound.formats.format import Progress
from tracehound.formats.inflate import Stream, opened, section
from tracehound.formats.json_mend import Mends, Walked, is_event, parsed, walk
from tracehound.intervals import Ints
from tracehound.trace import Note

SLICE: Final = 512 << 10
"""Bytes of a slice."""

LONGEST_EVENT: Final = 256 << 20
"""An event, or what is before the array, that is longer than this many bytes is taken for damage."""

_START = re.compile(rb'"traceEvents"\s*:\s*\[|\A(?:\xef\xbb\xbf)?\s*\[')
_CUT = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:')
_GLANCE = 4096
_SLACK = 64
_OPEN, _CLOSE = b"[]"

E = TypeVar("E")


@dataclass(frozen=True)
class Shape(Generic[E]):
    """How the events of a format are decoded: a whole list of them at once, or one that had to be read leniently.

    `exact` decodes like `fast` and keeps times as `Decimal`. Both raise `msgspec.MsgspecError` for what they do not
    expect; `lenient` takes any object.
    """

    fast: Callable[[bytes], list[E]]
    exact: Callable[[bytes], list[E]]
    lenient: Callable[[Mapping[str, Any]], E]


@dataclass(frozen=True)
class Slice(Generic[E]):
    """Some successive elements of the array; `first` is the ordinal of the first one.

    `exactly()` gives them again with times as `Decimal`; it may be called until the next slice is asked for.
    """

    first: int
    events: list[E]
    exactly: Callable[[], list[E]]


@dataclass
class Document:
    """The file around and inside the array, as far as it was read.

    `places` has a row for each slice, and in damaged ones for each element: offset in the inflated file, length,
    ordinal of the first element, number of elements.
    """

    path: Path
    mends: Mends = field(default_factory=Mends)
    metadata: dict[str, Any] = field(default_factory=dict)
    places: list[tuple[int, int, int, int]] = field(default_factory=list)
    elements: int = 0
    damage: tuple[Note, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was wrong with the file: its bytes first, then its JSON."""
        return (*self.damage, *self.mends.notes())

    @property
    def places_array(self) -> Ints:
        """`places` as an array of shape (slices, 4)."""
        return np.array(self.places, np.int64).reshape(-1, 4)


class _Cut(NamedTuple):
    """A boundary between two events: the end of one, and the `{` of the next."""

    end: int
    start: int


class Reader(Generic[E]):
    """Cuts one stream into slices. Iterate `slices` once; `document` is complete then."""

    def __init__(self, stream: Stream, shape: Shape[E], size: int = SLICE) -> None:
        self.document = Document(stream.path)
        self._stream = stream
        self._shape = shape
        self._size = size
        self._buffer = bytearray(
            size + size // 8 + _SLACK
        )  # its first byte is the array's bracket, or one in its place
        self._have = 0  # bytes in the buffer
        self._base = 0  # where the buffer lies in the inflated file
        self._done = False  # the stream has nothing more
        self._separator = b""  # what this file writes between two events

    def slices(self) -> Iterator[Slice[E]]:
        """The slices in order. Raises TracehoundError for a document without an array of events."""
        self._find_array()
        ended = False
        while not ended:
            self._fill()
            cut = self._cut()
            if cut is not None and (events := self._decoded(cut.end, self._shape.fast)) is not None:
                self.document.places.append((self._base + 1, cut.end - 1, self.document.elements, len(events)))
                yield self._slice(events, partial(self._decoded_exactly, cut.end))
                self._drop(cut.start - 1)
                continue
            walked = self._walked(cut.end if cut else self._size)
            ended = walked.ended
            if not walked.events and not ended:
                break
            if walked.events:
                lenient = [self._shape.lenient(event) for event in walked.events]
                for ordinal, (start, stop) in enumerate(walked.spans, self.document.elements):
                    self.document.places.append((self._base + 1 + start, stop - start, ordinal, 1))
                yield self._slice(lenient, partial(list, lenient))
            self._drop(walked.end if ended else walked.end - 1)
        if not ended:
            self.document.mends.tell("repaired", "the array of events has no end", self._base + self._have)
        self._read_tail()

    def _fill(self) -> None:
        """Read until the buffer is full or the file ends."""
        view = memoryview(self._buffer)
        while self._have < len(self._buffer) and not self._done:
            count = self._stream.readinto(view[self._have :])
            self._have += count
            self._done = count == 0
        view.release()

    def _grow(self) -> None:
        if len(self._buffer) >= LONGEST_EVENT:
            raise TracehoundError("one event is too long to be true", self._stream.path, f"byte {self._base:,}")
        self._buffer.extend(bytes(len(self._buffer)))

    def _drop(self, count: int) -> None:
        """Forget the first `count` bytes of the buffer."""
        with memoryview(self._buffer) as view:
            view[: self._have - count] = view[count : self._have]
        self._base += count
        self._have -= count

    def _find_array(self) -> None:
        """Move to the bracket that opens the array."""
        self._fill()
        while (match := _START.search(self._buffer, 0, self._have)) is None:
            if self._done:
                raise TracehoundError("holds no trace events", self._stream.path)
            self._grow()
            self._fill()
        before = bytes(self._buffer[: match.start()])
        self._add_metadata(before.strip(b"\xef\xbb\xbf \t\r\n,") + b"}")
        self._drop(match.end() - 1)

    def _cut(self) -> _Cut | None:
        """The last boundary within a slice's size: the end of an event, and the `{` of the next."""
        high = min(self._have, self._size)
        if self._separator:
            at = self._buffer.rfind(self._separator, max(0, high - _GLANCE), high)
            cut = _Cut(at + 1, at + self._separator.index(b"{"))
            if at >= 0 and self._good(cut.start):
                return cut
        for low in (max(0, high - 16 * _GLANCE), 0):
            for match in reversed(list(_CUT.finditer(self._buffer, low, high))):
                cut = _Cut(match.start() + 1, match.start() + match[0].index(b"{"))
                if self._good(cut.start):
                    self._separator = match[0].split(b":")[0]
                    return cut
        return None

    def _good(self, start: int) -> bool:
        text = bytes(self._buffer[start : min(self._have, start + _GLANCE)]).decode("utf-8", "replace")
        return is_event(text, 0)

    def _decoded(self, end: int, decode: Callable[[bytes], list[E]]) -> list[E] | None:
        """The events before `end`, all at once; None where the decoder refuses.

        A cut inside an event leaves a bracket open, and one behind the array's end a bracket too many: both refused.
        The decoder gets bytes of its own, since what it leaves undecoded refers to them.
        """
        buffer = self._buffer
        buffer[0], behind, buffer[end] = _OPEN, buffer[end], _CLOSE
        data = bytes(memoryview(buffer)[: end + 1])
        buffer[end] = behind
        try:
            return decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def _decoded_exactly(self, end: int) -> list[E]:
        events = self._decoded(end, self._shape.exact)
        return self._walked_again(end) if events is None else events

    def _walked_again(self, end: int) -> list[E]:
        walked = walk(bytes(self._buffer[1:end]), end, 0, Mends().tell, final=True)
        return [self._shape.lenient(event) for event in walked.events]

    def _walked(self, until: int) -> Walked:
        """The elements that start before `until`, one by one; `end` is a position in the buffer."""
        while True:
            final = self._done or len(self._buffer) >= LONGEST_EVENT
            data = bytes(self._buffer[1 : self._have])
            walked = walk(data, until - 1, self._base + 1, self.document.mends.tell, final=final)
            if walked.events or walked.ended or final:
                return replace(walked, end=walked.end + 1)
            self._grow()
            self._fill()

    def _slice(self, events: list[E], exactly: Callable[[], list[E]]) -> Slice[E]:
        self.document.elements += len(events)
        return Slice(self.document.elements - len(events), events, exactly)

    def _read_tail(self) -> None:
        """What follows the array, up to `LONGEST_EVENT`."""
        parts = [bytes(self._buffer[: self._have])]
        size, spare = self._have, bytearray(1 << 20)
        while not self._done and size < LONGEST_EVENT and (count := self._stream.readinto(memoryview(spare))):
            parts.append(bytes(spare[:count]))
            size += count
        rest = b"".join(parts).strip(b", \t\r\n")
        if rest.startswith(b'"'):
            self._add_metadata(b"{" + rest)

    def _add_metadata(self, data: bytes) -> None:
        if len(data) <= 2:
            return
        try:
            found = parsed(data)
        except (ValueError, RecursionError):
            self.document.mends.tell("dropped", "facts around the events that are no JSON", self._base)
            return
        if isinstance(found, dict):
            self.document.metadata.update(found)


def read_slices(
    path: Path, shape: Shape[E], add: Callable[[Slice[E]], None], progress: Progress, size: int = SLICE
) -> Document:
    """Give every slice of a file to `add`; what was around and inside the array."""
    with opened(path) as stream, without_collection():
        reader = Reader(stream, shape, size)
        for piece in reader.slices():
            add(piece)
            progress(stream.position, reader.document.elements)
        damage = (stream.damage.note(path),) if stream.damage else ()
    return replace(reader.document, damage=damage)


def event_at(path: Path, places: Ints, record: int) -> dict[str, Any]:
    """The element with the ordinal `record`, as it is in the file; empty where that could not be read.

    `places` is an array of `Document.places`.
    """
    row = int(np.searchsorted(places[:, 2], record, side="right")) - 1
    offset, length, first, count = (int(value) for value in places[row])
    if not 0 <= record - first < count:
        raise TracehoundError(f"has no event {record:,}", path)
    data = section(path, offset, length)
    try:
        if count > 1:  # an element that was read leniently has a place of its own
            data = bytes(_RAW(b"[" + data + b"]")[record - first])
        value = parsed(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_RAW = msgspec.json.Decoder(list[msgspec.Raw]).decode


@contextmanager
def without_collection() -> Iterator[None]:
    """Without the cycle collector, which would walk through the events of every slice: they are trees."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
