"""Keys that arrive before the pane or prompt they are meant for: typed fast, pasted, or all at once over a slow line.

Owns how long they wait and the order in which they go on. A key that shows a pane or asks for text needs a moment until
that has the focus; without this, what is typed next would be obeyed as keys of the pane that had it before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from textual.app import App
from textual.events import Key
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input

TURN_SECONDS = 0.01
"""Seconds between two looks at who has the focus."""

SETTLED_SECONDS = 2
"""Looks that must find it before the keys go on: until then some may still be on their way."""

MAX_WAIT = 40
"""Looks after which it is not to be expected any more."""

PANE_WAIT = 300
"""The same of a pane, which may have to be made first, while a trace is being read."""

MAX_KEYS = 100
"""Keys that may be on their way to a widget at a time; a terminal sends fewer while one is dealt with."""


LINE_FEED_KEY: Final = "ctrl+j"
"""Enter that is pressed before the terminal is in raw mode."""


def copy_key(key: Key) -> Key:
    """New event of a key, of the time at which it was pressed: keys that wait go on in that order."""
    copy = Key("enter", "\r") if key.key == LINE_FEED_KEY else Key(key.key, key.character)
    copy.time = key.time
    return copy


class TypeAhead:
    """Holds keys of an app back from `hold_keys_until` until what is expected is there."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._held: list[Key] = []
        self._again: list[Key] = []
        self._sent = deque[tuple[Key, Screen[object]]](maxlen=MAX_KEYS)
        self._timer: Timer | None = None
        self._there: Callable[[], bool] = self._prompt_has_focus
        self._looks = self._found = 0
        self._most_looks = MAX_WAIT

    @property
    def is_holding_keys(self) -> bool:
        """True while keys are held back."""
        return self._timer is not None

    def expect_prompt(self) -> None:
        """A prompt is about to open."""
        self.hold_keys_until(self._prompt_has_focus)

    def hold_keys_until(self, there: Callable[[], bool], most_looks: int = MAX_WAIT) -> None:
        """Something else is about to get the keys; `there` says whether it has them."""
        self._there, self._most_looks = there, most_looks
        self._looks = self._found = 0
        if self._timer is None:
            self._timer = self._app.set_interval(TURN_SECONDS, self._check_focus)

    def hold_or_redirect(self, key: Key) -> bool:
        """True if this key must wait, or was sent elsewhere while a prompt or a screen opened."""
        if self.is_holding_keys:
            key.stop()
            self._held.append(key)
            return True
        if not key.is_forwarded:
            self._sent.append((key, self._app.screen))
        elif self._overtaken(key):
            key.stop()
            self._app.post_message(copy_key(key))
            return True
        prompt = self._app.focused
        if not key.is_forwarded or not key.is_printable or not isinstance(prompt, Input) or key in self._again:
            self._again = [other for other in self._again if other is not key]
            return False
        copy = copy_key(key)
        self._again.append(copy)
        key.stop()
        prompt._forward_event(copy)  # noqa: SLF001, there is no other way to give a widget a key
        return True

    def _overtaken(self, key: Key) -> bool:
        """True if another screen opened over the one that this key was sent to."""
        stack = self._app.screen_stack
        return any(sent is key and screen in stack[:-1] for sent, screen in self._sent)

    def _prompt_has_focus(self) -> bool:
        return isinstance(self._app.focused, Input)

    def _check_focus(self) -> None:
        self._looks += 1
        self._found += self._there()
        if self._found < SETTLED_SECONDS and self._looks < self._most_looks:
            return
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        keys, self._held = sorted(self._held, key=lambda key: key.time), []
        for key in keys:
            self._app.post_message(copy_key(key))
