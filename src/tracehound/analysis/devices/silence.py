"""What was not recorded (device work, steps, annotations), and what would have recorded it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from tracehound.analysis.result import Scene
from tracehound.units import which_ranks

DEVICE: Final = "profile with ProfilerActivity.CUDA (or XPU)"

_REMEDY: Final = {
    "PyTorch": DEVICE,
    "XLA": "profile devices too (ProfileOptions.device_tracer_level)",
}


_STEPS: Final = {"PyTorch": "profiler.step()", "XLA": "StepTraceAnnotation or StepTrace"}
_SOURCE: Final = {"PyTorch": "record_function", "XLA": "TraceAnnotation or xp.Trace"}


def no_steps(scene: Scene) -> str:
    """That there are no steps, and how they are marked; or that none is marked in the window."""
    if scene.windowed and scene.steps.height:
        return "no mark of a step in the window; a host that runs ahead has marked it before"
    return f"no steps here: mark them with {_either(_STEPS, scene)}"


def no_annotations(scene: Scene) -> str:
    """That there are no annotations, and how they are made."""
    return nothing(scene, "no annotations", f"mark the source with {_either(_SOURCE, scene)}")


def _either(words: Mapping[str, str], scene: Scene) -> str:
    """What is said to the users of the profilers that recorded the files."""
    return " or ".join(words[profiler] for profiler in sorted(scene.profilers or words))


def nothing(scene: Scene, what: str, remedy: str) -> str:
    """That there is nothing of a kind here, and what records it: in a window perhaps only the window has none."""
    return f"{what} in the window; if there is none outside: {remedy}" if scene.windowed else f"{what} here: {remedy}"


_WHY: Final = {
    "launches": "the host's launches were recorded, and nothing of what they launched: another tool (Nsight Systems,"
    " DCGM) may hold CUPTI, or the user may not use it (NVreg_RestrictProfilingToAdminUsers)",
    "calls": "calls of the device's runtime were recorded, and none that launches anything: was there work for the"
    " device while the profiler was active (schedule)?",
}
"""Why there is no device activity in a file that has calls of these sorts."""


def why(facts: Iterable[Mapping[str, Any]]) -> str:
    """Why PyTorch's files have no device activity, where what they have tells that it was asked for; else nothing."""
    found = {each.get("runtime") for each in facts}
    return next((words for sort, words in _WHY.items() if sort in found), "")


def remedy(scene: Scene) -> str:
    """What records device activity in PyTorch, or why it was not recorded."""
    return why(scene.facts) or _if_any(scene) + DEVICE


def _if_any(scene: Scene) -> str:
    """What stands before the advice where there may be no device: PyTorch lists those that a process sees."""
    known = not scene.pytorch or any(facts.get("devices") for facts in scene.facts)
    return "" if known else "if it has a GPU, "


def silence(scene: Scene, ranks: Collection[int]) -> list[str]:
    """What is said of these ranks; nothing where there are none."""
    if not ranks:
        return []
    hosts = scene.ranks.filter(scene.ranks["rank"].is_in(list(ranks)))["host"].unique().to_list()
    told = why(scene.facts[scene.hosts[host].part] for host in hosts) or _if_any(scene) + _either(_REMEDY, scene)
    return [f"no device activity was recorded on {which_ranks(ranks)}: {told}"]
