"""A window that slides over the inflated bytes of a file, and the places in it where a list of events can be cut.

Owns the buffer and what a good cut is. Knows nothing of slices, and reads no event but to see whether it is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import Stream
from tracehound.formats.json.mend import is_event
from tracehound.formats.signs import BOM

LONGEST_EVENT: Final = 256 << 20
"""An event, or what is before the array, that is longer than this many bytes is taken for damage."""

_NAMED = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE = re.compile(rb"(?:%b)?\s*\[" % BOM)
_OBJECT = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:')
_LIST_FOR_PHASE = re.compile(rb'\{\s*"ph"\s*:\s*[\[{]')
_CUT = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:')
_PHASE = re.compile(rb'\{\s*"ph"\s*:')
_HOLDS = re.compile(rb"\s*" + _OBJECT.pattern)
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OPEN, _CLOSE = b"[]"
_DEEP: Final = 2
"""So many brackets around the array are more than those of the document."""

T = TypeVar("T")


class Sizes(NamedTuple):
    """How a file is cut, in inflated bytes.

    A `segment` is what one process decodes before the next begins, a `slice` what is decoded at once: objects that fit
    the processor's cache decode several times faster than a whole file, but each slice costs a millisecond of its own.
    `glance` is how much of an event is looked at to see that it is one.
    """

    slice: int = 1 << 21
    segment: int = 32 << 20
    glance: int = 4 << 10


SIZES: Final = Sizes()


class Cut(NamedTuple):
    """A boundary between two events: the end of one, and the `{` of the next."""

    end: int
    start: int

    def moved(self, by: int) -> Cut:
        """The same, counted from another place."""
        return Cut(self.end + by, self.start + by)


class Array(NamedTuple):
    """Where the array of events begins: what is before it ends at `before`, its bracket (or what is there) is at `at`.

    `told` is false where nothing but an event told that it is one.
    """

    before: int
    at: int
    told: bool = True


class Window:
    """The bytes `buffer[:seen]`, which lie at `base` in the inflated file. The first one is in place of a bracket.

    How much is seen depends on where the window stands and how often it was told to `grow`, never on what it was used
    for before: whoever reads from one place on sees the same.
    """

    def __init__(self, stream: Stream, sizes: Sizes) -> None:
        self.stream = stream
        self.base = 0
        self.buffer = bytearray()
        self._sizes = sizes
        self._usual = sizes.slice + sizes.slice // 8 + 2 * sizes.glance
        self._width = 0  # how much of the buffer may be seen
        self._have = 0  # how much of it is filled
        self._dry = False  # the stream has nothing more
        self._separator = b""  # what is written between two events here
        self.narrow()

    @property
    def seen(self) -> int:
        """How many bytes can be seen."""
        return min(self._have, self._width)

    @property
    def last(self) -> bool:
        """Whether nothing follows what is seen."""
        return self._dry and self._have <= self._width

    def narrow(self) -> None:
        """Forget how far it had to grow, and what it saw."""
        self._width = self._usual
        self._separator = b""
        if len(self.buffer) < self._width:
            self.buffer.extend(bytes(self._width - len(self.buffer)))

    def fill(self) -> None:
        """Read until the window is full or the file ends."""
        with memoryview(self.buffer) as view:
            while self._have < self._width and not self._dry:
                count = self.stream.readinto(view[self._have :])
                self._have += count
                self._dry = count == 0

    def grow(self) -> None:
        """See twice as much. Raises TracehoundError at `LONGEST_EVENT`."""
        if self.widest:
            raise TracehoundError("one event is too long to be true", self.stream.path, f"byte {self.base:,}")
        self._width *= 2
        self.buffer.extend(bytes(max(0, self._width - len(self.buffer))))
        self.fill()

    @property
    def widest(self) -> bool:
        """Whether it may not grow."""
        return self._width >= LONGEST_EVENT

    def drop(self, count: int) -> None:
        """Move on by `count` of the bytes that are seen."""
        with memoryview(self.buffer) as view:
            view[: self._have - count] = view[count : self._have]
        self.base += count
        self._have -= count

    def seek(self, place: int) -> None:
        """Move on to a place in the inflated file that is not before the window."""
        ahead = place - self.base
        if ahead <= self._have:
            self.drop(ahead)
            return
        self.stream.skip(ahead - self._have)
        self.base, self._have = place, 0

    def array(self) -> Array | None:
        """The array of events, where it is seen: named so, or the whole document.

        Where neither is and nothing more can be seen, it begins before the first event.
        """
        bare, named = _BARE.match(self.buffer, 0, self.seen), self._named()
        first = _OBJECT.search(self.buffer, bare.end(), self.seen) if bare else None
        if bare and (named is None or (first is not None and first.start() < named.start())):
            return Array(0, bare.end() - 1)
        if named:
            return Array(named.start(), named.end() - 1)
        if not (self.last or self.widest):
            return None
        for match in _OBJECT.finditer(self.buffer, 1, self.seen):
            if self._is_event(match.start()) and not _LIST_FOR_PHASE.match(self.buffer, match.start(), self.seen):
                return Array(match.start(), match.start() - 1, told=False)
        return None

    def _named(self) -> re.Match[bytes] | None:
        """The array that is named so: the first that holds events, or is not deep in something else.

        Where no such one is, and nothing more can be seen, the first of all.
        """
        first, known, depth = None, 0, 0
        for match in _NAMED.finditer(self.buffer, 0, self.seen):
            first = first or match
            outside = _TEXT.sub(b"", self.buffer[known : match.start()])
            known, depth = match.start(), depth + sum(map(outside.count, b"{[")) - sum(map(outside.count, b"}]"))
            if depth < _DEEP or _HOLDS.match(self.buffer, match.end(), self.seen):
                return match
        return first if self.last or self.widest else None

    def first_cut(self, low: int) -> Cut | None:
        """The first good cut from `low` on of which enough is seen to tell."""
        for match in _CUT.finditer(self.buffer, low, self.seen):
            cut = _cut(match)
            if not self.last and cut.start + self._sizes.glance > self.seen:
                return None
            if self._good(cut):
                return cut
        return None

    def next_cut(self) -> Cut | None:
        """Move on to the next good cut, however far; None where there is none before the end of the file."""
        while True:
            self.fill()
            if cut := self.first_cut(0):
                return cut
            if self.last:
                return None
            self.drop(self.seen - 2 * self._sizes.glance)

    def last_cut(self, high: int) -> Cut | None:
        """The last good cut before `high`."""
        high, glance = min(high, self.seen), self._sizes.glance
        if self._separator:
            at = self.buffer.rfind(self._separator, max(0, high - glance), high)
            cut = Cut(at + 1, at + self._separator.index(b"{"))
            if at >= 0 and self._good(cut):
                return cut
        for low in (max(0, high - 16 * glance), 0):
            for match in reversed(list(_CUT.finditer(self.buffer, low, high))):
                if self._good(cut := _cut(match)):
                    self._separator = match[0].split(b":")[0]
                    return cut
        return None

    def decoded(self, end: int, decode: Callable[[memoryview], T]) -> T | None:
        """The events before `end`, all at once; None where the decoder refuses.

        A cut inside an event leaves a bracket open, and one behind the array's end a bracket too many: both refused.
        """
        buffer = self.buffer
        before, behind = buffer[0], buffer[end]
        buffer[0], buffer[end] = _OPEN, _CLOSE
        try:
            with memoryview(buffer) as view, view[: end + 1] as data:
                return decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        finally:
            buffer[0], buffer[end] = before, behind

    def no_text(self, end: int) -> int | None:
        """Where the first byte before `end` lies that is no UTF-8: a decoder looks only at what is asked for."""
        with memoryview(self.buffer) as view, view[:end] as data:
            if np.frombuffer(data, np.uint8).max(initial=0) < 128:  # told in a tenth of the time
                return None
            try:
                str(data, "utf-8")
            except UnicodeDecodeError as error:
                return error.start
        return None

    def _good(self, cut: Cut) -> bool:
        """Whether an event follows: a list of objects among an event's args looks the same, but has no phases."""
        return self._is_event(cut.start)

    def _is_event(self, at: int) -> bool:
        """Whether what begins here looks like an event."""
        if _PHASE.match(self.buffer, at, self.seen):
            return True
        glance = bytes(self.buffer[at : min(self.seen, at + self._sizes.glance)])
        return b'"ph"' in glance and is_event(glance.decode("utf-8", "replace"), 0)


def _cut(match: re.Match[bytes]) -> Cut:
    return Cut(match.start() + 1, match.start() + match[0].index(b"{"))
