"""The critical path, marked in the timeline: worked out in the background, and walked from event to event.

Owns whose path is marked. What a path is, is for the analysis; how it looks, for `draw.path`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
from msgspec.structs import replace
from textual.message import Message

from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.critical_path import BY_SETTING
from tracehound.analysis.topics import unavailable_note
from tracehound.config import configured_settings
from tracehound.draw.lane_cells import CriticalPathIntervals
from tracehound.draw.notes import note_text, note_texts
from tracehound.model.trace import Trace, Window
from tracehound.model.units import count_noun
from tracehound.ui.actions import pane_settings
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.state import view_moves
from tracehound.ui.state.event_walk import EventWalk
from tracehound.ui.state.row_target import ResultRow
from tracehound.ui.wording.messages import LONGEST_INTERVAL

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

ANALYSIS_NAME: Final = "critical_path"

LEGIBLE_SHARE: Final = 6
"""A path that takes less than one part in so many of what is shown is zoomed to."""


class PathTarget(NamedTuple):
    """Target of a walk on a path: its first event, and all events of a class and a name (None: any).

    Without a first event, the walk begins at the longest event of that class.
    """

    event: int | None = None
    class_: str | None = None
    name: str | None = None


def target_of_row(row: ResultRow, event: int | None) -> PathTarget:
    """Target of a row of the critical path table: an interval leads to all events, a sum to the events in it."""
    return PathTarget(event) if row["start"] is not None else PathTarget(event, row["class"], row["name"])


class CriticalPathOverlay:
    """The path of one rank, in the timeline of a screen."""

    @dataclass
    class Found(Message):
        """The path of a window is known, or the one line that says why there is none; `aim` is where to go on it."""

        result: Result | None
        aim: PathTarget
        failure: str = ""

    def __init__(self, screen: ExplorerScreen, background: BackgroundThread) -> None:
        self._screen = screen
        self._background = background

    def switch(self) -> None:
        """Mark the path of the rank under the cursor, in the window or the longest step; or no path."""
        screen = self._screen
        if screen.timeline.path is not None:
            self.end()
        elif screen.trace is not None:
            self.begin(
                screen.trace, view_moves.rank_of_view(screen.trace, screen.view), screen.view.window, PathTarget()
            )

    def end(self) -> None:
        """Mark nothing."""
        self._screen.timeline.highlight_path(None)
        self._screen.walk = None
        self._screen.key_bar.say("the critical path is not marked any more")

    def begin(self, trace: Trace, rank: int | None, window: Window, aim: PathTarget) -> None:
        """Have the path of a rank in a window marked, and the walk on it begun."""
        screen, why = self._screen, unavailable_note(ANALYSIS_NAME, trace)
        if why or screen.reading.busy:
            screen.key_bar.say(f"no critical path: {note_text(why) if why else 'the trace is still being read'}")
            return
        window = replace(window, ranks=None if rank is None else (rank,))
        given = tuple(
            (name, value) for name, value in screen.results.chosen_settings(ANALYSIS_NAME) if name != BY_SETTING.name
        )
        screen.key_bar.say("critical path: working it out")
        self._background.submit(
            "critical path",
            lambda: self._work(trace, window, (*given, (BY_SETTING.name, "event")), aim),
            lambda why: screen.post_message(self.Found(None, aim, why)),
        )

    def _work(self, trace: Trace, window: Window, given: ChosenSettings, aim: PathTarget) -> None:
        analysis = get_analysis(ANALYSIS_NAME)
        result = run_analysis(
            analysis,
            trace,
            window,
            Options(None, configured_settings(analysis, pane_settings.settings_as_options(given))),
        )
        self._screen.post_message(self.Found(result, aim))

    def show(self, found: Found) -> None:
        """Mark it, bring it into sight, and walk on it from now on."""
        screen, result = self._screen, found.result
        path = None if result is None else path_intervals(result)
        if screen.trace is None or result is None or path is None:
            why = found.failure if result is None else next(iter(note_texts(result.notes)), "nothing is on it")
            screen.key_bar.say(why)
            return
        screen.timeline.highlight_path(path)
        walk = walk_path_events(result, found.aim)
        screen.walk = (walk if found.aim.event is None else walk.at(found.aim.event)) if len(walk) else None
        summed = found.aim.class_ is not None
        low, high = _longest_interval(result, found.aim) if summed else path.span
        view = screen.view
        inside = min(high, view.end) - max(low, view.start)
        if found.aim.event is None and (summed or inside * LEGIBLE_SHARE < view.end - view.start):
            screen.navigation.jump(view_moves.frame_interval(screen.trace, view, low, high))
        through = (
            f"n and N go through {count_noun(len(walk), 'event')} of {walk.what}" if len(walk) else LONGEST_INTERVAL
        )
        screen.key_bar.say(
            f"critical path: {next(iter(note_texts(result.notes)), '') if found.aim.class_ is None else through}"
        )


def path_intervals(result: Result) -> CriticalPathIntervals | None:
    """The stretches of a result that are parts of events; None when there are none."""
    rows = _event_rows(result)
    if rows.is_empty():
        return None
    start = rows["start"].to_numpy()
    return CriticalPathIntervals(rows["event"].to_numpy(), start, start + rows["duration"].to_numpy())


def walk_path_events(result: Result, aim: PathTarget) -> EventWalk:
    """The events of a path, or of a class and name on it, each where it is first on it."""
    rows = _event_rows(result).filter(**_target_columns(aim))
    each = rows.unique("event", keep="first", maintain_order=True)
    what = aim.name or aim.class_ or "critical path events"
    return EventWalk(what, each["event"].to_numpy(), each["start"].to_numpy())


def _longest_interval(result: Result, aim: PathTarget) -> tuple[int, int]:
    """Start and end of the longest stretch of a path that is meant."""
    start, length = result.table.filter(**_target_columns(aim)).sort("duration").select("start", "duration").row(-1)
    return start, start + length


def _target_columns(aim: PathTarget) -> dict[str, str]:
    """Column values that the path rows of this class and name have."""
    wanted = {"class": aim.class_, "name": aim.name}
    return {column: value for column, value in wanted.items() if value is not None}


def _event_rows(result: Result) -> pl.DataFrame:
    """The rows of a path that are stretches of events, in the order of time."""
    return result.table.filter(pl.col("event").is_not_null() & pl.col("start").is_not_null()).sort("start")
