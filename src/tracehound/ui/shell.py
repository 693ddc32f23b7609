"""What every application of ours is, whatever its screen shows.

Owns themes, the driver, drawing anew, keys typed ahead, and how it ends with nothing to show; what is shown is the
screen's business.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from rich.console import RenderableType
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.actions import ActionParseResult
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.theme import ThemeProvider
from textual.worker import WorkerFailed

from tracehound.draw.glyphs import ASCII, MONO, UNICODE
from tracehound.errors import TracehoundError
from tracehound.ui.actions.arrangement import WIDE
from tracehound.ui.bindings.keymap import keymap
from tracehound.ui.bindings.keys import KEYS, Key, bindings
from tracehound.ui.screens.palette import Palette
from tracehound.ui.screens.safe_screen import concerns_removed
from tracehound.ui.terminal.driver import QuickDriver, difference
from tracehound.ui.terminal.ending import watch
from tracehound.ui.terminal.outside import warn
from tracehound.ui.terminal.typed import TypedAhead
from tracehound.ui.themes import THEMES, chosen
from tracehound.ui.widgets.bars import KeyBar

ALONE: Final = "no shell waits here that could bring this back"
"""What is said where the program is a session's first (``ssh -t HOST tracehound``, a container, a pane of tmux)."""


class Shell(App[None]):
    """One screen of ours in one terminal."""

    TITLE = "tracehound"
    CSS_PATH = "explorer.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "quit", show=False, system=True, tooltip="Quit", id="app.quit"),
        *(bound for bound in bindings("everywhere") if isinstance(bound, Binding) and bound.priority),
    ]
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012, as Textual

    def __init__(self, alphabet: str = "unicode", table: Sequence[Key] = KEYS, theme: str | None = None) -> None:
        """Raises TracehoundError when there is no such theme."""
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.glyphs = ASCII if alphabet == "ascii" else MONO if self.no_color else UNICODE
        self.set_keymap(keymap(table))
        self.typed = TypedAhead(self)
        self.failure: TracehoundError | None = None
        """Why it ended with nothing to show."""
        self._asking = {key.action for key in table if key.asks}
        self.set_class(alphabet == "ascii", "-ascii")
        for ours in THEMES:
            self.register_theme(ours)
        self.theme = chosen(theme, None if self.no_color else self.console.color_system, self.available_themes)

    def get_driver_class(self) -> type[Driver]:
        """The terminal's driver, unless the user chose another."""
        found = super().get_driver_class()
        return QuickDriver if found is LinuxDriver else found

    async def on_event(self, event: events.Event) -> None:
        """Keys wait for the prompt that they are meant for."""
        if not (isinstance(event, events.Key) and self.typed.take(event)):
            await super().on_event(event)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key is for: what was said before makes way, what is typed after one that asks for text is text.

        Who leaves does nothing more: the screens are being taken down.
        """
        if self._exit:
            return True
        for screen in self.screen_stack[-1:]:
            for bar in screen.query_children(KeyBar):
                bar.hush()
        self.clear_notifications()
        if action in self._asking:
            self.typed.expect_prompt()
        return await super().run_action(action, default_namespace, namespaces)

    def fail(self, error: TracehoundError) -> None:
        """Leave, with nothing to show, and let the command line say why; who leaves already has seen enough."""
        if self.return_code is None:
            self.failure = error
            self.exit()

    @property
    def fault(self) -> Exception | None:
        """What ended it that should not have."""
        return self._exception

    def _handle_exception(self, error: Exception) -> None:
        """End, so that the command line can say why: Textual would show every frame with all that is in it.

        An error of what is not on the screen any more ends nothing.
        """
        if concerns_removed(error):
            self.log.warning(f"error of a removed widget: {error!r}")
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error.error if isinstance(error, WorkerFailed) else error  # type: ignore[assignment]
            self._exception_event.set()
        self._close_messages_no_wait()

    def on_mount(self) -> None:
        """After a stop, or an editor, the terminal may show anything, too."""
        self.app_resume_signal.subscribe(self, lambda _: self.action_repaint())
        if not self.is_headless:
            watch(self)

    def on_resize(self) -> None:
        """A terminal of another size may show anything."""
        self._forget()

    def pop_screen(self) -> AwaitComplete:
        """Leave the screen on top; of two keys in one burst that both leave it, the second leaves nothing."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def action_command_palette(self) -> None:
        """Show it, if it is not there."""
        if not any(isinstance(screen, Palette) for screen in self.screen_stack):
            self.push_screen(Palette())

    def search_themes(self) -> None:
        """Show the themes to choose from."""
        self.push_screen(Palette([ThemeProvider], "Search for themes"))

    def action_suspend_process(self) -> None:
        """Stop the whole job, workers and all, until a shell has it go on; where none can, nothing would ever."""
        if self._driver is None or not self._driver.can_suspend:
            return
        if os.getpgrp() == os.getsid(0):
            warn(self, ALONE)
            return
        self._suspend_signal()
        os.kill(0, signal.SIGTSTP)

    def action_repaint(self) -> None:
        """Draw everything again: something else may have written on the terminal."""
        self._forget()
        self.screen.refresh(layout=True)

    def _forget(self) -> None:
        """Take nothing for granted that the terminal shows."""
        if isinstance(self._driver, QuickDriver):
            self._driver.paper.forget()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send what differs from what the terminal shows: nothing where that is only where the cursor is already."""
        if not isinstance(self._driver, QuickDriver) or not isinstance(renderable, LayoutUpdate | ChopsUpdate):
            super()._display(screen, renderable)
        elif not self._batch_count:  # or it is drawn later, as a whole
            update = difference(renderable, self._driver.paper, screen.outer_size, self.console)
            if update.words or screen.outer_size.clamp_offset(self.cursor_position) != self._previous_cursor_position:
                super()._display(screen, update)  # type: ignore[arg-type]  # rendered as an update, not a renderable
