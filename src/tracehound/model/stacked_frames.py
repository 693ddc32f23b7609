"""Many small frames kept as few large ones: a frame of one row takes as much memory as hundreds of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, overload

import polars as pl

STACK_SIZE: Final = 64
"""So many frames are put below one another at once."""


class StackedFrames(Sequence[pl.DataFrame]):
    """Frames in their order; those with the same columns that follow one another lie in one large frame.

    A single frame is a slice of the large one, made when it is asked for. `schema` is that of all frames, if they have
    one: then it is not compared, which takes longer than anything else here.
    """

    def __init__(self, frames: Iterable[pl.DataFrame] = (), schema: pl.Schema | None = None) -> None:
        self._schema = schema
        self._slices: list[tuple[pl.DataFrame, int, int]] = []  # for each frame the large one, first row, rows
        self._stacks: list[pl.DataFrame] = []
        self._loose: list[pl.DataFrame] = []  # the last frames, which are in no stack yet
        for frame in frames:
            self.append(frame)

    def append(self, frame: pl.DataFrame) -> None:
        """Add a frame at the end."""
        self._slices.append((frame, 0, frame.height))
        self._loose.append(frame)
        if len(self._loose) >= STACK_SIZE:
            self._stack_loose()

    @property
    def stacks(self) -> list[pl.DataFrame]:
        """The large frames and those that are in none yet: together the rows of all frames, in order."""
        return [*self._stacks, *self._loose]

    @property
    def heights(self) -> list[int]:
        """The number of rows of each frame."""
        return [height for _, _, height in self._slices]

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._slices)

    @overload
    def __getitem__(self, number: int) -> pl.DataFrame: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[pl.DataFrame]: ...

    def __getitem__(self, number: int | slice) -> pl.DataFrame | Sequence[pl.DataFrame]:
        """One frame, or some."""
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        frame, low, height = self._slices[number]
        return frame if height == frame.height else frame.slice(low, height)

    def _stack_loose(self) -> None:
        """Put the loose frames below one another."""
        number = len(self._slices) - len(self._loose)
        for _, alike in groupby(self._loose, key=lambda frame: self._schema or frame.schema):
            frames = list(alike)
            stack, low = pl.concat(frames, rechunk=True), 0
            self._stacks.append(stack)
            for frame in frames:
                self._slices[number] = (stack, low, frame.height)
                number, low = number + 1, low + frame.height
        self._loose.clear()


def stacks_of(frames: Sequence[pl.DataFrame]) -> Sequence[pl.DataFrame]:
    """Few frames with the rows of all these, where they are stacked; else the frames."""
    return frames.stacks if isinstance(frames, StackedFrames) else frames
