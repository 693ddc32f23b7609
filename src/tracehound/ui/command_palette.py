"""The screen of the command palette."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.command import CommandList, CommandPalette, Provider

from tracehound.ui.widgets.base_screens import DismissOnceScreen, SafeOptionList


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
