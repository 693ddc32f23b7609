"""Columns of the events of device and host planes: kinds, executed ops, and steps.

These follow from the lines and names of TPU, GPU and CPU planes in one shard; `plane_lanes` adds what needs all shards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.formats.protobuf_wire import Offsets
from tracehound.formats.spill import columns_to_frame
from tracehound.formats.xla.kernel_details import KERNEL_DETAILS_STAT
from tracehound.formats.xla.op_executions import END_EVENT_PREFIX, EXECUTION_EVENT_SUFFIX, OP_SCOPE_SEPARATOR
from tracehound.formats.xla.xla_names import (
    is_idle_event,
    kind_of_device_event,
    kind_of_gpu_event,
    kind_of_host_event,
    role_of_line,
    thread_class,
)
from tracehound.formats.xplane.event_decoder import DecodedEvents, EventRange
from tracehound.formats.xplane.plane_columns import ColumnArrays, NullableInts, RowBuffer, RowTable
from tracehound.formats.xplane.plane_lanes import (
    DEVICE_PLANE,
    HOST_PLANE,
    RUN_ID_MASK,
    ShardResult,
    side_line_positions,
)
from tracehound.formats.xplane.plane_rows import (
    COMMON_STATS,
    OP_NAME_STATS,
    ColumnMaker,
    PlaneDecoder,
    ShardState,
    add_null_columns,
    unique_combinations,
)
from tracehound.formats.xplane.xplane_counters import (
    ALLOCATOR_STATS,
    AllocatorEvents,
    is_counter_line,
    read_counter_samples,
)
from tracehound.formats.xplane.xplane_ops import ExecutedOp
from tracehound.formats.xplane.xspace import XPlane, XSpace
from tracehound.model.trace import KIND_CODES


def _other_columns(rows: PlaneDecoder) -> ColumnMaker:
    """Columns of a plane that is neither a computing device nor a host: its lines are shown as recorded."""

    def columns(events: DecodedEvents, line_in_plane: Offsets, position: Offsets) -> ColumnArrays:
        other = np.full(len(line_in_plane), KIND_CODES["other"], np.int64)
        return {**rows.common_columns(events, position, -1), "step": None, "kind": other}

    return columns


class DevicePlaneColumns:
    """Columns of the events of a device plane."""

    def __init__(self, rows: PlaneDecoder, run_bits: int) -> None:
        lines = rows.plane.lines
        roles = [role_of_line(line.name) for line in lines]
        classes = list(dict.fromkeys(roles))

        def kind_of(each: int, at: int) -> int:
            if at < 0:
                return KIND_CODES["other"]
            role, name = classes[each], rows.shown_names[at]
            return KIND_CODES[kind_of_gpu_event(name) if role == "stream" else kind_of_device_event(role, name)]

        self._rows = rows
        self._run_bits = run_bits
        self._class = np.array([classes.index(role) for role in roles], np.int64)
        self._is_op_line = np.array([role in ("ops", "async") for role in roles], bool)
        self._kind = rows.value_by_name(len(classes), kind_of)
        self._op = rows.value_by_name(1, lambda _, at: self._op_number(at))
        self._op_kind = rows.value_by_name(
            1, lambda _, at: KIND_CODES[self._ops[self._op_number(at)].kind if at >= 0 else "op"]
        )
        self._op_bytes = rows.value_by_name(
            1, lambda _, at: _none_to_minus_one(self._ops[self._op_number(at)].bytes) if at >= 0 else -1
        )
        self._step = rows.value_by_name(1, lambda _, at: _trailing_step_number(rows.shown_names[at]) if at >= 0 else -1)
        self._names_ops = run_bits == -1
        self._side_line = side_line_positions(lines)
        self._has_side_lines = bool((self._side_line >= 0).any())
        self._idle = rows.value_by_name(1, lambda _, at: int(at >= 0 and is_idle_event(rows.shown_names[at])))

    @property
    def _ops(self) -> list[ExecutedOp]:
        return self._rows.state.ops.executed

    def _op_number(self, at: int) -> int:
        """Number of the op that the metadata at a position describes; -1 for none."""
        rows = self._rows
        return rows.state.ops.op_of_metadata(rows.number, rows.plane, rows.event_metadata, at) if at >= 0 else -1

    def columns(self, events: DecodedEvents, line_in_plane: Offsets, position: Offsets) -> ColumnArrays:
        """Columns of decoded events."""
        rows = self._rows
        columns: dict[str, Offsets | NullableInts | None] = dict(rows.common_columns(events, position, self._run_bits))
        kind = self._kind(self._class[line_in_plane], position)
        moved = rows.copied_bytes(events, position)
        on_op_lines = np.flatnonzero(self._is_op_line[line_in_plane])
        if len(on_op_lines):
            op_position = position[on_op_lines]
            kind[on_op_lines] = self._op_kind(0, op_position)
            op, size = np.full(len(line_in_plane), -1, np.int64), np.full(len(line_in_plane), -1, np.int64)
            op[on_op_lines], size[on_op_lines] = self._op(0, op_position), self._op_bytes(0, op_position)
            columns["op"] = NullableInts(op, op >= 0)
            if (size >= 0).any():
                moved = _first_known(NullableInts(size, size >= 0), moved)
        if self._has_side_lines:
            to_side_line = np.flatnonzero(self._side_line[line_in_plane] >= 0)
            to_side_line = to_side_line[(self._idle(0, position[to_side_line]) > 0) | (position[to_side_line] < 0)]
            rows.state.unnamed += int(np.count_nonzero(position[to_side_line] < 0))
            lane = events.line.copy()
            lane[to_side_line], kind[to_side_line] = (
                rows.first_line + self._side_line[line_in_plane[to_side_line]],
                KIND_CODES["other"],
            )
            columns["lane"] = lane
        steps = kind == KIND_CODES["step"]
        if steps.any():
            number = self._step(0, position)
            columns["step"] = _first_known(columns["step"], NullableInts(number, number >= 0))
        if isinstance(columns["step"], NullableInts):
            columns["step"] = columns["step"].mask_except(steps)
        op_names = rows.op_name_columns(events, position) if self._names_ops else {}
        if self._names_ops:
            details = rows.text_stat(events, position, KERNEL_DETAILS_STAT)
            columns["details"] = np.full(len(line_in_plane), -1, np.int64) if details is None else details
        return {**columns, "kind": kind, "bytes": moved, **op_names, "device": None}


_TRAILING_NUMBER = re.compile(r"(?<!\d)(\d{1,9})\s*$")


def _trailing_step_number(name: str) -> int:
    found = _TRAILING_NUMBER.search(name)
    return int(found[1]) if found else -1


def _none_to_minus_one(size: int | None) -> int:
    return -1 if size is None else size


def _first_known(first: Offsets | NullableInts | None, second: NullableInts | None) -> NullableInts | None:
    """The first column where it is not missing, else the second."""
    if not isinstance(first, NullableInts):
        return second
    if second is None:
        return first
    return NullableInts(np.where(first.valid, first.values, second.values), first.valid | second.valid)


class HostPlaneColumns:
    """Columns of the events of a host plane.

    `devices` are the device planes by kind; all but TPUs are treated as GPUs. Events with the name of a GPU's op are
    its dispatch. Without any device, the ops that run on host threads are those of the CPU's devices.
    """

    def __init__(self, rows: PlaneDecoder, devices: Mapping[str, Sequence[XPlane]]) -> None:
        thread_classes = [thread_class(line.name.split("/")[0]) for line in rows.plane.lines]
        self._classes = list(dict.fromkeys(thread_classes))
        gpu_planes = [plane for kind, planes in devices.items() if kind != "TPU" for plane in planes]
        gpu_op_names = {
            text.split(OP_SCOPE_SEPARATOR)[-1] for plane in gpu_planes for text in plane.stat_names.values()
        }

        self._rows = rows
        self.allocators = AllocatorEvents(rows)
        self._run_bits = RUN_ID_MASK if "TPU" in devices else -1
        self._on_cpu = not devices
        self._class = np.array([self._classes.index(thread) for thread in thread_classes], np.int64)
        self._kind = rows.value_by_name(len(self._classes), self._kind_of)
        self._dispatch = (
            rows.value_by_name(1, lambda _, at: int(at >= 0 and rows.shown_names[at] in gpu_op_names))
            if gpu_op_names
            else None
        )
        self._executes = (
            rows.value_by_name(1, lambda _, at: int(at >= 0 and rows.shown_names[at].endswith(EXECUTION_EVENT_SUFFIX)))
            if gpu_planes
            else None
        )
        self._mark = rows.value_by_name(
            1, lambda _, at: int(at >= 0 and rows.shown_names[at].startswith(END_EVENT_PREFIX))
        )

    def _kind_of(self, each: int, at: int) -> int:
        return KIND_CODES[kind_of_host_event(self._rows.shown_names[at], self._classes[each]) if at >= 0 else "other"]

    def columns(self, events: DecodedEvents, line_in_plane: Offsets, position: Offsets) -> ColumnArrays:
        """Columns of decoded events."""
        rows = self._rows
        columns = dict(rows.common_columns(events, position, self._run_bits)) | dict(
            rows.op_name_columns(events, position)
        )
        kind = self._kind(self._class[line_in_plane], position)
        rows.state.compilations.add(events.line, kind, events.start, events.start + events.length)
        self.allocators.add(events, position)
        step, correlation, op = (columns[name] for name in ("step", "correlation", "hlo_op"))
        launched = correlation.valid if isinstance(correlation, NullableInts) else np.zeros(len(kind), bool)
        if isinstance(op, np.ndarray):
            kind[~launched & (op >= 0)] = KIND_CODES["op"]
        kind[launched & (kind == KIND_CODES["annotation"])] = KIND_CODES["runtime"]
        if isinstance(step, NullableInts):
            kind[step.valid] = KIND_CODES["step"]
        size = rows.int_stat(events, position, "size")
        moved = size and size.mask_except(kind == KIND_CODES["transfer"])
        columns["bytes"] = _first_known(moved, rows.copied_bytes(events, position))
        if self._dispatch is not None:
            columns["dispatch"] = self._dispatch(0, position)
        if self._executes is not None:
            columns["executes"] = self._executes(0, position)
        if self._on_cpu and columns["consumes"] is not None:
            columns["mark"] = self._mark(0, position)
        return {**columns, "kind": kind}

    def spill_rows(self, rows: RowTable) -> None:
        """Spill host rows, and what is needed to find the work of devices among them."""
        state = self._rows.state
        if "executes" in rows.columns:
            is_call = rows.columns["executes"].values == 1
            if "correlation" in rows.columns:
                is_launch = rows.columns["correlation"].valid
                is_call = is_call | (True if is_launch is None else is_launch)
            state.launch_calls.append(
                state.spill_table(rows.select("lane", "start", "end", "name", "correlation").take(is_call))
            )
        if "dispatch" in rows.columns:
            is_dispatch = rows.columns["dispatch"].values == 1
            state.dispatches.append(state.spill_table(rows.take(is_dispatch)))
            rows = rows.take(~is_dispatch)
        if "mark" in rows.columns:
            is_end_mark, has_id = rows.columns["mark"].values == 1, rows.columns["consumes"].valid
            marks = rows.select("consumes", "end").take(is_end_mark if has_id is None else is_end_mark & has_id)
            state.end_marks.append((self._rows.number, state.spill_table(marks)))
        self._rows.spill_rows(rows)
        if self._on_cpu and "hlo_op" in rows.columns:
            self._spill_cpu_ops(rows.take(rows.columns["hlo_op"].values >= 0))

    def _spill_cpu_ops(self, rows: RowTable) -> None:
        """Spill the ops that ran on host threads, as those of the CPU's devices."""
        ops = add_null_columns(columns_to_frame(rows.columns, rows.dtypes), *_OP_KEYS, "device")
        combinations, which = unique_combinations(ops, _OP_KEYS)
        named_ops = self._rows.ops_of_names(self._rows.add_innermost_ops(combinations))[which]
        other_columns = ops.drop(named_ops.columns, strict=False).with_columns(pl.col("device").fill_null(0))
        self._rows.spill_named_ops(other_columns.hstack(named_ops))


_OP_KEYS: Final = ("program", "module", "hlo_op")
"""Columns that identify the op of an event."""


def decode_events_of_shard(state: ShardState, ranges: Sequence[tuple[int, EventRange]]) -> ShardResult:
    """Decode ranges of events, each with the number of its plane, in the order of the file. Raises WrongCutError."""
    space, buffer = state.space, RowBuffer()
    firsts = np.cumsum([0, *(len(plane.lines) for plane in space.planes)]).tolist()
    for number in dict.fromkeys(number for number, _ in ranges):
        plane_ranges = [range_ for plane, range_ in ranges if plane == number]
        name = space.planes[number].name
        device = DEVICE_PLANE.match(name)
        common_stats = (
            COMMON_STATS
            if not HOST_PLANE.match(name) and (device is None or device[1] == "TPU")
            else COMMON_STATS + OP_NAME_STATS
        )
        extra_stats = (
            ALLOCATOR_STATS
            if HOST_PLANE.match(name)
            else (KERNEL_DETAILS_STAT,)
            if device is not None and device[1] != "TPU"
            else ()
        )
        rows = PlaneDecoder(state, number, firsts[number], (*common_stats, *extra_stats))
        counter_ranges = [
            range_ for range_ in plane_ranges if is_counter_line(rows.plane.lines[range_.line - rows.first_line])
        ]
        state.counter_samples += read_counter_samples(rows, counter_ranges)
        plane_ranges = [range_ for range_ in plane_ranges if range_ not in counter_ranges]
        if device is not None and device[1] == "TPU":
            rows.spill_decoded(buffer, plane_ranges, DevicePlaneColumns(rows, RUN_ID_MASK).columns, rows.spill_rows)
        elif device is not None:
            rows.spill_decoded(buffer, plane_ranges, DevicePlaneColumns(rows, -1).columns, rows.spill_kernels)
        elif HOST_PLANE.match(name):
            host = HostPlaneColumns(rows, _device_planes_by_kind(space))
            rows.spill_decoded(buffer, plane_ranges, host.columns, host.spill_rows)
            state.memory_events += host.allocators.spill_rest()
        else:
            rows.spill_decoded(buffer, plane_ranges, _other_columns(rows), rows.spill_rows)
    return state.result()


def _device_planes_by_kind(space: XSpace) -> dict[str, list[XPlane]]:
    """Device planes with events, by the kind of device."""
    found: dict[str, list[XPlane]] = {}
    for plane in space.planes:
        if plane.has_events and (named := DEVICE_PLANE.match(plane.name)):
            found.setdefault(named[1], []).append(plane)
    return found
