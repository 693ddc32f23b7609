"""The elements of several Kineto files made fit for one.

Owns what must differ between ranks, and so is written anew in every element: process, time, the ids that tie events
together, and the number of the device. Whatever else an element holds stays as it is, to the byte; but where neither
the args nor the new process of a device's event tell the device, the args get its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import polars as pl

from tracehound.export.document import us
from tracehound.export.narrow import ps, shift
from tracehound.facets import empty
from tracehound.file_facts import FileFacts
from tracehound.formats.json.columns import as_id
from tracehound.formats.json.elements import encoded
from tracehound.formats.json.text import STRICT
from tracehound.formats.kineto.counters import renumbered
from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.facts import MERGED
from tracehound.formats.kineto.lanes import ordinal, tidy
from tracehound.formats.kineto.piece import on_device
from tracehound.formats.residency import candidates
from tracehound.trace import Trace, Window, collected
from tracehound.units import which_ranks

Fields = dict[str, msgspec.Raw]

_FIELDS: Final = msgspec.json.Decoder(Fields).decode
_ANY: Final = msgspec.json.decode

_TIES: Final = ("correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id")
"""Ids that a process counts from 1, in the args of its events."""

_TIE_BITS: Final = 32
_NO_TIE: Final = (1 << _TIE_BITS) - 1
"""CUPTI's unsigned -1; there are no larger ids."""

_DEVICE_ID: Final = "Device Id"
_DEVICE_TYPE: Final = "Device Type"
_CPU: Final = b"0"
"""What memory events tell of the device that they happen on, and the type that is none."""

_FRESH: Final = 1 << 22
"""Processes of Linux have smaller ids."""

_METADATA: Final = b'"M"'
_NULL: Final = b"null"
_NO_ARGS: Final = msgspec.Raw(b"{}")
_NAMELESS: Final = "process"
"""What the reader calls a process without a name."""


class Processes:
    """Which ids of processes are taken, over all files: those of the ranks' devices from the start."""

    def __init__(self, devices: Iterable[int]) -> None:
        self._taken = set(devices)
        self._fresh = _FRESH

    def own(self, pid: Id, ranks: Sequence[int]) -> int | str:
        """An id for a process of these ranks: its own where that is a number and free."""
        if not isinstance(pid, int):
            return f"{which_ranks(ranks)}: {pid}"
        number = pid
        while number in self._taken:
            number, self._fresh = self._fresh, self._fresh + 1
        self._taken.add(number)
        return number


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


def _of_all(every: Sequence[FileFacts]) -> dict[str, str | int]:
    """What all files say of their job, in the same words."""
    backends, worlds = {each.backend for each in every}, {each.world_size for each in every}
    job: dict[str, str | int] = {}
    if len(backends) == 1 and (backend := backends.pop()):
        job["backend"] = backend
    if len(worlds) == 1 and (world := worlds.pop()):
        job["world_size"] = world
    return job


def _listed(facts: FileFacts, device: int) -> Fields:
    """What a file says of a device: what holds for all that it may be, which ROCm counts in another way."""
    found = [_FIELDS(each.recorded) for each in candidates(facts, device)]
    return {name: value for name, value in found[0].items() if _alike(found, name, value)} if found else {}


def _alike(devices: Sequence[Fields], name: str, value: msgspec.Raw) -> bool:
    return all(name in each and bytes(each[name]) == bytes(value) for each in devices)


_DEVICE: Final = ("rank", "host", "device", "model")


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
    numbers = devices(trace)
    ordinals: dict[int, int] = dict(trace.ranks.drop_nulls("device").select("rank", "device").iter_rows())
    of_files = {
        number: {ordinals[rank]: numbers.get(rank, ordinals[rank]) for rank in of_file if rank in ordinals}
        for number, of_file in ranks.items()
    }
    processes = Processes(device for of_file in of_files.values() for device in of_file.values())
    return {
        number: Edit(number, of_file, -shift(trace, number), of_files[number], _holder(trace, number), processes)
        for number, of_file in ranks.items()
    }


def _holder(trace: Trace, number: int) -> Mapping[int, int]:
    """The device whose memory a file tells under another number than that of its kernels, as ROCm does, by that.

    Known where the file has one rank, and memory of one device.
    """
    of_file = [trace.hosts[host].part == number for host in trace.ranks["host"].to_list()]
    ordinals = trace.ranks.filter(of_file)["device"].to_list()
    allocated = trace.facets[number].get("allocated", empty("allocated"))
    memory = collected(allocated.filter(pl.col("device") >= 0).select(pl.col("device").unique()))["device"].to_list()
    alone = len(memory) == len(ordinals) == 1 and None not in ordinals
    return dict(zip(memory, ordinals, strict=True)) if alone else {}


class Edit:
    """Makes the elements of one file fit; asked in the order of the file.

    `moved` (ps) is added to every time. `devices` has for each device of the ranks its number, which is that of its
    process too; `holder` has the device for a number that memory is told under instead. Metadata waits for the end,
    where that of processes without any event is left out: every rank of a machine names all its devices.
    """

    def __init__(
        self,
        number: int,
        ranks: Sequence[int],
        moved: int,
        devices: Mapping[int, int],
        holder: Mapping[int, int],
        processes: Processes,
    ) -> None:
        self._ranks = ranks
        self._moved = moved
        self._devices = devices
        self._numbers = _apart(devices)
        self._holders = {**self._numbers, **{told: devices[own] for told, own in holder.items() if own in devices}}
        self._tie = number << _TIE_BITS
        self._number = number
        self._processes = processes
        self._own: dict[Id, msgspec.Raw] = {}
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
        """The metadata of processes that have events, which are named after their rank: those without a name, too."""
        nameless = {pid for pid in self._own if isinstance(pid, int)}
        for fields in self._metadata:
            pid = _id(bytes(fields.get("pid", _NULL)))
            if "pid" not in fields or pid not in self._own:
                continue
            self._common(fields)
            if bytes(fields.get("name", b"")) == b'"process_name"':
                args = _FIELDS(fields.get("args", b"{}"))
                if "name" in args:
                    nameless.discard(pid)
                    args["name"] = msgspec.Raw(encoded(f"{which_ranks(self._ranks)}: {_ANY(args['name'])}"))
                    fields["args"] = msgspec.Raw(msgspec.json.encode(args))
            yield msgspec.json.encode(fields)
        name = msgspec.Raw(encoded({"name": f"{which_ranks(self._ranks)}: {_NAMELESS}"}))
        for pid in sorted(nameless):
            yield msgspec.json.encode(
                {"name": "process_name", "ph": "M", "pid": self._own[pid], "tid": 0, "args": name}
            )

    def _common(self, fields: Fields) -> None:
        """Process, time and args."""
        if "ts" in fields:
            fields["ts"] = self._time(fields["ts"])
        before = bytes(fields.get("pid", _NULL))
        if "pid" in fields:
            fields["pid"] = self._process(_id(before))
        said = fields.get("args", _NO_ARGS)
        if bytes(memoryview(said)[:1]) != b"{":
            return
        args = _FIELDS(said)
        edited = self._tied(args)
        if _on_device(bytes(fields.get("cat", b'""'))):
            edited |= self._drawn(args, before, bytes(fields.get("pid", _NULL)))
        elif "device" in args:
            edited |= _told(args, "device", self._numbers)
        elif _DEVICE_ID in args and bytes(args.get(_DEVICE_TYPE, _CPU)) != _CPU:
            edited |= _told(args, _DEVICE_ID, self._holders)
        if edited:
            fields["args"] = msgspec.Raw(msgspec.json.encode(args))

    def _process(self, pid: Id) -> msgspec.Raw:
        if pid not in self._own:
            if isinstance(pid, str):
                own: int | str = self._processes.own(renumbered(pid, self._numbers), self._ranks)
            elif isinstance(pid, int) and pid in self._devices:
                own = self._devices[pid]
            else:
                own = self._processes.own(pid, self._ranks)
            self._own[pid] = msgspec.Raw(encoded(own))
        return self._own[pid]

    def _tied(self, args: Fields) -> bool:
        """Give the ids of a process that tie events together the number of the file; whether there are any."""
        edited = False
        for name in _TIES if self._tie else ():
            if name in args:
                value = tidy(as_id(_ANY(args[name])))
                if isinstance(value, int) and 0 <= value < _NO_TIE:
                    args[name], edited = msgspec.Raw(encoded(self._tie + value)), True
        return edited

    def _drawn(self, args: Fields, before: bytes, after: bytes) -> bool:
        """Let an event of a device tell its new number; whether it did not. Its process was `before` and is `after`."""
        said = bytes(args.get("device", _NULL))
        if said != _NULL:
            before = after = said
        number = self._numbers.get(_ordinal(before), _ordinal(before))
        if _ordinal(after) == number:
            return False
        args["device"] = msgspec.Raw(encoded(number))
        return True

    def _time(self, ts: msgspec.Raw) -> msgspec.Raw:
        try:
            return msgspec.Raw(us(ps(STRICT(ts)) + self._moved).encode())
        except ArithmeticError:  # no time: it is as useless as it was
            return ts


def _told(args: Fields, name: str, numbers: Mapping[int, int]) -> bool:
    """Renumber the device that an event of a host tells of; whether it has another number now."""
    said = _id(bytes(args[name]))
    number = numbers.get(said, said) if isinstance(said, int) else said
    if number == said:
        return False
    args[name] = msgspec.Raw(encoded(number))
    return True


def _apart(devices: Mapping[int, int]) -> dict[int, int]:
    """The same numbers, and for devices of no rank whose own ones these are, those that became free."""
    taken, free = sorted(set(devices.values()) - devices.keys()), sorted(devices.keys() - set(devices.values()))
    return {**dict(zip(taken, free, strict=True)), **devices}


@lru_cache(maxsize=1 << 12)
def _id(text: bytes) -> Id:
    """An id in JSON, as the reader takes it."""
    return tidy(as_id(_ANY(text)))


@lru_cache(maxsize=1 << 12)
def _ordinal(text: bytes) -> int:
    """The device that such an id means."""
    return ordinal(as_id(_ANY(text)))


@lru_cache(maxsize=1 << 12)
def _on_device(cat: bytes) -> bool:
    """Whether events of a category (JSON) are drawn on a device."""
    said = _ANY(cat)
    return on_device((said, None, None)) if isinstance(said, str) else False
