"""Arguments of single events, read again from their file, with checkpoints for random access to gzip files.

A checkpoint is a point at which inflating can resume. One costs about 40 kB, so a file that inflates to 1 GB takes 5 MB
and, once, two seconds of one core: `build`, which lets other threads run. A section then costs inflating half of
`CHECKPOINT_SPACING` on average. Without checkpoints, and beyond the last one so far, all bytes before the section are
inflated again by igzip: a third of a second for each GB.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from pathlib import Path
from typing import Any, Final

from tracehound.formats import FORMATS, Progress, ignore_progress
from tracehound.formats.inflate import GzipSalvage, InflatePoint, SectionReader, open_stream, read_section
from tracehound.model.ids import file_index_of
from tracehound.model.trace import FileState, Trace
from tracehound.store.saved_frames import decode_places

CHECKPOINT_SPACING: Final = 8 << 20
"""Inflated bytes between two checkpoints: about 12 ms of zlib."""

_IGZIP_SPEEDUP: Final = 4
"""The factor by which igzip is at most faster than zlib."""

_CACHED_BLOCKS: Final = 2


class RandomAccessFile:
    """Sections of one file, plain or gzip, in the given `state`; `build` makes those of gzip files fast.

    Several threads may read sections at once, also while another one builds; only one builds at a time.
    """

    def __init__(self, path: Path, state: FileState | None = None, spacing: int = CHECKPOINT_SPACING) -> None:
        self.path = path
        self.state = state
        self._spacing = spacing
        self._points: tuple[InflatePoint, ...] = ()
        self._blocks: tuple[tuple[int, bytes], ...] = ()  # latest inflated blocks, newest first: start, bytes

    def build(self, progress: Progress = ignore_progress) -> None:
        """Make the checkpoints in one pass through a gzip file; a plain file needs none.

        `progress` is called with the bytes of the file read and the bytes inflated, each quarter of a megabyte; an
        exception that it raises stops the pass, and a later one resumes there. Raises as `section`.
        """
        with open_stream(self.path) as stream:
            stream.check(self.state)
            if not stream.compressed:
                return
            salvage = stream.salvage(self._points[-1] if self._points else None)
            due = salvage.inflated_count
            while salvage.next_bytes():
                if salvage.inflated_count >= due:
                    self._points = (*self._points, salvage.checkpoint)
                    due = salvage.inflated_count + self._spacing
                progress(salvage.file_offset, salvage.inflated_count)

    def section(self, offset: int, length: int) -> bytes:
        """Return `length` inflated bytes from `offset`, or fewer at the end.

        Raises TracehoundError where the file cannot be opened or has changed since.
        """
        points = self._points
        row = bisect_right(points, offset, key=lambda point: point.inflated_count) - 1
        if row < 0 or _IGZIP_SPEEDUP * (offset - points[row].inflated_count) > max(
            offset, _IGZIP_SPEEDUP * 2 * self._spacing
        ):
            return read_section(self.path, offset, length, self.state)
        with open_stream(self.path) as stream:
            stream.check(self.state)
            for start, block in self._blocks:
                if start <= offset and offset + length <= start + len(block):
                    return block[offset - start : offset - start + length]
            return self._inflate_section(stream.salvage(points[row]), offset, length)

    def _inflate_section(self, salvage: GzipSalvage, offset: int, length: int) -> bytes:
        start, chunks = salvage.inflated_count, list[bytes]()
        while salvage.inflated_count < offset + length and (chunk := salvage.next_bytes()):
            chunks.append(chunk)
        block = b"".join(chunks)
        if len(block) <= 2 * self._spacing:
            self._blocks = ((start, block), *self._blocks)[:_CACHED_BLOCKS]
        return block[offset - start : offset - start + length]


def read_event_args(trace: Trace, event: int, read: SectionReader = read_section) -> dict[str, Any]:
    """All args of an event, decoded from its file now; the values are untrusted, as the file is.

    `read` returns bytes of files; that of `CheckpointedFiles` is fast for large gzip files. Raises TracehoundError if
    the file is gone or has changed since it was read.
    """
    frames = trace.parts[file_index_of(event)]
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
        self._files: dict[tuple[Path, FileState | None], RandomAccessFile] = {}
        self._built: set[RandomAccessFile] = set()
        self._lock = threading.Lock()

    def read(self, path: Path, offset: int, length: int, state: FileState | None) -> bytes:
        """`length` inflated bytes from `offset`, or fewer at the end. Raises TracehoundError as `read_section` does."""
        return self._checkpoints(path, state).section(offset, length)

    def build(self, path: Path, state: FileState | None) -> None:
        """Make the checkpoints of a gzip file, unless they exist. Raises TracehoundError as `RandomAccessFile` does."""
        points = self._checkpoints(path, state)
        if points not in self._built:
            points.build()
            self._built.add(points)

    def _checkpoints(self, path: Path, state: FileState | None) -> RandomAccessFile:
        with self._lock:
            return self._files.setdefault((path, state), RandomAccessFile(path, state))
