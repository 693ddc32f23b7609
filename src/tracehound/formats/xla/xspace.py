"""The structure of an XSpace: its planes, their lines and their tables of names, as offsets into the file.

Owns the field numbers of XSpace, XPlane, XLine and the metadata maps. Decodes no event (see `xevents`) and knows not
what a plane means. Whatever is damaged is left out and noted with its byte; the rest is kept.

Messages have their length in front, so a plane is passed over in a few steps. Only a line has fields behind its events,
and where those end no length tells: `probed` guesses it from the last events, which the decoder of all events verifies;
`followed` goes from event to event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from msgspec import Struct, field

from tracehound.formats.severed import EARLY
from tracehound.formats.wire import (
    BYTES,
    VARINT,
    Field,
    File,
    Room,
    Spans,
    WireError,
    field_at,
    repeated,
    signed,
    together,
    varint,
)
from tracehound.formats.xla.xheads import TAG, Marks, ends_line, head_near, heads
from tracehound.formats.xla.xmetadata import Metadata, metadata, stat_names
from tracehound.formats.xla.xstats import Value, decoded, stats
from tracehound.notes import Note

PLANE, ERROR, WARNING, HOSTNAME = 1, 2, 3, 4
PLANE_ID, PLANE_NAME, LINE, EVENT_METADATA, STAT_METADATA, PLANE_STAT = 1, 2, 3, 4, 5, 6
LINE_ID, LINE_NAME, TIMESTAMP_NS, DISPLAY_ID, DISPLAY_NAME = 1, 2, 3, 10, 11

SHORT = 1 << 14
"""Bytes of a line that are gone through event by event, rather than guess where they end."""

STRETCH = 1 << 22
"""Long lines are cut into stretches of about so many bytes."""

FOLLOWED = 1 << 18
"""Bytes whose events are found together where a long line is gone through."""

Stretch = tuple[int, int]
"""Offsets between which events of one line follow one another, and nothing else lies."""


class Line(Struct, frozen=True):
    """One line of a plane: where its events lie."""

    id: int
    name: str
    display_id: int
    timestamp_ns: int
    stretches: tuple[Stretch, ...]

    @property
    def row(self) -> tuple[str, int]:
        """What lines of one plane share that are drawn as one."""
        return ("display", self.display_id) if self.display_id else ("id", self.id)


class Plane(Struct, frozen=True):
    """One plane, `[start, end)` in the file. `stats` are its own, decoded."""

    id: int
    name: str
    start: int
    end: int
    lines: tuple[Line, ...]
    metadata: Metadata
    stat_names: Mapping[int, str]
    stats: Mapping[str, Value]

    @property
    def has_events(self) -> bool:
        """Whether any of its lines has one."""
        return any(line.stretches for line in self.lines)


class Space(Struct):
    """A whole file: what could be read of it, and notes of what could not."""

    planes: list[Plane] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hostnames: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    first_damage: WireError | None = None
    cuts: set[int] = field(default_factory=set)

    def damage(self, file: File, what: str, end: int, error: WireError) -> None:
        """Note where a message that ends at `end` makes no sense; of nested messages that one cut hits, the outermost.

        The end of the file is not noted again for what lies inside.
        """
        self.first_damage = self.first_damage or error
        if end in self.cuts:
            return
        self.cuts.add(end)
        if end == file.size and error.overrun:
            self.notes.append(Note("dropped", EARLY, where=f"byte {end:,}"))
        else:
            values = (("message", what), ("error", error.what))
            self.notes.append(Note("dropped", "message_damaged", where=f"byte {error.at:,}", values=values))


Extent = Callable[[File, int, int], list[Stretch]]
"""Where the events lie that follow one another from the first offset on in a line that ends at the second."""


def space_of(file: File, extent: Extent) -> Space:
    """The structure of the file; `extent` is `probed` or `followed`."""
    space = Space()
    planes = Spans(PLANE)
    texts = {ERROR: space.errors, WARNING: space.warnings, HOSTNAME: space.hostnames}
    for part in _split(file, 0, file.size, (planes,), space, "the file"):
        if part.wire == BYTES and part.number in texts:
            texts[part.number].append(file.text(part.at, part.at + part.value))
    for start, end in planes.pairs():
        space.planes.append(_plane(file, start, end, extent, space))
    return space


def names_of_planes(file: File) -> tuple[list[str], list[str]]:
    """The names of the planes and of the hosts, read without their lines; what is damaged is passed over."""
    planes, scratch = Spans(PLANE), Space()
    parts = _split(file, 0, file.size, (planes,), scratch, "the file")
    hosts = [file.text(one.at, one.at + one.value) for one in parts if (one.number, one.wire) == (HOSTNAME, BYTES)]
    names = []
    for start, end in planes.pairs():
        skipped = tuple(Spans(number) for number in (LINE, EVENT_METADATA, STAT_METADATA))
        names.append(_text(file, _split(file, start, end, skipped, scratch, "a plane"), PLANE_NAME))
    return names, hosts


def _plane(file: File, start: int, end: int, extent: Extent, space: Space) -> Plane:
    lines, events, names, own = Spans(LINE), Spans(EVENT_METADATA), Spans(STAT_METADATA), Spans(PLANE_STAT)
    parts = _split(file, start, end, (lines, events, names, own), space, "a plane")
    name = _text(file, parts, PLANE_NAME)
    known = stat_names(file, names)
    plane = Plane(
        id=_whole(parts, PLANE_ID),
        name=name,
        start=start,
        end=end,
        lines=tuple(_line(file, *span, extent, space) for span in lines.pairs()),
        metadata=metadata(file, events),
        stat_names=known,
        stats=_own_stats(file, own, known),
    )
    if not len(plane.metadata.ids) and plane.has_events:
        space.notes.append(Note("missing", "plane_without_event_names", values=(("plane", name),)))
    return plane


def _line(file: File, start: int, end: int, extent: Extent, space: Space) -> Line:
    stretches: list[Stretch] = []
    others: list[Field] = []
    at = start
    while at < end:
        if file.data[at] == TAG and (found := extent(file, at, end)):
            stretches += found
            at = found[-1][1]
            continue
        try:
            part, at = field_at(file.data, at, end)
        except WireError as error:
            space.damage(file, "a line", end, error)
            break
        others.append(part)
    others = _of_line(others, space)
    return Line(
        id=_whole(others, LINE_ID),
        name=_text(file, others, DISPLAY_NAME) or _text(file, others, LINE_NAME),
        display_id=_whole(others, DISPLAY_ID),
        timestamp_ns=_whole(others, TIMESTAMP_NS),
        stretches=tuple(stretches),
    )


_WIRES: Final = {LINE_ID: VARINT, LINE_NAME: BYTES, TIMESTAMP_NS: VARINT, DISPLAY_ID: VARINT, DISPLAY_NAME: BYTES}


def _of_line(parts: list[Field], space: Space) -> list[Field]:
    """The fields that are a line's own: of each number the first, which is before the events or behind all of them.

    Others are noted. Behind an event whose length is damaged lie fields with the numbers of a line's: its duration
    would be the start of the line, and its stats look like events.
    """
    own, foreign = dict[int, Field](), list[Field]()
    for part in parts:
        if part.number in own or part.wire != _WIRES.get(part.number, part.wire):
            foreign.append(part)
        else:
            own[part.number] = part
    strange = next((part for part in foreign if part.number in _WIRES), None)
    if strange is not None:
        space.notes.append(Note("repaired", "event_length_damaged", where=f"byte {strange.at:,}"))
    return list(own.values())


def followed(file: File, at: int, end: int) -> list[Stretch]:
    """The events from `at` on, gone through one after the other."""
    stretches, begin, room = [], at, min(FOLLOWED, end - at)
    reading, marks = Room(room), Marks(room)
    while at < end:
        found = heads(reading.piece(file, (at, min(at + room, end))), marks)
        room = FOLLOWED if found.after else 2 * room
        if not found.after and (found.stopped or at + room // 2 >= end):
            break
        at += found.after
        if at - begin >= STRETCH:
            stretches.append((begin, at))
            begin = at
        if found.stopped:
            break
    return [*stretches, (begin, at)] if at > begin else stretches


def probed(file: File, at: int, end: int) -> list[Stretch]:
    """The events from `at` on, to where those near the end of the line end; as `followed` where none can be seen."""
    if end - at <= SHORT:
        return followed(file, at, end)
    last = head_near(file.data, end - SHORT // 2, end)
    rest = followed(file, last, end) if last is not None else []
    if not rest or not ends_line(file.data, rest[-1][1], end):
        return followed(file, at, end)
    cuts = (head_near(file.data, near, end) for near in range(at + STRETCH, end - STRETCH // 2, STRETCH))
    bounds = [at, *sorted({cut for cut in cuts if cut is not None}), rest[-1][1]]
    return list(pairwise(bounds))


def _split(file: File, at: int, end: int, spans: tuple[Spans, ...], space: Space, what: str) -> list[Field]:
    """Walk a message: its repeated messages go to `spans`, its other fields are returned."""
    by_tag = {span.tag: span for span in spans}
    others = []
    while at < end:
        span = by_tag.get(file.data[at])
        try:
            if span is not None:
                at = repeated(file.data, at, end, span)
            else:
                part, at = field_at(file.data, at, end)
                others.append(part)
        except WireError as error:
            space.damage(file, what, end, error)
            if span is not None and span.tag in _PARTIAL:
                _keep_part(file, error, end, span)
            break
    return others


_PARTIAL = (PLANE << 3 | BYTES, LINE << 3 | BYTES)
"""Tags of messages that are worth reading where only their beginning is there."""


def _keep_part(file: File, error: WireError, end: int, span: Spans) -> None:
    """Add the message that was cut at `end`, if it has begun."""
    try:
        _, start = varint(file.data, error.at + 1, end)
    except WireError:
        return
    span.add(error.at, start, end)


def _whole(parts: list[Field], number: int) -> int:
    return next((signed(part.value) for part in reversed(parts) if (part.number, part.wire) == (number, VARINT)), 0)


def _text(file: File, parts: list[Field], number: int) -> str:
    found = (part for part in reversed(parts) if (part.number, part.wire) == (number, BYTES))
    return next((file.text(part.at, part.at + part.value) for part in found), "")


def _own_stats(file: File, spans: Spans, names: Mapping[int, str]) -> dict[str, Value]:
    """The stats of a plane, by name."""
    found: dict[str, Value] = {}
    _, start, end = spans.arrays()
    for which, piece, base in together(file, start, end):
        table = stats(piece, start[which], start[which] - base, end[which] - base)
        found |= {name: value for _, name, value in decoded(piece, table, names)}
    return found
