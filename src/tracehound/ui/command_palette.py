"""Command palette: its commands and its screen.

The commands come from the table of keys and the list of analyses; every analysis is a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.types import IgnoreReturnCallbackType

from tracehound.analysis import ANALYSES
from tracehound.analysis.topics import unavailable_note
from tracehound.draw.notes import note_text
from tracehound.ui.screens.base_screens import DismissOnceScreen, SafeOptionList

if TYPE_CHECKING:
    from tracehound.ui.comparison_app import ComparisonApp
    from tracehound.ui.explorer_app import ExplorerApp


PaletteCommand = tuple[str, str, IgnoreReturnCallbackType]

EXCLUDED_KEYS = ("palette", "focus.next", "focus.previous")
"""Keys that make no sense as a command: they depend on the focus."""


class ExplorerCommands(Provider):
    """Commands of the explorer: analyses, keys and themes.

    The help of an analysis is its question, or why the trace cannot answer it.
    """

    async def discover(self) -> Hits:
        """Yield all commands, before anything is typed."""
        for name, meaning, act in self._commands():
            yield DiscoveryHit(name, act, help=meaning)

    async def search(self, query: str) -> Hits:
        """Yield the commands that match."""
        matcher = self.matcher(query)
        for name, meaning, act in self._commands():
            score = max(matcher.match(name), matcher.match(meaning) * 0.7)
            if score > 0:
                yield Hit(score, matcher.highlight(name), act, help=meaning)

    def _commands(self) -> Iterator[PaletteCommand]:
        app: ExplorerApp = self.app  # type: ignore[assignment]
        explorer = app.explorer
        for analysis in ANALYSES:
            why = unavailable_note(analysis.name, explorer.growth.whole) if explorer.growth.whole else None
            yield (
                f"Show {analysis.name.replace('_', ' ')}",
                note_text(why) if why else analysis.question,
                partial(explorer.action_show, analysis.name),
            )
        for key in explorer.keys:
            if key.group == "everywhere" and not key.id.startswith("pane.") and key.id not in EXCLUDED_KEYS:
                target = explorer if not key.action.startswith("app.") else app
                yield (f"{key.meaning} ({key.shown})", "", partial(target.run_action, key.action))
        for key in explorer.keys:
            if key.group == "timeline":
                yield (f"Timeline: {key.meaning} ({key.shown})", "", partial(explorer.timeline.run_action, key.action))
            if key.group == "lanes":
                yield (
                    f"Lanes: {key.meaning} ({key.shown})",
                    "",
                    partial(explorer.timeline_area.timeline_panel.run_action, key.action),
                )
        yield ("Change the theme", "Ours, dark and light, and others", app.action_change_theme)


class ComparisonCommands(ExplorerCommands):
    """Commands of the comparison: keys and themes."""

    def _commands(self) -> Iterator[PaletteCommand]:
        app: ComparisonApp = self.app  # type: ignore[assignment]
        screen = app.comparison
        for key in screen.keys:
            if key.group in ("everywhere", "comparison") and key.id not in EXCLUDED_KEYS:
                target = screen if not key.action.startswith("app.") else app
                yield (f"{key.meaning} ({key.shown})", "", partial(target.run_action, key.action))
        for key in screen.keys:
            for side, title in zip(screen.sides, ("Base", "Other"), strict=True):
                if key.group == "timeline":
                    yield (f"{title}: {key.meaning} ({key.shown})", "", partial(side.timeline.run_action, key.action))
                if key.group == "lanes":
                    yield (
                        f"{title}: {key.meaning} ({key.shown})",
                        "",
                        partial(side.timeline_panel.run_action, key.action),
                    )
        yield ("Change the theme", "Ours, dark and light, and others", app.action_change_theme)


class CommandMatchList(CommandList, SafeOptionList, can_focus=False):
    """List of matching commands. It may change while the user reads it."""


class CommandPaletteScreen(CommandPalette, DismissOnceScreen[None]):
    """Palette that finds commands by name. It has no id, since it may open while the last one is being removed."""

    def __init__(
        self, providers: Iterable[type[Provider]] | None = None, placeholder: str = "Search for commands"
    ) -> None:
        """`providers` supply the commands; by default those of the application and its screen do."""
        super().__init__(None if providers is None else list(providers), placeholder=placeholder)

    def compose(self) -> ComposeResult:
        """Yield Textual's widgets, with our list of commands."""
        for widget in super().compose():
            yield CommandMatchList() if isinstance(widget, CommandList) else widget
