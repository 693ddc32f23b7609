"""Ending cleanly on SIGTERM (the job is over) and SIGHUP (the terminal is closed).

A command then ends through an exception, so that its unfinished files are removed. The explorer restores the terminal
itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP raise SystemExit with 128 plus the number of the signal, as in a shell.

    Signals that were ignored at the start stay ignored, as under nohup. Works in the main thread only.
    """
    main = threading.current_thread() is threading.main_thread()
    ours = [number for number in SIGNALS if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _exit_for_signal)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def ignore_signals() -> Iterator[None]:
    """A context in which Ctrl-C, SIGTERM and SIGHUP do nothing: for what must be finished, and takes a bounded time.

    Works in the main thread only.
    """
    main = threading.current_thread() is threading.main_thread()
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, *SIGNALS) if main]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def restore_default_signals() -> None:
    """Let the signals end this process at once again, for a forked worker; ignored signals stay ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _exit_for_signal(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # closing a terminal sends it more than once
    raise SystemExit(128 + number)
