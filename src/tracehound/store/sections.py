"""Bytes of the files of a trace, for whoever asks for the args of event after event.

Owns one set of checkpoints for each state of a file that is asked for: a file that is in another one now is refused.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tracehound.formats.checkpoints import Checkpoints
from tracehound.trace import FileState


class Sections:
    """Reads from any place of any file; `build` makes that fast for a large gzip file.

    Several threads may read at once, also while another one builds; one builds at a time.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[Path, FileState | None], Checkpoints] = {}
        self._built: set[Checkpoints] = set()
        self._lock = threading.Lock()

    def read(self, path: Path, offset: int, length: int, state: FileState | None) -> bytes:
        """`length` inflated bytes from `offset`, or fewer at the end. Raises TracehoundError as `Checkpoints` does."""
        return self._of(path, state).section(offset, length)

    def build(self, path: Path, state: FileState | None) -> None:
        """Make the checkpoints of a gzip file, unless they are there. Raises TracehoundError as `Checkpoints` does."""
        points = self._of(path, state)
        if points not in self._built:
            points.build()
            self._built.add(points)

    def _of(self, path: Path, state: FileState | None) -> Checkpoints:
        with self._lock:
            return self._files.setdefault((path, state), Checkpoints(path, state))
