"""When an XLA host waits for data: as the threads of its program say, and as others do where those say nothing.

Owns whose loading counts: a pipeline that reads ahead on a thread of its own keeps nobody waiting who is at something
else. What loads data is told by names, which `hosts.parts` owns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from tracehound.analysis.hosts.program_threads import of_program
from tracehound.intervals import EMPTY, Intervals, Mask, merge, subtract, union

_AHEAD, _BUSY = "read ahead", "busy"


def apart(events: pl.DataFrame, loads: Mask, program: Collection[int]) -> tuple[Mask, dict[str, Intervals]]:
    """Which of these events load data on the program's threads, and what `loading` needs of all.

    `events` have `lane`, `start`, `end` and `kind`, and no marks of steps are among them; `loads` says which load data.
    """
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    own = of_program(events["lane"], program)
    ahead, busy = loads & ~own, own & ~loads & (events["kind"] != "python").to_numpy()
    return loads & own, {_AHEAD: union(start[ahead], end[ahead]), _BUSY: union(start[busy], end[busy])}


def loading(found: Mapping[str, Intervals], part: str) -> dict[str, Intervals]:
    """The sets of all threads, of which `part` has what the program's own load: with what others do for it."""
    ahead, busy = (found.get(name, EMPTY) for name in (_AHEAD, _BUSY))
    told = {name: when for name, when in found.items() if name not in (_AHEAD, _BUSY)}
    return told | {part: merge(told.get(part, EMPTY), subtract(ahead, busy))} if told else told
