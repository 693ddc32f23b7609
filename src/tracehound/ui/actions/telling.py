"""Telling in full what is said of what is shown.

Owns which panes are meant. What is said of each is for the panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.screen import Screen

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.sheet import Section
from tracehound.ui.screens.in_full import InFullScreen
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer


def of_explorer(screen: Explorer) -> None:
    """Tell of the table with the keys, and then of what else is in sight of the tab that is shown."""
    deck, focused = screen.deck, screen.focused
    first = [deck.name_of(focused)] if isinstance(focused, ResultTable) else []
    names = dict.fromkeys([*first, *deck.in_sight, *deck.beside])
    sections = [section for name in names for section in deck.shows(name).in_full]
    if sections:
        tell(screen, deck.active, sections, screen.glyphs)
    else:
        screen.key_bar.say(f"{deck.active.replace('_', ' ')}: all there is to say is shown")


def tell(screen: Screen[None], pane: str, sections: Sequence[Section], glyphs: Glyphs) -> None:
    """Show a page of it."""
    title = pane.replace("_", " ")
    screen.app.push_screen(InFullScreen(f"{title[:1].upper()}{title[1:]} in full", sections, glyphs))
