"""A trace -> a document of Chrome trace events, which Perfetto and chrome://tracing open.

Owns which way it takes there: through its own JSON, or out of the model; and the gzip around it.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Final, cast

import polars as pl
from isal import igzip
from msgspec.structs import replace

from tracehound.analysis import named, run
from tracehound.analysis.limits import UNLIMITED, limits, within
from tracehound.errors import TracehoundError
from tracehound.export.apart import parts_of
from tracehound.export.copied import copied
from tracehound.export.document import Document, us
from tracehound.export.model import modelled
from tracehound.export.narrow import shift
from tracehound.export.reach import reach
from tracehound.export.written import Tell, Written
from tracehound.formats.exported import SEVERED, STEP, WINDOW
from tracehound.formats.kineto.facts import APART
from tracehound.formats.severed import severed
from tracehound.notes import Note, note
from tracehound.trace import Trace, Window

LEVEL: Final = 2
"""Of igzip's levels 0 to 3: as small as gzip's own first ones, at several times their speed."""

_OF_RANKS: Final = "kineto"
_JSON: Final = (_OF_RANKS, "chrome")


def plain(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write it. Raises TracehoundError where the files are not of one kind, or cannot be read again."""
    parts = [trace.parts[number] for number in parts_of(trace, window)]
    formats, notes = [part.format for part in parts], [note for part in parts for note in part.notes]
    if _OF_RANKS in formats and len(set(formats)) > 1:
        remedy = "export each alone, or all of them to a folder"
        raise TracehoundError("PyTorch and XLA traces do not fit one document", remedy=remedy)
    apart = _clocks(trace, window) if len(formats) > 1 else None
    as_it_is = set(formats) == {_OF_RANKS} or (len(formats) == 1 and formats[0] in _JSON)
    step = {} if _OF_RANKS in formats else _step(trace, window)
    known = {
        **({APART: dict(apart.values)} if apart else {}),
        **({SEVERED: True} if severed(notes) else {}),
        **step,
        **_window(trace, window, own_clock=as_it_is),
    }
    document = Document(file, known)
    written = (copied if as_it_is else modelled)(trace, window, document, tell)
    told = note("clocks_written_as_recorded", clocks=apart)
    return replace(written, notes=(*written.notes, told)) if apart else written


def _window(trace: Trace, window: Window, *, own_clock: bool) -> dict[str, Any]:
    """What is said of the window, where it limits time, and of that which a file is an export of.

    One of steps lasts until the work that they launched has ended, too.
    """
    numbers = list(parts_of(trace, window))
    end = window.end
    if window.steps is not None and end is not None:
        end = max((reached for _, reached in reach(trace, window).values()), default=end)
    found = within((window.start, end), *(limits(trace, number) for number in numbers))
    if found == UNLIMITED:
        return {}
    moved = shift(trace, numbers[0]) if own_clock and len(numbers) == 1 else 0
    return {WINDOW: [None if time is None else us(time + moved) for time in found]}


def _step(trace: Trace, window: Window) -> dict[str, Any]:
    """The module whose executions are the steps of these ranks, where nothing marks them and it is one."""
    ranks = trace.ranks["rank"].to_list() if window.ranks is None else window.ranks
    steps = trace.steps.filter(pl.col("rank").is_null() | pl.col("rank").is_in(ranks))
    names = steps["name"].unique().to_list()
    return {STEP: names[0]} if len(names) == 1 and steps["inferred"].all() else {}


def _clocks(trace: Trace, window: Window) -> Note | None:
    """A note that the clocks of ranks are apart, as their collectives tell: one file has one clock."""
    apart = run(named("clocks"), trace, Window(ranks=window.ranks)).table.filter("applied")
    if apart.is_empty():
        return None
    most = int(apart["shift"].abs().max())  # type: ignore[arg-type]  # it is not empty
    return note("clocks_apart", ranks=apart.height, most=most)


def packed(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write it through gzip; the same trace gives the same bytes."""
    gzip = igzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=LEVEL, mtime=0)  # type: ignore[no-untyped-call]  # isal declares no types here
    with gzip:
        return plain(trace, window, cast("BinaryIO", gzip), tell)
