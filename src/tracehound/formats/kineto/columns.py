"""Slices of Kineto events -> columns.

What every event has goes into columns at once; what only few have (devices, messages, names of threads) is looked at
for those alone. Owns which those are. Knows no spelling, no lanes and no frames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, Final, cast

import msgspec
import numpy as np
import numpy.typing as npt

from tracehound.formats.assembly.counters import Samples, Series, args_of
from tracehound.formats.json.columns import (
    MISSING,
    NS_PER_US,
    Answers,
    Codes,
    as_text,
    exact_ticks,
    ids,
    integer,
    ticks,
    whole_number,
)
from tracehound.formats.json.slices import Slice, of_text
from tracehound.formats.kineto.args import Args
from tracehound.formats.kineto.elements import (
    Arrow,
    ArrowEnd,
    ArrowStep,
    Complete,
    Counter,
    Element,
    Id,
    Instant,
    Metadata,
    OldInstant,
    Strange,
    Time,
)
from tracehound.formats.kineto.facets import Facets, Known
from tracehound.formats.kineto.legacy import LAUNCHING, End, ends
from tracehound.formats.kineto.memory import devices_of, held_by, lacks
from tracehound.formats.kineto.names import message_bytes, tensor_bytes
from tracehound.formats.kineto.piece import GLOO, NO_EVENTS, OWN, Piece, Signature, calls, on_device, waits
from tracehound.formats.kineto.piece import MEMORY as MEMORY_NAME
from tracehound.formats.kineto.scan import Scanned, samples
from tracehound.formats.kineto.scanned import FromScan
from tracehound.formats.kineto.tally import COUNTERS, ENDLESS, FLOWS, MEMORY, NO_PHASE, STRANGE, TOO_LARGE, Tally
from tracehound.formats.kineto.values import sizes_in
from tracehound.formats.torch_names import PARAMS
from tracehound.intervals import Ints, Mask

Events = Slice[Scanned | list[Element]]
"""A slice of a Kineto file's array."""

_MANY: Final = 1 << 12
"""So many elements that the scanner left over do not wait for more of them."""

_PLAIN, _DEVICE, _PARAMETERS, _GLOO = range(4)

_COMPLETE, _INSTANT, _METADATA, _COUNTER, _ARROW, _STRANGE = range(6)
_PHASES: Final[Mapping[type[Element], int]] = {
    Complete: _COMPLETE, Instant: _INSTANT, OldInstant: _INSTANT, Metadata: _METADATA, Counter: _COUNTER,
    Arrow: _ARROW, ArrowStep: _ARROW, ArrowEnd: _ARROW, Strange: _STRANGE,
}  # fmt: skip


class Columns:
    """The events of a segment so far.

    `signatures` (category, pid, tid), `names` and `devices` (number of the signature; device and stream as the args
    have them) number the values that the columns stand for. `metadata` has the names that metadata events give to
    a (pid, tid), and `messages` the bytes of the message (-1: unknown) for the pid and the External id of every
    operator that started a collective. `tally` counts what is no event of the columns; `samples` are those of
    counters, by `Series` or `Memory`; `facets` what only some events carry, `known` what earlier segments had of it;
    `arrows` the ends of those that tell who launched what.
    """

    def __init__(self, known: Known) -> None:
        self.signatures, self.names, self.devices = Codes(), Codes(), Codes()
        self.metadata: dict[tuple[str, Id, Id], str] = {}
        self.messages: dict[tuple[Id, int], int] = {}
        self.tally = Tally()
        self.samples = Samples()
        self.facets = Facets(known)
        self.arrows: list[End] = []
        self._count = 0
        self._pieces = [NO_EVENTS]
        self._left, self._texts, self._records = list[Element](), list[bytes](), list[Ints]()
        self._from_scan = FromScan(self.signatures, self.names, self.devices, self.tally, self.samples, self.facets)
        self._manner = Answers(self.signatures, lambda signature: _DEVICE if on_device(signature) else _PLAIN)
        self._calls = Answers(self.signatures, calls)
        self._waits = Answers(self.signatures, waits)
        self._manner_by_name = Answers(self.names, _manner_by_name)

    def add(self, piece: Events) -> None:
        """Append a slice."""
        events, first = piece.events, self._count
        self._count += len(events)
        if isinstance(events, Scanned):
            self._pieces.append(self._from_scan.add(events, first))
            self._leave(events, first)
        else:
            self._add_left()
            self._add(events, np.arange(first, self._count), piece)

    def _leave(self, events: Scanned, first: int) -> None:
        """Let what the scanner left over wait: of most slices it is so little that each alone would cost more.

        Samples of counters do not wait: their order is that of the file.
        """
        if not events.elements:
            return
        self._left += events.elements
        self._texts += events.texts
        self._records.append(events.left + first)
        if len(self._left) >= _MANY or any(map(samples, events.elements)):
            self._add_left()

    def _add_left(self) -> None:
        """Append what waits."""
        if not self._left:
            return
        elements, records = self._left, np.concatenate(self._records)
        piece = of_text(elements, b"[%b]" % b",".join(self._texts))
        self._left, self._texts, self._records = [], [], []
        self._add(elements, records, piece)

    def _add(self, elements: list[Element], records: Ints, piece: Slice[Any]) -> None:
        """Append the elements of a slice; `records` are their ordinals in the segment."""
        if not elements:
            return
        phases = np.fromiter(map(_PHASES.__getitem__, map(type, elements)), np.int8, len(elements))
        drawn = phases == _COMPLETE
        if not drawn.all():
            instants, memory = _instants(elements, phases)
            drawn |= instants
            self._add_others(elements, records, piece, phases, memory)
        rows = np.flatnonzero(drawn)
        if len(rows):
            events = elements if len(rows) == len(elements) else compress(elements, drawn.tolist())
            self._add_events(cast("list[Complete | Instant]", list(events)), rows, records[rows], piece)

    def all(self) -> Piece:
        """The columns of all events, in the order of the file; what else the slices told is complete then."""
        self._add_left()
        found = Piece(*(np.concatenate(parts) for parts in zip(*self._pieces, strict=True)))
        in_order = bool(np.all(found.record[1:] > found.record[:-1]))
        return found if in_order else found.at(np.argsort(found.record, kind="stable"))

    def _add_events(self, events: list[Complete | Instant], rows: Ints, records: Ints, piece: Slice[Any]) -> None:
        """Append events; `rows` says where in the slice each is, `records` where in the segment."""
        count, args = len(events), [event.args for event in events]
        correlation, large = ids([said.correlation for said in args])
        external, larger = ids([said.external_old if said.external is None else said.external for said in args])
        columns = Piece(
            record=records,
            signature=self.signatures.column(_signatures(events), count),
            name=self.names.column([event.name for event in events], count),
            start=_ticks([event.ts for event in events], piece.starts, rows),
            length=_ticks([event.dur for event in events], piece.lengths, rows),
            correlation=correlation,
            external=external,
            device=np.full(count, MISSING, np.int32),
            bytes=np.full(count, MISSING, np.int64),
            collective=np.zeros(count, np.bool_),
        )
        self._pieces.append(columns)
        self._count_endless(events, columns)
        none = sorted({*large, *larger})
        self.tally.add(TOO_LARGE, len(none), int(columns.record[none[0]]) if none else 0)
        manner, by_name = self._manner.of(columns.signature), self._manner_by_name.of(columns.name)
        manner = np.where(manner == _PLAIN, by_name, manner)
        if manner.any():
            self._add_devices(np.flatnonzero(manner == _DEVICE), args, columns)
            self._add_parameters(np.flatnonzero(manner == _PARAMETERS), args, columns)
            self._add_gloo(np.flatnonzero(manner == _GLOO), args, columns)
            self._add_messages(np.flatnonzero(manner), args, columns)
        calls = np.flatnonzero(self._calls.of(columns.signature))
        if len(calls):
            self.facets.add("called", columns.record[calls], [args[row] for row in calls.tolist()])
        waits = np.flatnonzero(self._waits.of(columns.signature))
        if len(waits):
            self.facets.add("waited", columns.record[waits], [args[row] for row in waits.tolist()])

    def _count_endless(self, events: Sequence[Complete | Instant], columns: Piece) -> None:
        silent = [row for row in np.flatnonzero(columns.length == 0).tolist() if events[row].dur is False]
        rows = [row for row in silent if isinstance(events[row], Complete)]
        self.tally.add(ENDLESS, len(rows), int(columns.record[rows[0]]) if rows else 0)

    def _add_devices(self, rows: Ints, args: Sequence[Args], columns: Piece) -> None:
        args = [args[row] for row in rows.tolist()]
        said = zip(
            columns.signature[rows].tolist(),
            [said.device for said in args],
            [said.stream for said in args],
            strict=True,
        )
        columns.device[rows] = self.devices.column(said, len(args))
        columns.bytes[rows] = [  # few kernels have any: asked here, for it is asked of every kernel
            MISSING if said.bytes is None and said.elements_in is None and said.elements_out is None else _size(said)
            for said in args
        ]
        self.facets.add("launched", columns.record[rows], args)

    def _add_parameters(self, rows: Ints, args: Sequence[Args], columns: Piece) -> None:
        spelled = list(self.signatures) if len(rows) else []
        for row in rows.tolist():
            columns.bytes[row] = _size(args[row])
            _, pid, _ = spelled[columns.signature[row]]
            self.messages[pid, int(columns.external[row])] = int(columns.bytes[row])

    def _add_messages(self, rows: Ints, args: Sequence[Args], columns: Piece) -> None:
        """What names a collective, on devices and on the host."""
        named = [row for row in rows.tolist() if args[row].collective is not None]
        columns.collective[named] = columns.device[named] >= 0
        self.facets.add("communicated", columns.record[named], [args[row] for row in named])

    def _add_gloo(self, rows: Ints, args: Sequence[Args], columns: Piece) -> None:
        for row in rows.tolist():
            size = _size(args[row])
            columns.bytes[row] = _inputs_size(args[row]) if size == MISSING else size

    def _add_others(
        self,
        elements: list[Element],
        records: Ints,
        piece: Slice[Any],
        phases: npt.NDArray[np.int8],
        memory: Mask,
    ) -> None:
        """Look at, or count, what is no event of the columns; `memory` says which instants tell of it."""
        for row in np.flatnonzero(phases == _METADATA).tolist():
            named = cast(Metadata, elements[row])
            self.metadata[named.name, named.pid, named.tid] = as_text(named.args.name)
        for row in np.flatnonzero(phases == _STRANGE).tolist():
            self.tally.add(STRANGE if cast(Strange, elements[row]).ph else NO_PHASE, 1, int(records[row]))
        counters = phases == _COUNTER
        for what, found in ((FLOWS, phases == _ARROW), (MEMORY, memory), (COUNTERS, counters)):
            self.tally.add(what, int(np.count_nonzero(found)), int(records[np.argmax(found)]))
        arrows = np.flatnonzero(phases == _ARROW)
        if len(arrows) and piece.holds(LAUNCHING.encode()):
            self._add_arrows(arrows, records, piece)
        rows = np.flatnonzero(counters | memory)
        if len(rows):
            sampled = cast("list[Counter | Instant]", [elements[row] for row in rows.tolist()])
            self._add_samples(sampled, memory[rows], rows, records[rows], piece)

    def _add_arrows(self, rows: Ints, records: Ints, piece: Slice[Any]) -> None:
        """The arrows at these rows of a slice that tell of launches: decoded again, for of others nothing is needed."""
        raws, times = piece.raws(), exact_ticks(piece.starts(), NS_PER_US)
        rows = rows[rows < len(raws)]
        self.arrows += ends([raws[row] for row in rows.tolist()], records[rows], times[rows])

    def _add_samples(
        self, events: list[Counter | Instant], memory: Mask, rows: Ints, records: Ints, piece: Slice[Any]
    ) -> None:
        """The values of counters and of memory, in the order of the file."""
        time = _ticks([event.ts for event in events], piece.starts, rows)
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(memory)) + 1):
            some = events[run[0] : run[-1] + 1]
            if memory[run[0]]:
                self._add_memory(cast("list[Instant]", some), records[run], time[run])
            else:
                self._add_counters(cast("list[Counter]", some), records[run], time[run], piece.raws(), rows[run])

    def _add_counters(
        self, counters: Sequence[Counter], records: Ints, time: Ints, raws: Sequence[msgspec.Raw], rows: Ints
    ) -> None:
        """The values of counters, whose args nothing else needs: they are decoded again for these alone."""
        for counter, record, at, row in zip(counters, records.tolist(), time.tolist(), rows.tolist(), strict=True):
            said = args_of(raws[row]) if row < len(raws) else {}
            values = {Series(counter.pid, counter.name, as_text(arg)): value for arg, value in said.items()}
            self.samples.add(record, at, values)

    def _add_memory(self, instants: Sequence[Instant], records: Ints, time: Ints) -> None:
        """Events of memory, which are many: all at once."""
        args = [instant.args for instant in instants]
        device = devices_of(args)
        for what, lacking in lacks(args).items():
            self.tally.rows(what, lacking, records)
        self.samples.extend(records, time, held_by(args, device))
        self.facets.add_memory(records, time, device, [instant.tid for instant in instants], args)


def _instants(elements: Sequence[Element], phases: npt.NDArray[np.int8]) -> tuple[Mask, Mask]:
    """Which elements are instants that are drawn, and which tell of memory; the profiler's own are neither."""
    drawn, memory = np.zeros((2, len(phases)), np.bool_)
    rows = np.flatnonzero(phases == _INSTANT)
    instants = cast("Sequence[Instant]", elements)
    names = [instants[row].name for row in rows.tolist()]
    memory[rows] = [name == MEMORY_NAME for name in names]
    drawn[rows] = [name != MEMORY_NAME and not name.startswith(OWN) for name in names]
    return drawn, memory


def _signatures(events: Sequence[Complete | Instant]) -> Iterable[Signature]:
    """Those of events; `zip` makes one tuple again and again."""
    cats, pids, tids = [event.cat for event in events], [event.pid for event in events], [event.tid for event in events]
    return zip(cats, pids, tids, strict=True)


def _manner_by_name(name: str) -> int:
    return _PARAMETERS if name == PARAMS else _GLOO if name.startswith(GLOO) else _PLAIN


def _ticks(times: Sequence[Time], spelled: Callable[[], Sequence[Any]], rows: Ints) -> Ints:
    """Times of these rows of a slice in ns; those of all its elements, as the file spells them, where floats fail."""
    found = ticks(times, NS_PER_US)
    if found is None:
        exact = spelled()
        found = exact_ticks([exact[row] for row in rows.tolist()], NS_PER_US)
    return found


def _size(said: Args) -> int:
    if said.bytes is not None:
        return whole_number(said.bytes)
    if said.elements_in is not None or said.elements_out is not None:
        return message_bytes(whole_number(said.elements_in), whole_number(said.elements_out), said.dtype)
    return MISSING


def _inputs_size(said: Args) -> int:
    """Bytes of the tensors that an operator was called with."""
    try:
        return tensor_bytes(sizes_in(msgspec.json.decode(said.dims)), msgspec.json.decode(said.types))
    except (msgspec.MsgspecError, RecursionError):
        return MISSING


_LAST_NUMBER = re.compile(r"(\d{1,18})\s*$")


def number_in(value: object) -> int:
    """The id in a field that holds a number, or text that ends with one (``stream 7``); -1 without any."""
    number = integer(value)
    if number is None and isinstance(value, str) and (match := _LAST_NUMBER.search(value)):
        number = int(match[1])
    return MISSING if number is None or number < 0 else number
