"""Source files on this machine: finding the file and line that a trace names, and reading it.

Names come from the trace and may be malicious: a relative or mapped name stays inside its folder, whatever dots are in
it. Kineto writes ``file.py(12): function``, the Python tracer of XLA ``$file.py:12 function``, and metadata
``file.py:12``.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tracehound.errors import TracehoundError, printable
from tracehound.system.user_dirs import current_dir

_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class SourceMapping(Struct, frozen=True):
    """Files under `remote` where the trace was recorded lie under `local` here.

    An empty `remote` is for names without a folder of their own: what Python's import path cut off.
    """

    remote: str
    local: Path

    @classmethod
    def parsed(cls, text: str) -> SourceMapping:
        """``REMOTE=LOCAL``. Raises ValueError when it is not that, or LOCAL is no folder."""
        remote, equals, local = text.partition("=")
        folder = Path(os.path.expanduser(local))  # noqa: PTH111, pathlib raises where there is no such user
        if not equals or not local:
            raise ValueError(f"{text!r} is not REMOTE=LOCAL")
        if not folder.is_dir():
            raise ValueError(f"{local!r} is not a folder")
        return cls(_normalize_name(remote), Path(os.path.abspath(folder)))  # noqa: PTH100, resolve() would follow links

    def map_path(self, file: str) -> Path | None:
        """Path of a file by this mapping; None if the mapping does not cover that file, or dots lead out of it."""
        if not self.remote:
            rest = file if not _is_absolute(file) else ""
        elif self.remote == "/" or file.startswith(f"{self.remote}/"):
            rest = file.removeprefix(self.remote).lstrip("/")
        else:
            rest = ""
        return _path_inside(self.local, rest) if rest else None


class SourceFolders(Struct, frozen=True):
    """The mappings that the user gave, and the folder in which relative names are looked for at last."""

    mappings: tuple[SourceMapping, ...] = ()
    here: Path = Path()

    def find(self, file: str) -> Path:
        """The file here, absolute: of the places it may be in, the first that exists; by the longest mapping first.

        Raises TracehoundError, which says where was looked and what to do.
        """
        if not file.isprintable():
            raise TracehoundError(f"no source file is called {printable(file)!r}")
        name = _normalize_name(file)
        places = list(dict.fromkeys(self._places(name)))
        for place in places:
            if os.path.lexists(place):
                return place
        why = "the current folder is gone" if self._folder is None else "the name leads out of its folder"
        looked = " and ".join(map(str, places)) or f"nothing: {why}"
        raise TracehoundError(f"{file} is not on this machine; looked for {looked}", remedy=_source_map_hint(name))

    def _places(self, name: str) -> Iterator[Path]:
        for mapping in sorted(self.mappings, key=lambda mapping: -len(mapping.remote)):
            if (moved := mapping.map_path(name)) is not None:
                yield moved
        if name.startswith("/"):
            yield Path(posixpath.normpath(name))
        elif not _is_absolute(name) and self._folder and (inside := _path_inside(self._folder, name)) is not None:
            yield inside

    @property
    def _folder(self) -> Path | None:
        """`here`, absolute; None where that begins at the current folder, and this was removed."""
        current = current_dir()
        if current is None:
            return self.here if self.here.is_absolute() else None
        return Path(os.path.abspath(current / self.here))  # noqa: PTH100, as above


def parse_source_maps(texts: Sequence[str]) -> SourceFolders:
    """The folders given by ``--source-map``. Raises TracehoundError if one of them is no mapping."""
    try:
        return SourceFolders(tuple(map(SourceMapping.parsed, texts)))
    except ValueError as error:
        remedy = "--source-map /where/it/was/recorded=/where/it/is/here"
        raise TracehoundError(f"--source-map: {error}", remedy=remedy) from error


def _normalize_name(file: str) -> str:
    """A name with slashes, without the dot that stands for no folder and without slashes at its end."""
    slashed = file.replace("\\", "/") if _WINDOWS_DRIVE.match(file) else file
    slashed = slashed.removeprefix("./")
    return "" if slashed == "." else slashed.rstrip("/") or slashed[:1]


def _is_absolute(name: str) -> bool:
    return name.startswith("/") or _WINDOWS_DRIVE.match(name) is not None


def _path_inside(folder: Path, rest: str) -> Path | None:
    """`rest` under a folder; None where its dots lead out."""
    clean = posixpath.normpath(rest)
    if clean in (".", "..") or clean.startswith(("../", "/")):
        return None
    return folder / clean


def _source_map_hint(name: str) -> str:
    folder = posixpath.dirname(name) if _is_absolute(name) else "."
    return f"start with --source-map {folder}=FOLDER to say where its folder is here"


MAX_SOURCE_BYTES = 8 << 20
"""Bytes above which a file is not shown."""

TAB_WIDTH = 4


def read_source_lines(path: Path) -> list[str]:
    """The lines of a text file, each printable, with tabs as spaces.

    Raises TracehoundError when there is none, or when it is no text: a device, a pipe, a folder, something huge.
    """
    try:
        content = _read_bytes(path)
    except OSError as error:
        raise TracehoundError(f"cannot be read: {(error.strerror or str(error)).lower()}", path) from error
    if len(content) > MAX_SOURCE_BYTES:
        raise TracehoundError(f"larger than {MAX_SOURCE_BYTES >> 20} MiB, which is too much for source code", path)
    if b"\0" in content:
        raise TracehoundError("holds zero bytes: not text", path)
    text = content.decode("utf-8-sig", "replace")
    return [
        printable(line.expandtabs(TAB_WIDTH)) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ]


def _read_bytes(path: Path) -> bytes:
    """All bytes, or a few more than `LARGEST`; asked of the open file too, since another may have taken its name."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise TracehoundError("not a regular file", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TracehoundError("not a regular file", path)
        return file.read(MAX_SOURCE_BYTES + 1)


_FILE = r"(?P<file>[^\n;]{1,4096}?)"
_LINE = r"(?P<line>\d{1,9})"
_LINE_PATTERNS = tuple(
    re.compile(spelling)
    for spelling in (
        rf"{_FILE}\({_LINE}\): ?(?P<what>.*)",
        rf"\${_FILE}:{_LINE} (?P<what>.*)",
        rf"{_FILE}:{_LINE}(?::\d{{1,9}})?(?P<what>)",
    )
)
"""Each matches a whole frame of a stack."""


class SourceLine(Struct, frozen=True):
    """A line (from 1) of a file as the trace names it, and the function that it is in; empty where that is unknown."""

    file: str
    line: int
    what: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place} {self.what}" if self.what else place


def parse_source_line(words: str) -> SourceLine | None:
    """The source line that `words` are, as a whole; None when they are something else, or code without a file."""
    for spelling in _LINE_PATTERNS:
        match = spelling.fullmatch(words)
        if match and int(match["line"]) > 0 and _is_file(match["file"]):
            return SourceLine(match["file"], int(match["line"]), match["what"])
    return None


def split_stack(stack: str) -> list[str]:
    """The frames of a stack that is written as one text, in its order: one on each line, or between semicolons."""
    parts = stack.splitlines() if "\n" in stack else stack.split(";")
    return [part.strip() for part in parts if part.strip()]


def _is_file(file: str) -> bool:
    """True if a name can be a file's: ``<frozen importlib>`` and built-ins are none, nor is a time like 12:30."""
    return file.strip() == file and not file.startswith("<") and ("." in file or "/" in file or "\\" in file)
