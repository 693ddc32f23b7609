"""The critical path, marked in the timeline: worked out in the background, and walked from event to event.

Owns whose path is marked. What a path is, is for the analysis; how it looks, for `draw.path`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
from msgspec.structs import replace
from textual.message import Message

from tracehound.analysis import Options, Result, named, run
from tracehound.analysis.critical_path import BY
from tracehound.analysis.settings import Given
from tracehound.analysis.topics import lacking
from tracehound.draw.notes import note_text, note_texts
from tracehound.draw.path import Path
from tracehound.preferences import preferred
from tracehound.trace import Trace, Window
from tracehound.ui.actions import choosing
from tracehound.ui.background.threads import Background
from tracehound.ui.state import navigate
from tracehound.ui.state.follow import Row
from tracehound.ui.state.walk import Walk
from tracehound.ui.wording.words import LONGEST_STRETCH
from tracehound.units import plural

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

NAME: Final = "critical_path"

LEGIBLE: Final = 6
"""A path that takes less than one part in so many of what is shown is zoomed to."""


class Aim(NamedTuple):
    """Where a walk on a path begins, and what it goes through: all events of a class and a name (None: of any).

    Of a class without an event to begin with it begins where that is on the path for longest.
    """

    event: int | None = None
    class_: str | None = None
    name: str | None = None


def aim_of(row: Row, event: int | None) -> Aim:
    """What a row of the table of the path leads to: from one of its stretches to all, from sums to what they are of."""
    return Aim(event) if row["start"] is not None else Aim(event, row["class"], row["name"])


class Trail:
    """The path of one rank, in the timeline of a screen."""

    @dataclass
    class Found(Message):
        """The path of a window is known, or the one line that says why there is none; `aim` is where to go on it."""

        result: Result | None
        aim: Aim
        failure: str = ""

    def __init__(self, screen: Explorer, background: Background) -> None:
        self._screen = screen
        self._background = background

    def switch(self) -> None:
        """Mark the path of the rank under the cursor, in the window or the longest step; or no path."""
        screen = self._screen
        if screen.timeline.path is not None:
            self.end()
        elif screen.trace is not None:
            self.begin(screen.trace, navigate.rank_of(screen.trace, screen.view), screen.view.window, Aim())

    def end(self) -> None:
        """Mark nothing."""
        self._screen.timeline.mark_path(None)
        self._screen.walk = None
        self._screen.key_bar.say("the critical path is not marked any more")

    def begin(self, trace: Trace, rank: int | None, window: Window, aim: Aim) -> None:
        """Have the path of a rank in a window marked, and the walk on it begun."""
        screen, why = self._screen, lacking(NAME, trace)
        if why or screen.reading.busy:
            screen.key_bar.say(f"no critical path: {note_text(why) if why else 'the trace is still being read'}")
            return
        window = replace(window, ranks=None if rank is None else (rank,))
        given = tuple((name, value) for name, value in screen.results.given(NAME) if name != BY.name)
        screen.key_bar.say("critical path: working it out")
        self._background.submit(
            "critical path",
            lambda: self._work(trace, window, (*given, (BY.name, "event")), aim),
            lambda why: screen.post_message(self.Found(None, aim, why)),
        )

    def _work(self, trace: Trace, window: Window, given: Given, aim: Aim) -> None:
        analysis = named(NAME)
        result = run(analysis, trace, window, Options(None, preferred(analysis, choosing.words(given))))
        self._screen.post_message(self.Found(result, aim))

    def show(self, found: Found) -> None:
        """Mark it, bring it into sight, and walk on it from now on."""
        screen, result = self._screen, found.result
        path = None if result is None else path_of(result)
        if screen.trace is None or result is None or path is None:
            why = found.failure if result is None else next(iter(note_texts(result.notes)), "nothing is on it")
            screen.key_bar.say(why)
            return
        screen.timeline.mark_path(path)
        walk = walk_of(result, found.aim)
        screen.walk = (walk if found.aim.event is None else walk.at(found.aim.event)) if len(walk) else None
        summed = found.aim.class_ is not None
        low, high = _longest(result, found.aim) if summed else path.span
        view = screen.view
        inside = min(high, view.end) - max(low, view.start)
        if found.aim.event is None and (summed or inside * LEGIBLE < view.end - view.start):
            screen.travels.jump(navigate.frame(screen.trace, view, low, high))
        through = f"n and N go through {plural(len(walk), 'event')} of {walk.what}" if len(walk) else LONGEST_STRETCH
        screen.key_bar.say(
            f"critical path: {next(iter(note_texts(result.notes)), '') if found.aim.class_ is None else through}"
        )


def path_of(result: Result) -> Path | None:
    """The stretches of a result that are parts of events; None when there are none."""
    rows = _of_events(result)
    if rows.is_empty():
        return None
    start = rows["start"].to_numpy()
    return Path(rows["event"].to_numpy(), start, start + rows["duration"].to_numpy())


def walk_of(result: Result, aim: Aim) -> Walk:
    """The events of a path, or of a class and name on it, each where it is first on it."""
    rows = _of_events(result).filter(**_meant(aim))
    each = rows.unique("event", keep="first", maintain_order=True)
    what = aim.name or aim.class_ or "critical path events"
    return Walk(what, each["event"].to_numpy(), each["start"].to_numpy())


def _longest(result: Result, aim: Aim) -> tuple[int, int]:
    """Start and end of the longest stretch of a path that is meant."""
    start, length = result.table.filter(**_meant(aim)).sort("duration").select("start", "duration").row(-1)
    return start, start + length


def _meant(aim: Aim) -> dict[str, str]:
    """What the rows of a path have in their columns that are of a class and name."""
    wanted = {"class": aim.class_, "name": aim.name}
    return {column: value for column, value in wanted.items() if value is not None}


def _of_events(result: Result) -> pl.DataFrame:
    """The rows of a path that are stretches of events, in the order of time."""
    return result.table.filter(pl.col("event").is_not_null() & pl.col("start").is_not_null()).sort("start")
