"""Opening and reading of the traces that a command names, with the cache, the workers and the window of its options.

Problems are printed to stderr.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from tracehound.analysis.timing import other_step_work
from tracehound.cli import console
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError, printable
from tracehound.model.trace import Trace, Window
from tracehound.progress_line import ProgressLine
from tracehound.report.window_arguments import parse_window, window_cut_warning
from tracehound.store import ReadContext, TraceReader, load_trace, make_read_context, open_trace_files, trace_cache
from tracehound.store.clock_choice import set_alignment
from tracehound.store.cluster_reader import open_cluster_trace
from tracehound.store.trace_reader import is_url
from tracehound.store.worker_files import WorkerSettings
from tracehound.system.malloc import keep_large_freed_memory

if TYPE_CHECKING:
    from tracehound.remote.object_info import AccessOptions

MIN_RANKS_FOR_WORKERS = 16
MIN_EVENTS_FOR_WORKERS = 500_000
"""The numbers of ranks and of their events from which starting workers for an analysis pays."""

MAX_FILES_LISTED = 5
"""The number of unreadable files that are listed one by one."""


def open_read_context(options: Namespace) -> ReadContext:
    """The workers, the cache and the access to buckets that the options select."""
    root = None if options.no_cache else lambda: trace_cache.open_cache(options.cache or trace_cache.default_root())
    context = make_read_context(options.jobs, root)
    context.access = make_access_options(options)
    if getattr(options, "cluster", None):
        from tracehound.store.dask_cluster import connect_cluster  # noqa: PLC0415, only for a cluster

        context.cluster = connect_cluster(options.cluster)
    return context


def make_access_options(options: Namespace) -> AccessOptions | None:
    """Options for the access to buckets; None without any."""
    if not (options.anonymous or options.requester_pays):
        return None
    from tracehound.remote.object_info import AccessOptions  # noqa: PLC0415, only for buckets

    return AccessOptions(options.anonymous, options.requester_pays)


def shown_paths(paths: Sequence[str]) -> list[str]:
    """The paths for a command that is shown: URLs without what may be a password."""
    if not any(is_url(path) for path in paths):
        return list(paths)
    from tracehound.remote.object_url import parse_url  # noqa: PLC0415, only for URLs

    return [str(parse_url(path)) if is_url(path) else path for path in paths]


def analysis_workers(trace: Trace, context: ReadContext, *, more: bool = False) -> Executor | None:
    """Workers for the maps of an analysis, if they gain more than starting them costs; else None.

    One rank is mapped in this process, on all processors. The workers that read the trace then end and release their
    memory, unless there is `more` to read. What a cluster has read, it also maps.
    """
    if context.cluster is not None:
        return context.cluster
    ranks, events = trace.ranks.height, int(trace.lanes["events"].sum())
    if ranks > 1 and (context.pool.started or (ranks >= MIN_RANKS_FOR_WORKERS and events >= MIN_EVENTS_FOR_WORKERS)):
        return context.pool.executor
    if not more:
        context.pool.close()
    return None


def read_trace(options: Namespace, context: ReadContext, *, devices: bool = False) -> tuple[Trace, Window]:
    """The trace and the window of the options; prints the problems of reading.

    With `devices` only device events are needed, whenever they are.
    """
    reader = find_trace(options.paths, options, context)
    reader.devices_only = devices and not options.step and not options.window
    return _load_with_window(reader, options)


def find_trace(paths: Sequence[str], options: Namespace, context: ReadContext, *, leaving: bool = False) -> TraceReader:
    """Find the files of a trace; with `leaving`, the key q ends the search and the program."""
    for path in paths:
        if not path:
            raise TracehoundError("a path is empty", remedy="a variable that is not set? . is this folder")
    with console.search_progress(", ".join(shown_paths(paths)), leaving=leaving) as look:
        if context.cluster is None:
            reader = open_trace_files(paths, options.run, context, look)
        else:
            settings = WorkerSettings((), options.cache and options.cache.absolute(), options.no_cache, context.access)
            reader = open_cluster_trace(paths, context.cluster, options.run, settings, look)
    return set_alignment(reader, options.align)


def named_file(word: str, context: ReadContext) -> Path:
    """The local path of a file or folder that may be a saved baseline; one at a URL is downloaded."""
    path = context.local_path(word)
    if context.mirror is not None and path in context.mirror.objects:
        context.mirror.fetch_baseline(path)
    return path


def existing_object(url: str, context: ReadContext) -> Path | None:
    """The local path of the object or folder at a URL; None if there is none."""
    from tracehound.remote.remote_error import RemoteError  # noqa: PLC0415, only for URLs

    try:
        return named_file(url, context)
    except RemoteError as error:
        if error.reason == "no_object":
            return None
        raise


def read_trace_with_warning(reader: TraceReader, options: Namespace) -> tuple[Trace, Window]:
    """The trace and the window; warns if devices work on other steps in the window, for outputs that have no notes."""
    trace, window = _load_with_window(reader, options)
    if why := other_step_work.other_steps_note(trace, window):
        console.print_message(note_text(why))
    return trace, window


def _load_with_window(reader: TraceReader, options: Namespace) -> tuple[Trace, Window]:
    """The trace and the window of the options; warns if a part of the window is outside of the trace."""
    trace = load_and_print_failures(reader)
    window = parse_window(trace, options.rank, options.step, options.window)
    if why := window_cut_warning(trace, window):
        console.print_message(why)
    return trace, window


def load_and_print_failures(reader: TraceReader) -> Trace:
    """Read the trace of a reader; prints the files that could not be read."""
    trace = _load_with_progress(reader)
    keep_large_freed_memory()
    dropped = [
        ": ".join(filter(None, (note.location_text, note_text(note))))
        for note in reader.notes
        if note.level == "dropped"
    ]
    for line in dropped[:MAX_FILES_LISTED]:
        console.print_message(printable(line))
    if left := len(dropped[MAX_FILES_LISTED:]):
        console.print_message(f"{left:,} more like these; tracehound report PATH health --notes names all")
    return trace


def _load_with_progress(reader: TraceReader) -> Trace:
    """Read the trace, with a progress line if stderr is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return load_trace(reader)
    with ProgressLine(sys.stderr) as progress:
        return load_trace(reader, progress.show_reading)


def is_path(word: str) -> bool:
    """True if a word is a path rather than a statement or a table, which do not exist on the disk."""
    return not any(map(str.isspace, word)) and os.access(word, os.F_OK)
