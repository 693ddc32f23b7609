"""The elements of several Kineto files, edited to fit into one.

Owns the fields that must differ between ranks, and so are rewritten in every element: process, time, the ids that link
events, and the number of the device. Everything else in an element stays, to the byte; but where neither the args nor
the new process of a device's event name the device, the args get its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import polars as pl

from tracehound.export.chrome_document import format_us
from tracehound.export.window_filter import file_time_shift, parse_ps
from tracehound.formats.device_occupancy import matching_devices
from tracehound.formats.json.json_document import encode_json
from tracehound.formats.json.lenient_json import decode_strictly
from tracehound.formats.json.value_columns import as_id
from tracehound.formats.kineto.event_columns import is_device_event
from tracehound.formats.kineto.json_events import RawId
from tracehound.formats.kineto.kineto_counters import renumber_device_process
from tracehound.formats.kineto.kineto_facts import MERGED_RANKS_KEY
from tracehound.formats.kineto.kineto_lanes import device_ordinal, normalize_id
from tracehound.model.facet_schemas import empty_facet
from tracehound.model.file_facts import FileFacts
from tracehound.model.memory_devices import ordinal_of_memory_device
from tracehound.model.trace import Trace, Window, collect_frame
from tracehound.model.units import format_ranks

RawFields = dict[str, msgspec.Raw]

_DECODE_FIELDS: Final = msgspec.json.Decoder(RawFields).decode
_DECODE_JSON: Final = msgspec.json.decode

_LINK_ID_ARGS: Final = ("correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id")
"""Ids that a process counts from 1, in the args of its events."""

_LINK_ID_BITS: Final = 32
_NO_LINK_ID: Final = (1 << _LINK_ID_BITS) - 1
"""CUPTI's unsigned -1; there are no larger ids."""

_DEVICE_ID: Final = "Device Id"
_DEVICE_TYPE: Final = "Device Type"
_CPU: Final = b"0"
"""Device arguments of memory events, and the device type that stands for none."""

_FIRST_FREE_PID: Final = 1 << 22
"""Processes of Linux have smaller ids."""

_METADATA_PHASE: Final = b'"M"'
_NULL: Final = b"null"
_NO_ARGS: Final = msgspec.Raw(b"{}")
_NAMELESS: Final = "process"
"""The reader's name of a process without a name."""


class ProcessIds:
    """The used process ids over all files; those of the ranks' devices are taken from the start."""

    def __init__(self, devices: Iterable[int]) -> None:
        self._taken = set(devices)
        self._fresh = _FIRST_FREE_PID

    def unique_id(self, pid: RawId, ranks: Sequence[int]) -> int | str:
        """An id for a process of these ranks: its own where that is a number and free."""
        if not isinstance(pid, int):
            return f"{format_ranks(ranks)}: {pid}"
        number = pid
        while number in self._taken:
            number, self._fresh = self._fresh, self._fresh + 1
        self._taken.add(number)
        return number


def merged_facts(trace: Trace, window: Window) -> dict[str, Any]:
    """The facts before the events of several files: the common clock, the devices of the ranks, and their job.

    A fact about the run is kept only where all files agree: the number of ranks of the job, and its backend.
    """
    numbers = merged_device_numbers(trace)
    known = [
        {
            **({"name": model} if model else {}),
            **_device_properties(trace.parts[trace.hosts[host].part].facts, device),
            "id": numbers.get(rank, device),
        }
        for rank, host, device, model in trace.ranks.select(_DEVICE_COLUMNS).iter_rows()
        if device is not None and (window.ranks is None or rank in window.ranks)
    ]
    clock = {} if trace.origin_ns is None else {"baseTimeNanoseconds": trace.origin_ns}
    ranks = [rank for rank in trace.ranks["rank"].to_list() if window.ranks is None or rank in window.ranks]
    job = _common_job_facts([part.facts for part in trace.parts])
    about = {"distributedInfo": job} if job else {}
    return {
        "schemaVersion": 1,
        MERGED_RANKS_KEY: ranks,
        **about,
        "deviceProperties": known,
        **clock,
        "displayTimeUnit": "ms",
    }


def _common_job_facts(every: Sequence[FileFacts]) -> dict[str, str | int]:
    """The facts about the job on which all files agree."""
    backends, worlds = {each.backend for each in every}, {each.world_size for each in every}
    job: dict[str, str | int] = {}
    if len(backends) == 1 and (backend := backends.pop()):
        job["backend"] = backend
    if len(worlds) == 1 and (world := worlds.pop()):
        job["world_size"] = world
    return job


def _device_properties(facts: FileFacts, device: int) -> RawFields:
    """A file's properties of a device: those of all devices that it may be, since ROCm numbers them differently."""
    properties = [_DECODE_FIELDS(each.recorded) for each in matching_devices(facts, device)]
    return (
        {name: value for name, value in properties[0].items() if _all_have_value(properties, name, value)}
        if properties
        else {}
    )


def _all_have_value(devices: Sequence[RawFields], name: str, value: msgspec.Raw) -> bool:
    """True where all devices have this value."""
    return all(name in each and bytes(each[name]) == bytes(value) for each in devices)


_DEVICE_COLUMNS: Final = ("rank", "host", "device", "model")


def merged_device_numbers(trace: Trace) -> dict[int, int]:
    """The number of each rank's device, if two files have a device of one number: that of the rank."""
    used = [
        (trace.hosts[host].part, device)
        for host, device in trace.ranks.select("host", "device").iter_rows()
        if device is not None
    ]
    clash = len({device for _, device in used}) < len(used)
    return {rank: rank for rank in trace.ranks["rank"].to_list()} if clash else {}


def element_edits(trace: Trace, ranks: Mapping[int, Sequence[int]]) -> dict[int, ElementEditor]:
    """The edits for the files (by number) with these ranks."""
    numbers = merged_device_numbers(trace)
    ordinals: dict[int, int] = dict(trace.ranks.drop_nulls("device").select("rank", "device").iter_rows())
    of_files = {
        number: {ordinals[rank]: numbers.get(rank, ordinals[rank]) for rank in ranks_of_file if rank in ordinals}
        for number, ranks_of_file in ranks.items()
    }
    processes = ProcessIds(device for ranks_of_file in of_files.values() for device in ranks_of_file.values())
    return {
        number: ElementEditor(
            number,
            ranks_of_file,
            -file_time_shift(trace, number),
            of_files[number],
            _devices_by_memory_number(trace, number),
            processes,
        )
        for number, ranks_of_file in ranks.items()
    }


def _devices_by_memory_number(trace: Trace, number: int) -> Mapping[int, int]:
    """The device for the number under which a file lists memory, where that differs from its kernels', as with ROCm.

    Known where the file has one rank, and memory of one device.
    """
    ranks_of_file = [trace.hosts[host].part == number for host in trace.ranks["host"].to_list()]
    ordinals = trace.ranks.filter(ranks_of_file)["device"].to_list()
    allocated = trace.facets[number].get("allocated", empty_facet("allocated"))
    memory = collect_frame(allocated.filter(pl.col("device") >= 0).select(pl.col("device").unique()))[
        "device"
    ].to_list()
    alone = len(memory) == len(ordinals) == 1 and None not in ordinals
    return {ordinal_of_memory_device(memory[0]): ordinals[0]} if alone else {}


class ElementEditor:
    """Edits the elements of one file; called in the order of the file.

    `moved` (ps) is added to every time. `devices` has the number of each device of the ranks, which is also that of its
    process; `holder` has the device for a number that memory uses instead. Metadata waits for the end, where that of
    processes without any event is left out: every rank of a machine names all its devices.
    """

    def __init__(
        self,
        number: int,
        ranks: Sequence[int],
        moved: int,
        devices: Mapping[int, int],
        holder: Mapping[int, int],
        processes: ProcessIds,
    ) -> None:
        self._ranks = ranks
        self._moved = moved
        self._devices = devices
        self._numbers = _renumber_free_devices(devices)
        self._holders = {
            **self._numbers,
            **{memory_number: devices[device] for memory_number, device in holder.items() if device in devices},
        }
        self._tie = number << _LINK_ID_BITS
        self._number = number
        self._processes = processes
        self._own: dict[RawId, msgspec.Raw] = {}
        self._metadata: list[RawFields] = []

    def __call__(self, text: msgspec.Raw) -> bytes | None:
        """The edited element; None for one that waits."""
        fields = _DECODE_FIELDS(text)
        if bytes(fields.get("ph", b"")) == _METADATA_PHASE:
            self._metadata.append({name: msgspec.Raw(bytes(value)) for name, value in fields.items()})
            return None
        self._edit_common(fields)
        if "id" in fields:
            fields["id"] = msgspec.Raw(encode_json(f"{self._number}:{_DECODE_JSON(fields['id'])}"))
        return msgspec.json.encode(fields)

    def process_metadata(self) -> Iterator[bytes]:
        """The metadata of processes that have events, named after their rank, also for processes without a name."""
        nameless = {pid for pid in self._own if isinstance(pid, int)}
        for fields in self._metadata:
            pid = _parse_id(bytes(fields.get("pid", _NULL)))
            if "pid" not in fields or pid not in self._own:
                continue
            self._edit_common(fields)
            if bytes(fields.get("name", b"")) == b'"process_name"':
                args = _DECODE_FIELDS(fields.get("args", b"{}"))
                if "name" in args:
                    nameless.discard(pid)
                    args["name"] = msgspec.Raw(
                        encode_json(f"{format_ranks(self._ranks)}: {_DECODE_JSON(args['name'])}")
                    )
                    fields["args"] = msgspec.Raw(msgspec.json.encode(args))
            yield msgspec.json.encode(fields)
        name = msgspec.Raw(encode_json({"name": f"{format_ranks(self._ranks)}: {_NAMELESS}"}))
        for pid in sorted(nameless):
            yield msgspec.json.encode(
                {"name": "process_name", "ph": "M", "pid": self._own[pid], "tid": 0, "args": name}
            )

    def _edit_common(self, fields: RawFields) -> None:
        """Edit process, time and args."""
        if "ts" in fields:
            fields["ts"] = self._shifted_time(fields["ts"])
        before = bytes(fields.get("pid", _NULL))
        if "pid" in fields:
            fields["pid"] = self._process_id(_parse_id(before))
        value = fields.get("args", _NO_ARGS)
        if bytes(memoryview(value)[:1]) != b"{":
            return
        args = _DECODE_FIELDS(value)
        edited = self._make_link_ids_unique(args)
        if _is_device_category(bytes(fields.get("cat", b'""'))):
            edited |= self._set_device(args, before, bytes(fields.get("pid", _NULL)))
        elif "device" in args:
            edited |= _renumber_device(args, "device", self._numbers)
        elif _DEVICE_ID in args and bytes(args.get(_DEVICE_TYPE, _CPU)) != _CPU:
            edited |= _renumber_device(args, _DEVICE_ID, self._holders)
        if edited:
            fields["args"] = msgspec.Raw(msgspec.json.encode(args))

    def _process_id(self, pid: RawId) -> msgspec.Raw:
        """The new id of a process, as JSON."""
        if pid not in self._own:
            if isinstance(pid, str):
                device: int | str = self._processes.unique_id(renumber_device_process(pid, self._numbers), self._ranks)
            elif isinstance(pid, int) and pid in self._devices:
                device = self._devices[pid]
            else:
                device = self._processes.unique_id(pid, self._ranks)
            self._own[pid] = msgspec.Raw(encode_json(device))
        return self._own[pid]

    def _make_link_ids_unique(self, args: RawFields) -> bool:
        """Add the number of the file to the ids that link events; returns whether there are any."""
        edited = False
        for name in _LINK_ID_ARGS if self._tie else ():
            if name in args:
                value = normalize_id(as_id(_DECODE_JSON(args[name])))
                if isinstance(value, int) and 0 <= value < _NO_LINK_ID:
                    args[name], edited = msgspec.Raw(encode_json(self._tie + value)), True
        return edited

    def _set_device(self, args: RawFields, before: bytes, after: bytes) -> bool:
        """Set the new device number of a device's event; returns whether it changed.

        The event's process was `before` and is `after`.
        """
        value = bytes(args.get("device", _NULL))
        if value != _NULL:
            before = after = value
        number = self._numbers.get(_parse_ordinal(before), _parse_ordinal(before))
        if _parse_ordinal(after) == number:
            return False
        args["device"] = msgspec.Raw(encode_json(number))
        return True

    def _shifted_time(self, ts: msgspec.Raw) -> msgspec.Raw:
        """The time on the clock of the trace."""
        try:
            return msgspec.Raw(format_us(parse_ps(decode_strictly(ts)) + self._moved).encode())
        except ArithmeticError:  # no time: it is as useless as it was
            return ts


def _renumber_device(args: RawFields, name: str, numbers: Mapping[int, int]) -> bool:
    """Renumber the device in the args of a host's event; returns whether it changed."""
    value = _parse_id(bytes(args[name]))
    number = numbers.get(value, value) if isinstance(value, int) else value
    if number == value:
        return False
    args[name] = msgspec.Raw(encode_json(number))
    return True


def _renumber_free_devices(devices: Mapping[int, int]) -> dict[int, int]:
    """The numbers, and for devices of no rank whose own numbers are taken, those that became free."""
    taken, free = sorted(set(devices.values()) - devices.keys()), sorted(devices.keys() - set(devices.values()))
    return {**dict(zip(taken, free, strict=True)), **devices}


@lru_cache(maxsize=1 << 12)
def _parse_id(text: bytes) -> RawId:
    """An id in JSON, as the reader takes it."""
    return normalize_id(as_id(_DECODE_JSON(text)))


@lru_cache(maxsize=1 << 12)
def _parse_ordinal(text: bytes) -> int:
    """The device of an id in JSON."""
    return device_ordinal(as_id(_DECODE_JSON(text)))


@lru_cache(maxsize=1 << 12)
def _is_device_category(cat: bytes) -> bool:
    """True for a category (JSON) of events that are shown on a device."""
    value = _DECODE_JSON(cat)
    return is_device_event((value, None, None)) if isinstance(value, str) else False
