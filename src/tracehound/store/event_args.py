"""Arguments of single events, read again from their file, with checkpoints for large gzip files."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tracehound.formats import FORMATS
from tracehound.formats.gzip_checkpoints import GzipCheckpoints
from tracehound.formats.inflate import SectionReader, read_section
from tracehound.model.ids import part_of
from tracehound.model.trace import FileState, Trace
from tracehound.store.saved_frames import decode_places


def read_event_args(trace: Trace, event: int, read: SectionReader = read_section) -> dict[str, Any]:
    """All args of an event, decoded from its file now; the values are untrusted, as the file is.

    `read` returns bytes of files; that of `CheckpointedFiles` is fast for large gzip files. Raises TracehoundError if
    the file is gone or has changed since it was read.
    """
    frames = trace.parts[part_of(event)]
    for candidate in FORMATS:
        if candidate.name == frames.format:
            record, reader = trace.event(event)["record"], candidate.reader
            return reader.args(decode_places(frames, reader.places), record, read) if record is not None else {}
    raise KeyError(frames.format)


class CheckpointedFiles:
    """Reads from any offset of any file; `build_checkpoints` makes that fast for a large gzip file.

    A file that has changed since it was read is refused. Several threads may read at once, also while another one
    builds; one builds at a time.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[Path, FileState | None], GzipCheckpoints] = {}
        self._built: set[GzipCheckpoints] = set()
        self._lock = threading.Lock()

    def read(self, path: Path, offset: int, length: int, state: FileState | None) -> bytes:
        """`length` inflated bytes from `offset`, or fewer at the end. Raises TracehoundError as `read_section` does."""
        return self._checkpoints(path, state).section(offset, length)

    def build(self, path: Path, state: FileState | None) -> None:
        """Make the checkpoints of a gzip file, unless they exist. Raises TracehoundError as `GzipCheckpoints` does."""
        points = self._checkpoints(path, state)
        if points not in self._built:
            points.build()
            self._built.add(points)

    def _checkpoints(self, path: Path, state: FileState | None) -> GzipCheckpoints:
        with self._lock:
            return self._files.setdefault((path, state), GzipCheckpoints(path, state))
