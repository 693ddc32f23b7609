"""Bytes from anywhere in a file within some milliseconds, of a gzip file too.

Owns the points at which inflating a gzip file can start again. Knows nothing of what the bytes mean.

A point costs about 40 kB, so a file that inflates to 1 GB takes 5 MB and, once, two seconds of one core: `build`,
which lets other threads run. A section then costs inflating half of `SPACING` on average. Without points, and beyond
those that there are so far, all before the section is inflated again by igzip: a third of a second for each GB.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tracehound.formats.inflate import opened, section
from tracehound.formats.salvage import Point, Salvage
from tracehound.trace import FileState

SPACING: Final = 8 << 20
"""Inflated bytes between two points: about 12 ms of zlib."""

_LEAD: Final = 4
"""By how much igzip is at most faster than zlib."""

_BLOCKS: Final = 2


def unheard(used: int, made: int) -> None:
    """A progress that nobody listens to."""


class Checkpoints:
    """Sections of one file, plain or gzip, as it was in `state`; `build` makes those of gzip fast.

    Several threads may read sections at once, also while another one builds; one builds at a time.
    """

    def __init__(self, path: Path, state: FileState | None = None, spacing: int = SPACING) -> None:
        self.path = path
        self.state = state
        self._spacing = spacing
        self._points: tuple[Point, ...] = ()
        self._blocks: tuple[tuple[int, bytes], ...] = ()  # inflated last, newest first: where each begins, and it

    def build(self, progress: Callable[[int, int], None] = unheard) -> None:
        """Make the points, in one pass through a gzip file; a plain file needs none.

        `progress` is told how many bytes of the file were read and how many inflated, each quarter of a megabyte;
        what it raises stops the pass, and a later one goes on from there. Raises as `section`.
        """
        with opened(self.path) as stream:
            stream.check(self.state)
            if not stream.compressed:
                return
            salvage = stream.salvage(self._points[-1] if self._points else None)
            due = salvage.made
            while salvage.piece():
                if salvage.made >= due:
                    self._points = (*self._points, salvage.point)
                    due = salvage.made + self._spacing
                progress(salvage.used, salvage.made)

    def section(self, offset: int, length: int) -> bytes:
        """`length` inflated bytes from `offset`, or fewer at the end.

        Raises TracehoundError where the file cannot be opened or is no longer the one it was.
        """
        points = self._points
        row = bisect_right(points, offset, key=lambda point: point.made) - 1
        if row < 0 or _LEAD * (offset - points[row].made) > max(offset, _LEAD * 2 * self._spacing):
            return section(self.path, offset, length, self.state)
        with opened(self.path) as stream:
            stream.check(self.state)
            for start, block in self._blocks:
                if start <= offset and offset + length <= start + len(block):
                    return block[offset - start : offset - start + length]
            return self._inflated(stream.salvage(points[row]), offset, length)

    def _inflated(self, salvage: Salvage, offset: int, length: int) -> bytes:
        start, parts = salvage.made, list[bytes]()
        while salvage.made < offset + length and (piece := salvage.piece()):
            parts.append(piece)
        block = b"".join(parts)
        if len(block) <= 2 * self._spacing:
            self._blocks = ((start, block), *self._blocks)[:_BLOCKS]
        return block[offset - start : offset - start + length]
