"""Where an export goes: a file that appears whole or not at all, or stdout.

Owns what may be written over, and the words for a disk that is full. Knows no format.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl
from msgspec import Struct

from tracehound.errors import TracehoundError, printable
from tracehound.whole import whole

STDOUT: Final = "-"

_ENDS: Final = ("/", os.sep)


class Destination(Struct, frozen=True):
    """A file, or stdout (`path` is None); its folder is made when it is written. Made by `new` and `anyhow`."""

    path: Path | None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """What to write to. A file is written beside its place and takes it when all is written, else it is removed.

        Raises TracehoundError where it cannot be written.
        """
        if self.path is None:
            with _told(None):
                yield sys.stdout.buffer
                sys.stdout.buffer.flush()
            return
        with _told(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("wb") if _special(self.path) else whole(self.path) as file:
                yield file

    def refuse_old(self) -> None:
        """Raise TracehoundError where a file is there already."""
        if self.path is not None and self.path.exists() and not _special(self.path):
            raise TracehoundError("exists already", self.path, remedy="--force replaces it")

    def lies_in(self, folders: Iterable[Path]) -> bool:
        """Whether it is in one of these paths, or below."""
        if self.path is None:
            return False
        place = Path(os.path.realpath(self.path))
        return any(place.is_relative_to(folder.resolve()) for folder in folders)

    @property
    def name(self) -> str:
        """For people."""
        return "stdout" if self.path is None else printable(self.path.name)


def folder(word: str) -> Path | None:
    """The folder that a word names: one that is there, or that ends as only folders do."""
    path = Path(os.path.realpath(word))
    there = os.path.isdir(path)  # noqa: PTH112, pathlib's raises for a name that is too long
    return path if word not in ("", STDOUT) and (there or word.endswith(_ENDS)) else None


def new(word: str, inputs: Sequence[Path], within: Path | None = None) -> Destination:
    """The destination that a word names, where nothing is; ``-`` is stdout.

    Raises TracehoundError where it is a terminal, a folder, one of the files that are read, in no folder (unless it is
    `within` one that is to be made), or where a file is.
    """
    found = anyhow(word, inputs, within)
    found.refuse_old()
    return found


def anyhow(word: str, inputs: Sequence[Path], within: Path | None = None) -> Destination:
    """The destination that a word names, whatever file is there. Raises as `new` does for the rest."""
    if word == STDOUT:
        if sys.stdout.isatty():
            raise TracehoundError("stdout is a terminal", remedy="name a file, or send it on, as in - | less")
        return Destination(None)
    path = Path(word)  # as it is: what a pipe's name in /dev/fd leads to has no name of its own
    try:
        if path.is_dir():
            raise TracehoundError("is a folder; a trace is written to a file", path)
        if not (Path(os.path.realpath(path)).parent if within is None else within.parent).is_dir():
            raise TracehoundError("there is no such folder", path.parent if within is None else within.parent)
        if path.exists() and any(_same(path, source) for source in inputs):
            raise TracehoundError("is the trace that is read; write to another file", path)
    except OSError as error:
        raise _refused(error, path) from error
    return Destination(path)


def _same(path: Path, source: Path) -> bool:
    with suppress(OSError):
        return path.samefile(source)
    return False


def _special(path: Path) -> bool:
    """Whether it is a pipe or a device, which nothing can take the place of."""
    return path.exists() and not path.is_file()


@contextmanager
def _told(path: Path | None) -> Iterator[None]:
    """What goes wrong with writing is said in one line."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno == errno.EPIPE or f"os error {errno.EPIPE}" in str(error):
            raise BrokenPipeError from error
        raise _refused(error, path) from error
    except pl.exceptions.PolarsError as error:
        if f"os error {errno.EPIPE}" in str(error):
            raise BrokenPipeError from error
        if "os error" not in str(error) and not str(error).startswith("parquet: "):
            raise
        raise TracehoundError("cannot be written: is there no space left on device?", path) from error


def _refused(error: OSError, path: Path | None) -> TracehoundError:
    why = (error.strerror or str(error)).lower()
    return TracehoundError(f"cannot write to stdout: {why}" if path is None else f"cannot be written: {why}", path)
