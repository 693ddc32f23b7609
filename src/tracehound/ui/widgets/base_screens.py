"""Base classes of all screens: tolerance of removed widgets, dismissal, dialogs with text or a list.

Workers, timers, callbacks and messages of a widget may run after it is removed, and then fail: Textual removes widgets
one by one, so that some are missing already. Such an error concerns nothing on the screen and must not end the program.
"""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, Final, Literal, TypeVar

from textual._callback import invoke
from textual._context import active_message_pump
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.errors import NoWidget
from textual.events import Click, Key
from textual.geometry import Offset, Region
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen
from textual.types import CallbackType
from textual.widget import Widget
from textual.widgets import OptionList
from textual.worker import WorkerFailed, active_worker

from tracehound.draw.glyphs import Glyphs
from tracehound.ui.terminal.type_ahead import copy_key
from tracehound.ui.widgets.boxes_and_scroll_bars import simplify_scroll_bars

ScreenResult = TypeVar("ScreenResult")


def is_removed(pump: MessagePump) -> bool:
    """True when a widget or a screen is no longer part of the application, or is about to be removed."""
    node: MessagePump | None = pump
    while node is not None and not isinstance(node, App):
        if node._closing or node._closed:  # noqa: SLF001, Textual has no public name for it
            return True
        if isinstance(node, Screen):
            return node not in node.app.screen_stack
        node = node._parent  # noqa: SLF001, as above
    return node is None


def comes_from_removed_widget(error: Exception) -> bool:
    """True when an error that was just raised comes from work for a removed widget or screen."""
    worker = active_worker.get(None) if isinstance(error, WorkerFailed) else None
    pump = active_message_pump.get(None) if worker is None else worker.node
    return pump is not None and is_removed(pump)


class SafeScreen(Screen[ScreenResult]):
    """Screen that survives callbacks and clicks of removed widgets, and clicks before its widgets are laid out."""

    def get_widget_at(self, x: int, y: int) -> tuple[Widget, Region]:
        """Widget at a point; the screen itself if none is laid out yet after a resize."""
        try:
            return super().get_widget_at(x, y)
        except NoWidget:
            return self, self.region

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Widget at a point and the offset in its text; None if that widget is removed."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        removed = widget is not None and widget is not self and widget.parent is None
        return (None, None) if removed else (widget, offset)

    def _invoke_later(self, callback: CallbackType, sender: MessagePump) -> None:
        """Call back after the next refresh.

        Errors of a removed widget are ignored here: the screen makes the call, so they would end it.
        """
        pump = active_message_pump.get()

        async def call() -> None:
            try:
                await invoke(callback)
            except Exception:
                if not is_removed(pump):
                    raise

        super()._invoke_later(call, sender)


class DismissOnceScreen(SafeScreen[ScreenResult]):
    """Screen that can be dismissed only once, and only while it is on top.

    Textual takes the looks of a screen from its first base alone: a base with looks comes before this one.
    """

    _dismissed = False

    def dismiss(self, result: ScreenResult | None = None) -> AwaitComplete:
        """Return the result and close the screen. Ignored if the screen is covered or already closed."""
        if not self.is_active:
            return AwaitComplete()
        self._dismissed = True
        return super().dismiss(result)

    async def _on_message(self, message: Message) -> None:
        """Ignore clicks and messages of widgets that arrive after the dismissal; keys are meant for the screen below.

        These are the messages that bubble; the others are needed to remove the screen.
        """
        if not (self._dismissed and message.bubble):
            await super()._on_message(message)
        elif isinstance(message, Key):
            self.app.post_message(copy_key(message))


DIALOG_WIDTH: Final = 90
"""Default width of a dialog in cells."""

FRAME_CELLS: Final = 5
"""Cells of that which the frame, the padding and a scroll bar take."""


class DialogScreen(ModalScreen[ScreenResult], DismissOnceScreen[ScreenResult]):
    """Box in the middle of the screen, as high as its content."""

    DEFAULT_CSS = f"""
    DialogScreen {{ align: center middle; background: $background 60%; }}
    DialogScreen > Vertical {{
        width: {DIALOG_WIDTH}; max-width: 100%; height: auto; max-height: 90%; padding: 0 1;
        background: $panel; border: round $primary; border-title-color: $primary;
    }}
    DialogScreen Label {{ color: $text-muted; }}
    """


class TextDialog(DialogScreen[None]):
    """Dialog with text, which scrolls if it is too long."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close", tooltip="Back to the explorer", id="page.close"),
        Binding("down,j,s", "scroll(1)", show=False, tooltip="A line down", id="page.down"),
        Binding("up,k,w", "scroll(-1)", show=False, tooltip="A line up", id="page.up"),
        Binding("pagedown,space", "page(1)", show=False, tooltip="A page down", id="page.page_down"),
        Binding("pageup", "page(-1)", show=False, tooltip="A page up", id="page.page_up"),
        Binding("home,g", "first", show=False, tooltip="To the top", id="page.first"),
        Binding("end,G", "last", show=False, tooltip="To the end", id="page.last"),
    ]
    DEFAULT_CSS = """
    TextDialog VerticalScroll { scrollbar-size-vertical: 1; background: $panel; }
    TextDialog Static { width: 1fr; height: auto; padding-right: 1; }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.page = VerticalScroll(can_focus=False)
        self._glyphs = glyphs

    def on_mount(self) -> None:
        """Adapt the scroll bars to the alphabet."""
        simplify_scroll_bars(self.page, self._glyphs)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.page.scroll_relative(y=lines, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by pages."""
        self.action_scroll(by * max(1, self.page.size.height - 1))

    def action_first(self) -> None:
        """Scroll to the top."""
        self.page.scroll_home(animate=False)

    def action_last(self) -> None:
        """Scroll to the end."""
        self.page.scroll_end(animate=False)


class SafeOptionList(OptionList):
    """List that tolerates keys and clicks before it is laid out, or after its options have changed."""

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        with suppress(KeyError):  # for an option that is not laid out
            super()._move_page(direction)

    async def _on_click(self, event: Click) -> None:
        """Ignore a click on an option that no longer exists; Textual handles the rest."""
        if event.style.meta.get("option", -1) >= self.option_count:
            event.prevent_default()


class ListDialog(DialogScreen[ScreenResult]):
    """Dialog with a list of options, which subclasses fill when it is mounted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,s", "move(1)", show=False, tooltip="Next line", id="list.down"),
        Binding("k,w", "move(-1)", show=False, tooltip="Line before", id="list.up"),
    ]
    DEFAULT_CSS = """
    ListDialog OptionList, ListDialog OptionList:focus {
        height: auto; max-height: 1fr; border: none; padding: 0; background: $panel; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.options = SafeOptionList(markup=False)
        self._glyphs = glyphs

    @property
    def room(self) -> int:
        """Width of a line in cells."""
        return max(24, min(DIALOG_WIDTH, self.app.size.width) - FRAME_CELLS)

    def on_mount(self) -> None:
        """Adapt the scroll bars to the alphabet, and focus the first option."""
        simplify_scroll_bars(self.options, self._glyphs)
        self.options.focus()
        self.options.highlighted = 0

    def action_move(self, by: int) -> None:
        """Move the cursor by one option."""
        (self.options.action_cursor_down if by > 0 else self.options.action_cursor_up)()
