"""The thread behind the screen: the newest request counts, and closing waits for nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import polars as pl
import pytest

from exploring import PATIENCE
from tracehound.errors import TracehoundError
from tracehound.ui.background.background_thread import BackgroundThread


def finished(background: BackgroundThread) -> bool:
    end = time.monotonic() + PATIENCE
    while background.busy and time.monotonic() < end:
        time.sleep(0.005)
    return not background.busy


def test_only_the_newest_of_a_sort_is_done() -> None:
    background, gate, done = BackgroundThread(), threading.Event(), list[str]()
    background.submit("slow", lambda: done.append(str(gate.wait(PATIENCE))), pytest.fail)
    for name in ("a", "b", "c"):
        background.submit("sort", lambda name=name: done.append(name), pytest.fail)
    background.submit("other", lambda: done.append("other"), pytest.fail)
    assert background.busy
    gate.set()
    assert finished(background)
    assert done[0] == "True"
    assert done[1:] == ["c", "other"]


def test_closing_forgets_what_waits() -> None:
    background, gate, done = BackgroundThread(), threading.Event(), list[str]()
    background.submit("slow", lambda: done.append(str(gate.wait(PATIENCE))), pytest.fail)
    while background.busy and background._waiting:
        time.sleep(0.001)
    background.submit("late", lambda: done.append("late"), pytest.fail)
    background.close()
    gate.set()
    background._thread.join(PATIENCE)
    assert not background._thread.is_alive()
    assert done == ["True"]


def test_what_is_closed_does_nothing_any_more() -> None:
    background, done = BackgroundThread(), list[str]()
    background.close()
    background.submit("late", lambda: done.append("late"), pytest.fail)
    assert not background.busy
    assert background._thread.ident is None
    assert done == []


def raises(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("is\n\x1b[2Jgone"), "sort failed: OSError: is ␛[2Jgone"),
        (pl.exceptions.PanicException("index out of bounds"), "sort failed: PanicException: index out of bounds"),
        (KeyboardInterrupt(), "sort failed: KeyboardInterrupt: "),
        (TracehoundError("is damaged", Path("a.json"), remedy="mend it"), "a.json: is damaged; mend it"),
    ],
)
def test_work_that_fails_is_told_and_ends_nothing(error: BaseException, words: str) -> None:
    background, told = BackgroundThread(), list[str]()
    background.submit("sort", lambda: raises(error), told.append)
    background.submit("told to nobody", lambda: raises(error), lambda _: raises(OSError("nobody is there")))
    background.submit("next", lambda: told.append("done"), pytest.fail)
    assert finished(background)
    assert told == [words, "done"]
