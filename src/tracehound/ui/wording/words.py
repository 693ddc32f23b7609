"""What the explorer says in words: the header, the captions, and what stands where there is nothing.

Owns sentences, made of plain values. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich.cells import cell_len

from tracehound import units
from tracehound.analysis.devices.silence import why as unrecorded
from tracehound.analysis.result import SETTING, Result
from tracehound.analysis.topics import of_memory_alone
from tracehound.draw.apart import fitted
from tracehound.draw.notes import note_text, note_texts
from tracehound.errors import printable
from tracehound.notes import Note
from tracehound.progress import said
from tracehound.store import Reading
from tracehound.store.found import Found
from tracehound.trace import Trace

TITLES = {
    "kineto": "PyTorch",
    "xplane": "XLA",
    "chrome": "XLA (Chrome form)",
    "memory_timeline": "PyTorch memory timeline",
}
"""What the formats are called in a header."""


def about(trace: Trace, ranks: Sequence[int] | None = None) -> list[str]:
    """What is open, the most telling first: whether anything is lost, devices and ranks, span, formats.

    `ranks` are those that are shown; None stands for all.
    """
    start, end = trace.span
    lost = ["incomplete: see health"] if any(note.level == "dropped" for note in trace.notes) else []
    formats = dict.fromkeys(TITLES.get(part.format, part.format) for part in trace.parts)
    return [*lost, *_devices(trace, ranks), *([units.duration(end - start)] if end > start else []), *formats]


def _devices(trace: Trace, shown: Sequence[int] | None) -> list[str]:
    ranks = trace.ranks
    if ranks.is_empty():
        return []
    every = ranks.height
    ranks = ranks if shown is None else ranks.filter(pl.col("rank").is_in(shown))
    models = ranks["model"].drop_nulls().unique(maintain_order=True).to_list() or _label(ranks)
    model = f"{len(models)} models" if len(models) > 1 else "".join(models)
    number = f"{ranks.height:,} of {units.plural(every, 'rank')}" if shown is not None else units.plural(every, "rank")
    inferred = " (inferred)" if ranks["inferred"].any() and every > 1 else ""
    return [f"{number}{inferred}", model] if model else [f"{number}{inferred}"]


def _label(ranks: pl.DataFrame) -> list[str]:
    """What all of these ranks are called, where that is one name."""
    labels: list[str] = ranks["label"].drop_nulls().unique().to_list()
    return labels if len(labels) == 1 else []


def progress(reading: Reading | None, dot: str) -> str:
    """``3 of 32 files · 1.2 M events/s · 12 s left``, and how to stop it."""
    known = said(reading)[1:] if reading is not None else ()
    return f" {dot} ".join([*filter(None, known), "Esc stops reading"])


def many_events(number: int) -> str:
    """``1.2 M events``; empty for none."""
    return units.plural(number, "event") if number else ""


def shares(reading: Reading, files: Sequence[Found]) -> dict[str, str]:
    """``reading 47 %`` of every file that is being read, by its path."""
    sizes = {file.path: max(1, file.size) for file in files}
    known = ((path, read) for path, (read, _) in reading.running.items() if path in sizes)
    return {str(path): f"reading {min(100, 100 * read // sizes[path])} %" for path, read in known}


def stopped(read: int, files: int) -> str:
    """What is said when the user stops the reading."""
    return f"stopped: {read:,} of {files:,} file{'' if files == 1 else 's'} read"


def selected(window: tuple[int, int]) -> str:
    """``window 72.3 ms at 1.204 s``."""
    return f"window {length(window)} at {units.instant(window[0])}"


def length(window: tuple[int, int]) -> str:
    """How long a window is."""
    return units.duration(window[1] - window[0])


def scope(window: tuple[int, int] | None) -> str:
    """What a table is about: ``whole run`` or ``in the 72.3 ms window``."""
    return "whole run" if window is None else f"in the {length(window)} window at {units.instant(window[0])}"


NOT_NARROWED = "not narrowed"
"""Said in place of ``whole run`` of a table that a selected window leaves as it is."""


def caption(result: Result, about: str, shown: int, filter_: str) -> list[str]:
    """The parts of the line above a table before its notes: what it is `about`, and how many rows a filter leaves."""
    rows = f"{shown:,} of {result.table.height:,} rows with {filter_}" if filter_ else result.cut
    if not rows and result.total > 1:
        rows = f"{result.total:,} rows"
    return [result.title, about, *([rows] if rows else [])]


def besides(notes: Sequence[Note], so_far: str) -> tuple[Note, ...]:
    """The notes of a result, but those of settings that `so_far` names already."""
    return tuple(
        note for note in notes if note.code != SETTING or "{name}={value}".format(**dict(note.values)) not in so_far
    )


def matches(place: str, names: int, dot: str) -> str:
    """``17 of 2,304 · 3 names``."""
    return f"{place} {dot} {names:,} name{'' if names == 1 else 's'}"


NO_DEVICE = (
    "no device activity in this trace: torch.profiler records it with ProfilerActivity.CUDA, JAX on a GPU or TPU"
)

NOTHING = {
    "ops": NO_DEVICE,
    "gaps": NO_DEVICE,
    "breakdown": NO_DEVICE,
    "collectives": "no collectives: one device, or communication was not recorded on its lanes",
    "search": "no event of the trace has such a name",
    "prompt": "type a part of a name, or ~ and a regular expression",
}
"""What would have to be recorded for a table to have rows, where its own notes do not say."""


UNREAD = "nothing read yet"
NO_WALK = "n and N go through what was found, or an op: / searches, Enter selects an event"
NO_CHOICE = "nothing to zoom to: Enter selects the event at the focus, v begins a range"
NO_OTHER_PLACE = "this row is of a whole rank, which is in sight"
LONGEST_STRETCH = "the longest stretch without an event; by=event lists all"
NO_EVENTS = "this row has no events to go through: nothing was recorded there"
NO_LANE = "no lane under the cursor: j and k go to one"
NO_EVENT = "no event selected: Enter selects the one at the focus"


def all_rows(rows: int) -> str:
    """Why a lane of so many rows cannot be shown with more."""
    return "this lane has one row" if rows == 1 else f"all {rows:,} rows of this lane are shown"


def no_match(needle: str) -> str:
    """Where n and N go after a search that found nothing."""
    return f"nothing to go to: no event is named {needle}"


def of_other_steps(share: float) -> str:
    """That this part of what the device does in the selected step was launched in other steps."""
    return f"{units.share(share)} of the device's work here is of other steps: the host runs ahead"


def step_selected(step: int | None, window: tuple[int, int], mark: tuple[int, int] | None, until: str) -> str:
    """Which stretch of a step a row of a table selects: what its numbers are of, and what its mark is where it differs.

    `until` says how far it goes where that is not its mark, which is None for a step inferred from no single event.
    """
    what = f"step {step}" if step is not None else "the step"
    if window == mark:
        return f"{what}, as it is marked"
    marked = f"; its mark: {length(mark)} at {units.instant(mark[0])}" if mark is not None else ""
    return f"{what} {until}{marked}"


def unseen(lane: str, key: str) -> str:
    """Of a selected event of which nothing is seen: its lane was hidden, or filtered out, or is of another rank."""
    return f"its lane {printable(lane)} is not shown{f': {key} in the timeline shows all lanes' if key else ''}"


NOTHING_HERE = "nothing here; . goes to the next event"


def no_gap(trace: Trace, least: int, direction: int) -> str:
    """Why there is no next gap (1) or gap before (-1) of so many ps."""
    if not trace.lanes["work"].any():
        return "no gaps: no device activity in this trace"
    which = "next gap" if direction > 0 else "gap before"
    return f"no {which} of {units.duration(least)} or more here: zoom in for shorter ones"


NO_STREAMS = "no lane of a device, whose streams could stand together"


def empty(result: Result, trace: Trace, window: tuple[int, int] | None) -> str:
    """Why a result has no rows: what its notes say, after what would fill it."""
    known = window is not None or result.analysis in NOTHING or not result.notes
    return "\n".join(
        dict.fromkeys([*([nothing(result.analysis, trace, window)] if known else []), *note_texts(result.notes)])
    )


def nothing(analysis: str, trace: Trace, window: tuple[int, int] | None) -> str:
    """What would fill a table that is empty."""
    if window is not None and analysis != "search":
        return f"nothing in the {length(window)} window; Esc clears it"
    if analysis in NOTHING and (why := of_memory_alone(analysis, [part.format for part in trace.parts])):
        return note_text(why)
    works = bool(trace.lanes["work"].any())
    told = NOTHING.get(analysis, "nothing to show")
    if told == NO_DEVICE and not works and (reason := unrecorded(part.facts for part in trace.parts)):
        return f"no device activity in this trace: {note_text(reason)}"
    if analysis == "gaps" and works:
        return "no gaps: the devices work from the first event to the last"
    return told


NAMED = 20
"""Cells that a name keeps, if it needs them, while what is said after it could make way."""


ASKED = 2
"""How many parts behind a name are what people ask for first: how long an event took, and when."""


def named(parts: Sequence[str], width: int, dot: str) -> str:
    """A name and what is known of it, in `width` cells: the last parts make way first, then the name is cut.

    A kernel gives up its template and its arguments before the first `ASKED` parts behind its name make way.
    """
    name, *rest = parts
    for many in range(len(rest), min(ASKED, len(rest)) - 1, -1):
        if cell_len(name) + _after(rest[:many], dot) <= width:
            return f" {dot} ".join([name, *rest[:many]])
    least = min(cell_len(name), cell_len(units.short_name(name)), NAMED)
    while rest and least + _after(rest, dot) > width:
        rest.pop()
    return f" {dot} ".join([fitted(name, max(0, width - _after(rest, dot))), *rest])


def _after(parts: Sequence[str], dot: str) -> int:
    """Cells that parts take behind a name."""
    return sum(cell_len(part) + len(dot) + 2 for part in parts)


def joined(parts: list[str], width: int, dot: str) -> str:
    """As many of the parts as fit, the first ones first, between dots."""
    text = ""
    for part in parts:
        longer = f"{text} {dot} {part}" if text else part
        if text and len(longer) > width:
            break
        text = longer
    return text
