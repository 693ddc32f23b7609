"""Time of a rank by part, device and host together: each instant belongs to one of eight parts.

Defines the parts, their order of precedence and the events of each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.hosts.host_threads import (
    classify_by_name,
    is_on_program_lane,
    merge_over_chunks,
    program_lanes,
    with_shared_threads,
)
from tracehound.analysis.hosts.host_time_parts import LOADER_SETTING
from tracehound.analysis.rank_trace import RankTrace, SharedHostResult
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.analysis.timing.device_clock import DeviceClock
from tracehound.analysis.timing.row_groups import occurring_numbers
from tracehound.formats.name_filter import NameFilter
from tracehound.model.trace import KINDS, collect_frame
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals, Ints, merge, subtract, union
from tracehound.numeric.self_time import self_intervals

TIME_PARTS: Final = ("kernel", "copy", "memset", "communication", "runtime", "data_loader", "cpu", "other")
"""In the order of precedence; `other` is the rest."""

_DEVICE_KIND_PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {"copy": "copy", "transfer": "copy", "memset": "memset", "collective": "communication"}
)
"""Parts of kinds of device work; all other kinds are computation."""

_HOST_KIND_PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {"runtime": "runtime", "sync": "runtime", "op": "cpu", "annotation": "cpu", "collective": "communication"}
)
"""Parts of kinds of host events. Python frames have none: they would cover all of the time."""

_NAME_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "data_loader": re.compile(rf"^enumerate\(DataPipe\)#|{LOADER_SETTING.default}"),
        "communication": re.compile(r"^(?:gloo|mpi|ucc):"),
    }
)
"""Parts of operators, annotations and loading calls with these names.

Those of NCCL only launch: their device work is communication.
"""
_NAMES_WITH_PARTS: Final = NameFilter(*_NAME_PATTERNS.values())


def intervals_per_time_part(
    rank_trace: RankTrace, events: pl.DataFrame, clock: DeviceClock | None
) -> dict[str, Intervals]:
    """Disjoint intervals of the rank for each of `TIME_PARTS` but the last.

    `events` is the device's work (`device_busy.device_work`), on this clock if the device has one: then the result is
    on it, too.
    """
    of_host = HOST_INTERVALS.result_for(rank_trace)
    sets = {part: clock.to_device_intervals(when) for part, when in of_host.items()} if clock else dict(of_host)
    taken, disjoint = EMPTY_INTERVALS, dict[str, Intervals]()
    for part, more in _device_intervals(events).items():
        sets[part] = merge(sets.get(part, EMPTY_INTERVALS), more)
    for part in TIME_PARTS[:-1]:
        found = sets.get(part, EMPTY_INTERVALS)
        disjoint[part] = subtract(found, taken)
        taken = merge(taken, found)
    return disjoint


def _device_intervals(events: pl.DataFrame) -> dict[str, Intervals]:
    """Intervals of device work of each part; work around other work counts only with its self time."""
    owned = self_intervals(events["start"].to_numpy(), events["end"].to_numpy(), parent_rows(events))
    part = _parts_of_kinds(events["kind"], _DEVICE_KIND_PARTS, "kernel")[owned.owner]
    return _intervals_by_part(part, owned.start, owned.end)


def _host_intervals(rank_trace: RankTrace, given: ChosenSettings) -> dict[str, Intervals]:
    del given
    rank_trace = with_shared_threads(rank_trace)
    return merge_over_chunks(rank_trace, partial(_thread_intervals, program_lanes(rank_trace)))


HOST_INTERVALS: Final = SharedHostResult(_host_intervals)
"""Intervals in which any thread of a host is in a call, in communication, or in an operator, and the program loads
data."""


def _thread_intervals(program: Collection[int], threads: pl.LazyFrame) -> dict[str, Intervals]:
    columns = ("lane", "start", "end", "kind", "name")
    rows = collect_frame(threads.filter(pl.col("kind").is_in(list(_HOST_KIND_PARTS))).select(columns))
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    by_name = classify_by_name(rows, lambda name, _: _part_of_name(name), _NAMES_WITH_PARTS)
    part = _parts_of_kinds(rows["kind"], _HOST_KIND_PARTS, "other")
    loads = (by_name == _LOADING) & (part != TIME_PARTS.index("communication"))
    part = np.where(loads | ((part == _CPU) & (by_name >= 0)), by_name, part)
    part[loads & ~is_on_program_lane(rows["lane"], program)] = _CPU
    return _intervals_by_part(part, start, end)


_LOADING, _CPU = TIME_PARTS.index("data_loader"), TIME_PARTS.index("cpu")


def _part_of_name(name: str) -> int | None:
    """The part of a host event with this name, as its index in `TIME_PARTS`; None if the name has none."""
    return next((TIME_PARTS.index(part) for part, pattern in _NAME_PATTERNS.items() if pattern.search(name)), None)


def _parts_of_kinds(kind: pl.Series, parts: Mapping[str, str], default: str) -> npt.NDArray[np.int8]:
    """The part of each kind, as its index in `TIME_PARTS`."""
    part_of_kind = np.array([TIME_PARTS.index(parts.get(name, default)) for name in KINDS], np.int8)
    return np.asarray(part_of_kind[kind.to_physical().fill_null(KINDS.index("other")).to_numpy()])


def _intervals_by_part(part: npt.NDArray[np.int8], start: Ints, end: Ints) -> dict[str, Intervals]:
    found = dict[str, Intervals]()
    for number in np.flatnonzero(occurring_numbers(part)).tolist():
        mine = part == number
        found[TIME_PARTS[number]] = union(start[mine], end[mine])
    return found
