"""Events of planes -> raw events: what the events of devices and hosts are, slice by slice.

Owns the meaning of stats and names on TPU, GPU and CPU as far as one portion of a file tells it. What takes all
portions (which lanes there are, and which are derived from others) is `xla_planes`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.assemble import RAW
from tracehound.formats.spill import Kept, Spill
from tracehound.formats.wire import File, Rows
from tracehound.formats.xevents import Slice, Stretched, Wanted, slices, wanted
from tracehound.formats.xframes import CODE, ENOUGH, ByName, Known, Shelf, Stated, link, nobody
from tracehound.formats.xla_lanes import END_MARK, OVERRULED, SCOPE, leaf_op
from tracehound.formats.xla_names import (
    kind_of_device_event,
    kind_of_gpu_event,
    kind_of_host_event,
    role_of_line,
    thread_class,
)
from tracehound.formats.xla_ops import Meeting, Met
from tracehound.formats.xla_planes import DEVICE, HOST, RUN_BITS, Share
from tracehound.formats.xmetadata import described
from tracehound.formats.xspace import Plane, Space
from tracehound.formats.xstats import Flags
from tracehound.intervals import Intervals, union
from tracehound.trace import KIND

LIMIT_PS = 1 << 61
"""A time beyond this (26 days) is no time of a profile: the event is damaged."""

STATS = (
    "run_id", "correlation_id", "_p", "_pt", "_c", "_ct", "step_num", "_r", "device_offset_ps", "device_duration_ps",
    "memcpy_details",
)  # fmt: skip
"""Stats that become columns of all events."""

NAMING = ("hlo_op", "hlo_module", "program_id", "device_ordinal", "size")
"""Stats of kernels and of host events that name the op that runs."""

Columns = dict[str, npt.NDArray[np.generic] | Known | None]


@dataclass
class Portioning:
    """What the events of a portion are read with, and what they amount to so far.

    `base_ns` is the time of lines that is 0; `stem` begins the names of files; `tick` is told of bytes and events read.
    """

    file: File
    space: Space
    base_ns: int
    ops: Meeting
    spill: Spill
    stem: str
    tick: Callable[[int, int], None]
    drawn: Rows
    pieces: list[Kept] = field(default_factory=list)
    named: list[tuple[int, Kept]] = field(default_factory=list)
    marks: list[tuple[int, Kept]] = field(default_factory=list)
    dispatches: list[Kept] = field(default_factory=list)
    untimed: int = 0
    broken: int = 0
    _kept: int = 0

    def keep(self, rows: pl.DataFrame, *more: str) -> Kept:
        """Put rows aside: the columns of RAW, and these."""
        self._kept += 1
        columns = [name for name in (*RAW, *more) if name in rows.columns]
        return self.spill.keep(rows.select(columns), f"{self.stem}-{self._kept}")

    def share(self) -> Share:
        """All of it."""
        return Share(
            tuple(self.pieces), tuple(self.named), tuple(self.marks), tuple(self.dispatches), self.drawn,
            tuple(self.ops.met), self.untimed, self.broken,
        )  # fmt: skip


def read(portioning: Portioning, stretches: Sequence[tuple[int, Stretched]]) -> Share:
    """Decode the stretches, each with the number of its plane, in the order of the file. Raises Torn as `slices`."""
    space = portioning.space
    firsts = np.cumsum([0, *(len(plane.lines) for plane in space.planes)]).tolist()
    for number in dict.fromkeys(number for number, _ in stretches):
        mine = [one for at, one in stretches if at == number]
        name = space.planes[number].name
        device = DEVICE.match(name)
        stats = STATS if not HOST.match(name) and (device is None or device[1] == "TPU") else STATS + NAMING
        rows = PlaneRows(portioning, number, firsts[number], stats)
        if device is not None and device[1] == "TPU":
            rows.fill(mine, DeviceColumns(rows, RUN_BITS), rows.put)
        elif device is not None:
            rows.fill(mine, DeviceColumns(rows, -1), rows.put_kernels)
        elif HOST.match(name):
            host = HostColumns(rows, _devices(space))
            host.find_compilations(mine)
            rows.fill(mine, host, host.put)
        else:
            rows.fill(mine, _other_columns(rows), rows.put)
    return portioning.share()


def _devices(space: Space) -> dict[str, list[Plane]]:
    """The device planes with events, by the kind of device."""
    found: dict[str, list[Plane]] = {}
    for plane in space.planes:
        if plane.has_events and (named := DEVICE.match(plane.name)):
            found.setdefault(named[1], []).append(plane)
    return found


ColumnsOf = Callable[[Slice, Rows, Rows], Columns]
"""What a slice, the lines of its events (in the plane) and the positions of their metadata give."""


class PlaneRows:
    """The events of one plane on their way into frames."""

    def __init__(self, portioning: Portioning, number: int, first: int, stats: Sequence[str]) -> None:
        self.portioning = portioning
        self.number = number
        self.plane = portioning.space.planes[number]
        self.entries = described(portioning.file, self.plane.metadata)
        self.shown = self.entries.shown
        self.shelf = Shelf()
        self.first = first
        self._wanted = wanted(self.plane.stat_names, stats)
        self._stated = Stated(portioning.file, self.entries, self.plane.stat_names, stats, self.shelf.texts)
        self._rooted = "_r" in self.plane.stat_names.values()
        self._name = self.by_name(1, lambda _, at: self.shelf.texts.number(self.shown[at]))
        shift = [(line.timestamp_ns - portioning.base_ns) * 1000 for line in self.plane.lines]
        self._far = np.array([abs(ps) >= LIMIT_PS for ps in shift], bool)
        self._shift = np.array([0 if abs(ps) >= LIMIT_PS else ps for ps in shift], np.int64)
        self._detailed: dict[int, int] = {}

    def by_name(self, classes: int, of: Callable[[int, int], int]) -> ByName:
        """What is known of events by a class of lines and the position of their metadata."""
        return ByName(classes, len(self.shown), of)

    def parts(self, stretches: Sequence[Stretched], what: Wanted) -> Iterator[tuple[Slice, Rows, Flags]]:
        """The slices, the line of each event in the plane, and which events can be drawn; starts from `base_ns`."""
        for part in slices(self.portioning.file, stretches, what):
            local = part.line - self.first
            in_range = (
                (part.start > -LIMIT_PS) & (part.start < LIMIT_PS) & (part.length >= 0) & (part.length < LIMIT_PS)
            )
            sound = part.sound & (in_range & ~self._far[local] | ~part.timed)
            yield part.later(self._shift[local]), local, sound

    def fill(self, stretches: Sequence[Stretched], columns: ColumnsOf, put: Callable[[pl.DataFrame], None]) -> None:
        """Decode the stretches and put their rows aside, some hundred thousand at a time."""
        here = self.portioning
        for part, local, sound in self.parts(stretches, self._wanted):
            keep = sound & part.timed
            here.tick(part.piece.size, len(keep))
            if not keep.all():
                here.untimed += int((sound & ~part.timed).sum())
                here.broken += int((~sound).sum())
                part, local = part.take(keep), local[keep]
            here.drawn[:] += np.bincount(part.line, minlength=len(here.drawn))
            self.shelf.add(len(local), columns(part, local, self.plane.metadata.positions(part.metadata)))
            if self.shelf.height >= ENOUGH:
                put(self.shelf.frame())
        if self.shelf.height:
            put(self.shelf.frame())

    def put(self, rows: pl.DataFrame) -> None:
        """Rows as they are."""
        self.portioning.pieces.append(self.portioning.keep(rows))

    def number_of(self, part: Slice, position: Rows, name: str) -> Known | None:
        """A whole number among the stats."""
        return self._stated.number(part, position, name)

    def text_of(self, part: Slice, position: Rows, name: str) -> Rows | None:
        """A text among the stats, as its number in `shelf.texts`."""
        return self._stated.text(part, position, name)

    def common(self, part: Slice, position: Rows, run_bits: int) -> Columns:
        """The columns that mean the same in all planes."""
        numbers = {name: self.number_of(part, position, name) for name in STATS[:-1]}
        run, offset, length = numbers["run_id"], numbers["device_offset_ps"], numbers["device_duration_ps"]
        return {
            "lane": part.line.astype(np.int32),
            "start": part.start,
            "end": part.start + part.length,
            "name": self._names(part, position),
            "record": part.record,
            "correlation": numbers["correlation_id"],
            "run": run and Known(run.value & run_bits, run.known),
            "produces": _link(numbers["_p"], numbers["_pt"]),
            "consumes": _link(numbers["_c"], numbers["_ct"]),
            "step": self._steps(numbers["step_num"], numbers["_r"]),
            "device_start": offset,
            "device_end": offset and Known(offset.value + (length.value if length else 0), offset.known),
        }

    def _names(self, part: Slice, position: Rows) -> Rows:
        """What events are called; one whose metadata is lost by the id of that."""
        lost = np.flatnonzero(position < 0)
        if not len(lost):
            return self._name(0, position)
        ids, inverse = np.unique(part.metadata[lost], return_inverse=True)
        names = np.zeros(len(position), np.int64)
        known = np.flatnonzero(position >= 0)
        names[known] = self._name(0, position[known])
        names[lost] = np.array([self.shelf.texts.number(f"event {id_}") for id_ in ids.tolist()])[inverse]
        return names

    def _steps(self, number: Known | None, root: Known | None) -> Known | None:
        """The numbers of steps, on the roots that mark them; in a plane that knows no roots, on all that have one."""
        if number is None or (self._rooted and root is None):
            return None
        small = np.abs(number.value) < 1 << 31
        return number.only(small & (root.value > 0) & root.known if root is not None else small)

    def detailed_bytes(self, part: Slice, position: Rows) -> Known | None:
        """The bytes that the details of a copy tell: ``kind:HtoD size:4096 dest:0``."""
        text = self.text_of(part, position, "memcpy_details")
        if text is None:
            return None
        each, inverse = np.unique(text, return_inverse=True)
        sizes = np.array([self._bytes_in(number) for number in each.tolist()], np.int64)[inverse]
        return Known(sizes, sizes >= 0)

    def _bytes_in(self, text: int) -> int:
        if text not in self._detailed:
            found = _DETAILED.search(self.shelf.texts.words[text]) if text >= 0 else None
            self._detailed[text] = int(found[1]) if found else -1
        return self._detailed[text]

    def naming(self, part: Slice, position: Rows) -> Columns:
        """The columns that say which op runs."""
        return {
            "hlo_op": self.text_of(part, position, "hlo_op"),
            "module": self.text_of(part, position, "hlo_module"),
            "program": self.number_of(part, position, "program_id"),
            "device": self.number_of(part, position, "device_ordinal"),
        }

    def put_kernels(self, rows: pl.DataFrame) -> None:
        """Rows of a GPU: `op` of the kernels that name theirs, and the kind of those that run a collective."""
        if "hlo_op" not in rows.columns:
            self.put(rows)
            return
        rows = self.with_leaves(_with(rows, "op", "bytes", "program", "module")).with_row_index("row")
        named = rows.filter(pl.col("leaf").is_not_null())
        found = self.portioning.ops.of_names(
            self.number, named.select("program", "module", pl.col("leaf").alias("name"))
        )
        known = named.select("row").hstack(found.rename({"op": "named", "kind": "role", "bytes": "moved"}))
        rows = rows.join(known, on="row", how="left", maintain_order="left").with_columns(
            pl.coalesce("op", "named").alias("op"),
            pl.coalesce("bytes", pl.when(pl.col("role") == "collective").then("moved")).alias("bytes"),
            pl.when((pl.col("kind") == "kernel") & (pl.col("role") == "collective"))
            .then(pl.lit("collective", KIND)).otherwise(pl.col("kind")).alias("kind"),
        )  # fmt: skip
        self.put(rows)
        self.put_named(rows.filter(pl.col("leaf").is_not_null()).with_columns(pl.lit(0, pl.Int64).alias("device")))

    def with_leaves(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with `leaf` (the op that they run) and `module` as texts, null where they have none."""
        texts = {
            name: self.shelf.texts.series(rows[name].fill_null(-1).to_numpy(), pl.String())
            for name in ("hlo_op", "module")
        }
        return rows.with_columns(**texts).with_columns(leaf_op(pl.col("hlo_op")).alias("leaf"))

    def put_named(self, rows: pl.DataFrame) -> None:
        """Executions of ops: rows with `leaf` and `role`, its kind."""
        if rows.height:
            rows = rows.with_columns(
                pl.col("leaf").cast(pl.Categorical).alias("name"),
                pl.col("role").fill_null("op").cast(KIND).alias("kind"),
            )
            kept = self.portioning.keep(rows, "module", "program", "device")
            self.portioning.named.append((self.number, kept))


_DETAILED = re.compile(r"(?:size|num_bytes):(\d{1,18})(?!\d)")
_STEP_NUMBER = re.compile(r"(\d{1,9})\s*$")


def _with(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The rows with these columns, null where they had none."""
    return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in names if name not in rows.columns)


def _link(ids: Known | None, types: Known | None) -> Known | None:
    return ids and link(ids, types or nobody(len(ids.value)))


def _other_columns(rows: PlaneRows) -> ColumnsOf:
    """A plane that is neither a device that computes nor a host: its lines are shown as they are."""

    def columns(part: Slice, local: Rows, position: Rows) -> Columns:
        other = np.full(len(local), CODE["other"], np.int64)
        return {**rows.common(part, position, -1), "step": None, "kind": other}

    return columns


class DeviceColumns:
    """The columns of a device plane. Called as `ColumnsOf`."""

    def __init__(self, rows: PlaneRows, run_bits: int) -> None:
        lines = rows.plane.lines
        roles = [role_of_line(line.name) for line in lines]
        classes = list(dict.fromkeys(roles))

        def kind_of(each: int, at: int) -> int:
            if at < 0:
                return CODE["other"]
            role, name = classes[each], rows.shown[at]
            return CODE[kind_of_gpu_event(name) if role == "stream" else kind_of_device_event(role, name)]

        self._rows = rows
        self._run_bits = run_bits
        self._class = np.array([classes.index(role) for role in roles], np.int64)
        self._on_ops = np.array([role in ("ops", "async") for role in roles], bool)
        self._kind = rows.by_name(len(classes), kind_of)
        self._op = rows.by_name(1, lambda _, at: self._met(at))
        self._op_kind = rows.by_name(1, lambda _, at: CODE[self._ops[self._met(at)].kind] if at >= 0 else CODE["op"])
        self._moved = rows.by_name(1, lambda _, at: _or_none(self._ops[self._met(at)].bytes) if at >= 0 else -1)
        self._step = rows.by_name(1, lambda _, at: _step_number(rows.shown[at]) if at >= 0 else -1)
        self._naming = run_bits == -1

    @property
    def _ops(self) -> list[Met]:
        return self._rows.portioning.ops.met

    def _met(self, at: int) -> int:
        """The op that the metadata at a position tells of; -1 for none."""
        rows = self._rows
        return rows.portioning.ops.of_metadata(rows.number, rows.plane, rows.entries, at) if at >= 0 else -1

    def __call__(self, part: Slice, local: Rows, position: Rows) -> Columns:
        rows = self._rows
        columns = rows.common(part, position, self._run_bits)
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
        steps = kind == CODE["step"]
        if steps.any():
            number = self._step(0, position)
            columns["step"] = _either(columns["step"], Known(number, number >= 0))
        if isinstance(columns["step"], Known):
            columns["step"] = columns["step"].only(steps)
        naming = rows.naming(part, position) if self._naming else {}
        return {**columns, "kind": kind, "bytes": moved, **naming, "device": None}


def _step_number(name: str) -> int:
    found = _STEP_NUMBER.search(name)
    return int(found[1]) if found else -1


def _or_none(size: int | None) -> int:
    return -1 if size is None else size


def _either(first: npt.NDArray[np.generic] | Known | None, second: Known | None) -> Known | None:
    """The first where it is known, else the second."""
    if not isinstance(first, Known):
        return second
    if second is None:
        return first
    return Known(np.where(first.known, first.value, second.value), first.known | second.known)


_OVERRULED = np.isin(np.arange(len(CODE)), [CODE[kind] for kind in OVERRULED])


class HostColumns:
    """The columns of a host plane. Called as `ColumnsOf`.

    `devices` are the planes of devices by their kind. What bears the name of a GPU's op is its dispatch. Without any
    device, the ops that run on the host's threads are those of the CPU's devices.
    """

    def __init__(self, rows: PlaneRows, devices: Mapping[str, Sequence[Plane]]) -> None:
        classes = [thread_class(line.name.split("/")[0]) for line in rows.plane.lines]
        self._classes = list(dict.fromkeys(classes))
        told = {text.split(SCOPE)[-1] for plane in devices.get("GPU", ()) for text in plane.stat_names.values()}

        self._rows = rows
        self._run_bits = RUN_BITS if "TPU" in devices else -1
        self._on_cpu = not devices
        self._class = np.array([self._classes.index(each) for each in classes], np.int64)
        self._kind = rows.by_name(len(self._classes), self._kind_of)
        self._dispatch = rows.by_name(1, lambda _, at: int(at >= 0 and rows.shown[at] in told)) if told else None
        self._mark = rows.by_name(1, lambda _, at: int(at >= 0 and rows.shown[at].startswith(END_MARK)))
        self._compiling: dict[int, Intervals] = {}

    def _kind_of(self, each: int, at: int) -> int:
        return CODE[kind_of_host_event(self._rows.shown[at], self._classes[each])] if at >= 0 else CODE["other"]

    def find_compilations(self, stretches: Sequence[Stretched]) -> None:
        """When compilations are under way on the lines of these stretches and on those drawn with them.

        Events lie in any order, so this is known only when all of a line was gone through.
        """
        rows = self._rows
        compile_kind = CODE["compile"]
        names = [at for at in range(len(rows.shown)) if self._kind_of(0, at) == compile_kind]
        if not names and "compiler" not in self._classes:
            return
        first = rows.first
        drawn = {rows.plane.lines[one.line - first].row for one in stretches}
        together: dict[tuple[str, int], list[int]] = {}
        for at, line in enumerate(rows.plane.lines):
            if line.row in drawn:
                together.setdefault(line.row, []).append(at)
        for lines in together.values():
            whole = [Stretched(first + at, *one) for at in lines for one in rows.plane.lines[at].stretches]
            starts, ends = [], []
            for part, local, sound in rows.parts(whole, wanted({}, ())):
                kind = self._kind(self._class[local], rows.plane.metadata.positions(part.metadata))
                here = np.flatnonzero((kind == compile_kind) & sound & part.timed)
                starts.append(part.start[here])
                ends.append(part.start[here] + part.length[here])
            spans = union(np.concatenate(starts), np.concatenate(ends))
            if len(spans.start):
                self._compiling.update(dict.fromkeys(lines, spans))

    def _with_compilations(self, kind: Rows, part: Slice, local: Rows) -> None:
        """Passes of the compiler have names that say nothing (``dce``, ``fusion``); they lie inside the compilation."""
        for line in np.unique(local).tolist() if self._compiling else ():
            spans = self._compiling.get(line)
            if spans is None:
                continue
            mine = np.flatnonzero((local == line) & _OVERRULED[kind])
            start = part.start[mine]
            at = np.searchsorted(spans.start, start, side="right") - 1
            kind[mine[(at >= 0) & (start < spans.end[np.maximum(at, 0)])]] = CODE["compile"]

    def __call__(self, part: Slice, local: Rows, position: Rows) -> Columns:
        rows = self._rows
        columns = {**rows.common(part, position, self._run_bits), **rows.naming(part, position)}
        kind = self._kind(self._class[local], position)
        self._with_compilations(kind, part, local)
        step, correlation, op = (columns[name] for name in ("step", "correlation", "hlo_op"))
        launched = correlation.known if isinstance(correlation, Known) else np.zeros(len(kind), bool)
        if isinstance(op, np.ndarray):
            kind[~launched & (op >= 0)] = CODE["op"]
        kind[launched & (kind == CODE["annotation"])] = CODE["runtime"]
        if isinstance(step, Known):
            kind[step.known] = CODE["step"]
        size = rows.number_of(part, position, "size")
        columns["bytes"] = _either(size and size.only(kind == CODE["transfer"]), rows.detailed_bytes(part, position))
        if self._dispatch is not None:
            columns["dispatch"] = self._dispatch(0, position)
        if self._on_cpu and columns["consumes"] is not None:
            columns["mark"] = self._mark(0, position)
        return {**columns, "kind": kind}

    def put(self, rows: pl.DataFrame) -> None:
        """Put host rows aside, and what is needed to find devices' work among them."""
        here = self._rows.portioning
        if "dispatch" in rows.columns:
            here.dispatches.append(here.keep(rows.filter(pl.col("dispatch") == 1)))
            rows = rows.filter(pl.col("dispatch") != 1)
        if "mark" in rows.columns:
            marks = rows.filter((pl.col("mark") == 1) & pl.col("consumes").is_not_null()).select("consumes", "end")
            here.marks.append((self._rows.number, here.keep(marks)))
        self._rows.put(rows)
        if self._on_cpu and "hlo_op" in rows.columns:
            ops = rows.filter(pl.col("hlo_op") >= 0)
            ops = self._rows.with_leaves(_with(ops, "program", "module", "device")).drop("op", "bytes", strict=False)
            asked = ops.select("program", "module", pl.col("leaf").alias("name"))
            found = here.ops.of_names(self._rows.number, asked).rename({"kind": "role"})
            self._rows.put_named(ops.hstack(found).with_columns(pl.col("device").fill_null(0)))
