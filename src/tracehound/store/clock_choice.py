"""The choice of the common clock of several files: by their wall clocks, collective end times, or the start of each."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Final, Literal, get_args

from tracehound.analysis import get_analysis, run_analysis
from tracehound.model.trace import Trace
from tracehound.store.common_clock import ClockAlignment
from tracehound.store.trace_reader import TraceReader

AlignChoice = Literal["auto", "wall", "collectives", "start"]

ALIGN_CHOICES: Final[tuple[AlignChoice, ...]] = get_args(AlignChoice)
"""`auto`: the wall clock, or collectives if the files have no common wall clock; `wall`: only the wall clock;
`collectives`: the wall clock, corrected so that collectives end together; `start`: each file from its first event."""


def set_alignment(reader: TraceReader, choice: AlignChoice) -> TraceReader:
    """Set how the files of a trace will be aligned once they are read; returns the reader."""
    if choice == "start":
        reader.alignment = ClockAlignment("start")
    elif choice == "collectives":
        reader.choose_clock = align_by_collectives
    elif choice == "auto":
        reader.choose_clock = _align_without_wall_clock
    return reader


def align_by_collectives(trace: Trace, executor: Executor | None = None) -> ClockAlignment | None:
    """The alignment by which collectives end at the same time on all ranks; None if there are none to compare."""
    if len(trace.parts) < 2:
        return None
    table = run_analysis(get_analysis("clocks"), trace, executor=executor).table
    hosts = dict(trace.ranks.select("rank", "host").iter_rows())
    parts = {trace.hosts[hosts[rank]].part: shift for rank, shift in table.select("rank", "shift").iter_rows()}
    if not parts:
        return None
    return ClockAlignment("wall", parts, max(table["exact"].to_list()))


def _align_without_wall_clock(trace: Trace, executor: Executor | None) -> ClockAlignment | None:
    return None if trace.origin_ns is not None else align_by_collectives(trace, executor)
