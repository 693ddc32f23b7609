"""Facets that were put aside, segment after segment -> frames beside the events of the part.

Owns how they lie on disk: a file for each facet and segment. Knows no event's meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tracehound.facets import FACETS
from tracehound.formats.assembly.batches import joined
from tracehound.formats.spill import Column, Kept, Spill, frame_of
from tracehound.intervals import Ints, Mask
from tracehound.trace import collected

_ROWS: Final = 1 << 18
"""Rows from which on a file begins anew."""

_LEAST: Final = 1 << 16
"""Rows of a record batch, the least that is read."""

Placed = Callable[[Ints], tuple[Mask, Ints]]
"""What tells which times of a file can be true, and what they are on the clock of the part."""


Piece = tuple[str, pl.DataFrame | Path]
"""The name of a facet, and the file in which some of its rows lie, else these rows."""


def pieces(
    segments: Sequence[Mapping[str, Kept]], firsts: Sequence[int], placed: Placed, spill: Spill
) -> Iterator[Piece]:
    """The facets of all segments, whose first events have the records `firsts`, in their order.

    A segment may leave out columns of which it has nothing. Each piece is put into the spill's folder when it is asked
    for; without one its rows stay in memory. Raises OSError as writing does.
    """
    for name in dict.fromkeys(name for segment in segments for name in segment):
        waiting = [(segment[name], first) for segment, first in zip(segments, firsts, strict=True) if name in segment]
        yield from filed(name, (_of_part(some, name, placed) for some in _together(waiting)), spill)


def _together(segments: Iterable[tuple[Kept, int]]) -> Iterator[list[tuple[Kept, int]]]:
    """Segments as they are read together: polars takes a millisecond for each frame, however small it is."""
    some, rows = [], 0
    for kept, first in segments:
        some.append((kept, first))
        rows += kept.height
        if rows >= _ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some


def filed(name: str, frames: Iterable[pl.DataFrame], spill: Spill) -> Iterator[Piece]:
    """A facet in frames that follow one another, likewise."""
    for number, rows in enumerate(_gathered(frames)):
        yield name, _filed(rows, name, number, spill)


def beside(made: Iterable[Piece]) -> dict[str, pl.LazyFrame]:
    """The facets of which these are all pieces."""
    found: dict[str, list[pl.DataFrame | Path]] = {}
    for name, piece in made:
        found.setdefault(name, []).append(piece)
    return {name: _scan(name, each) for name, each in found.items()}


def _gathered(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The same rows in few frames: each file has all categories that there are."""
    waiting: list[pl.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(each.height for each in waiting) >= _ROWS:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _filed(rows: pl.DataFrame, name: str, number: int, spill: Spill) -> pl.DataFrame | Path:
    if spill.folder is None:
        return rows
    path = spill.folder / f"{name}-{number:06}.arrow"
    rows.write_ipc(path, compression="zstd", record_batch_size=_LEAST)
    return path


def written(facets: Mapping[str, pl.LazyFrame], folder: Path) -> None:
    """Write facets that are in memory. Raises OSError."""
    for name, facet in facets.items():
        collected(facet).write_ipc(folder / f"{name}-{0:06}.arrow", compression="zstd")


def found(names: Sequence[str], folder: Path) -> dict[str, pl.LazyFrame]:
    """The facets that lie in files of these names in a folder, each in the order of its files."""
    sorts = {name.rpartition("-")[0] for name in names}
    return {
        sort: _scan(sort, [folder / name for name in sorted(names) if name.startswith(f"{sort}-")])
        for sort in sorts & FACETS.keys()
    }


def files(folder: Path) -> list[Path]:
    """The files of facets in a folder."""
    return sorted(path for name in FACETS for path in folder.glob(f"{name}-*.arrow"))


def _of_part(segments: Sequence[tuple[Kept, int]], name: str, placed: Placed) -> pl.DataFrame:
    """The rows of some segments with all columns of the facet, and records and times of the part."""
    parts = []
    for kept, first in segments:
        columns = kept.read(0, kept.height, list(kept.dtypes))
        parts.append(columns | {"record": Column(columns["record"].values + first)})
    columns = joined(parts, [kept.height for kept, _ in segments])
    if "time" in columns:
        good, time = placed(columns["time"].values)
        columns["time"] = Column(time)
        if not good.all():
            columns = {each: column.at(np.flatnonzero(good)) for each, column in columns.items()}
    return frame_of(columns, FACETS[name])


def _scan(name: str, made: Sequence[pl.DataFrame | Path]) -> pl.LazyFrame:
    paths = [piece for piece in made if isinstance(piece, Path)]
    if paths:
        return pl.scan_ipc(paths).cast(FACETS[name])
    return pl.concat([piece for piece in made if isinstance(piece, pl.DataFrame)]).lazy()
