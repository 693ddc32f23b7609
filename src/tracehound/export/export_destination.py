"""The destination of an export: a file, a folder with one file for each trace file, or stdout.

A file appears complete or not at all. The rules for replacing files, the names in a folder, and the messages for a full
disk are here; no format is.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.errors import TracehoundError, is_url_path, path_text, printable
from tracehound.model.trace import Trace, Window
from tracehound.system.atomic_file import atomic_write

FOLDER_FORMAT: Final = "json.gz"
"""The format in a folder unless another one is asked for."""

_TRACE_SUFFIXES: Final = (".gz", ".json", ".pb", ".xplane")
"""Suffixes of trace names, from behind."""


def output_paths(files: Sequence[Path], suffix: str) -> list[Path]:
    """A path for each of these files, relative to the folder that is written, all different.

    A file keeps its name, without the suffixes of its encoding; where only those differ, the whole name. It is put in a
    folder with its own folder's name where such folders differ by numbers (``r0``, ``r1``), which may be those of
    ranks. Otherwise subfolders would be read as other runs, so names of folders come before the file's name where that
    is not unique.
    """
    whole = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100, links stay what they are called
    above = os.path.commonpath([file.parent for file in whole]) if whole else ""
    places = [file.relative_to(above) for file in whole]
    if not _folders_differ_by_number(places):
        places = _flat_names(places)
    short = [place.with_name(_name_without_suffixes(place.name) + suffix) for place in places]
    alike = Counter(short)
    named = [
        brief if alike[brief] == 1 else place.with_name(place.name + suffix)
        for brief, place in zip(short, places, strict=True)
    ]
    if len(set(named)) == len(named):
        return named
    return [name.with_name(f"{number}-{name.name}") for number, name in enumerate(named)]


def ranks_by_part(trace: Trace, window: Window) -> dict[int, tuple[int, ...]]:
    """The numbers of the parts that have ranks of the window, and these ranks."""
    found = dict[int, tuple[int, ...]]()
    for rank, host in trace.ranks.select("rank", "host").sort("rank").iter_rows():
        if window.ranks is None or rank in window.ranks:
            number = trace.hosts[host].part
            found[number] = (*found.get(number, ()), rank)
    return found


def windows_by_file(trace: Trace, window: Window) -> dict[Path, Window]:
    """The window for the ranks of each file, by the path that it was read from."""
    return {
        trace.parts[number].path: replace(window, ranks=ranks) for number, ranks in ranks_by_part(trace, window).items()
    }


def _folders_differ_by_number(places: Sequence[Path]) -> bool:
    """True where each of these is in a folder, and the names of the folders differ in their numbers only."""
    folders = {re.sub(r"[0-9]+", "#", place.parent.name) for place in places}
    return len(folders) == 1 and all(len(place.parts) == 2 for place in places)


def _flat_names(places: Sequence[Path]) -> list[Path]:
    """The names of these files, each with as many names of folders around it as make them unique."""
    deepest = max((len(place.parts) for place in places), default=1)
    for depth in range(1, deepest + 1):
        named = [Path("-".join(place.parts[-depth:])) for place in places]
        if len(set(named)) == len(named):
            break
    return named


def _name_without_suffixes(name: str) -> str:
    """A name without suffixes of an encoding; a name that has nothing else keeps them."""
    stem = name
    for end in _TRACE_SUFFIXES:
        stem = stem.removesuffix(end)
    return stem or name


STDOUT: Final = "-"

_FOLDER_ENDS: Final = ("/", os.sep)


class ExportDestination(Struct, frozen=True):
    """A file, or stdout (`path` is None), as a user named it; writing makes its folder."""

    path: Path | None

    @contextmanager
    def open_for_writing(self) -> Iterator[BinaryIO]:
        """The open file. It is written beside its path and moved there when it is complete, else it is removed.

        Raises TracehoundError where it cannot be written.
        """
        if self.path is None:
            with _explain_write_errors(None):
                yield sys.stdout.buffer
                sys.stdout.buffer.flush()
            return
        with _explain_write_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("wb") if _is_special_file(self.path) else atomic_write(self.path) as file:
                yield file

    def refuse_existing_file(self) -> None:
        """Raise TracehoundError where a file exists already."""
        if self.path is not None and self.path.exists() and not _is_special_file(self.path):
            raise TracehoundError("exists already", self.path, remedy="--force replaces it")

    def lies_in(self, folders: Iterable[Path]) -> bool:
        """True where it is in one of these folders, or below."""
        if self.path is None:
            return False
        place = Path(os.path.realpath(self.path))
        return any(place.is_relative_to(folder.resolve()) for folder in folders)

    @property
    def name(self) -> str:
        """The name for messages: of an upload the whole URL."""
        if self.path is None:
            return "stdout"
        return printable(path_text(self.path) if is_url_path(self.path) else self.path.name)


def named_folder(word: str) -> Path | None:
    """The folder that a word names: an existing one, or one with the ending of a folder."""
    path = Path(os.path.realpath(word))
    there = os.path.isdir(path)  # noqa: PTH112, pathlib's raises for a name that is too long
    return path if word not in ("", STDOUT) and (there or word.endswith(_FOLDER_ENDS)) else None


def parse_new_destination(word: str, inputs: Sequence[Path], within: Path | None = None) -> ExportDestination:
    """The destination that a word names, if no file exists there; ``-`` is stdout.

    Raises TracehoundError where it is a terminal, a folder, one of the files that are read, in no folder (unless it is
    `within` one that is to be made), or where a file exists.
    """
    found = parse_destination(word, inputs, within)
    found.refuse_existing_file()
    return found


def parse_destination(word: str, inputs: Sequence[Path], within: Path | None = None) -> ExportDestination:
    """The destination that a word names, even if a file exists there. Raises as `parse_new_destination` otherwise."""
    if word == STDOUT:
        if sys.stdout.isatty():
            raise TracehoundError("stdout is a terminal", remedy="name a file, or send it on, as in - | less")
        return ExportDestination(None)
    path = Path(word)  # as it is: what a pipe's name in /dev/fd leads to has no name of its own
    try:
        if path.is_dir():
            raise TracehoundError("is a folder; a trace is written to a file", path)
        if not (Path(os.path.realpath(path)).parent if within is None else within.parent).is_dir():
            raise TracehoundError("there is no such folder", path.parent if within is None else within.parent)
        if path.exists() and any(_is_same_file(path, source) for source in inputs):
            raise TracehoundError("is the trace that is read; write to another file", path)
    except OSError as error:
        raise _write_error(error, path) from error
    return ExportDestination(path)


def _is_same_file(path: Path, source: Path) -> bool:
    """True where both paths are one file."""
    with suppress(OSError):
        return path.samefile(source)
    return False


def _is_special_file(path: Path) -> bool:
    """True for a pipe or a device, which no file can replace."""
    return path.exists() and not path.is_file()


@contextmanager
def _explain_write_errors(path: Path | None) -> Iterator[None]:
    """A context in which errors of writing become one-line messages."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno == errno.EPIPE or f"os error {errno.EPIPE}" in str(error):
            raise BrokenPipeError from error
        raise _write_error(error, path) from error
    except pl.exceptions.PolarsError as error:
        if f"os error {errno.EPIPE}" in str(error):
            raise BrokenPipeError from error
        if "os error" not in str(error) and not str(error).startswith("parquet: "):
            raise
        raise TracehoundError("cannot be written: is there no space left on device?", path) from error


def _write_error(error: OSError, path: Path | None) -> TracehoundError:
    """The error for a file that cannot be written."""
    why = (error.strerror or str(error)).lower()
    return TracehoundError(f"cannot write to stdout: {why}" if path is None else f"cannot be written: {why}", path)
