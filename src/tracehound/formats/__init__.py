"""Bytes of one file -> a `Part`. `FORMATS` is the literal list of what can be read.

A format is recognised by the first bytes of a file, never by its name.
"""

from __future__ import annotations

from pathlib import Path

from tracehound.errors import TracehoundError
from tracehound.formats import kineto
from tracehound.formats.format import Format
from tracehound.formats.inflate import head

FORMATS: tuple[Format, ...] = (kineto.FORMAT,)


def recognise(path: Path) -> Format:
    """The format of the file, by its first bytes; TracehoundError when it is none of ours."""
    start = head(path)
    for candidate in FORMATS:
        if candidate.matches(start):
            return candidate
    raise TracehoundError("not a trace that can be read", path=path)
