"""Questions about a trace. `ANALYSES` is the literal list of them; one file for each."""

from __future__ import annotations

import difflib

from tracehound.analysis import (
    allocator,
    arrivals,
    async_overlap,
    bandwidth,
    breakdown,
    clocks,
    collective_calls,
    collectives,
    compiles,
    critical_path,
    distributed,
    duty_cycle,
    findings,
    gaps,
    graphs,
    health,
    hlo_buffers,
    hlo_heap,
    hlo_memory,
    hlo_ops,
    host,
    idle,
    kernel_types,
    kernels,
    launches,
    memory,
    memory_blocks,
    memory_curve,
    memory_operators,
    modules,
    operator_roofline,
    operators,
    ops,
    overlap,
    overview,
    programs,
    queue,
    roofline,
    sequences,
    slices,
    stacks,
    step_parts,
    step_time,
    steps,
    stragglers,
    transfers,
    utilisation,
    utilisation_curve,
)
from tracehound.analysis.annotations import ANALYSIS as ANNOTATIONS
from tracehound.analysis.result import Analysis, Column, Options, Result
from tracehound.analysis.share import run, run_all
from tracehound.errors import TracehoundError, printable

ANALYSES: tuple[Analysis, ...] = (
    overview.ANALYSIS,
    findings.ANALYSIS,
    breakdown.ANALYSIS,
    duty_cycle.ANALYSIS,
    steps.ANALYSIS,
    step_time.ANALYSIS,
    programs.ANALYSIS,
    step_parts.ANALYSIS,
    utilisation.ANALYSIS,
    utilisation_curve.ANALYSIS,
    memory.ANALYSIS,
    memory_curve.ANALYSIS,
    memory_operators.ANALYSIS,
    memory_blocks.ANALYSIS,
    ops.ANALYSIS,
    hlo_ops.ANALYSIS,
    roofline.ANALYSIS,
    kernels.ANALYSIS,
    kernel_types.ANALYSIS,
    overlap.ANALYSIS,
    async_overlap.ANALYSIS,
    operators.ANALYSIS,
    operator_roofline.ANALYSIS,
    modules.ANALYSIS,
    sequences.ANALYSIS,
    graphs.ANALYSIS,
    gaps.ANALYSIS,
    idle.ANALYSIS,
    launches.ANALYSIS,
    queue.ANALYSIS,
    bandwidth.ANALYSIS,
    transfers.ANALYSIS,
    critical_path.ANALYSIS,
    host.ANALYSIS,
    compiles.ANALYSIS,
    slices.ANALYSIS,
    stacks.ANALYSIS,
    ANNOTATIONS,
    distributed.ANALYSIS,
    stragglers.ANALYSIS,
    collectives.ANALYSIS,
    collective_calls.ANALYSIS,
    arrivals.ANALYSIS,
    clocks.ANALYSIS,
    hlo_memory.ANALYSIS,
    hlo_buffers.ANALYSIS,
    hlo_heap.ANALYSIS,
    allocator.ANALYSIS,
    health.ANALYSIS,
)

LISTING = "tracehound report --list"
"""What names all of them."""


def named(name: str) -> Analysis:
    """The analysis of that name; TracehoundError with the nearest names when there is none."""
    for analysis in ANALYSES:
        if analysis.name == name:
            return analysis
    names = [analysis.name for analysis in ANALYSES]
    inside = [each for each in names if len(name) > 2 and name.lower() in each]
    near = list(dict.fromkeys([*difflib.get_close_matches(name.lower(), names, 3), *inside]))[:3]
    hint = " ".join([*([f"did you mean {' or '.join(near)}?"] if near else []), f"{LISTING} names them all"])
    raise TracehoundError(f"no analysis {printable(name)!r}", remedy=hint)


__all__ = ["ANALYSES", "LISTING", "Analysis", "Column", "Options", "Result", "named", "run", "run_all"]
