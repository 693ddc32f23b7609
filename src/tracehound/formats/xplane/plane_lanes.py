"""Lanes and ranks of an XLA profile, from its planes and all shards of its events."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.assembly.file_assembly import RawChunk
from tracehound.formats.protobuf_wire import Offsets
from tracehound.formats.spill import Spill, SpilledRows
from tracehound.formats.xla.compiler_events import mark_spilled_compilations, merge_compilations_by_row
from tracehound.formats.xla.profile_builder import ProfileBuilder
from tracehound.formats.xla.xla_names import (
    DEVICE_TYPE,
    LineRole,
    is_program_thread,
    may_have_idle_events,
    recorded_lane_name,
    role_of_lane,
    role_of_line,
    side_lane_name,
)
from tracehound.formats.xplane.derived_lanes import DERIVED_LANE_ORDER, OP_USERS_SCHEMA, DerivedLanes, RowsWithOps
from tracehound.formats.xplane.xplane_ops import ExecutedOp, merge_ops
from tracehound.formats.xplane.xspace import XLine, XPlane
from tracehound.numeric.intervals import Intervals

DEVICE_PLANE = re.compile(rf"/device:({DEVICE_TYPE}):(\d{{1,9}})( \S.*)?$")
"""Name of a device plane; text after the number names a part of the device (``SparseCore 0``)."""

HOST_PLANE = re.compile(r"/host:")

RUN_ID_MASK = (1 << 28) - 1
"""Bits of a run id that TPUs record; the host's run ids are reduced to them."""


class PlaneSummary(NamedTuple):
    """Name and lines of a plane, and the model of its device."""

    name: str
    model: str
    lines: tuple[XLine, ...]


def summarize_plane(plane: XPlane) -> PlaneSummary:
    """Summary of a plane."""
    return PlaneSummary(plane.name, _device_model(plane), plane.lines)


def _device_model(plane: XPlane) -> str:
    for name in ("device_type_string", "gpu_device_name"):
        if isinstance(model := plane.stats.get(name), str):
            return model
    major, minor = plane.stats.get("compute_cap_major"), plane.stats.get("compute_cap_minor")
    vendor = plane.stats.get("device_vendor")
    if not isinstance(vendor, str):
        return ""
    if isinstance(major, int) and isinstance(minor, int):
        return f"{vendor} GPU, compute capability {major}.{minor}"
    return f"{vendor} GPU"


class ShardResult(Struct, frozen=True, eq=False):
    """Spilled events of one shard of a file, and what the other shards need to know of it.

    The lanes of the rows are lines, numbered through all planes; their ops are positions in `ops`. `event_counts` has
    the number of events of each line. By plane, `named_ops` are the executions of ops without a line of their own, with
    `module`, `program` and `device`; `unnamed_work` is GPU work that names no op; `end_marks` are the events at which
    ops end. `dispatches` are host events that may have the name of a GPU's op, which only all shards show.
    `launch_calls` are host events that launch on a GPU, or in which the execution of a module is launched there.
    `compilations` has the intervals of compilations by line, `memory_events` the events of allocators,
    `kernel_launches` the launch details of kernels, `counter_samples` those of counter lines. `op_users` are those of
    `OpEnds`, if there are marks. `unnamed` counts events of devices whose names were lost, `bad_clocks` those
    whose time by the device's own clock is impossible.
    """

    events: tuple[SpilledRows, ...]
    named_ops: tuple[tuple[int, SpilledRows], ...]
    unnamed_work: tuple[tuple[int, SpilledRows], ...]
    end_marks: tuple[tuple[int, SpilledRows], ...]
    dispatches: tuple[SpilledRows, ...]
    launch_calls: tuple[SpilledRows, ...]
    compilations: Mapping[int, Intervals]
    event_counts: Offsets
    ops: tuple[ExecutedOp, ...]
    without_time: int
    damaged: int
    bad_clocks: int = 0
    memory_events: tuple[SpilledRows, ...] = ()
    kernel_launches: tuple[SpilledRows, ...] = ()
    counter_samples: tuple[pl.DataFrame, ...] = ()
    op_users: pl.DataFrame | None = None
    unnamed: int = 0


class MergedShards(NamedTuple):
    """Chunks of events of all shards, and the lanes, ranks and ops that they refer to."""

    chunks: tuple[RawChunk, ...]
    builder: ProfileBuilder


def merge_shards(
    planes: Sequence[PlaneSummary], results: Sequence[ShardResult], programs: Mapping[str, int], spill: Spill
) -> MergedShards:
    """Merge the shards of a file; `programs` has the ids of the programs with a unique name."""
    ops, op_rows = merge_ops([result.ops for result in results])
    builder = ProfileBuilder(ops)
    derived_lanes = DerivedLanes(builder, spill)
    event_counts: Offsets = np.sum([result.event_counts for result in results], axis=0, dtype=np.int64)
    first_lines: list[int] = np.cumsum([0, *(len(plane.lines) for plane in planes)]).tolist()
    lanes = np.zeros(first_lines[-1], np.int64)
    first_line_of_row = _first_line_per_row(planes, first_lines)
    results = _mark_compilations(first_line_of_row, results)
    spilled_shards = _SpilledShards(results, op_rows)
    launch_calls = spilled_shards.launch_calls()
    if launch_calls.height:
        launch_calls = launch_calls.with_columns(pl.Series("lane", first_line_of_row[launch_calls["lane"].to_numpy()]))
    numbered = [
        (number, plane, slice(first_lines[number], first_lines[number + 1])) for number, plane in enumerate(planes)
    ]
    active = [(number, plane, lines) for number, plane, lines in numbered if event_counts[lines].any()]
    for number, plane, lines in active:
        if device := DEVICE_PLANE.match(plane.name):
            named_ops = _drop_repeated_ops(spilled_shards.named_ops(number), plane, lines.start)
            lanes[lines], rank = _add_device_lanes(
                plane, device, event_counts[lines], builder, derived_roles=_DERIVED_ROLES if named_ops else ()
            )
            derived_lanes.add_gpu_ops(plane.name, named_ops, lanes, rank)
            if named_ops or not _shows_module_executions(plane, event_counts[lines]):
                derived_lanes.add_gpu_modules(
                    plane.name, named_ops, spilled_shards.unnamed_work(number), launch_calls, programs, rank
                )
    has_devices = bool(builder.ranks)
    for number, plane, lines in active:
        if not DEVICE_PLANE.match(plane.name):
            lanes[lines] = (
                _add_host_lanes(plane, builder) if HOST_PLANE.match(plane.name) else _add_other_lanes(plane, builder)
            )
            if HOST_PLANE.match(plane.name) and not has_devices:
                derived_lanes.add_cpu_devices(
                    plane.name,
                    spilled_shards.named_ops(number),
                    spilled_shards.end_marks(number),
                    spilled_shards.op_users(),
                )
    for dispatch in spilled_shards.dispatches():
        derived_lanes.add_dispatches(dispatch, lanes)
    chunks = [
        RawChunk(spilled, lanes=lanes, ops=rows)
        for result, rows in zip(results, op_rows, strict=True)
        for spilled in result.events
    ]  # fmt: skip
    return MergedShards((*chunks, *derived_lanes.chunks), builder)


def _drop_repeated_ops(named_ops: Sequence[RowsWithOps], plane: PlaneSummary, first_line: int) -> list[RowsWithOps]:
    """The executions of ops on streams, if any; else those on lines of ops, which show the work of streams again."""

    def is_on_stream(executions: RowsWithOps) -> bool:
        runs = executions.spilled.runs
        return runs is not None and role_of_line(plane.lines[int(runs.lane[0]) - first_line].name) == "stream"

    return [one for one in named_ops if is_on_stream(one)] or list(named_ops)


def _first_line_per_row(planes: Sequence[PlaneSummary], firsts: Sequence[int]) -> Offsets:
    """For every line of the file the first line on its lane, numbered through all planes."""
    found = [begin + one for plane, begin in zip(planes, firsts, strict=False) for one in merge_lines_by_row(plane)]
    return np.array(found, np.int64)


def _mark_compilations(first: Offsets, results: Sequence[ShardResult]) -> list[ShardResult]:
    """The results, with events inside compilations set to that kind."""
    compilations = merge_compilations_by_row(
        (result.compilations for result in results), dict(enumerate(first.tolist()))
    )
    return [
        replace(
            result,
            events=tuple(mark_spilled_compilations(spilled, compilations) for spilled in result.events),
            dispatches=tuple(mark_spilled_compilations(spilled, compilations) for spilled in result.dispatches),
        )
        for result in results
    ]


class _SpilledShards:
    """Spilled rows of all shards that are needed together."""

    def __init__(self, results: Sequence[ShardResult], op_rows: Sequence[Offsets]) -> None:
        self._results = list(zip(results, op_rows, strict=True))

    def named_ops(self, plane: int) -> list[RowsWithOps]:
        """Executions of ops of this plane, in the order of the file."""
        return [
            RowsWithOps(spilled, ops)
            for result, ops in self._results
            for at, spilled in result.named_ops
            if at == plane
        ]

    def unnamed_work(self, plane: int) -> list[SpilledRows]:
        """Work of this plane that names no op."""
        return [spilled for result, _ in self._results for at, spilled in result.unnamed_work if at == plane]

    def end_marks(self, plane: int) -> pl.DataFrame:
        """Events that mark the ends of ops of this plane."""
        return _concat_frames(
            spilled.read_frame() for result, _ in self._results for at, spilled in result.end_marks if at == plane
        )

    def op_users(self) -> pl.DataFrame:
        """Ops, and the ops that need their results."""
        tables = [result.op_users for result, _ in self._results if result.op_users is not None]
        return pl.concat(tables).unique() if tables else pl.DataFrame(schema=OP_USERS_SCHEMA)

    def launch_calls(self) -> pl.DataFrame:
        """Host events that launch on GPUs, and those in which executions are launched; lanes are lines."""
        calls = _concat_frames(spilled.read_frame() for result, _ in self._results for spilled in result.launch_calls)
        return calls if "correlation" in calls.columns else calls.clear()

    def dispatches(self) -> list[RowsWithOps]:
        """Host events that may have the name of an op."""
        return [RowsWithOps(spilled, ops) for result, ops in self._results for spilled in result.dispatches]


def _concat_frames(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    all_frames = list(frames)
    return pl.concat(all_frames, how="diagonal_relaxed") if all_frames else pl.DataFrame()


def merge_lines_by_row(plane: PlaneSummary) -> list[int]:
    """For every line the position of the first line on its lane."""
    first: dict[tuple[str, int], int] = {}
    return [first.setdefault(line.row_key, at) for at, line in enumerate(plane.lines)]


_DERIVED_ROLES: Final = ("ops", "modules")
"""Roles of the lanes that are derived from kernels which name their ops."""


def _add_device_lanes(
    plane: PlaneSummary,
    device: re.Match[str],
    event_counts: Offsets,
    builder: ProfileBuilder,
    *,
    derived_roles: Collection[str],
) -> tuple[list[int], int]:
    """Add the lanes of a device plane; returns the lane of every line, and the rank.

    For `derived_roles` the device gets lanes from its kernels, which are more exact than what XProf derived from them:
    the recorded lines of these roles are shown, but count as no work.
    """
    core = (device[3] or "").strip()
    rank = builder.find_or_add_rank(device[1], int(device[2]), "" if core else plane.model)
    roles = [role_of_line(line.name) for line in plane.lines]
    side_line = side_line_positions(plane.lines)
    has_events = (event_counts > 0) | ((side_line >= 0) & (event_counts[side_line] > 0))
    busy_role = (
        "" if core else _busy_role({role for role, found in zip(roles, has_events.tolist(), strict=True) if found})
    )
    lanes: list[int] = []
    for at, first in enumerate(merge_lines_by_row(plane)):
        if first < at:
            lanes.append(lanes[first])
            continue
        line, role = plane.lines[at], roles[at]
        stream_number = re.search(r"#(\d{1,18})(?!\d)", line.name)
        name = recorded_lane_name(line.name) if role in derived_roles else line.name
        lanes.append(
            builder.add_lane(
                f"{core} {name}".strip(),
                "other" if role in derived_roles else role_of_lane(role, core),
                at + (DERIVED_LANE_ORDER if core else 0),
                rank=rank,
                work=role == busy_role,
                process=plane.name,
                stream=int(stream_number[1]) if stream_number and role == "stream" else None,
            )
        )
    return lanes, rank


def _busy_role(roles: set[LineRole]) -> str:
    """Role of the lines whose events keep the device busy: streams, else ops, else modules."""
    return next((role for role in ("stream", "ops", "modules") if role in roles), "")


def _shows_module_executions(plane: PlaneSummary, event_counts: Offsets) -> bool:
    """True if lines of the plane show executions of modules."""
    return any(
        count and role_of_line(line.name) == "modules" for line, count in zip(plane.lines, event_counts, strict=True)
    )


def _add_host_lanes(plane: PlaneSummary, builder: ProfileBuilder) -> list[int]:
    """Add a lane for every thread; returns the lane of every line."""
    lanes: list[int] = []
    for at, first in enumerate(merge_lines_by_row(plane)):
        line = plane.lines[at]
        name = line.name or f"thread {line.id}"
        order = at if is_program_thread(name) else DERIVED_LANE_ORDER + at
        lanes.append(
            lanes[first] if first < at else builder.add_lane(name, "thread", order, process=plane.name, thread=name)
        )
    return lanes


def _add_other_lanes(plane: PlaneSummary, builder: ProfileBuilder) -> list[int]:
    """Add a lane for every line of a plane that is neither a computing device nor a host.

    A line of Megascale (``device_0``) shows what that device sends and receives over the network of the data center.
    """
    is_network = _MEGASCALE_PLANE.match(plane.name) is not None
    lanes: list[int] = []
    for at, first in enumerate(merge_lines_by_row(plane)):
        line = plane.lines[at].name
        device = _NETWORK_LINE.match(line) if is_network else None
        rank = builder.rank_of_ordinal(int(device[1])) if device else None
        name = f"network {line}" if is_network else f"{plane.name} {line}".strip()
        order = at if rank is None else at + DERIVED_LANE_ORDER
        lanes.append(
            lanes[first] if first < at else builder.add_lane(name, "other", order, rank=rank, process=plane.name)
        )
    return lanes


_MEGASCALE_PLANE: Final = re.compile(r"/device:CUSTOM:Megascale", re.IGNORECASE)
_NETWORK_LINE: Final = re.compile(r"device_(\d{1,6})$")


_FIRST_SIDE_LINE_ID: Final = -(1 << 62)
"""First id of side lines, which are in no file."""


def add_side_lines(lines: Sequence[XLine], *, unnamed: bool) -> tuple[XLine, ...]:
    """The lines of a device, and after them an empty side line for each that needs one.

    With `unnamed` that is each: names of events were lost, and nothing is known of the work that such events show.
    """
    asides = [
        replace(line, id=_FIRST_SIDE_LINE_ID + at, name=side_lane_name(line.name), display_id=0, ranges=())
        for at, line in enumerate(lines)
        if unnamed or may_have_idle_events(line.name)
    ]
    return (*lines, *asides)


def side_line_positions(lines: Sequence[XLine]) -> Offsets:
    """Position of the side line of each line, -1 for none."""
    found = np.full(len(lines), -1, np.int64)
    for position, line in enumerate(lines):
        if 0 <= line.id - _FIRST_SIDE_LINE_ID < len(lines):
            found[line.id - _FIRST_SIDE_LINE_ID] = position
    return found
