"""Raw events in a file's order -> `FileFrames`.

This does what every format needs after decoding: it sorts and nests events, links each device event to the host event
that launched it, and assigns events to steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.formats.assembly.arrow_storage import scan_facets, store_facet, write_events
from tracehound.formats.assembly.counter_samples import FileCounters
from tracehound.formats.assembly.derived_columns import (
    HOST_LANES,
    MODULE_LANES,
    OTHER_LANES,
    RAW_EVENTS,
    LaneProperties,
    RawEvents,
    StepInference,
    derive_event_columns,
    empty_totals,
    find_steps,
    read_module_executions,
)  # fmt: skip
from tracehound.formats.assembly.event_batches import BATCH_SIZE, RowRanges, ShiftedChunk, collect_row_ranges
from tracehound.formats.assembly.lane_nesting import CONCURRENT_ROLES, ContainerRules
from tracehound.formats.assembly.launch_links import CORRELATION_IDS_REPEATED
from tracehound.formats.assembly.step_detection import add_step_events, inference_source
from tracehound.formats.spill import Spill, SpilledRows
from tracehound.formats.value_bounds import SIZE_OUT_OF_RANGE
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.file_facts import FileFacts
from tracehound.model.notes import Note
from tracehound.model.trace import CPU_LABEL, GPU_LABEL, LANES, OPS, RANKS, ROLE, FileFrames, schema, small_frames
from tracehound.numeric.intervals import Ints

__all__ = ["RAW_EVENTS", "RAW_LANES", "DecodedFile", "RawChunk", "assemble_file", "single_chunk"]

RAW_LANES = schema(
    {
        "host": pl.Int32(),
        "rank": pl.Int32(),
        "role": ROLE,
        "work": pl.Boolean(),
        "name": pl.String(),
        "process": pl.String(),
        "thread": pl.String(),
        "stream": pl.Int64(),
        "order": pl.Int32(),
        "unit": pl.String(),
    }
)
"""The lanes that a format returns; `RAW_EVENTS.lane` is a row of them, `host` and `rank` are rows of hosts and
ranks.
"""


class RawChunk(Struct, frozen=True, eq=False):
    """Some of a file's raw events, in any order, with columns of `RAW_EVENTS`.

    `lanes` maps the chunk's lane numbers to rows of the file's lanes (None: equal), `ops` likewise its ops; `shift`
    (ps) is added to `start` and `end`, `first` to `record`.
    """

    spilled: SpilledRows
    lanes: Ints | None = None
    shift: int = 0
    first: int = 0
    ops: Ints | None = None


DEVICE_EVENTS_DOUBLED: Final = "device_events_doubled"

KERNEL_ENDS_CUT: Final = "kernel_ends_cut"
"""The code of the note on kernels and copies whose recorded ends are impossible, and were cut."""

CONTAINER_CATEGORIES: Final = ("while", "conditional", "cond", "call")
"""Categories of ops that run other ops; conditionals known only by their names are ``cond``."""


class DecodedFile(Struct, frozen=True):
    """One decoded file: its `chunks` of raw events, in the order of the file.

    Times are ps from `wall_ns`, or from any instant when that is unknown. `unmarked` infers the steps of a file without
    step marks and modules, where the format can; `repeating` is the module whose executions are the steps, where the
    file names it. `counted` is the unit of records in notes. `has_queues`: its streams of GPUs run their kernels one
    after the other.
    """

    path: Path
    format: str
    chunks: Sequence[RawChunk]
    lanes: pl.DataFrame
    ranks: pl.DataFrame
    hosts: tuple[str, ...]
    wall_ns: int | None
    ops: pl.DataFrame | None = None
    facts: FileFacts = FileFacts()
    notes: Sequence[Note] = ()
    places: Any = None
    counters: FileCounters = field(default_factory=FileCounters)
    unmarked: StepInference | None = None
    repeating: str = ""
    counted: str = "event"
    has_queues: bool = False
    facets: Mapping[str, pl.LazyFrame] = field(default_factory=dict)


def single_chunk(frame: pl.DataFrame) -> tuple[RawChunk, ...]:
    """Return all raw events of a file as one chunk in memory."""
    return (RawChunk(Spill().spill_frame(frame, "")),)


def assemble_file(decoded: DecodedFile, spill: Spill = Spill(), size: int = BATCH_SIZE) -> FileFrames:  # noqa: B008, frozen
    """Sort, nest, link and step the events, about `size` at a time; lanes without events are dropped.

    The events are stored in the spill's folder, or in memory where it has none. Of equal events of a lane, the one of
    the earlier chunk comes first.
    """
    lanes, runs = _renumber_lanes(
        collect_row_ranges([chunk.spilled for chunk in decoded.chunks], [chunk.lanes for chunk in decoded.chunks]),
        _conform_to_schema(decoded.lanes, RAW_LANES),
    )
    ranks = _conform_to_schema(decoded.ranks, RANKS)
    ops = pl.DataFrame(schema=OPS) if decoded.ops is None else _conform_to_schema(decoded.ops, OPS)
    sources = [ShiftedChunk(chunk.spilled, chunk.shift, chunk.first, chunk.ops) for chunk in decoded.chunks]
    raw = RawEvents(runs, sources, _lane_properties(lanes, ranks, ops, decoded.has_queues), size)
    totals, executions = empty_totals(lanes.height), read_module_executions(raw)
    steps, step_notes = find_steps(raw, executions, decoded.unmarked, decoded.repeating)
    make_scan = write_events(derive_event_columns(raw, executions, steps, totals, spill), spill.folder)
    marks = np.concatenate([np.empty(0, np.int64), *totals.marks])
    if len(marks):
        steps = steps.with_columns(pl.Series("event", marks[steps["event"].to_numpy()]))
    notes = [*decoded.notes, *step_notes]
    if totals.unsized:
        unsized = np.concatenate(totals.unsized)
        notes.append(Note("repaired", SIZE_OUT_OF_RANGE, len(unsized), where=f"{decoded.counted} {unsized.min():,}"))
    doubled = np.concatenate([np.empty(0, np.int64), *totals.twice])
    if len(doubled):
        notes.append(Note("info", DEVICE_EVENTS_DOUBLED, len(doubled), where=f"{decoded.counted} {doubled.min():,}"))
    facets = dict(decoded.facets)
    if totals.cut and (cut_kernels := _cut_kernel_facet(totals.cut)).height:
        first = int(cut_kernels["record"][0])
        notes.append(Note("repaired", KERNEL_ENDS_CUT, cut_kernels.height, where=f"{decoded.counted} {first:,}"))
        facets |= scan_facets(store_facet("cut", [cut_kernels], spill))
    if repeated_ids := sum(totals.repeated):
        notes.append(Note("inferred", CORRELATION_IDS_REPEATED, repeated_ids))
    if steps.height and steps["inferred"].all():
        source = "module" if len(executions.lane) else inference_source(steps)
        values = (("source", source), ("name", str(steps["name"][0])))
        notes.append(Note("inferred", "steps_inferred", steps["step"].n_unique(), values=values))
        steps = steps if len(executions.lane) else add_step_events(steps, make_scan())
    timed_lanes = lanes.hstack(
        [pl.Series("rows", totals.rows), pl.Series("first", totals.first), pl.Series("last", totals.last)]
    )
    counters, event_lanes = decoded.counters, _conform_to_schema(timed_lanes, LANES)
    return FileFrames(
        path=decoded.path,
        format=decoded.format,
        make_scan=make_scan,
        small_frames=small_frames(
            lanes=pl.concat([event_lanes, _counter_lanes(counters, lanes.height)]) if counters.lanes else event_lanes,
            ranks=ranks,
            steps=steps,
            ops=ops,
        ),
        hosts=decoded.hosts,
        wall_ns=decoded.wall_ns,
        facts=replace(decoded.facts, unmatched_launches=None if repeated_ids else sum(totals.unmatched)),
        notes=tuple(notes),
        places=decoded.places,
        facets=facets,
        make_counters=counters.samples.with_columns(pl.col("lane") + lanes.height).clone,
    )


def _cut_kernel_facet(cut: Sequence[tuple[Ints, Ints]]) -> pl.DataFrame:
    """Return the facet of kernels whose ends were cut: their records and recorded lengths."""
    return pl.DataFrame(
        [
            pl.Series(name, np.concatenate(values))
            for name, values in zip(FACET_SCHEMAS["cut"], zip(*cut, strict=True), strict=True)
        ]
    ).sort("record")


def _counter_lanes(counters: FileCounters, first: int) -> pl.DataFrame:
    """Return the lanes of counters, numbered from `first` in the order of the samples' lanes, with unique names."""
    lanes = pl.DataFrame(counters.lanes, schema=RAW_LANES)
    times = counters.samples.group_by("lane").agg(
        pl.len().alias("samples"), pl.col("time").first().alias("first"), pl.col("time").last().alias("last")
    )
    known_lanes = lanes.with_row_index("lane").cast({"lane": pl.Int64}).join(times, on="lane", maintain_order="left")
    distinct = _make_names_unique(known_lanes.drop("samples"), known_lanes["samples"].fill_null(0).to_numpy())
    return distinct.select(
        pl.lit(given, LANES[name]).alias(name) if (given := _COUNTER_VALUES.get(name)) is not None else pl.col(name)
        for name in LANES
    ).with_columns(pl.col("lane") + first).cast(LANES)  # fmt: skip


_COUNTER_VALUES: Final = {"role": "counter", "work": False, "events": 0, "rows": 1}


def _conform_to_schema(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Return the frame with exactly the columns of the schema; missing ones are null."""
    if frame.columns == list(schema) and frame.dtypes == list(schema.values()):
        return frame
    have = [
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    ]
    return frame.select_seq(have)


def _renumber_lanes(runs: RowRanges, lanes: pl.DataFrame) -> tuple[pl.DataFrame, RowRanges]:
    """Drop lanes without events and renumber the rest: hosts, then the modules of devices, then other lanes of devices.

    Device events refer to host events and to executions of modules, which therefore come first.
    """
    used, of_run = np.unique(runs.lane, return_inverse=True)
    count = np.zeros(len(used), np.int64)
    np.add.at(count, of_run, runs.high - runs.low)
    used_lanes = _make_names_unique(lanes[used], count).hstack([pl.Series("events", count)])
    order = np.argsort(_lane_groups(used_lanes), kind="stable")
    number = np.empty(len(used), np.int64)
    number[order] = np.arange(len(used))
    runs = runs._replace(lane=number[of_run])
    numbered = used_lanes[order].insert_column(0, pl.Series("lane", np.arange(len(used))))
    return numbered, runs.take(np.argsort(runs.lane, kind="stable"))


def _lane_groups(lanes: pl.DataFrame) -> Ints:
    """Return the group of each lane: of hosts, of modules, or other lanes of devices."""
    groups = (
        HOST_LANES if rank is None else MODULE_LANES if role == "modules" else OTHER_LANES
        for rank, role in zip(lanes["rank"].to_list(), lanes["role"].to_list(), strict=True)
    )
    return np.fromiter(groups, np.int64, lanes.height)


def _lane_properties(lanes: pl.DataFrame, ranks: pl.DataFrame, ops: pl.DataFrame, has_queues: bool) -> LaneProperties:  # noqa: FBT001
    """Return the properties of numbered lanes; loops, not queries, for there are few lanes in most files."""
    labels = [label or "" for label in ranks["label"].to_list()]
    on_cpu = {rank for rank, label in enumerate(labels) if label.startswith(CPU_LABEL)}
    on_gpu = {rank for rank, label in enumerate(labels) if label.startswith(GPU_LABEL)}
    rank_of, roles = lanes["rank"].to_list(), lanes["role"].to_list()
    queues = (
        has_queues and role == "stream" and bool(work) and rank in on_gpu
        for rank, role, work in zip(rank_of, roles, lanes["work"].to_list(), strict=True)
    )
    mingled = (role == "ops" and rank in on_cpu for rank, role in zip(rank_of, roles, strict=True))
    return LaneProperties(
        group=_lane_groups(lanes),
        queues=np.fromiter(queues, np.bool_, lanes.height),
        host=lanes["host"].cast(pl.Int64).to_numpy(),
        rank=np.fromiter((-1 if rank is None else rank for rank in rank_of), np.int64, lanes.height),
        containers=ContainerRules(
            concurrent=np.fromiter((role in CONCURRENT_ROLES for role in roles), np.bool_, lanes.height),
            mingled=np.fromiter(mingled, np.bool_, lanes.height),
            holders=ops.select(pl.col("category").is_in(CONTAINER_CATEGORIES).fill_null(value=False))
            .to_series()
            .to_numpy()
            if ops.height
            else np.empty(0, np.bool_),
        ),
    )


def _make_names_unique(lanes: pl.DataFrame, count: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Make the names of lanes unique per rank or host.

    Of lanes that share a name the one with the most events keeps it and comes first; the others follow it, numbered.
    Lanes that are equal in all stay in their order. `count` has the number of events of each lane.
    """
    names, orders = lanes["name"].to_list(), lanes["order"].to_list()
    alike = list(zip(lanes["host"].to_list(), lanes["rank"].to_list(), names, strict=True))
    least: dict[tuple[object, ...], int] = {}  # the least order of lanes with one name
    for key, order in zip(alike, orders, strict=True):
        if order is not None:
            least[key] = min(least.get(key, order), order)
    by_count = [(-events, row) for row, events in enumerate(count.tolist())]
    in_order = sorted(range(lanes.height), key=lambda row: (least.get(alike[row], _BEFORE_ALL), by_count[row]))
    ranking, again = np.empty(lanes.height, np.int32), Counter[tuple[object, ...]]()
    for number, row in enumerate(in_order, start=1):
        ranking[row] = number
        again[alike[row]] += 1
        if again[alike[row]] > 1:
            names[row] = f"{names[row]} #{again[alike[row]]}"
    return lanes.with_columns_seq(pl.Series("name", names, pl.String), pl.Series("order", ranking))


_BEFORE_ALL: Final = -(1 << 31)
"""The order of lanes without one: the least of Int32."""
