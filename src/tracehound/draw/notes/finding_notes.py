"""The sentences of notes on findings, on what a trace holds or lacks, and on the operator roofline.

Owns their words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.errors import printable
from tracehound.units import duration, hosts_and_processes, plural, share


def _mean_step(time: int) -> str:
    return f"an average step takes {duration(time)}, until the work that it launched is done (step_parts)"


def _files_cut_short(files: int, first: str) -> str:
    first = printable(first)
    which = f"{first} was" if files == 1 else f"{files:,} files ({first}, ...) were"
    return f"{which} cut short (health): what seems to end or to idle there may be what was lost"


def _trace_total(
    formats: tuple[str, ...], files: tuple[int, ...], hosts: tuple[str, ...], ranks: int, time: int
) -> str:
    """`files` counts those of each format."""
    told = ", ".join(f"{many} {form}" for many, form in zip(files, formats, strict=True))
    what = "file" if sum(files) == 1 else "files"
    return f"{told} {what}, {hosts_and_processes(hosts)}, {plural(ranks, 'rank')}, {duration(time)}"


def _time_judged(
    judged: int, communication: int, above: int, without_peaks: int, without_inputs: int, others: int, whole: int
) -> str:
    """All are times of devices, of which `whole` is the sum; see `operator_roofline`."""
    rest = {
        "communication and copies": communication,
        "beyond the peak": above,
        "of devices without known peaks: the setting peak gives one (989T,3.35TB/s)": without_peaks,
        "in known operators whose inputs were not recorded (record_shapes=True), or not in full": without_inputs,
        "in kernels of other operators, or of none": others,
    }
    told = "; ".join(f"{share(time / whole)} {words}" for words, time in rest.items() if time > 0)
    return f"judged {share(judged / whole)} of the devices' time" + (f"; not: {told}" if told else "")


def _time_at_roof(part: float) -> str:
    return f"together these take {share(part)} of what they took, at the roof"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "mean_step_time": _mean_step,
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
}
