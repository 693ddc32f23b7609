"""Reader of PyTorch profiler traces: Kineto's JSON, and that of the autograd profiler before it."""

from __future__ import annotations

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
from tracehound.formats.inflate import GZIP_DAMAGED, GZIP_ENDS_EARLY, run_in_background
from tracehound.formats.json.array_repair import ELEMENT_NOT_EVENT, EVENT_NOT_JSON
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
    lost_step_notes,
    merged_file_notes,
    normalize_metadata,
    profiler_message_notes,
)
from tracehound.formats.kineto.merged_segments import MergedSegments, merge_segment_results
from tracehound.formats.kineto.native_scan import native_decoder
from tracehound.formats.kineto.note_counts import EVENT_WITHOUT_PHASE, UNKNOWN_PHASE
from tracehound.formats.kineto.segment_columns import SegmentColumns
from tracehound.formats.kineto.segment_events import KindCache, SegmentResult, spill_segment
from tracehound.formats.kineto.segment_facets import KnownCombinations
from tracehound.formats.spill import Spill
from tracehound.model.file_facts import PeekedFacts
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames
from tracehound.model.units import count_noun


def read_claims(path: Path) -> PeekedFacts:
    """Claims at the ends of a file, without reading the rest.

    Of a gzip file only the start is read. Raises TracehoundError if the file cannot be opened.
    """
    ends = read_file_ends(path)
    return claims_in_text(ends.text, complete=ends.complete)


class KinetoShard(NamedTuple):
    """Results of the segments of one shard, and the chunk sizes they were read with."""

    segments: tuple[tuple[JsonSegment, SegmentResult], ...]
    sizes: ChunkSizes


def decode_shard(
    path: Path, shard: WorkerShard, spill: Spill, progress: Progress, sizes: ChunkSizes = DEFAULT_SIZES
) -> KinetoShard:
    """Decode segment `shard.number` and every `shard.of`-th after it of a file's array of events.

    `progress` gets this shard's share of the bytes. Raises TracehoundError if the file has no events.
    """
    native = native_decoder()
    shape = ElementDecoder(decode_events if native is None else native.decode, event_from_mapping)
    segments_of_shard = read_segments(path, shard, shape, partial(SegmentColumns, KnownCombinations()), progress, sizes)
    kind_cache = KindCache()
    results = tuple(
        (extent, spill_segment(columns, kind_cache, spill, f"{extent.number}")) for extent, columns in segments_of_shard
    )
    return KinetoShard(results, sizes)


def build_file_frames(path: Path, shards: Sequence[KinetoShard], spill: Spill) -> FileFrames:
    """Frames of the file from all shards; a file whose segments do not meet is decoded again from start to end.

    Raises TracehoundError where elements were dropped and nothing is left.
    """
    results = {segment.number: (segment, result) for shard in shards for segment, result in shard.segments}
    chain = chain_segments(segment for segment, _ in results.values())
    if chain is None:
        return build_file_frames(path, [decode_shard(path, WHOLE_FILE, spill, ignore_progress, shards[0].sizes)], spill)
    read = merge_segments(chain)
    metadata = normalize_metadata(read.metadata)
    events = merge_segment_results([results[segment.number][1] for segment in chain], read.firsts, metadata, spill)
    if not events.chunks and events.counters.samples.is_empty():
        _reject_lost_events(path, chain, (*read.notes, *events.notes))
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
        frames = replace(frames, facets={**frames.facets, **scan_facets(facets())})
    host_only = None if frames.lanes["work"].any() else collect_host_only_signs(frames, events.kinds)
    modules = "python" in events.kinds and has_module_calls(frames.scan)
    facts = replace(frames.facts, modules=modules, host_only=host_only)
    notes = (*frames.notes, *lost_step_notes(frames))
    return add_device_curves(replace(frames, facts=facts, notes=notes))


def _make_facets(events: MergedSegments) -> AbstractContextManager[Callable[[], list[FacetPiece]]]:
    """Make the facets in a thread while the context lasts; few of them when they are asked for, without a thread."""
    if sum(chunk.spilled.height for chunk in events.chunks) <= BATCH_SIZE:
        return nullcontext(partial(list, events.facets))
    return run_in_background(events.facets)


def _reject_lost_events(path: Path, chain: Sequence[JsonSegment], notes: Sequence[Note]) -> None:
    """Raise if elements of a file without events are no events: it is no trace, or nothing of it is left."""
    elements = sum(segment.elements for segment in chain)
    if elements and any(note.code in _NO_EVENT_CODES for note in notes):
        what = f"none of its {count_noun(elements, 'element')} is an event that can be read"
        damage = next((note for note in notes if note.code in (GZIP_DAMAGED, GZIP_ENDS_EARLY)), None)
        if damage is not None:
            raise TracehoundError(f"gzip {dict(damage.values)['what']}, and {what}", path, damage.where, _COPY_AGAIN)
        raise TracehoundError(what, path, remedy="open the JSON that torch.profiler writes")


_COPY_AGAIN: Final = "copy it again, or record it anew"

_NO_EVENT_CODES: Final = (ELEMENT_NOT_EVENT, EVENT_NOT_JSON, EVENT_WITHOUT_PHASE[1], UNKNOWN_PHASE[1])
"""Codes of the notes of elements that are no events."""


READER: Final = FormatReader(decode_shard, build_file_frames, read_args, np.ndarray, read_claims)
