"""Messages as data: a note has a code, a level and values. Its sentence is made for display (`draw.notes`).

Code never looks at the sentence of a note: it compares the code or reads the values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal

from msgspec import Struct

from tracehound.errors import path_text

Level = Literal["repaired", "dropped", "missing", "inferred", "info"]
"""`repaired`: damaged input that was kept completely; `dropped`: input that could not be kept; `missing`: not recorded;
`inferred`: concluded, since the file does not say it; `info`: everything else."""

NoteRole = Literal["headline", "warning", "caveat"]
"""`headline`: the answer of a table in one sentence, or what its rows were chosen by; `warning`: lost or doubtful data,
which is always shown; `caveat`: everything else, which may be folded. `draw.notes.note_role` tells the role of a note.
"""

WARNING_LEVELS: Final[tuple[Level, ...]] = ("missing", "dropped")
"""Levels of notes on lost data."""

NoteValue = int | float | str | bool | tuple[int | float | str, ...] | None
"""A number or a name in a note: times in ps, sizes in bytes, shares as fractions."""


class Note(Struct, frozen=True):
    """A message about the reading of a trace, or about a table.

    `code` is the message, a key of `draw.notes.SENTENCES`; `values` are the numbers and names in it, by their names.
    `count` is the number of occurrences, `file` the (first) file, `where` the position in that file ("byte 1,024").
    """

    level: Level
    code: str
    count: int = 1
    file: str = ""
    where: str = ""
    values: tuple[tuple[str, NoteValue | Note], ...] = ()

    @property
    def location_text(self) -> str:
        """The file and the position in it: "worker0.json, byte 1,024"."""
        return ", ".join(filter(None, (path_text(self.file), self.where)))


def other_files_text(files: int) -> str:
    """The files of a note after the first: ``and 3 more files``; "" for one file."""
    return f"and {files - 1:,} more file{'' if files == 2 else 's'}" if files > 1 else ""


SentenceTemplate = str | Callable[..., str]
"""The sentence of a note: a template of `str.format`, or a function with the note's values as keyword arguments."""


def text_note(text: str) -> Note:
    """A note with a ready text, from a baseline of an earlier version."""
    return note("text", text=text)


def note(code: str, *, level: Level = "info", **values: NoteValue | Note) -> Note:
    """Make a note with these values."""
    return Note(level, code, values=tuple(values.items()))


EVENTS_WITHOUT_END: Final = "events_without_end"
FILE_ENDS_EARLY: Final = "file_ends_early"
SOURCE_ENDS_EARLY: Final = "source_ends_early"


def is_truncated(notes: Iterable[Note]) -> bool:
    """True if these notes are of a file that ends within its events, as a killed run leaves it, or of its export."""
    return any(note.code in (EVENTS_WITHOUT_END, FILE_ENDS_EARLY, SOURCE_ENDS_EARLY) for note in notes)


PROFILER_ERROR: Final = "profiler_error"
PROFILER_WARNING: Final = "profiler_warning"
"""The codes of messages that the profiler itself wrote into its file."""

_DROPPED_EVENTS: Final = re.compile(r"(\d[\d,]{0,23}) (?:\w+ )?events? (?:were )?(?:dropped|lost)", re.IGNORECASE)


def profiler_message_note(code: str, text: str) -> Note:
    """A note with a message of the profiler; its count is the number of events that it says were dropped, else 1."""
    match = _DROPPED_EVENTS.search(text)
    dropped = int(match[1].replace(",", "")) if match else 1
    return Note("missing", code, max(1, min(dropped, 1 << 62)), values=(("text", text),))
