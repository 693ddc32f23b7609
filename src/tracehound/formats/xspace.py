"""The structure of an XSpace: its planes, their lines and their tables of names, as offsets into the file.

Owns the field numbers of XSpace, XPlane, XLine and the metadata maps. Decodes no event (see `xevents`) and knows not
what a plane means. Whatever is damaged is left out and noted with its byte; the rest is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tracehound.formats.wire import (
    BYTES,
    VARINT,
    Bytes,
    Field,
    Rows,
    Spans,
    WireError,
    field_at,
    repeated,
    rounds,
    signed,
    varint,
)
from tracehound.formats.xstats import Stats, Value, decoded, joined, stats
from tracehound.trace import Note

PLANE, ERROR, WARNING, HOSTNAME = 1, 2, 3, 4
PLANE_ID, PLANE_NAME, LINE, EVENT_METADATA, STAT_METADATA, PLANE_STAT = 1, 2, 3, 4, 5, 6
LINE_ID, LINE_NAME, TIMESTAMP_NS, EVENT, DISPLAY_ID, DISPLAY_NAME = 1, 2, 3, 4, 10, 11
ENTRY_KEY, ENTRY_VALUE = 1, 2
NAME, DISPLAYED, METADATA_STAT = 2, 4, 5


@dataclass(frozen=True)
class Line:
    """One line of a plane: where its events lie. `head` is the offset of an event's tag, and so its record."""

    id: int
    name: str
    display_id: int
    timestamp_ns: int
    head: Rows
    start: Rows
    end: Rows

    @property
    def row(self) -> tuple[str, int]:
        """What lines of one plane share that are drawn as one."""
        return ("display", self.display_id) if self.display_id else ("id", self.id)


@dataclass(frozen=True)
class Metadata:
    """The event metadata of a plane, sorted by id: names by position, and where each entry's value lies.

    `stats.owner` is a position too.
    """

    ids: Rows
    names: tuple[str, ...]
    displayed: tuple[str, ...]
    start: Rows
    end: Rows
    stats: Stats

    def positions(self, ids: Rows) -> Rows:
        """Where the entries with these ids are; -1 for unknown ones."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, at, -1)

    @property
    def shown(self) -> tuple[str, ...]:
        """The names by which events are shown, by position."""
        return tuple(short or full for short, full in zip(self.displayed, self.names, strict=True))


@dataclass(frozen=True)
class Plane:
    """One plane, `[start, end)` in the file. `stats` are its own, decoded."""

    id: int
    name: str
    start: int
    end: int
    lines: tuple[Line, ...]
    metadata: Metadata
    stat_names: Mapping[int, str]
    stats: Mapping[str, Value]


@dataclass
class Space:
    """A whole file: what could be read of it, and notes of what could not."""

    planes: list[Plane] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hostnames: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    first_damage: WireError | None = None
    cuts: set[int] = field(default_factory=set)

    def damage(self, file: Bytes, what: str, end: int, error: WireError) -> None:
        """Note where a message that ends at `end` makes no sense; of nested messages that one cut hits, the outermost.

        The end of the file is not noted again for what lies inside.
        """
        self.first_damage = self.first_damage or error
        if end in self.cuts:
            return
        self.cuts.add(end)
        if end == file.size and error.overrun:
            text, at = "the file ends early; what lies before was kept", end
        else:
            text, at = f"{what} makes no sense from here on ({error.what}); the rest of it was left out", error.at
        self.notes.append(Note("dropped", text, where=f"byte {at:,}"))


def space_of(file: Bytes) -> Space:
    """The structure of the file."""
    space = Space()
    planes = Spans(PLANE)
    texts = {ERROR: space.errors, WARNING: space.warnings, HOSTNAME: space.hostnames}
    for part in _split(file, 0, file.size, (planes,), space, "the file"):
        if part.wire == BYTES and part.number in texts:
            texts[part.number].append(file.text(part.at, part.at + part.value))
    for start, end in planes.pairs(file):
        space.planes.append(_plane(file, start, end, space))
    return space


def _plane(file: Bytes, start: int, end: int, space: Space) -> Plane:
    lines, events, names, own = Spans(LINE), Spans(EVENT_METADATA), Spans(STAT_METADATA), Spans(PLANE_STAT)
    parts = _split(file, start, end, (lines, events, names, own), space, "a plane")
    name = _text(file, parts, PLANE_NAME)
    stat_names = _stat_names(file, names)
    what = f"plane {name!r}" if name else "a plane without a name"
    plane = Plane(
        id=_whole(parts, PLANE_ID),
        name=name,
        start=start,
        end=end,
        lines=tuple(_line(file, *span, space) for span in lines.pairs(file)),
        metadata=_metadata(file, events),
        stat_names=stat_names,
        stats=_own_stats(file, own, stat_names),
    )
    if not len(plane.metadata.ids) and any(len(line.start) for line in plane.lines):
        space.notes.append(Note("missing", f"{what} has events but not their names"))
    return plane


def _line(file: Bytes, start: int, end: int, space: Space) -> Line:
    events = Spans(EVENT)
    parts = _split(file, start, end, (events,), space, "a line")
    head, first, last = events.arrays(file)
    return Line(
        id=_whole(parts, LINE_ID),
        name=_text(file, parts, DISPLAY_NAME) or _text(file, parts, LINE_NAME),
        display_id=_whole(parts, DISPLAY_ID),
        timestamp_ns=_whole(parts, TIMESTAMP_NS),
        head=head,
        start=first,
        end=last,
    )


_PARTIAL = (PLANE << 3 | BYTES, LINE << 3 | BYTES)
"""Tags of messages that are worth reading where only their beginning is there."""


def _split(file: Bytes, at: int, end: int, spans: tuple[Spans, ...], space: Space, what: str) -> list[Field]:
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


def _keep_part(file: Bytes, error: WireError, end: int, span: Spans) -> None:
    """Add the message that was cut at `end`, if it has begun."""
    try:
        varint(file.data, error.at + 1, end)
    except WireError:
        return
    span.head.append(error.at)
    span.cut = end


def _whole(parts: list[Field], number: int) -> int:
    return next((signed(part.value) for part in reversed(parts) if (part.number, part.wire) == (number, VARINT)), 0)


def _text(file: Bytes, parts: list[Field], number: int) -> str:
    found = (part for part in reversed(parts) if (part.number, part.wire) == (number, BYTES))
    return next((file.text(part.at, part.at + part.value) for part in found), "")


def _entries(file: Bytes, spans: Spans) -> tuple[Rows, Rows, Rows]:
    """Key and span of the value of each entry of a map, sorted by key; of equal keys the last, as protobuf has it."""
    _, start, end = spans.arrays(file)
    key = np.zeros(len(start), np.int64)
    low, high = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    broken = np.zeros(len(start), bool)
    for now in rounds(file.words, start, end):
        broken[now.message[now.number == 0]] = True
        keys, values = now.where(ENTRY_KEY, VARINT), now.where(ENTRY_VALUE, BYTES)
        key[now.message[keys]] = now.value[keys].view(np.int64)
        low[now.message[values]] = now.at[values]
        high[now.message[values]] = now.at[values] + now.value[values].view(np.int64)
    order = np.argsort(key, kind="stable")
    order = order[~broken[order]]
    order = order[np.append(key[order][1:] != key[order][:-1], True)] if len(order) else order
    return key[order], low[order], high[order]


def _stat_names(file: Bytes, spans: Spans) -> dict[int, str]:
    key, start, end = _entries(file, spans)
    low, high = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
    for now in rounds(file.words, start, end):
        named = now.where(NAME, BYTES)
        low[now.message[named]] = now.at[named]
        high[now.message[named]] = now.at[named] + now.value[named].view(np.int64)
    return {k: file.text(a, b) for k, a, b in zip(key.tolist(), low.tolist(), high.tolist(), strict=True)}


def _metadata(file: Bytes, spans: Spans) -> Metadata:
    key, start, end = _entries(file, spans)
    texts = {number: (np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)) for number in (NAME, DISPLAYED)}
    parts = []
    for now in rounds(file.words, start, end):
        for number, (low, high) in texts.items():
            here = now.where(number, BYTES)
            low[now.message[here]] = now.at[here]
            high[now.message[here]] = now.at[here] + now.value[here].view(np.int64)
        held = now.where(METADATA_STAT, BYTES)
        if held.any():
            low = now.at[held]
            parts.append(stats(file, now.message[held], low, low + now.value[held].view(np.int64)))
    names, displayed = (
        tuple(file.text(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)) for low, high in texts.values()
    )
    return Metadata(key, names, displayed, start, end, joined(parts))


def _own_stats(file: Bytes, spans: Spans, names: Mapping[int, str]) -> dict[str, Value]:
    head, start, end = spans.arrays(file)
    return {name: value for _, name, value in decoded(file, stats(file, np.zeros_like(head), start, end), names)}
