"""Counters of an XLA profile: memory of its allocators, and the lines called ``_counters_``.

Allocator events are left on the host by XLA's runtime. They have no duration: each records the state of the allocator
after it. Counter events are samples without a duration, each named after its counter, with numbers among its stats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.assembly.counter_samples import (
    CounterKey,
    CounterSamples,
    FileCounters,
    build_counters,
    counter_titles,
)
from tracehound.formats.protobuf_wire import BYTES, Offsets, PaddedBytes, decode_varints, iterate_field_rounds
from tracehound.formats.runtime_names import allocator_columns
from tracehound.formats.spill import SpilledRows
from tracehound.formats.value_bounds import MAX_BYTES, SIZE_OUT_OF_RANGE
from tracehound.formats.xla.xla_names import role_of_line
from tracehound.formats.xplane.event_decoder import EVENT_STAT, DecodedEvents, EventRange
from tracehound.formats.xplane.plane_columns import RowBuffer
from tracehound.formats.xplane.plane_lanes import DEVICE_PLANE, PlaneSummary
from tracehound.formats.xplane.plane_metadata import DOUBLE, SIGNED, UNSIGNED, StatTable, concat_stats, decode_stats
from tracehound.formats.xplane.plane_rows import PlaneDecoder, add_null_columns
from tracehound.formats.xplane.xspace import XLine
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.notes import Note
from tracehound.model.trace import COUNTERS

ALLOCATION_SIGNS: Final = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
"""Names of allocator events, and the sign of their bytes."""

ALLOCATOR_STATS: Final = (
    "allocator_name", "index_on_host", "bytes_reserved", "bytes_allocated", "bytes_available", "fragmentation",
    "peak_bytes_in_use", "requested_bytes", "allocation_bytes", "addr", "tf_op",
)  # fmt: skip
"""Stats of allocator events."""

_ALLOCATOR_NUMBERS: Final = {
    "device": "index_on_host", "stack": "bytes_reserved", "allocated": "bytes_allocated", "free": "bytes_available",
    "peak": "peak_bytes_in_use", "requested": "requested_bytes", "bytes": "allocation_bytes", "address": "addr",
}  # fmt: skip

_BYTE_COLUMNS: Final = ("stack", "allocated", "free", "peak", "requested", "bytes")

_ALLOCATOR_TEXTS: Final = {"allocator": "allocator_name", "framework": "tf_op"}

_NULL_TEXT: Final = "(null)"
"""Text that the runtime writes for a missing text."""

_EVENTS_PER_FRAME: Final = 1 << 15
"""Number of events that are worth a frame."""


class AllocatorEvents:
    """Allocator events of one plane, collected from decoded events."""

    def __init__(self, rows: PlaneDecoder) -> None:
        self._rows = rows
        self._sign = rows.value_by_name(
            1, lambda _, at: ALLOCATION_SIGNS.get(rows.shown_names[at], 0) if at >= 0 else 0
        )
        self._buffer = RowBuffer()
        self._spilled: list[SpilledRows] = []

    def add(self, events: DecodedEvents, position: Offsets) -> None:
        """Add the allocator events among these."""
        sign = self._sign(0, position)
        rows = np.flatnonzero(sign)
        if not len(rows):
            return
        selected, selected_position = events.take(rows), position[rows]  # type: ignore[arg-type]  # rows do as well as flags
        numbers = {
            name: self._rows.int_stat(selected, selected_position, stat) for name, stat in _ALLOCATOR_NUMBERS.items()
        }
        texts = {
            name: self._rows.text_stat(selected, selected_position, stat) for name, stat in _ALLOCATOR_TEXTS.items()
        }
        fragmentation = _float_stat(selected, "fragmentation").view(np.int64)
        times = {"record": selected.record, "time": selected.start, "sign": sign[rows]}
        self._buffer.add(len(rows), {**times, **numbers, **texts, "fragmentation": fragmentation})
        if self._buffer.height >= _EVENTS_PER_FRAME:
            self._spill()

    def spill_rest(self) -> list[SpilledRows]:
        """Spilled rows of the facet ``held``; empty without allocator events."""
        if self._buffer.height:
            self._spill()
        return self._spilled

    def _spill(self) -> None:
        self._spilled.append(self._rows.state.spill_frame(self._frame()))

    def _frame(self) -> pl.DataFrame:
        """Frame of the buffered events."""
        frame = self._buffer.take_table(self._rows.texts).frame()
        text_columns = {
            name: self._rows.texts.series(frame[name].to_numpy()) for name in _ALLOCATOR_TEXTS if name in frame.columns
        }
        frame = frame.with_columns(
            pl.Series("fragmentation", frame["fragmentation"].to_numpy().view(np.float64)).fill_nan(None),
            **{name: series.replace(_NULL_TEXT, None) for name, series in text_columns.items()},
        )
        frame = add_null_columns(frame, *FACET_SCHEMAS["held"]).with_columns(pl.col("bytes") * pl.col("sign"))
        return frame.select(pl.col(name).cast(dtype, strict=False) for name, dtype in FACET_SCHEMAS["held"].items())


def _float_stat(events: DecodedEvents, stat: str) -> npt.NDArray[np.float64]:
    """A stat as floats, NaN where missing. Whole numbers may be stored as integers."""
    column = events.stats.get(stat)
    if column is None:
        return np.full(len(events.record), np.nan)
    fractional = np.where(column.field == DOUBLE, column.bits.view(np.float64), np.nan)
    return np.where(column.is_integer, column.bits.view(np.int64).astype(np.float64), fractional)


def merge_allocator_events(frames: Iterable[pl.DataFrame]) -> tuple[pl.DataFrame | None, tuple[Note, ...]]:
    """Events of all shards in order of time, without impossible sizes; None without any."""
    all_frames = list(frames)
    if not all_frames:
        return None, ()
    unsorted = pl.concat(all_frames)
    all_frames.clear()
    order = unsorted.select(pl.arg_sort_by("time", "record")).to_series()
    in_time_order = pl.DataFrame(
        [unsorted.drop_in_place(name).gather(order) for name in unsorted.columns]
    )  # no column twice for long
    is_valid = {name: pl.col(name).is_between(-MAX_BYTES, MAX_BYTES) for name in _BYTE_COLUMNS}
    damaged_records = in_time_order.filter(~pl.all_horizontal(is_valid.values()))["record"].to_list()
    if not damaged_records:
        return in_time_order, ()
    repaired = in_time_order.with_columns(pl.when(is_size).then(name).alias(name) for name, is_size in is_valid.items())
    return repaired, (
        Note("repaired", SIZE_OUT_OF_RANGE, len(damaged_records), where=f"byte {min(damaged_records):,}"),
    )


def allocator_counters(memory_events: pl.DataFrame | None, ranks: pl.DataFrame) -> FileCounters:
    """A counter for each allocator: the bytes that it holds, allocated or reserved for the stacks of programs.

    It belongs to the rank of its device, else to the host.
    """
    if memory_events is None:
        return FileCounters()
    columns = memory_events.select("time", "allocator", "device", "allocated", "stack")
    recorded = columns.filter(pl.col("allocated").is_not_null()).with_columns(allocator_columns())
    of_device = {device: row for row, device in enumerate(ranks["device"].to_list()) if device is not None}
    lanes: list[dict[str, object]] = []
    samples = []
    for (name, device), rows in recorded.partition_by("name", "ordinal", as_dict=True, maintain_order=True).items():
        lane = {"host": 0, "rank": of_device.get(device), "role": "counter", "work": False, "unit": "bytes"}
        title = f"memory of {name}" if name else "memory"
        total = pl.col("allocated").cast(pl.Float64) + pl.col("stack").fill_null(0)
        samples.append(rows.select(pl.lit(len(lanes)).alias("lane"), "time", total.alias("value")).cast(COUNTERS))
        lanes.append({**lane, "name": title, "order": len(lanes)})
    return FileCounters(lanes, pl.concat(samples)) if samples else FileCounters()


SAMPLE_SCHEMA: Final = pl.Schema(
    {
        "record": pl.Int64(), "plane": pl.Int64(), "name": pl.String(), "arg": pl.String(), "time": pl.Int64(),
        "value": pl.Float64(),
    }
)  # fmt: skip
"""Samples; `arg` is the stat with the value."""

_GENERIC_STAT_NAMES: Final = ("counter_value", "value")
"""Stats whose names do not say what is counted."""

_GROUP_ID_STAT: Final = "group_id"
"""Number that profilers give to the events of one step; it is not a counter."""


def is_counter_line(line: XLine) -> bool:
    """True if the events of a line are samples."""
    return role_of_line(line.name) == "counter"


def read_counter_samples(rows: PlaneDecoder, ranges: Sequence[EventRange]) -> list[pl.DataFrame]:
    """Samples in these ranges of one plane, a frame for each."""
    return [_samples_of_range(rows, one) for one in ranges]


def _samples_of_range(rows: PlaneDecoder, event_range: EventRange) -> pl.DataFrame:
    state = rows.state
    data = state.file.read_intervals((event_range.start, event_range.end))
    record, time, position = list[Offsets](), list[Offsets](), list[Offsets]()
    for events, _, is_valid in rows.decode([event_range]):
        is_sample = is_valid & events.has_time
        state.tick(events.data.size, len(is_sample))
        state.without_time += int((is_valid & ~events.has_time).sum())
        state.damaged += int((~is_valid).sum())
        record.append(events.record[is_sample])
        time.append(events.start[is_sample])
        position.append(rows.plane.metadata.positions(events.metadata[is_sample]))
    empty = np.empty(0, np.int64)
    records, times, positions = (np.concatenate([empty, *column]) for column in (record, time, position))
    table = _number_stats(data, records - event_range.start)
    names, args = [*rows.shown_names, None], rows.plane.stat_names
    counted = [id_ for id_, arg in args.items() if not arg.startswith("_") and arg != _GROUP_ID_STAT]
    table = table.with_ids(counted)
    table = table.take(np.isfinite(_stat_values(table)))
    return pl.DataFrame(
        {
            "record": records[table.owner],
            "plane": np.full(len(table.owner), rows.number),
            "name": [names[at] for at in positions[table.owner].tolist()],
            "arg": [args[id_] for id_ in table.id.tolist()],
            "time": times[table.owner],
            "value": _stat_values(table),
        },
        schema=SAMPLE_SCHEMA,
    )


def _number_stats(data: PaddedBytes, head: Offsets) -> StatTable:
    """Numbers among the stats of the events at these offsets."""
    length, size = decode_varints(data.words, head + 1)
    body, stat_tables = head + 1 + size, list[StatTable]()
    for field_round in iterate_field_rounds(data.words, body, body + length.view(np.int64)):
        has_stat = field_round.field_mask(EVENT_STAT, BYTES)
        low = field_round.at[has_stat]
        stat_tables.append(
            decode_stats(data, field_round.message[has_stat], low, low + field_round.value[has_stat].view(np.int64))
        )
    table = concat_stats(stat_tables)
    return table.take((table.field == DOUBLE) | (table.field == UNSIGNED) | (table.field == SIGNED))


def _stat_values(table: StatTable) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    integers = np.where(
        table.field == SIGNED, table.value.view(np.int64).astype(np.float64), table.value.astype(np.float64)
    )
    return np.where(table.field == DOUBLE, table.value.view(np.float64), integers)


def line_counters(
    frames: Iterable[pl.DataFrame], planes: Sequence[PlaneSummary], ranks: pl.DataFrame
) -> tuple[FileCounters, tuple[Note, ...]]:
    """A counter for each name and stat of each plane, of the rank of its device, else of the host."""
    all_frames = list(frames)
    if not all_frames:
        return FileCounters(), ()
    samples = pl.concat(all_frames).drop_nulls("name").sort("record")
    samples = samples.with_columns(
        pl.when(pl.col("arg").is_in(_GENERIC_STAT_NAMES)).then(pl.lit("")).otherwise("arg").alias("arg")
    )
    counters = samples.select("plane", "name", "arg").unique(maintain_order=True)
    number = samples.join(counters.with_row_index("number"), on=counters.columns, maintain_order="left")["number"]
    keys = [CounterKey(*row) for row in counters.iter_rows()]
    titles, rank_of_label = counter_titles(keys), {label: row for row, label in enumerate(ranks["label"].to_list())}

    def lane(series: CounterKey) -> dict[str, object]:
        process = planes[int(series.process or 0)].name
        device = DEVICE_PLANE.match(process)
        rank = None if device is None else rank_of_label.get(f"{device[1]}:{int(device[2])}")
        name, unit = titles[series]
        return {"host": 0, "rank": rank, "name": name, "unit": unit, "process": process}

    time, value, record = (samples[name].to_numpy() for name in ("time", "value", "record"))
    counter_samples = CounterSamples(tuple(keys), number.cast(pl.Int32).to_numpy(), time, value, record)
    return build_counters(counter_samples, lambda ps: ps, lane), (Note("info", "counter_samples", samples.height),)
