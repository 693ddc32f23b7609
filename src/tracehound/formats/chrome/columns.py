"""Slices of an XLA trace.json -> columns.

Owns which fields of an event are read: XLA writes a profile's stats as args, all values as text. Knows no lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np

from tracehound.formats.assembly.counters import Samples, Series, args_of
from tracehound.formats.json.columns import (
    INVALID,
    MISSING,
    Codes,
    Numbers,
    as_id,
    as_text,
    exact_ticks,
    ticks,
)
from tracehound.formats.json.slices import Shape, Slice
from tracehound.formats.xla.launched import detailed_bytes
from tracehound.intervals import Ints
from tracehound.units import PS_PER_US

Text = str | int | float | None


class Args(msgspec.Struct, gc=False, frozen=True):
    """The args that are read; the rest stays in the file."""

    name: Any = None
    labels: Any = None
    rank: Text = None
    host: Text = None
    hostname: Any = None
    hlo_op: Text = None
    hlo_module: Text = None
    hlo_category: Text = None
    long_name: Text = None
    tf_op: Text = None
    source: Text = None
    bytes_accessed: Text = None
    model_flops: Text = None
    flops: Text = None
    program_id: Text = None
    run_id: Text = None
    device_ordinal: Text = None
    step_num: Text = None
    correlation_id: Text = None
    device_offset_ps: Text = None
    device_duration_ps: Text = None
    kernel_details: Text = None
    memcpy_details: Text = None
    memset_details: Text = None
    bytes: Text = None  # as Tracehound's own exports have it, like all that follows
    kind: Text = None
    produces: Text = None
    consumes: Text = None


_NO_ARGS: Final = Args()


class Event(msgspec.Struct, gc=False):
    """One element of the array; an empty phase means that it is no event. The writer ends the array with `{}`."""

    ph: str = ""
    name: str = ""
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: int | float = math.nan
    dur: int | float = False  # which is 0, and tells that the file says nothing
    args: Args = _NO_ARGS


def _lenient(event: Mapping[str, Any], _: bytes) -> Event:
    args = event.get("args")
    said = args if isinstance(args, Mapping) else {}
    return Event(
        ph=as_text(event.get("ph")),
        name=as_text(event.get("name")),
        pid=as_id(event.get("pid")),
        tid=as_id(event.get("tid")),
        ts=event.get("ts", math.nan),
        dur=False if event.get("dur") is None else event["dur"],
        args=Args(**{key: as_id(said[key]) for key in Args.__struct_fields__ if key in said}),
    )


SHAPE: Final = Shape(msgspec.json.Decoder(list[Event]).decode, _lenient)


class Op(NamedTuple):
    """What an HLO op's events say of it, as the file spells it."""

    name: str
    module: str
    category: str
    text: str
    framework: str
    source: str
    flops: Text
    bytes_accessed: Text
    program: Text
    kind: str = ""

    def called(self, name: str) -> Op:
        """The same under another name."""
        return self._replace(name=name)

    @staticmethod
    def named(name: str) -> Op:
        """An op of which nothing else is known."""
        return Op(name, "", "", "", "", "", None, None, None)


class Piece(NamedTuple):
    """The columns of some events, or of all; times in ps. `op` is -1 where the event is of none.

    What the args say beyond that is `INVALID` where they do not: `run` to `consumes`. `details` is that of the texts
    which say how kernels were launched, 0 being none.
    """

    signature: Numbers
    name: Numbers
    start: Ints
    length: Ints
    op: Numbers
    run: Ints
    device: Ints
    step: Ints
    correlation: Ints
    device_start: Ints
    device_end: Ints
    moved: Ints
    produces: Ints
    consumes: Ints
    details: Numbers

    def at(self, rows: Ints) -> Piece:
        """The columns of these rows."""
        return Piece(*(column[rows] for column in cast("tuple[Any, ...]", self)))


class Columns:
    """The events so far.

    `signatures` numbers (phase, pid, tid), `names` and `ops` what they are called, `details` how they were launched.

    `metadata` has the names that metadata events give to processes and threads, and the labels of processes;
    `ranks` has the ranks of devices, by their processes, where the file tells them, as Tracehound's own exports do;
    `hosts` likewise the number and the name of the host that a process is of.
    `endless` are the ordinals of complete events without a duration, `samples` those of counters, by `Series`.
    """

    def __init__(self) -> None:
        self.signatures, self.names, self.ops, self.details = Codes(), Codes(), Codes(), Codes()
        self.metadata: dict[tuple[str, Text, Text], str] = {}
        self.ranks: dict[Text, int] = {}
        self.hosts: dict[Text, tuple[int, str]] = {}
        self.endless: list[int] = []
        self.samples = Samples()
        self._count = 0
        self._pieces: list[Piece] = []
        self._known_ops: dict[tuple[Text, ...], int] = {}

    def add(self, piece: Slice[list[Event]]) -> None:
        """Append a slice."""
        events = piece.events
        args = [event.args for event in events]
        start, length = _times(piece)
        offset = wholes([said.device_offset_ps for said in args])
        lasted = wholes([said.device_duration_ps for said in args])
        timed = (offset != INVALID) & (lasted >= 0)  # what is no number is below 0, too
        step = wholes([said.step_num for said in args])
        columns = Piece(
            signature=self.signatures.column([(event.ph, event.pid, event.tid) for event in events], len(events)),
            name=self.names.column([event.name for event in events], len(events)),
            start=start,
            length=length,
            op=np.full(len(events), MISSING, np.int32),
            run=hashes([said.run_id for said in args]),
            device=wholes([said.device_ordinal for said in args]),
            step=np.where(np.abs(step) < 2**31, step, INVALID),
            correlation=wholes([said.correlation_id for said in args]),
            device_start=np.where(timed, offset, INVALID),
            device_end=np.where(timed, offset + lasted, INVALID),
            moved=wholes([_moved(said) for said in args]),
            produces=hashes([said.produces for said in args]),
            consumes=hashes([said.consumes for said in args]),
            details=self.details.column([as_text(said.kernel_details) for said in args], len(args)),
        )
        self._pieces.append(columns)
        still = np.flatnonzero(length == 0).tolist()
        self.endless += [self._count + row for row in still if events[row].dur is False and events[row].ph == "X"]
        self._add_samples(piece, start)
        self._count += len(events)
        for row, said in enumerate(args):
            if said is _NO_ARGS:
                continue
            event = events[row]
            if event.ph == "M":
                tid = event.tid if event.name == "thread_name" else None
                told = said.labels if event.name == "process_labels" else said.name
                self.metadata[event.name, event.pid, tid] = as_text(told)
                if event.name == "process_name":
                    self._place(event.pid, said)
            elif said.hlo_op is not None or said.hlo_category is not None:
                columns.op[row] = self._op(event, said)

    def all(self) -> Piece:
        """The columns of all events, in the order of the file."""
        if not self._pieces:
            numbers, times = np.empty(0, np.int32), np.empty(0, np.int64)
            return Piece(
                numbers, numbers, times, times, numbers, times, times, times, times, times, times, times, times, times,
                numbers,
            )  # fmt: skip
        return Piece(*(np.concatenate(parts) for parts in zip(*self._pieces, strict=True)))

    def _place(self, pid: Text, said: Args) -> None:
        """Keep whose a process is, as far as its name's args tell."""
        if (rank := whole(said.rank)) is not None:
            self.ranks[pid] = rank
        if (host := whole(said.host)) is not None:
            self.hosts[pid] = host, as_text(said.hostname)

    def _add_samples(self, piece: Slice[list[Event]], start: Ints) -> None:
        """The values of counters: XLA writes none, but who adds counters to its traces does."""
        rows = [row for row, event in enumerate(piece.events) if event.ph == "C"]
        raws = piece.raws() if rows else []
        for row in rows:
            event, said = piece.events[row], args_of(raws[row]) if row < len(raws) else {}
            values = {Series(event.pid, event.name, as_text(arg)): value for arg, value in said.items()}
            self.samples.add(self._count + row, int(start[row]), values)

    def _op(self, event: Event, said: Args) -> int:
        """The number of the op that an event executes."""
        spelled = (
            event.name, said.hlo_op, said.hlo_module, said.hlo_category, said.long_name, said.tf_op, said.source,
            said.model_flops, said.flops, said.bytes_accessed, said.program_id, said.kind,
        )  # fmt: skip
        number = self._known_ops.get(spelled)
        if number is None:
            number = self._known_ops[spelled] = self.ops[_op(event)]
        return number


def _moved(said: Args) -> Text:
    """The bytes that a copy or a memset moves."""
    detailed = detailed_bytes(said.memcpy_details or said.memset_details)
    return said.bytes if detailed is None else detailed


def _times(piece: Slice[list[Event]]) -> tuple[Ints, Ints]:
    start = ticks([event.ts for event in piece.events], PS_PER_US)
    length = ticks([event.dur for event in piece.events], PS_PER_US)
    if start is None:
        start = exact_ticks(piece.starts(), PS_PER_US)
    if length is None:
        length = exact_ticks(piece.lengths(), PS_PER_US)
    return start, length


def _op(event: Event) -> Op:
    args = event.args
    return Op(
        name=as_text(args.hlo_op) or event.name,
        module=as_text(args.hlo_module),
        category=as_text(args.hlo_category),
        text=as_text(args.long_name),
        framework=as_text(args.tf_op).rstrip(":"),
        source=as_text(args.source),
        flops=args.flops if args.model_flops is None else args.model_flops,
        bytes_accessed=args.bytes_accessed,
        program=args.program_id,
        kind=as_text(args.kind),
    )


def wholes(values: Sequence[Text]) -> Ints:
    """Numbers in args as `whole` reads them; `INVALID` for what is none."""
    numbers = _each(values, whole)
    return np.where((numbers > -(2**62)) & (numbers < 2**62), numbers, INVALID)


def hashes(values: Sequence[Text]) -> Ints:
    """Ids in args as `hashed` reads them; `INVALID` for what is none."""
    return _each(values, hashed)


def _each(values: Sequence[Text], read: Callable[[Text], int | None]) -> Ints:
    """Numbers in args: all at once, where Int64 holds them."""
    found = np.full(len(values), INVALID, np.int64)
    rows = [row for row, value in enumerate(values) if value is not None]
    given: list[Any] = [values[row] for row in rows]
    try:
        found[rows] = np.fromiter(map(int, given), np.int64, len(given))
    except (ValueError, OverflowError):
        found[rows] = [INVALID if (number := read(value)) is None else number for value in given]
    return found


def hashed(value: Text) -> int | None:
    """An id of 64 bits in an arg, written with a sign or without, as Int64; None for what is none."""
    try:
        number = 2**64 if value is None else int(value)
    except (ValueError, OverflowError):
        return None
    return number - 2**64 * (number >= 2**63) if -(2**63) < number < 2**64 else None


def whole(value: Text) -> int | None:
    """A number in an arg, of either sign; None for what is none, or too large for Int64."""
    if value is None:
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if -(2**62) < number < 2**62 else None
