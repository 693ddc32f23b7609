"""The facet ``handed`` of an XLA profile: which events produce and consume the same ids.

Owns its order and that each event is there once. Knows no meaning of these ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.facets import FACETS, LINKS
from tracehound.formats.assembly.batches import joined
from tracehound.formats.spill import Column, Kept, frame_of


class _Linked(Struct, frozen=True, eq=False):
    """The rows of a piece that have links, and the first and the last of their records."""

    kept: Kept
    rows: npt.NDArray[np.intp]
    first: int
    last: int

    def read(self) -> dict[str, Column]:
        """Their columns."""
        columns = self.kept.read(0, self.kept.height, ["record", *_links(self.kept)])
        return {name: column.at(self.rows) for name, column in columns.items()}


def handed(pieces: Sequence[Kept]) -> Iterator[pl.DataFrame]:
    """The facet in frames, in the order of records; what derived lanes show again is there once.

    Pieces are of different places in the file, and read one after the other; only those that have events of the same
    place are read together.
    """
    waiting, last = list[_Linked](), -1
    for found in sorted(filter(None, map(_linked, pieces)), key=lambda one: one.first):
        if waiting and found.first > last:
            yield _frame(waiting)
            waiting = []
        waiting.append(found)
        last = max(last, found.last)
    if waiting:
        yield _frame(waiting)


def _links(kept: Kept) -> list[str]:
    return [name for name in LINKS if name in kept.dtypes]


def _linked(kept: Kept) -> _Linked | None:
    """None of a piece in which nothing is handed over."""
    columns = kept.read(0, kept.height, _links(kept))
    known = [np.ones(kept.height, np.bool_) if valid is None else valid for _, valid in columns.values()]
    rows = np.flatnonzero(np.any(known, axis=0)) if known else np.empty(0, np.intp)
    if not len(rows):
        return None
    record = kept.read(0, kept.height, ["record"])["record"].values[rows]
    return _Linked(kept, rows, int(record.min()), int(record.max()))


def _frame(pieces: Sequence[_Linked]) -> pl.DataFrame:
    columns = joined([one.read() for one in pieces], [len(one.rows) for one in pieces])
    record = columns["record"].values
    order = np.argsort(record, kind="stable")
    order = order[np.flatnonzero(np.diff(record[order], prepend=-1))]
    return frame_of({name: column.at(order) for name, column in columns.items()}, FACETS["handed"])
