"""The standard streams: results on stdout, in characters that it can show; messages and progress on stderr."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from typing import Literal, TextIO

from tracehound.draw.text_table import UNLIMITED_WIDTH, TextLine
from tracehound.errors import TracehoundError
from tracehound.export import ReportProgress
from tracehound.progress_line import MIN_SEARCH_SECONDS, ProgressLine, terminal_width
from tracehound.report import ReportStyle, report_output


def text_report_style(options: Namespace) -> ReportStyle:
    """The width of text and the unit of its times, from the options or the terminal."""
    width = terminal_width(sys.stdout) if options.width is None else options.width or UNLIMITED_WIDTH
    return ReportStyle(width, options.unit, all_notes=options.notes)


def print_lines(lines: Iterable[TextLine], options: Namespace) -> None:
    """Print lines to stdout, in characters that it can show. Raises TracehoundError if they cannot be written.

    If the reader of a pipe ends early, the rest is silently dropped.
    """
    text = getattr(options, "format", "text") == "text"
    if text and stdout_alphabet(options) == "ascii":
        lines = map(report_output.ascii_line, lines)
    if not text and isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # data does not depend on the locale; JSON is always UTF-8
    painter = (
        report_output.colored_text
        if text and report_output.wants_color(sys.stdout, os.environ)
        else report_output.plain_text
    )
    with flushed_stdout():
        report_output.write_lines(lines, sys.stdout, painter)


@contextmanager
def flushed_stdout() -> Iterator[None]:
    """A context for printing that flushes stdout at its end. Raises TracehoundError if that fails."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
    except OSError as error:
        discard_stdout()
        raise TracehoundError(f"cannot write to stdout: {(error.strerror or str(error)).lower()}") from error


def discard_stdout() -> None:
    """Send everything still buffered for stdout to /dev/null, so that the interpreter's exit cannot fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout_alphabet(options: Namespace) -> Literal["ascii", "unicode"]:
    """The characters to use on stdout: "ascii" if it cannot show more or ``--ascii`` is given, else "unicode"."""
    name = (sys.stdout.encoding or "").lower().replace("-", "").replace("_", "")
    shows = name in ("utf8", "utf16", "utf8sig") and not _is_c_locale_terminal(sys.stdout)
    return "unicode" if shows and not options.ascii else "ascii"


def _is_c_locale_terminal(stream: TextIO) -> bool:
    """True for a terminal with LC_ALL=C, which shows ASCII alone although Python writes UTF-8 to it.

    LANG=C, or no LANG, says nothing about the terminal: many containers have it.
    """
    said = os.environ.get("LC_ALL") in ("C", "POSIX") and "PYTHONIOENCODING" not in os.environ
    return said and stream.isatty()


def is_interactive() -> bool:
    """True if stdin and stdout are a terminal that can be drawn on; stderr does not matter."""
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams) and os.environ.get("TERM") not in (
        None,
        "dumb",
    )


def print_message(text: str) -> None:
    """Print one line to stderr; URLs in it without what may be a password."""
    if "://" in text:
        from tracehound.remote.redaction import redact  # noqa: PLC0415, only for URLs

        text = redact(text)
    with suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(f"tracehound: {text}\n")


@contextmanager
def search_progress(where: str, *, leaving: bool) -> Iterator[Callable[[int], None]]:
    """A context that gives a callback for the number of files searched; shows it on a terminal once the search is slow.

    With `leaving`, the key q raises SystemExit, as it would end the explorer that is about to start.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    begun = time.monotonic()
    with ProgressLine(sys.stderr) as progress, ExitStack() as typing:
        pressed: list[Callable[[], bool]] = []

        def tell(files: int) -> None:
            if time.monotonic() - begun < MIN_SEARCH_SECONDS:
                return
            if leaving and not pressed:
                pressed.append(typing.enter_context(_quit_key_pressed()))
            if pressed and pressed[0]():
                raise SystemExit(0)
            progress.show_search(where, files)

        yield tell


@contextmanager
def _quit_key_pressed() -> Iterator[Callable[[], bool]]:
    """A context that gives a function: True if q was pressed. The terminal waits for no line and does not echo."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield lambda: bool(select.select([sys.stdin], [], [], 0)[0]) and b"q" in os.read(sys.stdin.fileno(), 1 << 10)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


@contextmanager
def writing_progress(name: str) -> Iterator[ReportProgress]:
    """A context that gives a callback for the fraction of a file that is written; shows it on a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    with ProgressLine(sys.stderr) as progress:
        yield partial(progress.show_writing, name)


@contextmanager
def capture_progress() -> Iterator[Callable[[str], None]]:
    """A context that gives a callback for sentences about a capture; shows the latest on a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    with ProgressLine(sys.stderr) as progress:
        yield progress.show_sentence
