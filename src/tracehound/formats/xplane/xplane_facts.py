"""Facts and notes of an XLA profile: software versions, plane stats, programs and the session's clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final

from tracehound.formats.protobuf_wire import InflatedFile, WireError
from tracehound.formats.value_bounds import LATEST_WALL_CLOCK_NS, MAX_DISTANCE_NS, valid_wall_clock
from tracehound.formats.xplane.plane_lanes import DEVICE_PLANE
from tracehound.formats.xplane.plane_metadata import StatValue
from tracehound.formats.xplane.xplane_args import printable_value
from tracehound.formats.xplane.xplane_ops import LocatedProgram, replica_and_partition_counts
from tracehound.formats.xplane.xspace import XSpace
from tracehound.model.file_facts import FileFacts, HloProgram, PlaneStats
from tracehound.model.notes import PROFILER_ERROR, PROFILER_WARNING, Note, profiler_message_note


def read_plane_stats(stats: Mapping[str, object]) -> PlaneStats:
    """Stats for which `PlaneStats` has a field; values of the wrong type count as not recorded."""
    return PlaneStats(
        peak_teraflops_per_second=_finite_float(stats.get("peak_teraflops_per_second")),
        peak_hbm_bw_gigabytes_per_second=_finite_float(stats.get("peak_hbm_bw_gigabytes_per_second")),
        peak_cmem_rd_bw_gigabytes_per_second=_finite_float(stats.get("peak_cmem_rd_bw_gigabytes_per_second")),
        peak_cmem_wr_bw_gigabytes_per_second=_finite_float(stats.get("peak_cmem_wr_bw_gigabytes_per_second")),
        peak_vmem_rd_bw_gigabytes_per_second=_finite_float(stats.get("peak_vmem_rd_bw_gigabytes_per_second")),
        peak_vmem_wr_bw_gigabytes_per_second=_finite_float(stats.get("peak_vmem_wr_bw_gigabytes_per_second")),
        core_count=_finite_float(stats.get("core_count")),
        clock_rate=_finite_float(stats.get("clock_rate")),
        memory_bandwidth=_finite_float(stats.get("memory_bandwidth")),
        compute_cap_major=_int_or_none(stats.get("compute_cap_major")),
        compute_cap_minor=_int_or_none(stats.get("compute_cap_minor")),
        device_vendor=str(stats.get("device_vendor", "")),
    )


def _finite_float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) else None


ENVIRONMENT_PLANE = "Task Environment"
"""Plane whose stats have the start and end of the session, on the wall clock."""


ABSOLUTE_TIME_NS = 10**15
"""Times of lines above this (11 days) are not relative to the start of the session, but to 1970 or a boot."""


def session_clock(space: XSpace) -> tuple[int, int | None]:
    """Time of lines (ns) that becomes 0, and its wall clock (Unix ns) where known and possible."""
    session_ns = session_start(space)
    wall_ns = valid_wall_clock(session_ns) if isinstance(session_ns, int) else None
    middle = middle_line_time(space)
    stamps = (line.timestamp_ns for plane in space.planes for line in plane.lines if line.ranges)
    first = min((stamp for stamp in stamps if abs(stamp - middle) < MAX_DISTANCE_NS), default=0)
    if first < ABSOLUTE_TIME_NS:
        return 0, wall_ns
    if wall_ns is not None and first <= wall_ns // 2:
        return first, valid_wall_clock(wall_ns + first)
    return first, first if first <= LATEST_WALL_CLOCK_NS else None


SESSION_START_STAT: Final = "profile_start_time"
"""Stat with the wall clock (ns) at the start of the session."""

SESSION_STOP_STAT: Final = "profile_stop_time"
"""Stat with the wall clock (ns) at the end of the session."""


def middle_line_time(space: XSpace) -> int:
    """Time (ns) of the line that contains the middle byte of all events; 0 without any."""
    bytes_at_time = Counter[int]()
    for plane in space.planes:
        for line in plane.lines:
            bytes_at_time[line.timestamp_ns] += sum(high - low for low, high in line.ranges)
    bytes_before, half = 0, bytes_at_time.total() / 2
    for stamp in sorted(bytes_at_time):
        bytes_before += bytes_at_time[stamp]
        if bytes_before > half:
            return stamp
    return 0


def session_start(space: XSpace) -> StatValue | None:
    """Recorded start of the session, from the Task Environment plane; None without one."""
    return next(
        (plane.stats.get(SESSION_START_STAT) for plane in space.planes if plane.name == ENVIRONMENT_PLANE), None
    )


def collect_file_facts(file: InflatedFile, space: XSpace, located: Mapping[int, LocatedProgram]) -> FileFacts:
    """Facts of a file: software versions, stats of its planes, programs."""
    versions, planes = dict[str, str](), dict[str, PlaneStats]()
    for plane in space.planes:
        if plane.name in (ENVIRONMENT_PLANE, "/host:metadata"):
            printed = {name: printable_value(value) for name, value in plane.stats.items() if name.endswith("_version")}
            versions.update({name: str(value) for name, value in printed.items()})
        elif plane.stats:
            planes[plane.name] = read_plane_stats(plane.stats)
    programs = tuple(_hlo_program(file, one) for one in located.values())
    return FileFacts(versions=versions, planes=planes, programs=programs)


def _hlo_program(file: InflatedFile, one: LocatedProgram) -> HloProgram:
    """A program of the file, and whether its HLO is damaged."""
    try:
        replicas, partitions = replica_and_partition_counts(file, one)
    except WireError:
        return HloProgram(one.name, one.program, one.offset, one.size, damaged=True)
    return HloProgram(one.name, one.program, one.offset, one.size, replicas, partitions)


def damaged_program_notes(located: Sequence[HloProgram]) -> list[Note]:
    """Note of the programs whose HLO is damaged."""
    names = [one.name for one in located if one.damaged]
    return [Note("dropped", "hlo_proto_damaged", len(names), where=names[0])] if names else []


def space_notes(space: XSpace) -> list[Note]:
    """Notes of the profiler and of the file's structure."""
    notes = [profiler_message_note(PROFILER_ERROR, text) for text in space.errors]
    notes += [profiler_message_note(PROFILER_WARNING, text) for text in space.warnings]
    return [*notes, *_idle_device_notes(space), *space.notes]


def _idle_device_notes(space: XSpace) -> list[Note]:
    """Note of the devices that have a plane but no event, if any."""
    devices = [
        (device, plane) for plane in space.planes if (device := DEVICE_PLANE.match(plane.name)) and not device[3]
    ]
    idle_names = [f"{device[1]}:{device[2]}" for device, plane in devices if not plane.has_events]
    return (
        [Note("missing", "devices_without_events", len(idle_names), values=(("names", tuple(idle_names)),))]
        if idle_names
        else []
    )
