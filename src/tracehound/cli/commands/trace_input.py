"""Opening and reading of the traces that a command names, with the cache, the workers and the window of its options.

Problems are printed to stderr.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from tracehound.analysis.timing import other_step_work
from tracehound.cli import console
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError, printable
from tracehound.model.trace import Trace, Window
from tracehound.progress_line import ProgressLine
from tracehound.report.window_arguments import parse_window, window_cut_warning
from tracehound.store import ReadContext, TraceReader, load_trace, make_read_context, open_trace_files, trace_cache
from tracehound.store.trace_reader import set_alignment
from tracehound.system.malloc import keep_large_freed_memory

MIN_RANKS_FOR_WORKERS = 16
MIN_EVENTS_FOR_WORKERS = 500_000
"""The numbers of ranks and of their events from which starting workers for an analysis pays."""

MAX_FILES_LISTED = 5
"""The number of unreadable files that are listed one by one."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def open_read_context(options: Namespace) -> ReadContext:
    """The workers and the cache that the options select."""
    if options.no_cache:
        return make_read_context(options.jobs, None)
    return make_read_context(options.jobs, lambda: trace_cache.open_cache(options.cache or trace_cache.default_root()))


def analysis_workers(trace: Trace, context: ReadContext, *, more: bool = False) -> Executor | None:
    """Workers for the maps of an analysis, if they gain more than starting them costs; else None.

    One rank is mapped in this process, on all processors. The workers that read the trace then end and release their
    memory, unless there is `more` to read.
    """
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
        if _URL.match(path) and not is_path(path):
            raise TracehoundError(f"{path}: URLs are not read", remedy="download it first")
    with console.search_progress(", ".join(paths), leaving=leaving) as look:
        reader = open_trace_files([Path(path) for path in paths], options.run, context, look)
    return set_alignment(reader, options.align)


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
        console.print_message(f"{left:,} more like these; tracehound report PATH health tells of all")
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
