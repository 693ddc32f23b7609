"""The events of a trace as one flat table in a file: Parquet, Arrow or csv.

Owns the writing of the table: the columns are those of the table `events` in queries, times are whole picoseconds. A
batch of rows is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import polars as pl
from msgspec.structs import replace
from polars.io.plugins import register_io_source

from tracehound.errors import printable
from tracehound.export import ExportSummary, ReportProgress
from tracehound.model.trace import Trace, Window, collect_frame
from tracehound.query.sql_tables import EVENTS_TABLE, TIME_TYPE, model_frames

ROWS_AT_ONCE: Final = 1 << 17
"""Events that are in memory at a time; also the rows of a group in Parquet."""

_UNIT_SUFFIXES: Final = {"time": ", ps", "instant": ", ps", "bytes": ", bytes"}


def write_parquet(trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress) -> ExportSummary:
    """Write Parquet, compressed with zstd; the file's metadata has meaning and unit of every column."""
    meanings = {
        f"tracehound.{column.name}": column.meaning + _UNIT_SUFFIXES.get(column.unit, "")
        for column in EVENTS_TABLE.columns
    }
    rows = _EventRows(trace, window, report_progress)
    rows.lazy_frame.sink_parquet(file, metadata=meanings, row_group_size=ROWS_AT_ONCE)
    return ExportSummary(rows.row_count)


def write_arrow(trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress) -> ExportSummary:
    """Write an Arrow IPC file (Feather), compressed with zstd; with the types that any version of Arrow reads."""
    rows = _EventRows(trace, window, report_progress)
    rows.lazy_frame.sink_ipc(
        file, compression="zstd", compat_level=pl.CompatLevel.oldest(), record_batch_size=ROWS_AT_ONCE
    )
    return ExportSummary(rows.row_count)


def write_csv(trace: Trace, window: Window, file: BinaryIO, report_progress: ReportProgress) -> ExportSummary:
    """Write csv with the names of the columns in its first line; control characters in texts are made visible."""
    rows = _EventRows(trace, window, report_progress)
    texts = pl.col(pl.String, pl.Categorical, pl.Enum)
    rows.lazy_frame.with_columns(
        texts.map_batches(_make_printable, return_dtype=pl.String, is_elementwise=True)
    ).sink_csv(file)
    return ExportSummary(rows.row_count)


def _make_printable(texts: pl.Series) -> pl.Series:
    """Texts with control characters made visible, since csv may go to a terminal."""
    words = texts.cast(pl.String)
    odd = {word: printable(word) for word in words.unique().drop_nulls().to_list() if not word.isprintable()}
    return words.replace(odd) if odd else words


def flat_events(trace: Trace, window: Window, events: pl.LazyFrame | None = None) -> pl.LazyFrame:
    """A row for each event that overlaps the window: the columns of `EVENTS_TABLE`, times in ps.

    In the order of the trace's lanes, and of time on each. `events` are some of the trace; None: all.
    """
    plain = [
        pl.col(name).cast(pl.Int64) if kind == TIME_TYPE else pl.col(name) for name, kind in EVENTS_TABLE.schema.items()
    ]
    return model_frames(trace, window, events)[EVENTS_TABLE.name].select(plain)


class _EventRows:
    """The table as a source that yields it lane by lane, in batches: by itself polars would read far ahead.

    `row_count` is the number of rows so far.
    """

    def __init__(self, trace: Trace, window: Window, report_progress: ReportProgress) -> None:
        self.row_count = 0
        self._trace, self._window, self._tell = trace, window, report_progress
        self._schema = flat_events(trace, window).collect_schema()

    @property
    def lazy_frame(self) -> pl.LazyFrame:
        """The rows, for a sink."""
        return register_io_source(self._batches, schema=self._schema)

    def _batches(self, *_: object) -> Iterator[pl.DataFrame]:
        """The rows, batch by batch."""
        times = replace(self._window, ranks=None)  # the lanes that are read are those of the ranks
        lanes = self._trace.lanes_of(self._window.ranks)
        done, total = 0, int(lanes["events"].sum())
        for rows, count in _lane_batches(self._trace, lanes):
            batch = collect_frame(flat_events(self._trace, times, rows))
            self.row_count += batch.height
            done += count
            self._tell(done / max(total, 1))
            yield batch


def _lane_batches(trace: Trace, lanes: pl.DataFrame) -> Iterator[tuple[pl.LazyFrame, int]]:
    """The events of the lanes in batches of at most `ROWS_AT_ONCE`, and the number of rows in each."""
    together, held = list[int](), 0
    for lane, count in lanes.select("lane", "events").sort("lane").iter_rows():
        if together and held + count > ROWS_AT_ONCE:
            yield trace.events(together), held
            together, held = [], 0
        if count > ROWS_AT_ONCE:
            for at in range(0, count, ROWS_AT_ONCE):
                yield trace.events([lane]).slice(at, ROWS_AT_ONCE), min(ROWS_AT_ONCE, count - at)
        else:
            together, held = [*together, lane], held + count
    if together:
        yield trace.events(together), held
