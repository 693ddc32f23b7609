"""The files of PyTorch's autograd profiler before Kineto: no categories, and one process for all devices.

Owns what runs in its two processes, and which of its arrows tell who launched what: it writes no ids but theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.members import unmarked
from tracehound.formats.kineto.piece import Signature
from tracehound.intervals import Ints

_DEVICES: Final = "CUDA functions"
_KINDS: Final[Mapping[Id, str]] = {_DEVICES: "kernel", "CPU functions": "op"}
"""What runs in each process; a thread of that of the devices is a device."""

LAUNCHING: Final = "cpu_to_cuda"
"""The category of the arrows from operators to what they launched."""


def on_devices(pid: Id) -> bool:
    """Whether all that is filed under a process runs on devices, which are its threads."""
    return unmarked(pid) == _DEVICES


def beside(pid: Id, tid: Id) -> Id:
    """The process for the curves of the device of an event: its own, but where that is one for all devices."""
    return f"{pid.removesuffix(_DEVICES)}GPU {tid}" if isinstance(pid, str) and on_devices(pid) else pid


def kind_of(signature: Signature) -> str | None:
    """What an event is by its process, where the autograd profiler wrote it; None for all others."""
    cat, pid, _ = signature
    return None if cat else _KINDS.get(unmarked(pid))


class End(NamedTuple):
    """An end of an arrow: where it is in the file, whether the arrow begins there, its id, and the event it is at.

    The event has the process and the thread of the end, and starts (ns) when the end does.
    """

    record: int
    begins: bool
    id: Id
    pid: Id
    tid: Id
    start: int


def ends(elements: Sequence[msgspec.Raw], records: Ints, starts: Ints) -> list[End]:
    """The ends, among these of arrows as JSON, of those that tell of launches; what cannot be read is left out."""
    found = list[End]()
    for element, record, start in zip(elements, records.tolist(), starts.tolist(), strict=True):
        with suppress(msgspec.MsgspecError, RecursionError):
            said = _SAID(element)
            if said.cat == LAUNCHING:
                found.append(End(record, said.ph == "s", said.id, said.pid, said.tid, start))
    return found


class _Said(msgspec.Struct, gc=False):
    ph: str
    id: Id
    pid: Id
    tid: Id = None
    cat: Any = ""


_SAID: Final = msgspec.json.Decoder(_Said).decode
