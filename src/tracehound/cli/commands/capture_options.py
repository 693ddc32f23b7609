"""Duration, tracer levels and options of a capture, from the command line."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from tracehound.capture.profiler_messages import TracerOptions, parse_trace_option
from tracehound.errors import TracehoundError

DEFAULT_DURATION_SECONDS: Final = 2.0
"""The time to record if none is named."""


def duration_seconds(options: Namespace) -> float:
    """The time to record."""
    return float(options.duration or DEFAULT_DURATION_SECONDS)


def refuse_empty_logdir(words: Sequence[str]) -> None:
    """Raise TracehoundError if the first of these words, the log folder, is empty."""
    if words and not words[0]:
        raise TracehoundError("LOGDIR is empty", remedy="a variable that is not set? . is this folder")


def parse_tracer_options(options: Namespace, usual: TracerOptions) -> TracerOptions:
    """The levels and options that the user chose, else the usual ones. Raises TracehoundError."""

    def level(chosen: int | None, otherwise: int) -> int:
        return otherwise if chosen is None else chosen

    return TracerOptions(
        level(options.host_tracer_level, usual.host_level),
        level(options.device_tracer_level, usual.device_level),
        level(options.python_tracer_level, usual.python_level),
        dict(map(parse_trace_option, options.option)),
    )
