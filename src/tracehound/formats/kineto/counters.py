"""The counters of a Kineto file: its counter events, and the memory that its allocators hold.

Owns whose they are and how they are called. Knows no bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.formats.assembly.counters import Counters, Sampled, Series, counters, titled
from tracehound.formats.json.columns import MISSING, whole_number
from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.lanes import tidy
from tracehound.formats.kineto.members import Members, unmarked
from tracehound.formats.kineto.memory import CPU_PREFIX, TITLES, Memory

_GPU: Final = re.compile(r"(?:GPU|MTIA|HPU|XPU)\s*(\d{1,9})(?!\d)")
"""How a process or a counter is called that belongs to a device: ``GPU 0 Counters``, ``GPU 0 Utilization``."""


def drawn(found: Sampled, origin: int, ranks: pl.DataFrame, whose: Members) -> Counters:
    """The counters as lanes: of these ranks by their devices, else of the host; times in ps from `origin`."""
    found = _summed(_told(found))
    titles = titled([key for key in found.keys if isinstance(key, Series)])
    made = counters(found, lambda ns: (ns - origin) * 1000, partial(_lane, titles, _Ranks(ranks, whose)))
    told = [number for number, key in enumerate(found.keys) if isinstance(key, Memory)]
    return replace(made, samples=made.samples.filter(~(pl.col("lane").is_in(told) & _REPEATED))) if told else made


_LIKE_BEFORE: Final = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in ("lane", "value"))
_REPEATED: Final = (_LIKE_BEFORE & _LIKE_BEFORE.shift(-1)).fill_null(value=False)
"""Samples between two of their counter that are like them: each event of memory tells all that is reserved, too."""


def renumbered(process: str, devices: Mapping[int, int]) -> str:
    """The name of a process that is called after a device, with the new number of that device."""
    match = _GPU.match(process)
    if match is None or int(match[1]) not in devices:
        return process
    return f"{process[: match.start(1)]}{devices[int(match[1])]}{process[match.end(1) :]}"


def tells_no_totals(found: Sampled) -> int:
    """How many samples are changes of what is held, and no totals."""
    changing = np.array([isinstance(key, Memory) and key.held == "change" for key in found.keys], np.bool_)
    return int(np.count_nonzero(changing[found.number])) if len(changing) else 0


def mingled(found: Sampled, ranks: pl.DataFrame) -> int:
    """How many samples are of memory of which it is not known which of these ranks' it is, each on its own host."""
    devices = Counter(ranks["device"].to_list())
    unknown = [isinstance(key, Memory) and devices[key.device] != 1 for key in found.keys]
    return int(np.count_nonzero(np.array(unknown, np.bool_)[found.number])) if unknown else 0


def _told(found: Sampled) -> Sampled:
    """Without what is reserved where that is always 0: the host's allocator reserves nothing, and says so each time."""
    largest = np.zeros(len(found.keys))
    np.maximum.at(largest, found.number, np.abs(found.value))
    reserved = np.array([isinstance(key, Memory) and key.held == "reserved" for key in found.keys], np.bool_)
    idle = reserved & (largest == 0)
    return found.at(np.flatnonzero(~idle[found.number])) if idle.any() else found


def _summed(found: Sampled) -> Sampled:
    """With the changes of what is held added up, in the order of time."""
    changes = np.array([isinstance(key, Memory) and key.held == "change" for key in found.keys], np.bool_)
    rows = np.flatnonzero(changes[found.number]) if changes.any() else np.empty(0, np.int64)
    if not len(rows):
        return found
    value, rows = found.value.copy(), rows[np.lexsort((found.time[rows], found.number[rows]))]
    for mine in np.split(rows, np.flatnonzero(np.diff(found.number[rows])) + 1):
        value[mine] = np.cumsum(value[mine])
    return found._replace(value=value)


class _Ranks:
    """Finds the host and the row of the rank (None: none) of a device and of the process that tells of it."""

    def __init__(self, ranks: pl.DataFrame, whose: Members) -> None:
        self._of = {place: row for row, place in reversed(list(enumerate(ranks.select("host", "device").iter_rows())))}
        self._whose = whose

    def at(self, process: Id, device: int) -> tuple[int, int | None]:
        """Of a file that was merged, the process tells of which run the device is."""
        host = self._whose.member(process)
        return host, self._of.get((host, device))

    def of(self, device: int) -> tuple[int, int | None]:
        """Where no process is told: what only one run has is that of this run."""
        found = [(host, row) for (host, ordinal), row in self._of.items() if ordinal == device]
        return found[0] if len(found) == 1 else (0, None)


def _lane(titles: Mapping[Series, tuple[str, str]], ranks: _Ranks, key: Series | Memory) -> Mapping[str, object]:
    device = key.device if isinstance(key, Memory) else _device(key)
    host, rank = ranks.of(device) if isinstance(key, Memory) else ranks.at(tidy(key.process), device)
    if isinstance(key, Memory):
        whose = "" if rank is not None else CPU_PREFIX if device < 0 else f"GPU {device} "
        name, unit = f"{whose}{TITLES[key.held]}", "bytes"
    else:
        name, unit = titles[key]
    process = "" if isinstance(key, Memory) else str(tidy(key.process))
    return {"host": host, "rank": rank, "name": name, "unit": unit, "process": process}


def _device(series: Series) -> int:
    """The device that a counter is of, by its process, else by the names of process and counter; -1 for none."""
    process = unmarked(series.process)
    said = [text for text in (process, series.name) if isinstance(text, str)]
    named = next((match[1] for text in said if (match := _GPU.match(text))), MISSING)
    own = whole_number(process)
    return own if own != MISSING else int(named)
