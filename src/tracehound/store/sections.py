"""Bytes of the files of a trace, for whoever asks for the args of event after event.

Owns one set of checkpoints for each file, and what the files were when they were first asked for: one that has changed
since is refused.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tracehound.errors import TracehoundError
from tracehound.formats.checkpoints import Checkpoints
from tracehound.formats.inflate import Stamp


class Sections:
    """Reads from any place of any file; `build` makes that fast for a large gzip file.

    Several threads may read at once, also while another one builds; one builds at a time.
    """

    def __init__(self) -> None:
        self._files: dict[Path, Checkpoints] = {}
        self._built: set[Path] = set()
        self._lock = threading.Lock()

    def read(self, path: Path, offset: int, length: int) -> bytes:
        """`length` inflated bytes from `offset`, or fewer at the end. Raises TracehoundError as `Checkpoints` does."""
        return self._of(path).section(offset, length)

    def build(self, path: Path) -> None:
        """Make the checkpoints of a gzip file, unless they are there. Raises TracehoundError as `Checkpoints` does."""
        if path not in self._built:
            self._of(path).build()
            self._built.add(path)

    def _of(self, path: Path) -> Checkpoints:
        with self._lock:
            if path not in self._files:
                try:
                    state = path.stat()
                except OSError as error:
                    raise TracehoundError((error.strerror or "cannot be read").lower(), path) from error
                self._files[path] = Checkpoints(path, Stamp(state.st_size, state.st_mtime_ns))
            return self._files[path]
