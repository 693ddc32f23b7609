"""Two runs side by side as a Textual application.

Owns when it ends without having shown anything; what is compared is the screen's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.command import Provider

from tracehound.store import Opening
from tracehound.ui.bindings.keys import KEYS, Key
from tracehound.ui.commands import ComparisonCommands
from tracehound.ui.screens.comparison import ComparisonScreen
from tracehound.ui.shell import Shell
from tracehound.ui.source.finding import Sources
from tracehound.ui.widgets.side import Side


class ComparingApp(Shell):
    """Two traces in one terminal."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {ComparisonCommands}

    def __init__(
        self,
        base: Opening,
        other: Opening,
        alphabet: str = "unicode",
        table: Sequence[Key] = KEYS,
        theme: str | None = None,
        sources: Sources = Sources(),  # noqa: B008, frozen
    ) -> None:
        """Raises TracehoundError when there is no such theme."""
        super().__init__(alphabet, table, theme)
        self.comparison = ComparisonScreen(base, other, self.glyphs, table, sources)

    @on(Side.Failed)
    def _failed(self, message: Side.Failed) -> None:
        """With nothing to compare, leave, and let the command line say why."""
        self.fail(message.error)

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work."""
        return self.typed.waits or self.comparison.busy

    def get_default_screen(self) -> ComparisonScreen:
        """The comparison."""
        return self.comparison
