"""Screens that outlast errors of removed widgets.

Workers, timers, callbacks and messages of a widget may run after it is removed, and then fail: Textual removes widgets
one by one, so that they find some of them gone. Owns how to know such an error: it concerns nothing on the screen, and
the program need not end for it.
"""

from __future__ import annotations

from typing import TypeVar

from textual._callback import invoke
from textual._context import active_message_pump
from textual.app import App
from textual.errors import NoWidget
from textual.geometry import Offset, Region
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.types import CallbackType
from textual.widget import Widget
from textual.worker import WorkerFailed, active_worker

Answer = TypeVar("Answer")


def is_removed(pump: MessagePump) -> bool:
    """True when a widget or a screen is no longer part of the application, or is about to be removed."""
    node: MessagePump | None = pump
    while node is not None and not isinstance(node, App):
        if node._closing or node._closed:  # noqa: SLF001, Textual's: there is no other way to ask
            return True
        if isinstance(node, Screen):
            return node not in node.app.screen_stack
        node = node._parent  # noqa: SLF001, the same
    return node is None


def concerns_removed(error: Exception) -> bool:
    """True when an error that was just raised comes from work for a removed widget or screen."""
    worker = active_worker.get(None) if isinstance(error, WorkerFailed) else None
    pump = active_message_pump.get(None) if worker is None else worker.node
    return pump is not None and is_removed(pump)


class SafeScreen(Screen[Answer]):
    """A screen that outlasts callbacks and clicks of removed widgets, and clicks before its widgets are laid out."""

    def get_widget_at(self, x: int, y: int) -> tuple[Widget, Region]:
        """The widget under a point; the screen itself, where none is laid out yet since the terminal was resized."""
        try:
            return super().get_widget_at(x, y)
        except NoWidget:
            return self, self.region

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """The widget under a point and the place in its text; none where the widget that is drawn there is removed."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        removed = widget is not None and widget is not self and widget.parent is None
        return (None, None) if removed else (widget, offset)

    def _invoke_later(self, callback: CallbackType, sender: MessagePump) -> None:
        """Call back after the next refresh; the screen calls, so an error of a removed widget would end the screen."""
        pump = active_message_pump.get()

        async def call() -> None:
            try:
                await invoke(callback)
            except Exception:
                if not is_removed(pump):
                    raise

        super()._invoke_later(call, sender)
