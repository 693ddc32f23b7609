"""Queries on events and facets of files, made when they are needed: one takes as much memory as hundreds of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import polars as pl

from tracehound.model.lazy_sequence import LazySequence

SCANS_KEPT: Final = 64
"""Scans of files that are kept: those of the files on a screen."""


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
    """The facets of a file by name, scanned when they are needed."""

    def __init__(self, makers: Mapping[str, Callable[[], pl.LazyFrame]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> pl.LazyFrame:
        """One facet."""
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        """The names of the facets."""
        return iter(self._makers)

    def __len__(self) -> int:
        """The number of facets."""
        return len(self._makers)
