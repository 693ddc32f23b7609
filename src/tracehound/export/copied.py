"""JSON files -> one document: their own elements, streamed through, with curves behind them.

Owns how files are copied: one alone keeps every byte of its elements and all the facts around them; several are put on
the clock of the trace, and what clashes between them is written anew (see `merged`). A segment of a file is in memory
at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import Share
from tracehound.analysis.share import shares
from tracehound.export.counters import Place, drawn
from tracehound.export.document import MARK, NEXT, Document
from tracehound.export.merged import Edit, edits, facts
from tracehound.export.narrow import Choice, places, shift, time_of
from tracehound.export.written import Tell, Written
from tracehound.formats.format import Progress
from tracehound.formats.inflate import changed, check
from tracehound.formats.json.columns import as_id
from tracehound.formats.json.document import document as read_document
from tracehound.formats.json.elements import Texts, elements, encoded
from tracehound.formats.json.slices import Extent
from tracehound.formats.kineto.legacy import beside
from tracehound.notes import Note
from tracehound.trace import Trace, Window, collected


def copied(trace: Trace, window: Window, document: Document, tell: Tell) -> Written:
    """Write the files that hold ranks of the window, and the curves of those ranks, to the document.

    Raises TracehoundError where a file cannot be read or has changed.
    """
    by_part = dict[int, list[Share]]()
    for share in shares(trace, window):
        host = trace.ranks.filter(pl.col("rank") == share.rank)["host"][0]
        by_part.setdefault(trace.hosts[host].part, []).append(share)
    edit = dict[int, Edit]()
    if len(by_part) > 1:
        edit = edits(trace, {number: [share.rank for share in ranks] for number, ranks in by_part.items()})
        document.begin(facts(trace, window))
    copies = {number: _Copy(trace, number, window, document, edit.get(number)) for number in by_part}
    size, done, curves = sum(copy.size for copy in copies.values()), 0, 0
    for number, copy in copies.items():
        copy.run(by_part[number], _listener(tell, done, copy.size, size))
        curves += copy.curves(by_part[number])
        done += copy.size
    document.end({name: value for copy in copies.values() for name, value in copy.behind.items() if not edit})
    notes = tuple(note for copy in copies.values() for note in copy.notes)
    return Written(sum(copy.events for copy in copies.values()), curves, notes)


def _listener(tell: Tell, done: int, mine: int, size: int) -> Progress:
    """Tells of one file of several, of whose `size` bytes so many are `done` before it."""

    def heard(read: int, _: int) -> None:
        tell((done + min(read, mine)) / max(size, 1))

    return heard


class _Copy:
    """The copying of one file: first `run`, then `curves`.

    Then `events` says how many it wrote, `behind` has the facts that belong behind them, `notes` what was wrong with
    the file. `size` is that of the file, bytes.
    """

    def __init__(self, trace: Trace, number: int, window: Window, document: Document, edit: Edit | None) -> None:
        self.events = 0
        self.behind: dict[str, Any] = {}
        self.notes: tuple[Note, ...] = ()
        self._part = trace.parts[number]
        check(self._part.path, self._part.state)
        self.size = self._part.path.stat().st_size
        self._document = document
        self._edit = edit
        self._choice = None if window.whole else Choice(trace, number, window, shift(trace, number))
        self._signs: dict[int, list[_Sign]] = {}
        self._places: dict[int, Place] = {}

    def run(self, ranks: Iterable[Share], progress: Progress) -> None:
        """Write the elements. Raises TracehoundError where the file is not what it was."""
        for sign in map(_sign, ranks):
            if sign is not None:
                self._signs.setdefault(sign.record, []).append(sign)
        extents, first = list[Extent](), 0
        for extent, slices in elements(self._part.path, progress):
            self._document.begin(extent.metadata)
            for texts in slices:
                self._write(texts, first)
                first += len(texts)
            extents.append(extent)
        check(self._part.path, self._part.state)
        if first != int(places(self._part)[-1:, [2, 3]].sum()):
            raise changed(self._part.path)
        read = read_document(extents)
        self.behind = {name: value for name, value in read.metadata.items() if name not in extents[0].metadata}
        self.notes = tuple(replace(note, file=self._part.path.name) for note in read.notes)
        if self._edit is not None:
            self._add(list(self._edit.rest()))

    def curves(self, ranks: Iterable[Share]) -> int:
        """Write the curves of the ranks; how many there are."""
        count = 0
        for share in ranks:
            place = self._places.get(share.rank)
            for texts in drawn(share, place) if place else ():
                self._document.add(texts)
                count += 1
        return count

    def _write(self, texts: Texts, first: int) -> None:
        """Write those of some elements that are wanted."""
        for record in self._signs.keys() & range(first, first + len(texts)):
            self._mark(record, texts[record - first])
        chosen: Texts = texts if self._choice is None else [texts[at] for at in self._choice.of(texts, first)]
        if self._edit is None:
            self._add(chosen)
        else:
            self._add([text for element in chosen if (text := self._edit(element)) is not None])

    def _add(self, texts: Texts | list[bytes]) -> None:
        """Write elements; the curves of an earlier export are left out, for they are made anew."""
        joined, count = NEXT.join(texts), len(texts)
        if MARK in joined:
            own = [text for text in map(bytes, texts) if MARK not in text]
            joined, count = NEXT.join(own), len(own)
        self._document.add(joined)
        self.events += count

    def _mark(self, record: int, text: msgspec.Raw) -> None:
        """Find the places of curves by events of the devices."""
        written = bytes(text) if self._edit is None else self._edit(text) or bytes(text)
        at, process = time_of(written, self._part), _process(_ON(written))
        for sign in self._signs[record]:
            self._places[sign.rank] = Place(process, at - sign.start)


class _Sign(NamedTuple):
    """The first event in a file that is on a rank's device: its ordinal, and when it starts (ps, of the trace)."""

    rank: int
    record: int
    start: int


def _sign(share: Share) -> _Sign | None:
    found = collected(share.device.select("record", "start").drop_nulls().bottom_k(1, by="record"))
    return _Sign(share.rank, *found.row(0)) if found.height else None


class _On(msgspec.Struct):
    pid: msgspec.Raw = msgspec.Raw(b"0")
    tid: msgspec.Raw = msgspec.Raw(b"0")


_ON: Final = msgspec.json.Decoder(_On).decode


def _process(on: _On) -> bytes:
    """The process for the curves of a device, as JSON, by what an event of it says that it is on."""
    pid = as_id(msgspec.json.decode(on.pid))
    own = beside(pid, as_id(msgspec.json.decode(on.tid)))
    return bytes(on.pid) if own == pid else encoded(own)
