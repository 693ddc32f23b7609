"""Headings under which analyses are listed, and what an analysis needs of a trace.

An analysis that is in no row of `TOPICS` is listed last; one that is not in `NEEDS` works for every trace. Knows no
layout.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from tracehound.model.notes import Note, note
from tracehound.model.trace import PROFILERS, Trace

TOPICS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "Time",
        (
            "findings",
            "overview",
            "breakdown",
            "duty_cycle",
            "steps",
            "rank_map",
            "step_parts",
            "step_time",
            "gaps",
            "idle",
            "critical_path",
        ),
    ),
    (
        "Device",
        (
            "ops",
            "kernels",
            "kernel_types",
            "sequences",
            "graphs",
            "utilization",
            "utilization_curve",
            "roofline",
            "operator_roofline",
        ),
    ),
    ("Host", ("operators", "modules", "host", "compiles", "stacks", "launches", "queue", "annotations", "slices")),
    (
        "Communication",
        (
            "collectives",
            "collective_calls",
            "distributed",
            "arrivals",
            "stragglers",
            "clocks",
            "overlap",
            "async_overlap",
        ),
    ),
    (
        "Memory",
        ("memory", "memory_curve", "memory_operators", "memory_blocks", "allocator", "bandwidth", "transfers"),
    ),
    ("XLA", ("programs", "hlo_ops", "hlo", "hlo_memory", "hlo_heap", "hlo_buffers")),
    ("Trace", ("health",)),
)
"""Headings, and the analyses under each, in the order in which one would ask them."""

LAST_HEADING: Final = "More"
"""Heading of the analyses that are in no row of `TOPICS`."""

Need = Literal["device", "pytorch", "xla", "modules", "ranks", "files", "allocated", "held", "buffers"]

Lack = Need | Literal["devices", "elsewhere"]

NEEDS: Final[Mapping[str, tuple[Need, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("breakdown", "gaps", "idle", "kernels", "kernel_types", "overlap"), ("device",)),
        **dict.fromkeys(("launches", "queue", "bandwidth", "transfers"), ("device",)),
        **dict.fromkeys(("utilization", "utilization_curve", "duty_cycle"), ("device",)),
        **dict.fromkeys(("operator_roofline", "sequences"), ("pytorch", "device")),
        **dict.fromkeys(("critical_path", "operators"), ("pytorch",)),
        "modules": ("pytorch", "modules"),
        **dict.fromkeys(("step_time", "async_overlap"), ("xla", "device")),
        **dict.fromkeys(("programs", "hlo_ops", "hlo", "roofline"), ("xla",)),
        **dict.fromkeys(("hlo_memory", "hlo_heap", "hlo_buffers"), ("xla", "buffers")),
        "allocator": ("xla", "held"),
        **dict.fromkeys(("memory", "memory_curve", "memory_blocks"), ("allocated",)),
        "memory_operators": ("pytorch", "allocated"),
        **dict.fromkeys(("collective_calls", "arrivals", "stragglers"), ("ranks",)),
        "clocks": ("ranks", "files"),
        "graphs": ("pytorch", "device"),
    }
)
"""What a trace must hold so that an analysis has rows; only what is known without running it."""

_LACK_NOTES: Final[Mapping[Lack, str]] = MappingProxyType(
    {
        "device": "lacks_device_activity",
        "pytorch": "lacks_pytorch_trace",
        "xla": "lacks_xla_profile",
        "modules": "lacks_modules",
        "ranks": "lacks_ranks",
        "devices": "lacks_devices",
        "files": "lacks_files",
        "allocated": "lacks_memory_events",
        "elsewhere": "memory_events_of_pytorch",
        "held": "lacks_allocator_events",
        "buffers": "lacks_buffer_assignment",
    }
)
"""Codes of the notes about missing data."""


def group_by_heading(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """These analyses under their headings; empty headings are left out."""
    listed = {name for _, row in TOPICS for name in row}
    rows = [(title, [name for name in row if name in names]) for title, row in TOPICS]
    rows.append((LAST_HEADING, [name for name in names if name not in listed]))
    return [(title, row) for title, row in rows if row]


def unavailable_note(name: str, trace: Trace) -> Note | None:
    """The reason why an analysis has no rows for this trace; None if it may have some."""
    if why := memory_only_note(name, [part.format for part in trace.parts]):
        return why
    need = next((need for need in NEEDS.get(name, ()) if not _meets_need(trace, need)), None)
    if need is None:
        return None
    lack: Lack = need
    if need == "ranks" and _may_hold_merged_devices(trace):
        lack = "devices"
    elif need == "allocated" and not _meets_need(trace, "pytorch"):
        lack = "elsewhere"
    return note(_LACK_NOTES[lack], level="missing")


def _may_hold_merged_devices(trace: Trace) -> bool:
    """True if the one rank may be several devices: XLA draws all CPU devices of a process as one if they look alike.

    Only the events show whether it is; the programs show that they run on more than one device.
    """
    on_cpu = trace.ranks["label"].str.starts_with("CPU").any()
    programs = (one for part in trace.parts for one in part.facts.programs)
    return bool(on_cpu) and any(one.devices > 1 for one in programs)


def memory_only_note(name: str, formats: Collection[str]) -> Note | None:
    """The reason why a trace of memory timelines alone has no rows for an analysis; None if it may have some."""
    of_memory = name in _ALWAYS_AVAILABLE or NEEDS.get(name) == ("allocated",)
    return note("memory_alone", level="missing") if _only_memory_formats(formats) and not of_memory else None


def is_memory_only(trace: Trace) -> bool:
    """True if a trace holds only memory timelines."""
    return _only_memory_formats([part.format for part in trace.parts])


def _only_memory_formats(formats: Collection[str]) -> bool:
    """True if all files are memory timelines."""
    return set(formats) == {"memory_timeline"}


_ALWAYS_AVAILABLE: Final = ("overview", "health")
"""Analyses that work for every trace."""


def _meets_need(trace: Trace, need: Need) -> bool:
    """True if the trace has what is needed."""
    if need == "device":
        return bool(trace.lanes["work"].any())
    if need == "ranks":
        return trace.ranks.height > 1
    if need == "files":
        return len(trace.parts) > 1
    if need == "modules":  # known when the file was read; unknown for other sources
        return any(part.facts.modules is not False for part in trace.parts if part.format == "kineto")
    if need in ("allocated", "held", "buffers"):
        return any(need in facets for facets in trace.facets)
    return ("PyTorch" if need == "pytorch" else "XLA") in {PROFILERS[part.format] for part in trace.parts}
