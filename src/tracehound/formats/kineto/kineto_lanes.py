"""Lanes, ranks and hosts of a Kineto file, and their names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import polars as pl
from msgspec import Struct

from tracehound.formats.assembly.file_assembly import RAW_LANES
from tracehound.formats.json.value_columns import MISSING, as_text
from tracehound.formats.kineto.arg_values import id_number
from tracehound.formats.kineto.categories import parse_category
from tracehound.formats.kineto.event_columns import EventSignature
from tracehound.formats.kineto.json_events import RawId
from tracehound.formats.kineto.process_ids import MergedRuns, find_merged_runs, is_device_process, without_run_mark
from tracehound.model.trace import RANKS

_ROLE_NAMES: Final = {"annotations": "ranges"}
"""Short names of roles, which leave room for the stream number on a narrow screen."""

_TITLED_ORDER: Final = 2**31 - 1
"""Order of the lanes of a device that have names of their own: after its streams."""

_NO_CUPTI_STREAM: Final = 2**32 - 1
"""CUPTI's unsigned -1."""

_MAX_STREAM: Final = 2**63 - 1
"""ROCm writes the addresses of streams, of which larger ones are no addresses of a program."""


class HostThread(NamedTuple):
    """A thread of a host; ids that are numbers are ints, however the file writes them."""

    pid: RawId
    tid: RawId


class DeviceLane(NamedTuple):
    """A lane of a device: its role, device ordinal, stream (-1: none), the process of its events, and its own name.

    A lane with a name of its own is no stream, but may have its number.
    """

    role: str
    device: int
    stream: int
    pid: RawId
    title: str = ""


LaneKey = HostThread | DeviceLane
"""Identity of a lane within a file."""


class LaneUsage(NamedTuple):
    """Number of events of a lane or a device, and the sum of their durations (ns)."""

    events: int
    time: int

    def plus(self, other: LaneUsage) -> LaneUsage:
        """Sum of two usages."""
        return LaneUsage(self.events + other.events, self.time + other.time)


NO_USAGE: Final = LaneUsage(0, 0)


class RunDevice(NamedTuple):
    """A device of one of the runs whose files were merged."""

    run: int
    ordinal: int


class FileLanes(Struct, frozen=True):
    """Lanes and ranks of a file, the lane number of each key, and the names of the host processes.

    `runs` are the runs whose files were merged; the number of a run is that of its host. `stray_events` counts events
    on devices that are no ranks. `processes` are the ids of the host processes with events, without marks of merging.
    """

    lanes: pl.DataFrame
    lane_numbers: Mapping[LaneKey, int]
    ranks: pl.DataFrame
    hosts: tuple[str, ...]
    runs: MergedRuns
    stray_events: int
    processes: tuple[str, ...] = ()


def build_lanes(
    usage: Mapping[LaneKey, LaneUsage],
    names: Mapping[tuple[str, RawId, RawId], str],
    family: str,
    metadata: Mapping[str, Any],
) -> FileLanes:
    """Lanes of a file; `usage` has the number and duration of the events of each lane.

    There is one rank for each device that works, else a single one without a device. The rank that the file records
    belongs to the device that works longest; devices on which next to nothing runs are drawn with it (see
    `_owner_of_devices`). In a merged file each run has its own host and ranks, numbered by its mark.
    """
    stripped = {
        (metadata_name, normalize_id(pid), normalize_id(tid)): name.strip()
        for (metadata_name, pid, tid), name in names.items()
    }
    threads = _HostThreads(
        stripped,
        {
            key: lane_usage.events
            for key, lane_usage in usage.items()
            if isinstance(key, HostThread) and lane_usage.events
        },
    )
    runs = find_merged_runs(
        dict.fromkeys(key.pid for key, lane_usage in usage.items() if lane_usage.events), threads.process_names
    )
    device_usage = _usage_by_device(usage, runs)
    rank = recorded_rank(metadata.get("distributedInfo"))
    owners = _owner_of_devices(device_usage, runs.ranks if runs.is_merged else (rank,))
    rank_devices = {device: lane_usage for device, lane_usage in device_usage.items() if owners[device] == device}
    device_family = family or "GPU"
    lanes, lane_numbers, lane_of_run_key = (
        list[dict[str, object]](),
        dict[LaneKey, int](),
        dict[tuple[int, LaneKey], int](),
    )
    for key in usage:
        run = runs.run_of(key.pid)
        run_key = run, (key._replace(pid=None) if isinstance(key, DeviceLane) else key)
        lane_numbers[key] = lane_of_run_key.setdefault(run_key, len(lanes))
        if lane_numbers[key] == len(lanes):
            lanes.append(
                _device_lane_row(key, RunDevice(run, key.device), owners, list(rank_devices), device_family)
                if isinstance(key, DeviceLane)
                else threads.lane_row(key, run)
            )
    return FileLanes(
        lanes=pl.DataFrame(lanes, schema=RAW_LANES, orient="row"),
        lane_numbers=lane_numbers,
        ranks=_ranks_of_merged_runs(rank_devices, device_family, metadata, runs)
        if runs.is_merged
        else _ranks_of_single_run(rank_devices, device_family, metadata),
        hosts=tuple(threads.host_name(metadata, runs, run) for run in range(len(runs.marks))),
        runs=runs,
        stray_events=sum(lane_usage.events for device, lane_usage in device_usage.items() if owners[device] != device),
        processes=tuple(dict.fromkeys(as_text(without_run_mark(key.pid)) for key in threads.usage)),
    )


def _usage_by_device(usage: Mapping[LaneKey, LaneUsage], runs: MergedRuns) -> dict[RunDevice, LaneUsage]:
    """Usage of the devices that work, by device in ascending order."""
    usage_of_device = dict[RunDevice, LaneUsage]()
    for key, lane_usage in usage.items():
        if isinstance(key, DeviceLane) and key.role == "stream" and lane_usage.events:
            device = RunDevice(runs.run_of(key.pid), key.device)
            usage_of_device[device] = usage_of_device.get(device, NO_USAGE).plus(lane_usage)
    return dict(sorted(usage_of_device.items()))


_STRAY_RATIO: Final = 100
"""A device whose events take this many times less than those of the rank's main device is not a rank of its own."""


def _owner_of_devices(usage: Mapping[RunDevice, LaneUsage], ranks: Sequence[int | None]) -> dict[RunDevice, RunDevice]:
    """For each device, the device whose rank gets its lanes; `ranks` are those of the runs.

    A device keeps its own lanes, unless it is a stray. A run of known rank works on one device. Its process may touch
    others, for example if a context is created on the first device of a machine and memory is set there: a device with
    under 1% of the time is not a rank of the job. Time decides, not the number of events: a rank with few large kernels
    may have as few events as a memset in every step. A device that does more, and any device of a run without a known
    rank, gets a rank of its own.
    """
    owners = {device: device for device in usage}
    for run, rank in enumerate(ranks):
        devices = [device for device in usage if device.run == run]
        if rank is not None and devices:
            main_device = _busiest_device(devices, usage)
            owners |= {
                device: main_device for device in devices if usage[device].time * _STRAY_RATIO < usage[main_device].time
            }
    return owners


def _busiest_device(devices: Iterable[RunDevice], usage: Mapping[RunDevice, LaneUsage]) -> RunDevice:
    """The device that works longest; ties go to the one with more events, then to the first."""
    return max(devices, key=lambda device: (usage[device].time, usage[device].events))


def thread_lane_key(pid: RawId, tid: RawId) -> LaneKey:
    """Lane of an event without a device: that of its host thread, or of its device in the autograd profiler."""
    if is_device_process(pid):
        return DeviceLane("stream", device_ordinal(tid), MISSING, pid)
    return HostThread(normalize_id(pid), normalize_id(tid))


def device_lane_key(signature: EventSignature, device: RawId, stream: RawId) -> DeviceLane:
    """Lane of a device event: by its args, else by its process and thread."""
    cat, pid, tid = signature
    number = id_number(tid if stream is None else stream)
    return DeviceLane(
        role=parse_category(cat).role,
        device=device_ordinal(pid if device is None else device),
        stream=MISSING if number == _NO_CUPTI_STREAM or number > _MAX_STREAM else number,
        pid=normalize_id(pid),
    )


def device_ordinal(recorded: RawId) -> int:
    """Device ordinal in the args of an event, or in its process id."""
    number = id_number(recorded)
    return number if 0 <= number < 2**31 else 0


def normalize_id(value: RawId) -> RawId:
    """An id as an int if it is a whole number in text or a float: files write one thread in both ways."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    match = _WHOLE_NUMBER.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else int(match[1])


_WHOLE_NUMBER: Final = re.compile(r"(-?[0-9]{1,30})(?:\.0*)?")


def _device_lane_row(
    key: DeviceLane,
    device: RunDevice,
    owners: Mapping[RunDevice, RunDevice],
    rank_devices: Sequence[RunDevice],
    device_family: str,
) -> dict[str, object]:
    """Row of a device's lane. A device without work (it has only waits) is drawn with the host.

    A stray device is drawn with its owner and counts as no work.
    """
    owner = owners.get(device)
    runs = f"{device_family} {device.ordinal} " if owner not in (device, None) else ""
    name = _ROLE_NAMES.get(key.role, key.role) + (f" {key.stream}" if key.stream >= 0 else "")
    return {
        "host": device.run,
        "rank": None if owner is None else rank_devices.index(owner),
        "role": key.role,
        "work": key.role == "stream" and owner == device,
        "name": runs + (key.title or name),
        "process": "",
        "thread": "",
        "stream": None if key.stream < 0 or key.title else key.stream,
        "order": _TITLED_ORDER if key.title else min(max(key.stream, 0), _TITLED_ORDER),
    }


class _HostThreads(Struct, frozen=True, dict=True):
    """Threads of the host: their recorded names, and the number of events of each."""

    names: Mapping[tuple[str, RawId, RawId], str]
    usage: Mapping[HostThread, int]

    @cached_property
    def _negative_event_counts(self) -> list[int]:
        return sorted(-count for count in self.usage.values())

    @cached_property
    def process_names(self) -> dict[RawId, str]:
        """First recorded name of each process."""
        return {
            pid: name
            for (metadata_name, pid, _), name in reversed(list(self.names.items()))
            if metadata_name == "process_name"
        }

    def lane_row(self, key: HostThread, run: int) -> dict[str, object]:
        """Row of a thread's lane: the main thread comes first, the others follow by their number of events."""
        return {
            "host": run,
            "rank": None,
            "role": "thread",
            "work": False,
            "name": format_thread_name(self.names.get(("thread_name", *key), ""), key.tid),
            "process": self.process_names.get(key.pid) or as_text(key.pid),
            "thread": as_text(key.tid),
            "stream": None,
            "order": 0
            if _is_main_thread(key)
            else 1 + bisect_left(self._negative_event_counts, -self.usage.get(key, 0)),
        }

    def host_name(self, metadata: Mapping[str, Any], runs: MergedRuns, run: int) -> str:
        """Name of the process of a run, with its id, and its machine where recorded.

        If no thread has events, the named process with the highest id is taken: the processes of devices have their
        ordinals as ids.
        """
        threads = [key for key in self.usage if runs.run_of(key.pid) == run]
        main_thread = max(threads, key=lambda key: (_is_main_thread(key), self.usage[key]), default=None)
        other_processes = (each for each in self.process_names if isinstance(each, int) and runs.run_of(each) == run)
        pid = max(other_processes, default=None) if main_thread is None else main_thread.pid
        name = self.process_names.get(pid) or "process"
        if runs.is_merged:
            name, pid = str(without_run_mark(name)), without_run_mark(pid)
        process = "" if pid in ("", None) else f"{name} ({pid})"
        machine = None if runs.is_merged else metadata.get("host_name")
        return ": ".join(part for part in (machine if isinstance(machine, str) else "", process) if part) or "host"


def _is_main_thread(key: HostThread) -> bool:
    """True for the first thread of its process."""
    return key.tid == without_run_mark(key.pid)


def _ranks_of_merged_runs(
    usage: Collection[RunDevice], device_family: str, metadata: Mapping[str, Any], runs: MergedRuns
) -> pl.DataFrame:
    """Ranks of a merged file, whose own metadata belongs to only one of its runs.

    A run with at most one device has the rank of its mark. A run without a working device is a rank too, as its own
    file would be.
    """
    ordinals = sorted({device.ordinal for device in usage})
    device_counts = Counter(device.run for device in usage)
    runs_without_device = [RunDevice(run, -1) for run in range(len(runs.marks)) if not device_counts[run]]
    ranks = [rank if device_counts[run] < 2 else None for run, rank in enumerate(runs.ranks)]
    rows = [
        {"rank": ranks[device.run], "host": device.run,
         "device": device.ordinal if device.ordinal >= 0 else None,
         "label": f"{device_family} {device.ordinal}" if device.ordinal >= 0 else "CPU",
         "model": _device_model(device.ordinal, ordinals, metadata), "inferred": ranks[device.run] is None}
        for device in (*usage, *runs_without_device)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=RANKS)


def _ranks_of_single_run(
    usage: Mapping[RunDevice, LaneUsage], device_family: str, metadata: Mapping[str, Any]
) -> pl.DataFrame:
    """Ranks of a file of one run; `usage` has its devices in order."""
    rank = recorded_rank(metadata.get("distributedInfo"))
    if not usage:
        rows = [{"rank": rank, "host": 0, "device": None, "label": "CPU", "model": None, "inferred": rank is None}]
        return pl.DataFrame(rows, schema=RANKS)
    own, devices = _busiest_device(usage, usage), [device.ordinal for device in usage]
    rows = [
        {"rank": rank if device == own else None, "host": 0, "device": device.ordinal,
         "label": f"{device_family} {device.ordinal}", "model": _device_model(device.ordinal, devices, metadata),
         "inferred": rank is None or device != own}
        for device in usage
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=RANKS)


def recorded_rank(distributed: object) -> int | None:
    """Rank in the ``distributedInfo`` of a file; None if it has none."""
    rank = id_number(distributed.get("rank")) if isinstance(distributed, Mapping) else MISSING
    return rank if 0 <= rank < 2**31 else None


def _device_model(device: int, devices: Sequence[int], metadata: Mapping[str, Any]) -> str | None:
    """Model name of a device: from the properties with its id, else from the only properties of the only device."""
    listed = metadata.get("deviceProperties", metadata.get("computeProperties"))
    known = [p for p in listed if isinstance(p, Mapping)] if isinstance(listed, list) else []
    found = [p for p in known if p.get("id") == device] or (known if len(known) == len(devices) == 1 else [])
    name = found[0].get("name") if found else None
    return name if isinstance(name, str) and name else None


_THREAD_NAME = re.compile(r"(?:thread\s+)?(-?\d+)(?:\s*\((.*)\))?\s*$")


def format_thread_name(recorded: str, tid: object) -> str:
    """Displayed name of a thread: ``thread 5714 (python)`` becomes ``python (5714)``, no name becomes ``thread 5714``.

    `tid` is None if the file gives events no thread.
    """
    match = _THREAD_NAME.match(recorded.strip())
    plain_name = (match[2] if match else recorded.strip()) or ""
    if tid is None:
        return plain_name or "no thread"
    if not plain_name:
        return f"thread {tid}"
    return plain_name if str(tid) in plain_name else f"{plain_name} ({tid})"
