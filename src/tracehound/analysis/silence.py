"""Ranks of which no device work was recorded, and what would have recorded it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tracehound.analysis.result import Scene
from tracehound.units import which_ranks

_REMEDY: Final = {
    "PyTorch": "profile with ProfilerActivity.CUDA (or XPU)",
    "XLA": "profile devices too (ProfileOptions.device_tracer_level)",
}


def nothing(scene: Scene, what: str, remedy: str) -> str:
    """That there is nothing of a kind here, and what records it: in a window perhaps only the window has none."""
    return f"{what} in the window; if there is none outside: {remedy}" if scene.windowed else f"{what} here: {remedy}"


def silence(scene: Scene, ranks: Collection[int]) -> list[str]:
    """What is said of these ranks; nothing where there are none."""
    if not ranks:
        return []
    remedy = " or ".join(_REMEDY[profiler] for profiler in sorted(scene.profilers))
    return [f"no device activity was recorded on {which_ranks(ranks)}: {remedy}"]
