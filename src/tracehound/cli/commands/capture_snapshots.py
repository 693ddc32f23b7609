"""Snapshots of a job that records all the time: ``tracehound capture --snapshot``."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tracehound.capture.capture_files import create_run_folder, save_profile
from tracehound.capture.continuous_capture import (
    DEFAULT_MAX_AGE,
    MAX_MEMORY_GROWTH,
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
from tracehound.cli.commands.snapshot_triggers import SnapshotTriggers, Trigger
from tracehound.errors import EXIT_BAD_INPUT, TracehoundError, printable
from tracehound.model.units import PS_PER_S, format_bytes, format_duration_in_words
from tracehound.system.stop_signals import exit_on_signals

_FATAL: Final = ("died", "none_running", "unreachable")
"""Failures after which no other snapshot can follow."""


def run_snapshots(addresses: Sequence[ServerAddress], logdir: Path, options: Namespace) -> int:
    """Record one server all the time, and save snapshots until the user ends it.

    Returns 1 if a snapshot failed or the recording could not be stopped, 2 if none was saved because of that.
    """
    if len(addresses) > 1:
        remedy = "run one command for each, or capture all of them without --snapshot"
        raise TracehoundError("snapshots are of one server", remedy=remedy)
    if options.duration:
        remedy = "--every 30s --count 1 ends after one snapshot, --max-age 30s keeps that much"
        raise TracehoundError("--duration is not for snapshots", remedy=remedy)
    (address,) = addresses
    tracers = parse_tracer_options(options, SNAPSHOT_TRACERS)
    capture = ContinuousCapture(address, tracers, options.timeout or 0.0)
    max_age = options.max_age or (None if options.every else DEFAULT_MAX_AGE)
    session = _SnapshotSession(capture, logdir, options, max_age)
    with exit_on_signals(), SnapshotTriggers(options.every, max_age) as triggers:
        if options.restart:
            stop_continuous_profiling(address)
        try:
            with suppress(KeyboardInterrupt), capture:
                session.run(triggers)  # Ctrl-C ends it
        finally:
            if capture.stop_problem:
                console.print_message(printable(f"{address}: {capture.stop_problem}"))
    if session.failed and not session.saved:
        return EXIT_BAD_INPUT
    return 1 if session.failed or capture.stop_problem else 0


class _SnapshotSession:
    """The snapshots of one recording: saves each, and prints what it has and what it lacks."""

    def __init__(self, capture: ContinuousCapture, logdir: Path, options: Namespace, max_age: float | None) -> None:
        self.saved = 0
        self.failed = False
        self._capture = capture
        self._logdir = logdir
        self._options = options
        self._max_age = max_age
        self._address = capture.address
        self._dropped: Snapshot | None = None
        self._warned = False

    def run(self, triggers: SnapshotTriggers) -> None:
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
                self._dropped = snapshot
                continue
            taken += 1
            self._show(taken, snapshot)
            if taken == self._options.count:
                return

    def _wait(self, triggers: SnapshotTriggers) -> Trigger:
        with console.capture_progress() as tell:
            begun = time.monotonic()
            while (trigger := triggers.poll()) is None:
                passed = time.monotonic() - begun
                tell(f"recording {self._address} for {passed:.0f} s (Enter: snapshot, q Enter or Ctrl-C: end)")
                if (growth := self._capture.memory_since_snapshot) > MAX_MEMORY_GROWTH:
                    self._warn_memory(growth)
                    triggers.restart_age()
                    return "drop"
            return trigger

    def _warn_memory(self, growth: int) -> None:
        """Say once that events are dropped earlier than the user expects."""
        if not self._warned:
            self._warned = True
            size = format_bytes(growth)
            console.print_message(f"the job's memory grew by {size}: from now on events are dropped when it does")

    def _show(self, number: int, snapshot: Snapshot) -> None:
        """Save a snapshot, and the one dropped before it if it is short; show the answers that the user chose."""
        parts = [(f"snapshot {number}", snapshot)]
        earlier, self._dropped = self._dropped, None
        if earlier is not None and 2 * snapshot.contents.seconds < earlier.contents.seconds:
            parts.insert(0, (f"snapshot {number}, the time before", earlier))
        recorded = [(title, part) for title, part in parts if part.contents.has_events]
        if not recorded:
            self.failed = True
            console.print_message(printable(f"{self._address}: snapshot {number} has no events: the job ran nothing"))
        for title, part in recorded:
            self._save(title, part)

    def _save(self, title: str, snapshot: Snapshot) -> None:
        """Save a snapshot, print what it has, and show the answer that the user chose."""
        folder = create_run_folder(self._logdir)
        try:
            save_profile(folder.profile_path(self._address), snapshot.reply.xspace)
        except OSError as error:
            raise TracehoundError(
                f"cannot be written: {(error.strerror or str(error)).lower()}", folder.path
            ) from error
        finally:
            folder.remove_if_empty()
        first = not self.saved
        self.saved += 1
        for line in () if self._options.quiet else snapshot_sentences(title, snapshot, self._address, first=first):
            console.print_message(printable(line))
        options = self._options
        if options.quiet or not (options.summary or options.findings or options.report):
            print_paths([str(folder.path)])
        else:
            show_answer([str(folder.path)], options)

    def _print_beginning(self, triggers: SnapshotTriggers) -> None:
        if not self._capture.can_stop:
            console.print_message(f"{self._address}: an older server, which may record until its job ends")
        if not self._options.quiet:
            how = "Enter takes a snapshot, q Enter ends it" if triggers.has_keyboard else "Ctrl-C ends it"
            kept = f"; events are kept for {self._max_age:g} s (--max-age)" if self._max_age else ""
            console.print_message(
                f"recording {self._address}: {how}; kill -USR1 {os.getpid()} takes a snapshot, too{kept}"
            )


def snapshot_sentences(title: str, snapshot: Snapshot, address: ServerAddress, *, first: bool) -> list[str]:
    """Sentences about a snapshot: its size and time, the time that is not recorded, and the job's memory."""
    size = format_bytes(len(snapshot.reply.xspace))
    span = f", {_seconds(snapshot.contents.seconds)} of {address}" if snapshot.contents.seconds else ""
    before = f"{_seconds(snapshot.blind_s)} before it and " if snapshot.blind_s is not None else ""
    sentences = [
        f"{title}: {size}{span}",
        f"not recorded: {before}at most {_seconds(snapshot.call_s)} after it, while the job packed it",
    ]
    if snapshot.memory is not None:
        growth = format_bytes(max(0, snapshot.memory))
        sentences.append(f"the job's memory had grown by {growth} since the recording began; --max-age bounds it")
    elif first:
        sentences.append(f"the job's memory cannot be seen from here: watch it on {address.host}; --max-age bounds it")
    return sentences


def _seconds(seconds: float) -> str:
    return format_duration_in_words(int(seconds * PS_PER_S))
