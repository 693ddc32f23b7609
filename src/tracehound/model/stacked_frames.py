"""Many small frames kept as few large ones: a frame of one row takes as much memory as hundreds of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import groupby
from typing import Final

import polars as pl

from tracehound.model.lazy_sequence import LazySequence
from tracehound.model.spill_file import SpilledBytes, SpillFile

STACK_SIZE: Final = 64
"""So many frames are put below one another at once."""


class StackedFrames(LazySequence[pl.DataFrame]):
    """Frames in their order; those with the same columns that follow one another lie in one large frame.

    A single frame is a slice of the large one, made when it is asked for. `schema` is that of all frames, if they have
    one: then it is not compared, which takes longer than anything else here. `spilled` large frames wait compressed in
    a temporary file; one at a time is read again when it is needed.
    """

    def __init__(
        self, frames: Iterable[pl.DataFrame] = (), schema: pl.Schema | None = None, *, spilled: bool = False
    ) -> None:
        self._schema = schema
        self._spill = SpillFile() if spilled else None
        self._slices: list[tuple[int, int, int]] = []  # for each frame the number of its stack, first row, rows
        self._stacks: list[pl.DataFrame | SpilledBytes] = []
        self._loose: list[pl.DataFrame] = []  # the last frames, each of which is a stack so far
        self._last_read: tuple[int, pl.DataFrame] | None = None  # number and frame of a spilled stack
        for frame in frames:
            self.append(frame)

    def append(self, frame: pl.DataFrame) -> None:
        """Add a frame at the end."""
        self._slices.append((len(self._stacks) + len(self._loose), 0, frame.height))
        self._loose.append(frame)
        if len(self._loose) >= STACK_SIZE:
            self._stack_loose()

    def stacks(self) -> Iterator[pl.DataFrame]:
        """The large frames and those that are in none yet: together the rows of all frames, in order."""
        return map(self._stack, range(len(self._stacks) + len(self._loose)))

    @property
    def heights(self) -> list[int]:
        """The number of rows of each frame."""
        return [height for _, _, height in self._slices]

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._slices)

    def _make_item(self, number: int) -> pl.DataFrame:
        """One frame."""
        stack, low, height = self._slices[number]
        frame = self._stack(stack)
        return frame if height == frame.height else frame.slice(low, height)

    def _stack(self, number: int) -> pl.DataFrame:
        """One of the large frames, or of those that are in none yet."""
        if number >= len(self._stacks):
            return self._loose[number - len(self._stacks)]
        stack = self._stacks[number]
        if isinstance(stack, pl.DataFrame):
            return stack
        read = self._last_read  # another thread may read another one meanwhile
        if read is None or read[0] != number:
            read = self._last_read = number, pl.read_ipc_stream(BytesIO(stack.read()))
        return read[1]

    def _stack_loose(self) -> None:
        """Put the loose frames below one another."""
        number = len(self._slices) - len(self._loose)
        for _, alike in groupby(self._loose, key=lambda frame: self._schema or frame.schema):
            frames = list(alike)
            low = 0
            for frame in frames:
                self._slices[number] = (len(self._stacks), low, frame.height)
                number, low = number + 1, low + frame.height
            self._stacks.append(self._make_stack(frames))
        self._loose.clear()

    def _make_stack(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame | SpilledBytes:
        stack = pl.concat(frames, rechunk=True)
        if self._spill is None:
            return stack
        content = BytesIO()
        stack.write_ipc_stream(content, compression="zstd")
        return self._spill.add(content.getvalue())


def stacks_of(frames: Sequence[pl.DataFrame]) -> Iterable[pl.DataFrame]:
    """Few frames with the rows of all these, where they are stacked; else the frames."""
    return frames.stacks() if isinstance(frames, StackedFrames) else frames
