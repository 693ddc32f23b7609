"""Structure of an XSpace: its planes, their lines and their metadata tables, as offsets into the file.

Events are not decoded. Damaged parts are left out and noted with their byte. Messages start with their length, so a
plane is skipped in a few steps. Only a line has fields behind its events, and no length tells where the events end:
`probe_events` guesses it from the last events, which decoding verifies later; `follow_events` goes from event to event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct, field

from tracehound.formats.protobuf_wire import (
    BYTES,
    VARINT,
    InflatedFile,
    MessageOffsets,
    ReadBuffer,
    WireError,
    WireField,
    as_signed,
    collect_repeated_fields,
    read_field,
    read_message_groups,
    read_varint,
)
from tracehound.formats.xplane.event_offsets import (
    EVENT_TAG,
    EventTagFinder,
    find_event_bounds,
    find_event_near,
    holds_no_more_events,
)
from tracehound.formats.xplane.plane_metadata import (
    MetadataTable,
    StatValue,
    decode_stats,
    iterate_stat_values,
    locate_event_metadata,
    read_stat_names,
)
from tracehound.model.notes import FILE_ENDS_EARLY, Note

PLANE, ERROR, WARNING, HOSTNAME = 1, 2, 3, 4
PLANE_ID, PLANE_NAME, LINE, EVENT_METADATA, STAT_METADATA, PLANE_STAT = 1, 2, 3, 4, 5, 6
LINE_ID, LINE_NAME, TIMESTAMP_NS, DISPLAY_ID, DISPLAY_NAME = 1, 2, 3, 10, 11

SHORT_LINE_BYTES = 1 << 14
"""Lines up to this many bytes are followed event by event, without guessing where the events end."""

RANGE_BYTES = 1 << 22
"""Long lines are cut into ranges of about this many bytes."""

FOLLOWED_BYTES = 1 << 18
"""Bytes whose events are found at once where a long line is followed."""

ByteRange = tuple[int, int]
"""Offsets between which events of one line follow one another, with nothing in between."""


class XLine(Struct, frozen=True):
    """A line of a plane, and the ranges of its events."""

    id: int
    name: str
    display_id: int
    timestamp_ns: int
    ranges: tuple[ByteRange, ...]

    @property
    def row_key(self) -> tuple[str, int]:
        """Key that lines of one plane share if they are drawn on one lane."""
        return ("display", self.display_id) if self.display_id else ("id", self.id)


class XPlane(Struct, frozen=True):
    """A plane, `[start, end)` in the file; `stats` are its own stats."""

    id: int
    name: str
    start: int
    end: int
    lines: tuple[XLine, ...]
    metadata: MetadataTable
    stat_names: Mapping[int, str]
    stats: Mapping[str, StatValue]

    @property
    def has_events(self) -> bool:
        """True if any of its lines has events."""
        return any(line.ranges for line in self.lines)


class XSpace(Struct):
    """The readable parts of a file, and notes of the others."""

    planes: list[XPlane] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hostnames: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    first_damage: WireError | None = None
    noted_ends: set[int] = field(default_factory=set)

    def note_damage(self, file: InflatedFile, message: str, end: int, error: WireError) -> None:
        """Note that a message ending at `end` is damaged; of nested messages that one cut damages, only the outermost.

        The end of the file is not noted again for messages inside.
        """
        self.first_damage = self.first_damage or error
        if end in self.noted_ends:
            return
        self.noted_ends.add(end)
        if end == file.size and error.overrun:
            self.notes.append(Note("dropped", FILE_ENDS_EARLY, where=f"byte {end:,}"))
        else:
            values = (("message", message), ("error", error.what))
            self.notes.append(Note("dropped", "message_damaged", where=f"byte {error.at:,}", values=values))


EventLocator = Callable[[InflatedFile, int, int], list[ByteRange]]
"""Ranges of consecutive events from the first offset on, in a line that ends at the second."""


def read_space(file: InflatedFile, locate_events: EventLocator) -> XSpace:
    """Structure of the file; `locate_events` is `probe_events` or `follow_events`."""
    space = XSpace()
    planes = MessageOffsets(PLANE)
    texts = {ERROR: space.errors, WARNING: space.warnings, HOSTNAME: space.hostnames}
    for part in _split_message(file, 0, file.size, (planes,), space, "the file"):
        if part.wire == BYTES and part.number in texts:
            texts[part.number].append(file.text(part.at, part.at + part.value))
    for start, end in planes.pairs():
        space.planes.append(_read_plane(file, start, end, locate_events, space))
    return space


class SpaceNames(NamedTuple):
    """The names of the planes and of the hosts of a file, and the stats of its environment plane."""

    planes: list[str]
    hosts: list[str]
    environment: Mapping[str, StatValue]


def read_space_names(file: InflatedFile, environment: str) -> SpaceNames:
    """Names of planes and hosts and the stats of the plane `environment`, read without lines.

    Damaged parts are skipped.
    """
    planes, unused_space = MessageOffsets(PLANE), XSpace()
    parts = _split_message(file, 0, file.size, (planes,), unused_space, "the file")
    hosts = [file.text(one.at, one.at + one.value) for one in parts if (one.number, one.wire) == (HOSTNAME, BYTES)]
    names, stats = list[str](), dict[str, StatValue]()
    for start, end in planes.pairs():
        skipped_fields = tuple(MessageOffsets(number) for number in (LINE, EVENT_METADATA))
        stat_entries, plane_stats = MessageOffsets(STAT_METADATA), MessageOffsets(PLANE_STAT)
        fields = _split_message(file, start, end, (*skipped_fields, stat_entries, plane_stats), unused_space, "a plane")
        names.append(_text_field(file, fields, PLANE_NAME))
        if names[-1] == environment:
            stats |= _read_plane_stats(file, plane_stats, read_stat_names(file, stat_entries))
    return SpaceNames(names, hosts, stats)


def _read_plane(file: InflatedFile, start: int, end: int, locate_events: EventLocator, space: XSpace) -> XPlane:
    lines, event_entries, stat_entries, plane_stats = (
        MessageOffsets(LINE),
        MessageOffsets(EVENT_METADATA),
        MessageOffsets(STAT_METADATA),
        MessageOffsets(PLANE_STAT),
    )
    parts = _split_message(file, start, end, (lines, event_entries, stat_entries, plane_stats), space, "a plane")
    name = _text_field(file, parts, PLANE_NAME)
    names_of_stats = read_stat_names(file, stat_entries)
    plane = XPlane(
        id=_integer_field(parts, PLANE_ID),
        name=name,
        start=start,
        end=end,
        lines=tuple(_read_line(file, *span, locate_events, space) for span in lines.pairs()),
        metadata=locate_event_metadata(file, event_entries),
        stat_names=names_of_stats,
        stats=_read_plane_stats(file, plane_stats, names_of_stats),
    )
    if not len(plane.metadata.ids) and plane.has_events:
        space.notes.append(Note("missing", "plane_without_event_names", values=(("plane", name),)))
    return plane


def _read_line(file: InflatedFile, start: int, end: int, locate_events: EventLocator, space: XSpace) -> XLine:
    ranges: list[ByteRange] = []
    other_fields: list[WireField] = []
    at = start
    while at < end:
        if file.data[at] == EVENT_TAG and (event_ranges := locate_events(file, at, end)):
            ranges += event_ranges
            at = event_ranges[-1][1]
            continue
        try:
            part, at = read_field(file.data, at, end)
        except WireError as error:
            space.note_damage(file, "a line", end, error)
            break
        other_fields.append(part)
    other_fields = _own_fields_of_line(other_fields, space)
    return XLine(
        id=_integer_field(other_fields, LINE_ID),
        name=_text_field(file, other_fields, DISPLAY_NAME) or _text_field(file, other_fields, LINE_NAME),
        display_id=_integer_field(other_fields, DISPLAY_ID),
        timestamp_ns=_integer_field(other_fields, TIMESTAMP_NS),
        ranges=tuple(ranges),
    )


_LINE_FIELD_WIRES: Final = {
    LINE_ID: VARINT,
    LINE_NAME: BYTES,
    TIMESTAMP_NS: VARINT,
    DISPLAY_ID: VARINT,
    DISPLAY_NAME: BYTES,
}


def _own_fields_of_line(parts: list[WireField], space: XSpace) -> list[WireField]:
    """Fields of the line itself: the first of each number, which lies before the events or behind all of them.

    Others are noted. Behind an event whose length is damaged there are fields with the numbers of a line's: its
    duration looks like the start of the line, and its stats look like events.
    """
    fields, unexpected = dict[int, WireField](), list[WireField]()
    for part in parts:
        if part.number in fields or part.wire != _LINE_FIELD_WIRES.get(part.number, part.wire):
            unexpected.append(part)
        else:
            fields[part.number] = part
    damaged = next((part for part in unexpected if part.number in _LINE_FIELD_WIRES), None)
    if damaged is not None:
        space.notes.append(Note("repaired", "event_length_damaged", where=f"byte {damaged.at:,}"))
    return list(fields.values())


def follow_events(file: InflatedFile, at: int, end: int) -> list[ByteRange]:
    """Ranges of events from `at` on, found by going from one event to the next."""
    ranges, begin, budget = [], at, min(FOLLOWED_BYTES, end - at)
    buffer, tag_finder = ReadBuffer(budget), EventTagFinder(budget)
    while at < end:
        bounds = find_event_bounds(buffer.read_intervals(file, (at, min(at + budget, end))), tag_finder)
        budget = FOLLOWED_BYTES if bounds.after else 2 * budget
        if not bounds.after and (bounds.stopped or at + budget // 2 >= end):
            break
        at += bounds.after
        if at - begin >= RANGE_BYTES:
            ranges.append((begin, at))
            begin = at
        if bounds.stopped:
            break
    return [*ranges, (begin, at)] if at > begin else ranges


def probe_events(file: InflatedFile, at: int, end: int) -> list[ByteRange]:
    """Ranges of events from `at` on, up to the last event near the end of the line; falls back to `follow_events`."""
    if end - at <= SHORT_LINE_BYTES:
        return follow_events(file, at, end)
    last_start = find_event_near(file.data, end - SHORT_LINE_BYTES // 2, end)
    last_ranges = follow_events(file, last_start, end) if last_start is not None else []
    if not last_ranges or not holds_no_more_events(file.data, last_ranges[-1][1], end):
        return follow_events(file, at, end)
    noted_ends = (
        find_event_near(file.data, position, end)
        for position in range(at + RANGE_BYTES, end - RANGE_BYTES // 2, RANGE_BYTES)
    )
    bounds = [at, *sorted({cut for cut in noted_ends if cut is not None}), last_ranges[-1][1]]
    return list(pairwise(bounds))


def _split_message(
    file: InflatedFile, at: int, end: int, spans: tuple[MessageOffsets, ...], space: XSpace, message: str
) -> list[WireField]:
    """Split a message: offsets of its repeated messages go to `spans`, its other fields are returned."""
    by_tag = {span.tag: span for span in spans}
    other_fields = []
    while at < end:
        span = by_tag.get(file.data[at])
        try:
            if span is not None:
                at = collect_repeated_fields(file.data, at, end, span)
            else:
                part, at = read_field(file.data, at, end)
                other_fields.append(part)
        except WireError as error:
            space.note_damage(file, message, end, error)
            if span is not None and span.tag in _PARTIAL_TAGS:
                _keep_partial_message(file, error, end, span)
            break
    return other_fields


_PARTIAL_TAGS = (PLANE << 3 | BYTES, LINE << 3 | BYTES)
"""Tags of messages that are worth reading even if they are cut off."""


def _keep_partial_message(file: InflatedFile, error: WireError, end: int, span: MessageOffsets) -> None:
    """Add the message that is cut off at `end`, if it has begun."""
    try:
        _, start = read_varint(file.data, error.at + 1, end)
    except WireError:
        return
    span.add(error.at, start, end)


def _integer_field(parts: list[WireField], number: int) -> int:
    return next((as_signed(part.value) for part in reversed(parts) if (part.number, part.wire) == (number, VARINT)), 0)


def _text_field(file: InflatedFile, parts: list[WireField], number: int) -> str:
    found = (part for part in reversed(parts) if (part.number, part.wire) == (number, BYTES))
    return next((file.text(part.at, part.at + part.value) for part in found), "")


def _read_plane_stats(file: InflatedFile, spans: MessageOffsets, names: Mapping[int, str]) -> dict[str, StatValue]:
    """Stats of a plane, by name."""
    found: dict[str, StatValue] = {}
    _, start, end = spans.arrays()
    for which, data, base in read_message_groups(file, start, end):
        table = decode_stats(data, start[which], start[which] - base, end[which] - base)
        found |= {name: value for _, name, value in iterate_stat_values(data, table, names)}
    return found
