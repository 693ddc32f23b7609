"""Choosing the settings of the analysis that a pane shows.

Owns which pane is meant, and what is kept of the choice. What a choice does to the results is `Results`' business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tracehound.analysis import ANALYSES
from tracehound.analysis.analysis_settings import ChosenSettings, Setting, parse_settings
from tracehound.config import configured_settings
from tracehound.errors import TracehoundError
from tracehound.ui.bindings import keys
from tracehound.ui.panes.choice_dialogs import SettingsDialog
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

SavedSettings = Mapping[str, Mapping[str, str]]
"""What is chosen of each pane's analysis: settings and their values, as a file holds them."""

GROUPING: Final = "by"
"""The setting that says what a row is."""

SET_BY_CURSOR: Final = ("slices",)
"""Analyses whose settings follow from where one is: the lane under the cursor."""


def settings_of_pane(pane: str) -> tuple[Setting[Any], ...]:
    """The settings that can be chosen of what a pane shows; none where it is no analysis or has none."""
    return next((each.settings for each in ANALYSES if each.name == pane and pane not in SET_BY_CURSOR), ())


def grouping_of_pane(pane: str) -> Setting[Any] | None:
    """The setting that says what a row of a pane is, where there is one."""
    return next((each for each in settings_of_pane(pane) if each.name == GROUPING), None)


def _candidate_panes(screen: ExplorerScreen) -> list[str]:
    """The pane with the keys, and those of the tab that is shown."""
    focused = screen.focused
    return [
        *([screen.pane_stack.result_name(focused)] if isinstance(focused, ResultTable) else []),
        *screen.pane_stack.active_results,
    ]


def change_grouping(screen: ExplorerScreen) -> None:
    """Make the rows of the pane with the keys, else of the tab that is shown, be the next thing that they can be."""
    pane = next((each for each in _candidate_panes(screen) if grouping_of_pane(each)), screen.pane_stack.active)
    by, title = grouping_of_pane(pane), pane.replace("_", " ")
    if by is None:
        screen.key_bar.say(f"rows of {title} are of one sort")
        return
    given = dict(screen.results.chosen_settings(pane))
    at = by.choices.index(given.pop(GROUPING, by.default)) + 1
    now, after = (by.choices[place % len(by.choices)] for place in (at, at + 1))
    chosen = given if now == by.default else given | {GROUPING: now}
    screen.results.set_settings(pane, tuple(sorted(chosen.items())))
    screen.results.ask(screen.view)
    screen.key_bar.say(f"{title} by {now}; {keys.key_text(screen.keys, 'table.by')} again: by {after}")


def choose_settings(screen: ExplorerScreen) -> None:
    """Show the settings of the pane with the keys, else of the tab that is shown, and do what is chosen."""
    results = screen.results
    pane = next((each for each in _candidate_panes(screen) if settings_of_pane(each)), "")
    if not pane:
        screen.key_bar.say(f"{screen.pane_stack.active.replace('_', ' ')} has no settings")
        return

    def take(given: ChosenSettings | None) -> None:
        if given is not None:
            results.set_settings(pane, given)
            results.ask(screen.view)

    analysis = next(each for each in ANALYSES if each.name == pane)
    try:
        usual = configured_settings(analysis)
    except TracehoundError as error:
        screen.key_bar.say(str(error))
        return
    title = f"Settings of {pane.replace('_', ' ')}"
    screen.app.push_screen(
        SettingsDialog(title, analysis.settings, usual, results.chosen_settings(pane), screen.glyphs), take
    )


def format_settings(given: ChosenSettings) -> str:
    """``by=module, frames=python``."""
    return ", ".join(f"{name}={value}" for name, value in given)


def settings_as_options(given: ChosenSettings) -> Sequence[str]:
    """Settings as command line options: ``NAME=VALUE`` each."""
    return [f"{name}={value}" for name, value in given]


def valid_settings(kept: SavedSettings) -> dict[str, ChosenSettings]:
    """Saved settings that are still valid; the file may come from anywhere."""
    found = dict[str, ChosenSettings]()
    for pane, values in kept.items():
        try:
            found[pane] = parse_settings(settings_of_pane(pane), settings_as_options(tuple(values.items())))
        except TracehoundError:
            continue
    return found
