"""What a rank's time goes to, device and host together: each instant to one of eight parts.

Owns the parts, their order of precedence and what of a trace belongs to each. Knows no steps and no tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.busy import local_parent
from tracehound.analysis.result import Share
from tracehound.intervals import EMPTY, Intervals, Ints, merge, subtract, union
from tracehound.nesting import own_stretches
from tracehound.trace import collected

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
    {"data_loader": re.compile(r"enumerate\(Data(?:Loader|Pipe)\)#"), "communication": re.compile(r"(?:gloo|mpi|ucc):")}
)
"""What operators and annotations of these names are. Those of NCCL only launch: what they launch is communication."""


def activity(share: Share, events: pl.DataFrame) -> dict[str, Intervals]:
    """When the rank spends its time on which of `PARTS` but the last: sets that share no instant.

    `events` is the device's work (`busy.work`).
    """
    sets, taken, apart = _of_host(share), EMPTY, dict[str, Intervals]()
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
    part = _part(events["kind"], _OF_DEVICE, "kernel").to_numpy()[owned.owner]
    return _when(part, owned.start, owned.end)


def _of_host(share: Share) -> dict[str, Intervals]:
    """When any thread of the host is in a call, in the loading of data, in communication, or in an operator."""
    rows = collected(share.threads.filter(pl.col("kind").is_in(list(_OF_HOST))).select("start", "end", "kind", "name"))
    names = rows["name"].unique().cast(pl.String).drop_nulls().to_list()
    told = {name: part for name in names for part, pattern in _BY_NAME.items() if pattern.match(name)}
    part = _part(rows["kind"], _OF_HOST, "other")
    if told:
        by_name = rows["name"].cast(pl.String).replace_strict(_numbered(told), default=None, return_dtype=pl.Int8)
        part = pl.select(pl.when(part == PARTS.index("cpu")).then(by_name).otherwise(None).fill_null(part)).to_series()
    return _when(part.to_numpy(), rows["start"].to_numpy(), rows["end"].to_numpy())


def _part(kind: pl.Series, parts: Mapping[str, str], default: str) -> pl.Series:
    """The part of each kind, as its place in `PARTS`."""
    known = kind.cast(pl.String)
    return known.replace_strict(_numbered(parts), default=PARTS.index(default), return_dtype=pl.Int8)


def _numbered(parts: Mapping[str, str]) -> dict[str, int]:
    return {name: PARTS.index(part) for name, part in parts.items()}


def _when(part: npt.NDArray[np.int8], start: Ints, end: Ints) -> dict[str, Intervals]:
    return {PARTS[number]: union(start[part == number], end[part == number]) for number in np.unique(part).tolist()}
