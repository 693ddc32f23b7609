"""Signals that end a command, in a real process: what it says to who started it, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from short import first
from tracehound.system.stop_signals import SIGNALS, exit_on_signals, ignore_signals, restore_default_signals


@contextmanager
def exporting(
    samples: Path, tmp_path: Path, handling: signal.Handlers, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """An export that has read its trace and waits for a reader of ``tmp_path/pipe``."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "scratch").mkdir()
    trace = next((samples / "torch_ddp_gloo").glob("*.json*"))
    arguments = ["export", *options, "--format", "csv", str(trace), str(tmp_path / "pipe")]
    with subprocess.Popen(
        [sys.executable, "-m", "tracehound", *arguments],
        env={**os.environ, "TMPDIR": str(tmp_path / "scratch"), "TRACEHOUND_CACHE": str(tmp_path / "kept")},
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=partial(signal.signal, signal.SIGHUP, handling),  # noqa: PLW1509, it sets a handler and no more
    ) as running:
        while not left(tmp_path) and running.poll() is None:
            time.sleep(0.02)
        time.sleep(0.3)
        yield running
        running.kill()


def left(tmp_path: Path) -> list[Path]:
    """What a run has made for itself alone."""
    return [*tmp_path.glob("scratch/*"), *tmp_path.glob("kept/sessions/*"), *tmp_path.glob("kept/work/*")]


@pytest.mark.parametrize("options", first(1, ([], ["--no-cache"])))
@pytest.mark.parametrize("number", first(1, SIGNALS))
def test_a_command_that_is_ended_leaves_nothing(
    number: signal.Signals, options: list[str], samples: Path, tmp_path: Path
) -> None:
    with exporting(samples, tmp_path, signal.SIG_DFL, *options) as running:
        assert left(tmp_path)
        running.send_signal(number)
        assert running.wait(600) == 128 + number
        assert running.stderr is not None
        assert running.stderr.read() == ""
    assert left(tmp_path) == []


@pytest.mark.thorough
def test_a_hangup_that_is_ignored_stays_ignored(samples: Path, tmp_path: Path) -> None:
    with exporting(samples, tmp_path, signal.SIG_IGN) as running:
        running.send_signal(signal.SIGHUP)
        assert (tmp_path / "pipe").read_text("utf-8").count("\n") > 1
        assert running.wait(600) == 0


def test_afterwards_all_is_as_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with exit_on_signals():
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_what_must_be_finished_is_not_interrupted() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, *SIGNALS)]
    with ignore_signals():
        for number in (signal.SIGINT, *SIGNALS):
            signal.raise_signal(number)
    assert [signal.getsignal(number) for number in (signal.SIGINT, *SIGNALS)] == before


def test_a_worker_ends_on_the_spot() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        restore_default_signals()
        assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_DFL, signal.SIG_IGN]
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
