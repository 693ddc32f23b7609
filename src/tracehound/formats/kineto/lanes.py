"""The lanes, ranks and names of a Kineto file.

Owns which lane an event is drawn on and what the lanes and ranks are called. Knows no bytes and no times.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.formats.assembly.assemble import RAW_LANES
from tracehound.formats.json.columns import MISSING, as_text
from tracehound.formats.kineto.columns import Columns, number_in
from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.legacy import on_devices
from tracehound.formats.kineto.members import Members, members, unmarked
from tracehound.formats.kineto.names import category, thread_name
from tracehound.formats.kineto.piece import Piece, Signature
from tracehound.trace import RANKS

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


class Use(NamedTuple):
    """How many events a lane or a device has, and how long (ns) they take, added up."""

    events: int
    time: int

    def with_(self, other: Use) -> Use:
        """Those of both."""
        return Use(self.events + other.events, self.time + other.time)


UNUSED: Final = Use(0, 0)


class Device(NamedTuple):
    """A device of one of the runs that a file was merged of."""

    member: int
    ordinal: int


def lane_keys(columns: Columns, events: Piece) -> tuple[list[LaneKey], npt.NDArray[np.int32]]:
    """The lanes of a segment, and which of them every event is on."""
    numbers: dict[LaneKey, int] = {}
    signatures = list(columns.signatures)
    of_thread = [numbers.setdefault(thread(pid, tid), len(numbers)) for _, pid, tid in signatures]
    of_device = [numbers.setdefault(_stream(signatures[code], *said), len(numbers)) for code, *said in columns.devices]
    lane = np.array(of_thread, np.int32)[events.signature]
    on_device = events.device >= 0
    lane[on_device] = np.array(of_device, np.int32)[events.device[on_device]]
    keys, first = list(numbers), np.full(len(numbers), len(lane))
    used, at = np.unique(lane, return_index=True)
    first[used] = at
    order = np.argsort(first, kind="stable")
    return [keys[number] for number in order], np.argsort(order).astype(np.int32)[lane]


class Placed(Struct, frozen=True):
    """The lanes, the row of the lane of each key, the ranks, and the names of the processes that drive them.

    `members` are the runs that the file was merged of: each has a host of its number. `strays` is how many events are
    on devices that are no ranks.
    """

    lanes: pl.DataFrame
    row: Mapping[LaneKey, int]
    ranks: pl.DataFrame
    hosts: tuple[str, ...]
    members: Members
    strays: int


def place(
    used: Mapping[LaneKey, Use],
    named: Mapping[tuple[str, Id, Id], str],
    family: str,
    metadata: Mapping[str, Any],
) -> Placed:
    """What the lanes of a file are; `used` says how much there is on each.

    One rank for each device that works, else a single one without a device. The rank that the file records is that of
    the device that works longest, and others on which next to nothing runs are drawn with it: see `_owners`. Of a file
    that was merged each run has its own host and ranks, numbered by its mark.
    """
    names = {(what, tidy(pid), tidy(tid)): name.strip() for (what, pid, tid), name in named.items()}
    threads = _Threads(names, {key: use.events for key, use in used.items() if isinstance(key, Thread) and use.events})
    whose = members(dict.fromkeys(key.pid for key, use in used.items() if use.events), threads.processes)
    working = _working(used, whose)
    rank = claimed_rank(metadata.get("distributedInfo"))
    owners = _owners(working, whose.ranks if whose.marked else (rank,))
    ranked = {device: use for device, use in working.items() if owners[device] == device}
    called = family or "GPU"
    lanes, row, known = list[dict[str, object]](), dict[LaneKey, int](), dict[tuple[int, LaneKey], int]()
    for key in used:
        member = whose.member(key.pid)
        own = member, (key._replace(pid=None) if isinstance(key, Stream) else key)
        row[key] = known.setdefault(own, len(lanes))
        if row[key] == len(lanes):
            lanes.append(
                _stream_lane(key, Device(member, key.device), owners, list(ranked), called)
                if isinstance(key, Stream)
                else threads.lane(key, member)
            )
    return Placed(
        lanes=pl.DataFrame(lanes, schema=RAW_LANES, orient="row"),
        row=row,
        ranks=_merged_ranks(ranked, called, metadata, whose) if whose.marked else _ranks(ranked, called, metadata),
        hosts=tuple(threads.host(metadata, whose, member) for member in range(len(whose.marks))),
        members=whose,
        strays=sum(use.events for device, use in working.items() if owners[device] != device),
    )


def _working(used: Mapping[LaneKey, Use], whose: Members) -> dict[Device, Use]:
    """The devices that work, in order, and how much there is on each."""
    found = dict[Device, Use]()
    for key, use in used.items():
        if isinstance(key, Stream) and key.role == "stream" and use.events:
            device = Device(whose.member(key.pid), key.device)
            found[device] = found.get(device, UNUSED).with_(use)
    return dict(sorted(found.items()))


_STRAY: Final = 100
"""A device whose events take so many times less than those of the rank's own is none that the rank works on."""


def _owners(working: Mapping[Device, Use], ranks: Sequence[int | None]) -> dict[Device, Device]:
    """The device whose rank has the lanes of each: its own, but for strays; `ranks` are those of the runs.

    Where it is known which rank a run is, that is one device. A process may touch others, as when a context is made on
    the first of a machine and memory is set there: what takes under 1 % of the time is no rank of the job. By time, not
    by the number of events: a rank of few large kernels has as many of them as something that is set in every step. A
    device that does more, and any of a run of which no rank is known, may be driven in earnest and has its own.
    """
    owners = {device: device for device in working}
    for member, rank in enumerate(ranks):
        mine = [device for device in working if device.member == member]
        if rank is not None and mine:
            own = _longest(mine, working)
            owners |= {device: own for device in mine if working[device].time * _STRAY < working[own].time}
    return owners


def _longest(devices: Iterable[Device], working: Mapping[Device, Use]) -> Device:
    """The device, of some in order, that works longest; of equals that with most events, else the first."""
    return max(devices, key=lambda device: (working[device].time, working[device].events))


def thread(pid: Id, tid: Id) -> LaneKey:
    """The lane of what names no device: that of a host's thread, or of a device of the autograd profiler."""
    if on_devices(pid):
        return Stream("stream", ordinal(tid), MISSING, pid)
    return Thread(tidy(pid), tidy(tid))


def _stream(signature: Signature, device: Id, stream: Id) -> Stream:
    """The lane of a device's event: by its args, else by the process and the thread."""
    cat, pid, tid = signature
    number = number_in(tid if stream is None else stream)
    return Stream(
        role=category(cat).row,
        device=ordinal(pid if device is None else device),
        stream=MISSING if number >= _NO_STREAM else number,
        pid=tidy(pid),
    )


def ordinal(said: Id) -> int:
    """The device that an event's args name, or its process where they name none."""
    number = number_in(said)
    return number if 0 <= number < 2**31 else 0


def tidy(value: Id) -> Id:
    """An id in text, or a float, as a whole number, where it is one: files spell one thread both ways."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    match = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else int(match[1])


_WHOLE: Final = re.compile(r"(-?[0-9]{1,30})(?:\.0*)?")


def _stream_lane(
    key: Stream, device: Device, owners: Mapping[Device, Device], ranked: Sequence[Device], family: str
) -> dict[str, object]:
    """A lane of a device; of one that does no work (all it has are waits) it is drawn with the host.

    That of a stray is drawn with the device that owns it and keeps nothing busy.
    """
    owner = owners.get(device)
    whose = f"{family} {device.ordinal} " if owner not in (device, None) else ""
    return {
        "host": device.member,
        "rank": None if owner is None else ranked.index(owner),
        "role": key.role,
        "work": key.role == "stream" and owner == device,
        "name": whose + _SHOWN.get(key.role, key.role) + (f" {key.stream}" if key.stream >= 0 else ""),
        "process": "",
        "thread": "",
        "stream": None if key.stream < 0 else key.stream,
        "order": min(max(key.stream, 0), 2**31 - 1),
    }


class _Threads(Struct, frozen=True, dict=True):
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
            "process": self.processes.get(key.pid) or as_text(key.pid),
            "thread": as_text(key.tid),
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
    working: Collection[Device], family: str, metadata: Mapping[str, Any], whose: Members
) -> pl.DataFrame:
    """The ranks of devices in a file that was merged: what it records of itself is of one of its runs alone.

    A run has the rank of its mark where it has one device, or none; one without a device that works is a rank, as its
    own file would be.
    """
    ordinals = sorted({device.ordinal for device in working})
    many = Counter(device.member for device in working)
    idle = [Device(member, -1) for member in range(len(whose.marks)) if not many[member]]
    ranks = [rank if many[member] < 2 else None for member, rank in enumerate(whose.ranks)]
    rows = [
        {"rank": ranks[device.member], "host": device.member,
         "device": device.ordinal if device.ordinal >= 0 else None,
         "label": f"{family} {device.ordinal}" if device.ordinal >= 0 else "CPU",
         "model": _model(device.ordinal, ordinals, metadata), "inferred": ranks[device.member] is None}
        for device in (*working, *idle)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=RANKS)


def _ranks(working: Mapping[Device, Use], family: str, metadata: Mapping[str, Any]) -> pl.DataFrame:
    """The ranks of devices, of which `working` says, in order, how much there is on each."""
    rank = claimed_rank(metadata.get("distributedInfo"))
    if not working:
        rows = [{"rank": rank, "host": 0, "device": None, "label": "CPU", "model": None, "inferred": rank is None}]
        return pl.DataFrame(rows, schema=RANKS)
    own, devices = _longest(working, working), [device.ordinal for device in working]
    rows = [
        {"rank": rank if device == own else None, "host": 0, "device": device.ordinal,
         "label": f"{family} {device.ordinal}", "model": _model(device.ordinal, devices, metadata),
         "inferred": rank is None or device != own}
        for device in working
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
