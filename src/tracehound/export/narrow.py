"""Which elements of a file a window wants.

Owns the choice: events of the trace by their record, everything else by its own time. Edits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.share import overlapping
from tracehound.analysis.spans.windows import Span
from tracehound.export.reach import reach
from tracehound.formats.inflate import changed
from tracehound.formats.json.document import element_at
from tracehound.formats.json.elements import Texts
from tracehound.formats.json.mend import parsed
from tracehound.formats.json.text import REFUSALS, STRICT
from tracehound.ids import in_part
from tracehound.store.head import unsealed
from tracehound.trace import Part, Trace, Window, collected
from tracehound.units import PS_PER_US

_UNSEEN, _SEEN, _CHOSEN = range(3)
_METADATA: Final = "M"
_MOST: Final = 2**63
"""Microseconds of which no time has more."""


class _Timed(msgspec.Struct, gc=False):
    ph: Any = None
    ts: Any = None
    dur: Any = None


_TIMED: Final = msgspec.json.Decoder(_Timed, float_hook=Decimal).decode


def places(part: Part) -> npt.NDArray[np.int64]:
    """Where the elements of a part's file lie; see `json.document.Document`."""
    found: npt.NDArray[np.int64] = unsealed(part, np.ndarray).places
    return found


def shift(trace: Trace, number: int) -> int:
    """What is added to a time of the trace for that of a part's file, ps: told by the first event in the file.

    0 for a file without events. Raises TracehoundError where the file has changed since it was read.
    """
    first = pl.col("record").arg_min()
    rows = collected(trace.frames[number].select(pl.col("record", "start").get(first)))
    if rows.is_empty() or rows["record"][0] is None:
        return 0
    part = trace.parts[number]
    text = element_at(part.path, places(part), int(rows["record"][0]), state=part.state)
    return time_of(text, part) - int(rows["start"][0])


def time_of(text: bytes, part: Part) -> int:
    """The start of an element of a part's file, ps; exact. Raises TracehoundError where it is not what it was."""
    try:
        value = STRICT(text)
    except REFUSALS:
        value = parsed(text).value
    try:
        return ps(value["ts"])
    except (KeyError, TypeError, ArithmeticError) as error:
        raise changed(part.path) from error


def ps(us: object) -> int:
    """Microseconds, as a file spells them, in ps; exact. Raises ArithmeticError for what is no number."""
    time = Decimal(str(us))
    if abs(time) >= _MOST:  # a whole number of what a few characters say (1e999999999) would fill the memory
        raise OverflowError(str(us))
    return int(time * PS_PER_US)


def _bounds(window: Window, spans: Sequence[Span]) -> tuple[int | None, int | None]:
    """Start and end of the window on the lanes of a file, each of which has a span; None without a limit."""
    if window.steps is None or not spans:
        return window.start, window.end
    return min(start for start, _ in spans), max(end for _, end in spans)


class Choice:
    """The elements of one part's file that a window wants; asked in the order of the file.

    An event of the trace is wanted when it lies on a lane of the window's ranks and overlaps the window; what is none
    (flow events, counters, the profiler's own rows) when its own time does; metadata always. A byte for each element.
    """

    def __init__(self, trace: Trace, number: int, window: Window, moved: int) -> None:
        part = trace.parts[number]
        self._states = np.zeros(int(places(part)[-1:, [2, 3]].sum()), np.uint8)
        wanted = reach(trace, window, number)
        low, high = _bounds(window, list(wanted.values()))
        self._low = None if low is None else low + moved
        self._high = None if high is None else high + moved
        for lane in trace.lanes.filter(in_part("lane", number))["lane"].to_list():
            events = trace.lane(lane, "start", "end", "record").drop_nulls("record")
            self._mark(events, _SEEN)
            if lane in wanted:
                self._mark(collected(overlapping(events.lazy(), *wanted[lane])), _CHOSEN)

    def of(self, texts: Texts, first: int) -> Sequence[int]:
        """The positions of those that are wanted among successive elements, of which the first has that ordinal."""
        states = self._states[first : first + len(texts)]
        states = np.append(states, np.zeros(len(texts) - len(states), np.uint8))
        keep = states == _CHOSEN
        for position in np.flatnonzero(states == _UNSEEN).tolist():
            keep[position] = self._overlaps(texts[position])
        return np.flatnonzero(keep).tolist()

    def _mark(self, events: pl.DataFrame, state: int) -> None:
        records = events["record"].to_numpy()
        self._states[records] = np.maximum(self._states[records], state)

    def _overlaps(self, text: msgspec.Raw) -> bool:
        if self._low is None and self._high is None:
            return True
        try:
            found = _TIMED(text)
            if found.ts is None or found.ph == _METADATA:
                return True
            start = ps(found.ts)
            end = start + max(0, ps(found.dur or 0))
        except (msgspec.MsgspecError, ArithmeticError):
            return False
        return (self._high is None or start <= self._high) and (self._low is None or end >= self._low)
