"""The command ``capture``: record a running job through its profiler servers, and answer."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tracehound.capture.capture_files import RunFolder, create_run_folder
from tracehound.capture.profiler_client import import_grpc
from tracehound.capture.profiler_messages import TracerOptions
from tracehound.capture.remote_capture import (
    CapturePlan,
    CaptureProgress,
    ServerOutcome,
    capture_servers,
)
from tracehound.capture.server_address import ServerAddress, parse_addresses
from tracehound.capture.tpu_hosts import find_tpu_slice
from tracehound.cli import console
from tracehound.cli.commands.capture_options import duration_seconds, parse_tracer_options, refuse_empty_logdir
from tracehound.cli.commands.captured_answer import check_answer_options, show_saved
from tracehound.errors import EXIT_BAD_INPUT, TracehoundError, printable
from tracehound.model.units import count_noun, join_some
from tracehound.system.stop_signals import exit_on_signals

DEFAULT_LOGDIR: Final = Path("tracehound-captures")
"""The log folder if none is named, in the current folder."""

EXIT_SOME_FAILED: Final = 1
"""Exit status of a capture that has the profiles of some servers only."""

_USAGE: Final = "tracehound capture HOST:PORT[,HOST:PORT...] [LOGDIR]"


def run(options: Namespace) -> int:
    """Capture the job and show the answer; returns 1 if some servers failed, 2 if all did."""
    check_answer_options(options)
    if options.dynolog:
        _refuse_options(options, _XLA_OPTIONS, "is for profiler servers", "leave out --dynolog, or this option")
        from tracehound.cli.commands.capture_dynolog import run_dynolog  # noqa: PLC0415, it needs no gRPC

        return run_dynolog(DEFAULT_LOGDIR, options)
    _refuse_options(options, _DYNOLOG_OPTIONS, "is for PyTorch jobs", "add --dynolog HOST")
    addresses, logdir = _split_words(options)
    import_grpc()
    if not options.snapshot:
        _refuse_options(options, _SNAPSHOT_OPTIONS, "is for snapshots", "add --snapshot")
    _warn_plain_text(addresses)
    if options.snapshot:
        from tracehound.cli.commands.capture_snapshots import run_snapshots  # noqa: PLC0415, seldom needed

        return run_snapshots(addresses, logdir, options)
    plan = CapturePlan(
        addresses,
        round(duration_seconds(options) * 1000),
        parse_tracer_options(options, TracerOptions()),
        options.timeout or 0.0,
    )
    run_folder = create_run_folder(logdir)
    outcomes = _capture(plan, run_folder)
    print_outcomes(outcomes)
    saved = [outcome.path for outcome in outcomes if outcome.path]
    if not saved:
        return EXIT_BAD_INPUT
    code = show_saved("profile", saved, run_folder.path, options)
    return code or (EXIT_SOME_FAILED if len(saved) < len(outcomes) else 0)


def print_outcomes(outcomes: Sequence[ServerOutcome]) -> None:
    """Print a line for each server whose profile is missing or is not all that was wanted."""
    for outcome in outcomes:
        for text in (outcome.problem, *outcome.remarks):
            if text:
                console.print_message(printable(f"{outcome.address}: {text}"))


def _split_words(options: Namespace) -> tuple[tuple[ServerAddress, ...], Path]:
    """The servers and the log folder of a command line. Raises TracehoundError."""
    words = list[str](options.words)
    if options.tpu:
        if options.port is None:
            remedy = "--port 9999, the number that the job passed to start_server"
            raise TracehoundError("--tpu knows the hosts, not their port", remedy=remedy)
        addresses = _find_slice_addresses(options.port)
    elif not words:
        raise TracehoundError("capture which server?", remedy=_USAGE)
    else:
        addresses = parse_addresses(words.pop(0), options.port)
        if not addresses:
            raise TracehoundError("the list of servers is empty", remedy="a variable that is not set?")
    if len(words) > 1 or (words and ":" in words[0] and not os.path.lexists(words[0])):
        remedy = f"separate servers by commas: {_USAGE}"
        raise TracehoundError(f"{printable(words[0])} is no log folder", remedy=remedy)
    refuse_empty_logdir(words)
    return addresses, Path(words[0]) if words else DEFAULT_LOGDIR


def _find_slice_addresses(port: int) -> tuple[ServerAddress, ...]:
    """The servers of this machine's TPU slice; prints where their names come from."""
    found = find_tpu_slice()
    message = f"{count_noun(len(found.hosts), 'host')} of this TPU slice, from {found.source}"
    if found.slices > 1:
        message += f"; the job has {found.slices} slices, capture each from one of its own hosts"
    console.print_message(printable(message))
    return found.addresses(port)


_SNAPSHOT_OPTIONS: Final = ("every", "max_age", "count", "restart")
_XLA_OPTIONS: Final = (
    "port",
    "tpu",
    "host_tracer_level",
    "device_tracer_level",
    "python_tracer_level",
    "option",
    "snapshot",
    *_SNAPSHOT_OPTIONS,
)
_DYNOLOG_OPTIONS: Final = ("pid", "job_id", "iterations", "record")


def _refuse_options(options: Namespace, names: Sequence[str], why: str, remedy: str) -> None:
    """Raise TracehoundError if one of these options is given."""
    for name in names:
        value = getattr(options, name)
        if value is not None and value is not False and value not in ("", []):
            raise TracehoundError(f"--{name.replace('_', '-')} {why}", remedy=remedy)


def _warn_plain_text(addresses: Sequence[ServerAddress]) -> None:
    """Warn once if a profile crosses a network, which nothing protects."""
    remote = next((address for address in addresses if not address.is_loopback), None)
    if remote is not None:
        port = remote.port
        console.print_message(
            printable(
                f"the connection to {remote.host} is not encrypted, and whoever reaches the port can record; safer:"
                f" ssh -L {port}:localhost:{port} {remote.host}, then capture localhost:{port}"
            )
        )


def _capture(plan: CapturePlan, folder: RunFolder) -> list[ServerOutcome]:
    """Capture all servers, with the progress on a terminal."""
    try:
        with exit_on_signals(), console.capture_progress() as tell:
            return capture_servers(plan, folder, lambda progress: tell(progress_sentence(plan, progress)))
    finally:
        folder.remove_if_empty()


_MAX_NAMES: Final = 3
"""So many servers are named in the progress."""


def progress_sentence(plan: CapturePlan, progress: CaptureProgress) -> str:
    """The progress of a capture in words: who is recorded, who packs the profile, and who is busy with another one."""
    left = [str(address) for address, state in progress.states.items() if state != "done"]
    busy = [str(address) for address, state in progress.states.items() if state == "busy"]
    duration = plan.duration_ms / 1000
    if busy:
        return f"{join_some(busy, _MAX_NAMES)}: another capture runs there, trying again (Ctrl-C gives up)"
    names = join_some(left, _MAX_NAMES)
    if progress.ending:
        return f"ending early: waiting for the profile of {names} (Ctrl-C again gives it up)"
    if progress.seconds < duration:
        return (
            f"recording {names}: {max(0.0, progress.seconds):.1f} of {duration:g} s (Ctrl-C ends early, and keeps it)"
        )
    return f"waiting for the profile of {names}: {progress.seconds - duration:.1f} s"
