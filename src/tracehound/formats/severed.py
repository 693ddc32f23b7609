"""Files that end within their events, as a run that was killed leaves them.

Owns what reading notes of them, and that they are known by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tracehound.notes import Note

NO_END: Final = "events_without_end"
EARLY: Final = "file_ends_early"
ENDED: Final = "source_ends_early"


def severed(notes: Iterable[Note]) -> bool:
    """Whether these notes are of a file that ends within its events, or was exported from one."""
    return any(note.code in (NO_END, EARLY, ENDED) for note in notes)
