"""Export of a trace to a file for other programs: `EXPORT_FORMATS` is the literal list of formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import BinaryIO, Final

from msgspec import Struct

from tracehound.errors import TracehoundError, path_text, printable
from tracehound.model.notes import Note
from tracehound.model.trace import Trace, Window
from tracehound.model.units import count_noun

__all__ = [
    "EXPORT_FORMATS",
    "ExportFormat",
    "ExportSummary",
    "ReportProgress",
    "TraceWriter",
    "export_summary_text",
    "find_format",
]

ReportProgress = Callable[[float], None]
"""Receives the finished share of the work, several times a second."""


class ExportSummary(Struct, frozen=True):
    """The number of written events and of written counter tracks (their points are no events), and notes."""

    events: int
    curves: int = 0
    notes: tuple[Note, ...] = ()


def export_summary_text(written: Sequence[ExportSummary]) -> str:
    """The contents of one written file, or of several, in words."""
    files, events, curves = len(written), sum(one.events for one in written), sum(one.curves for one in written)
    counted = [count_noun(files, "file")] * (files != 1) + [count_noun(events, "event")]
    return ", ".join(counted + [count_noun(curves, "counter track")] * (curves > 0))


TraceWriter = Callable[[Trace, Window, BinaryIO, ReportProgress], ExportSummary]
"""Writes a trace, narrowed to a window, to a file. Raises TracehoundError where that cannot be."""


class ExportFormat(Struct, frozen=True):
    """One kind of file: `suffix` is the end of its name, `module` has the function `writer`, imported when it is used.

    A format that is a `trace` can be read again, also together with other traces in its folder.
    """

    name: str
    suffix: str
    purpose: str
    module: str
    writer: str
    trace: bool = False

    @property
    def write(self) -> TraceWriter:
        """The function that writes it."""
        write: TraceWriter = getattr(import_module(self.module), self.writer)
        return write


_CHROME_WRITER: Final = "tracehound.export.chrome_writer"
_TABLE_WRITER: Final = "tracehound.export.table_writer"
_FOLDED_STACKS: Final = "tracehound.export.folded_stacks"

EXPORT_FORMATS: Final = (
    ExportFormat(
        "json",
        ".json",
        "Chrome trace events with counter tracks, for Perfetto",
        _CHROME_WRITER,
        "write_json",
        trace=True,
    ),
    ExportFormat("json.gz", ".json.gz", "the same, gzipped", _CHROME_WRITER, "write_gzipped_json", trace=True),
    ExportFormat("parquet", ".parquet", "a flat table with a row for each event", _TABLE_WRITER, "write_parquet"),
    ExportFormat("arrow", ".arrow", "the same as an Arrow IPC file", _TABLE_WRITER, "write_arrow"),
    ExportFormat("csv", ".csv", "the same as text", _TABLE_WRITER, "write_csv"),
    ExportFormat(
        "device",
        ".device.folded",
        "device time by the call path that launched it, for flame graphs",
        _FOLDED_STACKS,
        "write_device_stacks",
    ),
    ExportFormat(
        "folded",
        ".folded",
        "host time by call path, as folded stacks for flame graphs",
        _FOLDED_STACKS,
        "write_host_stacks",
    ),
)


def find_format(name: str, out: str) -> ExportFormat:
    """The format of that name; without a name, that of a file called `out` (of ``-``, which is stdout, the first).

    Raises TracehoundError where there is none.
    """
    names = ", ".join(form.name for form in EXPORT_FORMATS)
    for form in EXPORT_FORMATS:
        if form.name == name or (not name and out.lower().endswith(form.suffix)):
            return form
    if name:
        raise TracehoundError(f"no form {printable(name)!r}", remedy=f"there are {names}")
    if out == "-":
        return EXPORT_FORMATS[0]
    ends = ", ".join(form.suffix for form in EXPORT_FORMATS)
    raise TracehoundError(
        f"the name {printable(path_text(out))!r} has no known ending",
        remedy=f"end a file with {ends}, a folder with /, or give --format",
    )
