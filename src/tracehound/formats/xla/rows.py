"""The events of a plane on their way into frames, slice by slice.

Owns the columns that mean the same on all planes, and what a portion of a file puts aside. What the events of devices
and hosts are is `xla.columns`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.assemble import RAW
from tracehound.formats.spill import Kept, Spill
from tracehound.formats.times import FARTHEST, FARTHEST_PS
from tracehound.formats.wire import File, Rows
from tracehound.formats.xla.compiles import Compiling
from tracehound.formats.xla.lanes import EXECUTING, leaf_op, outer_loop
from tracehound.formats.xla.launched import detailed_bytes, launched
from tracehound.formats.xla.ops import Meeting
from tracehound.formats.xla.planes import HOST, Share
from tracehound.formats.xla.xevents import Slice, Stretched, slices, wanted
from tracehound.formats.xla.xframes import ByName, Columns, Known, Stated, Texts, link, nobody
from tracehound.formats.xla.xmetadata import described
from tracehound.formats.xla.xshelf import Shelf, Table
from tracehound.formats.xla.xspace import Space
from tracehound.formats.xla.xstats import Flags
from tracehound.trace import KIND, KIND_CODES

LIMIT_PS = 1 << 61
"""A time beyond this (26 days) from that of its line is no time of a profile: the event is damaged. So is one of
`FARTHEST_PS`, and a line whose time is `FARTHEST` from that of the line with the middle event."""

COPYING = ("memcpy_details", "memset_details")
"""Stats that tell the bytes of a copy or a memset in a text."""

STATS = (
    "run_id", "correlation_id", "_p", "_pt", "_c", "_ct", "step_num", "_r", "device_offset_ps", "device_duration_ps",
    *COPYING,
)  # fmt: skip
"""Stats that become columns of all events."""

NAMING = ("hlo_op", "hlo_module", "program_id", "device_ordinal", "size")
"""Stats of kernels and of host events that name the op that runs."""

_BATCH: Final = "Profiled batch"
"""How Keras 3 marks a step where its TensorBoard callback profiles."""


class Portioning(Struct, dict=True):
    """What the events of a portion are read with, and what they amount to so far.

    `base_ns` is the time of lines that is 0, `middle_ns` that of the middle one; `stem` begins the names of files;
    `tick` is told of bytes and events read.
    """

    file: File
    space: Space
    base_ns: int
    middle_ns: int
    ops: Meeting
    spill: Spill
    stem: str
    tick: Callable[[int, int], None]
    drawn: Rows
    pieces: list[Kept] = field(default_factory=list)
    named: list[tuple[int, Kept]] = field(default_factory=list)
    unnamed: list[tuple[int, Kept]] = field(default_factory=list)
    marks: list[tuple[int, Kept]] = field(default_factory=list)
    dispatches: list[Kept] = field(default_factory=list)
    calls: list[Kept] = field(default_factory=list)
    compiling: Compiling = field(default_factory=Compiling)
    held: list[Kept] = field(default_factory=list)
    launched: list[Kept] = field(default_factory=list)
    sampled: list[pl.DataFrame] = field(default_factory=list)
    untimed: int = 0
    broken: int = 0
    unclocked: int = 0
    _kept: int = 0

    @cached_property
    def executes(self) -> bool:
        """Whether hosts of the file tell of executions of modules that they launch on GPUs."""
        hosts = (plane for plane in self.space.planes if HOST.match(plane.name))
        return any(name.endswith(EXECUTING) for plane in hosts for name in described(self.file, plane.metadata).shown)

    def keep(self, rows: pl.DataFrame, *more: str) -> Kept:
        """Put the rows of a frame aside: the columns of RAW, and these."""
        columns = [name for name in (*RAW, *more) if name in rows.columns]
        return self.aside(rows.select(columns))

    def aside(self, rows: pl.DataFrame) -> Kept:
        """Put the rows of a frame aside, with all columns."""
        return self.spill.keep(rows, self._name())

    def put(self, rows: Table) -> Kept:
        """Put the rows of a table aside: the columns of RAW."""
        rows = rows.select(*RAW)
        return self.spill.put(rows.columns, rows.dtypes, self._name())

    def _name(self) -> str:
        self._kept += 1
        return f"{self.stem}-{self._kept}"

    def share(self) -> Share:
        """All of it."""
        return Share(
            tuple(self.pieces), tuple(self.named), tuple(self.unnamed), tuple(self.marks), tuple(self.dispatches),
            tuple(self.calls), self.compiling.spans(), self.drawn, tuple(self.ops.met), self.untimed, self.broken,
            self.unclocked, tuple(self.held), tuple(self.launched), tuple(self.sampled),
            self.ops.users() if self.marks else None,
        )  # fmt: skip


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
        self.texts = Texts()
        self.first = first
        self._wanted = wanted(self.plane.stat_names, stats)
        self._stated = Stated(portioning.file, self.entries, self.plane.stat_names, stats, self.texts)
        self._rooted = "_r" in self.plane.stat_names.values()
        self._name = self.by_name(1, lambda _, at: self.texts.number(self.shown[at]))
        self._batch = self.by_name(1, lambda _, at: int(at >= 0 and self.shown[at] == _BATCH))
        far = [abs(line.timestamp_ns - portioning.middle_ns) >= FARTHEST for line in self.plane.lines]
        shift = [(line.timestamp_ns - portioning.base_ns) * 1000 for line in self.plane.lines]
        self._far = np.array(far, bool)
        self._shift = np.array([0 if out else ps for ps, out in zip(shift, far, strict=True)], np.int64)
        self._detailed: dict[int, int] = {}

    def by_name(self, classes: int, of: Callable[[int, int], int]) -> ByName:
        """What is known of events by a class of lines and the position of their metadata."""
        return ByName(classes, len(self.shown), of)

    def parts(self, stretches: Sequence[Stretched]) -> Iterator[tuple[Slice, Rows, Flags]]:
        """The slices, the line of each event in the plane, and which events are sound; starts from `base_ns`."""
        for part in slices(self.portioning.file, stretches, self._wanted):
            local = part.line - self.first
            in_range = (
                (part.start > -LIMIT_PS) & (part.start < LIMIT_PS) & (part.length >= 0) & (part.length < FARTHEST_PS)
            )
            sound = part.sound & (in_range & ~self._far.take(local) | ~part.timed)
            yield part.later(self._shift.take(local)), local, sound

    def fill(
        self, shelf: Shelf, stretches: Sequence[Stretched], columns: ColumnsOf, put: Callable[[Table], None]
    ) -> None:
        """Decode the stretches and put their rows aside, as many at a time as the empty shelf takes."""
        here = self.portioning
        for found, line, sound in self.parts(stretches):
            keep = sound & found.timed
            here.tick(found.piece.size, len(keep))
            part, local = found, line
            if not keep.all():
                here.untimed += int((sound & ~found.timed).sum())
                here.broken += int((~sound).sum())
                part, local = found.take(keep), line[keep]
            told = columns(part, local, self.plane.metadata.positions(part.metadata))
            here.drawn[:] += np.bincount(told["lane"], minlength=len(here.drawn))  # type: ignore[arg-type]  # known of all
            shelf.add(len(local), told)
            if shelf.full:
                put(shelf.table(self.texts))
        if shelf.height:
            put(shelf.table(self.texts))

    def put(self, rows: Table) -> None:
        """Rows as they are."""
        self.portioning.pieces.append(self.portioning.put(rows))

    def number_of(self, part: Slice, position: Rows, name: str) -> Known | None:
        """A whole number among the stats."""
        return self._stated.number(part, position, name)

    def text_of(self, part: Slice, position: Rows, name: str) -> Rows | None:
        """A text among the stats, as its number in `texts`."""
        return self._stated.text(part, position, name)

    def common(self, part: Slice, position: Rows, run_bits: int) -> Columns:
        """The columns that mean the same in all planes."""
        numbers = {name: self.number_of(part, position, name) for name in STATS if name not in COPYING}
        run, offset, length = numbers["run_id"], numbers["device_offset_ps"], numbers["device_duration_ps"]
        return {
            "lane": part.line,
            "start": part.start,
            "end": part.start + part.length,
            "name": self._names(part, position),
            "record": part.record,
            "correlation": numbers["correlation_id"],
            "run": run and Known(run.value & run_bits, run.known),
            "produces": _link(numbers["_p"], numbers["_pt"]),
            "consumes": _link(numbers["_c"], numbers["_ct"]),
            "step": self._steps(position, numbers["step_num"], numbers["_r"]),
            **self._own_clock(offset, length),
        }

    def _own_clock(self, offset: Known | None, length: Known | None) -> Columns:
        """Start and end by the device's own clock, null and counted where they cannot be true."""
        if offset is None:
            return {"device_start": None, "device_end": None}
        lasted = length.value if length else np.zeros_like(offset.value)
        sound = (offset.value > -LIMIT_PS) & (offset.value < LIMIT_PS) & (lasted >= 0) & (lasted < FARTHEST_PS)
        self.portioning.unclocked += int((offset.known & ~sound).sum())
        begun = Known(np.where(sound, offset.value, 0), offset.known & sound)
        return {"device_start": begun, "device_end": Known(begun.value + np.where(sound, lasted, 0), begun.known)}

    def _names(self, part: Slice, position: Rows) -> Rows:
        """What events are called; one whose metadata is lost by the id of that."""
        lost = np.flatnonzero(position < 0)
        if not len(lost):
            return self._name(0, position)
        ids, inverse = np.unique(part.metadata[lost], return_inverse=True)
        names = np.zeros(len(position), np.int64)
        known = np.flatnonzero(position >= 0)
        names[known] = self._name(0, position[known])
        names[lost] = np.array([self.texts.number(f"event {id_}") for id_ in ids.tolist()])[inverse]
        return names

    def _steps(self, position: Rows, number: Known | None, root: Known | None) -> Known | None:
        """The numbers of steps, on the roots that mark them; in a plane that knows no roots, on all that have one.

        Keras 3 makes no root of a batch, and TensorFlow makes roots of what is no step.
        """
        if number is None:
            return None
        marks = (number.value > -(1 << 31)) & (number.value < 1 << 31)
        if self._rooted:
            batch = self._batch(0, position) > 0
            if root is None and not batch.any():
                return None
            marks &= batch if root is None else batch | ((root.value > 0) & root.known)
        return number.only(marks)

    def detailed_bytes(self, part: Slice, position: Rows) -> Known | None:
        """The bytes that the details of a copy or a memset tell: ``kind:HtoD size:4096 dest:0``."""
        texts = [one for name in COPYING if (one := self.text_of(part, position, name)) is not None]
        if not texts:
            return None
        text = np.maximum.reduce(texts)
        each, inverse = np.unique(text, return_inverse=True)
        sizes = np.array([self._bytes_in(number) for number in each.tolist()], np.int64)[inverse]
        return Known(sizes, sizes >= 0)

    def _bytes_in(self, text: int) -> int:
        if text not in self._detailed:
            found = detailed_bytes(self.texts.words[text]) if text >= 0 else None
            self._detailed[text] = -1 if found is None else found
        return self._detailed[text]

    def naming(self, part: Slice, position: Rows) -> Columns:
        """The columns that say which op runs, where."""
        device = self.number_of(part, position, "device_ordinal")
        return {
            "hlo_op": self.text_of(part, position, "hlo_op"),
            "module": self.text_of(part, position, "hlo_module"),
            "program": self.number_of(part, position, "program_id"),
            "device": device and device.only((device.value >= 0) & (device.value < 1 << 31)),
        }

    def put_kernels(self, table: Table) -> None:
        """Rows of a GPU: `op` of the kernels that name theirs, and the kind of those that run a collective.

        How its kernels were launched is put aside.
        """
        details = table.columns["details"].values
        told = details >= 0
        if told.any():
            record = pl.Series(table.columns["record"].values[told])
            text, cores = self.texts.series(details[told]), self.plane.stats.get("core_count")
            self.portioning.launched.append(self.portioning.aside(launched(record, text, cores)))
        if self.portioning.executes and "correlation" in table.columns:
            self._put_unnamed(table)
        if "hlo_op" not in table.columns:
            self.put(table)
            return
        rows = nullable_columns(table.frame(), "op", "bytes", "program", "module")
        each, which = combinations(rows, ("program", "module", "hlo_op", "name"))
        each = self.with_leaves(each)
        ran = each.select("program", pl.col("leaf").alias("name"), pl.col("name").cast(pl.String).alias("kernel"))
        run = self.named(each.with_columns(self.portioning.ops.of_kernels(ran).alias("leaf")))[which]
        collective = run["kind"] == "collective"
        rows = rows.with_columns(
            pl.coalesce("op", run["op"]).alias("op"),
            pl.coalesce("bytes", pl.when(collective).then(run["bytes"])).alias("bytes"),
            pl.when((pl.col("kind") == "kernel") & collective)
            .then(pl.lit("collective", KIND)).otherwise(pl.col("kind")).alias("kind"),
        )  # fmt: skip
        self.portioning.pieces.append(self.portioning.keep(rows))
        named = rows.with_columns(*run.drop("op", "bytes"), pl.lit(0, pl.Int64).alias("device"))
        self.put_named(named.filter(pl.col("name").is_not_null()))

    def _put_unnamed(self, table: Table) -> None:
        """Put the work aside that names no op, but may have been launched in an execution of a module."""
        columns = table.columns
        launched = columns["correlation"].valid
        found = columns["kind"].values != KIND_CODES["other"]
        if launched is not None:
            found &= launched
        if "hlo_op" in columns:
            found &= columns["hlo_op"].values < 0
        if found.any():
            rows = table.select("lane", "start", "end", "name", "record", "correlation").at(found)
            self.portioning.unnamed.append((self.number, self.portioning.put(rows)))

    def with_leaves(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with `leaf` (the op that they run), the `loop` around and `module` as texts, null without one."""
        texts = {name: self.texts.series(rows[name].fill_null(-1).to_numpy()) for name in ("hlo_op", "module")}
        op = pl.col("hlo_op")
        return rows.with_columns(**texts).with_columns(leaf_op(op).alias("leaf"), outer_loop(op).alias("loop"))

    def named(self, each: pl.DataFrame) -> pl.DataFrame:
        """What rows with `leaf`, `loop`, `module` and `program` are as executions of ops, null without a leaf.

        Name, module, loop and kind, and the number and the bytes of the op.
        """
        asked = each.select("program", "module", pl.col("leaf").alias("name"))
        named = asked.filter(pl.col("name").is_not_null())
        found = self.portioning.ops.of_names(self.number, named)
        told = asked.join(
            named.hstack(found).unique(), on=asked.columns, how="left", nulls_equal=True, maintain_order="left"
        )
        return told.select(
            pl.col("name", "module").cast(pl.Categorical),
            each["loop"].cast(pl.Categorical),
            pl.col("kind").fill_null("op").cast(KIND),
            "op",
            "bytes",
        )

    def put_named(self, rows: pl.DataFrame) -> None:
        """Put executions of ops aside."""
        if rows.height:
            kept = self.portioning.keep(rows, "module", "program", "device", "loop")
            self.portioning.named.append((self.number, kept))


def combinations(rows: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Each combination of these columns once, in the order in which they come, and which of them every row has."""
    each = rows.select(by).unique(maintain_order=True).with_row_index("which")
    found = rows.select(by).join(each, on=by, how="left", nulls_equal=True, maintain_order="left")
    return each.drop("which"), found["which"]


def nullable_columns(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The rows with these columns, null where they had none."""
    return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in names if name not in rows.columns)


def _link(ids: Known | None, types: Known | None) -> Known | None:
    return ids and link(ids, types or nobody(len(ids.value)))
