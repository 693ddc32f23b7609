"""Base class of both Textual applications.

Owns themes, the terminal driver, redrawing, type-ahead and the exit with an error. The screen decides what is shown.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from rich.console import RenderableType
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.actions import ActionParseResult
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.command import CommandList, CommandPalette, Provider
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.theme import ThemeProvider
from textual.worker import WorkerFailed

from tracehound.draw.glyphs import ASCII, MONO, UNICODE
from tracehound.errors import TracehoundError
from tracehound.ui.actions.screen_layouts import WIDE_COLUMNS
from tracehound.ui.bindings.key_remapping import textual_keymap
from tracehound.ui.bindings.keys import KEYS, Key, textual_bindings
from tracehound.ui.terminal.driver import QuickDriver, minimal_update
from tracehound.ui.terminal.end_signals import end_when_terminal_gone
from tracehound.ui.terminal.outside_programs import notify_warning
from tracehound.ui.terminal.type_ahead import LINE_FEED_KEY, TypeAhead, copy_key
from tracehound.ui.themes import THEMES, choose_theme
from tracehound.ui.widgets.base_screens import DismissOnceScreen, SafeOptionList, comes_from_removed_widget
from tracehound.ui.widgets.cursor_list import RowsAwaited
from tracehound.ui.widgets.status_bars import KeyBar
from tracehound.ui.wording import messages

NO_JOB_CONTROL: Final = "no shell waits here that could bring this back"
"""Message where the program is the first of its session (``ssh -t HOST tracehound``, a container, a tmux pane)."""


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


class BaseApp(App[None]):
    """Application with one of our screens."""

    TITLE = "tracehound"
    CSS_PATH = "explorer.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "quit", show=False, system=True, tooltip="Quit", id="app.quit"),
        *(bound for bound in textual_bindings("everywhere") if isinstance(bound, Binding) and bound.priority),
    ]
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (WIDE_COLUMNS, "-wide")]  # noqa: RUF012, as Textual

    def __init__(self, alphabet: str = "unicode", table: Sequence[Key] = KEYS, theme: str | None = None) -> None:
        """Raises TracehoundError when there is no such theme."""
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.glyphs = ASCII if alphabet == "ascii" else MONO if self.no_color else UNICODE
        self.set_keymap(textual_keymap(table))
        self.type_ahead = TypeAhead(self)
        self.failure: TracehoundError | None = None
        """Error that ended the application before it could show anything."""
        self._prompt_actions = {key.action for key in table if key.asks}
        self.set_class(alphabet == "ascii", "-ascii")
        for ours in THEMES:
            self.register_theme(ours)
        self.theme = choose_theme(theme, None if self.no_color else self.console.color_system, self.available_themes)

    def get_driver_class(self) -> type[Driver]:
        """Driver of the terminal: ours, unless the user chose another."""
        found = super().get_driver_class()
        return QuickDriver if found is LinuxDriver else found

    async def on_event(self, event: events.Event) -> None:
        """Hold keys back until the prompt that they are meant for is open.

        Enter that is pressed before the terminal is in raw mode arrives as a line feed.
        """
        if isinstance(event, events.Key) and event.key == LINE_FEED_KEY and not event.is_forwarded:
            event = copy_key(event)
        if not (isinstance(event, events.Key) and self.type_ahead.hold_or_redirect(event)):
            await super().on_event(event)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key; clear the last message first.

        Keys after an action that opens a prompt go to the prompt.

        During the exit nothing is run: the screens are being removed.
        """
        if self._exit:
            return True
        for screen in self.screen_stack[-1:]:
            for bar in screen.query_children(KeyBar):
                bar.clear_message()
        self.clear_notifications()
        if (
            isinstance(default_namespace, RowsAwaited)
            and isinstance(action, str)
            and default_namespace.postpone(action)
        ):
            for bar in self.screen.query_children(KeyBar):
                bar.say(messages.WAITS_FOR_ROWS)
            return True
        if action in self._prompt_actions:
            self.type_ahead.expect_prompt()
        return await super().run_action(action, default_namespace, namespaces)

    def fail(self, error: TracehoundError) -> None:
        """Exit with nothing shown; the command line prints the error. Does nothing if the user is already leaving."""
        if self.return_code is None:
            self.failure = error
            self.exit()

    @property
    def fault(self) -> Exception | None:
        """Unexpected exception that ended the application."""
        return self._exception

    def _handle_exception(self, error: Exception) -> None:
        """Exit, so that the command line can print the error.

        Textual would print every stack frame with its local variables. An error of a removed widget does not end the
        application.
        """
        if comes_from_removed_widget(error):
            self.log.warning(f"error of a removed widget: {error!r}")
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error.error if isinstance(error, WorkerFailed) else error  # type: ignore[assignment]
            self._exception_event.set()
        self._close_messages_no_wait()

    def on_mount(self) -> None:
        """Redraw after each resume: after a stop or an editor the terminal may show anything."""
        self.app_resume_signal.subscribe(self, lambda _: self.action_repaint())
        if not self.is_headless:
            end_when_terminal_gone(self)

    def on_resize(self) -> None:
        """Redraw all: a resized terminal may show anything."""
        self._invalidate_display()

    def pop_screen(self) -> AwaitComplete:
        """Leave the top screen, and hold keys until it is gone.

        If two keys of one burst both leave it, the second does nothing.
        """
        if len(self.screen_stack) < 2:
            return AwaitComplete()
        leaving = self.screen
        self.type_ahead.hold_keys_until(lambda: leaving not in self.screen_stack)
        return super().pop_screen()

    def action_command_palette(self) -> None:
        """Open the command palette unless it is open."""
        if not any(isinstance(screen, CommandPaletteScreen) for screen in self.screen_stack):
            self.push_screen(CommandPaletteScreen())

    def search_themes(self) -> None:
        """Open the list of themes."""
        self.push_screen(CommandPaletteScreen([ThemeProvider], "Search for themes"))

    def action_suspend_process(self) -> None:
        """Stop the whole job with its workers until the shell continues it. Refused where no shell could."""
        if self._driver is None or not self._driver.can_suspend:
            return
        if os.getpgrp() == os.getsid(0):
            notify_warning(self, NO_JOB_CONTROL)
            return
        self._suspend_signal()
        os.kill(0, signal.SIGTSTP)

    def action_repaint(self) -> None:
        """Draw everything again: another program may have written to the terminal."""
        self._invalidate_display()
        self.screen.refresh(layout=True)

    def _invalidate_display(self) -> None:
        """Forget what the terminal is assumed to show."""
        if isinstance(self._driver, QuickDriver):
            self._driver.paper.forget()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send only the cells that differ from the terminal's, and nothing if the cursor has not moved either."""
        if not isinstance(self._driver, QuickDriver) or not isinstance(renderable, LayoutUpdate | ChopsUpdate):
            super()._display(screen, renderable)
        elif not self._batch_count:  # else the whole screen is drawn later
            update = minimal_update(renderable, self._driver.paper, screen.outer_size, self.console)
            if update.words or screen.outer_size.clamp_offset(self.cursor_position) != self._previous_cursor_position:
                super()._display(screen, update)  # type: ignore[arg-type]  # an update, which Textual renders like its own
