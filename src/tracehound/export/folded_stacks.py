"""Call paths as folded stacks, a line for each: the input of flamegraph.pl, speedscope, inferno and Perfetto.

Owns the form: names from the outermost to the innermost with semicolons between them, a space, and nanoseconds. Paths
and times are those of the analysis `stacks`; a path without a nanosecond of its own has no line.
"""

from __future__ import annotations

from typing import BinaryIO

from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.result import row_depths
from tracehound.errors import printable
from tracehound.export import ExportSummary, ReportProgress
from tracehound.model.trace import Trace, Window

PS_PER_NS = 1000
NO_NAME = "(no name)"
"""Stands for a frame without a name: the tools that read the file ignore an empty one."""


def write_host_stacks(trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress) -> ExportSummary:
    """Write the time of each path on the host, without the time of its callees."""
    return _write_stacks(trace, window, file, report_progress, "self")


def write_device_stacks(trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress) -> ExportSummary:
    """Write the device time of the work that each path launched itself."""
    return _write_stacks(trace, window, file, report_progress, "device_self")


def _write_stacks(
    trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress, weight: str
) -> ExportSummary:
    """Write the paths with the times of one column."""
    result = run_analysis(get_analysis("stacks"), trace, window)
    path_depths = row_depths(result.table, result.columns)
    names = {name: _frame_name(name or "") for name in result.table["call"].unique().to_list()}
    path, events = list[str](), 0
    rows = result.table.select("call", "count", weight).iter_rows()
    for depth, (call, count, time) in zip([] if path_depths is None else path_depths.tolist(), rows, strict=True):
        path[depth:] = [names[call]]
        if time is not None and time >= PS_PER_NS // 2:
            file.write(f"{';'.join(path)} {round(time / PS_PER_NS)}\n".encode("utf-8", "replace"))
            events += count
    report_progress(1.0)
    return ExportSummary(events, notes=() if events else result.notes)


def _frame_name(name: str) -> str:
    """The name of a frame, without semicolons."""
    return printable(name).replace(";", ":").strip() or NO_NAME
