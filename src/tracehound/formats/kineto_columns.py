"""Slices of Kineto events -> columns.

Owns which fields of an event are read and how they are spelled. What every event has goes into columns at once; what
only few have (devices, messages, names of threads) is looked at for those alone. Knows no lanes and no frames.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from tracehound.formats.counters import Samples, Series, args_of
from tracehound.formats.json_columns import (
    MISSING,
    NS_PER_US,
    Answers,
    Codes,
    Numbers,
    as_id,
    as_text,
    exact_ticks,
    ticks,
    whole_number,
    whole_numbers,
)
from tracehound.formats.json_slices import Shape, Slice
from tracehound.formats.kineto_args import NO_ARGS, Args, message, read
from tracehound.formats.kineto_facets import Facets, Known
from tracehound.formats.kineto_memory import devices, held
from tracehound.formats.kineto_names import category, message_bytes, tensor_bytes
from tracehound.formats.kineto_tally import ENDLESS, Tally
from tracehound.intervals import Ints


class Event(msgspec.Struct, gc=False):
    """One element of the array; an empty phase means that it is no event."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: int | float = 0
    dur: int | float = False  # which is 0, and tells that the file says nothing
    args: Args = NO_ARGS


def _lenient(event: Mapping[str, Any], _: bytes) -> Event:
    return Event(
        ph=as_text(event.get("ph")),
        cat=as_text(event.get("cat")),
        name=as_text(event.get("name")),
        pid=as_id(event.get("pid")),
        tid=as_id(event.get("tid")),
        ts=event.get("ts", 0),
        dur=False if event.get("dur") is None else event["dur"],
        args=read(event.get("args")),
    )


_EVENTS: Final = msgspec.json.Decoder(list[Event])


def _fast(data: memoryview) -> list[Event]:
    return _EVENTS.decode(bytes(data))  # raw args share the memory of what was decoded, which the reader uses again


SHAPE: Final = Shape(_fast, _lenient)


class _Inputs(msgspec.Struct):
    """What an operator was called with."""

    dims: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")


class _Operator(msgspec.Struct):
    args: _Inputs = msgspec.field(default_factory=_Inputs)


Id = int | float | str | None
"""A process, thread, device or stream, as the file spells it."""

Signature = tuple[str, str, Id, Id]
"""Phase, category, process and thread of an event."""

GLOO: Final = "gloo:"
"""How the annotations of Gloo's collectives begin, which run on the host."""

INSTANT: Final = ("i", "I")
"""The phases of events without a length."""

MEMORY: Final = "[memory]"
"""The name of the instants at which memory is allocated or freed."""

_PARAMS: Final = "record_param_comms"
_CALLS: Final = ("op", "annotation")
_PLAIN, _METADATA, _DEVICE, _PARAMETERS, _GLOO, _COUNTER, _MEMORY = range(7)


class Piece(NamedTuple):
    """The columns of some events; times in ns.

    `signature`, `name` and `device` are numbers that `Columns` gave; `device` is -1 on a host, and ids and `bytes`
    are -1 where there are none. `collective` says that the args name one.
    """

    signature: Numbers
    name: Numbers
    start: Ints
    length: Ints
    correlation: Ints
    external: Ints
    device: Numbers
    bytes: Ints
    collective: npt.NDArray[np.bool_]

    def at(self, rows: Ints) -> Piece:
        """The columns of these rows."""
        return Piece(*(column[rows] for column in cast("tuple[Any, ...]", self)))


class Columns:
    """The events of a segment so far.

    `signatures` (phase, category, pid, tid), `names` and `devices` (number of the signature; device and stream as the
    args have them) number the values that the columns stand for. `metadata` has the names that metadata events give to
    a (pid, tid), and `messages` the bytes of the message (-1: unknown) for the External id of every operator that
    started a collective. `endless` counts the complete events without a duration; `samples` are those of counters, by
    `Series` or `Memory`; `facets` what only some events carry, `known` what earlier segments had of it.
    """

    def __init__(self, known: Known) -> None:
        self.signatures, self.names, self.devices = Codes(), Codes(), Codes()
        self.metadata: dict[tuple[str, Id, Id], str] = {}
        self.messages: dict[int, int] = {}
        self.endless = Tally()
        self.samples = Samples()
        self.facets = Facets(known)
        self._count = 0
        self._pieces: list[Piece] = []
        self._complete = Answers(self.signatures, lambda signature: signature[0] == "X")
        self._instant = Answers(self.signatures, lambda signature: signature[0] in INSTANT)
        self._manner = Answers(self.signatures, _manner)
        self._calls = Answers(self.signatures, lambda signature: category(signature[1]).kind in _CALLS)
        self._manner_by_name = Answers(self.names, _manner_by_name)

    def add(self, piece: Slice[Event]) -> None:
        """Append a slice."""
        events, count = piece.events, len(piece.events)
        args = [event.args for event in events]
        start, length = _times(piece)
        signature = self.signatures.column([(event.ph, event.cat, event.pid, event.tid) for event in events], count)
        columns = Piece(
            signature=signature,
            name=self.names.column([event.name for event in events], count),
            start=start,
            length=length,
            correlation=whole_numbers([said.correlation for said in args]),
            external=whole_numbers([said.external_old if said.external is None else said.external for said in args]),
            device=np.full(count, MISSING, np.int32),
            bytes=np.full(count, MISSING, np.int64),
            collective=np.zeros(count, np.bool_),
        )
        self._pieces.append(columns)
        first = self._count
        self._count_endless(events, columns)
        manner, by_name = self._manner.of(signature), self._manner_by_name.of(columns.name)
        manner = np.where(manner == _PLAIN, by_name, manner)
        special = np.flatnonzero(manner)
        if len(special):
            manner = manner[special]
            self._add_metadata(special[manner == _METADATA], events)
            self._add_devices(special[manner == _DEVICE], events, columns, first)
            self._add_parameters(special[manner == _PARAMETERS], args, columns)
            self._add_gloo(special[manner == _GLOO], piece, columns)
            self._add_samples(special[manner >= _COUNTER], manner[manner >= _COUNTER] == _MEMORY, piece, columns, first)
            self._add_messages(special, args, piece, first)
        calls = np.flatnonzero(self._calls.of(signature))
        if len(calls):
            self.facets.add("called", calls + first, [args[row] for row in calls.tolist()])

    def all(self) -> Piece:
        """The columns of all events, in the order of the file."""
        if not self._pieces:
            numbers, ids = np.empty(0, np.int32), np.empty(0, np.int64)
            return Piece(numbers, numbers, ids, ids, ids, ids, numbers, ids, np.empty(0, np.bool_))
        return Piece(*(np.concatenate(parts) for parts in zip(*self._pieces, strict=True)))

    def _count_endless(self, events: list[Event], columns: Piece) -> None:
        rows = np.flatnonzero((columns.length == 0) & (self._complete.of(columns.signature) > 0)).tolist()
        found = [row for row in rows if events[row].dur is False]
        self.endless.add(ENDLESS, len(found), self._count + min(found, default=0))
        self._count += len(events)

    def _add_metadata(self, rows: Ints, events: list[Event]) -> None:
        for row in rows.tolist():
            event = events[row]
            self.metadata[event.name, event.pid, event.tid] = as_text(event.args.name)

    def _add_devices(self, rows: Ints, events: list[Event], columns: Piece, first: int) -> None:
        args = [events[row].args for row in rows.tolist()]
        said = zip(
            columns.signature[rows].tolist(),
            [said.device for said in args],
            [said.stream for said in args],
            strict=True,
        )
        columns.device[rows] = self.devices.column(said, len(args))
        columns.bytes[rows] = [_size(said) for said in args]
        columns.collective[rows] = [said.collective is not None for said in args]
        self.facets.add("launched", rows + first, args)

    def _add_parameters(self, rows: Ints, args: list[Args], columns: Piece) -> None:
        for row in rows.tolist():
            columns.bytes[row] = _size(args[row])
            self.messages[int(columns.external[row])] = int(columns.bytes[row])

    def _add_messages(self, rows: Ints, args: list[Args], piece: Slice[Event], first: int) -> None:
        """What names a collective, on devices and on the host."""
        named = [row for row in rows.tolist() if args[row].collective is not None]
        raws = piece.raws() if named else []
        if named and len(raws) == len(piece.events):
            self.facets.add("communicated", np.array(named) + first, [message(raws[row]) for row in named])

    def _add_gloo(self, rows: Ints, piece: Slice[Event], columns: Piece) -> None:
        raws = piece.raws() if len(rows) else []
        for row in rows.tolist():
            columns.bytes[row] = _size(piece.events[row].args)
            if columns.bytes[row] == MISSING and row < len(raws):
                columns.bytes[row] = _inputs_size(raws[row])

    def _add_samples(
        self, rows: Ints, memory: npt.NDArray[np.bool_], piece: Slice[Event], columns: Piece, first: int
    ) -> None:
        """The values of counters and of memory, in the order of the file; `first` is the slice's first ordinal."""
        ends = np.flatnonzero(memory[1:] != memory[:-1]) + 1
        for run in np.split(np.arange(len(rows)), ends) if len(rows) else ():
            add = self._add_memory if memory[run[0]] else self._add_counters
            add(rows[run], piece, columns, first)

    def _add_counters(self, rows: Ints, piece: Slice[Event], columns: Piece, first: int) -> None:
        """The values of counters, whose args nothing else needs: they are decoded again for these alone."""
        raws = piece.raws()
        for row in rows.tolist():
            event, said = piece.events[row], args_of(raws[row]) if row < len(raws) else {}
            values = {Series(event.pid, event.name, as_text(arg)): value for arg, value in said.items()}
            self.samples.add(first + row, int(columns.start[row]), values)

    def _add_memory(self, rows: Ints, piece: Slice[Event], columns: Piece, first: int) -> None:
        """Events of memory, which are many: all at once."""
        rows = rows[self._instant.of(columns.signature[rows]) > 0]
        if not len(rows):
            return
        events = [piece.events[row] for row in rows.tolist()]
        args, time = [event.args for event in events], columns.start[rows]
        device = devices(args)
        self.samples.extend(first + rows, time, held(args, device))
        self.facets.add_memory(first + rows, time, device, [event.tid for event in events], args)


def _manner(signature: Signature) -> int:
    """In which manner events of this signature are looked at."""
    if signature[0] == "M":
        return _METADATA
    if signature[0] == "C":
        return _COUNTER
    return _PLAIN if category(signature[1]).row in ("thread", "none") else _DEVICE


def _manner_by_name(name: str) -> int:
    if name == MEMORY:
        return _MEMORY
    return _PARAMETERS if name == _PARAMS else _GLOO if name.startswith(GLOO) else _PLAIN


def _times(piece: Slice[Event]) -> tuple[Ints, Ints]:
    start = ticks([event.ts for event in piece.events], NS_PER_US)
    length = ticks([event.dur for event in piece.events], NS_PER_US)
    if start is None:
        start = exact_ticks(piece.starts(), NS_PER_US)
    if length is None:
        length = exact_ticks(piece.lengths(), NS_PER_US)
    return start, length


def _size(said: Args) -> int:
    if said.bytes is not None:
        return whole_number(said.bytes)
    if said.elements_in is not None or said.elements_out is not None:
        return message_bytes(whole_number(said.elements_in), whole_number(said.elements_out), said.dtype)
    return MISSING


def _inputs_size(event: msgspec.Raw) -> int:
    """Bytes of the tensors that an operator was called with."""
    try:
        inputs = msgspec.json.decode(event, type=_Operator).args
    except msgspec.MsgspecError:
        return MISSING
    return tensor_bytes(inputs.dims, inputs.types)


_LAST_NUMBER = re.compile(r"(\d{1,18})\s*$")


def number_in(value: object) -> int:
    """The id in a field that holds a number, or text that ends with one (``stream 7``); -1 without any."""
    number = whole_number(value)
    if number == MISSING and isinstance(value, str) and (match := _LAST_NUMBER.search(value)):
        return int(match[1])
    return number
