"""Facet ``handed`` of an XLA profile: the events that produce and consume each id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.formats.assembly.event_batches import concat_column_sets
from tracehound.formats.spill import MaskedColumn, SpilledRows, columns_to_frame
from tracehound.model.facet_schemas import FACET_SCHEMAS, LINK_COLUMNS


class _LinkedRows(Struct, frozen=True, eq=False):
    """Rows of a chunk with links, and the first and last of their records."""

    spilled: SpilledRows
    rows: npt.NDArray[np.intp]
    first: int
    last: int

    def read(self) -> dict[str, MaskedColumn]:
        """Columns of the rows."""
        columns = self.spilled.read(0, self.spilled.height, ["record", *_link_columns(self.spilled)])
        return {name: column.at(self.rows) for name, column in columns.items()}


def producer_consumer_frames(chunks: Sequence[SpilledRows]) -> Iterator[pl.DataFrame]:
    """The facet in frames, ordered by record; events that derived lanes repeat are in it once.

    Chunks are read one after the other; only chunks that overlap in the file are read together.
    """
    waiting, last = list[_LinkedRows](), -1
    for linked in sorted(filter(None, map(_find_linked_rows, chunks)), key=lambda linked: linked.first):
        if waiting and linked.first > last:
            yield _merge_linked_rows(waiting)
            waiting = []
        waiting.append(linked)
        last = max(last, linked.last)
    if waiting:
        yield _merge_linked_rows(waiting)


def _link_columns(spilled: SpilledRows) -> list[str]:
    return [name for name in LINK_COLUMNS if name in spilled.dtypes]


def _find_linked_rows(spilled: SpilledRows) -> _LinkedRows | None:
    """Rows with links; None if the chunk has none."""
    columns = spilled.read(0, spilled.height, _link_columns(spilled))
    has_link = [np.ones(spilled.height, np.bool_) if valid is None else valid for _, valid in columns.values()]
    rows = np.flatnonzero(np.any(has_link, axis=0)) if has_link else np.empty(0, np.intp)
    if not len(rows):
        return None
    record = spilled.read(0, spilled.height, ["record"])["record"].values[rows]
    return _LinkedRows(spilled, rows, int(record.min()), int(record.max()))


def _merge_linked_rows(chunks: Sequence[_LinkedRows]) -> pl.DataFrame:
    columns = concat_column_sets([one.read() for one in chunks], [len(one.rows) for one in chunks])
    record = columns["record"].values
    order = np.argsort(record, kind="stable")
    order = order[np.flatnonzero(np.diff(record[order], prepend=-1))]
    return columns_to_frame({name: column.at(order) for name, column in columns.items()}, FACET_SCHEMAS["handed"])
