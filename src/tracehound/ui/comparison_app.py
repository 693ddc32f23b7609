"""Textual application that compares two runs.

Exits with an error if a run cannot be read. The screen owns the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.command import Provider

from tracehound.store import TraceReader
from tracehound.ui.base_app import BaseApp
from tracehound.ui.bindings.keys import KEYS, Key
from tracehound.ui.command_palette import ComparisonCommands
from tracehound.ui.screens.comparison_screen import ComparisonScreen
from tracehound.ui.source.source_files import SourceFolders
from tracehound.ui.widgets.run_panel import RunPanel


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

    @on(RunPanel.ReadingFailed)
    def _exit_with_reading_error(self, message: RunPanel.ReadingFailed) -> None:
        """Exit if a run cannot be read; the command line prints the error."""
        self.fail(message.error)

    @property
    def busy(self) -> bool:
        """True while a thread is at work."""
        return self.typed.waits or self.comparison.busy

    def get_default_screen(self) -> ComparisonScreen:
        """Return the comparison screen."""
        return self.comparison
