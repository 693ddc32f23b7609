"""Snapshots of a job that records all the time: ``tracehound capture --snapshot``."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Literal, Self, TextIO

from tracehound.capture.capture_files import create_run_folder, save_profile
from tracehound.capture.continuous_capture import (
    SNAPSHOT_TRACERS,
    ContinuousCapture,
    Snapshot,
    stop_continuous_profiling,
)
from tracehound.capture.profiler_client import ProfilerServerError
from tracehound.capture.server_address import ServerAddress
from tracehound.cli import console
from tracehound.cli.commands.capture_options import parse_tracer_options
from tracehound.cli.commands.captured_answer import print_paths, show_answer
from tracehound.errors import EXIT_BAD_INPUT, TracehoundError, printable
from tracehound.model.units import PS_PER_S, format_bytes, format_duration_in_words
from tracehound.system.stop_signals import exit_on_signals

Trigger = Literal["take", "drop", "end"]
"""The reason to fetch a snapshot: to save it, to forget old events, or to end."""

_POLL_SECONDS: Final = 0.2
"""Seconds between two looks at the keyboard and the clock."""

_FATAL: Final = ("died", "none_running", "unreachable")
"""Failures after which no other snapshot can follow."""


def run_snapshots(addresses: Sequence[ServerAddress], logdir: Path, options: Namespace) -> int:
    """Record one server all the time, and save snapshots until the user ends it.

    Returns 1 if a snapshot failed or the recording could not be stopped, 2 if none was saved because of that.
    """
    if len(addresses) > 1:
        remedy = "run one command for each, or capture all of them without --snapshot"
        raise TracehoundError("snapshots are of one server", remedy=remedy)
    (address,) = addresses
    tracers = parse_tracer_options(options, SNAPSHOT_TRACERS)
    capture = ContinuousCapture(address, tracers, options.timeout or 0.0)
    session = _SnapshotSession(capture, logdir, options)
    with exit_on_signals():
        if options.restart:
            stop_continuous_profiling(address)
        try:
            with suppress(KeyboardInterrupt), capture, _Triggers(options.every, options.max_age) as triggers:
                session.run(triggers)  # Ctrl-C ends it
        finally:
            if capture.stop_problem:
                console.print_message(printable(f"{address}: {capture.stop_problem}"))
    if session.failed and not session.saved:
        return EXIT_BAD_INPUT
    return 1 if session.failed or capture.stop_problem else 0


class _SnapshotSession:
    """The snapshots of one recording: saves each, and prints what it has and what it lacks."""

    def __init__(self, capture: ContinuousCapture, logdir: Path, options: Namespace) -> None:
        self.saved = 0
        self.failed = False
        self._capture = capture
        self._logdir = logdir
        self._options = options
        self._address = capture.address

    def run(self, triggers: _Triggers) -> None:
        """Take snapshots until the user or their number ends it, or the server is gone."""
        self._print_beginning(triggers)
        taken = 0
        while (trigger := self._wait(triggers)) != "end":
            try:
                snapshot = self._capture.take_snapshot()
            except ProfilerServerError as error:
                self.failed = True
                console.print_message(printable(f"{self._address}: no snapshot: {error}"))
                if error.failure in _FATAL:
                    return
                continue
            if trigger == "drop":
                continue
            taken += 1
            self._save(taken, snapshot)
            if taken == self._options.count:
                return

    def _wait(self, triggers: _Triggers) -> Trigger:
        with console.capture_progress() as tell:
            begun = time.monotonic()
            while (trigger := triggers.poll()) is None:
                passed = time.monotonic() - begun
                tell(f"recording {self._address} for {passed:.0f} s (Enter: snapshot, q or Ctrl-C: end)")
            return trigger

    def _save(self, number: int, snapshot: Snapshot) -> None:
        """Save a snapshot, print what it has, and show the answer that the user chose."""
        if not snapshot.contents.has_events:
            self.failed = True
            console.print_message(printable(f"{self._address}: snapshot {number} has no events: the job ran nothing"))
            return
        folder = create_run_folder(self._logdir)
        try:
            save_profile(folder.profile_path(self._address), snapshot.reply.xspace)
        except OSError as error:
            raise TracehoundError(
                f"cannot be written: {(error.strerror or str(error)).lower()}", folder.path
            ) from error
        finally:
            folder.remove_if_empty()
        self.saved += 1
        for line in () if self._options.quiet else snapshot_sentences(number, snapshot, self._address):
            console.print_message(printable(line))
        options = self._options
        if options.quiet or not (options.summary or options.findings or options.report):
            print_paths([str(folder.path)])
        else:
            show_answer([str(folder.path)], options)

    def _print_beginning(self, triggers: _Triggers) -> None:
        if not self._capture.can_stop:
            console.print_message(f"{self._address}: an older server, which may record until its job ends")
        if not self._options.quiet:
            how = "Enter takes a snapshot, q and Enter end it" if triggers.has_keyboard else "Ctrl-C ends it"
            console.print_message(f"recording {self._address}: {how}; kill -USR1 {os.getpid()} takes a snapshot, too")


def snapshot_sentences(number: int, snapshot: Snapshot, address: ServerAddress) -> list[str]:
    """Sentences about a snapshot: its size and time, the time that is not recorded, and the job's memory."""
    span = snapshot.contents.seconds
    size = format_bytes(len(snapshot.reply.xspace))
    before = f"{_seconds(snapshot.blind_s)} before it and " if snapshot.blind_s is not None else ""
    sentences = [
        f"snapshot {number}: {size}" + (f", the last {_seconds(span)} of {address}" if span else ""),
        f"not recorded: {before}at most {_seconds(snapshot.call_s)} after it, while the job packed it",
    ]
    if snapshot.memory is not None:
        growth = format_bytes(max(0, snapshot.memory))
        sentences.append(f"the job's memory has grown by {growth} since the recording began; --max-age bounds it")
    elif number == 1:
        sentences.append(f"the job's memory cannot be seen from here: watch it on {address.host}; --max-age bounds it")
    return sentences


def _seconds(seconds: float) -> str:
    return format_duration_in_words(int(seconds * PS_PER_S))


def _has_descriptor(stream: TextIO | None) -> bool:
    """True if a stream is an open file, which can be waited for."""
    with suppress(AttributeError, OSError, ValueError):
        return stream is not None and stream.fileno() >= 0
    return False


class _Triggers:
    """Reasons to fetch a snapshot: Enter, SIGUSR1 and the clock. A context in which the signal is caught."""

    def __init__(self, every: float | None, max_age: float | None) -> None:
        self._every, self._max_age = every, max_age
        self._signaled = False
        self.has_keyboard = _has_descriptor(sys.stdin)
        self._fetched = self._taken = time.monotonic()

    def __enter__(self) -> Self:
        """Catch SIGUSR1."""
        self._before = signal.signal(signal.SIGUSR1, self._note_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Handle SIGUSR1 as before."""
        signal.signal(signal.SIGUSR1, self._before)

    def poll(self) -> Trigger | None:
        """The next trigger; None if there is none within `_POLL_SECONDS`."""
        trigger = self._typed() or self._due()
        if trigger is not None:
            self._fetched = time.monotonic()
        if trigger == "take":
            self._taken = self._fetched
        return trigger

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._signaled = True

    def _due(self) -> Trigger | None:
        now = time.monotonic()
        if self._signaled or (self._every and now - self._taken >= self._every):
            self._signaled = False
            return "take"
        return "drop" if self._max_age and now - self._fetched >= self._max_age else None

    def _typed(self) -> Trigger | None:
        """The trigger of a line on stdin; waits for one for `_POLL_SECONDS`."""
        if not self.has_keyboard or not select.select([sys.stdin], [], [], _POLL_SECONDS)[0]:
            if not self.has_keyboard:
                time.sleep(_POLL_SECONDS)
            return None
        if sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            self.has_keyboard = False  # a background job that reads from the terminal would be stopped
            return None
        line = os.read(sys.stdin.fileno(), 1 << 10)
        if not line:
            self.has_keyboard = False
            return None
        return "end" if b"q" in line.lower() else "take"
