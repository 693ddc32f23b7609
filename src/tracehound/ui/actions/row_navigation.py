"""Going from the row of a table to its place in the timeline.

Owns what that takes: the view, what n and N lead to afterwards, and what is said where there is no place. Where a row
leads is for `follow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracehound.model.trace import Trace
from tracehound.ui.actions import critical_path_overlay
from tracehound.ui.state import row_target, view_moves
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.wording import messages

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

ROWS_OF_MARKED_STEPS: Final = ("breakdown", "distributed")
"""Tables whose rows may be steps as they are marked, or what of them lies in the window."""

STEP_TABLES: Final = ("steps", "step_parts", "step_time", "utilisation", *ROWS_OF_MARKED_STEPS)
"""Tables whose rows may be steps: what is an event are the marks, and their numbers may be of other stretches."""


def go_to_row(screen: ExplorerScreen, trace: Trace, chosen: ResultTable.RowChosen) -> None:
    """Go to what the column under the cursor is about, else to what the row is about."""
    row, table, travels = chosen.row, screen.pane_stack.result_name(chosen.table), screen.travels
    event, window = row_target.event_of_row(trace, row), row_target.window_of_row(trace, row)
    beside = row_target.go_to_column_target(trace, screen.view, row, chosen.column)
    screen.walk = None  # that of the row before
    if beside is not None:
        travels.jump(beside)
    elif not row_target.has_target(trace, row):
        screen.key_bar.say("this row has no place in the timeline")
    elif table == "gaps" and window is not None:
        screen.results.pick(window, table, screen.view)
        travels.jump(row_target.select_gap(trace, screen.view, row))
    elif _is_one_step(table, row) and window is not None:
        screen.results.pick(window, table, screen.view)
        travels.jump(view_moves.select_window(trace, screen.view, window))
        _describe_step_bounds(screen, trace, table, row)
    elif table == critical_path_overlay.ANALYSIS_NAME:
        if event is not None or window is not None:
            travels.jump(row_target.go_to_row_target(trace, screen.view, row))
        if event is not None or window is None:
            about = screen.view.window.at(*(screen.pane_stack.tables[table].charted_table.window or (None, None)))
            travels.trail.begin(trace, row["rank"], about, critical_path_overlay.target_of_row(row, event))
    else:
        there = row_target.go_to_row_target(trace, screen.view, row)
        if there == screen.view and event is None and window is None:
            screen.key_bar.say(messages.ROW_OF_WHOLE_RANK)
        travels.jump(there)
        if event is not None and (counting := screen.results.counting(trace, table, row)) is not None:
            travels.begin_row(counting)


def select_row_window(screen: ExplorerScreen, trace: Trace, picked: ResultTable.WindowRequested) -> None:
    """Narrow every table to a row's window, and show it."""
    window = row_target.window_of_row(trace, picked.row)
    if window is None:
        screen.key_bar.say("this row has no window")
        return
    table = screen.pane_stack.result_name(picked.table)
    screen.results.pick(window, table, screen.view)
    screen.travels.jump(view_moves.select_range_in_sight(trace, screen.view, *window))
    if _is_one_step(table, picked.row):
        _describe_step_bounds(screen, trace, table, picked.row)


def _is_one_step(table: str, row: row_target.ResultRow) -> bool:
    """True if a row is one step; tables by rank or by part have rows that cover many steps."""
    return table in STEP_TABLES and "step" in row and isinstance(row.get("start"), int)


def _describe_step_bounds(screen: ExplorerScreen, trace: Trace, table: str, row: row_target.ResultRow) -> None:
    """Say whether the step that was selected goes by its mark, or until its work is done, and what its mark is then."""
    window, mark = (row_target.window_of_row(trace, each) for each in (row, {"event": row["event"]}))
    if window is not None:
        until = "as its row has it" if table in ROWS_OF_MARKED_STEPS else "until its work is done"
        screen.key_bar.say(messages.step_selected(row["step"], window, mark, until))
