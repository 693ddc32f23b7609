"""What notes say of what was not recorded: devices, launches, ranks and steps.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import plural, which_ranks

_HELD: Final = {
    "CUDA": "another tool (Nsight Systems, DCGM) may hold CUPTI, or the user may not use it"
    " (NVreg_RestrictProfilingToAdminUsers)",
    "ROCm": "ROCm's profiler has nothing of a GPU that was used before PyTorch registered with it (newer versions do so"
    " at once), or another tool (rocprofv3) may hold it",
    "XPU": "PTI has nothing of some GPUs with some versions of itself, of the driver and of PyTorch: try others",
}
"""Why nothing is recorded of what was launched, by whose runtime launched it."""

_HELD_OF_OTHERS: Final = "another tool may hold the device's profiler, or the user may not use it"


def _launches_without_work(family: str) -> str:
    held = _HELD.get(family, _HELD_OF_OTHERS)
    return f"the host's launches were recorded, and nothing of what they launched: {held}"


_STEPS: Final = {"PyTorch": "profiler.step()", "XLA": "StepTraceAnnotation or StepTrace"}
_SOURCE: Final = {"PyTorch": "record_function", "XLA": "TraceAnnotation or xp.Trace"}
_DEVICES: Final = {
    "PyTorch": "profile with ProfilerActivity.CUDA (or XPU)",
    "XLA": "profile devices too (ProfileOptions.device_tracer_level)",
}
"""What marks steps and annotations, and what records devices, by the profiler."""


def _no_steps_marked(profilers: tuple[str, ...]) -> str:
    return f"no steps here: mark them with {_either(_STEPS, profilers)}"


def _annotate_source(profilers: tuple[str, ...]) -> str:
    return f"mark the source with {_either(_SOURCE, profilers)}"


def _either(words: Mapping[str, str], profilers: tuple[str, ...]) -> str:
    return " or ".join(words[profiler] for profiler in profilers)


def _nothing_recorded(what: str, remedy: str, *, windowed: bool) -> str:
    return f"{what} in the window; if there is none outside: {remedy}" if windowed else f"{what} here: {remedy}"


def _record_devices(profilers: tuple[str, ...], foreign: int, unread: int, *, allocated: bool, listed: bool) -> str:
    before = ""
    if foreign:
        before += f"{plural(foreign, 'event')} of categories that PyTorch does not write, of another profiler? Else, "
    if unread:
        phases = "of phases that PyTorch does not write, which are not read"
        before += f"{plural(unread, 'event')} {phases}, of another profiler? Else, "
    if allocated:
        before += "memory of a device was allocated, but none of its work recorded: "
    elif not listed:
        before += "if it has a GPU, "
    return before + _either(_DEVICES, profilers)


def _no_device_activity(ranks: tuple[int, ...], why: str) -> str:
    return f"no device activity was recorded on {which_ranks(ranks)}: {why}"


def _ranks_missing(world: int, ranks: tuple[int, ...]) -> str:
    return f"of the job's {world:,} ranks not in this trace: {which_ranks(ranks)}"


def _events_without_launch(events: int, of: int) -> str:
    return f"{'a device event' if events == 1 else 'device events'} without a known launch, of {of:,}"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "file_ends_within_events": "the file ends within its events, and what is missing may be just that",
    "launches_without_device_work": _launches_without_work,
    "calls_without_launches": (
        "calls of the device's runtime were recorded, and none that launches anything: was there work for the device"
        " while the profiler was active (schedule)?"
    ),
    "no_steps_in_window": "no mark of a step in the window; a host that runs ahead has marked it before",
    "no_steps_marked": _no_steps_marked,
    "no_annotations": "no annotations",
    "annotate_source": _annotate_source,
    "nothing_recorded": _nothing_recorded,
    "record_devices": _record_devices,
    "no_device_activity_on_ranks": _no_device_activity,
    "no_device_activity": "device activity: {why}",
    "devices_missing": (
        "{program} runs on {devices:,} devices, of which {here:,} are here: the files of at least one more host are"
        " missing"
    ),
    "ranks_missing": _ranks_missing,
    "device_events_without_launch": _events_without_launch,
    "devices_not_told_apart": (
        "HLO ops begin while the same op runs: which of several devices ran them is not recorded, all are one rank"
    ),
    "no_steps": "no steps: neither marked nor to be inferred",
    "nothing_to_report": "nothing to report: all was read as it stands",
}
