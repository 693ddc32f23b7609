"""Leaving a screen that stands on others.

Owns that it is left once. Knows nothing of what is on it.
"""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import Screen

Answer = TypeVar("Answer")


class LeftOnce(Screen[Answer]):
    """A screen that goes when it is on top, and nothing else does in its place.

    Textual follows the first base alone for how a screen looks: another one that says that comes before this.
    """

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Give this answer, and go; what was asked for before it went, or under another screen, comes too late."""
        return super().dismiss(result) if self.is_active else AwaitComplete()
