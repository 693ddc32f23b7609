"""The header of every report: files, hosts, ranks, time and versions of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.notes import note_text
from tracehound.errors import path_text, printable
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames, Trace, Window
from tracehound.model.units import (
    TimeUnit,
    count_hosts_and_processes,
    count_noun,
    format_bytes,
    format_duration,
    format_instant,
    format_names,
    format_ranges,
    format_ranks,
)
from tracehound.store.merge_files import not_one_run_note


class HeaderTraceFile(Struct, frozen=True):
    """One file of the trace; `size` in bytes when it was read, None if unknown."""

    path: str
    format: str
    size: int | None


class ReportRank(Struct, frozen=True):
    """One rank and its device; `inferred` if the file does not name the rank."""

    rank: int
    device: str
    model: str
    host: str
    inferred: bool


class ReportHeader(Struct, frozen=True):
    """The facts of a trace that head a report. All text is safe to print.

    `origin_ns` is the wall clock (Unix, ns) of time 0, `span` the first start and last end in ps, `versions` those of
    drivers and libraries as the files name them, `window` the one that the user chose. `inferred`: steps are inferred,
    since none are marked. `doubt` is the reason why the files are probably not of one run; None if they can be.
    """

    name: str
    files: tuple[HeaderTraceFile, ...]
    hosts: tuple[str, ...]
    ranks: tuple[ReportRank, ...]
    origin_ns: int | None
    span: tuple[int, int]
    versions: Mapping[str, str]
    window: Window
    inferred: bool = False
    doubt: Note | None = None

    @property
    def recording_start_text(self) -> str:
        """The wall-clock time of time 0, in UTC and to the second; empty if unknown."""
        if self.origin_ns is None:
            return ""
        try:
            moment = datetime.fromtimestamp(self.origin_ns // 10**9, tz=UTC)
        except (OverflowError, OSError, ValueError):
            return ""
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


class ReportStyle(Struct, frozen=True):
    """Options of a report: the `width` of text, and the `unit` of times in text and markdown.

    Text and markdown fold several caveats into one line unless `all_notes` is set.
    """

    width: int = 80
    unit: TimeUnit = "auto"
    all_notes: bool = False


def build_header(trace: Trace, window: Window) -> ReportHeader:
    """The header for one window of a trace."""
    hosts = tuple(printable(host.name) for host in trace.hosts)
    rows = trace.ranks.select("rank", "label", "model", "host", "inferred").rows()
    return ReportHeader(
        name=printable(trace.name),
        files=tuple(_report_file(part) for part in trace.parts if part.hosts),
        hosts=hosts,
        ranks=tuple(
            ReportRank(rank, printable(label or ""), printable(model or ""), hosts[host], bool(inferred))
            for rank, label, model, host, inferred in rows
        ),
        origin_ns=trace.origin_ns,
        span=trace.span,
        versions=_collect_versions(trace),
        window=window,
        inferred=trace.steps.height > 0 and bool(trace.steps["inferred"].all()),
        doubt=not_one_run_note(trace, window.ranks),
    )


def add_doubt_note(result: Result, header: ReportHeader) -> Result:
    """The result with a first note on why the files are probably not of one run, if that is so."""
    return replace(result, notes=(header.doubt, *result.notes)) if header.doubt else result


def header_sentences(header: ReportHeader, unit: TimeUnit = "auto") -> list[str]:
    """The facts of the trace in a few lines of text."""
    formats = sorted({file.format for file in header.files})
    size = sum(file.size or 0 for file in header.files)
    what = [
        f"{' and '.join(formats) or 'no format'}, {count_noun(len(header.files), 'file')}, {format_bytes(size)}",
        count_hosts_and_processes(header.hosts),
        count_noun(len(header.ranks), "rank"),
        f"{format_duration(header.span[1] - header.span[0], unit)} long",
    ]
    lines = [*([note_text(header.doubt)] if header.doubt else []), " · ".join(what)]
    if header.recording_start_text:
        lines.append(f"recorded {header.recording_start_text}")
    if header.versions:
        lines.append(", ".join(f"{name} {value}" for name, value in header.versions.items()))
    if header.hosts:
        lines.append(f"on {_hosts_text(header.hosts)}")
    if not header.window.is_unlimited:
        lines.append(describe_window(header, header.window, unit))
    return lines


def _hosts_text(hosts: Sequence[str]) -> str:
    """The hosts; of many their machines."""
    names = dict.fromkeys(hosts)
    return ", ".join(names) if len(names) <= _NAMED_HOSTS else format_names(name.partition(": ")[0] for name in names)


_NAMED_HOSTS: Final = 6


def describe_window(header: ReportHeader, window: Window, unit: TimeUnit = "auto") -> str:
    """The limits of a window: ``only 10.000 ms to 20.000 ms, ranks 0, 2``."""
    parts = []
    if window.steps is not None:
        how = "inferred" if header.inferred else "marked"
        parts.append(f"step {format_ranges(window.steps)} of each rank, as {how}")
    if window.start is not None or window.end is not None:
        start, end = window.clip_bounds(*header.span)
        parts.append(f"{format_instant(start, unit)} to {format_instant(end, unit)}")
    if window.ranks is not None:
        parts.append(format_ranks(window.ranks))
    return f"only {', '.join(parts)}"


def _report_file(part: FileFrames) -> HeaderTraceFile:
    return HeaderTraceFile(printable(path_text(part.path)), part.format, part.state.size if part.state else None)


def _collect_versions(trace: Trace) -> dict[str, str]:
    """The versions of all files; different values are all listed."""
    found: dict[str, list[str]] = {}
    for part in trace.parts:
        for key, value in part.facts.versions.items():
            word = printable(value)[:40]
            if any(char.isdigit() for char in word):
                values = found.setdefault(printable(key.removesuffix("_version").replace("_", " ")), [])
                values.extend([word] if word not in values else [])
    return {name: " or ".join(values[:3]) for name, values in sorted(found.items())}
