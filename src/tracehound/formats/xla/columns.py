"""What the events of devices and hosts are: their kinds, the ops that they execute, the steps that they mark.

Owns the meaning of lines and names on TPU, GPU and CPU as far as one portion of a file tells it. What takes all
portions (which lanes there are, and which are derived from others) is `xla.planes`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.formats.spill import frame_of
from tracehound.formats.wire import Rows
from tracehound.formats.xla.asides import asides_of, idle
from tracehound.formats.xla.counters import counts, sampled
from tracehound.formats.xla.lanes import END_MARK, EXECUTING, SCOPE
from tracehound.formats.xla.launched import STAT as DETAILS
from tracehound.formats.xla.memory import HELD, Allocators
from tracehound.formats.xla.names import (
    kind_of_device_event,
    kind_of_gpu_event,
    kind_of_host_event,
    role_of_line,
    thread_class,
)
from tracehound.formats.xla.ops import Met
from tracehound.formats.xla.planes import DEVICE, HOST, RUN_BITS, Share
from tracehound.formats.xla.rows import (
    NAMING,
    STATS,
    ColumnsOf,
    PlaneRows,
    Portioning,
    combinations,
    nullable_columns,
)
from tracehound.formats.xla.xevents import Slice, Stretched
from tracehound.formats.xla.xframes import Columns, Known
from tracehound.formats.xla.xshelf import Shelf, Table
from tracehound.formats.xla.xspace import Plane, Space
from tracehound.trace import KIND_CODES


def _other_columns(rows: PlaneRows) -> ColumnsOf:
    """A plane that is neither a device that computes nor a host: its lines are shown as they are."""

    def columns(part: Slice, local: Rows, position: Rows) -> Columns:
        other = np.full(len(local), KIND_CODES["other"], np.int64)
        return {**rows.common(part, position, -1), "step": None, "kind": other}

    return columns


class DeviceColumns:
    """What the events of a device plane are."""

    def __init__(self, rows: PlaneRows, run_bits: int) -> None:
        lines = rows.plane.lines
        roles = [role_of_line(line.name) for line in lines]
        classes = list(dict.fromkeys(roles))

        def kind_of(each: int, at: int) -> int:
            if at < 0:
                return KIND_CODES["other"]
            role, name = classes[each], rows.shown[at]
            return KIND_CODES[kind_of_gpu_event(name) if role == "stream" else kind_of_device_event(role, name)]

        self._rows = rows
        self._run_bits = run_bits
        self._class = np.array([classes.index(role) for role in roles], np.int64)
        self._on_ops = np.array([role in ("ops", "async") for role in roles], bool)
        self._kind = rows.by_name(len(classes), kind_of)
        self._op = rows.by_name(1, lambda _, at: self._met(at))
        self._op_kind = rows.by_name(1, lambda _, at: KIND_CODES[self._ops[self._met(at)].kind if at >= 0 else "op"])
        self._moved = rows.by_name(1, lambda _, at: _or_none(self._ops[self._met(at)].bytes) if at >= 0 else -1)
        self._step = rows.by_name(1, lambda _, at: _step_number(rows.shown[at]) if at >= 0 else -1)
        self._naming = run_bits == -1
        self._beside = asides_of(lines)
        self._mixed = bool((self._beside >= 0).any())
        self._idle = rows.by_name(1, lambda _, at: int(at >= 0 and idle(rows.shown[at])))

    @property
    def _ops(self) -> list[Met]:
        return self._rows.portioning.ops.met

    def _met(self, at: int) -> int:
        """The op that the metadata at a position tells of; -1 for none."""
        rows = self._rows
        return rows.portioning.ops.of_metadata(rows.number, rows.plane, rows.entries, at) if at >= 0 else -1

    def columns(self, part: Slice, local: Rows, position: Rows) -> Columns:
        """The columns of a slice."""
        rows = self._rows
        columns: dict[str, Rows | Known | None] = dict(rows.common(part, position, self._run_bits))
        kind = self._kind(self._class[local], position)
        moved = rows.detailed_bytes(part, position)
        on_ops = np.flatnonzero(self._on_ops[local])
        if len(on_ops):
            at = position[on_ops]
            kind[on_ops] = self._op_kind(0, at)
            op, size = np.full(len(local), -1, np.int64), np.full(len(local), -1, np.int64)
            op[on_ops], size[on_ops] = self._op(0, at), self._moved(0, at)
            columns["op"] = Known(op, op >= 0)
            if (size >= 0).any():
                moved = _either(Known(size, size >= 0), moved)
        if self._mixed:
            aside = np.flatnonzero(self._beside[local] >= 0)
            aside = aside[self._idle(0, position[aside]) > 0]
            lane = part.line.copy()
            lane[aside], kind[aside] = rows.first + self._beside[local[aside]], KIND_CODES["other"]
            columns["lane"] = lane
        steps = kind == KIND_CODES["step"]
        if steps.any():
            number = self._step(0, position)
            columns["step"] = _either(columns["step"], Known(number, number >= 0))
        if isinstance(columns["step"], Known):
            columns["step"] = columns["step"].only(steps)
        naming = rows.naming(part, position) if self._naming else {}
        if self._naming:
            details = rows.text_of(part, position, DETAILS)
            columns["details"] = np.full(len(local), -1, np.int64) if details is None else details
        return {**columns, "kind": kind, "bytes": moved, **naming, "device": None}


_STEP_NUMBER = re.compile(r"(?<!\d)(\d{1,9})\s*$")


def _step_number(name: str) -> int:
    found = _STEP_NUMBER.search(name)
    return int(found[1]) if found else -1


def _or_none(size: int | None) -> int:
    return -1 if size is None else size


def _either(first: Rows | Known | None, second: Known | None) -> Known | None:
    """The first where it is known, else the second."""
    if not isinstance(first, Known):
        return second
    if second is None:
        return first
    return Known(np.where(first.known, first.value, second.value), first.known | second.known)


class HostColumns:
    """What the events of a host plane are.

    `devices` are the planes of devices by their kind. What bears the name of a GPU's op is its dispatch. Without any
    device, the ops that run on the host's threads are those of the CPU's devices.
    """

    def __init__(self, rows: PlaneRows, devices: Mapping[str, Sequence[Plane]]) -> None:
        classes = [thread_class(line.name.split("/")[0]) for line in rows.plane.lines]
        self._classes = list(dict.fromkeys(classes))
        told = {text.split(SCOPE)[-1] for plane in devices.get("GPU", ()) for text in plane.stat_names.values()}

        self._rows = rows
        self.allocators = Allocators(rows)
        self._run_bits = RUN_BITS if "TPU" in devices else -1
        self._on_cpu = not devices
        self._class = np.array([self._classes.index(each) for each in classes], np.int64)
        self._kind = rows.by_name(len(self._classes), self._kind_of)
        self._dispatch = rows.by_name(1, lambda _, at: int(at >= 0 and rows.shown[at] in told)) if told else None
        self._executes = (
            rows.by_name(1, lambda _, at: int(at >= 0 and rows.shown[at].endswith(EXECUTING)))
            if "GPU" in devices
            else None
        )
        self._mark = rows.by_name(1, lambda _, at: int(at >= 0 and rows.shown[at].startswith(END_MARK)))

    def _kind_of(self, each: int, at: int) -> int:
        return KIND_CODES[kind_of_host_event(self._rows.shown[at], self._classes[each]) if at >= 0 else "other"]

    def columns(self, part: Slice, local: Rows, position: Rows) -> Columns:
        """The columns of a slice."""
        rows = self._rows
        columns = dict(rows.common(part, position, self._run_bits)) | dict(rows.naming(part, position))
        kind = self._kind(self._class[local], position)
        rows.portioning.compiling.add(part.line, kind, part.start, part.start + part.length)
        self.allocators.add(part, position)
        step, correlation, op = (columns[name] for name in ("step", "correlation", "hlo_op"))
        launched = correlation.known if isinstance(correlation, Known) else np.zeros(len(kind), bool)
        if isinstance(op, np.ndarray):
            kind[~launched & (op >= 0)] = KIND_CODES["op"]
        kind[launched & (kind == KIND_CODES["annotation"])] = KIND_CODES["runtime"]
        if isinstance(step, Known):
            kind[step.known] = KIND_CODES["step"]
        size = rows.number_of(part, position, "size")
        moved = size and size.only(kind == KIND_CODES["transfer"])
        columns["bytes"] = _either(moved, rows.detailed_bytes(part, position))
        if self._dispatch is not None:
            columns["dispatch"] = self._dispatch(0, position)
        if self._executes is not None:
            columns["executes"] = self._executes(0, position)
        if self._on_cpu and columns["consumes"] is not None:
            columns["mark"] = self._mark(0, position)
        return {**columns, "kind": kind}

    def put(self, rows: Table) -> None:
        """Put host rows aside, and what is needed to find devices' work among them."""
        here = self._rows.portioning
        if "executes" in rows.columns:
            calling = rows.columns["executes"].values == 1
            if "correlation" in rows.columns:
                launching = rows.columns["correlation"].valid
                calling = calling | (True if launching is None else launching)
            here.calls.append(here.put(rows.select("lane", "start", "end", "name", "correlation").at(calling)))
        if "dispatch" in rows.columns:
            told = rows.columns["dispatch"].values == 1
            here.dispatches.append(here.put(rows.at(told)))
            rows = rows.at(~told)
        if "mark" in rows.columns:
            marked, ids = rows.columns["mark"].values == 1, rows.columns["consumes"].valid
            marks = rows.select("consumes", "end").at(marked if ids is None else marked & ids)
            here.marks.append((self._rows.number, here.put(marks)))
        self._rows.put(rows)
        if self._on_cpu and "hlo_op" in rows.columns:
            self._put_ops(rows.at(rows.columns["hlo_op"].values >= 0))

    def _put_ops(self, rows: Table) -> None:
        """Put the ops that ran on the host's threads aside, as those of the CPU's devices."""
        ops = nullable_columns(frame_of(rows.columns, rows.dtypes), *_NAMING, "device")
        each, which = combinations(ops, _NAMING)
        told = self._rows.named(self._rows.with_leaves(each))[which]
        rest = ops.drop(told.columns, strict=False).with_columns(pl.col("device").fill_null(0))
        self._rows.put_named(rest.hstack(told))


_NAMING: Final = ("program", "module", "hlo_op")
"""What tells which op an event is of."""


def read(portioning: Portioning, stretches: Sequence[tuple[int, Stretched]]) -> Share:
    """Decode the stretches, each with the number of its plane, in the order of the file. Raises TornError."""
    space, shelf = portioning.space, Shelf()
    firsts = np.cumsum([0, *(len(plane.lines) for plane in space.planes)]).tolist()
    for number in dict.fromkeys(number for number, _ in stretches):
        mine = [one for at, one in stretches if at == number]
        name = space.planes[number].name
        device = DEVICE.match(name)
        stats = STATS if not HOST.match(name) and (device is None or device[1] == "TPU") else STATS + NAMING
        more = HELD if HOST.match(name) else (DETAILS,) if device is not None and device[1] == "GPU" else ()
        rows = PlaneRows(portioning, number, firsts[number], (*stats, *more))
        sampling = [one for one in mine if counts(rows.plane.lines[one.line - rows.first])]
        portioning.sampled += sampled(rows, sampling)
        mine = [one for one in mine if one not in sampling]
        if device is not None and device[1] == "TPU":
            rows.fill(shelf, mine, DeviceColumns(rows, RUN_BITS).columns, rows.put)
        elif device is not None:
            rows.fill(shelf, mine, DeviceColumns(rows, -1).columns, rows.put_kernels)
        elif HOST.match(name):
            host = HostColumns(rows, _devices(space))
            rows.fill(shelf, mine, host.columns, host.put)
            portioning.held += host.allocators.told()
        else:
            rows.fill(shelf, mine, _other_columns(rows), rows.put)
    return portioning.share()


def _devices(space: Space) -> dict[str, list[Plane]]:
    """The device planes with events, by the kind of device."""
    found: dict[str, list[Plane]] = {}
    for plane in space.planes:
        if plane.has_events and (named := DEVICE.match(plane.name)):
            found.setdefault(named[1], []).append(plane)
    return found
