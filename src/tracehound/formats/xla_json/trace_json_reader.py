"""Reader of XLA profiles in the Chrome trace format: the trace.json.gz beside an xplane.pb.

The file holds less than the xplane, as notes say. Its events are decoded by `trace_json_events` and assigned to lanes
by `trace_json_lanes`; `json.array_segments` finds them in the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.errors import printable_file_name
from tracehound.formats import WHOLE_FILE, FormatReader, Progress, WorkerShard
from tracehound.formats.assembly.counter_samples import CounterKey, FileCounters, build_counters, counter_titles
from tracehound.formats.assembly.file_assembly import DecodedFile, assemble_file, single_chunk
from tracehound.formats.export_metadata import (
    exported_step_module,
    exported_window,
    exported_window_notes,
    truncated_source_notes,
)
from tracehound.formats.json.array_segments import JsonSegment, read_segments
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.json.json_document import merge_segments, read_args, read_file_ends
from tracehound.formats.json.value_columns import INVALID
from tracehound.formats.kineto.kineto_facts import clock_notes
from tracehound.formats.spill import Spill
from tracehound.formats.xla.kernel_details import parse_launch_details
from tracehound.formats.xla.profile_builder import OpTable, ProfileBuilder
from tracehound.formats.xla.xla_names import DEVICE_TYPE
from tracehound.formats.xla_json.trace_json_events import (
    EVENT_DECODER,
    ProcessHosts,
    TraceJsonEvents,
    find_process_hosts,
)
from tracehound.formats.xla_json.trace_json_lanes import DEVICE_PROCESS, gather_events, is_near_median
from tracehound.model.file_facts import FileFacts, PeekedFacts
from tracehound.model.notes import Note
from tracehound.model.trace import CPU_LABEL, FileFrames, collect_frame


def _format_limits_note(frames: FileFrames, *, ends: bool) -> Note:
    """Return the note on what this format lacks; `ends` says whether the file has the true ends of ops on CPUs."""
    linked = pl.col("launch").is_not_null() & pl.col("rank").is_not_null()
    has_links = collect_frame(frames.scan.select(linked.any())).item()
    has_ends = ends or not frames.ranks["label"].str.starts_with(CPU_LABEL).any()
    return Note("missing", "chrome_form_of_xla", values=(("has_links", has_links), ("has_ends", bool(has_ends))))


_DEVICE_NAME: Final = re.compile(rf'"name"\s*:\s*"/device:({DEVICE_TYPE}:\d{{1,9}})[" ]')


def read_claims(path: Path) -> PeekedFacts:
    """Read the claims at the start of a file: `devices` and `host`.

    Raises TracehoundError for a file that cannot be opened.
    """
    devices = dict.fromkeys(_DEVICE_NAME.findall(read_file_ends(path).text))
    return PeekedFacts(devices=tuple(devices), host=_host_in_file_name(path))


def _host_in_file_name(path: Path) -> str:
    """Return the machine that XLA names the file after."""
    return printable_file_name(path).split(".trace.json")[0]


class TraceJsonShard(NamedTuple):
    """The content of one shard: the whole file, or nothing."""

    columns: TraceJsonEvents
    segments: tuple[JsonSegment, ...]


def decode_shard(
    path: Path, shard: WorkerShard, _spill: Spill, progress: Progress, sizes: ChunkSizes = DEFAULT_SIZES
) -> TraceJsonShard:
    """Decode the whole file in the first shard; others are empty, for XLA's writers stop at one or five million events.

    Raises TracehoundError where the file has no events.
    """
    columns = TraceJsonEvents()
    if shard.number:
        return TraceJsonShard(columns, ())
    segments = read_segments(path, WHOLE_FILE, EVENT_DECODER, lambda: columns, progress, sizes)
    return TraceJsonShard(columns, tuple(segment for segment, _ in segments))


def build_file_frames(path: Path, shards: Sequence[TraceJsonShard], spill: Spill) -> FileFrames:
    """Build the file frames from all shards."""
    columns, segments = shards[0]
    document = merge_segments(segments)
    builder, process_hosts = ProfileBuilder(OpTable()), find_process_hosts(columns, _host_in_file_name(path))
    dropped_notes = gather_events(columns, process_hosts, builder)
    counters, counter_notes = _gather_counters(columns, process_hosts, builder)
    launches, window = _launched_facet(columns), exported_window(document.metadata, 0)
    frames = assemble_file(
        DecodedFile(
            path=path,
            format="chrome",
            chunks=single_chunk(builder.event_frame()),
            lanes=builder.lane_frame(),
            ranks=builder.rank_frame(),
            hosts=process_hosts.names,
            wall_ns=None,
            ops=builder.ops.frame(),
            facts=FileFacts(exported_window=window),
            notes=(
                *document.notes,
                *dropped_notes,
                *counter_notes,
                *clock_notes(document.metadata),
                *truncated_source_notes(document.metadata),
                *exported_window_notes(window),
            ),
            places=document.places,
            repeating=exported_step_module(document.metadata),
            facets={"launched": launches.lazy()} if launches.height else {},
            counters=counters,
        ),
        spill,
    )
    return replace(frames, notes=(*frames.notes, _format_limits_note(frames, ends=bool(columns.ranks))))


def _gather_counters(
    events: TraceJsonEvents, hosts: ProcessHosts, builder: ProfileBuilder
) -> tuple[FileCounters, list[Note]]:
    """Gather the counters of the ranks whose devices their processes are, else of the host.

    Also return the notes on them.
    """
    found = events.samples.finish()
    starts = events.all_columns().start
    is_possible = is_near_median(found.time, starts[starts != INVALID]) if len(found.time) else np.empty(0, np.bool_)
    titles = counter_titles(found.keys)

    def lane(series: CounterKey) -> dict[str, object]:
        process = events.metadata.get(("process_name", series.process, None), "")
        device = DEVICE_PROCESS.match(process)
        host, (name, unit) = hosts.of.get(series.process, 0), titles[series]
        rank = None if device is None else builder.find_or_add_rank(device[1], int(device[2]), "", host=host)
        return {
            "host": host,
            "rank": rank,
            "name": name,
            "unit": unit,
            "process": hosts.name_without_host(series.process, process),
        }

    notes = [Note("info", "counter_samples", len(found.time))] if len(found.time) else []
    dropped = [*events.samples.broken, *([0] * int(np.count_nonzero(~is_possible)))]
    if dropped:
        first = events.samples.broken[:1]
        where = f"event {first[0]:,}" if first else ""
        notes.append(Note("dropped", "counter_sample_impossible", len(dropped), where=where))
    return build_counters(found.take(np.flatnonzero(is_possible)), lambda ps: ps, lane), notes


def _launched_facet(events: TraceJsonEvents) -> pl.DataFrame:
    """Return the facet ``launched`` of all kernels with launch details."""
    texts = pl.Series(list(events.details), dtype=pl.String).replace("", None)
    details = events.all_columns().details
    rows = np.flatnonzero(texts.is_not_null().to_numpy()[details]) if len(details) else np.empty(0, np.int64)
    return parse_launch_details(pl.Series(rows), texts.gather(pl.Series(details[rows])))


READER: Final = FormatReader(decode_shard, build_file_frames, read_args, np.ndarray, read_claims)
