"""Messages as data: a note has a code, a level and values. Its sentence is made where it is shown (`draw.notes`).

Owns `Note`. Knows no sentence: code that needs to know what a note says compares its code or reads its values.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Level = Literal["repaired", "dropped", "missing", "inferred", "info"]
"""`repaired`: damaged input of which everything was kept; `dropped`: what could not be kept; `missing`: what was not
recorded; `inferred`: what was concluded, since the file does not say it; `info`: everything else."""

Value = int | float | str | bool | tuple[int | float | str, ...] | None
"""A number or a name in a note: times in ps, sizes in bytes, shares as fractions."""


class Note(Struct, frozen=True):
    """A message of how a trace was read, or about a table.

    `code` is the message, a key of `draw.notes.SENTENCES`; `values` are the numbers and names in it, by their names.
    `count` is how often, `file` where (the first of several), `where` the place in that file ("byte 1,024").
    """

    level: Level
    code: str
    count: int = 1
    file: str = ""
    where: str = ""
    values: tuple[tuple[str, Value | Note], ...] = ()

    @property
    def place(self) -> str:
        """The file and the place in it: "worker0.json, byte 1,024"."""
        return ", ".join(filter(None, (self.file, self.where)))


def text_note(text: str) -> Note:
    """A note that somebody else put into words: a baseline of an earlier version."""
    return note("text", text=text)


def note(code: str, *, level: Level = "info", **values: Value | Note) -> Note:
    """A note with these values."""
    return Note(level, code, values=tuple(values.items()))
