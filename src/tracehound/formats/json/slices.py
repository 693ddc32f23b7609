"""A file's array of trace events, by segments and slices, in constant memory, in any number of processes.

Owns finding the array, the order in which segments and slices are decoded, and the rest of the document before and
behind the array. Knows no event's meaning.

A segment belongs to the first good cut at or after its first byte and ends at that of the next segment. Whoever decodes
it finds both from the bytes alone, so segments are decoded in any order, by several processes, and fit together. A cut
may be false (an event's args may hold what looks like events): then two segments do not meet, and `json.document` says
so. Within a segment all depends on the bytes from its start on, not on what was decoded before it.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.formats.format import Portion, Progress
from tracehound.formats.inflate import Stream, opened
from tracehound.formats.json.mend import Mends, Walked, oddities, parsed, walk
from tracehound.formats.json.text import NO_UTF8
from tracehound.formats.json.window import Cut, Sizes, Window
from tracehound.formats.severed import NO_END
from tracehound.formats.signs import BOM
from tracehound.notes import Note

LONGEST_TAIL: Final = 16 << 20
"""Of what is behind the array, this many bytes are read."""

_AGAIN = re.compile(rb'(?:\A|\})[\s,]*(?=(?:\{|\[\s*\{)\s*"(?:[^"\\]|\\.)*"\s*:)')
"""What ends a document before another one. Within one no brace or bracket opens behind a brace."""
_BRACKET = ord("[")

_RAWS = msgspec.json.Decoder(list[msgspec.Raw])

E = TypeVar("E")
T = TypeVar("T")
Some = TypeVar("Some", bound=Sized)
Some_co = TypeVar("Some_co", bound=Sized, covariant=True)
Some_contra = TypeVar("Some_contra", bound=Sized, contravariant=True)


class Shape(Struct, Generic[Some, E], frozen=True):
    """How the events of a format are decoded: a whole list of them at once, or one that had to be read leniently.

    `fast` raises `msgspec.MsgspecError` for what it does not expect and keeps nothing of the bytes; `lenient` takes any
    object, and its text as it is in the file. Those that were read leniently come as a list.
    """

    fast: Callable[[memoryview], Some]
    lenient: Callable[[Mapping[str, Any], bytes], E]


class _Start(msgspec.Struct, gc=False):
    ts: msgspec.Raw = msgspec.Raw(b"null")


class _Length(msgspec.Struct, gc=False):
    dur: msgspec.Raw = msgspec.Raw(b"0")


_STARTS = msgspec.json.Decoder(list[_Start])
_LENGTHS = msgspec.json.Decoder(list[_Length])


class Slice(Struct, Generic[Some_co], frozen=True):
    """Some successive elements of the array.

    `starts()` and `lengths()` give their times as the file spells them (0 where it does not tell), `raws()` each as
    JSON, `holds()` whether the JSON of any has this text; all until the next slice is asked for.
    """

    events: Some_co
    starts: Callable[[], list[Any]]
    lengths: Callable[[], list[Any]]
    raws: Callable[[], list[msgspec.Raw]]
    holds: Callable[[bytes], bool]


class Adds(Protocol[Some_contra]):
    """What takes the slices of a segment, one by one."""

    def add(self, piece: Slice[Some_contra], /) -> None:
        """Take the next slice."""


C = TypeVar("C", bound=Adds[Any])


class Extent(Struct):
    """One segment, as far as it was read; offsets count in the inflated file.

    `begin` is where its first element starts, `end` where that of the next segment does, `final` whether there is no
    next one. `places` has a row for each slice, and in damaged ones for each element: offset, length, ordinal of the
    first element in the segment, number of elements. `metadata` is what is before and behind the array, where that is
    in reach of this segment.
    """

    number: int
    begin: int
    end: int = 0
    final: bool = False
    elements: int = 0
    places: list[tuple[int, int, int, int]] = field(default_factory=list)
    mends: Mends = field(default_factory=Mends)
    metadata: dict[str, Any] = field(default_factory=dict)
    damage: tuple[Note, ...] = ()


def segments(
    path: Path, portion: Portion, shape: Shape[Any, Any], fresh: Callable[[], C], progress: Progress, sizes: Sizes
) -> Iterator[tuple[Extent, C]]:
    """The segments of one portion of a file, and for each of them what `fresh` made, filled with its slices.

    `progress` is told of this portion's share of the bytes, so that those of all portions add up. Raises
    TracehoundError when the file cannot be read or, in the first portion, holds no array of events.
    """
    with opened(path) as stream, _without_collection():
        reader = _Reader(stream, shape, sizes)
        extent, elements = reader.start(portion.number), 0
        while extent is not None:
            filled = fresh()
            for piece in reader.slices(extent):
                filled.add(piece)
                elements += len(piece.events)
                progress(stream.position // portion.of, elements)
            damage = (stream.damage.note(),) if stream.damage else ()
            yield replace(extent, damage=damage), filled
            extent = None if extent.final else reader.segment(extent.number + portion.of)


class _Reader(Generic[Some, E]):
    """Reads segments one after the other, each with `segment` and then `slices`."""

    def __init__(self, stream: Stream, shape: Shape[Some, E], sizes: Sizes) -> None:
        self._stream = stream
        self._shape = shape
        self._sizes = sizes
        self._window = Window(stream, sizes)
        self._joint = Cut(0, 0)  # where the last segment ended

    def start(self, number: int) -> Extent | None:
        """The first segment to read; None where the file is too short to have it."""
        if number:
            return self.segment(number)
        extent = Extent(0, 0)
        self._find_array(extent)
        extent.begin = self._window.base + 1
        return extent

    def segment(self, number: int) -> Extent | None:
        """Move on to another segment; None where the file ends before it."""
        window, first = self._window, number * self._sizes.segment
        if self._joint.end <= first:
            window.narrow()
            window.seek(max(first, window.base))
            cut = window.next_cut()
            if cut is None:
                return None
            self._joint = cut.moved(window.base)
            window.drop(cut.start - 1)
        return Extent(number, self._joint.start)

    def slices(self, extent: Extent) -> Iterator[Slice[Some | list[E]]]:
        """The slices of a segment in order; `extent` is complete then."""
        window, stop = self._window, (extent.number + 1) * self._sizes.segment
        window.narrow()
        if self._joint.end > stop:
            extent.end = self._joint.start
            return
        while True:
            window.fill()
            cut, joint = self._cut(stop - window.base)
            events = window.decoded(cut.end, self._shape.fast) if cut else None
            if cut is not None and events is not None:
                if events:
                    if (odd := window.no_text(cut.end)) is not None:
                        extent.mends.tell("repaired", NO_UTF8, window.base + odd)
                    extent.places.append((window.base + 1, cut.end - 1, extent.elements, len(events)))
                    extent.elements += len(events)
                    yield self._slice(events, cut.end)
                self._joint = cut.moved(window.base)
                window.drop(cut.start - 1)
                if joint:
                    extent.end = self._joint.start
                    return
                continue
            walked = self._walked(self._until(cut, stop - window.base), extent)
            if walked.events:
                yield self._lenient(walked, extent)
            if walked.ended or not walked.events:
                self._finish(walked, extent)
                return
            window.drop(self._before_next(walked))

    def _cut(self, rest: int) -> tuple[Cut | None, bool]:
        """Where the next slice ends, and whether the segment, of which `rest` bytes are left, ends there."""
        if rest > self._sizes.slice:
            return self._window.last_cut(self._sizes.slice), False
        if joint := self._window.first_cut(max(rest, 0)):
            return joint, True
        return (self._window.last_cut(rest), False) if rest > 0 else (None, False)

    def _until(self, cut: Cut | None, rest: int) -> int:
        """Elements that start before this place of the window belong to the segment."""
        if cut:
            return cut.end
        if rest > self._sizes.slice:
            return self._sizes.slice
        return self._window.seen if self._window.last else self._window.seen - self._sizes.glance

    def _walked(self, until: int, extent: Extent) -> Walked:
        """The elements that start before `until`, one by one; `end` is a position in the window."""
        window = self._window
        while True:
            final = window.last or window.widest
            data = bytes(memoryview(window.buffer)[1 : window.seen])
            walked = walk(data, until - 1, window.base + 1, extent.mends.tell, final=final)
            if walked.events or walked.ended or final:
                return replace(walked, end=walked.end + 1)
            window.grow()

    def _before_next(self, walked: Walked) -> int:
        """Where to go on behind elements that were read one by one.

        From the last bracket of the last of them, where nothing but a comma follows, so that a cut there is seen; what
        else follows was told of and is not looked at again.
        """
        last = walked.spans[-1][1]
        between = bytes(memoryview(self._window.buffer)[last + 1 : walked.end])
        return last if between.strip() == b"," else walked.end - 1

    def _lenient(self, walked: Walked, extent: Extent) -> Slice[list[E]]:
        found = [
            (_timed(event), span) for event, span in zip(walked.events, walked.spans, strict=True) if event is not None
        ]
        with memoryview(self._window.buffer) as view:
            events = [self._shape.lenient(event, bytes(view[1 + low : 1 + high])) for event, (low, high) in found]
        for ordinal, (event, (start, stop)) in enumerate(found, extent.elements):
            at = self._window.base + 1 + start
            extent.places.append((at, stop - start, ordinal, 1))
            for oddity in oddities(event):
                extent.mends.tell("repaired", oddity, at)
        extent.elements += len(events)
        return Slice(
            events,
            lambda: [event.get("ts") for event, _ in found],
            lambda: [0 if event.get("dur") is None else event["dur"] for event, _ in found],
            lambda: [_encoded(event) for event, _ in found],
            lambda text: any(text in bytes(_encoded(event)) for event, _ in found),
        )

    def _slice(self, events: Some, end: int) -> Slice[Some]:
        def again(decoder: msgspec.json.Decoder[list[T]]) -> list[T]:
            return self._window.decoded(end, lambda data: decoder.decode(bytes(data))) or []

        return _slice(events, again, lambda text: text in self._window.buffer[:end])

    def _find_array(self, extent: Extent) -> None:
        """Move to the bracket that opens the array."""
        window = self._window
        window.fill()
        while (array := window.array()) is None:
            if window.last:
                raise self._without_events()
            window.grow()
        before = bytes(window.buffer[: array.before]).strip(BOM + b" \t\r\n,")
        if not array.told:
            extent.mends.tell("repaired", "events_not_named", array.at)
        elif before and not before.startswith(b"{"):
            extent.mends.tell("repaired", "first_byte_damaged", 0)
            before = b"{" + before[not before.startswith(b'"') :]
        _add_metadata(before + b"}", extent, 0)
        window.drop(array.at)

    def _without_events(self) -> TracehoundError:
        damage = self._stream.damage
        if damage is None:
            return TracehoundError("holds no trace events", self._stream.path)
        why = f"gzip {damage.what}, before any trace event"
        return TracehoundError(why, self._stream.path, f"byte {damage.at:,}", "copy it again, or record it anew")

    def _finish(self, walked: Walked, extent: Extent) -> None:
        """The end of the array, or of the file; what follows is read up to `LONGEST_TAIL`."""
        window = self._window
        extent.final = True
        if walked.ended:
            window.drop(walked.end)
        else:
            extent.mends.tell("repaired", NO_END, window.base + window.seen)
            window.drop(walked.end - 1)
        extent.end = window.base
        while not window.last and window.seen < LONGEST_TAIL:
            window.grow()
        known = 0 if walked.ended else 1  # the last byte of the events, where no bracket is behind them
        rest = self._before_others(bytes(memoryview(window.buffer)[known : window.seen]), window.base + known, extent)
        rest = rest.strip(b", \t\r\n")
        if rest.startswith(b'"'):
            _add_metadata(b"{" + rest, extent, window.base)
        elif rest not in (b"", b"}"):
            extent.mends.tell("dropped", "bytes_behind_events", window.base + known)

    def _before_others(self, rest: bytes, at: int, extent: Extent) -> bytes:
        """Of what is behind the array, at `at`, all that is of its document; the rest is told of.

        Files that were joined hold another document there, and what a disk did not write are zeros.
        """
        again = _AGAIN.search(rest)
        if again and (b'"traceEvents"' in rest[again.end() :] or rest[again.end()] == _BRACKET):
            size, whole = len(rest) - again.end(), self._window.last
            extent.mends.tell("dropped", "another_recording_behind", at + again.end(), bytes=size, exact=whole)
            return rest[: again.end()]
        sound = rest.rstrip(b"\0 \t\r\n")
        if b"\0" in rest[len(sound) :]:
            extent.mends.tell("repaired", "zeros_at_end", at + len(sound))
        return sound


class _Again(Protocol):
    def __call__(self, decoder: msgspec.json.Decoder[list[T]], /) -> list[T]:
        """The elements of a slice, decoded once more."""


def _slice(events: Some, again: _Again, holds: Callable[[bytes], bool]) -> Slice[Some]:
    return Slice(
        events,
        cache(lambda: [each.ts for each in again(_STARTS)]),
        lambda: [each.dur for each in again(_LENGTHS)],
        cache(lambda: again(_RAWS)),
        holds,
    )


def of_text(events: Some, text: bytes) -> Slice[Some]:
    """The slice of elements that were decoded from this list of JSON."""
    return _slice(events, lambda decoder: decoder.decode(text), lambda part: part in text)


def _add_metadata(data: bytes, extent: Extent, at: int) -> None:
    if len(data) <= 2:
        return
    try:
        found = parsed(data)
    except (ValueError, RecursionError):
        extent.mends.tell("dropped", "metadata_not_json", at)
        return
    for kind in found.kinds:
        extent.mends.tell("repaired", "metadata_repaired", at, kind=kind)
    again = found.value.pop("traceEvents", ())
    for _ in again if isinstance(again, list) else ():
        extent.mends.tell("dropped", "event_in_second_array", at)
    extent.metadata.update(found.value)  # an object, since the bytes begin with its bracket


def _timed(event: dict[str, Any]) -> dict[str, Any]:
    """The event without times that are true or false, which Python takes for 1 and 0."""
    none = {key: None for key in ("ts", "dur") if isinstance(event.get(key), bool)}
    return {**event, **none} if none else event


def _encoded(event: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(event))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Without the cycle collector, which would walk through the events of every slice: they are trees."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
