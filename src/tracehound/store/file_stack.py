"""Frames of thousands of files in little memory: small frames stacked, and equal facts kept once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.model.stacked_frames import StackedFrames
from tracehound.model.trace import SMALL_FRAMES, FileFrames

SHARED_FACTS: Final = ("groups", "devices", "programs")
"""Facts that are long, and equal in many files: each of thousands lists all ranks, and the devices of its machine."""


class FileStack:
    """Small frames of files, stacked, and the facts of `SHARED_FACTS`, each kept once."""

    def __init__(self) -> None:
        self._stacks = {name: StackedFrames(schema=schema) for name, schema in SMALL_FRAMES.items()}
        self._facts: dict[Hashable, Hashable] = {}

    def add(self, frames: FileFrames) -> FileFrames:
        """The frames of one more file, which take less memory."""
        number = len(self._stacks["lanes"])
        for name, stack in self._stacks.items():
            stack.append(frames.small_frames[name])
        facts = {name: self._keep_once(getattr(frames.facts, name)) for name in SHARED_FACTS}
        return replace(
            frames, small_frames=_StackedFileFrames(self._stacks, number), facts=replace(frames.facts, **facts)
        )

    def _keep_once(self, fact: Hashable) -> Hashable:
        """The first fact that is equal to this one."""
        return self._facts.setdefault(fact, fact)


class _StackedFileFrames(Mapping[str, pl.DataFrame]):
    """The small frames of one file of a stack."""

    def __init__(self, stacks: Mapping[str, StackedFrames], number: int) -> None:
        self._stacks, self._number = stacks, number

    def __reduce__(self) -> tuple[type[dict[str, pl.DataFrame]], tuple[dict[str, pl.DataFrame]]]:
        """Other processes get the frames of this file alone."""
        return dict, (dict(self),)

    def __getitem__(self, name: str) -> pl.DataFrame:
        """One of the frames."""
        return self._stacks[name][self._number]

    def __iter__(self) -> Iterator[str]:
        """The names of the frames."""
        return iter(self._stacks)

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._stacks)
