"""What a rank's time goes to, device and host together: each instant to one of eight parts.

Owns the parts, their order of precedence and what of a trace belongs to each. Knows no steps and no tables.
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

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.events.numbering import occurring
from tracehound.analysis.events.own_clock import OwnClock
from tracehound.analysis.hosts.parts import LOADER
from tracehound.analysis.hosts.program_threads import of_program, program_lanes
from tracehound.analysis.hosts.threads import together, told_by_name
from tracehound.analysis.result import OfHost, Share
from tracehound.analysis.settings import Given
from tracehound.intervals import EMPTY, Intervals, Ints, merge, subtract, union
from tracehound.own_time import own_stretches
from tracehound.trace import KINDS, collected

PARTS: Final = ("kernel", "copy", "memset", "communication", "runtime", "data_loader", "cpu", "other")
"""In the order of precedence; `other` is what is left."""

_OF_DEVICE: Final[Mapping[str, str]] = MappingProxyType(
    {"copy": "copy", "transfer": "copy", "memset": "memset", "collective": "communication"}
)
"""The parts of kinds of device work; all other kinds are computation."""

_OF_HOST: Final[Mapping[str, str]] = MappingProxyType(
    {"runtime": "runtime", "sync": "runtime", "op": "cpu", "annotation": "cpu", "collective": "communication"}
)
"""The parts of kinds of host events. Frames of Python are none: they would cover all of the time."""

_BY_NAME: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "data_loader": re.compile(rf"^enumerate\(DataPipe\)#|{LOADER.default}"),
        "communication": re.compile(r"^(?:gloo|mpi|ucc):"),
    }
)
"""What operators and annotations of these names are, and calls that load data.

Those of NCCL only launch: what they launch is communication.
"""


def activity(share: Share, events: pl.DataFrame, clock: OwnClock | None) -> dict[str, Intervals]:
    """When the rank spends its time on which of `PARTS` but the last: sets that share no instant.

    `events` is the device's work (`busy.work`), on this clock of its own where it has one: then the answer is, too.
    """
    of_host = HOST.of(share)
    sets = {part: clock.moved(when) for part, when in of_host.items()} if clock else dict(of_host)
    taken, apart = EMPTY, dict[str, Intervals]()
    for part, more in _of_device(events).items():
        sets[part] = merge(sets.get(part, EMPTY), more)
    for part in PARTS[:-1]:
        found = sets.get(part, EMPTY)
        apart[part] = subtract(found, taken)
        taken = merge(taken, found)
    return apart


def _of_device(events: pl.DataFrame) -> dict[str, Intervals]:
    """When work of each part runs; work around other work counts only where it runs itself."""
    owned = own_stretches(events["start"].to_numpy(), events["end"].to_numpy(), local_parent(events))
    part = _part(events["kind"], _OF_DEVICE, "kernel")[owned.owner]
    return _when(part, owned.start, owned.end)


def _of_host(share: Share, given: Given) -> dict[str, Intervals]:
    del given
    return together(share, partial(_of_threads, program_lanes(share)))


HOST: Final = OfHost(_of_host)
"""When any thread of a host is in a call, in communication, or in an operator, and when the program loads data."""


def _of_threads(program: Collection[int], threads: pl.LazyFrame) -> dict[str, Intervals]:
    columns = ("lane", "start", "end", "kind", "name")
    rows = collected(threads.filter(pl.col("kind").is_in(list(_OF_HOST))).select(columns))
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    by_name = told_by_name(rows, lambda name, _: _named(name))
    part = _part(rows["kind"], _OF_HOST, "other")
    loads = (by_name == _LOADING) & (part != PARTS.index("communication"))
    part = np.where(loads | ((part == _CPU) & (by_name >= 0)), by_name, part)
    part[loads & ~of_program(rows["lane"], program)] = _CPU
    return _when(part, start, end)


_LOADING, _CPU = PARTS.index("data_loader"), PARTS.index("cpu")


def _named(name: str) -> int | None:
    """What an event of the host with this name is, as its place in `PARTS`; None where the name says nothing."""
    return next((PARTS.index(part) for part, pattern in _BY_NAME.items() if pattern.search(name)), None)


def _part(kind: pl.Series, parts: Mapping[str, str], default: str) -> npt.NDArray[np.int8]:
    """The part of each kind, as its place in `PARTS`."""
    told = np.array([PARTS.index(parts.get(name, default)) for name in KINDS], np.int8)
    return np.asarray(told[kind.to_physical().fill_null(KINDS.index("other")).to_numpy()])


def _when(part: npt.NDArray[np.int8], start: Ints, end: Ints) -> dict[str, Intervals]:
    found = dict[str, Intervals]()
    for number in np.flatnonzero(occurring(part)).tolist():
        mine = part == number
        found[PARTS[number]] = union(start[mine], end[mine])
    return found
