"""From files to one `Trace`: find the files, detect their formats, read and cache them, put them on one clock."""

from __future__ import annotations

from tracehound.store.common_clock import ClockAlignment
from tracehound.store.event_args import CheckpointedFiles, read_event_args
from tracehound.store.merge_files import merge_file_frames
from tracehound.store.reading_progress import ReadingProgress
from tracehound.store.trace_reader import (
    CancelledError,
    ReadContext,
    TraceReader,
    load_trace,
    make_read_context,
    open_trace_files,
)

__all__ = [
    "CancelledError",
    "CheckpointedFiles",
    "ClockAlignment",
    "ReadContext",
    "ReadingProgress",
    "TraceReader",
    "load_trace",
    "make_read_context",
    "merge_file_frames",
    "open_trace_files",
    "read_event_args",
]
