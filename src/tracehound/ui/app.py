"""The explorer as a Textual application.

Owns when a key that shows something is done; what every application of ours is, is `shell`'s, and what is explored the
screen's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.actions import ActionParseResult
from textual.command import Provider
from textual.dom import DOMNode

from tracehound.store import Opening
from tracehound.ui.background.loading import Loading
from tracehound.ui.bindings.keys import KEYS, Key
from tracehound.ui.commands import Commands
from tracehound.ui.screens.explorer import Explorer
from tracehound.ui.screens.menu import MenuScreen
from tracehound.ui.shell import Shell
from tracehound.ui.source.finding import Sources


class TracehoundApp(Shell):
    """One trace in one terminal."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands}

    def __init__(
        self,
        opening: Opening,
        alphabet: str = "unicode",
        table: Sequence[Key] = KEYS,
        theme: str | None = None,
        sources: Sources = Sources(),  # noqa: B008, frozen
    ) -> None:
        """Raises TracehoundError when there is no such theme."""
        super().__init__(alphabet, table, theme)
        self.explorer = Explorer(opening, self.glyphs, table, sources)
        self._showing = {key.action for key in table if key.action.startswith("show(") and not key.asks}

    @on(Loading.Failed)
    def _failed(self, message: Loading.Failed) -> None:
        """With nothing to explore, leave, and let the command line say why."""
        if not self.explorer.growth.any_read:
            self.fail(message.error)

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work."""
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
        """Do what a key is for; what is typed after one that shows something is for that."""
        if action in self._showing:
            self.typed.expect(lambda: self.explorer.arrangement.arrived)
        elif action == "menu":
            self.typed.expect(lambda: isinstance(self.screen, MenuScreen))
        return await super().run_action(action, default_namespace, namespaces)

    def get_default_screen(self) -> Explorer:
        """The explorer."""
        return self.explorer
