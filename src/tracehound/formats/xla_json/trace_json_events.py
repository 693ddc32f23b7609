"""Events of an XLA trace.json -> columns, and the hosts of their processes.

XLA writes a profile's stats as args, all values as text; only the fields that are needed are decoded. XLA writes a file
for each host, Tracehound's own exports one for several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np

from tracehound.formats.assembly.counter_samples import CounterKey, SampleCollector, parse_event_args
from tracehound.formats.json.array_segments import ElementDecoder, JsonChunk
from tracehound.formats.json.value_columns import (
    INVALID,
    MISSING,
    CodeArray,
    ValueCodes,
    as_id,
    as_text,
    to_exact_ticks,
    to_ticks,
)
from tracehound.formats.xla.kernel_details import bytes_in_details
from tracehound.model.units import PS_PER_US
from tracehound.numeric.intervals import Ints

ArgValue = str | int | float | None


class TraceJsonArgs(msgspec.Struct, gc=False, frozen=True):
    """The args that are decoded; others stay in the file."""

    name: Any = None
    labels: Any = None
    rank: ArgValue = None
    host: ArgValue = None
    hostname: Any = None
    hlo_op: ArgValue = None
    hlo_module: ArgValue = None
    hlo_category: ArgValue = None
    long_name: ArgValue = None
    tf_op: ArgValue = None
    source: ArgValue = None
    bytes_accessed: ArgValue = None
    model_flops: ArgValue = None
    flops: ArgValue = None
    program_id: ArgValue = None
    run_id: ArgValue = None
    device_ordinal: ArgValue = None
    step_num: ArgValue = None
    correlation_id: ArgValue = None
    device_offset_ps: ArgValue = None
    device_duration_ps: ArgValue = None
    kernel_details: ArgValue = None
    memcpy_details: ArgValue = None
    memset_details: ArgValue = None
    bytes: ArgValue = None  # as Tracehound's own exports have it, like all that follows
    kind: ArgValue = None
    produces: ArgValue = None
    consumes: ArgValue = None


_NO_ARGS: Final = TraceJsonArgs()


class TraceJsonEvent(msgspec.Struct, gc=False):
    """One element of the array; an empty phase means that it is no event. XLA ends the array with `{}`."""

    ph: str = ""
    name: str = ""
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: int | float = math.nan
    dur: int | float = False  # equals 0, and says that the file has none
    args: TraceJsonArgs = _NO_ARGS


def _decode_leniently(event: Mapping[str, Any], _: bytes) -> TraceJsonEvent:
    args = event.get("args")
    arg_values = args if isinstance(args, Mapping) else {}
    return TraceJsonEvent(
        ph=as_text(event.get("ph")),
        name=as_text(event.get("name")),
        pid=as_id(event.get("pid")),
        tid=as_id(event.get("tid")),
        ts=event.get("ts", math.nan),
        dur=False if event.get("dur") is None else event["dur"],
        args=TraceJsonArgs(
            **{key: as_id(arg_values[key]) for key in TraceJsonArgs.__struct_fields__ if key in arg_values}
        ),
    )


EVENT_DECODER: Final = ElementDecoder(msgspec.json.Decoder(list[TraceJsonEvent]).decode, _decode_leniently)


class TraceJsonOp(NamedTuple):
    """The args of an HLO op's events, as the file spells them."""

    name: str
    module: str
    category: str
    text: str
    framework: str
    source: str
    flops: ArgValue
    bytes_accessed: ArgValue
    program: ArgValue
    kind: str = ""

    def renamed(self, name: str) -> TraceJsonOp:
        """Return the op with another name."""
        return self._replace(name=name)

    @staticmethod
    def from_name(name: str) -> TraceJsonOp:
        """Return an op of which only the name is known."""
        return TraceJsonOp(name, "", "", "", "", "", None, None, None)


class TraceJsonColumns(NamedTuple):
    """The columns of some events, or of all; times in ps. `op` is -1 for an event without one.

    Values from args are `INVALID` where they are missing: `run` to `consumes`. `details` numbers the texts of kernels'
    launch details, 0 being none.
    """

    signature: CodeArray
    name: CodeArray
    start: Ints
    length: Ints
    op: CodeArray
    run: Ints
    device: Ints
    step: Ints
    correlation: Ints
    device_start: Ints
    device_end: Ints
    moved: Ints
    produces: Ints
    consumes: Ints
    details: CodeArray

    def take(self, rows: Ints) -> TraceJsonColumns:
        """Return the columns of these rows."""
        return TraceJsonColumns(*(column[rows] for column in cast("tuple[Any, ...]", self)))


class TraceJsonEvents:
    """The events decoded so far.

    `signatures` numbers (phase, pid, tid), `names` and `ops` the events' names and ops, `details` their launch details.

    `metadata` has the names that metadata events give to processes and threads, and the labels of processes; `ranks`
    the ranks of devices, by their processes, where the file has them, as Tracehound's own exports do; `hosts` likewise
    the number and the name of a process's host. `endless` are the ordinals of complete events without a duration,
    `samples` those of counters, by `CounterKey`.
    """

    def __init__(self) -> None:
        self.signatures, self.names, self.ops, self.details = ValueCodes(), ValueCodes(), ValueCodes(), ValueCodes()
        self.metadata: dict[tuple[str, ArgValue, ArgValue], str] = {}
        self.ranks: dict[ArgValue, int] = {}
        self.hosts: dict[ArgValue, tuple[int, str]] = {}
        self.endless: list[int] = []
        self.samples = SampleCollector()
        self._count = 0
        self._chunks: list[TraceJsonColumns] = []
        self._known_ops: dict[tuple[ArgValue, ...], int] = {}

    def add(self, chunk: JsonChunk[list[TraceJsonEvent]]) -> None:
        """Append a chunk."""
        events = chunk.events
        args = [event.args for event in events]
        start, length = _event_times(chunk)
        offset = parse_whole_numbers([arg_values.device_offset_ps for arg_values in args])
        duration = parse_whole_numbers([arg_values.device_duration_ps for arg_values in args])
        has_device_time = (offset != INVALID) & (duration >= 0)  # what is no number is below 0, too
        step = parse_whole_numbers([arg_values.step_num for arg_values in args])
        columns = TraceJsonColumns(
            signature=self.signatures.encode_values(
                [(event.ph, event.pid, event.tid) for event in events], len(events)
            ),
            name=self.names.encode_values([event.name for event in events], len(events)),
            start=start,
            length=length,
            op=np.full(len(events), MISSING, np.int32),
            run=parse_hashes([arg_values.run_id for arg_values in args]),
            device=parse_whole_numbers([arg_values.device_ordinal for arg_values in args]),
            step=np.where(np.abs(step) < 2**31, step, INVALID),
            correlation=parse_whole_numbers([arg_values.correlation_id for arg_values in args]),
            device_start=np.where(has_device_time, offset, INVALID),
            device_end=np.where(has_device_time, offset + duration, INVALID),
            moved=parse_whole_numbers([_moved_bytes(arg_values) for arg_values in args]),
            produces=parse_hashes([arg_values.produces for arg_values in args]),
            consumes=parse_hashes([arg_values.consumes for arg_values in args]),
            details=self.details.encode_values([as_text(arg_values.kernel_details) for arg_values in args], len(args)),
        )
        self._chunks.append(columns)
        instants = np.flatnonzero(length == 0).tolist()
        self.endless += [self._count + row for row in instants if events[row].dur is False and events[row].ph == "X"]
        self._add_samples(chunk, start)
        self._count += len(events)
        for row, arg_values in enumerate(args):
            if arg_values is _NO_ARGS:
                continue
            event = events[row]
            if event.ph == "M":
                tid = event.tid if event.name == "thread_name" else None
                text = arg_values.labels if event.name == "process_labels" else arg_values.name
                self.metadata[event.name, event.pid, tid] = as_text(text)
                if event.name == "process_name":
                    self._add_process_owner(event.pid, arg_values)
            elif arg_values.hlo_op is not None or arg_values.hlo_category is not None:
                columns.op[row] = self._number_of_op(event, arg_values)

    def all_columns(self) -> TraceJsonColumns:
        """Return the columns of all events, in the order of the file."""
        if not self._chunks:
            numbers, times = np.empty(0, np.int32), np.empty(0, np.int64)
            return TraceJsonColumns(
                numbers, numbers, times, times, numbers, times, times, times, times, times, times, times, times, times,
                numbers,
            )  # fmt: skip
        return TraceJsonColumns(*(np.concatenate(parts) for parts in zip(*self._chunks, strict=True)))

    def _add_process_owner(self, pid: ArgValue, arg_values: TraceJsonArgs) -> None:
        """Keep the rank and the host of a process, if the args of its name have them."""
        if (rank := parse_whole_number(arg_values.rank)) is not None:
            self.ranks[pid] = rank
        if (host := parse_whole_number(arg_values.host)) is not None:
            self.hosts[pid] = host, as_text(arg_values.hostname)

    def _add_samples(self, chunk: JsonChunk[list[TraceJsonEvent]], start: Ints) -> None:
        """Add the values of counters: XLA writes none, but tools that add counters to its files do."""
        rows = [row for row, event in enumerate(chunk.events) if event.ph == "C"]
        raws = chunk.raws() if rows else []
        for row in rows:
            event, arg_values = chunk.events[row], parse_event_args(raws[row]) if row < len(raws) else {}
            values = {CounterKey(event.pid, event.name, as_text(arg)): value for arg, value in arg_values.items()}
            self.samples.add(self._count + row, int(start[row]), values)

    def _number_of_op(self, event: TraceJsonEvent, args: TraceJsonArgs) -> int:
        """Return the number of the op that an event executes."""
        key = (
            event.name, args.hlo_op, args.hlo_module, args.hlo_category, args.long_name, args.tf_op, args.source,
            args.model_flops, args.flops, args.bytes_accessed, args.program_id, args.kind,
        )  # fmt: skip
        number = self._known_ops.get(key)
        if number is None:
            number = self._known_ops[key] = self.ops[_op_of_event(event)]
        return number


def _moved_bytes(arg_values: TraceJsonArgs) -> ArgValue:
    """Return the bytes that a copy or a memset moves."""
    detailed = bytes_in_details(arg_values.memcpy_details or arg_values.memset_details)
    return arg_values.bytes if detailed is None else detailed


def _event_times(chunk: JsonChunk[list[TraceJsonEvent]]) -> tuple[Ints, Ints]:
    start = to_ticks([event.ts for event in chunk.events], PS_PER_US)
    length = to_ticks([event.dur for event in chunk.events], PS_PER_US)
    if start is None:
        start = to_exact_ticks(chunk.starts(), PS_PER_US)
    if length is None:
        length = to_exact_ticks(chunk.lengths(), PS_PER_US)
    return start, length


def _op_of_event(event: TraceJsonEvent) -> TraceJsonOp:
    args = event.args
    return TraceJsonOp(
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


def parse_whole_numbers(values: Sequence[ArgValue]) -> Ints:
    """Parse integers in args as `parse_whole_number` does; `INVALID` for other values."""
    numbers = _parse_each(values, parse_whole_number)
    return np.where((numbers > -(2**62)) & (numbers < 2**62), numbers, INVALID)


def parse_hashes(values: Sequence[ArgValue]) -> Ints:
    """Parse ids in args as `parse_hash` does; `INVALID` for other values."""
    return _parse_each(values, parse_hash)


def _parse_each(values: Sequence[ArgValue], read: Callable[[ArgValue], int | None]) -> Ints:
    """Parse integers in args: all at once, where Int64 holds them."""
    found = np.full(len(values), INVALID, np.int64)
    rows = [row for row, value in enumerate(values) if value is not None]
    given: list[Any] = [values[row] for row in rows]
    try:
        found[rows] = np.fromiter(map(int, given), np.int64, len(given))
    except (ValueError, OverflowError):
        found[rows] = [INVALID if (number := read(value)) is None else number for value in given]
    return found


def parse_hash(value: ArgValue) -> int | None:
    """Parse a 64-bit id in an arg, written with a sign or without, as Int64; None for other values."""
    try:
        number = 2**64 if value is None else int(value)
    except (ValueError, OverflowError):
        return None
    return number - 2**64 * (number >= 2**63) if -(2**63) < number < 2**64 else None


def parse_whole_number(value: ArgValue) -> int | None:
    """Parse an integer in an arg, of either sign; None for other values, and those too large for Int64."""
    if value is None:
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if -(2**62) < number < 2**62 else None


class ProcessHosts(NamedTuple):
    """The names of the hosts, in order, and the position of each process's host.

    A process without a host is of the first. Processes on several hosts may have equal names.
    """

    names: tuple[str, ...]
    of: Mapping[ArgValue, int]

    def name_without_host(self, process: ArgValue, name: str) -> str:
        """Return the name of a process without that of its host; devices have none in theirs."""
        at = None if name.startswith("/device:") else self.of.get(process)
        return name if at is None else name.removesuffix(f" {self.names[at]}")


def find_process_hosts(events: TraceJsonEvents, only_host: str) -> ProcessHosts:
    """Find the hosts named in the file; without any, `only_host` is the only one."""
    name_by_number = dict(sorted(events.hosts.values()))
    position = {number: at for at, number in enumerate(name_by_number)}
    names = tuple(name or only_host for name in name_by_number.values())
    return ProcessHosts(
        names or (only_host,), {process: position[number] for process, (number, _) in events.hosts.items()}
    )
