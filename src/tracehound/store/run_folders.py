"""Runs of a TensorBoard log folder that are one run, of which each host has written a folder of its own.

Each JAX process names its folder after the second in which its recording began.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tracehound.store.trace_files import TraceFile, peek, xla_host

MAX_STAMP_DISTANCE: Final = timedelta(hours=1)
"""Runs whose names are times this far apart are not looked at together."""

NEAR_STAMPS: Final = timedelta(seconds=2)
"""Runs of different hosts whose times are not known are one run if their names are times this near."""

_STAMP: Final = re.compile(r"\d{4}(?:_\d{2}){5}")


def may_be_one_run(one: Path, other: Path) -> bool:
    """True unless the names of two folders of runs are times that are far apart."""
    distance = _stamp_distance(one, other)
    return distance is None or distance <= MAX_STAMP_DISTANCE


def are_one_run(one: Sequence[TraceFile], other: Sequence[TraceFile]) -> bool:
    """True if the files of two folders are of different hosts and overlap in time."""
    writers = set(_writers(one))
    if not writers or not writers.isdisjoint(_writers(other)):
        return False
    spans = [_span(files) for files in (one, other)]
    if spans[0] and spans[1]:
        return spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]
    distance = _stamp_distance(one[0].path.parent, other[0].path.parent)
    return distance is not None and distance <= NEAR_STAMPS


def _stamp_distance(one: Path, other: Path) -> timedelta | None:
    """The time between the names of two folders; None if they are no times."""
    times = [_stamp(path.name) for path in (one, other)]
    return abs(times[0] - times[1]) if times[0] and times[1] else None


def _stamp(name: str) -> datetime | None:
    try:
        return datetime.strptime(name[:19], "%Y_%m_%d_%H_%M_%S") if _STAMP.match(name) else None
    except ValueError:
        return None


def _writers(files: Sequence[TraceFile]) -> Iterator[Hashable]:
    """Names of the hosts, and ranks, that wrote the files."""
    for file in files:
        facts = peek(file)
        yield xla_host(file.path) or facts.host or file.path.name
        if facts.rank is not None:
            yield facts.rank


def _span(files: Sequence[TraceFile]) -> tuple[int, int] | None:
    """The time (ns since 1970) from the first start to the last end of the files; None if one of them is unknown."""
    starts, ends = list[int](), list[int]()
    for file in files:
        facts = peek(file)
        if facts.start_ns is None or facts.end_ns is None or not facts.wall:
            return None
        starts.append(facts.start_ns)
        ends.append(facts.end_ns)
    return min(starts), max(ends)
