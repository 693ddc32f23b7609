"""Files that end within their events, as a run that was killed leaves them.

Owns what reading notes of them, and that they are known by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tracehound.trace import Note

NO_END: Final = "the array of events has no end"
EARLY: Final = "the file ends early; what lies before was kept"
ENDED: Final = "exported from a file that ends within its events, and what is missing may be just that"


def severed(notes: Iterable[Note]) -> bool:
    """Whether these notes are of a file that ends within its events, or was exported from one."""
    return any(note.text in (NO_END, EARLY, ENDED) for note in notes)
