"""The sentences of notes on idle devices, and on the executions of XLA programs between which they idle.

Owns their words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import duration, plural, share


def _gaps_total(gaps: int, idle: int, short: int, span: int, ranks: int) -> str:
    """`short` is what of the idle time is in pauses that are none."""
    many = f"{ranks} ranks" if ranks > 1 else "one rank"
    time = idle - short
    told = f"{plural(gaps, 'gap')}, {duration(time)} idle in all: {share(time / span)} of {duration(span)} on {many}"
    if duration(time) == duration(idle):
        return told
    return f"{told}; {duration(short)} more in pauses of 1 ns, which are none"


def _time_outside_gaps(before: int, after: int, ranks: int) -> str:
    part = f"{duration(before)} before the first work and {duration(after)} after the last are in no gap"
    return part + " (on average)" * (ranks > 1)


def _gaps_by_own_clock(idle: int, span: int) -> str:
    return (
        "gaps are on the trace's clock, to which the profiler aligned the devices piece by piece; by the devices' own, "
        f"which breakdown shows, they idle {duration(idle)}, {share(idle / span)} of {duration(span)}"
    )


def _idle_by_cause(causes: tuple[str, ...], times: tuple[int, ...]) -> str:
    told = ", ".join(f"{cause} {duration(time)}" for cause, time in zip(causes, times, strict=True))
    return f"devices idle as a whole: {told}"


def _idle_at_edges(causes: tuple[str, ...], times: tuple[int, ...]) -> str:
    told = " and ".join(f"{duration(time)} {cause}" for cause, time in zip(causes, times, strict=True))
    return f"devices idle {told}, too: no pause, but gaps and breakdown count it in a window"


def _executions_total(executions: int, ranks: int, enqueued: int) -> str:
    known = f"the enqueue on the host is known of {enqueued:,} of {executions:,}"
    return f"{plural(executions, 'execution')} on {plural(ranks, 'rank')}; {known}"


def _no_executions_on_gpu(flag: str) -> str:
    """`flag` has XLA launch kernels by themselves, where they may have run in command buffers."""
    hint = f" (in command buffers: {flag})" if flag else ""
    return f"no execution of an XLA program here: no kernel of the GPUs names an HLO op{hint}"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "no_gaps": "no gap: no device work here, or no pause in it",
    "gaps_total": _gaps_total,
    "time_outside_gaps": _time_outside_gaps,
    "gaps_end_before_launch": (
        "{ops:,} of the ops after these gaps begin before their launch: the clocks of host and device disagree"
    ),
    "gaps_by_own_clock": _gaps_by_own_clock,
    "no_pauses": "no pause: no device work here, or none in it",
    "idle_by_cause": _idle_by_cause,
    "idle_at_window_edges": _idle_at_edges,
    "executions_total": _executions_total,
    "executions_without_enqueue": (
        "of {executions:,} no enqueue is known: it lies before the profile, or no id leads to it"
    ),
    "executions_before_enqueue": (
        "{executions:,} begin before their enqueue: clocks or run ids disagree, so no ahead and dry are told"
    ),
    "no_programs_in_pytorch_trace": (
        "no XLA programs: a PyTorch Profiler file knows none; graphs has what is launched as a whole there"
    ),
    "no_executions_on_gpu": _no_executions_on_gpu,
    "no_executions": (
        "no execution of an XLA program here: were devices profiled (ProfileOptions.device_tracer_level)?"
    ),
}
