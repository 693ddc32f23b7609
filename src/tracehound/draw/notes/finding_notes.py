"""Sentences of notes on findings, and on what was not recorded: devices, launches, ranks, steps, memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.errors import printable
from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import count_hosts_and_processes, count_noun, format_duration, format_ranks, format_share


def _mean_step_time(time: int) -> str:
    return f"mean step time {format_duration(time)} (to the end of its last device work)"


def _idle_time_not_judged(ranks: tuple[int, ...]) -> str:
    return f"idle time of {format_ranks(ranks)} is not judged: much of the device work there was not recorded"


def _files_cut_short(files: int, first: str) -> str:
    first = printable(first)
    which = f"{first} was" if files == 1 else f"{files:,} files ({first}, ...) were"
    return f"{which} cut short (see health): an early end or idle time there may be lost data"


def _trace_total(
    formats: tuple[str, ...], files: tuple[int, ...], hosts: tuple[str, ...], ranks: int, time: int
) -> str:
    """`files` counts those of each format."""
    text = ", ".join(f"{many} {form}" for many, form in zip(files, formats, strict=True))
    what = "file" if sum(files) == 1 else "files"
    return f"{text} {what}, {count_hosts_and_processes(hosts)}, {count_noun(ranks, 'rank')}, {format_duration(time)}"


def _time_judged(
    judged: int, communication: int, above: int, without_peaks: int, without_inputs: int, others: int, whole: int
) -> str:
    """Device times, of which `whole` is the sum; see `operator_roofline`."""
    rest = {
        "communication and copies": communication,
        "above the peak": above,
        "on devices without known peaks (set them: --peak 989T,3.35TB/s)": without_peaks,
        "in known operators without complete input shapes (record_shapes=True)": without_inputs,
        "in kernels of other operators, or of none": others,
    }
    text = "; ".join(f"{format_share(time / whole)} {words}" for words, time in rest.items() if time > 0)
    return f"covers {format_share(judged / whole)} of device time" + (f"; the rest: {text}" if text else "")


def _time_at_roof(part: float) -> str:
    return f"at the roof, these operators would take {format_share(part)} of their time"


_WHY_NO_DEVICE_WORK: Final = {
    "CUDA": "another tool (Nsight Systems, DCGM) may hold CUPTI, or the user may lack the permission"
    " (NVreg_RestrictProfilingToAdminUsers)",
    "ROCm": "the GPU may have been used before PyTorch registered with ROCm's profiler (newer versions register at"
    " once), or another tool (rocprofv3) may hold it",
    "XPU": "some versions of PTI, the driver and PyTorch record nothing on some GPUs: try other versions",
}
"""Reasons for launches without recorded device work, by the runtime that launched it."""

_WHY_NO_DEVICE_WORK_ELSEWHERE: Final = (
    "another tool may hold the device's profiler, or the user may lack the permission"
)


def _launches_without_work(family: str) -> str:
    reason = _WHY_NO_DEVICE_WORK.get(family, _WHY_NO_DEVICE_WORK_ELSEWHERE)
    return f"launches were recorded, but none of the work that they launched: {reason}"


_MARK_STEPS: Final = {"PyTorch": "profiler.step()", "XLA": "StepTraceAnnotation or StepTrace"}
_MARK_SOURCE: Final = {"PyTorch": "record_function", "XLA": "TraceAnnotation or xp.Trace"}
_RECORD_DEVICES: Final = {
    "PyTorch": "profile with ProfilerActivity.CUDA (or XPU)",
    "XLA": "devices are recorded by default, so the device tracer did not start or nothing ran: set"
    " ProfileOptions.raise_error_on_start_failure (JAX) to see why, close other tools that hold CUPTI, check the"
    " versions of libtpu or the plugin, or record longer",
}
"""Remedies by profiler: marking steps, marking source, recording devices."""


def _no_steps_marked(profilers: tuple[str, ...]) -> str:
    return f"no steps: mark them with {_join_remedies(_MARK_STEPS, profilers)}"


def _annotate_source(profilers: tuple[str, ...]) -> str:
    return f"annotate the source with {_join_remedies(_MARK_SOURCE, profilers)}"


def _join_remedies(words: Mapping[str, str], profilers: tuple[str, ...]) -> str:
    return " or ".join(words[profiler] for profiler in profilers)


def _nothing_recorded(what: str, remedy: str, *, windowed: bool) -> str:
    return f"{what} in the window (if there are none at all, {remedy})" if windowed else f"{what}: {remedy}"


def _record_devices(
    profilers: tuple[str, ...], foreign: int, unread: int, allocated: tuple[str, ...], *, listed: bool
) -> str:
    before = ""
    if foreign:
        categories = "with categories unknown to PyTorch may be from another profiler"
        before += f"{count_noun(foreign, 'event')} {categories}; else "
    if unread:
        phases = "with phases unknown to PyTorch were not read and may be from another profiler"
        before += f"{count_noun(unread, 'event')} {phases}; else "
    if allocated:
        before += "device memory was allocated, but no device work was recorded: "
        return before + _record_devices_of(allocated)
    if not listed:
        before += "if it has a GPU, "
    return before + _join_remedies(_RECORD_DEVICES, profilers)


def _record_devices_of(types: tuple[str, ...]) -> str:
    """The advice to record devices of these types in PyTorch."""
    activities = [f"ProfilerActivity.{_ACTIVITIES[name]}" for name in types if name in _ACTIVITIES]
    if activities:
        return f"profile with {' and '.join(activities)}"
    if "MPS" in types:
        return "PyTorch's profiler records no work on MPS; record it with Instruments (torch.mps.profiler)"
    return _RECORD_DEVICES["PyTorch"]


_ACTIVITIES: Final = {"GPU": "CUDA", "XPU": "XPU", "HPU": "HPU", "MTIA": "MTIA", "PrivateUse1": "PrivateUse1"}
"""PyTorch's activities that record devices, by type."""


def _no_device_activity(ranks: tuple[int, ...], why: str) -> str:
    return f"no device activity was recorded on {format_ranks(ranks)}: {why}"


def _ranks_missing(world: int, ranks: tuple[int, ...]) -> str:
    return f"the job has {world:,} ranks; missing here: {format_ranks(ranks)}"


def _events_without_launch(events: int, of: int) -> str:
    return f"{'device event' if events == 1 else 'device events'} without a known launch, of {of:,}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "mean_step_time": _mean_step_time,
    "findings_without_device_work": "no device activity was recorded: rules on devices cannot apply",
    "idle_time_not_judged": _idle_time_not_judged,
    "no_findings": "none of {rules} rules found anything; report findings --explain lists the rules",
    "costs_of_window": "costs are of the window: no whole step lies in it",
    "costs_of_run": "costs are of the whole run: no steps are marked",
    "files_cut_short": _files_cut_short,
    "trace_total": _trace_total,
    "no_device_work_recorded": "no device activity",
    "no_known_operators": "no known operators",
    "record_shapes": "profile with ProfilerActivity.CPU and record_shapes=True",
    "time_judged": _time_judged,
    "time_at_roof": _time_at_roof,
    "memory_alone": (
        "a memory timeline holds only memory: record a trace, too (export_chrome_trace of the same profiler)"
    ),
    "lacks_device_activity": "no device activity was recorded in this trace",
    "lacks_pytorch_trace": "needs a trace of the PyTorch profiler",
    "lacks_xla_profile": "needs an XLA profile",
    "lacks_modules": "no modules were recorded: profile with with_stack=True",
    "lacks_ranks": "only one rank is open: open the files of several ranks together",
    "lacks_devices": "only one rank: the file merges its devices, or other files are missing",
    "lacks_files": "only one file is open, and its ranks share one clock: open more files",
    "lacks_memory_events": "no memory events were recorded: profile with profile_memory=True",
    "memory_events_of_pytorch": "only PyTorch records memory events; for XLA see allocator and hlo_memory",
    "lacks_allocator_events": "no allocator events were recorded (XLA records them on TPU and GPU)",
    "lacks_buffer_assignment": "no buffer assignment was recorded (xplane.pb has it in its HLO protos)",
    "file_ends_within_events": "the file ends within its events; missing data may be in the lost part",
    "launches_without_device_work": _launches_without_work,
    "calls_without_launches": (
        "runtime calls were recorded, but no launches: did the device have work while the profiler was active (see its"
        " schedule)?"
    ),
    "no_steps_in_window": "no step is marked in the window; a host that runs ahead may have marked it earlier",
    "no_steps_marked": _no_steps_marked,
    "no_annotations": "no annotations",
    "annotate_source": _annotate_source,
    "nothing_recorded": _nothing_recorded,
    "record_devices": _record_devices,
    "no_xla_work_on_cpu": "no compiled program ran while recording (on a CPU, XLA ops are recorded with the host)",
    "no_device_activity_on_ranks": _no_device_activity,
    "no_device_activity": "device activity: {why}",
    "devices_missing": (
        "{program} runs on {devices:,} devices, but only {here:,} are here: the files of at least one host are missing"
    ),
    "ranks_missing": _ranks_missing,
    "device_events_without_launch": _events_without_launch,
    "devices_not_told_apart": (
        "executions of the same HLO op overlap: the file does not tell several devices apart, so they are one rank"
    ),
    "no_steps": "no steps: none are marked, and none can be inferred",
    "nothing_to_report": "nothing to report: everything was read as it is",
}

HEADLINES: Final = frozenset(
    {
        "mean_step_time",
        "no_findings",
        "costs_of_window",
        "costs_of_run",
        "trace_total",
        "time_judged",
        "time_at_roof",
        "nothing_to_report",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""
