"""The events of the lines of an XPlane, decoded in bulk.

Owns the field numbers of XEvent and the columns that the frames need. Knows no lanes: what the columns mean is for
the readers of device and host planes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracehound.formats.wire import BYTES, VARINT, Bytes, Rows, rounds
from tracehound.formats.xspace import Plane
from tracehound.formats.xstats import REF, TEXT, Flags, Stats, stats

METADATA_ID, OFFSET_PS, DURATION_PS, EVENT_STAT, OCCURRENCES = 1, 2, 3, 4, 5

SLICE = 1 << 15
"""Events decoded at once: enough for numpy, few enough to stay in the processor's cache."""

LIMIT_PS = 1 << 61
"""A time beyond this (26 days) is no time of a profile: the event is damaged."""

NUMBERS = (
    "run_id", "correlation_id", "_p", "_pt", "_c", "_ct", "step_num", "_r", "device_offset_ps", "device_duration_ps",
    "device_ordinal", "program_id", "size", "group_id",
)  # fmt: skip
"""Stats that become columns of integers."""

TEXTS = ("hlo_op", "hlo_module", "memcpy_details")
"""Stats that become columns of texts."""


class Decoded(NamedTuple):
    """Events of one slice: the fields of XEvent; `timed` is false where there is only a count of occurrences."""

    metadata: Rows
    offset: Rows
    duration: Rows
    timed: Flags
    sound: Flags
    stats: Stats


def decode(file: Bytes, start: Rows, end: Rows) -> Decoded:
    """The events in the XEvent messages `[start, end)`; `stats.owner` is the position of the event."""
    count = len(start)
    columns = {number: np.zeros(count, np.int64) for number in (METADATA_ID, OFFSET_PS, DURATION_PS)}
    timed, sound = np.ones(count, bool), np.ones(count, bool)
    owner, low, high = [], [], []
    for now in rounds(file.words, start, end):
        number = int(now.number[0])
        if number in columns and bool(((now.number == number) & (now.wire == VARINT)).all()):
            columns[number][now.message] = now.value.view(np.int64)
            continue
        for each, column in columns.items():
            here = now.where(each, VARINT)
            column[now.message[here]] = now.value[here].view(np.int64)
        timed[now.message[now.where(OCCURRENCES, VARINT)]] = False
        timed[now.message[now.where(OFFSET_PS, VARINT)]] = True
        sound[now.message[now.number == 0]] = False
        held = now.where(EVENT_STAT, BYTES)
        owner.append(now.message[held])
        low.append(now.at[held])
        high.append(now.at[held] + now.value[held].view(np.int64))
    carried = stats(file, _together(owner), _together(low), _together(high))
    return Decoded(columns[METADATA_ID], columns[OFFSET_PS], columns[DURATION_PS], timed, sound, carried)


@dataclass(frozen=True)
class Events:
    """The drawable events of a plane, in the order of the file.

    `line` is the position of the line, `position` that of the event's metadata (-1: none, then `metadata` tells the
    id), `start` and `end` are ps, `record` is the byte at which the event begins. `numbers` and `texts` hold the wanted
    stats, the metadata's own included where the event has none: values, and which events have one. A text is a
    position in `vocabulary`, -1 for none. `untimed` and `broken` count what is not here.
    """

    line: Rows
    metadata: Rows
    position: Rows
    start: Rows
    end: Rows
    record: Rows
    numbers: Mapping[str, tuple[Rows, Flags]]
    texts: Mapping[str, Rows]
    vocabulary: tuple[str, ...]
    untimed: int = 0
    broken: int = 0

    def number(self, name: str) -> tuple[Rows, Flags]:
        """A stat of all events, and which have it."""
        found = self.numbers.get(name)
        return found or (np.zeros(len(self.line), np.int64), np.zeros(len(self.line), bool))

    def text(self, name: str) -> Rows:
        """A stat of all events as positions in `vocabulary`, -1 where an event has none."""
        found = self.texts.get(name)
        return np.full(len(self.line), -1, np.int64) if found is None else found


def events(file: Bytes, plane: Plane, base_ns: int, tick: Callable[[int, int], None]) -> Events:
    """All events of the plane; times from `base_ns`. `tick` is told the byte reached and how many events there were."""
    vocabulary = Vocabulary(file, plane)
    return _joined(list(_slices(file, plane, base_ns, tick, vocabulary)), vocabulary)


class Slice(NamedTuple):
    """The drawable events of one slice, in the columns of `Events`."""

    columns: tuple[Rows, ...]
    numbers: dict[str, tuple[Rows, Flags]]
    texts: dict[str, Rows]
    untimed: int
    broken: int


def _slices(
    file: Bytes, plane: Plane, base_ns: int, tick: Callable[[int, int], None], vocabulary: Vocabulary
) -> Iterator[Slice]:
    """The events of all lines, cut into slices regardless of where a line ends: many lines have few events."""
    lines = plane.lines
    head, first, last = (_together([getattr(line, name) for line in lines]) for name in ("head", "start", "end"))
    at = np.repeat(np.arange(len(lines)), [len(line.start) for line in lines])
    shift = [(line.timestamp_ns - base_ns) * 1000 for line in lines]
    far = np.array([abs(ps) >= LIMIT_PS for ps in shift], bool)
    from_base = np.array([0 if abs(ps) >= LIMIT_PS else ps for ps in shift], np.int64)
    for low in range(0, len(at), SLICE):
        part = slice(low, low + SLICE)
        found = decode(file, first[part], last[part])
        in_range = (np.abs(found.offset) < LIMIT_PS) & (found.duration >= 0) & (found.duration < LIMIT_PS)
        sound = found.sound & (in_range & ~far[at[part]] | ~found.timed)
        keep = sound & found.timed
        start = found.offset[keep] + from_base[at[part][keep]]
        position = plane.metadata.positions(found.metadata)
        numbers, texts = vocabulary.columns(found.stats, position)
        tick(int(last[part][-1]), len(start))
        yield Slice(
            columns=(
                at[part][keep], found.metadata[keep], position[keep], start, start + found.duration[keep],
                head[part][keep],
            ),
            numbers={name: (value[keep], has[keep]) for name, (value, has) in numbers.items()},
            texts={name: value[keep] for name, value in texts.items()},
            untimed=int((sound & ~found.timed).sum()),
            broken=int((~sound).sum()),
        )  # fmt: skip


def _together(columns: Sequence[Rows]) -> Rows:
    return np.concatenate(columns) if columns else np.empty(0, np.int64)


class Vocabulary:
    """Turns the wanted stats of a plane into columns; collects the texts that they hold."""

    def __init__(self, file: Bytes, plane: Plane) -> None:
        self.words: dict[str, int] = {}
        self._file = file
        self._names = plane.stat_names
        wanted = NUMBERS + TEXTS
        codes = {name: code for code, name in enumerate(wanted)}
        pairs = sorted((id_, codes[name]) for id_, name in plane.stat_names.items() if name in codes)
        self._ids = np.array([id_ for id_, _ in pairs], np.int64)
        self._codes = np.array([code for _, code in pairs], np.uint8)
        shared = plane.metadata.stats
        self._shared = dict(self._by_name(shared))
        self._entries = len(plane.metadata.ids)

    def columns(self, table: Stats, position: Rows) -> tuple[dict[str, tuple[Rows, Flags]], dict[str, Rows]]:
        """The wanted stats of events, which carry `table` and whose metadata is at `position`."""
        own = dict(self._by_name(table))
        numbers, texts = {}, {}
        for name in own.keys() | self._shared.keys():
            if name in NUMBERS:
                value, has = _dense(own.get(name), len(position))
                if name in self._shared:
                    common, there = _dense(self._shared[name], self._entries)
                    fill = ~has & (position >= 0)
                    fill[fill] = there[position[fill]]
                    value[fill], has[fill] = common[position[fill]], True
                numbers[name] = (value, has)
            else:
                text = self._text(own.get(name), len(position))
                if name in self._shared:
                    common = self._text(self._shared[name], self._entries)
                    fill = (text < 0) & (position >= 0)
                    text[fill] = common[position[fill]]
                texts[name] = text
        return numbers, texts

    def _by_name(self, table: Stats) -> Iterator[tuple[str, Stats]]:
        """The wanted stats among these, each with its rows."""
        if not len(self._ids) or not len(table.id):
            return
        at = np.minimum(np.searchsorted(self._ids, table.id), len(self._ids) - 1)
        known = np.flatnonzero(self._ids[at] == table.id)
        code = self._codes[at[known]]
        order = np.argsort(code, kind="stable")
        bounds = np.searchsorted(code[order], np.arange(len(NUMBERS) + len(TEXTS) + 1))
        for name, low, high in zip(NUMBERS + TEXTS, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if high > low:
                yield name, table.take(known[order[low:high]])

    def _text(self, table: Stats | None, count: int) -> Rows:
        column = np.full(count, -1, np.int64)
        if table is None:
            return column
        word = np.full(len(table.owner), -1, np.int64)
        refs = np.flatnonzero(table.field == REF)
        ids, inverse = np.unique(table.value[refs].view(np.int64), return_inverse=True)
        known = [self._word(self._names.get(id_, f"<unknown text {id_}>")) for id_ in ids.tolist()]
        word[refs] = np.array(known, np.int64)[inverse]
        for row in np.flatnonzero(table.field == TEXT).tolist():
            at = int(table.at[row])
            word[row] = self._word(self._file.text(at, at + int(table.value[row])))
        spoken = word >= 0
        column[table.owner[spoken]] = word[spoken]
        return column

    def _word(self, text: str) -> int:
        return self.words.setdefault(text, len(self.words))


def _dense(table: Stats | None, count: int) -> tuple[Rows, Flags]:
    value, has = np.zeros(count, np.int64), np.zeros(count, bool)
    if table is not None:
        whole = table.whole_numbers()
        value[whole.owner], has[whole.owner] = whole.value.view(np.int64), True
    return value, has


def _joined(parts: Sequence[Slice], vocabulary: Vocabulary) -> Events:
    counts = [len(part.columns[0]) for part in parts]
    numbers = {
        name: (
            np.concatenate([part.numbers[name][0] if name in part.numbers else np.zeros(n, np.int64)
                            for part, n in zip(parts, counts, strict=True)]),
            np.concatenate([part.numbers[name][1] if name in part.numbers else np.zeros(n, bool)
                            for part, n in zip(parts, counts, strict=True)]),
        )
        for name in NUMBERS if any(name in part.numbers for part in parts)
    }  # fmt: skip
    texts = {
        name: np.concatenate([part.texts.get(name, np.full(n, -1, np.int64))
                              for part, n in zip(parts, counts, strict=True)])
        for name in TEXTS if any(name in part.texts for part in parts)
    }  # fmt: skip
    line, metadata, position, start, end, record = (_together([part.columns[k] for part in parts]) for k in range(6))
    return Events(
        line, metadata, position, start, end, record, numbers, texts, tuple(vocabulary.words),
        untimed=sum(part.untimed for part in parts),
        broken=sum(part.broken for part in parts),
    )  # fmt: skip
