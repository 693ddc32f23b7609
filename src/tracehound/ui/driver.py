"""The terminal's driver, left without waiting.

Owns that: Textual waits for the thread that reads keys, which looks up every tenth of a second and then once more.
"""

from __future__ import annotations

import termios
from contextlib import suppress

from textual.drivers.linux_driver import LinuxDriver


class QuickDriver(LinuxDriver):
    """Textual's driver, but for the end of the program."""

    def disable_input(self) -> None:
        """Read no more keys; when the program ends, the thread that reads them ends by itself."""
        if self._app.return_code is None:
            super().disable_input()
        elif not self.exit_event.is_set():
            self.exit_event.set()
            self._disable_mouse_support()
            with suppress(termios.error):
                termios.tcflush(self.fileno, termios.TCIFLUSH)
