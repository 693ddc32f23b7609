"""What was not recorded (device work, steps, annotations), and what would have recorded it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from tracehound.analysis.result import Scene
from tracehound.units import plural, which_ranks

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


_HELD: Final = {
    "CUDA": "another tool (Nsight Systems, DCGM) may hold CUPTI, or the user may not use it"
    " (NVreg_RestrictProfilingToAdminUsers)",
    "ROCm": "ROCm's profiler has nothing of a GPU that was used before PyTorch registered with it (newer versions do so"
    " at once), or another tool (rocprofv3) may hold it",
    "XPU": "PTI has nothing of some GPUs with some versions of itself, of the driver and of PyTorch: try others",
}
"""Why nothing is recorded of what was launched, by whose runtime launched it."""

_HELD_OF_OTHERS: Final = "another tool may hold the device's profiler, or the user may not use it"
_LAUNCHES: Final = "the host's launches were recorded, and nothing of what they launched"
_SEVERED: Final = "the file ends within its events, and what is missing may be just that"
_CALLS: Final = (
    "calls of the device's runtime were recorded, and none that launches anything: was there work for the device while"
    " the profiler was active (schedule)?"
)


def why(facts: Iterable[Mapping[str, Any]]) -> str:
    """Why PyTorch's files have no device activity, where they end early or tell that it was asked for; else nothing."""
    facts = list(facts)
    if any(each.get("severed") for each in facts):
        return _SEVERED
    found = [(each.get("runtime"), each.get("family", "")) for each in facts]
    launching = {family for sort, family in found if sort == "launches"}
    if launching:
        held = _HELD.get(launching.pop(), _HELD_OF_OTHERS) if len(launching) == 1 else _HELD_OF_OTHERS
        return f"{_LAUNCHES}: {held}"
    return _CALLS if any(sort == "calls" for sort, _ in found) else ""


def remedy(scene: Scene) -> str:
    """What records device activity in PyTorch, or why it was not recorded."""
    return why(scene.facts) or _before(scene, scene.facts) + DEVICE


_STRANGE: Final = {
    "foreign": "of categories that PyTorch does not write",
    "unread": "of phases that PyTorch does not write, which are not read",
}
"""What may be of another profiler, by what files tell of it."""


def _before(scene: Scene, facts: Sequence[Mapping[str, Any]]) -> str:
    """What stands before the advice: what these files have that may be of a device, and whether there is one.

    PyTorch lists those that a process sees, and tells of their memory.
    """
    before = ""
    for sort, words in _STRANGE.items():
        if many := sum(each.get(sort, 0) for each in facts):
            before += f"{plural(many, 'event')} {words}, of another profiler? Else, "
    if any(each.get("allocates") for each in facts):
        return f"{before}memory of a device was allocated, but none of its work recorded: "
    known = not scene.pytorch or any(each.get("devices") for each in scene.facts)
    return before if known else f"{before}if it has a GPU, "


def silence(scene: Scene, ranks: Collection[int]) -> list[str]:
    """What is said of these ranks; nothing where there are none."""
    if not ranks:
        return []
    hosts = scene.ranks.filter(scene.ranks["rank"].is_in(list(ranks)))["host"].unique().to_list()
    facts = [scene.facts[scene.hosts[host].part] for host in hosts]
    told = why(facts) or _before(scene, facts) + _either(_REMEDY, scene)
    return [f"no device activity was recorded on {which_ranks(ranks)}: {told}"]
