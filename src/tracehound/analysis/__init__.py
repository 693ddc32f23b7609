"""Questions about a trace. `NAMES` is the literal list of them; one module for each, of the same name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final, overload

from tracehound.analysis.result import Analysis, Column, Options, Result
from tracehound.analysis.share import run, run_all
from tracehound.errors import TracehoundError, printable

NAMES: Final = (
    "overview",
    "findings",
    "breakdown",
    "duty_cycle",
    "steps",
    "step_time",
    "programs",
    "step_parts",
    "utilisation",
    "utilisation_curve",
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

LISTING = "tracehound report --list"
"""What names all of them."""


class _Analyses(Sequence[Analysis]):
    """All analyses, each imported when somebody looks at it: who asks one question does not wait for the others."""

    def __len__(self) -> int:
        return len(NAMES)

    @overload
    def __getitem__(self, place: int) -> Analysis: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Analysis]: ...
    def __getitem__(self, place: int | slice) -> Analysis | Sequence[Analysis]:
        return _imported(NAMES[place]) if isinstance(place, int) else tuple(map(_imported, NAMES[place]))

    def __iter__(self) -> Iterator[Analysis]:
        return map(_imported, NAMES)


ANALYSES: Final[Sequence[Analysis]] = _Analyses()


def named(name: str) -> Analysis:
    """The analysis of that name; TracehoundError with the nearest names when there is none."""
    if name in NAMES:
        return _imported(name)
    inside = [each for each in NAMES if len(name) > 2 and name.lower() in each]
    near = list(dict.fromkeys([*difflib.get_close_matches(name.lower(), NAMES, 3), *inside]))[:3]
    hint = " ".join([*([f"did you mean {' or '.join(near)}?"] if near else []), f"{LISTING} names them all"])
    raise TracehoundError(f"no analysis {printable(name)!r}", remedy=hint)


def _imported(name: str) -> Analysis:
    analysis: Analysis = import_module(f"tracehound.analysis.{name}").ANALYSIS
    return analysis


__all__ = ["ANALYSES", "LISTING", "NAMES", "Analysis", "Column", "Options", "Result", "named", "run", "run_all"]
