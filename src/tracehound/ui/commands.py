"""What the command palette offers: the same lists that the keys and the command line follow.

Owns the commands' words. Every analysis is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.types import IgnoreReturnCallbackType

from tracehound.analysis import ANALYSES
from tracehound.analysis.topics import lacking
from tracehound.draw.notes import note_text

if TYPE_CHECKING:
    from tracehound.ui.app import TracehoundApp
    from tracehound.ui.comparing import ComparingApp

Command = tuple[str, str, IgnoreReturnCallbackType]

NOT_OFFERED = ("palette", "focus.next", "focus.previous")
"""Keys that make no sense as a command: they are about where one is on the screen."""


class Commands(Provider):
    """Analyses, what they answer or why they cannot, what the keys do everywhere, and themes."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for name, meaning, act in self._commands():
            yield DiscoveryHit(name, act, help=meaning)

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for name, meaning, act in self._commands():
            score = max(matcher.match(name), matcher.match(meaning) * 0.7)
            if score > 0:
                yield Hit(score, matcher.highlight(name), act, help=meaning)

    def _commands(self) -> Iterator[Command]:
        app: TracehoundApp = self.app  # type: ignore[assignment]
        explorer = app.explorer
        for analysis in ANALYSES:
            why = lacking(analysis.name, explorer.growth.whole) if explorer.growth.whole else None
            yield (
                f"Show {analysis.name.replace('_', ' ')}",
                note_text(why) if why else analysis.question,
                partial(explorer.action_show, analysis.name),
            )
        for key in explorer.keys:
            if key.group == "everywhere" and not key.id.startswith("pane.") and key.id not in NOT_OFFERED:
                target = explorer if not key.action.startswith("app.") else app
                yield (f"{key.meaning} ({key.shown})", "", partial(target.run_action, key.action))
        for key in explorer.keys:
            if key.group == "timeline":
                yield (f"Timeline: {key.meaning} ({key.shown})", "", partial(explorer.timeline.run_action, key.action))
            if key.group == "lanes":
                yield (f"Lanes: {key.meaning} ({key.shown})", "", partial(explorer.stage.desk.run_action, key.action))
        yield ("Change the theme", "Ours, dark and light, and others", app.action_change_theme)


class ComparisonCommands(Commands):
    """What the keys do where two runs are compared, and themes."""

    def _commands(self) -> Iterator[Command]:
        app: ComparingApp = self.app  # type: ignore[assignment]
        screen = app.comparison
        for key in screen.keys:
            if key.group in ("everywhere", "comparison") and key.id not in NOT_OFFERED:
                target = screen if not key.action.startswith("app.") else app
                yield (f"{key.meaning} ({key.shown})", "", partial(target.run_action, key.action))
        for key in screen.keys:
            for side, title in zip(screen.sides, ("Base", "Other"), strict=True):
                if key.group == "timeline":
                    yield (f"{title}: {key.meaning} ({key.shown})", "", partial(side.timeline.run_action, key.action))
                if key.group == "lanes":
                    yield (f"{title}: {key.meaning} ({key.shown})", "", partial(side.desk.run_action, key.action))
        yield ("Change the theme", "Ours, dark and light, and others", app.action_change_theme)
