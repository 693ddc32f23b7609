"""Ending when the system says so: a job that is over (SIGTERM), a session that is closed (SIGHUP).

Owns that a command then ends as by an exception, so that what it has half made is removed on the way: without this the
process would end on the spot. The explorer, which has a terminal to give back, sees to that itself.
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
def heeding() -> Iterator[None]:
    """A context that SIGTERM and SIGHUP end with 128 and the number of the signal, as a shell has it: SystemExit.

    What was ignored when the program began stays ignored, as under nohup. Only the main thread may be told of signals.
    """
    main = threading.current_thread() is threading.main_thread()
    ours = [number for number in SIGNALS if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def as_usual() -> None:
    """Let them end this process on the spot again, which may be a copy of one that heeds them; ignored ones stay so."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # who closes a session tells of it more than once
    raise SystemExit(128 + number)
