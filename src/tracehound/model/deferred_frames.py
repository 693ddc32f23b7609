"""Queries on events and facets of files, made when they are needed: one takes as much memory as hundreds of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.model.lazy_sequence import LazySequence

SCANS_KEPT: Final = 64
"""Scans of files that are kept: those of the files on a screen."""


class FrameInMemory(Struct, frozen=True, eq=False):
    """A query on a frame in memory: its rows are there without running it, which takes as long as hundreds of them."""

    frame: pl.DataFrame

    def __call__(self) -> pl.LazyFrame:
        """The query."""
        return self.frame.lazy()


class DeferredScans(LazySequence[pl.LazyFrame]):
    """The events of each file, scanned when they are needed; the latest scans are kept."""

    def __init__(self, makers: Sequence[Callable[[], pl.LazyFrame]]) -> None:
        self._count = len(makers)
        self._make = lru_cache(SCANS_KEPT)(lambda number: makers[number]())

    def __len__(self) -> int:
        """The number of files."""
        return self._count

    def _make_item(self, number: int) -> pl.LazyFrame:
        """The events of one file."""
        return self._make(number)


class DeferredFacets(Mapping[str, pl.LazyFrame]):
    """The facets of a file by name; `scan` scans one when it is needed."""

    def __init__(self, names: Iterable[str], scan: Callable[[str], pl.LazyFrame]) -> None:
        self._names, self._scan = tuple(names), scan

    def __getitem__(self, name: str) -> pl.LazyFrame:
        """One facet."""
        if name not in self._names:
            raise KeyError(name)
        return self._scan(name)

    def __iter__(self) -> Iterator[str]:
        """The names of the facets."""
        return iter(self._names)

    def __len__(self) -> int:
        """The number of facets."""
        return len(self._names)


class FacetsInMemory(Mapping[str, pl.LazyFrame]):
    """The facets of a file by name, whose `frames` are in memory."""

    def __init__(self, frames: Mapping[str, pl.DataFrame]) -> None:
        self.frames = frames

    def __getitem__(self, name: str) -> pl.LazyFrame:
        """One facet."""
        return self.frames[name].lazy()

    def __iter__(self) -> Iterator[str]:
        """The names of the facets."""
        return iter(self.frames)

    def __len__(self) -> int:
        """The number of facets."""
        return len(self.frames)
