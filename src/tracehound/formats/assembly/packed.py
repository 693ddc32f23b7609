"""Events in Arrow files: the schema `EVENTS` in a form that zstd writes three times faster, and what reads it back.

Owns how events lie on disk. A time is two columns of 32 bits, of which one hardly changes; a length stands for an end,
a distance for an id or for the time by another clock; the id itself is the row. Knows no event's meaning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tracehound.formats.spill import Column, frame_of
from tracehound.heap import release
from tracehound.trace import EVENTS

_SPLIT: Final = ("start", "length", "inner", "ahead", "device_length")
_AS_IS: Final = (
    "name", "kind", "rank", "step", "depth", "launch", "correlation", "external", "run", "op", "bytes",
)  # fmt: skip
_PACKED: Final = {
    "lane": pl.Int32(),
    **{f"{name}_high": pl.Int32() for name in _SPLIT},
    **{name: pl.UInt32() for name in _SPLIT},
    "above": pl.Int32(),
    "beside_high": pl.Int32(),
    "beside": pl.UInt16(),
    **{name: EVENTS[name] for name in _AS_IS},
}
_WRITERS: Final = 2
"""Threads that write: one compresses what the other has encoded."""

_TOGETHER: Final = 2
"""Batches of a file: with more files each question about the events takes longer."""

_MANY: Final = 16
"""Files; of fewer the next file needs what is handed back, and to fetch it anew takes longer than to read that."""

_ROWS: Final = 1 << 16
"""Rows of a record batch, the least that is read."""


def written(batches: Iterable[Mapping[str, Column]], folder: Path | None) -> pl.LazyFrame:
    """All events in these batches, put into files of the folder or held in memory; schema `EVENTS`.

    A batch has columns of `EVENTS` as numbers, and ids that follow those of the one before; its `device_end` is missing
    where `device_start` is, and records are below 2^46. One is written while the next is made. What that took of many
    is handed back. Raises OSError as writing does.
    """
    if folder is None:
        held = [frame_of(batch, EVENTS) for batch in batches]
        return pl.concat(held, rechunk=True).lazy() if held else pl.LazyFrame(schema=EVENTS)
    with ThreadPoolExecutor(_WRITERS) as writer:
        files = _Files(folder, writer)
        for batch in batches:
            files.add(batch)
        paths = files.done()
    if len(paths) > _MANY:
        release()
    return scan(paths)


class _Files:
    """Files of several batches each, which the threads of `writer` make and write."""

    def __init__(self, folder: Path, writer: ThreadPoolExecutor) -> None:
        self._folder, self._writer = folder, writer
        self._paths: list[Path] = []
        self._next: list[Future[pl.DataFrame]] = []
        self._running: deque[Future[Any]] = deque()

    def add(self, batch: Mapping[str, Column]) -> None:
        """Put a batch into the next file. Raises what writing those before raised."""
        while len(self._running) >= _WRITERS:
            self._running.popleft().result()
        self._next.append(self._writer.submit(_frame, batch))
        self._running.append(self._next[-1])
        if len(self._next) == _TOGETHER:
            self._write()

    def done(self) -> list[Path]:
        """All files, which are written now."""
        self._write()
        for running in self._running:
            running.result()
        return self._paths

    def _write(self) -> None:
        frames, self._next = self._next, []
        if frames:
            self._paths.append(self._folder / f"events-{len(self._paths):06}.arrow")
            self._running.append(self._writer.submit(_write, frames, self._paths[-1]))


def _write(frames: Sequence[Future[pl.DataFrame]], path: Path) -> None:
    frame = pl.concat([frame.result() for frame in frames])  # they were begun before this
    frame.write_ipc(path, compression="zstd", record_batch_size=_ROWS)


def _frame(events: Mapping[str, Column]) -> pl.DataFrame:
    """The events of a batch as they lie in files."""
    start, end, own, ids = (events[name].values for name in ("start", "end", "self", "id"))
    columns = {name: events[name] for name in (*_AS_IS, "lane") if name in events}
    wide = {"start": Column(start), "length": Column(end - start), "inner": Column(end - start - own)}
    if "device_start" in events:
        begun, ended = events["device_start"], events["device_end"]
        wide["ahead"] = Column(begun.values - start, begun.valid)
        wide["device_length"] = Column(ended.values - begun.values, ended.valid)
    for name, (values, valid) in wide.items():
        halves = np.ascontiguousarray(values).view("<u4").reshape(-1, 2)
        columns[name] = Column(halves[:, 0], valid)
        columns[f"{name}_high"] = Column(halves[:, 1].view("<i4"), valid)
    columns["above"] = Column(ids - events["parent"].values, events["parent"].valid)
    if "record" in events:
        values, valid = events["record"]
        beside = values - ids
        columns["beside"] = Column(beside.astype(np.uint16), valid)
        columns["beside_high"] = Column((beside >> _LOW_BITS).astype(np.int32), valid)
    return frame_of(columns, _PACKED)


_LOW_BITS: Final = 16
"""Of distances of records: those in which neighbours differ."""


def scan(paths: Sequence[Path]) -> pl.LazyFrame:
    """The events of all files, one after the other; a slice reads only the rows that it needs."""
    if not paths:
        return pl.LazyFrame(schema=EVENTS)
    row = pl.col("id").cast(pl.Int64)
    start, length, inner, ahead, device_length = (_whole(name, 32) for name in _SPLIT)
    unpacked = {
        "id": row,
        "start": start,
        "end": start + length,
        "parent": row - pl.col("above"),
        "self": length - inner,
        "record": row + _whole("beside", _LOW_BITS),
        "device_start": start + ahead,
        "device_end": start + ahead + device_length,
    }
    files = pl.scan_ipc(list(paths), row_index_name="id")
    return files.select(unpacked.get(name, pl.col(name)).cast(dtype).alias(name) for name, dtype in EVENTS.items())


def _whole(name: str, bits: int) -> pl.Expr:
    return pl.col(f"{name}_high").cast(pl.Int64) * (1 << bits) + pl.col(name).cast(pl.Int64)
