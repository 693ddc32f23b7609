"""Ending when the system says so: a job that ends (SIGTERM, SIGINT, SIGUSR1, ...), a terminal that goes away.

Owns that this is leaving as with `q`: the terminal is given back, and what is remembered is written. What was ignored
when the program began stays ignored, as under nohup.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.app import App

END_SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
)
"""Each would end the process anyhow, on the spot: with the terminal as the explorer has it."""

LAST_SIGNALS = 10.0
"""Who was told to end has this long for it, in seconds: systems kill what takes longer, or nobody ever does."""

CHECK_SECONDS = 1.0
"""So often it is looked whether the terminal is still there."""


def end_on_signals(app: App[Any]) -> None:
    """Have the application end with 128 and the number of the signal, as a shell has it.

    The handlers stay until the process is gone: a terminal that goes away is told of more than once. Where that does
    not come to an end, the process does, after `LAST` seconds.
    """

    def leave(number: int, _: FrameType | None) -> None:
        status = 128 + number
        for each in (signal.SIGCONT, signal.SIGTTOU, signal.SIGTTIN):
            signal.signal(each, signal.SIG_IGN)
        last = threading.Timer(LAST_SIGNALS, os._exit, (status,))
        last.daemon = True
        last.start()
        if app._loop is not None:  # noqa: SLF001, Textual's: there is one while it runs
            app._loop.call_soon_threadsafe(app.exit, None, status)  # noqa: SLF001
        elif app.return_code is None:
            raise SystemExit(status)  # it has not begun

    for number in END_SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, leave)


def end_when_terminal_gone(app: App[Any]) -> None:
    """Have the application end when its terminal has gone away, even where SIGHUP is ignored: no key can reach it."""

    def look() -> None:
        if sys.__stdin__ is not None and _terminal_gone(sys.__stdin__.fileno()):
            app.exit(return_code=128 + signal.SIGHUP)

    app.set_interval(CHECK_SECONDS, look)


def _terminal_gone(terminal: int) -> bool:
    poll = select.poll()
    poll.register(terminal, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
