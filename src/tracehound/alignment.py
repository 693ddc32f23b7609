"""How the files of a trace are put on one clock, as the user wants it.

Owns the choices of ``--align``. The estimate is the analyses', the placing the store's.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from tracehound.analysis import named, run
from tracehound.store import Alignment, Opening
from tracehound.trace import Trace

Way = Literal["auto", "wall", "collectives", "start"]

WAYS: Final[tuple[Way, ...]] = get_args(Way)
"""`auto`: the wall clock, or where the files have none in common, their collectives; `wall`: never mind collectives;
`collectives`: on top of the wall clock, so that collectives end together; `start`: each file from its first event."""


def arranged(opening: Opening, way: Way) -> Opening:
    """The opening, whose files will be put on one clock in this way once they are read."""
    if way == "start":
        opening.alignment = Alignment("start")
    elif way == "collectives":
        opening.settle = by_collectives
    elif way == "auto":
        opening.settle = _where_needed
    return opening


def by_collectives(trace: Trace) -> Alignment | None:
    """What puts the ends of collectives together; None where they tell nothing."""
    if len(trace.parts) < 2:
        return None
    table = run(named("clocks"), trace).table
    hosts = dict(trace.ranks.select("rank", "host").iter_rows())
    parts = {trace.hosts[hosts[rank]].part: shift for rank, shift in table.select("rank", "shift").iter_rows()}
    if not parts:
        return None
    return Alignment("wall", parts, max(table["exact"].to_list()))


def _where_needed(trace: Trace) -> Alignment | None:
    return None if trace.origin_ns is not None else by_collectives(trace)
