"""What a format is: how a file is recognised, read (by one process or by several), and asked for the args of an event.

Owns the order of reading: portions are decoded wherever there is room, then finished together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from tracehound.file_facts import Claims
from tracehound.formats.inflate import Section, section
from tracehound.formats.spill import Spill
from tracehound.trace import Part

Progress = Callable[[int, int], None]
"""Told how many bytes of the file were read and how many events were found so far, several times a second; of a portion
its share, so that those of all portions add up. What it raises stops the reading and is passed on: that is how a reader
is cancelled."""


def silent(read: int, events: int) -> None:
    """A `Progress` that nobody listens to."""


class Portion(NamedTuple):
    """Which share of a file to decode: `number` (from 0) of `of`. Together the portions are the whole file.

    With `devices` they are what devices did, and hosts may be left out.
    """

    number: int
    of: int
    devices: bool = False


ALL = Portion(0, 1)


def never(path: Path) -> bool:
    """A file is read as a whole."""
    del path
    return False


class Args(Protocol):
    """What the event at a record of a part carries; `read` gives bytes of files."""

    def __call__(self, of: Part, record: int, /, read: Section = section) -> dict[str, Any]:
        """The args by name. Raises TracehoundError where the file is no longer what it was."""


class Reader(NamedTuple):
    """How files of a format are read; each module of a format has one, called ``READER``.

    `decode` reads one portion of a file; what it returns can be sent to another process when the spill has a folder.
    `finish` makes the part of all portions, in their order: its events are in the spill's folder, or in memory where
    that has none. Both raise TracehoundError when nothing can be kept, and note in the part what they repaired, dropped
    or missed. `args` gives everything that the event at a `record` carries in the file, decoded then and there;
    `places` is the type of `Part.places`, which must be an array of Int64 or something that msgspec can write and read.
    `glance` tells what the ends of the file claim, without reading the rest; it raises TracehoundError for what cannot
    be opened. `apart` tells whether what devices did can be read without what hosts did, and is the same then, but for
    ids of events, their launches and steps.
    """

    decode: Callable[[Path, Portion, Spill, Progress], Any]
    finish: Callable[[Path, Sequence[Any], Spill], Part]
    args: Args
    places: type[Any]
    glance: Callable[[Path], Claims]
    apart: Callable[[Path], bool] = never


class Format(Struct, frozen=True):
    """One kind of file.

    `matches` looks at the first 64 KiB of the inflated file. `module` has the reader, and is imported when that is
    wanted: what was read before is shown without it.
    """

    name: str
    title: str
    matches: Callable[[bytes], bool]
    module: str

    @property
    def reader(self) -> Reader:
        """How such a file is read."""
        reader: Reader = import_module(self.module).READER
        return reader

    def read(self, path: Path, progress: Progress = silent, spill: Spill = Spill()) -> Part:  # noqa: B008, frozen
        """Read all of a file in this process. Raises TracehoundError when nothing of it can be kept."""
        reader = self.reader
        return reader.finish(path, [reader.decode(path, ALL, spill, progress)], spill)
