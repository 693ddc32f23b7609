"""Where a file that a trace names lies on this machine.

Owns the mapping of names and the care it takes: names come from the trace, which may have been made to mislead. A name
that is relative, or that a mapping moved, stays inside its folder, whatever dots are in it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tracehound.errors import TracehoundError, printable
from tracehound.home import here

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class Mapping(Struct, frozen=True):
    """Files under `remote` where the trace was recorded lie under `local` here.

    An empty `remote` is for names without a folder of their own: what Python's import path cut off.
    """

    remote: str
    local: Path

    @classmethod
    def parsed(cls, text: str) -> Mapping:
        """``REMOTE=LOCAL``. Raises ValueError when it is not that, or LOCAL is no folder."""
        remote, equals, local = text.partition("=")
        folder = Path(os.path.expanduser(local))  # noqa: PTH111, pathlib raises where there is no such user
        if not equals or not local:
            raise ValueError(f"{text!r} is not REMOTE=LOCAL")
        if not folder.is_dir():
            raise ValueError(f"{local!r} is not a folder")
        return cls(_plain(remote), Path(os.path.abspath(folder)))  # noqa: PTH100, resolve() would follow links

    def moved(self, file: str) -> Path | None:
        """Where a file would lie by this mapping; None when it is not about that file, or dots lead out of it."""
        if not self.remote:
            rest = file if not _absolute(file) else ""
        elif self.remote == "/" or file.startswith(f"{self.remote}/"):
            rest = file.removeprefix(self.remote).lstrip("/")
        else:
            rest = ""
        return _inside(self.local, rest) if rest else None


class Sources(Struct, frozen=True):
    """The mappings that the user gave, and the folder in which relative names are looked for at last."""

    mappings: tuple[Mapping, ...] = ()
    here: Path = Path()

    def find(self, file: str) -> Path:
        """The file here, absolute: of the places it may be in, the first that exists; by the longest mapping first.

        Raises TracehoundError, which says where was looked and what to do.
        """
        if not file.isprintable():
            raise TracehoundError(f"no source file is called {printable(file)!r}")
        name = _plain(file)
        places = list(dict.fromkeys(self._places(name)))
        for place in places:
            if os.path.lexists(place):
                return place
        why = "the current folder is gone" if self._folder is None else "the name leads out of its folder"
        looked = " and ".join(map(str, places)) or f"nothing: {why}"
        raise TracehoundError(f"{file} is not on this machine; looked for {looked}", remedy=_remedy(name))

    def _places(self, name: str) -> Iterator[Path]:
        for mapping in sorted(self.mappings, key=lambda mapping: -len(mapping.remote)):
            if (moved := mapping.moved(name)) is not None:
                yield moved
        if name.startswith("/"):
            yield Path(posixpath.normpath(name))
        elif not _absolute(name) and self._folder and (inside := _inside(self._folder, name)) is not None:
            yield inside

    @property
    def _folder(self) -> Path | None:
        """`here`, absolute; None where that begins at the current folder, and this was removed."""
        current = here()
        if current is None:
            return self.here if self.here.is_absolute() else None
        return Path(os.path.abspath(current / self.here))  # noqa: PTH100, as above


def sources(texts: Sequence[str]) -> Sources:
    """What ``--source-map`` was given. Raises TracehoundError when one of them is no mapping."""
    try:
        return Sources(tuple(map(Mapping.parsed, texts)))
    except ValueError as error:
        remedy = "--source-map /where/it/was/recorded=/where/it/is/here"
        raise TracehoundError(f"--source-map: {error}", remedy=remedy) from error


def _plain(file: str) -> str:
    """A name with slashes, without the dot that stands for no folder and without slashes at its end."""
    slashed = file.replace("\\", "/") if _DRIVE.match(file) else file
    slashed = slashed.removeprefix("./")
    return "" if slashed == "." else slashed.rstrip("/") or slashed[:1]


def _absolute(name: str) -> bool:
    return name.startswith("/") or _DRIVE.match(name) is not None


def _inside(folder: Path, rest: str) -> Path | None:
    """`rest` under a folder; None where its dots lead out."""
    clean = posixpath.normpath(rest)
    if clean in (".", "..") or clean.startswith(("../", "/")):
        return None
    return folder / clean


def _remedy(name: str) -> str:
    folder = posixpath.dirname(name) if _absolute(name) else "."
    return f"start with --source-map {folder}=FOLDER to say where its folder is here"
