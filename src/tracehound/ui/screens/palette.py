"""The command palette: Textual's own, for every key that comes at any time, and for a screen of any size.

Owns what it says and how it is left. What it offers is for `ui.commands`.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.command import CommandList, CommandPalette, Provider

from tracehound.ui.screens.framed import Options
from tracehound.ui.screens.leaving import LeftOnce


class FoundCommands(CommandList, Options, can_focus=False):
    """The commands that were found, a list that changes while one looks at it."""


class Palette(CommandPalette, LeftOnce[None]):
    """Commands to find by their names. It has no id, since it may open while the last one is being removed."""

    def __init__(
        self, providers: Iterable[type[Provider]] | None = None, placeholder: str = "Search for commands"
    ) -> None:
        """`providers` have the commands, or else the application and its screen do."""
        super().__init__(None if providers is None else list(providers), placeholder=placeholder)

    def compose(self) -> ComposeResult:
        """Textual's widgets, with our list of commands."""
        for widget in super().compose():
            yield FoundCommands() if isinstance(widget, CommandList) else widget
