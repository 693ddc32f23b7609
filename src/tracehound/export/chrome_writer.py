"""The writer of Chrome trace events, for Perfetto and chrome://tracing.

Copies the file's own JSON, streamed, with counter tracks behind it; or writes events from the model. Compresses with
gzip.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, Final, NamedTuple, cast

import msgspec
import polars as pl
from isal import igzip
from msgspec.structs import replace

from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.rank_trace import RankTrace, rank_traces
from tracehound.analysis.window_bounds import UNBOUNDED, exported_bounds, intersect_bounds
from tracehound.errors import TracehoundError
from tracehound.export import ExportSummary, ReportProgress
from tracehound.export.chrome_document import (
    COMPUTED_MARK,
    EVENT_SEPARATOR,
    ChromeDocument,
    CounterTrackProcess,
    counter_events,
    format_us,
)
from tracehound.export.export_destination import ranks_by_part
from tracehound.export.kineto_merge import ElementEditor, element_edits, merged_facts
from tracehound.export.window_filter import (
    WindowFilter,
    element_positions,
    element_start,
    export_windows,
    file_time_shift,
)
from tracehound.export.xla_json_writer import write_xla_document
from tracehound.formats import Progress
from tracehound.formats.export_metadata import STEP_MODULE_KEY, TRUNCATED_SOURCE_KEY, WINDOW_KEY
from tracehound.formats.inflate import check_unchanged, file_changed_error
from tracehound.formats.json.array_segments import JsonSegment
from tracehound.formats.json.json_document import ElementTexts, encode_json, iterate_segment_texts
from tracehound.formats.json.json_document import merge_segments as read_document
from tracehound.formats.json.value_columns import as_id
from tracehound.formats.kineto.kineto_facts import CLOCKS_APART_KEY
from tracehound.formats.kineto.process_ids import process_of_device_curves
from tracehound.model.notes import Note, is_truncated, note
from tracehound.model.trace import Trace, Window, collect_frame


def copy_json_files(
    trace: Trace, window: Window, document: ChromeDocument, report_progress: ReportProgress
) -> ExportSummary:
    """Write the files with ranks of the window, and the counter tracks of those ranks, to the document.

    Raises TracehoundError where a file cannot be read or has changed.
    """
    by_part = dict[int, list[RankTrace]]()
    for rank_trace in rank_traces(trace, window):
        host = trace.ranks.filter(pl.col("rank") == rank_trace.rank)["host"][0]
        by_part.setdefault(trace.hosts[host].part, []).append(rank_trace)
    edit = dict[int, ElementEditor]()
    if len(by_part) > 1:
        edit = element_edits(
            trace, {number: [rank_trace.rank for rank_trace in ranks] for number, ranks in by_part.items()}
        )
        document.begin(merged_facts(trace, window))
    copies = {number: _FileCopy(trace, number, window, document, edit.get(number)) for number in by_part}
    size, done, curves = sum(copy.size for copy in copies.values()), 0, 0
    for number, copy in copies.items():
        copy.copy_elements(by_part[number], _file_progress(report_progress, done, copy.size, size))
        curves += copy.write_counter_tracks(by_part[number])
        done += copy.size
    document.end(
        {name: value for copy in copies.values() for name, value in copy.facts_after_events.items() if not edit}
    )
    notes = tuple(note for copy in copies.values() for note in copy.notes)
    return ExportSummary(sum(copy.events for copy in copies.values()), curves, notes)


def _file_progress(report_progress: ReportProgress, done: int, mine: int, size: int) -> Progress:
    """A progress callback for one file of several: `done` of all `size` bytes are before it."""

    def report(read: int, _: int) -> None:
        report_progress((done + min(read, mine)) / max(size, 1))

    return report


class _FileCopy:
    """The copying of one file: first `copy_elements`, then `write_counter_tracks`.

    Then `events` is the number of written events, `facts_after_events` the facts that belong behind them, `notes` the
    problems of the file. `size` is that of the file, bytes.
    """

    def __init__(
        self, trace: Trace, number: int, window: Window, document: ChromeDocument, edit: ElementEditor | None
    ) -> None:
        self.events = 0
        self.facts_after_events: dict[str, Any] = {}
        self.notes: tuple[Note, ...] = ()
        self._part = trace.parts[number]
        check_unchanged(self._part.path, self._part.state)
        self.size = self._part.path.stat().st_size
        self._document = document
        self._edit = edit
        self._filter = (
            None if window.is_unlimited else WindowFilter(trace, number, window, file_time_shift(trace, number))
        )
        self._first_events: dict[int, list[_FirstDeviceEvent]] = {}
        self._targets: dict[int, CounterTrackProcess] = {}

    def copy_elements(self, ranks: Iterable[RankTrace], progress: Progress) -> None:
        """Write the elements. Raises TracehoundError where the file has changed."""
        for first_event in map(_first_device_event, ranks):
            if first_event is not None:
                self._first_events.setdefault(first_event.record, []).append(first_event)
        extents, first = list[JsonSegment](), 0
        for extent, slices in iterate_segment_texts(self._part.path, progress):
            self._document.begin(extent.metadata)
            for texts in slices:
                self._write(texts, first)
                first += len(texts)
            extents.append(extent)
        check_unchanged(self._part.path, self._part.state)
        if first != int(element_positions(self._part)[-1:, [2, 3]].sum()):
            raise file_changed_error(self._part.path)
        read = read_document(extents)
        self.facts_after_events = {
            name: value for name, value in read.metadata.items() if name not in extents[0].metadata
        }
        self.notes = tuple(replace(note, file=self._part.path.name) for note in read.notes)
        if self._edit is not None:
            self._append(list(self._edit.process_metadata()))

    def write_counter_tracks(self, ranks: Iterable[RankTrace]) -> int:
        """Write the counter tracks of the ranks; returns their number."""
        count = 0
        for rank_trace in ranks:
            target = self._targets.get(rank_trace.rank)
            for texts in counter_events(rank_trace, target) if target else ():
                self._document.add(texts)
                count += 1
        return count

    def _write(self, texts: ElementTexts, first: int) -> None:
        """Write the wanted ones of some elements."""
        for record in self._first_events.keys() & range(first, first + len(texts)):
            self._find_track_target(record, texts[record - first])
        chosen: ElementTexts = (
            texts if self._filter is None else [texts[at] for at in self._filter.wanted_positions(texts, first)]
        )
        if self._edit is None:
            self._append(chosen)
        else:
            self._append([text for element in chosen if (text := self._edit(element)) is not None])

    def _append(self, texts: ElementTexts | list[bytes]) -> None:
        """Write elements; the counter tracks of an earlier export are left out, since they are made anew."""
        joined, count = EVENT_SEPARATOR.join(texts), len(texts)
        if COMPUTED_MARK in joined:
            own = [text for text in map(bytes, texts) if COMPUTED_MARK not in text]
            joined, count = EVENT_SEPARATOR.join(own), len(own)
        self._document.add(joined)
        self.events += count

    def _find_track_target(self, record: int, text: msgspec.Raw) -> None:
        """Find the processes for counter tracks by events of the devices."""
        written = bytes(text) if self._edit is None else self._edit(text) or bytes(text)
        at, process = element_start(written, self._part), _track_process(_PROCESS_AND_THREAD(written))
        for first_event in self._first_events[record]:
            self._targets[first_event.rank] = CounterTrackProcess(process, at - first_event.start)


class _FirstDeviceEvent(NamedTuple):
    """The first event in a file that is on a rank's device: its ordinal, and its start (ps, of the trace)."""

    rank: int
    record: int
    start: int


def _first_device_event(rank_trace: RankTrace) -> _FirstDeviceEvent | None:
    """The first device event of a rank; None where it has none."""
    found = collect_frame(rank_trace.device.select("record", "start").drop_nulls().bottom_k(1, by="record"))
    return _FirstDeviceEvent(rank_trace.rank, *found.row(0)) if found.height else None


class _ProcessAndThread(msgspec.Struct):
    """Process and thread of an element, as JSON."""

    pid: msgspec.Raw = msgspec.Raw(b"0")
    tid: msgspec.Raw = msgspec.Raw(b"0")


_PROCESS_AND_THREAD: Final = msgspec.json.Decoder(_ProcessAndThread).decode


def _track_process(on: _ProcessAndThread) -> bytes:
    """The process for the counter tracks of a device, as JSON, from process and thread of one of its events."""
    pid = as_id(msgspec.json.decode(on.pid))
    own = process_of_device_curves(pid, as_id(msgspec.json.decode(on.tid)))
    return bytes(on.pid) if own == pid else encode_json(own)


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
