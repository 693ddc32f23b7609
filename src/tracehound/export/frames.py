"""The events of a trace as one flat table in a file: Parquet, Arrow or csv.

Owns how the table is written: the columns are those of the table `events` that queries see, times are whole
picoseconds. A batch of rows is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import polars as pl
from msgspec.structs import replace
from polars.io.plugins import register_io_source

from tracehound.errors import printable
from tracehound.export.written import Tell, Written
from tracehound.query.tables import EVENTS, TIME, frames
from tracehound.trace import Trace, Window, collected

BATCH: Final = 1 << 17
"""Events that are held at once; also the rows of a group in Parquet."""

_UNITS: Final = {"time": ", ps", "instant": ", ps", "bytes": ", bytes"}


def parquet(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write Parquet, compressed with zstd; the file's metadata say of every column what it means, and in which unit."""
    meanings = {f"tracehound.{column.name}": column.meaning + _UNITS.get(column.unit, "") for column in EVENTS.columns}
    rows = _Rows(trace, window, tell)
    rows.source.sink_parquet(file, metadata=meanings, row_group_size=BATCH)
    return Written(rows.given)


def arrow(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write an Arrow IPC file (Feather), compressed with zstd; with the types that any version of Arrow reads."""
    rows = _Rows(trace, window, tell)
    rows.source.sink_ipc(file, compression="zstd", compat_level=pl.CompatLevel.oldest(), record_batch_size=BATCH)
    return Written(rows.given)


def csv(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write csv with the names of the columns in its first line; control characters in texts are made visible."""
    rows = _Rows(trace, window, tell)
    texts = pl.col(pl.String, pl.Categorical, pl.Enum)
    rows.source.with_columns(texts.map_batches(_visible, return_dtype=pl.String, is_elementwise=True)).sink_csv(file)
    return Written(rows.given)


def _visible(texts: pl.Series) -> pl.Series:
    """Texts that a terminal, to which csv may go, can show and does not obey."""
    words = texts.cast(pl.String)
    odd = {word: printable(word) for word in words.unique().drop_nulls().to_list() if not word.isprintable()}
    return words.replace(odd) if odd else words


def flat(trace: Trace, window: Window) -> pl.LazyFrame:
    """A row for each event that overlaps the window: the columns of `EVENTS`, times in ps.

    In the order of the trace's lanes, and of time on each.
    """
    plain = [pl.col(name).cast(pl.Int64) if kind == TIME else pl.col(name) for name, kind in EVENTS.schema.items()]
    return frames(trace, window)[EVENTS.name].select(plain)


class _Rows:
    """The table as a source that hands it over lane by lane, in batches: left alone, polars reads far ahead.

    `given` is how many rows it has handed over.
    """

    def __init__(self, trace: Trace, window: Window, tell: Tell) -> None:
        self.given = 0
        self._trace, self._window, self._tell = trace, window, tell
        self._schema = flat(trace, window).collect_schema()

    @property
    def source(self) -> pl.LazyFrame:
        """The rows, for a sink."""
        return register_io_source(self._batches, schema=self._schema)

    def _batches(self, *_: object) -> Iterator[pl.DataFrame]:
        times = replace(self._window, ranks=None)  # the lanes that are read are those of the ranks
        lanes = self._trace.lanes_of(self._window.ranks)
        done, total = 0, int(lanes["events"].sum())
        for rows, count in _stretches(self._trace, lanes):
            batch = collected(flat(replace(self._trace, frames=(rows,)), times))
            self.given += batch.height
            done += count
            self._tell(done / max(total, 1))
            yield batch


def _stretches(trace: Trace, lanes: pl.DataFrame) -> Iterator[tuple[pl.LazyFrame, int]]:
    """The events of the lanes in stretches of at most `BATCH`, and how many there are in each."""
    together, held = list[int](), 0
    for lane, count in lanes.select("lane", "events").sort("lane").iter_rows():
        if together and held + count > BATCH:
            yield trace.events(together), held
            together, held = [], 0
        if count > BATCH:
            for at in range(0, count, BATCH):
                yield trace.events([lane]).slice(at, BATCH), min(BATCH, count - at)
        else:
            together, held = [*together, lane], held + count
    if together:
        yield trace.events(together), held
