"""A signal and a touched file, which start recordings in a job that runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from threading import Thread

import pytest

from tracehound.recording.triggers import SignalWatch, TouchedFile


def test_a_file_counts_once_when_it_is_made_or_touched(tmp_path: Path) -> None:
    path = tmp_path / "go"
    file = TouchedFile(path)
    assert not file.was_touched()
    path.touch()
    assert file.was_touched()
    assert not file.was_touched()
    os.utime(path, ns=(0, 5))
    assert file.was_touched()
    path.unlink()
    assert not file.was_touched()
    path.touch()
    assert file.was_touched()


def test_a_file_that_was_there_before_counts_when_it_is_touched(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    file = TouchedFile(tmp_path / "go")
    assert not file.was_touched()
    os.utime(tmp_path / "go", ns=(0, 5))
    assert file.was_touched()


@pytest.fixture
def arrivals() -> list[str]:
    return []


def test_a_signal_reaches_the_handler_that_was_there_too(arrivals: list[str]) -> None:
    before = signal.signal(signal.SIGUSR2, lambda *_: arrivals.append("theirs"))
    try:
        watch = SignalWatch(signal.SIGUSR2, lambda: arrivals.append("ours"))
        signal.raise_signal(signal.SIGUSR2)
        assert arrivals == ["ours", "theirs"]
        watch.restore()
        signal.raise_signal(signal.SIGUSR2)
        assert arrivals == ["ours", "theirs", "theirs"]
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_another_thread_cannot_restore_a_handler_and_leaves_it(arrivals: list[str]) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    try:
        watch = SignalWatch(signal.SIGUSR2, lambda: arrivals.append("ours"))
        thread = Thread(target=watch.restore)
        thread.start()
        thread.join()
        signal.raise_signal(signal.SIGUSR2)
        assert arrivals == ["ours"]
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_handler_that_was_set_later_stays(arrivals: list[str]) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    try:
        watch = SignalWatch(signal.SIGUSR2, lambda: arrivals.append("ours"))
        signal.signal(signal.SIGUSR2, lambda *_: arrivals.append("theirs"))
        watch.restore()
        signal.raise_signal(signal.SIGUSR2)
        assert arrivals == ["theirs"]
    finally:
        signal.signal(signal.SIGUSR2, before)
