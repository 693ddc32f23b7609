"""A pseudo-terminal with the real program in it, and the screen that the program drew."""

from __future__ import annotations

import os
import signal
import sys
import time
from tempfile import TemporaryDirectory
from types import TracebackType

import pexpect
import pyte

PATIENCE = 120.0
"""Seconds to wait for something to appear: a machine under load is slow, a screen that never comes is wrong."""

ESCAPE = 0.3
"""Seconds after which a program takes an escape character for the key itself."""


def _heed() -> None:
    """Ignore no signal: tests may run under nohup, or behind a shell's ``&``."""
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)


class Terminal:
    """Runs ``tracehound ARGS`` at a size, without configuration or memory; `screen` is what a person would see now.

    `before` is what a shell would read before that line, ``trap '' HUP;``, and `redirected` at its end: ``2>log``.
    """

    def __init__(
        self,
        *args: str,
        columns: int = 80,
        rows: int = 24,
        before: str = "",
        redirected: str = "",
        **environment: str,
    ) -> None:
        self.display = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.display)
        self.home = TemporaryDirectory()
        kept = {key: value for key, value in os.environ.items() if key in {"PATH", "HOME", "LANG", "PYTHONPATH"}}
        self.sent = 0
        self.child = pexpect.spawn(
            "/bin/sh",
            ["-c", f'{before} exec "$0" -m tracehound "$@" {redirected}', sys.executable, *args],
            dimensions=(rows, columns),
            env={
                **kept,
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "TEXTUAL_ANIMATIONS": "none",
                "XDG_STATE_HOME": self.home.name,
                "XDG_CONFIG_HOME": self.home.name,
                **environment,
            },
            preexec_fn=_heed,
            timeout=PATIENCE,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.child.close(force=True)
        except pexpect.ExceptionPexpect:  # it was killed, which a machine under load notices later
            self.child.wait()
        self.home.cleanup()

    def drain(self, seconds: float = 0.05) -> None:
        """Feed what the program has written to the screen, until it is silent for that long."""
        while True:
            try:
                data = self.child.read_nonblocking(1 << 16, timeout=seconds)
            except (pexpect.TIMEOUT, pexpect.EOF):
                return
            self.sent += len(data)
            self.stream.feed(data)

    @property
    def screen(self) -> str:
        """The lines of the screen."""
        self.drain()
        return "\n".join(line.rstrip() for line in self.display.display)

    def press(self, *keys: str) -> None:
        """Send keys, one after the other: characters, or names of `KEYS`."""
        for key in keys:
            self.child.send(KEYS.get(key, key))
            self.drain()
            if key == "escape":
                time.sleep(ESCAPE)  # else it and the next key are one: Alt and that key

    def wait_for(self, *texts: str) -> str:
        """The screen once it shows all of the texts; fails with the screen when it never does."""
        deadline = time.monotonic() + PATIENCE
        while True:
            screen = self.screen
            if all(text in screen for text in texts):
                return screen
            if time.monotonic() > deadline:
                missing = [text for text in texts if text not in screen]
                raise AssertionError(f"{missing} never appeared on\n{screen}")

    def ended(self) -> int | None:
        """The exit status, once the program has ended; None when it does not end in time."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.drain()
            if not self.child.isalive():
                return self.child.exitstatus
        return None


KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
}
