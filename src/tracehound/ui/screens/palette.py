"""The command palette: Textual's own, for every key that comes at any time, and for a screen of any size.

Owns what it says and how it is left. What it offers is for `ui.commands`.
"""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette

from tracehound.ui.screens.leaving import LeftOnce


class Palette(CommandPalette, LeftOnce[None]):
    """Commands to find by their names, with words that every alphabet has."""

    def __init__(self) -> None:
        super().__init__(placeholder="Search for commands", id="--command-palette")

    def _action_command_list(self, action: str) -> None:
        """Move in the list, if it is laid out: Textual knows no lines of it before, and none where there is no room."""
        with suppress(KeyError):
            super()._action_command_list(action)
