"""The elements of several Kineto files made fit for one.

Owns what must differ between ranks, and so is written anew in every element: process, time, the ids that tie events
together, and the number of the device. Whatever else an element holds stays as it is, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tracehound.export.document import us
from tracehound.export.narrow import ps, shift
from tracehound.formats.json.elements import encoded
from tracehound.formats.json.text import STRICT
from tracehound.formats.kineto.facts import MERGED
from tracehound.formats.residency import listed
from tracehound.trace import Trace, Window
from tracehound.units import which_ranks

Fields = dict[str, msgspec.Raw]

_FIELDS: Final = msgspec.json.Decoder(Fields).decode
_ANY: Final = msgspec.json.decode

_TIES: Final = ("correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id")
"""Ids that a process counts from 1, in the args of its events."""

_TIE_BITS: Final = 32
_NO_TIE: Final = (1 << _TIE_BITS) - 1
"""CUPTI's unsigned -1; there are no larger ids."""

_FRESH: Final = 1 << 22
"""Processes of Linux have smaller ids."""

_METADATA: Final = b'"M"'


class Processes:
    """Which ids of processes are taken, over all files."""

    def __init__(self) -> None:
        self._taken = set[int]()
        self._fresh = _FRESH

    def own(self, pid: object, ranks: Sequence[int]) -> msgspec.Raw:
        """An id for a process of these ranks: its own where that is a number and free."""
        if not isinstance(pid, int):
            return msgspec.Raw(encoded(f"{which_ranks(ranks)}: {pid}"))
        number = next((number for number in (pid, ranks[0]) if number not in self._taken), self._fresh)
        self._fresh += number == self._fresh
        self._taken.add(number)
        return msgspec.Raw(encoded(number))


def facts(trace: Trace, window: Window) -> dict[str, Any]:
    """What stands before the events of several files: the common clock, the devices of the ranks, and their job.

    Of what each file says of its own run only what all say is kept: how many ranks the job has, and its backend.
    """
    numbers = devices(trace)
    known = [
        {
            **({"name": model} if model else {}),
            **_listed(trace.parts[trace.hosts[host].part].facts, device),
            "id": numbers.get(rank, device),
        }
        for rank, host, device, model in trace.ranks.select(_DEVICE).iter_rows()
        if device is not None and (window.ranks is None or rank in window.ranks)
    ]
    clock = {} if trace.origin_ns is None else {"baseTimeNanoseconds": trace.origin_ns}
    ranks = [rank for rank in trace.ranks["rank"].to_list() if window.ranks is None or rank in window.ranks]
    job = _of_all([part.facts for part in trace.parts])
    about = {"distributedInfo": job} if job else {}
    return {"schemaVersion": 1, MERGED: ranks, **about, "deviceProperties": known, **clock, "displayTimeUnit": "ms"}


def _of_all(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all files say of their job, in the same words."""
    return {name: value for name in _JOB if (value := every[0].get(name)) and all(f.get(name) == value for f in every)}


def _listed(facts: Mapping[str, Any], device: int) -> Mapping[str, Any]:
    """What a file says of a device."""
    return next((each for each in listed(facts) if each.get("id") == device), {})


_DEVICE: Final = ("rank", "host", "device", "model")

_JOB: Final = ("backend", "world_size")


def devices(trace: Trace) -> dict[int, int]:
    """For each rank the number of its device, where two files have a device of one number: that of the rank."""
    used = [
        (trace.hosts[host].part, device)
        for host, device in trace.ranks.select("host", "device").iter_rows()
        if device is not None
    ]
    clash = len({device for _, device in used}) < len(used)
    return {rank: rank for rank in trace.ranks["rank"].to_list()} if clash else {}


def edits(trace: Trace, ranks: Mapping[int, Sequence[int]]) -> dict[int, Edit]:
    """How the files (by number) that hold these ranks are made fit for one."""
    processes, numbers = Processes(), devices(trace)
    ordinals = dict(trace.ranks.select("rank", "device").iter_rows())
    return {
        number: Edit(
            number,
            of_file,
            -shift(trace, number),
            {ordinals[rank]: numbers[rank] for rank in of_file if rank in numbers and ordinals[rank] is not None},
            processes,
        )
        for number, of_file in ranks.items()
    }


class Edit:
    """Makes the elements of one file fit; asked in the order of the file.

    `moved` (ps) is added to every time. `devices` has new numbers for devices. Metadata waits for the end, where that
    of processes without any event is left out: every rank of a machine names all its devices.
    """

    def __init__(
        self,
        number: int,
        ranks: Sequence[int],
        moved: int,
        devices: Mapping[int, int],
        processes: Processes,
    ) -> None:
        self._ranks = ranks
        self._moved = moved
        self._devices = {str(old).encode(): msgspec.Raw(encoded(new)) for old, new in devices.items()}
        self._tie = number << _TIE_BITS
        self._number = number
        self._processes = processes
        self._own: dict[bytes, msgspec.Raw] = {}
        self._metadata: list[Fields] = []

    def __call__(self, text: msgspec.Raw) -> bytes | None:
        """The element as it is to be written; None for one that waits."""
        fields = _FIELDS(text)
        if bytes(fields.get("ph", b"")) == _METADATA:
            self._metadata.append({name: msgspec.Raw(bytes(value)) for name, value in fields.items()})
            return None
        self._common(fields)
        if "id" in fields:
            fields["id"] = msgspec.Raw(encoded(f"{self._number}:{_ANY(fields['id'])}"))
        return msgspec.json.encode(fields)

    def rest(self) -> Iterator[bytes]:
        """The metadata of processes that have events, which are named after their rank."""
        for fields in self._metadata:
            if bytes(fields.get("pid", b"")) not in self._own:
                continue
            self._common(fields)
            if bytes(fields.get("name", b"")) == b'"process_name"':
                args = _FIELDS(fields.get("args", b"{}"))
                if "name" in args:
                    args["name"] = msgspec.Raw(encoded(f"{which_ranks(self._ranks)}: {_ANY(args['name'])}"))
                    fields["args"] = msgspec.Raw(msgspec.json.encode(args))
            yield msgspec.json.encode(fields)

    def _common(self, fields: Fields) -> None:
        """Process, time and args."""
        if "ts" in fields:
            fields["ts"] = self._time(fields["ts"])
        if "pid" in fields:
            pid = bytes(fields["pid"])
            if pid not in self._own:
                self._own[pid] = self._processes.own(_ANY(pid), self._ranks)
            fields["pid"] = self._own[pid]
        if "args" in fields and bytes(memoryview(fields["args"])[:1]) == b"{":
            fields["args"] = self._args(fields["args"])

    def _args(self, text: msgspec.Raw) -> msgspec.Raw:
        args, edited = _FIELDS(text), False
        for name in _TIES:
            if name in args and self._tie:
                value = _ANY(args[name])
                if isinstance(value, int) and 0 <= value < _NO_TIE:
                    args[name], edited = msgspec.Raw(encoded(self._tie + value)), True
        if self._devices and "device" in args and (new := self._devices.get(bytes(args["device"]))):
            args["device"], edited = new, True
        return msgspec.Raw(msgspec.json.encode(args)) if edited else text

    def _time(self, ts: msgspec.Raw) -> msgspec.Raw:
        try:
            return msgspec.Raw(us(ps(STRICT(ts)) + self._moved).encode())
        except ArithmeticError:  # no time: it is as useless as it was
            return ts
