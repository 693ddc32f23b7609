"""The events of a trace as one flat table in a file: Parquet, Arrow or csv.

Owns how the table is written: the columns are those of the table `events` that queries see, times are whole
picoseconds. Rows stream from the cache to the file.
"""

from __future__ import annotations

from typing import BinaryIO

import polars as pl

from tracehound.export.written import Tell, Written
from tracehound.query.tables import EVENTS, TIME, frames
from tracehound.trace import Trace, Window


def parquet(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write Parquet, compressed with zstd; the file's metadata say what the columns mean, and in which unit."""
    tell(0.0)
    meanings = {f"tracehound.{column.name}": f"{column.meaning}{_unit(column.unit)}" for column in EVENTS.columns}
    table = flat(trace, window)
    table.sink_parquet(file, metadata=meanings)
    return _count(table)


def arrow(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write an Arrow IPC file (Feather), compressed with zstd."""
    tell(0.0)
    table = flat(trace, window)
    table.sink_ipc(file, compression="zstd")
    return _count(table)


def csv(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write csv with the names of the columns in its first line."""
    tell(0.0)
    table = flat(trace, window)
    table.sink_csv(file)
    return _count(table)


def flat(trace: Trace, window: Window) -> pl.LazyFrame:
    """A row for each event: the columns of `EVENTS`, times in ps, in the order of the trace's lanes and of time."""
    plain = [pl.col(name).cast(pl.Int64) if kind == TIME else pl.col(name) for name, kind in EVENTS.schema.items()]
    return frames(trace, window)[EVENTS.name].select(plain)


def _unit(unit: str) -> str:
    return {"time": ", ps", "instant": ", ps", "bytes": ", bytes"}.get(unit, "")


def _count(table: pl.LazyFrame) -> Written:
    return Written(int(table.select(pl.len()).collect(engine="streaming").item()))
