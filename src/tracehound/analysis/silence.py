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


def silence(scene: Scene, ranks: Collection[int]) -> list[str]:
    """What is said of these ranks; nothing where there are none."""
    if not ranks:
        return []
    remedy = " or ".join(_REMEDY[profiler] for profiler in sorted(scene.profilers))
    return [f"no device activity was recorded on {which_ranks(ranks)}: {remedy}"]
