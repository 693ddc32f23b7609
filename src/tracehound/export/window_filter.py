"""The part of a trace inside a window: the interval of each lane, and the elements of a file.

A window of steps lasts on a device until the work that they launched has ended. Events of the trace are chosen by their
record, everything else by its own time. Edits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.rank_trace import overlapping_events
from tracehound.analysis.window_bounds import Interval, lane_windows
from tracehound.formats.inflate import file_changed_error
from tracehound.formats.json.array_repair import parse_leniently
from tracehound.formats.json.json_document import ElementTexts, read_element_text
from tracehound.formats.json.lenient_json import DECODE_ERRORS, decode_strictly
from tracehound.model.ids import file_index_of, is_in_file
from tracehound.model.trace import FileFrames, Trace, Window, collect_frame
from tracehound.model.units import PS_PER_US
from tracehound.store.saved_frames import decode_places


def export_windows(trace: Trace, window: Window, part: int | None = None) -> dict[int, Interval]:
    """The window on each lane of its ranks and of the hosts that drive them, ps: of all parts, or of this one.

    A window of steps lasts on the lanes of a device until the work of these steps has ended there.
    """
    spans = {
        lane: span for lane, span in lane_windows(trace, window).items() if part is None or file_index_of(lane) == part
    }
    if window.steps is None:
        return spans
    work = trace.lanes.filter(pl.col("rank").is_not_null() & pl.col("lane").is_in(list(spans)))
    events = trace.events(work["lane"].to_list()).filter(pl.col("step").is_in(list(window.steps)))
    ends = collect_frame(events.group_by("rank").agg(pl.col("end").max()))
    last = dict(ends.iter_rows())
    of_rank = dict(work.select("lane", "rank").iter_rows())
    return {lane: (start, max(end, last.get(of_rank.get(lane), end))) for lane, (start, end) in spans.items()}


_NOT_AN_EVENT, _OUTSIDE_WINDOW, _IN_WINDOW = range(3)
_METADATA_EVENT: Final = "M"
_MAX_MICROSECONDS: Final = 2**63
"""No time has so many microseconds."""


class _ElementTimes(msgspec.Struct, gc=False):
    """Phase, start and duration of an element."""

    ph: Any = None
    ts: Any = None
    dur: Any = None


_DECODE_TIMES: Final = msgspec.json.Decoder(_ElementTimes, float_hook=Decimal).decode


def element_positions(part: FileFrames) -> npt.NDArray[np.int64]:
    """Positions of the elements of a part's file; see `JsonDocument`."""
    found: npt.NDArray[np.int64] = decode_places(part, np.ndarray).places
    return found


def file_time_shift(trace: Trace, number: int) -> int:
    """The difference between a time in a part's file and in the trace, ps, from the first event in the file.

    0 for a file without events. Raises TracehoundError where the file has changed since it was read.
    """
    first = pl.col("record").arg_min()
    rows = collect_frame(trace.frames[number].select(pl.col("record", "start").get(first)))
    if rows.is_empty() or rows["record"][0] is None:
        return 0
    part = trace.parts[number]
    text = read_element_text(part.path, element_positions(part), int(rows["record"][0]), state=part.state)
    return element_start(text, part) - int(rows["start"][0])


def element_start(text: bytes, part: FileFrames) -> int:
    """The start of an element of a part's file, ps; exact. Raises TracehoundError where the file has changed."""
    try:
        value = decode_strictly(text)
    except DECODE_ERRORS:
        value = parse_leniently(text).value
    try:
        return parse_ps(value["ts"])
    except (KeyError, TypeError, ArithmeticError) as error:
        raise file_changed_error(part.path) from error


def parse_ps(us: object) -> int:
    """Microseconds, as a file spells them, in ps; exact. Raises ArithmeticError for what is no number."""
    time = Decimal(str(us))
    if (
        abs(time) >= _MAX_MICROSECONDS
    ):  # a whole number of what a few characters say (1e999999999) would fill the memory
        raise OverflowError(str(us))
    return int(time * PS_PER_US)


def _file_window(window: Window, spans: Sequence[Interval]) -> tuple[int | None, int | None]:
    """Start and end of the window on the lanes of a file, each of which has a span; None without a limit."""
    if window.steps is None or not spans:
        return window.start, window.end
    return min(start for start, _ in spans), max(end for _, end in spans)


class WindowFilter:
    """The elements of one part's file that are inside a window; called in the order of the file.

    An event of the trace is wanted when it is on a lane of the window's ranks and overlaps the window; other elements
    (flow events, counters, the profiler's own rows) when their own time does; metadata always. Takes a byte for each
    element.
    """

    def __init__(self, trace: Trace, number: int, window: Window, moved: int) -> None:
        part = trace.parts[number]
        self._states = np.zeros(int(element_positions(part)[-1:, [2, 3]].sum()), np.uint8)
        wanted = export_windows(trace, window, number)
        low, high = _file_window(window, list(wanted.values()))
        self._low = None if low is None else low + moved
        self._high = None if high is None else high + moved
        for lane in trace.lanes.filter(is_in_file("lane", number))["lane"].to_list():
            events = trace.lane(lane, "start", "end", "record").drop_nulls("record")
            self._mark_events(events, _OUTSIDE_WINDOW)
            if lane in wanted:
                self._mark_events(collect_frame(overlapping_events(events.lazy(), *wanted[lane])), _IN_WINDOW)

    def wanted_positions(self, texts: ElementTexts, first: int) -> Sequence[int]:
        """The positions of the wanted ones among successive elements, of which the first has that ordinal."""
        states = self._states[first : first + len(texts)]
        states = np.append(states, np.zeros(len(texts) - len(states), np.uint8))
        keep = states == _IN_WINDOW
        for position in np.flatnonzero(states == _NOT_AN_EVENT).tolist():
            keep[position] = self._overlaps(texts[position])
        return np.flatnonzero(keep).tolist()

    def _mark_events(self, events: pl.DataFrame, state: int) -> None:
        """Raise the state of these events."""
        records = events["record"].to_numpy()
        self._states[records] = np.maximum(self._states[records], state)

    def _overlaps(self, text: msgspec.Raw) -> bool:
        """True where an element's own time overlaps the window."""
        if self._low is None and self._high is None:
            return True
        try:
            found = _DECODE_TIMES(text)
            if found.ts is None or found.ph == _METADATA_EVENT:
                return True
            start = parse_ps(found.ts)
            end = start + max(0, parse_ps(found.dur or 0))
        except (msgspec.MsgspecError, ArithmeticError):
            return False
        return (self._high is None or start <= self._high) and (self._low is None or end >= self._low)
