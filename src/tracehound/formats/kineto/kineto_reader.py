"""Reader of PyTorch profiler traces: Kineto's JSON, and that of the autograd profiler before it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.formats import WHOLE_FILE, FormatReader, Progress, WorkerShard, ignore_progress
from tracehound.formats.assembly.arrow_storage import FacetPiece, scan_facets
from tracehound.formats.assembly.event_batches import BATCH_SIZE
from tracehound.formats.assembly.file_assembly import DecodedFile, assemble_file
from tracehound.formats.assembly.step_detection import steps_from_recurrence
from tracehound.formats.export_metadata import exported_window_notes, truncated_source_notes
from tracehound.formats.inflate import run_in_background
from tracehound.formats.json.array_segments import ElementDecoder, JsonSegment, read_segments
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.json.json_document import chain_segments, merge_segments, read_args, read_file_ends
from tracehound.formats.kineto.device_curves import add_device_curves
from tracehound.formats.kineto.json_events import decode_events, event_from_mapping
from tracehound.formats.kineto.kineto_facts import (
    claims_in_text,
    clock_notes,
    collect_file_facts,
    collect_host_only_signs,
    has_module_calls,
    job_notes,
    lost_step_notes,
    merged_file_notes,
    normalize_metadata,
    profiler_message_notes,
)
from tracehound.formats.kineto.merged_segments import MergedSegments, merge_segment_results
from tracehound.formats.kineto.native_scan import native_decoder
from tracehound.formats.kineto.paired_slices import join_edges
from tracehound.formats.kineto.segment_columns import SegmentColumns
from tracehound.formats.kineto.segment_events import KindCache, SegmentResult, spill_segment
from tracehound.formats.kineto.segment_facets import KnownCombinations
from tracehound.formats.spill import Spill
from tracehound.model.file_facts import PeekedFacts
from tracehound.model.notes import is_truncated
from tracehound.model.trace import FileFrames


def read_claims(path: Path) -> PeekedFacts:
    """Claims at the ends of a file, without reading the rest.

    Of a gzip file only the start is read. Raises TracehoundError if the file cannot be opened.
    """
    ends = read_file_ends(path)
    return claims_in_text(ends.text, complete=ends.complete)


class KinetoShard(NamedTuple):
    """Results of the segments of one shard, and how they were read: the chunk sizes, and `pair_late`."""

    segments: tuple[tuple[JsonSegment, SegmentResult], ...]
    sizes: ChunkSizes
    pair_late: bool = False


class _KnownArgsAndKinds(threading.local):
    """Combinations of args and kinds of names in earlier files of a thread: the files of a job share most of them."""

    def __init__(self) -> None:
        self.combinations, self.kinds = KnownCombinations(), KindCache()


_KNOWN: Final = _KnownArgsAndKinds()


def decode_shard(
    path: Path,
    shard: WorkerShard,
    spill: Spill,
    progress: Progress,
    sizes: ChunkSizes = DEFAULT_SIZES,
    *,
    pair_late: bool = False,
) -> KinetoShard:
    """Decode segment `shard.number` and every `shard.of`-th after it of a file's array of events.

    With `pair_late` no begin of a slice is paired with its end before the whole file is read. `progress` gets this
    shard's share of the bytes. Raises TracehoundError if the file has no events.
    """
    native = native_decoder()
    shape = ElementDecoder(decode_events if native is None else native.decode, event_from_mapping)
    _KNOWN.combinations.forget_many()
    _KNOWN.kinds.forget_many()
    make_columns = partial(SegmentColumns, _KNOWN.combinations, pair_late=pair_late)
    segments_of_shard = read_segments(path, shard, shape, make_columns, progress, sizes)
    results = tuple(
        (extent, spill_segment(columns, _KNOWN.kinds, spill, f"{extent.number}"))
        for extent, columns in segments_of_shard
    )
    return KinetoShard(results, sizes, pair_late)


def build_file_frames(path: Path, shards: Sequence[KinetoShard], spill: Spill) -> FileFrames:
    """Frames of the file from all shards; a file whose segments do not meet is decoded again from start to end.

    Raises TracehoundError for a file without any element.
    """
    results = {segment.number: (segment, result) for shard in shards for segment, result in shard.segments}
    chain = chain_segments(segment for segment, _ in results.values())
    if chain is None:
        return _decode_again(path, shards, spill, pair_late=shards[0].pair_late)
    read = merge_segments(chain)
    metadata = normalize_metadata(read.metadata)
    decoded = [results[segment.number][1] for segment in chain]
    joined = join_edges([result.edges_left for result in decoded], read.firsts, late=shards[0].pair_late)
    if joined is None:
        return _decode_again(path, shards, spill, pair_late=True)
    firsts = list(read.firsts)
    if any(joined):
        columns = SegmentColumns(KnownCombinations())
        columns.add_slices(*joined)
        decoded.append(spill_segment(columns, KindCache(), spill, "joined"))
        firsts.append(0)
    events = merge_segment_results(decoded, firsts, metadata, spill)
    is_sound = not is_truncated(read.notes) and not any(note.level == "dropped" for note in read.notes)
    if is_sound and not any(segment.elements for segment in chain):
        raise TracehoundError("holds no trace events", path, remedy="record it anew: the profiler wrote an empty list")
    with _make_facets(events) as facets:
        frames = assemble_file(
            DecodedFile(
                path=path,
                format="kineto",
                chunks=events.chunks,
                lanes=events.file_lanes.lanes,
                ranks=events.file_lanes.ranks,
                hosts=events.file_lanes.hosts,
                wall_ns=events.wall_ns,
                facts=collect_file_facts(metadata, events),
                notes=(
                    *read.notes,
                    *events.notes,
                    *profiler_message_notes(metadata),
                    *merged_file_notes(metadata, events.file_lanes.runs),
                    *clock_notes(metadata),
                    *job_notes(metadata),
                    *truncated_source_notes(metadata),
                    *exported_window_notes(events.exported_window),
                ),
                places=read.places,
                counters=events.counters,
                unmarked=steps_from_recurrence,
                has_queues=True,
            ),
            spill,
        )
        found = scan_facets(facets())
        frames = replace(frames, facets={**frames.facets, **found} if frames.facets else found)
    host_only = None if frames.lanes["work"].any() else collect_host_only_signs(frames, events.kinds)
    modules = "python" in events.kinds and has_module_calls(frames.scan)
    facts = replace(frames.facts, modules=modules, host_only=host_only)
    notes = (*frames.notes, *lost_step_notes(frames))
    return add_device_curves(replace(frames, facts=facts, notes=notes), has_thread_grids=events.has_thread_grids)


def _make_facets(events: MergedSegments) -> AbstractContextManager[Callable[[], list[FacetPiece]]]:
    """Make the facets in a thread while the context lasts; few of them when they are asked for, without a thread."""
    if sum(chunk.spilled.height for chunk in events.chunks) <= BATCH_SIZE:
        return nullcontext(partial(list, events.facets))
    return run_in_background(events.facets)


def _decode_again(path: Path, shards: Sequence[KinetoShard], spill: Spill, *, pair_late: bool) -> FileFrames:
    """Frames of a file, decoded from start to end."""
    whole = decode_shard(path, WHOLE_FILE, spill, ignore_progress, shards[0].sizes, pair_late=pair_late)
    return build_file_frames(path, [whole], spill)


READER: Final = FormatReader(decode_shard, build_file_frames, read_args, np.ndarray, read_claims)
