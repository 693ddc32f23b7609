"""What the host does for an XLA device: feeds it, fetches from it, compiles for it, or something else.

Owns the names of host events that say so, in the vocabularies of JAX, PyTorch/XLA and TensorFlow. Knows no device.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracehound.analysis.result import Share
from tracehound.analysis.settings import Given, Setting, pattern
from tracehound.intervals import Intervals, union
from tracehound.trace import collected

PARTS: Final = ("input", "output", "compile", "host")
"""In the order of precedence."""

_INPUT, _OUTPUT, _COMPILE, _HOST = range(len(PARTS))

LOADER: Final = Setting(
    "loader",
    r"IteratorGetNext|Iterator::(GetNext|Prefetch)|DataLoader|data_?load|input_?pipeline|cpu_loader\.next"
    r"|get_batch|next_?batch|wait_for_batch|\bgrain\b|infeed",
    "host events with this pattern in their names load data (or wait for it)",
    pattern,
)

SENDING: Final = re.compile(
    r"TransferTo|TransferShardsToDevice|ToDevice|H2D|HtoD|[Dd]evice_?[Pp]ut|BufferFromHost|FromHostBuffer|shard_arg"
    r"|cpu_data_to_xla_device|copy_array_to_devices|(?<!De)Linearize|^h2d$"
)
FETCHING: Final = re.compile(
    r"TransferFrom|FromDevice|D2H|DtoH|ToLiteral|copy_to_host|np\.asarray|GetDataShard|Delinearize|[Oo]utfeed|^d2h$"
)
_WORKING: Final = ("runtime", "annotation", "transfer", "compile", "copy")
"""Kinds of host events in which the host is at work. Waits, ops of the CPU's devices and marks of steps are none."""


def host_parts(share: Share, given: Given) -> dict[str, Intervals]:
    """When any thread of the host is at each of `PARTS`: sets that may overlap.

    Frames of Python count only where they load data: they cover all of the time.
    """
    loader, kinds = LOADER.of(given), [*_WORKING, "python"]
    rows = collected(share.threads.filter(pl.col("kind").is_in(kinds)).select("start", "end", "kind", "name"))
    told = rows.select("name", "kind").unique()
    parts = [part_of(name, kind, loader) for name, kind in told.cast(pl.String).iter_rows()]
    known = told.with_columns(pl.Series("part", parts, pl.Int64))
    part = rows.join(known, on=["name", "kind"], how="left", maintain_order="left")["part"].fill_null(-1).to_numpy()
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    return {name: union(start[part == number], end[part == number]) for number, name in enumerate(PARTS)}


def part_of(name: str, kind: str, loader: re.Pattern[str]) -> int | None:
    """The part of a host event, as its place in `PARTS`; None for one that says nothing."""
    if kind == "compile":
        return _COMPILE
    if kind in ("transfer", "copy", "runtime", "annotation"):
        if SENDING.search(name):
            return _INPUT
        if FETCHING.search(name):
            return _OUTPUT
    if loader.search(name):
        return _INPUT
    return None if kind == "python" else _HOST
