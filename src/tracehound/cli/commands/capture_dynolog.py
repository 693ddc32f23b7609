"""On-demand captures of PyTorch jobs: ``tracehound capture --dynolog``."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tracehound.capture.capture_files import RunFolder, create_run_folder
from tracehound.capture.dynolog import DEFAULT_PORT, ProcessFilter
from tracehound.capture.kineto_files import DETAILS, TraceWatch
from tracehound.capture.on_demand_capture import (
    OnDemandPlan,
    ProcessOutcome,
    TriggeredTraces,
    collect_traces,
    count_processes,
    create_write_folder,
    expected_paths,
    trigger_traces,
)
from tracehound.capture.server_address import parse_address
from tracehound.cli import console
from tracehound.cli.commands.capture_options import duration_seconds, refuse_empty_logdir
from tracehound.cli.commands.captured_answer import show_saved
from tracehound.errors import EXIT_BAD_INPUT, TracehoundError, printable
from tracehound.model.units import count_noun, join_some
from tracehound.system.stop_signals import exit_on_signals

DEFAULT_FOLDER: Final = Path("/tmp")  # noqa: S108, every machine has it, and Kineto may write nowhere else
"""The folder into which processes write if no log folder is named."""

MAX_DURATION_SECONDS: Final = 3600
"""A longer trace fits into no memory."""

_MAX_NAMES: Final = 4
"""So many processes or files are named in a sentence."""


def run_dynolog(default_logdir: Path, options: Namespace) -> int:
    """Capture the processes and show the answer; returns 1 if some gave no trace or are busy, 2 if none did."""
    plan = parse_plan(options, os.environ)
    processes = count_processes(plan)
    create_write_folder(plan.folder)  # before the folder of the run, which is removed if nothing has come by then
    run = create_run_folder(Path(options.words[0]) if options.words else default_logdir)
    try:
        triggered = trigger_traces(plan, processes)
        if triggered.found.busy or not options.quiet:
            console.print_message(printable(f"dynolog at {plan.address}: {triggered.found}"))
        outcomes = _collect(triggered, run)
    finally:
        run.remove_if_empty()
    saved = [outcome.path for outcome in outcomes if outcome.path]
    for outcome in outcomes:
        if outcome.problem:
            console.print_message(printable(f"process {outcome.pid}: {outcome.problem}"))
    if not saved:
        return EXIT_BAD_INPUT
    code = show_saved("trace", saved, run.path, options)
    return code or (1 if len(saved) < len(triggered.found.matched) else 0)


def parse_plan(options: Namespace, environment: Mapping[str, str]) -> OnDemandPlan:
    """The capture that a command line describes. Raises TracehoundError."""
    words: list[str] = options.words
    if len(words) > 1:
        raise TracehoundError(f"{printable(words[1])} is one word too many", remedy="--dynolog takes a LOGDIR alone")
    refuse_empty_logdir(words)
    if duration_seconds(options) > MAX_DURATION_SECONDS:
        message = f"--duration is at most {MAX_DURATION_SECONDS}s, as Kineto holds the trace in memory"
        raise TracehoundError(message, remedy="seconds are enough for most questions")
    return OnDemandPlan(
        parse_address(options.dynolog, DEFAULT_PORT),
        Path(os.path.abspath(words[0])) if words else DEFAULT_FOLDER,  # noqa: PTH100, links are kept
        max(1, round(duration_seconds(options) * 1000)),
        options.iterations or 0,
        ProcessFilter(tuple(options.pid), _job_id(options, environment)),
        _details(options.record),
        options.timeout or 0.0,
    )


def _job_id(options: Namespace, environment: Mapping[str, str]) -> int:
    """The job of the processes: the named one, else that of this shell under SLURM, else 0."""
    if options.job_id is not None:
        return int(options.job_id)
    own = environment.get("SLURM_JOB_ID", "")
    return int(own) if own.isascii() and own.isdigit() and len(own) < 10 else 0


def _details(text: str) -> tuple[str, ...]:
    """The details that a list such as ``shapes,stacks`` names. Raises TracehoundError."""
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for name in names:
        if name not in DETAILS:
            remedy = f"--record takes {', '.join(DETAILS)}"
            raise TracehoundError(f"PyTorch records no {printable(name)!r} on demand", remedy=remedy)
    return names


def _collect(triggered: TriggeredTraces, run: RunFolder) -> list[ProcessOutcome]:
    """Wait for the files, with the progress on a terminal. Ctrl-C ends the wait; the processes record all the same."""
    try:
        with exit_on_signals(), console.capture_progress() as tell:
            return collect_traces(
                triggered,
                run,
                lambda waited, watches: tell(progress_sentence(triggered.start_s - time.time(), waited, watches)),
            )
    except KeyboardInterrupt:
        paths = join_some([str(path) for path in expected_paths(triggered.watches)], _MAX_NAMES)
        console.print_message(printable(f"no longer waiting; the traces will be {paths}"))
        raise


def progress_sentence(until_start: float, waited: float, watches: Sequence[TraceWatch]) -> str:
    """The progress of a capture in words; `until_start` is in seconds, not above 0 if there is no common start."""
    pending = [watch for watch in watches if watch.is_open]
    noun = "process" if len(pending) == 1 else "processes"
    names = f"{noun} {join_some([str(watch.pid) for watch in pending], _MAX_NAMES)}"
    if until_start > 0:
        doing = f"{count_noun(len(watches), 'process', 'processes')} begin to record in {until_start:.0f} s"
    elif any(watch.state == "recording" for watch in pending):
        doing = f"{names}: recording or writing, {waited:.1f} s"
    else:
        doing = f"{names}: waiting for the recording to begin, {waited:.1f} s"
    return f"{doing} (Ctrl-C ends the wait)"
