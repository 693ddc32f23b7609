"""Sentences of notes about utilization, SM efficiency and occupancy.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import count, duration, plural
from tracehound.units import share as percent


def _steps_alone(time: int, of: int) -> str:
    return f"of the steps alone: {duration(time)} of {duration(of)}"


def _kernel_time_total(share: float) -> str:
    return f"all together: kernels run {percent(share)} of the time"


def _kernels_without_length(kernels: int) -> str:
    weightless = "without a length, which weigh nothing in averages over time"
    return f"not counted: {plural(kernels, 'kernel')} {weightless}"


def _occupancy_of_part(share: float) -> str:
    part = f"occupancy is that of {percent(share)} of the kernels' time"
    return f"{part}, and may be above the limit, which is of all: the rest tells none that can be true"


def _occupancy_impossible(*, limited: bool) -> str:
    return f"no occupancy that is recorded here can be true{_see_limit(limited=limited)}"


def _occupancy_not_recorded(*, limited: bool) -> str:
    told = "CUDA's profiler tells it, ROCm's and others do not"
    return f"occupancy is not recorded here: {told}{_see_limit(limited=limited)}"


def _see_limit(*, limited: bool) -> str:
    return "; see occupancy limit" if limited else ""


def _blocks_per_sm_derived(derived: int, kernels: int, multiprocessors: tuple[int, ...]) -> str:
    device = f"{', '.join(map(count, multiprocessors))} multiprocessors"
    return f"blocks per SM of {derived:,} of {kernels:,} kernels are derived from grids and {device}"


def _kernels_without_grid(share: float, rows: int) -> str:
    part = f"{'up to ' if rows > 1 else ''}{percent(share)} of the kernels' time"
    return f"SM efficiency is at least this: {part} has no grid; kernels of replayed graphs tell none"


def _stretches_of_length(length: int) -> str:
    return f"stretches of {duration(length)}"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "no_kernels": "no kernels",
    "no_kernels_in_window": "no kernel runs in the window",
    "no_gpus": "SM efficiency and occupancy are measures of GPUs: there are none here, only utilisation",
    "steps_alone": _steps_alone,
    "kernel_time_total": _kernel_time_total,
    "kernels_without_length": _kernels_without_length,
    "kernel_values_impossible": (
        "not counted: {values:,} recorded values that cannot be true, such as an occupancy above 100 %, or of 0 % where"
        " many threads run: averages are of the other kernels"
    ),
    "occupancy_of_part": _occupancy_of_part,
    "occupancy_impossible": _occupancy_impossible,
    "occupancy_not_recorded": _occupancy_not_recorded,
    "blocks_per_sm_derived": _blocks_per_sm_derived,
    "blocks_per_sm_unknown": (
        "blocks per SM are not recorded here, nor a grid and the number of SMs: SM efficiency is not known"
    ),
    "kernels_without_grid": _kernels_without_grid,
    "stretches_of_length": _stretches_of_length,
}
