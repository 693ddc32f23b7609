"""Work of the host for an XLA device: input, output, compilation, other.

Holds the names of such host events in the vocabularies of JAX, PyTorch/XLA and TensorFlow. Loading of data counts on
the program's threads: a pipeline that reads ahead on a thread of its own delays nobody who does something else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings, Setting, parse_pattern
from tracehound.analysis.hosts.host_threads import (
    classify_by_name,
    is_on_program_lane,
    merge_over_chunks,
    program_lanes,
)
from tracehound.analysis.rank_trace import RankTrace, SharedHostResult
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals, Mask, covered_lengths, merge, subtract, union

PART_NAMES: Final = ("input", "output", "compile", "host")
"""In the order of precedence."""

_INPUT, _OUTPUT, _COMPILE, _HOST = range(len(PART_NAMES))
_LOADING_CODE = len(PART_NAMES)
"""Loading of data, which may be input (see `add_read_ahead`)."""

LOADER_SETTING: Final = Setting(
    "loader",
    r"IteratorGetNext|Iterator::(GetNext|Prefetch)|DataLoader|data_?load|input_?pipeline|cpu_loader\.next"
    r"|get_batch|next_?batch|wait_for_batch|\bgrain\b|infeed",
    "host events with this pattern in their names load data (or wait for it)",
    parse_pattern,
)

SENDING_NAMES: Final = re.compile(
    r"TransferTo|TransferShardsToDevice|(?<!Device)(?<!Copy)ToDevice|H2D|HtoD|[Dd]evice_?[Pp]ut|BufferFromHost"
    r"|FromHostBuffer|shard_arg|cpu_data_to_xla_device|copy_array_to_devices|(?<!De)Linearize|^h2d$"
)
"""Names of transfers from the host to a device."""

_PUTTING_NAMES: Final = re.compile(r"[Dd]evice_?[Pp]ut|shard_arg")
"""Names that JAX uses for arrays of the host and of devices alike."""

_DEVICE_COPY_NAMES: Final = re.compile(r"CopyTo(Device|MemorySpace)|DeviceToDevice|D2D|DtoD")
"""Names of transfers between devices, as PjRt's CopyToDevice, which is CopyToMemorySpace since jax 0.10."""

FETCHING_NAMES: Final = re.compile(
    r"TransferFrom|FromDevice|D2H|DtoH|ToLiteral|copy_to_host|np\.asarray|GetDataShard|Delinearize|[Oo]utfeed|^d2h$"
)
_TRANSFER_SETS: Final = ("put", "sent", "copied")
_PUT, _SENT, _COPIED = range(len(_TRANSFER_SETS))
"""Sets of transfers that show whether arrays put on devices are the host's."""

_TRANSFER_KINDS: Final = ("transfer", "copy", "runtime", "annotation")
_WORKING_KINDS: Final = ("runtime", "annotation", "transfer", "compile", "copy")
"""Kinds of host events in which the host works. Waits, ops of CPU devices and marks of steps do not count."""

_WAITING_KINDS: Final = ("sync", "op", "collective")
"""Kinds of events that are none of the parts, though the thread is busy."""


def _host_part_intervals(rank_trace: RankTrace, given: ChosenSettings) -> dict[str, Intervals]:
    found = add_read_ahead(
        merge_over_chunks(
            rank_trace, partial(_thread_part_intervals, LOADER_SETTING.value_in(given), program_lanes(rank_trace))
        ),
        PART_NAMES[_INPUT],
    )
    if not found:
        return found
    put, sent, copied = (found.pop(name) for name in _TRANSFER_SETS)
    between = (covered_lengths(copied, *put) > 0) & (
        covered_lengths(sent, *put) == 0
    )  # moved between devices: copies meanwhile, and nothing sent
    for part, mine in ((PART_NAMES[_HOST], between), (PART_NAMES[_INPUT], ~between)):
        found[part] = merge(found[part], Intervals(put.start[mine], put.end[mine]))
    return found


def _thread_part_intervals(
    loader: re.Pattern[str], program: Collection[int], threads: pl.LazyFrame
) -> dict[str, Intervals]:
    mine = pl.col("kind").is_in([*_WORKING_KINDS, *_WAITING_KINDS, "python"])
    rows = collect_frame(threads.filter(mine).select("lane", "start", "end", "kind", "name"))
    part = classify_by_name(rows, lambda name, kind: part_of_event(name, kind, loader))
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    loads = part == _LOADING_CODE
    is_own, more = split_loading_threads(rows, loads, program)
    part[loads] = np.where(is_own, _INPUT, np.where(rows["kind"] == "python", -1, _HOST))[loads]
    transfer_set = classify_by_name(rows, _transfer_set)
    found = {
        name: union(start[transfer_set == number], end[transfer_set == number])
        for number, name in enumerate(_TRANSFER_SETS)
    }
    part[transfer_set == _PUT] = -1
    return (
        more
        | found
        | {name: union(start[part == number], end[part == number]) for number, name in enumerate(PART_NAMES)}
    )


def _transfer_set(name: str, kind: str) -> int | None:
    """The index in `_TRANSFER_SETS` of an event; None for all others."""
    if kind not in _TRANSFER_KINDS:
        return None
    if _DEVICE_COPY_NAMES.search(name):
        return _COPIED
    if not SENDING_NAMES.search(name):
        return None
    return _PUT if _PUTTING_NAMES.search(name) else _SENT


HOST_PARTS: Final = SharedHostResult(_host_part_intervals, (LOADER_SETTING.name,))
"""Intervals in which any thread of a host is at each of `PART_NAMES`; they may overlap.

Loading is as in `add_read_ahead`. Python frames count only if they load data: they cover all of the time. Putting
arrays on devices (device_put, shard_args) is input, but host if the host meanwhile copies between devices and sends
nothing: such arrays move from one device to others.
"""


def part_of_event(name: str, kind: str, loader: re.Pattern[str]) -> int | None:
    """The part of a host event, as its index in `PART_NAMES`, or `_LOADING_CODE`; None if it has none."""
    if kind in _WAITING_KINDS:
        return None
    if kind == "compile":
        return _COMPILE
    if kind in _TRANSFER_KINDS:
        if SENDING_NAMES.search(name):
            return _INPUT
        if FETCHING_NAMES.search(name):
            return _OUTPUT
    if loader.search(name):
        return _LOADING_CODE
    return None if kind == "python" else _HOST


_READ_AHEAD, _PROGRAM_BUSY = "read ahead", "busy"


def split_loading_threads(
    events: pl.DataFrame, loads: Mask, program: Collection[int]
) -> tuple[Mask, dict[str, Intervals]]:
    """Mask of the events that load data on the program's threads, and the intervals that `add_read_ahead` needs.

    `events` have `lane`, `start`, `end` and `kind`, without marks of steps; `loads` is the mask of those that load
    data.
    """
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    own = is_on_program_lane(events["lane"], program)
    ahead, busy = loads & ~own, own & ~loads & (events["kind"] != "python").to_numpy()
    return loads & own, {_READ_AHEAD: union(start[ahead], end[ahead]), _PROGRAM_BUSY: union(start[busy], end[busy])}


def add_read_ahead(found: Mapping[str, Intervals], part: str) -> dict[str, Intervals]:
    """The intervals of all threads, with reading ahead added to `part`, which has the loading on the program's threads.

    Loading on other threads counts while the program's threads are not busy with anything else.
    """
    ahead, busy = (found.get(name, EMPTY_INTERVALS) for name in (_READ_AHEAD, _PROGRAM_BUSY))
    kept_sets = {name: when for name, when in found.items() if name not in (_READ_AHEAD, _PROGRAM_BUSY)}
    return (
        kept_sets | {part: merge(kept_sets.get(part, EMPTY_INTERVALS), subtract(ahead, busy))}
        if kept_sets
        else kept_sets
    )
