"""What the host does for an XLA device: feeds it, fetches from it, compiles for it, or something else.

Owns the names of host events that say so, in the vocabularies of JAX, PyTorch/XLA and TensorFlow. Knows no device.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.hosts.loading import apart, loading
from tracehound.analysis.hosts.program_threads import program_lanes
from tracehound.analysis.hosts.threads import together, told_by_name
from tracehound.analysis.result import OfHost, Share
from tracehound.analysis.settings import Given, Setting, pattern
from tracehound.intervals import Intervals, covered, merge, union
from tracehound.trace import collected

PARTS: Final = ("input", "output", "compile", "host")
"""In the order of precedence."""

_INPUT, _OUTPUT, _COMPILE, _HOST = range(len(PARTS))
_LOADING = len(PARTS)
"""What is input where `loading` says so."""

LOADER: Final = Setting(
    "loader",
    r"IteratorGetNext|Iterator::(GetNext|Prefetch)|DataLoader|data_?load|input_?pipeline|cpu_loader\.next"
    r"|get_batch|next_?batch|wait_for_batch|\bgrain\b|infeed",
    "host events with this pattern in their names load data (or wait for it)",
    pattern,
)

SENDING: Final = re.compile(
    r"TransferTo|TransferShardsToDevice|(?<!Device)(?<!Copy)ToDevice|H2D|HtoD|[Dd]evice_?[Pp]ut|BufferFromHost"
    r"|FromHostBuffer|shard_arg|cpu_data_to_xla_device|copy_array_to_devices|(?<!De)Linearize|^h2d$"
)
"""From the host to a device, as far as names tell."""

_PUTTING: Final = re.compile(r"[Dd]evice_?[Pp]ut|shard_arg")
"""Of these what JAX calls so for arrays of the host and of devices alike."""

_COPYING: Final = re.compile(r"CopyTo(Device|MemorySpace)|DeviceToDevice|D2D|DtoD")
"""From one device to another: so PjRt's CopyToDevice is, which is CopyToMemorySpace since jax 0.10."""

FETCHING: Final = re.compile(
    r"TransferFrom|FromDevice|D2H|DtoH|ToLiteral|copy_to_host|np\.asarray|GetDataShard|Delinearize|[Oo]utfeed|^d2h$"
)
_TELLING: Final = ("put", "sent", "copied")
_PUT, _SENT, _COPIED = range(len(_TELLING))
"""What tells whether arrays that are put on devices are the host's."""

_MOVING: Final = ("transfer", "copy", "runtime", "annotation")
_WORKING: Final = ("runtime", "annotation", "transfer", "compile", "copy")
"""Kinds of host events in which the host is at work. Waits, ops of the CPU's devices and marks of steps are none."""

_WAITING: Final = ("sync", "op", "collective")
"""Kinds in which a thread is at something else, though it is none of the parts."""


def _of_host(share: Share, given: Given) -> dict[str, Intervals]:
    found = loading(together(share, partial(_of_threads, LOADER.of(given), program_lanes(share))), PARTS[_INPUT])
    if not found:
        return found
    put, sent, copied = (found.pop(name) for name in _TELLING)
    between = (covered(copied, *put) > 0) & (covered(sent, *put) == 0)  # devices alone: all that is copied meanwhile
    for part, mine in ((PARTS[_HOST], between), (PARTS[_INPUT], ~between)):
        found[part] = merge(found[part], Intervals(put.start[mine], put.end[mine]))
    return found


def _of_threads(loader: re.Pattern[str], program: Collection[int], threads: pl.LazyFrame) -> dict[str, Intervals]:
    mine = pl.col("kind").is_in([*_WORKING, *_WAITING, "python"])
    rows = collected(threads.filter(mine).select("lane", "start", "end", "kind", "name"))
    part = told_by_name(rows, lambda name, kind: part_of(name, kind, loader))
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    loads = part == _LOADING
    own, more = apart(rows, loads, program)
    part[loads] = np.where(own, _INPUT, np.where(rows["kind"] == "python", -1, _HOST))[loads]
    telling = told_by_name(rows, _telling)
    found = {name: union(start[telling == number], end[telling == number]) for number, name in enumerate(_TELLING)}
    part[telling == _PUT] = -1
    return more | found | {name: union(start[part == number], end[part == number]) for number, name in enumerate(PARTS)}


def _telling(name: str, kind: str) -> int | None:
    """Which of `_TELLING` an event is, as its place there; None for all others."""
    if kind not in _MOVING:
        return None
    if _COPYING.search(name):
        return _COPIED
    if not SENDING.search(name):
        return None
    return _PUT if _PUTTING.search(name) else _SENT


HOST_PARTS: Final = OfHost(_of_host, (LOADER.name,))
"""When any thread of a host is at each of `PARTS`: sets that may overlap.

Loading is what `loading` says. Frames of Python count only where they load data: they cover all of the time. Where
arrays are put on devices (device_put, shard_args), that is input, but host where the host meanwhile copies from device
to device and sends nothing: such arrays are moved from one device to others.
"""


def part_of(name: str, kind: str, loader: re.Pattern[str]) -> int | None:
    """The part of a host event, as its place in `PARTS`, or `_LOADING`; None for one that says nothing."""
    if kind in _WAITING:
        return None
    if kind == "compile":
        return _COMPILE
    if kind in _MOVING:
        if SENDING.search(name):
            return _INPUT
        if FETCHING.search(name):
            return _OUTPUT
    if loader.search(name):
        return _LOADING
    return None if kind == "python" else _HOST
