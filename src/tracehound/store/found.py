"""What was found of a trace before any of it is read: its files, and what is said of others.

Owns the words in which `find` answers. Knows nothing of how files are found.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tracehound.formats.format import Format
from tracehound.notes import Note


class Found(Struct, frozen=True):
    """A file of the trace, and the format that will read it: all of it, or no more than what `devices` did."""

    path: Path
    format: Format
    size: int
    compressed: bool = False
    devices: bool = False


class Finding(Struct, frozen=True):
    """What was found under some paths, and what was passed over.

    `empty` has those paths that give nothing, of which there is a note each.
    """

    files: tuple[Found, ...]
    notes: tuple[Note, ...]
    empty: tuple[Path, ...] = ()
