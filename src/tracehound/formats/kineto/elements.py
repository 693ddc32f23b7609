"""The elements of a Kineto file's array -> objects of one class for each phase.

Owns which fields of an element are read, and the phases that PyTorch writes. Knows no columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

import msgspec

from tracehound.formats.json.columns import as_id, as_text
from tracehound.formats.kineto.args import NO_ARGS, Args, InstantArgs, NameArgs, SomeArgs, read

Id = int | float | str | None
"""A process, thread, device or stream, as the file spells it."""

Time = int | float
"""Microseconds, as the file spells them."""


class _Event(msgspec.Struct, gc=False):
    """What is drawn on a lane; what it carries depends on its phase."""

    cat: str = ""
    name: str = ""
    pid: Id = None
    tid: Id = None
    ts: Time = math.nan
    dur: Time = False  # which is 0, and tells that the file says nothing


class Complete(_Event, tag_field="ph", tag="X", gc=False):
    """An event with a length."""

    args: Args = NO_ARGS


class Instant(_Event, tag_field="ph", tag="i", gc=False):
    """An event without one."""

    args: InstantArgs = InstantArgs()


class OldInstant(Instant, tag="I", gc=False):
    """The same, as it was spelled first."""


class Counter(msgspec.Struct, tag_field="ph", tag="C", gc=False):
    """The values of a counter at one time; they are in its args."""

    name: str = ""
    pid: Id = None
    ts: Time = math.nan


class Metadata(msgspec.Struct, tag_field="ph", tag="M", gc=False):
    """The name of a process or a thread."""

    name: str = ""
    pid: Id = None
    tid: Id = None
    args: NameArgs = NameArgs()


class Arrow(msgspec.Struct, tag_field="ph", tag="s", gc=False):
    """Where a flow begins. Nothing is read of flows: their ends are a fifth to a third of all elements."""


class ArrowStep(Arrow, tag="t", gc=False):
    """What a flow passes on its way."""


class ArrowEnd(Arrow, tag="f", gc=False):
    """The other end."""


class Strange(msgspec.Struct, gc=False):
    """An element of another phase, or of none."""

    ph: str


Element = Complete | Instant | OldInstant | Counter | Metadata | Arrow | ArrowStep | ArrowEnd | Strange

_ELEMENTS: Final[msgspec.json.Decoder[list[Element]]] = msgspec.json.Decoder(
    list[Complete | Instant | OldInstant | Counter | Metadata | Arrow | ArrowStep | ArrowEnd]
)

_KNOWN: Final[Mapping[object, type[Element]]] = {
    kind.__struct_config__.tag: kind for kind in get_args(Element) if kind is not Strange
}


class _Any(_Event, gc=False):
    """An element of whatever phase."""

    ph: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")

    def element(self, args: Callable[[type[Any]], Any]) -> Element:
        """The same in the class of its phase; `args` reads its args as those of a class."""
        kind = _KNOWN.get(self.ph)
        if kind is None:
            return Strange(self.ph)
        if issubclass(kind, Complete):
            return kind(self.cat, self.name, self.pid, self.tid, self.ts, self.dur, args(Args))
        if issubclass(kind, Instant):
            return kind(self.cat, self.name, self.pid, self.tid, self.ts, self.dur, args(InstantArgs))
        if issubclass(kind, Counter):
            return kind(self.name, self.pid, self.ts)
        return Metadata(self.name, self.pid, self.tid, args(NameArgs)) if issubclass(kind, Metadata) else Arrow()


_ANY: Final = msgspec.json.Decoder(list[_Any])


def decoded(data: memoryview | bytes) -> list[Element]:
    """The elements of a list. Raises msgspec's errors for what is none."""
    text = bytes(data)  # raw args share the memory of what was decoded, which the reader uses again
    try:
        return _ELEMENTS.decode(text)
    except msgspec.ValidationError:  # of a phase that PyTorch does not write, most likely: takes half as much again
        return [each.element(partial(_args, each.args)) for each in _ANY.decode(text)]


def _args(args: msgspec.Raw, kind: type[SomeArgs]) -> SomeArgs:
    return msgspec.json.decode(args, type=kind)


def lenient(event: Mapping[str, Any], _: bytes) -> Element:
    """An element that had to be repaired."""
    found = _Any(
        ph=as_text(event.get("ph")),
        cat=as_text(event.get("cat")),
        name=as_text(event.get("name")),
        pid=as_id(event.get("pid")),
        tid=as_id(event.get("tid")),
        ts=event.get("ts", math.nan),
        dur=False if event.get("dur") is None else event["dur"],
    )
    return found.element(partial(read, event.get("args")))
