"""Textual application that explores one trace.

Delays keys until the pane of the key before is shown. `base_app` has what both applications share; the screen owns the
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.actions import ActionParseResult
from textual.command import Provider
from textual.dom import DOMNode

from tracehound.store import TraceReader
from tracehound.ui.background.trace_loader import TraceLoader
from tracehound.ui.base_app import BaseApp
from tracehound.ui.bindings.keys import KEYS, Key
from tracehound.ui.command_palette import ExplorerCommands
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.menu_screen import MenuScreen
from tracehound.ui.source.source_files import SourceFolders


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
        self._pane_actions = {key.action for key in table if key.action.startswith("show(") and not key.asks}

    @on(TraceLoader.Failed)
    def _exit_if_nothing_read(self, message: TraceLoader.Failed) -> None:
        """Exit if nothing of the trace can be read; the command line prints the error."""
        if not self.explorer.growth.any_read:
            self.fail(message.error)

    @property
    def busy(self) -> bool:
        """True while a thread is at work."""
        explorer = self.explorer
        workers = (
            explorer.reading,
            explorer.background,
            explorer.selected.decoder,
            explorer.asker,
            explorer.visits.errands,
            explorer.disclosing.pages.errands,
            explorer.timeline.supply,
            explorer.travels.linker,
        )
        return self.typed.waits or any(worker.busy for worker in workers)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key. Keys after an action that shows a pane go to that pane."""
        if action in self._pane_actions:
            self.typed.expect(lambda: self.explorer.arrangement.arrived)
        elif action == "menu":
            self.typed.expect(lambda: isinstance(self.screen, MenuScreen))
        return await super().run_action(action, default_namespace, namespaces)

    def get_default_screen(self) -> ExplorerScreen:
        """Return the explorer screen."""
        return self.explorer
