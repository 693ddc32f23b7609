"""The list of file formats that can be read (`FORMATS`), and the reading of one file to its `FileFrames`.

A format is recognized by the first bytes of a file, never by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.formats import file_signatures
from tracehound.formats.file_signatures import CompanionFileError, guess_named_file_kind, unreadable_gzip_error
from tracehound.formats.inflate import SectionReader, read_section, read_start
from tracehound.formats.lost_files import check_events_kept
from tracehound.formats.spill import Spill
from tracehound.model.file_facts import PeekedFacts
from tracehound.model.trace import FileFrames

Progress = Callable[[int, int], None]
"""Called several times a second with the bytes of the file read and the events found so far; a shard reports its share,
so that those of all shards add up. An exception that it raises stops the reading and is passed on: so a reader is
cancelled.
"""


def ignore_progress(read: int, events: int) -> None:
    """Do nothing: a `Progress` without a listener."""


class WorkerShard(NamedTuple):
    """The share of a file that one process decodes: shard `number` (from 0) of `of`.

    Together the shards are the whole file. With `devices` only the events of devices are wanted, and hosts may be left
    out.
    """

    number: int
    of: int
    devices: bool = False


WHOLE_FILE = WorkerShard(0, 1)


def not_separable(path: Path) -> bool:
    """Return False: the file is read as a whole."""
    del path
    return False


class EventArgsReader(Protocol):
    """Function that reads the args of the event at a record of a file; `read` gives bytes of files."""

    def __call__(self, of: FileFrames, record: int, /, read: SectionReader = read_section) -> dict[str, Any]:
        """Return the args by name. Raises TracehoundError where the file has changed since it was read."""


class FormatReader(NamedTuple):
    """The functions that read files of one format; each module of a format has one, called ``READER``.

    `decode` decodes one shard of a file; its result can be sent to another process when the spill has a folder.
    `finish` builds the file frames from all shards, in their order: the events are in the spill's folder, or in memory
    where that has none. Both raise TracehoundError when nothing can be kept, and add notes on what they repaired,
    dropped or missed. `args` reads everything that the event at a `record` carries in the file, decoded on demand;
    `places` is the type of `FileFrames.places`, which must be an array of Int64 or something that msgspec can write and
    read. `read_claims` reads what the start and the end of the file say of the run, without the rest; it raises
    TracehoundError for a file that cannot be opened. `separable` says whether the events of devices can be read without
    those of hosts, with equal results except for ids of events, their launches and steps.
    """

    decode: Callable[[Path, WorkerShard, Spill, Progress], Any]
    finish: Callable[[Path, Sequence[Any], Spill], FileFrames]
    args: EventArgsReader
    places: type[Any]
    read_claims: Callable[[Path], PeekedFacts]
    separable: Callable[[Path], bool] = not_separable


class Format(Struct, frozen=True):
    """One kind of file.

    `matches` looks at the first 64 KiB of the inflated file. `module` has the reader; it is imported on demand, so that
    cached files are shown without it.
    """

    name: str
    title: str
    matches: Callable[[bytes], bool]
    module: str

    @property
    def reader(self) -> FormatReader:
        """The reader of this format."""
        reader: FormatReader = import_module(self.module).READER
        return reader

    def read(self, path: Path, progress: Progress = ignore_progress, spill: Spill = Spill()) -> FileFrames:  # noqa: B008, frozen
        """Read all of a file in this process. Raises TracehoundError when nothing of it can be kept."""
        return self.finish(path, [self.reader.decode(path, WHOLE_FILE, spill, progress)], spill)

    def finish(self, path: Path, shards: Sequence[Any], spill: Spill, *, whole: bool = True) -> FileFrames:
        """Build the frames of a file from its decoded shards, which are those of the `whole` file.

        Raises TracehoundError when nothing of it can be kept.
        """
        frames = self.reader.finish(path, shards, spill)
        return check_events_kept(frames) if whole else frames


KINETO: Final = Format(
    "kineto",
    "PyTorch profiler trace (Kineto JSON)",
    file_signatures.is_kineto,
    "tracehound.formats.kineto.kineto_reader",
)
CHROME: Final = Format(
    "chrome",
    "XLA profile, Chrome form (trace.json)",
    file_signatures.is_xla_json,
    "tracehound.formats.xla_json.trace_json_reader",
)
XPLANE: Final = Format(
    "xplane", "XLA profile (xplane.pb)", file_signatures.is_xplane, "tracehound.formats.xplane.xplane_reader"
)

MEMORY_TIMELINE: Final = Format(
    "memory_timeline",
    "PyTorch memory timeline (raw.json.gz)",
    file_signatures.is_memory_timeline,
    "tracehound.formats.memory_timeline",
)

FORMATS: Final = (KINETO, CHROME, XPLANE, MEMORY_TIMELINE)


def detect_format(path: Path) -> Format:
    """Return the format of the file, by its first bytes.

    Raises TracehoundError for a file that cannot be opened or is no trace: the message says what the file looks like.
    It is a CompanionFileError where such a file belongs beside traces, unless its gzip is damaged.
    """
    start, damage = read_start(path)
    for candidate in FORMATS:
        if candidate.matches(start):
            return candidate
    if damage is not None:
        raise unreadable_gzip_error(path, start, damage)
    found = guess_named_file_kind(start, path.name)
    kind = CompanionFileError if found.companion else TracehoundError
    raise kind(f"not a trace: looks like {found.looks}", path, remedy=found.remedy)
