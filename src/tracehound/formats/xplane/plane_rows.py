"""Rows of the events of a plane: decoded, given the columns that all planes share, and spilled.

`plane_event_columns` adds the columns of device and host planes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.file_assembly import RAW_EVENTS
from tracehound.formats.protobuf_wire import InflatedFile, Offsets
from tracehound.formats.spill import Spill, SpilledRows
from tracehound.formats.value_bounds import MAX_DISTANCE_NS, MAX_DISTANCE_PS
from tracehound.formats.xla.compiler_events import CompilationCollector
from tracehound.formats.xla.kernel_details import bytes_in_details, parse_launch_details
from tracehound.formats.xla.op_executions import EXECUTION_EVENT_SUFFIX, innermost_op_column, outermost_loop_column
from tracehound.formats.xla.xla_names import role_of_line
from tracehound.formats.xplane.event_decoder import DecodedEvents, EventRange, decode_event_ranges, find_wanted_stats
from tracehound.formats.xplane.plane_columns import (
    ColumnArrays,
    EventStats,
    NullableInts,
    RowBuffer,
    RowTable,
    TextNumbers,
    ValueByName,
    all_missing,
    link_key,
)
from tracehound.formats.xplane.plane_lanes import HOST_PLANE, ShardResult
from tracehound.formats.xplane.plane_metadata import Flags, read_event_metadata
from tracehound.formats.xplane.xplane_ops import OpCollector
from tracehound.formats.xplane.xspace import XSpace
from tracehound.model.trace import KIND, KIND_CODES

MAX_TIME_PS = 1 << 61
"""Times further than this (26 days) from the time of their line are damaged.

So are durations of `MAX_DISTANCE_PS`, and lines whose time is `MAX_DISTANCE_NS` from that of the line with the middle
event."""

COPY_DETAILS_STATS = ("memcpy_details", "memset_details")
"""Stats with the bytes of a copy or a memset in a text."""

COMMON_STATS = (
    "run_id", "correlation_id", "_p", "_pt", "_c", "_ct", "step_num", "_r", "device_offset_ps", "device_duration_ps",
    *COPY_DETAILS_STATS,
)  # fmt: skip
"""Stats that become columns of all events."""

OP_NAME_STATS = ("hlo_op", "hlo_module", "program_id", "device_ordinal", "size")
"""Stats of kernels and of host events that identify the op that runs."""

_KERAS_BATCH_EVENT: Final = "Profiled batch"
"""Name of the steps that Keras 3 marks where its TensorBoard callback profiles."""


class ShardState(Struct, dict=True):
    """Inputs for reading the events of a shard, and the results so far.

    `base_ns` is the time of lines that becomes 0, `middle_ns` that of the middle line; `stem` is the prefix of spill
    files; `tick` gets the bytes and events read.
    """

    file: InflatedFile
    space: XSpace
    base_ns: int
    middle_ns: int
    ops: OpCollector
    spill: Spill
    stem: str
    tick: Callable[[int, int], None]
    event_counts: Offsets
    events: list[SpilledRows] = field(default_factory=list)
    named_ops: list[tuple[int, SpilledRows]] = field(default_factory=list)
    unnamed_work: list[tuple[int, SpilledRows]] = field(default_factory=list)
    end_marks: list[tuple[int, SpilledRows]] = field(default_factory=list)
    dispatches: list[SpilledRows] = field(default_factory=list)
    launch_calls: list[SpilledRows] = field(default_factory=list)
    compilations: CompilationCollector = field(default_factory=CompilationCollector)
    memory_events: list[SpilledRows] = field(default_factory=list)
    kernel_launches: list[SpilledRows] = field(default_factory=list)
    counter_samples: list[pl.DataFrame] = field(default_factory=list)
    without_time: int = 0
    damaged: int = 0
    bad_clocks: int = 0
    unnamed: int = 0
    _file_count: int = 0

    @cached_property
    def has_execution_events(self) -> bool:
        """True if hosts of the file have events for the executions of modules that they launch on GPUs."""
        host_planes = (plane for plane in self.space.planes if HOST_PLANE.match(plane.name))
        return any(
            name.endswith(EXECUTION_EVENT_SUFFIX)
            for plane in host_planes
            for name in read_event_metadata(self.file, plane.metadata).shown_names
        )

    def spill_events(self, rows: pl.DataFrame, *more: str) -> SpilledRows:
        """Spill the rows of a frame: the columns of `RAW_EVENTS`, and these."""
        columns = [name for name in (*RAW_EVENTS, *more) if name in rows.columns]
        return self.spill_frame(rows.select(columns))

    def spill_frame(self, rows: pl.DataFrame) -> SpilledRows:
        """Spill the rows of a frame with all columns."""
        return self.spill.spill_frame(rows, self._next_file_name())

    def spill_table(self, rows: RowTable) -> SpilledRows:
        """Spill the rows of a table: the columns of `RAW_EVENTS`."""
        rows = rows.select(*RAW_EVENTS)
        return self.spill.spill_columns(rows.columns, rows.dtypes, self._next_file_name())

    def _next_file_name(self) -> str:
        self._file_count += 1
        return f"{self.stem}-{self._file_count}"

    def result(self) -> ShardResult:
        """Results of the shard."""
        return ShardResult(
            tuple(self.events), tuple(self.named_ops), tuple(self.unnamed_work), tuple(self.end_marks),
            tuple(self.dispatches),
            tuple(self.launch_calls), self.compilations.intervals(), self.event_counts, tuple(self.ops.executed),
            self.without_time, self.damaged, self.bad_clocks, tuple(self.memory_events), tuple(self.kernel_launches),
            tuple(self.counter_samples), self.ops.op_users() if self.end_marks else None, self.unnamed,
        )  # fmt: skip


ColumnMaker = Callable[[DecodedEvents, Offsets, Offsets], ColumnArrays]
"""Makes columns of decoded events, their lines (in the plane), and the positions of their metadata."""


class PlaneDecoder:
    """Decodes and spills the events of one plane."""

    def __init__(self, state: ShardState, number: int, first: int, stats: Sequence[str]) -> None:
        self.state = state
        self.number = number
        self.plane = state.space.planes[number]
        self.event_metadata = read_event_metadata(state.file, self.plane.metadata)
        self.shown_names = self.event_metadata.shown_names
        self.texts = TextNumbers()
        self.first_line = first
        self._wanted = find_wanted_stats(self.plane.stat_names, stats)
        self._stats = EventStats(state.file, self.event_metadata, self.plane.stat_names, stats, self.texts)
        self._rooted = "_r" in self.plane.stat_names.values()
        self._name = self.value_by_name(1, lambda _, at: self.texts.number(self.shown_names[at]))
        self._batch = self.value_by_name(1, lambda _, at: int(at >= 0 and self.shown_names[at] == _KERAS_BATCH_EVENT))
        is_far = [abs(line.timestamp_ns - state.middle_ns) >= MAX_DISTANCE_NS for line in self.plane.lines]
        shifts = [(line.timestamp_ns - state.base_ns) * 1000 for line in self.plane.lines]
        self._far = np.array(is_far, bool)
        self._shift = np.array([0 if out else ps for ps, out in zip(shifts, is_far, strict=True)], np.int64)
        self._stream_lines = np.array([role_of_line(line.name) == "stream" for line in self.plane.lines], bool)
        self._detailed: dict[int, int] = {}

    def value_by_name(self, classes: int, compute: Callable[[int, int], int]) -> ValueByName:
        """Value of events by a class of lines and the position of their metadata."""
        return ValueByName(classes, len(self.shown_names), compute)

    def decode(self, ranges: Sequence[EventRange]) -> Iterator[tuple[DecodedEvents, Offsets, Flags]]:
        """Decoded events, their lines in the plane, and a mask of the valid ones; starts are relative to `base_ns`."""
        for events in decode_event_ranges(self.state.file, ranges, self._wanted):
            line_in_plane = events.line - self.first_line
            in_range = (
                (events.start > -MAX_TIME_PS)
                & (events.start < MAX_TIME_PS)
                & (events.length >= 0)
                & (events.length < MAX_DISTANCE_PS)
            )
            is_valid = events.is_valid & (in_range & ~self._far.take(line_in_plane) | ~events.has_time)
            yield events.delayed(self._shift.take(line_in_plane)), line_in_plane, is_valid

    def spill_decoded(
        self,
        buffer: RowBuffer,
        ranges: Sequence[EventRange],
        make_columns: ColumnMaker,
        spill: Callable[[RowTable], None],
    ) -> None:
        """Decode the ranges and spill their rows, as many at a time as fill the buffer, which starts empty."""
        state = self.state
        for decoded, line, is_valid in self.decode(ranges):
            is_kept = is_valid & decoded.has_time
            state.tick(decoded.data.size, len(is_kept))
            events, line_in_plane = decoded, line
            if not is_kept.all():
                state.without_time += int((is_valid & ~decoded.has_time).sum())
                state.damaged += int((~is_valid).sum())
                events, line_in_plane = decoded.take(is_kept), line[is_kept]
            columns = make_columns(events, line_in_plane, self.plane.metadata.positions(events.metadata))
            state.event_counts[:] += np.bincount(columns["lane"], minlength=len(state.event_counts))  # type: ignore[arg-type]  # known of all
            buffer.add(len(line_in_plane), columns)
            if buffer.is_full:
                spill(buffer.take_table(self.texts))
        if buffer.height:
            spill(buffer.take_table(self.texts))

    def spill_rows(self, rows: RowTable) -> None:
        """Spill rows as they are."""
        self.state.events.append(self.state.spill_table(rows))

    def int_stat(self, events: DecodedEvents, position: Offsets, name: str) -> NullableInts | None:
        """A stat as integers."""
        return self._stats.int_stat(events, position, name)

    def text_stat(self, events: DecodedEvents, position: Offsets, name: str) -> Offsets | None:
        """A stat as numbers of `texts`."""
        return self._stats.text_stat(events, position, name)

    def common_columns(self, events: DecodedEvents, position: Offsets, run_bits: int) -> ColumnArrays:
        """Columns that all planes share."""
        numbers = {
            name: self.int_stat(events, position, name) for name in COMMON_STATS if name not in COPY_DETAILS_STATS
        }
        run, offset, length = numbers["run_id"], numbers["device_offset_ps"], numbers["device_duration_ps"]
        return {
            "lane": events.line,
            "start": events.start,
            "end": events.start + events.length,
            "name": self._event_names(events, position),
            "record": events.record,
            "correlation": numbers["correlation_id"],
            "run": run and NullableInts(run.values & run_bits, run.valid),
            "produces": _link_or_none(numbers["_p"], numbers["_pt"]),
            "consumes": _link_or_none(numbers["_c"], numbers["_ct"]),
            "step": self._step_numbers(position, numbers["step_num"], numbers["_r"]),
            **self._device_clock_columns(offset, length),
        }

    def _device_clock_columns(self, offset: NullableInts | None, length: NullableInts | None) -> ColumnArrays:
        """Start and end by the device's own clock; impossible ones are null and counted."""
        if offset is None:
            return {"device_start": None, "device_end": None}
        duration = length.values if length else np.zeros_like(offset.values)
        is_valid = (
            (offset.values > -MAX_TIME_PS)
            & (offset.values < MAX_TIME_PS)
            & (duration >= 0)
            & (duration < MAX_DISTANCE_PS)
        )
        self.state.bad_clocks += int((offset.valid & ~is_valid).sum())
        device_start = NullableInts(np.where(is_valid, offset.values, 0), offset.valid & is_valid)
        return {
            "device_start": device_start,
            "device_end": NullableInts(device_start.values + np.where(is_valid, duration, 0), device_start.valid),
        }

    def _event_names(self, events: DecodedEvents, position: Offsets) -> Offsets:
        """Names of events as numbers of `texts`; an event without metadata is named by its id."""
        without_metadata = np.flatnonzero(position < 0)
        if not len(without_metadata):
            return self._name(0, position)
        ids, inverse = np.unique(events.metadata[without_metadata], return_inverse=True)
        names = np.zeros(len(position), np.int64)
        with_metadata = np.flatnonzero(position >= 0)
        names[with_metadata] = self._name(0, position[with_metadata])
        names[without_metadata] = np.array([self.texts.number(f"event {id_}") for id_ in ids.tolist()])[inverse]
        return names

    def _step_numbers(
        self, position: Offsets, number: NullableInts | None, root: NullableInts | None
    ) -> NullableInts | None:
        """Step numbers of events: of root events, or in a plane without roots, of all events with a number.

        Keras 3 does not make a batch a root, and TensorFlow makes roots of events that are no steps.
        """
        if number is None:
            return None
        is_mark = (number.values > -(1 << 31)) & (number.values < 1 << 31)
        if self._rooted:
            is_batch = self._batch(0, position) > 0
            if root is None and not is_batch.any():
                return None
            is_mark &= is_batch if root is None else is_batch | ((root.values > 0) & root.valid)
        return number.mask_except(is_mark)

    def copied_bytes(self, events: DecodedEvents, position: Offsets) -> NullableInts | None:
        """Bytes in the details of a copy or a memset: ``kind:HtoD size:4096 dest:0``."""
        columns = [
            column for name in COPY_DETAILS_STATS if (column := self.text_stat(events, position, name)) is not None
        ]
        if not columns:
            return None
        text = np.maximum.reduce(columns)
        distinct, inverse = np.unique(text, return_inverse=True)
        sizes = np.array([self._bytes_in(number) for number in distinct.tolist()], np.int64)[inverse]
        return NullableInts(sizes, sizes >= 0)

    def _bytes_in(self, text: int) -> int:
        if text not in self._detailed:
            found = bytes_in_details(self.texts.texts[text]) if text >= 0 else None
            self._detailed[text] = -1 if found is None else found
        return self._detailed[text]

    def op_name_columns(self, events: DecodedEvents, position: Offsets) -> ColumnArrays:
        """Columns that identify the op that runs, and its device."""
        device = self.int_stat(events, position, "device_ordinal")
        return {
            "hlo_op": self.text_stat(events, position, "hlo_op"),
            "module": self.text_stat(events, position, "hlo_module"),
            "program": self.int_stat(events, position, "program_id"),
            "device": device and device.mask_except((device.values >= 0) & (device.values < 1 << 31)),
        }

    def spill_kernels(self, table: RowTable) -> None:
        """Spill rows of a GPU, with the op of kernels that name one, and the kind of those that run a collective.

        The details of kernel launches are spilled, too.
        """
        details = table.columns["details"].values
        has_details = details >= 0
        if has_details.any():
            record = pl.Series(table.columns["record"].values[has_details])
            text, cores = self.texts.series(details[has_details]), self.plane.stats.get("core_count")
            self.state.kernel_launches.append(self.state.spill_frame(parse_launch_details(record, text, cores)))
        if self.state.has_execution_events and "correlation" in table.columns:
            self._spill_unnamed(table)
        if "hlo_op" not in table.columns:
            self.spill_rows(table)
            return
        rows = add_null_columns(table.frame(), "op", "bytes", "program", "module")
        combinations, which = unique_combinations(rows, ("program", "module", "hlo_op", "name"))
        combinations = self.add_innermost_ops(combinations)
        kernels = combinations.select(
            "program", pl.col("leaf").alias("name"), pl.col("name").cast(pl.String).alias("kernel")
        )
        ops = self.ops_of_names(combinations.with_columns(self.state.ops.ops_of_kernels(kernels).alias("leaf")))[which]
        is_collective = ops["kind"] == "collective"
        rows = rows.with_columns(
            pl.coalesce("op", ops["op"]).alias("op"),
            pl.coalesce("bytes", pl.when(is_collective).then(ops["bytes"])).alias("bytes"),
            pl.when((pl.col("kind") == "kernel") & is_collective)
            .then(pl.lit("collective", KIND)).otherwise(pl.col("kind")).alias("kind"),
        )  # fmt: skip
        self.state.events.append(self.state.spill_events(rows))
        named = rows.with_columns(*ops.drop("op", "bytes"), pl.lit(0, pl.Int64).alias("device"))
        named = named.filter(pl.col("name").is_not_null())
        on_stream = pl.Series(self._stream_lines)[named["lane"] - self.first_line]
        for chosen in (on_stream, ~on_stream):
            self.spill_named_ops(named.filter(chosen))

    def _spill_unnamed(self, table: RowTable) -> None:
        """Spill the work that names no op, but may have been launched by the execution of a module."""
        columns = table.columns
        has_launch = columns["correlation"].valid
        is_unnamed = columns["kind"].values != KIND_CODES["other"]
        if has_launch is not None:
            is_unnamed &= has_launch
        if "hlo_op" in columns:
            is_unnamed &= columns["hlo_op"].values < 0
        if is_unnamed.any():
            rows = table.select("lane", "start", "end", "name", "record", "correlation").take(is_unnamed)
            self.state.unnamed_work.append((self.number, self.state.spill_table(rows)))

    def add_innermost_ops(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with `leaf` (the op that they run), the loop around it and `module` as texts, null where missing."""
        texts = {name: self.texts.series(rows[name].fill_null(-1).to_numpy()) for name in ("hlo_op", "module")}
        op = pl.col("hlo_op")
        return rows.with_columns(**texts).with_columns(
            innermost_op_column(op).alias("leaf"), outermost_loop_column(op).alias("loop")
        )

    def ops_of_names(self, combinations: pl.DataFrame) -> pl.DataFrame:
        """Name, module, loop and kind of op executions, with the number and bytes of the op; null without a `leaf`.

        The rows have `leaf`, `loop`, `module` and `program`.
        """
        names = combinations.select("program", "module", pl.col("leaf").alias("name"))
        known_names = names.filter(pl.col("name").is_not_null())
        ops = self.state.ops.ops_of_names(self.number, known_names)
        joined = names.join(
            known_names.hstack(ops).unique(), on=names.columns, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined.select(
            pl.col("name", "module").cast(pl.Categorical),
            combinations["loop"].cast(pl.Categorical),
            pl.col("kind").fill_null("op").cast(KIND),
            "op",
            "bytes",
        )

    def spill_named_ops(self, rows: pl.DataFrame) -> None:
        """Spill executions of ops."""
        if rows.height:
            spilled = self.state.spill_events(rows, "module", "program", "device", "loop")
            self.state.named_ops.append((self.number, spilled))


def unique_combinations(rows: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Distinct combinations of these columns in the order of their first rows, and the combination of every row."""
    combinations = rows.select(by).unique(maintain_order=True).with_row_index("which")
    found = rows.select(by).join(combinations, on=by, how="left", nulls_equal=True, maintain_order="left")
    return combinations.drop("which"), found["which"]


def add_null_columns(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The rows with these columns, null where they are new."""
    return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in names if name not in rows.columns)


def _link_or_none(ids: NullableInts | None, types: NullableInts | None) -> NullableInts | None:
    return ids and link_key(ids, types or all_missing(len(ids.values)))
