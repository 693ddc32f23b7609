"""Leaving a screen that stands on others.

Owns that it is left once, and that nothing happens on it afterwards. Knows nothing of what is on it.
"""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.message import Message

from tracehound.ui.screens.safe_screen import Answer, SafeScreen


class LeftOnce(SafeScreen[Answer]):
    """A screen that goes when it is on top, and nothing else does in its place.

    Textual follows the first base alone for how a screen looks: another one that says that comes before this.
    """

    _dismissed = False

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Give this answer, and go; what was asked for before it went, or under another screen, comes too late."""
        if not self.is_active:
            return AwaitComplete()
        self._dismissed = True
        return super().dismiss(result)

    async def _on_message(self, message: Message) -> None:
        """Obey no key, click or message from a widget that arrives after the screen was left.

        Those are the messages that go up from widget to widget; a screen needs the rest to be taken down.
        """
        if not (self._dismissed and message.bubble):
            await super()._on_message(message)
