"""Messages of the explorer: the header, captions, and reasons why something is empty.

Owns the sentences, made of plain values. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from msgspec.structs import replace
from rich.cells import cell_len

from tracehound.analysis.devices.missing_data import no_device_activity_reason as unrecorded
from tracehound.analysis.result import SETTING_NOTE, Result
from tracehound.analysis.topics import memory_only_note
from tracehound.diff.aligned_steps import SLOT_KINDS, AlignedSteps
from tracehound.draw.name_shortening import shorten_name
from tracehound.draw.notes import note_text, note_texts
from tracehound.draw.overview_panels import base_name
from tracehound.errors import printable
from tracehound.model import short_names, units
from tracehound.model.notes import Note
from tracehound.model.trace import Trace
from tracehound.model.units import format_duration, format_growth, format_time_difference
from tracehound.progress_line import progress_parts
from tracehound.store import ReadingProgress
from tracehound.store.trace_files import TraceFile
from tracehound.ui.state.linked_views import ComparedStep
from tracehound.ui.state.table_view import TableView

FORMAT_TITLES = {
    "kineto": "PyTorch",
    "xplane": "XLA",
    "chrome": "XLA (trace.json)",
    "memory_timeline": "PyTorch memory timeline",
}
"""What the formats are called in a header."""


def header_parts(trace: Trace, ranks: Sequence[int] | None = None) -> list[str]:
    """Parts of the header, most important first: losses, devices and ranks, duration, formats.

    `ranks` are those that are shown; None stands for all.
    """
    start, end = trace.span
    lost = _loss_parts(trace)
    formats = dict.fromkeys(FORMAT_TITLES.get(part.format, part.format) for part in trace.parts)
    return [
        *lost,
        *_device_parts(trace, ranks),
        *([units.format_duration(end - start)] if end > start else []),
        *formats,
    ]


def header_alerts(trace: Trace, ranks: Sequence[int] | None = None) -> list[str]:
    """Those of the parts that say that not all of the trace is shown: losses, and ranks that are left out."""
    return [*_loss_parts(trace), *(_device_parts(trace, ranks)[:1] if ranks is not None else [])]


def _loss_parts(trace: Trace) -> list[str]:
    return ["incomplete: see health"] if any(note.level == "dropped" for note in trace.notes) else []


def _device_parts(trace: Trace, shown: Sequence[int] | None) -> list[str]:
    ranks = trace.ranks
    if ranks.is_empty():
        return []
    every = ranks.height
    ranks = ranks if shown is None else ranks.filter(pl.col("rank").is_in(shown))
    models = ranks["model"].drop_nulls().unique(maintain_order=True).to_list() or _common_label(ranks)
    model = f"{len(models)} models" if len(models) > 1 else "".join(models)
    number = (
        f"{ranks.height:,} of {units.count_noun(every, 'rank')}"
        if shown is not None
        else units.count_noun(every, "rank")
    )
    inferred = " (inferred)" if ranks["inferred"].any() and every > 1 else ""
    return [f"{number}{inferred}", model] if model else [f"{number}{inferred}"]


def _common_label(ranks: pl.DataFrame) -> list[str]:
    """The label that all of these ranks share, if there is one."""
    labels: list[str] = ranks["label"].drop_nulls().unique().to_list()
    return labels if len(labels) == 1 else []


def top_finding_parts(findings: Result, so_far: str) -> tuple[str, ...]:
    """Cost and title of the costliest finding: ``28.77 % of step time, 177.0 ms``, the same without the base, title.

    `so_far` says of how many ranks it is, if not of all: then it stands before the cost.
    """
    row = next(findings.table.head(1).iter_rows(named=True), None)
    if row is None:
        return (COMPUTING if so_far else NO_FINDINGS,)
    share = units.format_share(row["share"]) if row["share"] is not None else ""
    base = base_name(row["share_of"]) if share and row.get("share_of") else ""
    cost = units.format_duration(row["cost"]) if row["cost"] is not None else ""
    amounts = (", ".join(filter(None, (of, cost))) for of in (f"{share} of {base}" if base else share, share))
    costs = (" · ".join(filter(None, (so_far, amount))) for amount in amounts)
    return (*dict.fromkeys(filter(None, costs)), printable(row["finding"]))


def reading_progress_text(reading: ReadingProgress | None, dot: str) -> str:
    """``3 of 32 files · 1.2 M events/s · 12 s left``, and how to stop it."""
    known = progress_parts(reading)[1:] if reading is not None else ()
    return f" {dot} ".join([*filter(None, known), "Esc stops reading"])


def event_count_text(number: int) -> str:
    """``1.2 M events``; empty for none."""
    return units.count_noun(number, "event") if number else ""


def file_progress(reading: ReadingProgress, files: Sequence[TraceFile]) -> dict[str, str]:
    """``reading 47 %`` of every file that is being read, by its path."""
    sizes = {file.path: max(1, file.size) for file in files}
    known = ((path, read) for path, (read, _) in reading.running.items() if path in sizes)
    return {str(path): f"reading {min(100, 100 * read // sizes[path])} %" for path, read in known}


def reading_stopped_message(read: int, files: int) -> str:
    """Message after the user stopped the reading."""
    return f"stopped: {read:,} of {files:,} file{'' if files == 1 else 's'} read"


def selected_window_text(window: tuple[int, int]) -> str:
    """``window 72.3 ms at 1.204 s``."""
    return f"window {window_length_text(window)} at {units.format_instant(window[0])}"


def window_length_text(window: tuple[int, int]) -> str:
    """Length of a window, as text."""
    return units.format_duration(window[1] - window[0])


def table_scope_text(window: tuple[int, int] | None) -> str:
    """Scope of a table: ``whole run`` or ``in the 72.3 ms window``."""
    return (
        "whole run"
        if window is None
        else f"in the {window_length_text(window)} window at {units.format_instant(window[0])}"
    )


def table_caption(sheet: TableView, about: str) -> list[str]:
    """The parts of the line above a table before its notes: what it is `about`, and how many rows a filter leaves."""
    result, every = sheet.folded, replace(sheet, filter="").filtered_rows.height
    rows = (
        f"{sheet.passing_row_count:,} of {every:,} rows with {sheet.filter}" if sheet.filter else result.shown_rows_text
    )
    if not rows and result.total > 1:
        rows = f"{result.total:,} rows"
    return [result.title, about, *([rows] if rows else [])]


def notes_not_yet_said(notes: Sequence[Note], so_far: str) -> tuple[Note, ...]:
    """The notes of a result, but those of settings that `so_far` names already."""
    return tuple(
        note
        for note in notes
        if note.code != SETTING_NOTE or "{name}={value}".format(**dict(note.values)) not in so_far
    )


def search_matches_text(place: str, names: int, dot: str) -> str:
    """``17 of 2,304 · 3 names``."""
    return f"{place} {dot} {names:,} name{'' if names == 1 else 's'}"


NO_DEVICE = (
    "no device activity in this trace: torch.profiler records it with ProfilerActivity.CUDA, JAX on a GPU or TPU"
)

EMPTY_REASONS = {
    "ops": NO_DEVICE,
    "gaps": NO_DEVICE,
    "breakdown": NO_DEVICE,
    "collectives": "no collectives: there is one device, or no communication was recorded",
    "search": "no event has such a name",
    "prompt": "type part of a name, or ~ and a regular expression",
}
"""What would have to be recorded for a table to have rows, where its own notes do not say."""


NOTHING_READ = "loading..."
COMPUTING = "computing..."
NO_FINDINGS = "no findings"
WAITS_FOR_ROWS = "computing: this key acts when the rows are there; Esc forgets it"
NO_WALK = "n and N go through matches: / searches, Enter selects an event"
NOTHING_SELECTED = "nothing to zoom to: Enter selects the event at the focus, v begins a window"
ROW_OF_WHOLE_RANK = "this row is of a whole rank, which is in view"
LONGEST_INTERVAL = "the longest interval without an event; by=event lists all"
NO_EVENTS = "this row has no events: nothing was recorded there"
NO_LANE = "no lane under the cursor: j and k go to one"
NO_EVENT = "no event selected: Enter selects the one at the focus"


def all_rows_shown(rows: int) -> str:
    """Message that a lane with so many rows shows all of them."""
    return "this lane has one row" if rows == 1 else f"all {rows:,} rows of this lane are shown"


def no_match_message(needle: str) -> str:
    """Message for n and N after a search without matches."""
    return f"nothing to go to: no event is named {needle}"


def work_of_other_steps(share: float) -> str:
    """That this part of what the device does in the selected step was launched in other steps."""
    return f"{units.format_share(share)} of the device work here is of other steps: the host runs ahead"


def step_selected_message(step: int | None, window: tuple[int, int], mark: tuple[int, int] | None, until: str) -> str:
    """Message about the interval of a step that a table row selected, and about the step's mark if that differs.

    `until` says where the interval ends if not with the mark, which is None for a step inferred from no single event.
    """
    what = f"step {step}" if step is not None else "the step"
    if window == mark:
        return f"{what}, as it is marked"
    marked = f"; its mark: {window_length_text(mark)} at {units.format_instant(mark[0])}" if mark is not None else ""
    return f"{what} {until}{marked}"


def lane_not_shown(lane: str, key: str) -> str:
    """Of a selected event of which nothing is seen: its lane was hidden, or filtered out, or is of another rank."""
    return f"its lane {printable(lane)} is not shown{f': {key} in the timeline shows all lanes' if key else ''}"


NOTHING_HERE = "nothing here; . goes to the next event"


def no_gap_message(trace: Trace, least: int, direction: int) -> str:
    """Message that there is no next gap (1) or previous gap (-1) of so many ps."""
    if not trace.lanes["work"].any():
        return "no gaps: no device activity in this trace"
    which = "next gap" if direction > 0 else "gap before"
    return f"no {which} of {units.format_duration(least)} or more here: zoom in for shorter ones"


NO_STREAMS = "no device lanes to group by stream"


def why_empty(result: Result, trace: Trace, window: tuple[int, int] | None) -> str:
    """The reason why a result is empty: what would have to be recorded, then its notes."""
    known = window is not None or result.analysis in EMPTY_REASONS or not result.notes
    return "\n".join(
        dict.fromkeys([*([why_no_rows(result.analysis, trace, window)] if known else []), *note_texts(result.notes)])
    )


def why_no_rows(analysis: str, trace: Trace, window: tuple[int, int] | None) -> str:
    """Message about what an empty table would need."""
    if window is not None and analysis != "search":
        return f"nothing in the {window_length_text(window)} window; Esc clears it"
    if analysis in EMPTY_REASONS and (why := memory_only_note(analysis, [part.format for part in trace.parts])):
        return note_text(why)
    works = bool(trace.lanes["work"].any())
    told = EMPTY_REASONS.get(analysis, "nothing to show")
    if told == NO_DEVICE and not works and (reason := unrecorded(part.facts for part in trace.parts)):
        return f"no device activity in this trace: {note_text(reason)}"
    if analysis == "gaps" and works:
        return "no gaps: the devices work from the first event to the last"
    return told


MIN_NAME_CELLS = 20
"""Cells that a name keeps, if it needs them, while what is said after it could make way."""


MAIN_PARTS = 2
"""How many parts behind a name are what people ask for first: how long an event took, and when."""


def fit_name_and_parts(parts: Sequence[str], width: int, dot: str) -> str:
    """A name and what is known of it, in `width` cells: the last parts make way first, then the name is cut.

    A kernel gives up its template and its arguments before the first `ASKED` parts behind its name make way.
    """
    name, *rest = parts
    for many in range(len(rest), min(MAIN_PARTS, len(rest)) - 1, -1):
        if cell_len(name) + _parts_width(rest[:many], dot) <= width:
            return f" {dot} ".join([name, *rest[:many]])
    least = min(cell_len(name), cell_len(short_names.shorten_kernel_name(name)), MIN_NAME_CELLS)
    while rest and least + _parts_width(rest, dot) > width:
        rest.pop()
    return f" {dot} ".join([shorten_name(name, max(0, width - _parts_width(rest, dot))), *rest])


def _parts_width(parts: Sequence[str], dot: str) -> int:
    """Cells that parts take behind a name."""
    return sum(cell_len(part) + len(dot) + 2 for part in parts)


def fit_parts(parts: list[str], width: int, dot: str) -> str:
    """As many of the parts as fit, the first ones first, between dots."""
    text = ""
    for part in parts:
        longer = f"{text} {dot} {part}" if text else part
        if text and len(longer) > width:
            break
        text = longer
    return text


def step_text(step: ComparedStep) -> str:
    """``step 12, 66.95 ms``."""
    return f"step {step.number}, {format_duration(step.length)}"


def pair_text(baseline: ComparedStep | None, candidate: ComparedStep | None, ranks: int) -> str:
    """``step 6: -48.97 ms (-27.96 %)``: which steps lie one under the other, and how much longer the candidate's is.

    Of several `ranks` it says whose they are: the tables have the average of all.
    """
    if baseline is None or candidate is None:
        return ""
    before, after = baseline.length, candidate.length
    relative = f" ({format_growth((after - before) / before)})" if before else ""
    which = (
        f"step {baseline.number}"
        if baseline.number == candidate.number
        else f"steps {baseline.number} and {candidate.number}"
    )
    whose = " against ".join(dict.fromkeys(f"rank {step.rank}" for step in (baseline, candidate)))
    return f"{which}{f' of {whose}' * (ranks > 1)}: {format_time_difference(after - before)}{relative}"


def slots_text(slots: AlignedSteps | None) -> str:
    """``900 the same, 17 slower, 27 faster, 515 added, 30 removed``: how many ops are what."""
    if slots is None:
        return ""
    return (
        ", ".join(f"{count:,} {kind}" for count, kind in zip(slots.counts, SLOT_KINDS, strict=True) if count)
        or "no ops"
    )
