"""Codes of the notes on files that end within their events, as a killed run leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tracehound.model.notes import Note

EVENTS_WITHOUT_END: Final = "events_without_end"
FILE_ENDS_EARLY: Final = "file_ends_early"
SOURCE_ENDS_EARLY: Final = "source_ends_early"


def is_truncated(notes: Iterable[Note]) -> bool:
    """Return whether these notes are of a file that ends within its events, or was exported from one."""
    return any(note.code in (EVENTS_WITHOUT_END, FILE_ENDS_EARLY, SOURCE_ENDS_EARLY) for note in notes)
