"""What is copied of a screen: the command line that prints what it shows.

Owns which command that is, and what is said where none prints it. How a command is written is for `again`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracehound.trace import Trace
from tracehound.ui.state import again

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

NONE = {
    "details": "no command prints the details of an event: y copies a value there, Y label and value",
    "search": "nothing to print yet: press / and type a part of a name",
    "query": "nothing to print yet: press : and type a query",
}
"""Why no command prints a tab."""


def copy(screen: Explorer, trace: Trace) -> str:
    """Copy the command that prints what the tab shows; what was done, or why nothing can be."""
    tab = screen.arrangement.active
    line = _command(screen, trace, tab)
    if not line:
        return NONE[tab]
    screen.app.copy_to_clipboard(line)
    filtered = tab in ("search", "query") and _filter(screen, tab)
    return f"copied without the filter, which no query has: {line}" if filtered else f"copied: {line}"


def _command(screen: Explorer, trace: Trace, tab: str) -> str:
    """The command; empty where there is none."""
    if tab == "details":
        return ""
    if tab == "query":
        asked = screen.results.queried if screen.deck.tables["query"].table.result is not None else None
        return "" if asked is None else again.question(screen.said, *asked)
    if tab == "search":
        needle = screen.seeking.needle
        return again.search(screen.said, needle) if needle else ""
    window = again.shown(trace, screen.view) if screen.focused is screen.timeline else screen.view.selection
    return again.command(screen.said, trace, screen.view, window, tab, screen.results.given(tab), _filter(screen, tab))


def _filter(screen: Explorer, tab: str) -> str:
    """The filter of the table that is in sight; none of what is no table."""
    pane = screen.deck.tables.get(tab)
    return pane.table.filter.strip() if pane is not None and pane.display else ""
