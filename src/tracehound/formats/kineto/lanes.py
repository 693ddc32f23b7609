"""The lanes, ranks and names of a Kineto file.

Owns which lane an event is drawn on and what the lanes and ranks are called. Knows no bytes and no times.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.assembly.assemble import RAW_LANES
from tracehound.formats.json.columns import MISSING
from tracehound.formats.kineto.columns import Columns, number_in
from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.members import Members, members, unmarked
from tracehound.formats.kineto.names import category, thread_name
from tracehound.formats.kineto.piece import Piece, Signature
from tracehound.trace import RANKS

LEGACY_DEVICE: Final = "CUDA functions"
"""The process that the autograd profiler, older than Kineto, files all kernels under; it writes no categories."""

_SHOWN: Final = {"annotations": "ranges"}
"""Names of roles that leave room for the number of the stream on a narrow screen."""

_NO_STREAM: Final = 2**32 - 1
"""CUPTI's unsigned -1."""


class Thread(NamedTuple):
    """A host's thread; ids that are numbers are ints, however the file spells them."""

    pid: Id
    tid: Id


class Stream(NamedTuple):
    """A lane of a device: its role, which device, which stream (-1: none), and the process that it is filed under."""

    role: str
    device: int
    stream: int
    pid: Id


LaneKey = Thread | Stream
"""What tells the lanes of a file apart."""


class Device(NamedTuple):
    """A device of one of the runs that a file was merged of."""

    member: int
    ordinal: int


def lane_keys(columns: Columns, events: Piece) -> tuple[list[LaneKey], npt.NDArray[np.int32]]:
    """The lanes of a segment, and which of them every event is on."""
    numbers: dict[LaneKey, int] = {}
    signatures = list(columns.signatures)
    of_thread = [numbers.setdefault(_thread(pid, tid), len(numbers)) for _, pid, tid in signatures]
    of_device = [numbers.setdefault(_stream(signatures[code], *said), len(numbers)) for code, *said in columns.devices]
    lane = np.array(of_thread, np.int32)[events.signature]
    on_device = events.device >= 0
    lane[on_device] = np.array(of_device, np.int32)[events.device[on_device]]
    return list(numbers), lane


@dataclass(frozen=True)
class Placed:
    """The lanes, the row of the lane of each key, the ranks, and the names of the processes that drive them.

    `members` are the runs that the file was merged of: each has a host of its number.
    """

    lanes: pl.DataFrame
    row: Mapping[LaneKey, int]
    ranks: pl.DataFrame
    hosts: tuple[str, ...]
    members: Members


def place(
    used: Mapping[LaneKey, int],
    named: Mapping[tuple[str, Id, Id], str],
    family: str,
    metadata: Mapping[str, Any],
) -> Placed:
    """What the lanes of a file are; `used` says how many events each has.

    One rank for each device that works, else a single one without a device. The rank that the file records is that of
    the device with most events: a process may touch others, as when it sets memory of the first. Of a file that was
    merged each run has its own host and ranks, numbered by its mark.
    """
    names = {(what, tidy(pid), tidy(tid)): name.strip() for (what, pid, tid), name in named.items()}
    threads = _Threads(names, {key: count for key, count in used.items() if isinstance(key, Thread) and count})
    whose = members(dict.fromkeys(key.pid for key, count in used.items() if count), threads.processes)
    working = Counter[Device]()
    for key, count in used.items():
        if isinstance(key, Stream) and key.role == "stream" and count:
            working[Device(whose.member(key.pid), key.device)] += count
    devices = sorted(working)
    lanes, row, known = list[dict[str, object]](), dict[LaneKey, int](), dict[tuple[int, LaneKey], int]()
    for key in used:
        member = whose.member(key.pid)
        own = member, (key._replace(pid=None) if isinstance(key, Stream) else key)
        row[key] = known.setdefault(own, len(lanes))
        if row[key] == len(lanes):
            lanes.append(_stream_lane(key, member, devices) if isinstance(key, Stream) else threads.lane(key, member))
    called = family or "GPU"
    return Placed(
        lanes=pl.DataFrame(lanes, schema=RAW_LANES, orient="row"),
        row=row,
        ranks=(_merged_ranks(working, called, metadata, whose) if whose.marked else _ranks(working, called, metadata)),
        hosts=tuple(threads.host(metadata, whose, member) for member in range(len(whose.marks))),
        members=whose,
    )


def _thread(pid: Id, tid: Id) -> LaneKey:
    if pid == LEGACY_DEVICE:
        return Stream("stream", 0, max(number_in(tid), 0), pid)
    return Thread(tidy(pid), tidy(tid))


def _stream(signature: Signature, device: Id, stream: Id) -> Stream:
    """The lane of a device's event: by its args, else by the process and the thread."""
    cat, pid, tid = signature
    ordinal, number = number_in(pid if device is None else device), number_in(tid if stream is None else stream)
    return Stream(
        role=category(cat).row,
        device=ordinal if 0 <= ordinal < 2**31 else 0,
        stream=MISSING if number >= _NO_STREAM else number,
        pid=tidy(pid),
    )


def tidy(value: Id) -> Id:
    """An id in text as a number: files spell one thread both ways."""
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value


_WHOLE: Final = re.compile(r"-?[0-9]{1,30}")


def _stream_lane(key: Stream, member: int, devices: Sequence[Device]) -> dict[str, object]:
    """A lane of a device; of one that does no work (all it has are waits) it is drawn with the host."""
    device = Device(member, key.device)
    return {
        "host": member,
        "rank": devices.index(device) if device in devices else None,
        "role": key.role,
        "work": key.role == "stream",
        "name": _SHOWN.get(key.role, key.role) + (f" {key.stream}" if key.stream >= 0 else ""),
        "process": "",
        "thread": "",
        "stream": None if key.stream < 0 else key.stream,
        "order": min(max(key.stream, 0), 2**31 - 1),
    }


@dataclass(frozen=True)
class _Threads:
    """The host's threads: their recorded names, and how many events each has."""

    named: Mapping[tuple[str, Id, Id], str]
    used: Mapping[Thread, int]

    @cached_property
    def _fullness(self) -> list[int]:
        return sorted(-count for count in self.used.values())

    @cached_property
    def processes(self) -> dict[Id, str]:
        """The first name that each process was given."""
        return {pid: name for (what, pid, _), name in reversed(list(self.named.items())) if what == "process_name"}

    def lane(self, key: Thread, member: int) -> dict[str, object]:
        """The main thread first, then by the number of events."""
        return {
            "host": member,
            "rank": None,
            "role": "thread",
            "work": False,
            "name": thread_name(self.named.get(("thread_name", *key), ""), key.tid),
            "process": self.processes.get(key.pid) or str(key.pid),
            "thread": str(key.tid),
            "stream": None,
            "order": 0 if _is_main(key) else 1 + bisect_left(self._fullness, -self.used.get(key, 0)),
        }

    def host(self, metadata: Mapping[str, Any], whose: Members, member: int) -> str:
        """The process of one of the runs: its machine where recorded, its name and its id.

        Where no thread has events, that with a name and the highest number: processes of devices have their ordinals.
        """
        mine = [key for key in self.used if whose.member(key.pid) == member]
        main = max(mine, key=lambda key: (_is_main(key), self.used[key]), default=None)
        rest = (each for each in self.processes if isinstance(each, int) and whose.member(each) == member)
        pid = max(rest, default=None) if main is None else main.pid
        name = self.processes.get(pid) or "process"
        if whose.marked:
            name, pid = str(unmarked(name)), unmarked(pid)
        process = "" if pid in ("", None) else f"{name} ({pid})"
        machine = None if whose.marked else metadata.get("host_name")
        return ": ".join(part for part in (machine if isinstance(machine, str) else "", process) if part) or "host"


def _is_main(key: Thread) -> bool:
    """Whether this is the thread with which its process began."""
    return key.tid == unmarked(key.pid)


def _merged_ranks(
    working: Mapping[Device, int], family: str, metadata: Mapping[str, Any], whose: Members
) -> pl.DataFrame:
    """The ranks of devices in a file that was merged: what it records of itself is of one of its runs alone.

    A run has the rank of its mark where it has one device, or none.
    """
    ordinals = sorted({device.ordinal for device in working})
    many = Counter(device.member for device in working)
    idle = [Device(member, -1) for member in range(len(whose.marks))]
    ranks = [rank if many[member] < 2 else None for member, rank in enumerate(whose.ranks)]
    rows = [
        {"rank": ranks[device.member], "host": device.member,
         "device": device.ordinal if device.ordinal >= 0 else None,
         "label": f"{family} {device.ordinal}" if device.ordinal >= 0 else "CPU",
         "model": _model(device.ordinal, ordinals, metadata), "inferred": ranks[device.member] is None}
        for device in sorted(working or idle)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=RANKS)


def _ranks(working: Mapping[Device, int], family: str, metadata: Mapping[str, Any]) -> pl.DataFrame:
    """The ranks of devices, of which `working` has the numbers of events."""
    rank = claimed_rank(metadata.get("distributedInfo"))
    devices = {device.ordinal: working[device] for device in sorted(working)}
    if not devices:
        rows = [{"rank": rank, "host": 0, "device": None, "label": "CPU", "model": None, "inferred": rank is None}]
        return pl.DataFrame(rows, schema=RANKS)
    own = max(devices, key=lambda device: (devices[device], -device))
    rows = [
        {"rank": rank if device == own else None, "host": 0, "device": device, "label": f"{family} {device}",
         "model": _model(device, list(devices), metadata), "inferred": rank is None or device != own}
        for device in devices
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=RANKS)


def claimed_rank(distributed: object) -> int | None:
    """The rank that a file records in its ``distributedInfo``, if it does."""
    rank = number_in(distributed.get("rank")) if isinstance(distributed, Mapping) else MISSING
    return rank if 0 <= rank < 2**31 else None


def _model(device: int, devices: Sequence[int], metadata: Mapping[str, Any]) -> str | None:
    """Name of the device: of the properties with its id, else of the only ones there are."""
    listed = metadata.get("deviceProperties", metadata.get("computeProperties"))
    known = [p for p in listed if isinstance(p, Mapping)] if isinstance(listed, list) else []
    found = [p for p in known if p.get("id") == device] or (known if len(known) == len(devices) == 1 else [])
    name = found[0].get("name") if found else None
    return name if isinstance(name, str) and name else None
