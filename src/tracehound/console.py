"""The streams of the process: data on stdout, in what it can show, and everything else on stderr.

Owns what they are and what a person at them sees. Knows no trace and no command.
"""

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

from tracehound.draw.table import UNLIMITED, Line
from tracehound.errors import TracehoundError
from tracehound.export import Tell
from tracehound.progress import SLOW, Progress, columns
from tracehound.report import Look, paint


def look(asked: Namespace) -> Look:
    """How wide text may be, and in which unit its times are."""
    if asked.width is None:
        return Look(columns(sys.stdout), asked.unit)
    return Look(asked.width or UNLIMITED, asked.unit)


def show(lines: Iterable[Line], asked: Namespace) -> None:
    """Lines to stdout, in what it can show. Raises TracehoundError when they cannot be written.

    Where nobody reads on the rest is left out: that is their right, and no word about what comes after.
    """
    text = getattr(asked, "format", "text") == "text"
    if text and alphabet(asked) == "ascii":
        lines = map(paint.ascii_of, lines)
    if not text and isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # data is the same whatever the locale; JSON is nothing else
    painter = paint.coloured if text and paint.colours(sys.stdout, os.environ) else paint.plainly
    with printing():
        paint.write(lines, sys.stdout, painter)


@contextmanager
def printing() -> Iterator[None]:
    """A context that prints to stdout, at the end of which all has arrived. Raises TracehoundError when it has not."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        forget()
    except OSError as error:
        forget()
        raise TracehoundError(f"cannot write to stdout: {(error.strerror or str(error)).lower()}") from error


def forget() -> None:
    """What is still buffered for stdout must not fail when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def alphabet(asked: Namespace) -> Literal["ascii", "unicode"]:
    """The characters that stdout can show, and that were asked for."""
    name = (sys.stdout.encoding or "").lower().replace("-", "").replace("_", "")
    shows = name in ("utf8", "utf16", "utf8sig") and not _in_c(sys.stdout)
    return "unicode" if shows and not asked.ascii else "ascii"


def _in_c(stream: TextIO) -> bool:
    """Whether a terminal is said to show ASCII alone, by LC_ALL=C: Python writes UTF-8 to it all the same.

    A LANG that is C, or none, says nothing of the terminal: so it is in many a container.
    """
    said = os.environ.get("LC_ALL") in ("C", "POSIX") and "PYTHONIOENCODING" not in os.environ
    return said and stream.isatty()


def interactive() -> bool:
    """Whether a person sits at a terminal that can be drawn on; where stderr goes does not matter."""
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams) and os.environ.get("TERM") not in (
        None,
        "dumb",
    )


def say(text: str) -> None:
    """One line to stderr."""
    with suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(f"tracehound: {text}\n")


@contextmanager
def searching(where: str, *, leaving: bool) -> Iterator[Callable[[int], None]]:
    """What is told how many files were looked at in a search, and shows it where somebody looks and it takes a while.

    Where `leaving`, q then ends the program, as it would the explorer that is about to begin: SystemExit.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    begun = time.monotonic()
    with Progress(sys.stderr) as progress, ExitStack() as typing:
        pressed: list[Callable[[], bool]] = []

        def tell(files: int) -> None:
            if time.monotonic() - begun < SLOW:
                return
            if leaving and not pressed:
                pressed.append(typing.enter_context(_keys()))
            if pressed and pressed[0]():
                raise SystemExit(0)
            progress.looking(where, files)

        yield tell


@contextmanager
def _keys() -> Iterator[Callable[[], bool]]:
    """What says whether q was pressed, on a terminal that waits for no line and shows nothing typed meanwhile."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield lambda: bool(select.select([sys.stdin], [], [], 0)[0]) and b"q" in os.read(sys.stdin.fileno(), 1 << 10)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


@contextmanager
def writing(name: str) -> Iterator[Tell]:
    """What is told how far the writing of a file is, which it shows where somebody looks."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    with Progress(sys.stderr) as progress:
        yield partial(progress.writing, name)
