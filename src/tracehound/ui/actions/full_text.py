"""Telling in full what is said of what is shown.

Owns which panes are meant. What is said of each is for the panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.screen import Screen

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.sheet_layout import FactSection
from tracehound.ui.screens.text_dialogs import FullTextScreen
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen


def show_full_text(screen: ExplorerScreen) -> None:
    """Tell of the table with the keys, and then of what else is in sight of the tab that is shown."""
    deck, focused = screen.pane_stack, screen.focused
    first = [deck.result_name(focused)] if isinstance(focused, ResultTable) else []
    names = dict.fromkeys([*first, *deck.active_results, *deck.dependent_results])
    sections = [section for name in names for section in deck.pane_for(name).full_text]
    if sections:
        push_full_text(screen, deck.active, sections, screen.glyphs)
    else:
        screen.key_bar.say(f"{deck.active.replace('_', ' ')}: all there is to say is shown")


def push_full_text(screen: Screen[None], pane: str, sections: Sequence[FactSection], glyphs: Glyphs) -> None:
    """Show a page of it."""
    title = pane.replace("_", " ")
    screen.app.push_screen(FullTextScreen(f"{title[:1].upper()}{title[1:]} in full", sections, glyphs))
