"""Choosing the settings of the analysis that a pane shows.

Owns which pane is meant, and what is kept of the choice. What a choice does to the results is `Results`' business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tracehound.analysis import ANALYSES
from tracehound.analysis.settings import Given, Setting, chosen
from tracehound.errors import TracehoundError
from tracehound.preferences import preferred
from tracehound.ui.screens.settings import SettingsScreen
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

Kept = Mapping[str, Mapping[str, str]]
"""What is chosen of each pane's analysis: settings and their values, as a file holds them."""

ELSEWHERE: Final = ("slices",)
"""Analyses whose settings follow from where one is: the lane under the cursor."""


def settings_of(pane: str) -> tuple[Setting[Any], ...]:
    """The settings that can be chosen of what a pane shows; none where it is no analysis or has none."""
    return next((each.settings for each in ANALYSES if each.name == pane and pane not in ELSEWHERE), ())


def ask(screen: Explorer) -> None:
    """Show the settings of the pane with the keys, else of the tab that is shown, and do what is chosen."""
    results, focused = screen.results, screen.focused
    panes = [screen.deck.name_of(focused)] if isinstance(focused, ResultTable) else []
    pane = next((each for each in (*panes, *screen.deck.in_sight) if settings_of(each)), "")
    if not pane:
        screen.key_bar.say(f"{screen.deck.active.replace('_', ' ')} has no settings")
        return

    def take(given: Given | None) -> None:
        if given is not None:
            results.choose(pane, given)
            results.ask(screen.view)

    analysis = next(each for each in ANALYSES if each.name == pane)
    try:
        usual = preferred(analysis)
    except TracehoundError as error:
        screen.key_bar.say(str(error))
        return
    title = f"Settings of {pane.replace('_', ' ')}"
    screen.app.push_screen(SettingsScreen(title, analysis.settings, usual, results.given(pane), screen.glyphs), take)


def said(given: Given) -> str:
    """``by=module, frames=python``."""
    return ", ".join(f"{name}={value}" for name, value in given)


def words(given: Given) -> Sequence[str]:
    """The same as a command line has them: ``NAME=VALUE`` each."""
    return [f"{name}={value}" for name, value in given]


def sound(kept: Kept) -> dict[str, Given]:
    """What was kept, as far as it is a choice still: nobody knows what wrote the file."""
    found = dict[str, Given]()
    for pane, values in kept.items():
        try:
            found[pane] = chosen(settings_of(pane), words(tuple(values.items())))
        except TracehoundError:
            continue
    return found
