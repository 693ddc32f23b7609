"""The Textual applications: one explores a trace, one compares two runs; and their commands in the palette.

The explorer delays keys until the pane of the previous key is visible. `base_app` has what both share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.actions import ActionParseResult
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.dom import DOMNode
from textual.types import IgnoreReturnCallbackType

from tracehound.analysis import ANALYSES
from tracehound.analysis.topics import unavailable_note
from tracehound.draw.notes import note_text
from tracehound.store import TraceReader
from tracehound.ui.background.trace_loader import TraceLoader
from tracehound.ui.base_app import BaseApp
from tracehound.ui.bindings.keys import KEYS, Key
from tracehound.ui.screens.comparison_screen import ComparisonScreen
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.menu_screen import MenuScreen
from tracehound.ui.source_files import SourceFolders
from tracehound.ui.terminal.type_ahead import PANE_WAIT
from tracehound.ui.widgets.titled_timeline import TitledTimeline

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
            why = (
                unavailable_note(analysis.name, explorer.trace_updates.complete_trace)
                if explorer.trace_updates.complete_trace
                else None
            )
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
            for side, title in zip(screen.sides, ("Baseline", "Candidate"), strict=True):
                if key.group == "timeline":
                    yield (f"{title}: {key.meaning} ({key.shown})", "", partial(side.timeline.run_action, key.action))
                if key.group == "lanes":
                    yield (
                        f"{title}: {key.meaning} ({key.shown})",
                        "",
                        partial(side.timeline_panel.run_action, key.action),
                    )
        yield ("Change the theme", "Ours, dark and light, and others", app.action_change_theme)


class ExplorerApp(BaseApp):
    """Application that shows one trace."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {ExplorerCommands}

    def __init__(
        self,
        opening: TraceReader,
        alphabet: str = "unicode",
        table: Sequence[Key] = KEYS,
        theme: str | None = None,
        sources: SourceFolders = SourceFolders(),  # noqa: B008, frozen
    ) -> None:
        """Raises TracehoundError when there is no such theme."""
        super().__init__(alphabet, table, theme)
        self.explorer = ExplorerScreen(opening, self.glyphs, table, sources)
        self.explorer.pane_layout.hold_keys = partial(self.type_ahead.hold_keys_until, most_looks=PANE_WAIT)

    @on(TraceLoader.Failed)
    def _exit_if_nothing_read(self, message: TraceLoader.Failed) -> None:
        """Exit if nothing of the trace can be read; the command line prints the error."""
        if not self.explorer.trace_updates.any_read:
            self.fail(message.error)

    @property
    def busy(self) -> bool:
        """True while a thread is at work."""
        explorer = self.explorer
        workers = (
            explorer.reading,
            explorer.background,
            explorer.selected.decoder,
            explorer.query_runner,
            explorer.source_navigation.tasks,
            explorer.hlo_navigation.pages.tasks,
            explorer.timeline.lane_loader,
            explorer.navigation.linker,
        )
        return self.type_ahead.is_holding_keys or any(worker.busy for worker in workers)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key. Keys after the one that opens the menu go to the menu."""
        if action == "menu":
            self.type_ahead.hold_keys_until(lambda: isinstance(self.screen, MenuScreen))
        return await super().run_action(action, default_namespace, namespaces)

    def get_default_screen(self) -> ExplorerScreen:
        """Return the explorer screen."""
        return self.explorer


class ComparisonApp(BaseApp):
    """Application that shows two traces."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {ComparisonCommands}

    def __init__(
        self,
        baseline: TraceReader,
        candidate: TraceReader,
        alphabet: str = "unicode",
        table: Sequence[Key] = KEYS,
        theme: str | None = None,
        sources: SourceFolders = SourceFolders(),  # noqa: B008, frozen
    ) -> None:
        """Raises TracehoundError when there is no such theme."""
        super().__init__(alphabet, table, theme)
        self.comparison = ComparisonScreen(baseline, candidate, self.glyphs, table, sources)

    @on(TitledTimeline.ReadingFailed)
    def _exit_with_reading_error(self, message: TitledTimeline.ReadingFailed) -> None:
        """Exit if a run cannot be read; the command line prints the error."""
        self.fail(message.error)

    @property
    def busy(self) -> bool:
        """True while a thread is at work."""
        return self.type_ahead.is_holding_keys or self.comparison.busy

    def get_default_screen(self) -> ComparisonScreen:
        """Return the comparison screen."""
        return self.comparison
