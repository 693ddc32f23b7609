"""Slices of Kineto events -> columns.

Owns which fields of an event are read and how they are spelled. What every event has goes into columns at once; what
only few have (devices, messages, names of threads) is gathered row by row. Knows no lanes and no frames.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from tracehound.formats.json_columns import (
    MISSING,
    NS_PER_US,
    Codes,
    Flags,
    Numbers,
    as_id,
    as_text,
    exact_ticks,
    ticks,
    whole_number,
    whole_numbers,
)
from tracehound.formats.json_slices import Shape, Slice
from tracehound.formats.kineto_names import category, message_bytes, tensor_bytes
from tracehound.intervals import Ints

_NOTHING: Final = msgspec.Raw(b"null")


class Args(msgspec.Struct, gc=False, frozen=True):
    """The args that are read of every event; the rest stays in the file."""

    correlation: Any = MISSING
    external: Any = msgspec.field(default=None, name="External id")
    external_old: Any = msgspec.field(default=MISSING, name="external id")
    stream: int | float | str | None = None
    device: int | float | str | None = None
    bytes: Any = None
    name: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    elements_in: Any = msgspec.field(default=None, name="In msg nelems")
    elements_out: Any = msgspec.field(default=None, name="Out msg nelems")
    dtype: Any = None
    dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")


_NO_ARGS: Final = Args()
_NAMES: Final = dict(zip(Args.__struct_encode_fields__, Args.__struct_fields__, strict=True))


class Event(msgspec.Struct, gc=False):
    """One element of the array; an empty phase means that it is no event."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: int | float | str = 0
    dur: int | float | str = 0
    args: Args = _NO_ARGS


class ExactEvent(Event, gc=False):
    """The same with times that a float cannot hold."""

    ts: Decimal = Decimal(0)  # type: ignore[assignment]  # a narrower reading of the same field
    dur: Decimal = Decimal(0)  # type: ignore[assignment]  # as above


def _lenient(event: Mapping[str, Any]) -> Event:
    args = event.get("args")
    said = args if isinstance(args, Mapping) else {}
    read = {name: said[key] for key, name in _NAMES.items() if key in said}
    read.update({key: msgspec.Raw(msgspec.json.encode(read[key])) for key in ("dims", "types") if key in read})
    read.update({key: as_id(read[key]) for key in ("stream", "device") if key in read})
    return Event(
        ph=as_text(event.get("ph")),
        cat=as_text(event.get("cat")),
        name=as_text(event.get("name")),
        pid=as_id(event.get("pid")),
        tid=as_id(event.get("tid")),
        ts=event.get("ts", 0),
        dur=event.get("dur") or 0,
        args=Args(**read),
    )


def _exact(data: bytes) -> list[Event]:
    return [*msgspec.json.decode(data, type=list[ExactEvent])]


SHAPE: Final = Shape(msgspec.json.Decoder(list[Event]).decode, _exact, _lenient)


Id = int | float | str | None
"""A process, thread, device or stream, as the file spells it."""


class Piece(NamedTuple):
    """The columns of some events, or of all; times in ns.

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
    """The events so far.

    `signatures` (phase, category, pid, tid), `names` and `devices` (what the row shows; device and stream by the args,
    else by the process and its thread) number the values that the columns stand for. `metadata` has the names that
    metadata events give to a (pid, tid), and `messages` the bytes of the message (-1: unknown) for the External id of
    every operator that started a collective.
    """

    def __init__(self) -> None:
        self.signatures, self.names, self.devices = Codes(), Codes(), Codes()
        self.metadata: dict[tuple[str, Id, Id], str] = {}
        self.messages: dict[int, int] = {}
        self._pieces: list[Piece] = []
        self._alone = Flags(self.signatures, _stands_out)
        self._telling = Flags(self.names, lambda name: name == "record_param_comms" or name.startswith("gloo:"))

    def add(self, piece: Slice[Event]) -> None:
        """Append a slice."""
        events = piece.events
        args = [event.args for event in events]
        start, length = _times(piece)
        signature = self.signatures.column([(event.ph, event.cat, event.pid, event.tid) for event in events])
        name = self.names.column([event.name for event in events])
        correlation = whole_numbers([said.correlation for said in args])
        external = whole_numbers([said.external_old if said.external is None else said.external for said in args])
        device = np.full(len(events), MISSING, np.int32)
        size = np.full(len(events), MISSING, np.int64)
        collective = np.zeros(len(events), np.bool_)
        for row in np.flatnonzero(self._alone.of(signature) | self._telling.of(name)).tolist():
            event, said = events[row], args[row]
            if event.ph == "M":
                self.metadata[event.name, event.pid, event.tid] = as_text(said.name)
                continue
            if said.bytes is not None or said.elements_in is not None or said.dims is not _NOTHING:
                size[row] = _size(event)
            collective[row] = said.collective is not None
            shown = category(event.cat).row
            if shown != "thread":
                device[row] = self.devices[
                    shown,
                    event.pid if said.device is None else said.device,
                    event.tid if said.stream is None else said.stream,
                ]
            elif event.name == "record_param_comms":
                self.messages[int(external[row])] = int(size[row])
        self._pieces.append(Piece(signature, name, start, length, correlation, external, device, size, collective))

    def all(self) -> Piece:
        """The columns of all events, in the order of the file."""
        if not self._pieces:
            numbers, ids = np.empty(0, np.int32), np.empty(0, np.int64)
            return Piece(numbers, numbers, ids, ids, ids, ids, numbers, ids, np.empty(0, np.bool_))
        return Piece(*(np.concatenate(parts) for parts in zip(*self._pieces, strict=True)))


def _stands_out(signature: tuple[str, str, Id, Id]) -> bool:
    """Whether events of this signature have to be looked at one by one."""
    return signature[0] == "M" or category(signature[1]).row not in ("thread", "none")


def _times(piece: Slice[Event]) -> tuple[Ints, Ints]:
    start = ticks([event.ts for event in piece.events], NS_PER_US)
    length = ticks([event.dur for event in piece.events], NS_PER_US)
    if start is not None and length is not None:
        return start, length
    exact = piece.exactly()
    return (
        exact_ticks([event.ts for event in exact], NS_PER_US),
        exact_ticks([event.dur for event in exact], NS_PER_US),
    )


def _size(event: Event) -> int:
    said = event.args
    if said.bytes is not None:
        return whole_number(said.bytes)
    if said.elements_in is not None or said.elements_out is not None:
        return message_bytes(whole_number(said.elements_in), whole_number(said.elements_out), said.dtype)
    if event.name.startswith("gloo:"):
        return tensor_bytes(msgspec.json.decode(said.dims), msgspec.json.decode(said.types))
    return MISSING


_LAST_NUMBER = re.compile(r"(\d{1,18})\s*$")


def number_in(value: object) -> int:
    """The id in a field that holds a number, or text that ends with one (``stream 7``); -1 without any."""
    number = whole_number(value)
    if number == MISSING and isinstance(value, str) and (match := _LAST_NUMBER.search(value)):
        return int(match[1])
    return number
