"""Going from the row of a table to its place in the timeline.

Owns what that takes: the view, what n and N lead to afterwards, and what is said where there is no place. Where a row
leads is for `follow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracehound.trace import Trace
from tracehound.ui.actions import trail
from tracehound.ui.state import follow, navigate
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.wording import words

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

MARKED: Final = ("breakdown", "distributed")
"""Tables whose rows may be steps as they are marked, or what of them lies in the window."""

STEPS: Final = ("steps", "step_parts", "step_time", "utilisation", *MARKED)
"""Tables whose rows may be steps: what is an event are the marks, and their numbers may be of other stretches."""


def go(screen: Explorer, trace: Trace, chosen: ResultTable.Chosen) -> None:
    """Go to what the column under the cursor is about, else to what the row is about."""
    row, table, travels = chosen.row, screen.deck.name_of(chosen.table), screen.travels
    event, window = follow.event_of(trace, row), follow.window_of(trace, row)
    beside = follow.to_column(trace, screen.view, row, chosen.column)
    screen.walk = None  # that of the row before
    if beside is not None:
        travels.jump(beside)
    elif not follow.leads(trace, row):
        screen.key_bar.say("this row has no place in the timeline")
    elif table == "gaps" and window is not None:
        screen.results.pick(window, table, screen.view)
        travels.jump(follow.to_gap(trace, screen.view, row))
    elif _is_step(table, row) and window is not None:
        screen.results.pick(window, table, screen.view)
        travels.jump(navigate.to_window(trace, screen.view, window))
        _tell_bounds(screen, trace, table, row)
    elif table == trail.NAME:
        if event is not None or window is not None:
            travels.jump(follow.to_row(trace, screen.view, row))
        if event is not None or window is None:
            about = screen.view.window.at(*(screen.deck.tables[table].body.window or (None, None)))
            travels.trail.begin(trace, row["rank"], about, trail.aim_of(row, event))
    else:
        there = follow.to_row(trace, screen.view, row)
        if there == screen.view and event is None and window is None:
            screen.key_bar.say(words.NO_OTHER_PLACE)
        travels.jump(there)
        if event is not None and (counting := screen.results.counting(trace, table, row)) is not None:
            travels.begin_row(counting)


def pick(screen: Explorer, trace: Trace, picked: ResultTable.WindowPicked) -> None:
    """Narrow every table to a row's window, and show it."""
    window = follow.window_of(trace, picked.row)
    if window is None:
        screen.key_bar.say("this row has no window")
        return
    table = screen.deck.name_of(picked.table)
    screen.results.pick(window, table, screen.view)
    screen.travels.jump(navigate.to_range(trace, screen.view, *window))
    if _is_step(table, picked.row):
        _tell_bounds(screen, trace, table, picked.row)


def _is_step(table: str, row: follow.Row) -> bool:
    """Whether a row is one step; by rank or by part such a table has rows of many."""
    return table in STEPS and "step" in row and isinstance(row.get("start"), int)


def _tell_bounds(screen: Explorer, trace: Trace, table: str, row: follow.Row) -> None:
    """Say whether the step that was selected goes by its mark, or until its work is done, and what its mark is then."""
    window, mark = (follow.window_of(trace, each) for each in (row, {"event": row["event"]}))
    if window is not None:
        until = "as its row has it" if table in MARKED else "until its work is done"
        screen.key_bar.say(words.step_selected(row["step"], window, mark, until))
