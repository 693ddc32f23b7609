"""A file's array of trace events, by segments and chunks, in constant memory, in any number of processes.

The array is found, its segments and chunks are decoded, and the rest of the document before and behind the array is
parsed.

A segment starts at the first boundary at or after its first byte and ends at that of the next segment. Both are found
from the bytes alone, so segments are decoded in any order, by several processes, and fit together. A boundary may be
false (an event's args may hold what looks like events): then two segments do not meet, which `json_document` detects.
Within a segment everything depends on the bytes from its start on, not on what was decoded before it.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from functools import cache
from json import JSONDecoder
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.formats import Progress, WorkerShard
from tracehound.formats.file_signatures import UTF8_BOM
from tracehound.formats.inflate import InflatedStream, open_stream
from tracehound.formats.json.array_repair import (
    EVENTS_WITHOUT_BRACKET,
    LenientElements,
    RepairCounts,
    find_wrong_types,
    parse_leniently,
    read_elements_leniently,
)
from tracehound.formats.json.array_window import ChunkSizes, EventBoundary, SlidingWindow, count_processes
from tracehound.formats.json.lenient_json import BYTES_NOT_UTF8
from tracehound.model.notes import EVENTS_WITHOUT_END, Note

_NEAR_END_OF_ARRAY: Final = 1 << 16
"""The bytes behind an early end of the array whose processes decide whether the events there belong to it."""

_MOST_EARLY_ENDS: Final = 16
"""So many early ends of the array are passed over: the text behind each is parsed."""

_MOST_UNSEARCHED: Final = 2
"""So many texts are kept before their processes are looked for: those of a small file."""

ANOTHER_RECORDING: Final = "another_recording_behind"
EVENTS_OF_OTHERS: Final = "events_of_another_recording"

LONGEST_TAIL: Final = 16 << 20
"""The bytes behind the array that are read."""

_NEXT_DOCUMENT = re.compile(rb'(?:\A|\})[\s,]*(?=(?:\{|\[\s*\{)\s*"(?:[^"\\]|\\.)*"\s*:)')
"""The end of a document before another one. Within a document no brace or bracket opens behind a brace."""
_BRACKET = ord("[")

_RAWS = msgspec.json.Decoder(list[msgspec.Raw])

E = TypeVar("E")
T = TypeVar("T")
Some = TypeVar("Some", bound=Sized)
Some_co = TypeVar("Some_co", bound=Sized, covariant=True)
Some_contra = TypeVar("Some_contra", bound=Sized, contravariant=True)


class ElementDecoder(Struct, Generic[Some, E], frozen=True):
    """Functions that decode the events of a format: a whole list of them at once, or one that had to be read leniently.

    `fast` raises `msgspec.MsgspecError` for unexpected input and keeps nothing of the bytes; `lenient` takes any
    object, and its text as it is in the file. Events read leniently come as a list.
    """

    fast: Callable[[memoryview], Some]
    lenient: Callable[[Mapping[str, Any], bytes], E]


class _TimestampField(msgspec.Struct, gc=False):
    ts: msgspec.Raw = msgspec.Raw(b"null")


class _DurationField(msgspec.Struct, gc=False):
    dur: msgspec.Raw = msgspec.Raw(b"0")


_STARTS = msgspec.json.Decoder(list[_TimestampField])
_LENGTHS = msgspec.json.Decoder(list[_DurationField])


class JsonChunk(Struct, Generic[Some_co], frozen=True):
    """Some successive elements of the array.

    `starts()` and `lengths()` return their times as the file spells them (0 where missing), `raws()` each as JSON,
    `holds()` whether the JSON of any contains this text; all until the next chunk is read.
    """

    events: Some_co
    starts: Callable[[], list[Any]]
    lengths: Callable[[], list[Any]]
    raws: Callable[[], list[msgspec.Raw]]
    holds: Callable[[bytes], bool]


class ChunkConsumer(Protocol[Some_contra]):
    """An object that takes the chunks of a segment, one by one."""

    def add(self, chunk: JsonChunk[Some_contra], /) -> None:
        """Take the next chunk."""


C = TypeVar("C", bound=ChunkConsumer[Any])


class JsonSegment(Struct):
    """One segment, as far as it was read; offsets are in the inflated file.

    `begin` is the start of its first element, `end` that of the next segment, `final` says that there is no next one.
    `places` has a row for each chunk, and in damaged ones for each element: offset, length, ordinal of the first
    element in the segment, number of elements. `metadata` is what is before and behind the array, where this segment
    contains it.
    """

    number: int
    begin: int
    end: int = 0
    final: bool = False
    elements: int = 0
    places: list[tuple[int, int, int, int]] = field(default_factory=list)
    repairs: RepairCounts = field(default_factory=RepairCounts)
    metadata: dict[str, Any] = field(default_factory=dict)
    damage: tuple[Note, ...] = ()


def read_segments(
    path: Path,
    shard: WorkerShard,
    shape: ElementDecoder[Any, Any],
    fresh: Callable[[], C],
    progress: Progress,
    sizes: ChunkSizes,
) -> Iterator[tuple[JsonSegment, C]]:
    """Yield the segments of one shard of a file, each with the object that `fresh` made, filled with its chunks.

    `progress` is called with this shard's share of the bytes, so that those of all shards add up. Raises
    TracehoundError when the file cannot be read or, in the first shard, holds no array of events.
    """
    with open_stream(path) as stream, _pause_garbage_collection():
        reader = _SegmentReader(stream, shape, sizes)
        segment, elements = reader.first_segment(shard.number), 0
        while segment is not None:
            consumer = fresh()
            for chunk in reader.read_chunks(segment):
                consumer.add(chunk)
                elements += len(chunk.events)
                progress(stream.position // shard.of, elements)
            damage = (stream.damage.note(),) if stream.damage else ()
            yield replace(segment, damage=damage), consumer
            segment = None if segment.final else reader.seek_segment(segment.number + shard.of)


class _SegmentReader(Generic[Some, E]):
    """Reads segments one after the other, each with `seek_segment` and then `read_chunks`."""

    def __init__(self, stream: InflatedStream, shape: ElementDecoder[Some, E], sizes: ChunkSizes) -> None:
        self._stream = stream
        self._shape = shape
        self._sizes = sizes
        self._window = SlidingWindow(stream, sizes)
        self._boundary = EventBoundary(0, 0)  # the end of the last segment
        self._processes = set[bytes]()  # some of those with events
        self._unsearched = list[bytes]()  # text with more of them
        self._early_ends = 0

    def first_segment(self, number: int) -> JsonSegment | None:
        """Return the first segment to read; None where the file is too short to have it."""
        if number:
            return self.seek_segment(number)
        segment = JsonSegment(0, 0)
        self._find_array(segment)
        segment.begin = self._window.base + 1
        return segment

    def seek_segment(self, number: int) -> JsonSegment | None:
        """Advance to another segment; None where the file ends before it."""
        window, first = self._window, number * self._sizes.segment
        if self._boundary.end <= first:
            window.narrow()
            window.seek(max(first, window.base))
            boundary = window.seek_boundary()
            if boundary is None:
                return None
            self._boundary = boundary.moved(window.base)
            window.drop(boundary.start - 1)
        return JsonSegment(number, self._boundary.start)

    def read_chunks(self, segment: JsonSegment) -> Iterator[JsonChunk[Some | list[E]]]:
        """Yield the chunks of a segment in order; `segment` is complete afterwards."""
        window, stop = self._window, (segment.number + 1) * self._sizes.segment
        window.narrow()
        if self._boundary.end > stop:
            segment.end = self._boundary.start
            return
        while True:
            window.fill()
            boundary, ends_segment = self._chunk_end(stop - window.base)
            events = window.decode_events(boundary.end, self._shape.fast) if boundary else None
            if boundary is not None and events is not None:
                if events:
                    if not segment.places:
                        self._remember_processes(boundary.end)
                    if (invalid := window.find_invalid_utf8(boundary.end)) is not None:
                        segment.repairs.add_repair("repaired", BYTES_NOT_UTF8, window.base + invalid)
                    segment.places.append((window.base + 1, boundary.end - 1, segment.elements, len(events)))
                    segment.elements += len(events)
                    yield self._strict_chunk(events, boundary.end)
                self._boundary = boundary.moved(window.base)
                window.drop(boundary.start - 1)
                if ends_segment:
                    segment.end = self._boundary.start
                    return
                continue
            found = self._read_leniently(self._lenient_limit(boundary, stop - window.base), segment)
            if found.events:
                yield self._lenient_chunk(found, segment)
            if self._ends_segment(found, segment, stop):
                return

    def _ends_segment(self, elements: LenientElements, segment: JsonSegment, stop: int) -> bool:
        """Advance behind elements that were read one by one; return whether the segment, up to `stop`, is complete."""
        self._remember_processes(elements.end)
        if elements.events and not elements.ended:
            self._window.drop(self._resume_position(elements))
            return False
        if not self._finish_array(elements, segment):
            return True
        if self._boundary.start > stop:
            segment.end = self._boundary.start
            return True
        return False

    def _remember_processes(self, end: int) -> None:
        """Keep the text before `end` for its processes, which are seldom needed."""
        if len(self._unsearched) == _MOST_UNSEARCHED:
            self._known_processes()
        self._unsearched.append(self._window.copy_bytes(end))

    def _known_processes(self) -> set[bytes]:
        """Return the processes of some events that were read so far."""
        for text in self._unsearched:
            self._processes.update(count_processes(text))
        self._unsearched.clear()
        return self._processes

    def _chunk_end(self, rest: int) -> tuple[EventBoundary | None, bool]:
        """Return the end of the next chunk, and whether the segment, of which `rest` bytes are left, ends there."""
        if rest > self._sizes.chunk:
            return self._window.last_boundary(self._sizes.chunk), False
        if boundary := self._window.first_boundary(max(rest, 0)):
            return boundary, True
        return (self._window.last_boundary(rest), False) if rest > 0 else (None, False)

    def _lenient_limit(self, boundary: EventBoundary | None, rest: int) -> int:
        """Return the window position before which elements belong to the segment."""
        if boundary:
            return boundary.end
        if rest > self._sizes.chunk:
            return self._sizes.chunk
        return (
            self._window.visible_size
            if self._window.is_at_file_end
            else self._window.visible_size - self._sizes.preview
        )

    def _read_leniently(self, until: int, segment: JsonSegment) -> LenientElements:
        """Read the elements that start before `until`, one by one; `end` is a position in the window."""
        window = self._window
        while True:
            final = window.is_at_file_end or window.widest
            data = bytes(memoryview(window.buffer)[1 : window.visible_size])
            found = read_elements_leniently(data, until - 1, window.base + 1, segment.repairs.add_repair, final=final)
            if found.events or found.ended or final:
                return replace(found, end=found.end + 1)
            window.grow()

    def _resume_position(self, elements: LenientElements) -> int:
        """Return the position at which reading resumes behind elements that were read one by one.

        It is the last bracket of the last of them, where only a comma follows, so that a boundary there is seen; other
        text that follows was reported and is not read again.
        """
        last = elements.spans[-1][1]
        between = bytes(memoryview(self._window.buffer)[last + 1 : elements.end])
        return last if between.strip() == b"," else elements.end - 1

    def _lenient_chunk(self, elements: LenientElements, segment: JsonSegment) -> JsonChunk[list[E]]:
        found = [
            (_drop_boolean_times(event), span)
            for event, span in zip(elements.events, elements.spans, strict=True)
            if event is not None
        ]
        view = memoryview(self._window.buffer)
        events = [self._shape.lenient(event, bytes(view[1 + low : 1 + high])) for event, (low, high) in found]
        for ordinal, (event, (start, stop)) in enumerate(found, segment.elements):
            at = self._window.base + 1 + start
            segment.places.append((at, stop - start, ordinal, 1))
            for oddity in find_wrong_types(event):
                segment.repairs.add_repair("repaired", oddity, at)
        segment.elements += len(events)
        return JsonChunk(
            events,
            lambda: [event.get("ts") for event, _ in found],
            lambda: [0 if event.get("dur") is None else event["dur"] for event, _ in found],
            lambda: [_encode_event(event) for event, _ in found],
            lambda text: any(text in bytes(_encode_event(event)) for event, _ in found),
        )

    def _strict_chunk(self, events: Some, end: int) -> JsonChunk[Some]:
        def again(decoder: msgspec.json.Decoder[list[T]]) -> list[T]:
            return self._window.decode_events(end, lambda data: decoder.decode(bytes(data))) or []

        return _make_chunk(events, again, lambda text: text in self._window.buffer[:end])

    def _find_array(self, segment: JsonSegment) -> None:
        """Advance to the bracket that opens the array."""
        window = self._window
        window.fill()
        while (array := window.find_array()) is None:
            if window.is_at_file_end:
                raise self._no_events_error()
            window.grow()
        before = bytes(window.buffer[: array.before]).strip(UTF8_BOM + b" \t\r\n,")
        if array.at < 0:
            segment.repairs.add_repair("repaired", EVENTS_WITHOUT_BRACKET, 0)
        elif not array.is_named:
            segment.repairs.add_repair("repaired", "events_not_named", array.at)
        elif before and not before.startswith(b"{"):
            segment.repairs.add_repair("repaired", "first_byte_damaged", 0)
            before = b"{" + before[not before.startswith(b'"') :]
        _parse_metadata(before + b"}", segment, 0)
        if array.at < 0:
            window.insert_bracket_byte()
        else:
            window.drop(array.at)

    def _no_events_error(self) -> TracehoundError:
        damage = self._stream.damage
        if damage is None:
            return TracehoundError("holds no trace events", self._stream.path)
        why = f"gzip {damage.what}, before any trace event"
        return TracehoundError(why, self._stream.path, f"byte {damage.at:,}", "copy it again, or record it anew")

    def _finish_array(self, elements: LenientElements, segment: JsonSegment) -> bool:
        """Finish the array, or the file; the text that follows is read up to `LONGEST_TAIL`.

        Return True where the array only seemed to end, and events of it follow: the window is then before them.
        """
        window = self._window
        if elements.ended:
            window.drop(elements.end)
        else:
            segment.repairs.add_repair("repaired", EVENTS_WITHOUT_END, window.base + window.visible_size)
            window.drop(elements.end - 1)
        segment.end = window.base
        while not window.is_at_file_end and window.visible_size < LONGEST_TAIL:
            window.grow()
        skipped = 0 if elements.ended else 1  # the last byte of the events, if no bracket follows
        rest = self._strip_foreign_tail(
            bytes(memoryview(window.buffer)[skipped : window.visible_size]), window.base + skipped, segment
        )
        rest = rest.strip(b", \t\r\n")
        is_metadata = rest.startswith(b'"')
        is_whole = rest in (b"", b"}") or (is_metadata and _is_object(b"{" + rest))
        if elements.ended and not is_whole and self._seek_events_behind_end(segment):
            segment.metadata.update(_first_object(b"{" + rest) if is_metadata else {})
            return True
        segment.final = True
        if is_metadata:
            _parse_metadata(b"{" + rest, segment, segment.end)
        elif rest not in (b"", b"}"):
            segment.repairs.add_repair("dropped", "bytes_behind_events", segment.end + skipped)
        return False

    def _seek_events_behind_end(self, segment: JsonSegment) -> bool:
        """Advance to the next event behind the end of the array, if there is one of a known process.

        Events of other processes are remains of another recording, over which this one was written: they are counted.
        """
        window = self._window
        start = window.find_event(0)
        if start is None:
            return False
        found, known = window.processes(start, start + _NEAR_END_OF_ARRAY), self._known_processes()
        often = max(1, found.total() // 10)  # damage tears some ids
        strange = any(count > often for process, count in found.items() if process not in known)
        if (known and strange) or b'"traceEvents"' in window.buffer[:start]:
            at = window.base + start
            segment.repairs.add_repairs("dropped", EVENTS_OF_OTHERS, at, window.count_events())
            return False
        self._early_ends += 1
        if self._early_ends > _MOST_EARLY_ENDS:
            segment.repairs.add_repairs("dropped", "events_behind_end", window.base + start, window.count_events())
            return False
        segment.repairs.add_repair("repaired", "events_end_early", window.base)
        window.drop(start - 1)
        window.narrow()
        self._boundary = EventBoundary(window.base + 1, window.base + 1)
        return True

    def _strip_foreign_tail(self, rest: bytes, at: int, segment: JsonSegment) -> bytes:
        """Return the text behind the array, at `at`, that belongs to its document; the rest is reported.

        Files that were joined have another document there, and zeros stand for bytes that a disk did not write.
        """
        other_document = _NEXT_DOCUMENT.search(rest)
        if other_document and (
            b'"traceEvents"' in rest[other_document.end() :] or rest[other_document.end()] == _BRACKET
        ):
            size, exact = len(rest) - other_document.end(), self._window.is_at_file_end
            segment.repairs.add_repair("dropped", ANOTHER_RECORDING, at + other_document.end(), bytes=size, exact=exact)
            return rest[: other_document.end()]
        sound = rest.rstrip(b"\0 \t\r\n")
        if b"\0" in rest[len(sound) :]:
            segment.repairs.add_repair("repaired", "zeros_at_end", at + len(sound))
        return sound


class _DecodeAgain(Protocol):
    """Function that decodes the elements of a chunk once more."""

    def __call__(self, decoder: msgspec.json.Decoder[list[T]], /) -> list[T]:
        """The elements of a slice, decoded once more."""


def _make_chunk(events: Some, decode_again: _DecodeAgain, holds: Callable[[bytes], bool]) -> JsonChunk[Some]:
    return JsonChunk(
        events,
        cache(lambda: [each.ts for each in decode_again(_STARTS)]),
        lambda: [each.dur for each in decode_again(_LENGTHS)],
        cache(lambda: decode_again(_RAWS)),
        holds,
    )


def chunk_of_text(events: Some, text: bytes) -> JsonChunk[Some]:
    """Return the chunk of elements that were decoded from this list of JSON."""
    return _make_chunk(events, lambda decoder: decoder.decode(text), lambda part: part in text)


def _first_object(data: bytes) -> dict[str, Any]:
    """The object of JSON that the bytes begin with; empty where it is damaged."""
    try:
        found, _ = _DECODER.raw_decode(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_DECODER: Final = JSONDecoder()


def _is_object(data: bytes) -> bool:
    """Return whether the bytes are one object of JSON, perhaps in need of repair."""
    try:
        parse_leniently(data)
    except (ValueError, RecursionError):
        return False
    return True


def _parse_metadata(data: bytes, segment: JsonSegment, at: int) -> None:
    if len(data) <= 2:
        return
    try:
        found = parse_leniently(data)
    except (ValueError, RecursionError):
        segment.repairs.add_repair("dropped", "metadata_not_json", at)
        return
    for kind in found.kinds:
        segment.repairs.add_repair("repaired", "metadata_repaired", at, kind=kind)
    repeated = found.value.pop("traceEvents", ())
    for _ in repeated if isinstance(repeated, list) else ():
        segment.repairs.add_repair("dropped", "event_in_second_array", at)
    segment.metadata.update(found.value)  # an object, since the bytes begin with its bracket


def _drop_boolean_times(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event without times that are true or false, which Python takes for 1 and 0."""
    none = {key: None for key in ("ts", "dur") if isinstance(event.get(key), bool)}
    return {**event, **none} if none else event


def _encode_event(event: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(event))


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Pause the cycle collector, which would walk through the events of every chunk: they have no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
