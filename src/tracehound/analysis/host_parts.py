"""What the host does for an XLA device: feeds it, fetches from it, compiles for it, or something else.

Owns the names of host events that say so, in the vocabularies of JAX, PyTorch/XLA and TensorFlow. Knows no device.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

import polars as pl

from tracehound.analysis.result import OfHost, Share
from tracehound.analysis.settings import Given, Setting, pattern
from tracehound.analysis.threads import together, told_by_name
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


def _of_host(share: Share, given: Given) -> dict[str, Intervals]:
    return together(share, partial(_of_threads, LOADER.of(given)))


def _of_threads(loader: re.Pattern[str], threads: pl.LazyFrame) -> dict[str, Intervals]:
    mine = pl.col("kind").is_in([*_WORKING, "python"])
    rows = collected(threads.filter(mine).select("start", "end", "kind", "name"))
    part = told_by_name(rows, lambda name, kind: part_of(name, kind, loader))
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    return {name: union(start[part == number], end[part == number]) for number, name in enumerate(PARTS)}


HOST_PARTS: Final = OfHost(_of_host, (LOADER.name,))
"""When any thread of a host is at each of `PARTS`: sets that may overlap.

Frames of Python count only where they load data: they cover all of the time.
"""


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
