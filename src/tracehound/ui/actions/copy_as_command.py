"""Copying the command line that prints what the screen shows.

Owns the choice of the command, and the message where there is none. `ui/state/equivalent_commands.py` writes commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracehound.model.trace import Trace
from tracehound.ui.state import equivalent_commands

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

NO_COMMAND = {
    "details": "no command prints the details of an event: y copies a value there, Y label and value",
    "search": "nothing to print yet: press / and type a part of a name",
    "query": "nothing to print yet: press : and type a query",
}
"""Why no command prints a tab."""


def copy_command(screen: ExplorerScreen, trace: Trace) -> str:
    """Copy the command that prints what the tab shows; what was done, or why nothing can be."""
    tab = screen.pane_layout.active
    line = _command_of_tab(screen, trace, tab)
    if not line:
        return NO_COMMAND[tab]
    screen.app.copy_to_clipboard(line)
    filtered = tab in ("search", "query") and _filter_of_table(screen, tab)
    return f"copied without the filter, which no query has: {line}" if filtered else f"copied: {line}"


def _command_of_tab(screen: ExplorerScreen, trace: Trace, tab: str) -> str:
    """The command; empty where there is none."""
    if tab == "details":
        return ""
    if tab == "query":
        asked = screen.results.queried if screen.pane_stack.tables["query"].table.result is not None else None
        return "" if asked is None else equivalent_commands.query_command(screen.command_words, *asked)
    if tab == "search":
        needle = screen.search_session.needle
        return equivalent_commands.search_command(screen.command_words, needle) if needle else ""
    window = (
        equivalent_commands.shown_window(trace, screen.view)
        if screen.focused is screen.timeline
        else screen.view.selection
    )
    return equivalent_commands.report_command(
        screen.command_words,
        trace,
        screen.view,
        window,
        tab,
        screen.results.chosen_settings(tab),
        _filter_of_table(screen, tab),
    )


def _filter_of_table(screen: ExplorerScreen, tab: str) -> str:
    """The filter of the table that is in sight; none of what is no table."""
    pane = screen.pane_stack.tables.get(tab)
    return pane.table.filter.strip() if pane is not None and pane.display else ""
