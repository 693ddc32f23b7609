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
from tracehound.ui.bindings import keys
from tracehound.ui.screens.settings import SettingsScreen
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

Kept = Mapping[str, Mapping[str, str]]
"""What is chosen of each pane's analysis: settings and their values, as a file holds them."""

BY: Final = "by"
"""The setting that says what a row is."""

ELSEWHERE: Final = ("slices",)
"""Analyses whose settings follow from where one is: the lane under the cursor."""


def settings_of(pane: str) -> tuple[Setting[Any], ...]:
    """The settings that can be chosen of what a pane shows; none where it is no analysis or has none."""
    return next((each.settings for each in ANALYSES if each.name == pane and pane not in ELSEWHERE), ())


def by_of(pane: str) -> Setting[Any] | None:
    """The setting that says what a row of a pane is, where there is one."""
    return next((each for each in settings_of(pane) if each.name == BY), None)


def _panes(screen: Explorer) -> list[str]:
    """The pane with the keys, and those of the tab that is shown."""
    focused = screen.focused
    return [*([screen.deck.name_of(focused)] if isinstance(focused, ResultTable) else []), *screen.deck.in_sight]


def regroup(screen: Explorer) -> None:
    """Make the rows of the pane with the keys, else of the tab that is shown, be the next thing that they can be."""
    pane = next((each for each in _panes(screen) if by_of(each)), screen.deck.active)
    by, title = by_of(pane), pane.replace("_", " ")
    if by is None:
        screen.key_bar.say(f"rows of {title} are of one sort")
        return
    given = dict(screen.results.given(pane))
    at = by.choices.index(given.pop(BY, by.default)) + 1
    now, after = (by.choices[place % len(by.choices)] for place in (at, at + 1))
    chosen = given if now == by.default else given | {BY: now}
    screen.results.choose(pane, tuple(sorted(chosen.items())))
    screen.results.ask(screen.view)
    screen.key_bar.say(f"{title} by {now}; {keys.shown(screen.keys, 'table.by')} again: by {after}")


def ask(screen: Explorer) -> None:
    """Show the settings of the pane with the keys, else of the tab that is shown, and do what is chosen."""
    results = screen.results
    pane = next((each for each in _panes(screen) if settings_of(each)), "")
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
