"""Analyses of a trace. `NAMES` lists them all; each has a module of the same name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final, overload

from tracehound.analysis.analysis_run import run_analyses, run_analysis
from tracehound.analysis.result import Analysis, Column, Options, Result
from tracehound.errors import TracehoundError, printable
from tracehound.model.old_names import current_name

NAMES: Final = (
    "overview",
    "findings",
    "breakdown",
    "duty_cycle",
    "steps",
    "step_time",
    "programs",
    "step_parts",
    "utilization",
    "utilization_curve",
    "memory",
    "memory_curve",
    "memory_operators",
    "memory_blocks",
    "ops",
    "hlo_ops",
    "roofline",
    "kernels",
    "kernel_types",
    "overlap",
    "async_overlap",
    "operators",
    "operator_roofline",
    "modules",
    "sequences",
    "graphs",
    "gaps",
    "idle",
    "launches",
    "queue",
    "bandwidth",
    "transfers",
    "critical_path",
    "host",
    "compiles",
    "slices",
    "stacks",
    "annotations",
    "rank_map",
    "distributed",
    "stragglers",
    "collectives",
    "collective_calls",
    "arrivals",
    "clocks",
    "hlo_memory",
    "hlo_buffers",
    "hlo_heap",
    "allocator",
    "health",
)

LIST_COMMAND = "tracehound report --list"
"""The command that prints the names of all analyses."""


class _LazyAnalyses(Sequence[Analysis]):
    """All analyses. Each is imported when it is first used, so that one analysis does not wait for the others."""

    def __len__(self) -> int:
        return len(NAMES)

    @overload
    def __getitem__(self, place: int) -> Analysis: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Analysis]: ...
    def __getitem__(self, place: int | slice) -> Analysis | Sequence[Analysis]:
        return _import_analysis(NAMES[place]) if isinstance(place, int) else tuple(map(_import_analysis, NAMES[place]))

    def __iter__(self) -> Iterator[Analysis]:
        return map(_import_analysis, NAMES)


ANALYSES: Final[Sequence[Analysis]] = _LazyAnalyses()


def get_analysis(name: str) -> Analysis:
    """The analysis of this name, or older name. Raises TracehoundError with the nearest names when there is none."""
    if current_name(name) in NAMES:
        return _import_analysis(current_name(name))
    partial_matches = [each for each in NAMES if len(name) > 2 and name.lower() in each]
    suggestions = list(dict.fromkeys([*difflib.get_close_matches(name.lower(), NAMES, 3), *partial_matches]))[:3]
    hint = " ".join(
        [*([f"did you mean {' or '.join(suggestions)}?"] if suggestions else []), f"{LIST_COMMAND} names them all"]
    )
    raise TracehoundError(f"no analysis {printable(name)!r}", remedy=hint)


def _import_analysis(name: str) -> Analysis:
    analysis: Analysis = import_module(f"tracehound.analysis.{name}").ANALYSIS
    return analysis


__all__ = [
    "ANALYSES",
    "LIST_COMMAND",
    "NAMES",
    "Analysis",
    "Column",
    "Options",
    "Result",
    "get_analysis",
    "run_analyses",
    "run_analysis",
]
