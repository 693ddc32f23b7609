"""The writer of Chrome trace events, for Perfetto and chrome://tracing.

Owns the choice of the way (a copy of the file's own JSON, or events from the model), and the gzip around it.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Final, cast

import polars as pl
from isal import igzip
from msgspec.structs import replace

from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.timing.window_bounds import UNBOUNDED, exported_bounds, intersect_bounds
from tracehound.errors import TracehoundError
from tracehound.export import ExportSummary, ReportProgress
from tracehound.export.chrome_document import ChromeDocument, format_us
from tracehound.export.folder_layout import ranks_by_part
from tracehound.export.json_copy import copy_json_files
from tracehound.export.window_filter import export_windows, file_time_shift
from tracehound.export.xla_writer import write_xla_document
from tracehound.formats.export_metadata import STEP_MODULE_KEY, TRUNCATED_SOURCE_KEY, WINDOW_KEY
from tracehound.formats.kineto.kineto_facts import CLOCKS_APART_KEY
from tracehound.formats.truncation import is_truncated
from tracehound.model.notes import Note, note
from tracehound.model.trace import Trace, Window

GZIP_LEVEL: Final = 2
"""Of igzip's levels 0 to 3: as small as gzip's own first ones, at several times their speed."""

_KINETO: Final = "kineto"
_JSON_FORMATS: Final = (_KINETO, "chrome")


def write_json(trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress) -> ExportSummary:
    """Write the trace. Raises TracehoundError where the files are not of one kind, or cannot be read again."""
    parts = [trace.parts[number] for number in ranks_by_part(trace, window)]
    formats, notes = [part.format for part in parts], [note for part in parts for note in part.notes]
    if _KINETO in formats and len(set(formats)) > 1:
        remedy = "export each alone, or all of them to a folder"
        raise TracehoundError("PyTorch and XLA traces do not fit one document", remedy=remedy)
    skew = _clock_skew_note(trace, window) if len(formats) > 1 else None
    as_it_is = set(formats) == {_KINETO} or (len(formats) == 1 and formats[0] in _JSON_FORMATS)
    step = {} if _KINETO in formats else _step_module_fact(trace, window)
    known = {
        **({CLOCKS_APART_KEY: dict(skew.values)} if skew else {}),
        **({TRUNCATED_SOURCE_KEY: True} if is_truncated(notes) else {}),
        **step,
        **_window_fact(trace, window, own_clock=as_it_is),
    }
    document = ChromeDocument(file, known)
    written = (copy_json_files if as_it_is else write_xla_document)(trace, window, document, report_progress)
    skew_note = note("clocks_written_as_recorded", clocks=skew)
    return replace(written, notes=(*written.notes, skew_note)) if skew else written


def _window_fact(trace: Trace, window: Window, *, own_clock: bool) -> dict[str, Any]:
    """The fact about the window, where it limits time, with that of the trace if it is an export itself.

    A window of steps lasts until the work that they launched has ended.
    """
    numbers = list(ranks_by_part(trace, window))
    end = window.end
    if window.steps is not None and end is not None:
        end = max((reached for _, reached in export_windows(trace, window).values()), default=end)
    found = intersect_bounds((window.start, end), *(exported_bounds(trace, number) for number in numbers))
    if found == UNBOUNDED:
        return {}
    moved = file_time_shift(trace, numbers[0]) if own_clock and len(numbers) == 1 else 0
    return {WINDOW_KEY: [None if time is None else format_us(time + moved) for time in found]}


def _step_module_fact(trace: Trace, window: Window) -> dict[str, Any]:
    """The module whose executions are the steps of these ranks, where nothing marks them and it is one."""
    ranks = trace.ranks["rank"].to_list() if window.ranks is None else window.ranks
    steps = trace.steps.filter(pl.col("rank").is_null() | pl.col("rank").is_in(ranks))
    names = steps["name"].unique().to_list()
    return {STEP_MODULE_KEY: names[0]} if len(names) == 1 and steps["inferred"].all() else {}


def _clock_skew_note(trace: Trace, window: Window) -> Note | None:
    """A note that the clocks of ranks differ, as their collectives show: one file has one clock."""
    skew = run_analysis(get_analysis("clocks"), trace, Window(ranks=window.ranks)).table.filter("applied")
    if skew.is_empty():
        return None
    most = int(skew["shift"].abs().max())  # type: ignore[arg-type]  # it is not empty
    return note("clocks_apart", ranks=skew.height, most=most)


def write_gzipped_json(trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress) -> ExportSummary:
    """Write the trace through gzip; one trace always gives equal bytes."""
    gzip = igzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=GZIP_LEVEL, mtime=0)  # type: ignore[no-untyped-call]  # isal declares no types here
    with gzip:
        return write_json(trace, window, cast("BinaryIO", gzip), report_progress)
