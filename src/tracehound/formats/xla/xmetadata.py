"""The tables of names of an XPlane: what its events and its stats are called, and what is true of all events of a name.

Owns the field numbers of the metadata maps. A table is located when the file is opened and read for a plane of which
events are decoded. Knows no event and no plane.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from tracehound.formats.wire import BYTES, VARINT, File, Rows, Spans, rounds, together
from tracehound.formats.xla.xstats import Stats, joined, stats

ENTRY_KEY, ENTRY_VALUE = 1, 2
NAME, DISPLAYED, METADATA_STAT = 2, 4, 5


class Metadata(Struct, frozen=True, dict=True):
    """Where the values of the event metadata of a plane lie, sorted by id."""

    ids: Rows
    start: Rows
    end: Rows

    def positions(self, ids: Rows) -> Rows:
        """Where the entries with these ids are; -1 for unknown ones."""
        if not len(self.ids) or not len(ids):
            return np.full(len(ids), -1, np.int64)
        if ids.min() >= 0 and ids.max() < len(self._small):
            return self._small[ids]
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, at, -1)

    @cached_property
    def _small(self) -> Rows:
        """The positions of all ids up to the largest, if there are not many more of them than entries."""
        last = int(self.ids[-1])
        if last > _SPARSE * len(self.ids):
            return np.empty(0, np.int64)
        table = np.full(max(0, last + 1), -1, np.int64)
        known = np.flatnonzero(self.ids >= 0)
        table[self.ids[known]] = known
        return table


_SPARSE = 64


class Described(Struct, frozen=True):
    """What the event metadata of a plane says, by position: names, and stats.

    The owner of a stat is a position too, by which they are sorted; `stats.at` are offsets in the file.
    """

    names: tuple[str, ...]
    displayed: tuple[str, ...]
    stats: Stats

    def of(self, position: int) -> Stats:
        """The stats of one entry."""
        low, high = np.searchsorted(self.stats.owner, [position, position + 1])
        return self.stats.take(np.arange(low, high))

    @property
    def shown(self) -> tuple[str, ...]:
        """The names by which events are shown."""
        return tuple(short or full for short, full in zip(self.displayed, self.names, strict=True))


def metadata(file: File, spans: Spans) -> Metadata:
    """The table of events whose entries lie in the spans."""
    return Metadata(*_entries(file, spans))


def stat_names(file: File, spans: Spans) -> dict[int, str]:
    """The names of stats by id; texts that stats refer to are among them."""
    ids, start, end = _entries(file, spans)
    names, _ = _read(file, start, end, (NAME,))
    return dict(zip(ids.tolist(), names[NAME], strict=True))


def described(file: File, table: Metadata) -> Described:
    """All that the table says."""
    texts, carried = _read(file, table.start, table.end, (NAME, DISPLAYED))
    return Described(
        tuple(texts[NAME]), tuple(texts[DISPLAYED]), carried.take(np.argsort(carried.owner, kind="stable"))
    )


def _entries(file: File, spans: Spans) -> tuple[Rows, Rows, Rows]:
    """Key and span of the value of each entry of a map, sorted by key; of equal keys the last, as protobuf has it."""
    _, start, end = spans.arrays()
    key, low, high = (np.zeros(len(start), np.int64) for _ in range(3))
    broken = np.zeros(len(start), bool)
    for which, piece, base in together(file, start, end):
        for now in rounds(piece.words, start[which] - base, end[which] - base):
            row = now.message + which.start
            broken[row[now.number == 0]] = True
            keys, values = now.where(ENTRY_KEY, VARINT), now.where(ENTRY_VALUE, BYTES)
            key[row[keys]] = now.value[keys].view(np.int64)
            low[row[values]] = now.at[values] + base
            high[row[values]] = low[row[values]] + now.value[values].view(np.int64)
    order = np.argsort(key, kind="stable")
    order = order[~broken[order]]
    order = order[np.append(key[order][1:] != key[order][:-1], True)] if len(order) else order
    return key[order], low[order], high[order]


def _read(file: File, start: Rows, end: Rows, wanted: tuple[int, ...]) -> tuple[dict[int, list[str]], Stats]:
    """The texts in these fields of the messages `[start, end)`, and their stats."""
    texts = {number: [""] * len(start) for number in wanted}
    order, carried = np.argsort(start, kind="stable"), []
    for which, piece, base in together(file, start[order], end[order]):
        rows = order[which]
        for now in rounds(piece.words, start[rows] - base, end[rows] - base):
            for number, column in texts.items():
                here = now.where(number, BYTES)
                spans = zip(
                    rows[now.message[here]].tolist(), now.at[here].tolist(), now.value[here].tolist(), strict=True
                )
                for row, at, size in spans:
                    column[row] = piece.text(at, at + size)
            held = now.where(METADATA_STAT, BYTES)
            if held.any():
                low = now.at[held]
                found = stats(piece, rows[now.message[held]], low, low + now.value[held].view(np.int64))
                carried.append(found._replace(at=found.at + base))
    return texts, joined(carried)
