"""Files of which nothing can be shown: no event and no sample was kept, of a damaged file or of a sound one."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import GZIP_DAMAGED, GZIP_ENDS_EARLY
from tracehound.model.notes import Note, is_truncated
from tracehound.model.trace import FileFrames

COPY_AGAIN: Final = "copy it again, or record it anew"

_NOT_EVENTS: Final = ("element_not_event", "element_without_phase", "unknown_phase_pytorch")
"""Codes of the notes of elements that no profiler writes."""


def check_events_kept(frames: FileFrames) -> FileFrames:
    """The frames, with a note if the file is sound and holds no event and no sample.

    Raises TracehoundError if the file holds none because all were lost: an empty trace would hide that.
    """
    if frames.lanes["events"].sum() or frames.counters.height:
        return frames
    lost = [note for note in frames.notes if note.level == "dropped" or is_truncated([note])]
    if not lost:
        return replace(frames, notes=(Note("missing", "no_events_recorded"), *frames.notes))
    damage = next((note for note in lost if note.code in (GZIP_DAMAGED, GZIP_ENDS_EARLY)), None)
    if damage is not None:
        what = f"gzip {dict(damage.values)['what']}, and no event could be read"
        raise TracehoundError(what, frames.path, damage.where, COPY_AGAIN)
    count = sum(note.count for note in lost)
    every = "the only one was dropped" if count == 1 else f"all {count:,} were dropped"
    if is_truncated(lost):
        every = "it ends before the first"
    foreign = any(note.code in _NOT_EVENTS for note in lost)
    remedy = "open the JSON that torch.profiler writes" if foreign else COPY_AGAIN
    raise TracehoundError(f"no event can be read from it: {every}", frames.path, lost[0].where, remedy)
