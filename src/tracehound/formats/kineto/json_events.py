"""Elements of a Kineto file's JSON array, decoded to one class for each phase.

The fields of these classes are all that is read of an element; everything else stays in the file. They cover the
spellings since 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeVar, get_args

import msgspec

from tracehound.formats.json.value_columns import MISSING, as_id, as_text

NO_JSON: Final = msgspec.Raw()
"""Raw value of an arg that an event does not have."""


class EventArgs(msgspec.Struct, gc=False, frozen=True):
    """Args that are read of every event. Raw values are parsed where they are needed, each distinct text once."""

    correlation: Any = MISSING
    external: Any = msgspec.field(default=None, name="External id")
    external_old: Any = msgspec.field(default=MISSING, name="external id")
    stream: int | float | str | None = None
    device: int | float | str | None = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    dtype: Any = None
    group: Any = msgspec.field(default=None, name="Process Group Name")
    description: Any = msgspec.field(default=None, name="Process Group Description")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    size: Any = msgspec.field(default=None, name="Group size")
    collective_number: Any = msgspec.field(default=None, name="Seq")
    elements_in: Any = msgspec.field(default=None, name="In msg nelems")
    elements_out: Any = msgspec.field(default=None, name="Out msg nelems")
    split_in: Any = msgspec.field(default=None, name="In split size")
    split_out: Any = msgspec.field(default=None, name="Out split size")
    source: Any = msgspec.field(default=None, name="Src Rank")
    destination: Any = msgspec.field(default=None, name="Dst Rank")
    awaited_stream: Any = msgspec.field(default=None, name="wait_on_stream")
    recorded: Any = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")
    dims: msgspec.Raw = msgspec.field(default=NO_JSON, name="Input Dims")
    dims_old: msgspec.Raw = msgspec.field(default=NO_JSON, name="Input dims")
    types: msgspec.Raw = msgspec.field(default=NO_JSON, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=NO_JSON, name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=NO_JSON, name="Concrete Inputs")
    stack: msgspec.Raw = msgspec.field(default=NO_JSON, name="Call stack")
    hierarchy: msgspec.Raw = msgspec.field(default=NO_JSON, name="Module Hierarchy")
    sequence: Any = msgspec.field(default=MISSING, name="Sequence number")
    forward: Any = msgspec.field(default=MISSING, name="Fwd thread id")
    grid: msgspec.Raw = NO_JSON
    block: msgspec.Raw = NO_JSON
    registers: Any = msgspec.field(default=MISSING, name="registers per thread")
    shared: Any = msgspec.field(default=MISSING, name="shared memory")
    blocks_per_sm: Any = msgspec.field(default=None, name="blocks per SM")
    warps_per_sm: Any = msgspec.field(default=None, name="warps per SM")
    occupancy: Any = msgspec.field(default=None, name="est. achieved occupancy %")
    copy_bandwidth: Any = msgspec.field(default=None, name="memory bandwidth (GB/s)")
    engine: Any = msgspec.field(default=None, name="HW event name")  # of Intel Gaudi
    occupancy_old: Any = msgspec.field(default=None, name="theoretical occupancy %")  # before May 2021


class InstantArgs(EventArgs, gc=False, frozen=True):
    """Args of an instant, which may record an allocation or a free of memory."""

    change: Any = msgspec.field(default=None, name="Bytes")
    address: Any = msgspec.field(default=None, name="Addr")
    memory_device_type: Any = msgspec.field(default=None, name="Device Type")
    memory_device: Any = msgspec.field(default=None, name="Device Id")
    allocated: Any = msgspec.field(default=msgspec.UNSET, name="Total Allocated")
    reserved: Any = msgspec.field(default=msgspec.UNSET, name="Total Reserved")


class MetadataArgs(msgspec.Struct, gc=False, frozen=True):
    """Args of a metadata event: the name of a process or a thread."""

    name: Any = None


ArgsType = TypeVar("ArgsType", EventArgs, InstantArgs, MetadataArgs)

NO_ARGS: Final = EventArgs()

_ENCODER: Final = msgspec.json.Encoder(enc_hook=str, decimal_format="number")


def args_from_mapping(args: object, kind: type[ArgsType]) -> ArgsType:
    """Args of an event that was decoded leniently."""
    if not isinstance(args, Mapping):
        return kind()
    field_names, raw = _fields_by_spelling(kind)
    found = {name: args[key] for key, name in field_names.items() if key in args}
    found.update({key: as_id(found[key]) for key in ("stream", "device") if key in found})
    found.update({key: _encode_raw(found[key]) for key in raw & found.keys()})
    return kind(**found)


@cache
def _fields_by_spelling(kind: type[EventArgs | InstantArgs | MetadataArgs]) -> tuple[Mapping[str, str], frozenset[str]]:
    """Field names by their spelling in files, and the names of the fields that stay raw JSON."""
    names, defaults = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)), kind()
    return names, frozenset(name for name in names.values() if getattr(defaults, name) is NO_JSON)


def _encode_raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode(value))


RawId = int | float | str | None
"""A process, thread, device or stream as the file writes it."""

RawTime = int | float
"""Microseconds as the file writes them."""


class _TimedEvent(msgspec.Struct, gc=False):
    """An event that is drawn on a lane."""

    cat: str = ""
    name: str = ""
    pid: RawId = None
    tid: RawId = None
    ts: RawTime = math.nan
    dur: RawTime = False  # equals 0, but marks a missing duration


class CompleteEvent(_TimedEvent, tag_field="ph", tag="X", gc=False):
    """An event with a duration."""

    args: EventArgs = NO_ARGS


class InstantEvent(_TimedEvent, tag_field="ph", tag="i", gc=False):
    """An event without a duration."""

    args: InstantArgs = InstantArgs()


class OldInstantEvent(InstantEvent, tag="I", gc=False):
    """An instant in the older spelling of its phase."""


class BeginEvent(_TimedEvent, tag_field="ph", tag="B", gc=False):
    """The begin of a slice that other tools write as two elements."""

    args: EventArgs = NO_ARGS


class EndEvent(BeginEvent, tag="E", gc=False):
    """The end of such a slice: of the last one that began on its thread and has none yet."""


class CounterEvent(msgspec.Struct, tag_field="ph", tag="C", gc=False):
    """Values of a counter at one time; the values are in its args."""

    name: str = ""
    pid: RawId = None
    ts: RawTime = math.nan


class MetadataEvent(msgspec.Struct, tag_field="ph", tag="M", gc=False):
    """Name of a process or a thread."""

    name: str = ""
    pid: RawId = None
    tid: RawId = None
    args: MetadataArgs = MetadataArgs()


class FlowStart(msgspec.Struct, tag_field="ph", tag="s", gc=False):
    """Start of a flow. No field is read: flow events are a fifth to a third of all elements."""


class FlowStep(FlowStart, tag="t", gc=False):
    """Intermediate step of a flow."""


class FlowFinish(FlowStart, tag="f", gc=False):
    """End of a flow."""


class UnknownPhaseEvent(msgspec.Struct, gc=False):
    """An element of another phase, or of none."""

    ph: str


JsonEvent = (
    CompleteEvent
    | InstantEvent
    | OldInstantEvent
    | BeginEvent
    | EndEvent
    | CounterEvent
    | MetadataEvent
    | FlowStart
    | FlowStep
    | FlowFinish
    | UnknownPhaseEvent
)

_EVENT_DECODER: Final[msgspec.json.Decoder[list[JsonEvent]]] = msgspec.json.Decoder(
    list[
        CompleteEvent
        | InstantEvent
        | OldInstantEvent
        | BeginEvent
        | EndEvent
        | CounterEvent
        | MetadataEvent
        | FlowStart
        | FlowStep
        | FlowFinish
    ]
)

_CLASS_OF_PHASE: Final[Mapping[object, type[JsonEvent]]] = {
    kind.__struct_config__.tag: kind for kind in get_args(JsonEvent) if kind is not UnknownPhaseEvent
}


class _AnyPhaseEvent(_TimedEvent, gc=False):
    """An element of any phase."""

    ph: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")

    def to_event(self, decode_args: Callable[[type[Any]], Any]) -> JsonEvent:
        """This element in the class of its phase; `decode_args` decodes its args as an instance of a class."""
        event_class = _CLASS_OF_PHASE.get(self.ph)
        if event_class is None:
            return UnknownPhaseEvent(self.ph)
        if issubclass(event_class, CompleteEvent | BeginEvent):
            return event_class(self.cat, self.name, self.pid, self.tid, self.ts, self.dur, decode_args(EventArgs))
        if issubclass(event_class, InstantEvent):
            return event_class(self.cat, self.name, self.pid, self.tid, self.ts, self.dur, decode_args(InstantArgs))
        if issubclass(event_class, CounterEvent):
            return event_class(self.name, self.pid, self.ts)
        return (
            MetadataEvent(self.name, self.pid, self.tid, decode_args(MetadataArgs))
            if issubclass(event_class, MetadataEvent)
            else FlowStart()
        )


_ANY_PHASE_DECODER: Final = msgspec.json.Decoder(list[_AnyPhaseEvent])


def decode_events(data: memoryview | bytes) -> list[JsonEvent]:
    """Decode a JSON list of elements. Raises msgspec's errors if it is not one."""
    text = bytes(data)  # raw args share memory with this text; the reader reuses its own buffer
    try:
        return _EVENT_DECODER.decode(text)
    except msgspec.ValidationError:  # most likely a phase that PyTorch does not write; this takes 1.5 times as long
        return [each.to_event(partial(_decode_args, each.args)) for each in _ANY_PHASE_DECODER.decode(text)]


def _decode_args(args: msgspec.Raw, kind: type[ArgsType]) -> ArgsType:
    return msgspec.json.decode(args, type=kind)


def event_from_mapping(event: Mapping[str, Any], _: bytes) -> JsonEvent:
    """An element that was repaired, as an event."""
    element = _AnyPhaseEvent(
        ph=as_text(event.get("ph")),
        cat=as_text(event.get("cat")),
        name=as_text(event.get("name")),
        pid=as_id(event.get("pid")),
        tid=as_id(event.get("tid")),
        ts=event.get("ts", math.nan),
        dur=False if event.get("dur") is None else event["dur"],
    )
    return element.to_event(partial(args_from_mapping, event.get("args")))
