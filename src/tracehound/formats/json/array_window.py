"""A window that slides over a file's inflated bytes, and the boundaries in it at which a list of events can be cut.

It decodes no event, except to see whether it is one.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from tracehound.errors import TracehoundError
from tracehound.formats.file_signatures import UTF8_BOM
from tracehound.formats.inflate import InflatedStream
from tracehound.formats.json.array_repair import is_event_object

LONGEST_EVENT: Final = 256 << 20
"""An event, or text before the array, that is longer than this many bytes is taken for damage."""

_NAMED = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE = re.compile(rb"(?:%b)?\s*\[" % UTF8_BOM)
_OBJECT = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:')
_LIST_FOR_PHASE = re.compile(rb'\{\s*"ph"\s*:\s*[\[{]')
_CUT = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:')
_PHASE = re.compile(rb'\{\s*"ph"\s*:')
_HOLDS = re.compile(rb"\s*" + _OBJECT.pattern)
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_PROCESS = re.compile(rb'"pid"\s*:\s*("(?:[^"\\]|\\.)*"|-?[\d.]+)')
_EVENT_PHASE = re.compile(rb'"ph"\s{0,8}:\s{0,8}"')
_LONGEST_PHASE: Final = 32
_OPEN, _CLOSE = b"[]"
_DEEP: Final = 2
"""At this nesting depth an array is no longer one of the document's own."""

T = TypeVar("T")


class ChunkSizes(NamedTuple):
    """Sizes, in inflated bytes, at which a file is cut.

    A `segment` is decoded by one process before the next begins, a `chunk` is decoded at once: objects that fit the
    processor's cache decode several times faster than a whole file, but each chunk costs a millisecond of its own.
    `preview` is how much of an event is read to see that it is one.
    """

    chunk: int = 1 << 21
    segment: int = 32 << 20
    preview: int = 4 << 10


DEFAULT_SIZES: Final = ChunkSizes()


class EventBoundary(NamedTuple):
    """A boundary between two events: the end of one, and the `{` of the next."""

    end: int
    start: int

    def moved(self, by: int) -> EventBoundary:
        """Return the boundary with its offsets shifted."""
        return EventBoundary(self.end + by, self.start + by)


class ArrayStart(NamedTuple):
    """The start of the array of events: the text before it ends at `before`, its bracket (or what is there) is at `at`.

    `is_named` is false where only an event shows that there is an array; `at` is -1 where the file begins with it, as
    one event a line does.
    """

    before: int
    at: int
    is_named: bool = True


_FIRST_READ: Final = 1 << 16
"""The bytes that are read first, at most."""


class SlidingWindow:
    """The bytes `buffer[:seen]`, at `base` in the inflated file. The first byte stands in place of a bracket.

    The number of bytes seen depends only on the window's position and on how often it was told to `grow`, not on
    earlier use: every reader from one position on sees the same.
    """

    def __init__(self, stream: InflatedStream, sizes: ChunkSizes) -> None:
        self.stream = stream
        self.base = 0
        self.buffer = bytearray()
        self._sizes = sizes
        self._usual = sizes.chunk + sizes.chunk // 8 + 2 * sizes.preview
        self._width = 0  # how much of the buffer may be seen
        self._have = 0  # how much of it is filled
        self._dry = False  # the stream has nothing more
        self._separator = b""  # what is written between two events here
        self.narrow()

    @property
    def visible_size(self) -> int:
        """The number of bytes that can be seen."""
        return min(self._have, self._width)

    @property
    def is_at_file_end(self) -> bool:
        """True if nothing follows the bytes that are seen."""
        return self._dry and self._have <= self._width

    def narrow(self) -> None:
        """Reset the width and the known separator."""
        self._width = self._usual
        self._separator = b""

    def fill(self) -> None:
        """Read until the window is full or the file ends; the buffer grows as it fills.

        A larger buffer replaces the old one: this cannot be resized while another thread, such as a sampling profiler,
        holds the frame of a call that was given a view of it.
        """
        while self._have < self._width and not self._dry:
            if self._have == len(self.buffer):
                larger = bytearray(self._have + min(max(self._have, _FIRST_READ), self._width - self._have))
                larger[: self._have] = self.buffer
                self.buffer = larger
            count = self.stream.readinto(memoryview(self.buffer)[self._have :])
            self._have += count
            self._dry = count == 0

    def grow(self) -> None:
        """Double the width. Raises TracehoundError at `LONGEST_EVENT`."""
        if self.widest:
            raise TracehoundError("one event is too long to be true", self.stream.path, f"byte {self.base:,}")
        self._width *= 2
        self.fill()

    @property
    def widest(self) -> bool:
        """True if the window may not grow."""
        return self._width >= LONGEST_EVENT

    def drop(self, count: int) -> None:
        """Advance by `count` of the bytes that are seen."""
        view = memoryview(self.buffer)
        view[: self._have - count] = view[count : self._have]
        self.base += count
        self._have -= count

    def insert_bracket_byte(self) -> None:
        """Step back before the first byte of a file that begins with an event, for the byte in place of a bracket."""
        self.buffer = bytearray(b"\n") + self.buffer
        self.base -= 1
        self._have += 1

    def seek(self, offset: int) -> None:
        """Advance to an offset in the inflated file that is not before the window."""
        ahead = offset - self.base
        if ahead <= self._have:
            self.drop(ahead)
            return
        self.stream.skip(ahead - self._have)
        self.base, self._have = offset, 0

    def find_array(self) -> ArrayStart | None:
        """Return the array of events, if it is seen: the named one, or the whole document.

        Where neither is and nothing more can be seen, it begins before the first event.
        """
        bare, named = _BARE.match(self.buffer, 0, self.visible_size), self._find_named_array()
        first = _OBJECT.search(self.buffer, bare.end(), self.visible_size) if bare else None
        if bare and (named is None or (first is not None and first.start() < named.start())):
            return ArrayStart(0, bare.end() - 1)
        if named:
            return ArrayStart(named.start(), named.end() - 1)
        if not (self.is_at_file_end or self.widest):
            return None
        for match in _OBJECT.finditer(self.buffer, 0, self.visible_size):
            if self._is_event(match.start()) and not _LIST_FOR_PHASE.match(
                self.buffer, match.start(), self.visible_size
            ):
                return ArrayStart(match.start(), match.start() - 1, is_named=False)
        return None

    def _find_named_array(self) -> re.Match[bytes] | None:
        """Return the array named "traceEvents": the first that holds events or is not deep in something else.

        Without such a one, if nothing more can be seen, the first of all.
        """
        first, known, depth = None, 0, 0
        for match in _NAMED.finditer(self.buffer, 0, self.visible_size):
            first = first or match
            outside = _TEXT.sub(b"", self.buffer[known : match.start()])
            known, depth = match.start(), depth + sum(map(outside.count, b"{[")) - sum(map(outside.count, b"}]"))
            if depth < _DEEP or _HOLDS.match(self.buffer, match.end(), self.visible_size):
                return match
        return first if self.is_at_file_end or self.widest else None

    def find_event(self, low: int) -> int | None:
        """Return the start of the first event from `low` on that is seen."""
        starts = (match.start() for match in _OBJECT.finditer(self.buffer, low, self.visible_size))
        return next((start for start in starts if self._is_event(start)), None)

    def processes(self, low: int, high: int) -> Counter[bytes]:
        """Return the processes of the events in these bytes, as they are written, with the number of their events."""
        return count_processes(self.buffer, low, min(high, self.visible_size))

    def copy_bytes(self, end: int) -> bytes:
        """Return a copy of the bytes before `end`."""
        return bytes(memoryview(self.buffer)[: min(end, self.visible_size)])

    def count_events(self) -> int:
        """Advance to the end of the file; return how many events begin on the way, by their phases."""
        events = 0
        self.narrow()
        while True:
            self.fill()
            last = 0
            for phase in _EVENT_PHASE.finditer(self.buffer, 0, self.visible_size):
                events, last = events + 1, phase.end()
            if self.is_at_file_end:
                return events
            self.drop(max(last, self.visible_size - _LONGEST_PHASE))

    def first_boundary(self, low: int) -> EventBoundary | None:
        """Return the first boundary from `low` on, if enough is seen to decide."""
        for match in _CUT.finditer(self.buffer, low, self.visible_size):
            cut = _boundary_of_match(match)
            if not self.is_at_file_end and cut.start + self._sizes.preview > self.visible_size:
                return None
            if self._is_boundary(cut):
                return cut
        return None

    def seek_boundary(self) -> EventBoundary | None:
        """Advance to the next boundary, however far; None where there is none before the end of the file."""
        while True:
            self.fill()
            if cut := self.first_boundary(0):
                return cut
            if self.is_at_file_end:
                return None
            self.drop(self.visible_size - 2 * self._sizes.preview)

    def last_boundary(self, high: int) -> EventBoundary | None:
        """Return the last boundary before `high`."""
        high, preview = min(high, self.visible_size), self._sizes.preview
        if self._separator:
            at = self.buffer.rfind(self._separator, max(0, high - preview), high)
            cut = EventBoundary(at + 1, at + self._separator.index(b"{"))
            if at >= 0 and self._is_boundary(cut):
                return cut
        for low in (max(0, high - 16 * preview), 0):
            for match in reversed(list(_CUT.finditer(self.buffer, low, high))):
                if self._is_boundary(cut := _boundary_of_match(match)):
                    self._separator = match[0].split(b":")[0]
                    return cut
        return None

    def decode_events(self, end: int, decode: Callable[[memoryview], T]) -> T | None:
        """Decode the events before `end` all at once; None where the decoder refuses.

        A cut inside an event leaves a bracket open, and one behind the array's end a bracket too many: both are
        refused.
        """
        buffer = self.buffer
        before, behind = buffer[0], buffer[end]
        buffer[0], buffer[end] = _OPEN, _CLOSE
        try:
            return decode(memoryview(buffer)[: end + 1])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        finally:
            buffer[0], buffer[end] = before, behind

    def find_invalid_utf8(self, end: int) -> int | None:
        """Return the first byte before `end` that is not UTF-8: a typed decoder checks only the decoded fields."""
        data = memoryview(self.buffer)[:end]
        if np.frombuffer(data, np.uint8).max(initial=0) < 128:  # takes a tenth of the time
            return None
        try:
            str(data, "utf-8")
        except UnicodeDecodeError as error:
            return error.start
        return None

    def _is_boundary(self, cut: EventBoundary) -> bool:
        """Return whether an event follows: a list of objects in an event's args looks the same, but has no phases."""
        return self._is_event(cut.start)

    def _is_event(self, at: int) -> bool:
        """Return whether what begins here looks like an event."""
        if _PHASE.match(self.buffer, at, self.visible_size):
            return True
        preview = bytes(self.buffer[at : min(self.visible_size, at + self._sizes.preview)])
        return b'"ph"' in preview and is_event_object(preview.decode("utf-8", "replace"), 0)


def count_processes(text: bytes | bytearray, low: int = 0, high: int = sys.maxsize) -> Counter[bytes]:
    """Return the processes of the events in the bytes `[low, high)`, as they are written, with their events' number."""
    return Counter(_PROCESS.findall(text, low, high))


def _boundary_of_match(match: re.Match[bytes]) -> EventBoundary:
    return EventBoundary(match.start() + 1, match.start() + match[0].index(b"{"))
