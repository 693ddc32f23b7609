"""Sentences of notes on findings, and on what was not recorded: devices, launches, ranks, steps, memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence_template import SentenceTemplate
from tracehound.errors import printable
from tracehound.model.units import count_hosts_and_processes, count_noun, format_duration, format_ranks, format_share


def _mean_step_time(time: int) -> str:
    return f"an average step takes {format_duration(time)}, until the work that it launched is done (step_parts)"


def _files_cut_short(files: int, first: str) -> str:
    first = printable(first)
    which = f"{first} was" if files == 1 else f"{files:,} files ({first}, ...) were"
    return f"{which} cut short (health): what seems to end or to idle there may be what was lost"


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
        "beyond the peak": above,
        "of devices without known peaks: the setting peak gives one (989T,3.35TB/s)": without_peaks,
        "in known operators whose inputs were not recorded (record_shapes=True), or not in full": without_inputs,
        "in kernels of other operators, or of none": others,
    }
    text = "; ".join(f"{format_share(time / whole)} {words}" for words, time in rest.items() if time > 0)
    return f"judged {format_share(judged / whole)} of the devices' time" + (f"; not: {text}" if text else "")


def _time_at_roof(part: float) -> str:
    return f"together these take {format_share(part)} of what they took, at the roof"


_WHY_NO_DEVICE_WORK: Final = {
    "CUDA": "another tool (Nsight Systems, DCGM) may hold CUPTI, or the user may not use it"
    " (NVreg_RestrictProfilingToAdminUsers)",
    "ROCm": "ROCm's profiler has nothing of a GPU that was used before PyTorch registered with it (newer versions do so"
    " at once), or another tool (rocprofv3) may hold it",
    "XPU": "PTI has nothing of some GPUs with some versions of itself, of the driver and of PyTorch: try others",
}
"""Reasons for launches without recorded device work, by the runtime that launched it."""

_WHY_NO_DEVICE_WORK_ELSEWHERE: Final = "another tool may hold the device's profiler, or the user may not use it"


def _launches_without_work(family: str) -> str:
    reason = _WHY_NO_DEVICE_WORK.get(family, _WHY_NO_DEVICE_WORK_ELSEWHERE)
    return f"the host's launches were recorded, and nothing of what they launched: {reason}"


_MARK_STEPS: Final = {"PyTorch": "profiler.step()", "XLA": "StepTraceAnnotation or StepTrace"}
_MARK_SOURCE: Final = {"PyTorch": "record_function", "XLA": "TraceAnnotation or xp.Trace"}
_RECORD_DEVICES: Final = {
    "PyTorch": "profile with ProfilerActivity.CUDA (or XPU)",
    "XLA": "profile devices too (ProfileOptions.device_tracer_level)",
}
"""Remedies by profiler: marking steps, marking source, recording devices."""


def _no_steps_marked(profilers: tuple[str, ...]) -> str:
    return f"no steps here: mark them with {_join_remedies(_MARK_STEPS, profilers)}"


def _annotate_source(profilers: tuple[str, ...]) -> str:
    return f"mark the source with {_join_remedies(_MARK_SOURCE, profilers)}"


def _join_remedies(words: Mapping[str, str], profilers: tuple[str, ...]) -> str:
    return " or ".join(words[profiler] for profiler in profilers)


def _nothing_recorded(what: str, remedy: str, *, windowed: bool) -> str:
    return f"{what} in the window; if there is none outside: {remedy}" if windowed else f"{what} here: {remedy}"


def _record_devices(profilers: tuple[str, ...], foreign: int, unread: int, *, allocated: bool, listed: bool) -> str:
    before = ""
    if foreign:
        before += (
            f"{count_noun(foreign, 'event')} of categories that PyTorch does not write, of another profiler? Else, "
        )
    if unread:
        phases = "of phases that PyTorch does not write, which are not read"
        before += f"{count_noun(unread, 'event')} {phases}, of another profiler? Else, "
    if allocated:
        before += "memory of a device was allocated, but none of its work recorded: "
    elif not listed:
        before += "if it has a GPU, "
    return before + _join_remedies(_RECORD_DEVICES, profilers)


def _no_device_activity(ranks: tuple[int, ...], why: str) -> str:
    return f"no device activity was recorded on {format_ranks(ranks)}: {why}"


def _ranks_missing(world: int, ranks: tuple[int, ...]) -> str:
    return f"of the job's {world:,} ranks not in this trace: {format_ranks(ranks)}"


def _events_without_launch(events: int, of: int) -> str:
    return f"{'a device event' if events == 1 else 'device events'} without a known launch, of {of:,}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "mean_step_time": _mean_step_time,
    "findings_without_device_work": "no device activity was recorded: most rules have nothing to look at",
    "no_findings": "none of {rules} rules finds anything; report findings --explain says what they look for",
    "costs_of_window": "no whole step lies in the window: costs are of the window",
    "costs_of_run": "no steps are marked: costs are of the whole run",
    "files_cut_short": _files_cut_short,
    "trace_total": _trace_total,
    "no_device_work_recorded": "no device activity",
    "no_known_operators": "no operator that is known",
    "record_shapes": "profile with ProfilerActivity.CPU and record_shapes=True",
    "time_judged": _time_judged,
    "time_at_roof": _time_at_roof,
    "memory_alone": (
        "nothing but memory in a memory timeline: record a trace beside it (export_chrome_trace of the same profiler)"
    ),
    "lacks_device_activity": "no device activity was recorded in this trace",
    "lacks_pytorch_trace": "only a trace of the PyTorch profiler can answer this",
    "lacks_xla_profile": "only an XLA profile can answer this",
    "lacks_modules": "no modules were recorded: PyTorch does so with with_stack=True",
    "lacks_ranks": "one rank is open: this needs the files of several ranks together",
    "lacks_devices": "one rank: its file does not tell its devices apart, or others are missing",
    "lacks_files": "one file is open, whose ranks share one clock: this needs several",
    "lacks_memory_events": "no memory events were recorded: PyTorch does so with profile_memory=True",
    "memory_events_of_pytorch": "memory events are PyTorch's: those of XLA are in allocator and hlo_memory",
    "lacks_allocator_events": "no allocator events were recorded: XLA does so on TPU and GPU",
    "lacks_buffer_assignment": "no buffer assignment was recorded: xplane.pb has it in its HLO protos",
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

HEADLINES: Final = frozenset(
    {
        "mean_step_time",
        "no_findings",
        "costs_of_window",
        "costs_of_run",
        "trace_total",
        "time_judged",
        "nothing_to_report",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""
