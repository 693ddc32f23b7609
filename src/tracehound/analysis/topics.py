"""Under which heading each analysis is listed, and which traces cannot answer it.

Owns the headings, the questions that people come with, and what an analysis needs of a trace. Knows no layout. An
analysis that is in no row of `TOPICS` is listed last; one that is in none of `NEEDS` may be asked of every trace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from tracehound.notes import Note, note
from tracehound.trace import PROFILERS, Trace

TOPICS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "Time",
        (
            "findings",
            "overview",
            "breakdown",
            "duty_cycle",
            "steps",
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
            "utilisation",
            "utilisation_curve",
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
"""Headings, and the analyses under each in the order in which one would ask them."""

LAST: Final = "More"
"""The heading of what is in no row of `TOPICS`."""

Need = Literal["device", "pytorch", "xla", "modules", "ranks", "files", "allocated", "held", "buffers"]

Lack = Need | Literal["devices", "elsewhere"]

NEEDS: Final[Mapping[str, tuple[Need, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("breakdown", "gaps", "idle", "kernels", "kernel_types", "overlap"), ("device",)),
        **dict.fromkeys(("launches", "queue", "bandwidth", "transfers"), ("device",)),
        **dict.fromkeys(("utilisation", "utilisation_curve", "duty_cycle"), ("device",)),
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
"""What a trace must hold for an analysis to have rows; nothing that could only be known by working it out."""

_LACKS: Final[Mapping[Lack, str]] = MappingProxyType(
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
"""The codes of the notes that say so."""


def headed(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """These analyses under their headings; headings without any are left out."""
    listed = {name for _, row in TOPICS for name in row}
    rows = [(title, [name for name in row if name in names]) for title, row in TOPICS]
    rows.append((LAST, [name for name in names if name not in listed]))
    return [(title, row) for title, row in rows if row]


def lacking(name: str, trace: Trace) -> Note | None:
    """The reason why a trace cannot answer an analysis; None where it may."""
    if why := of_memory_alone(name, [part.format for part in trace.parts]):
        return why
    need = next((need for need in NEEDS.get(name, ()) if not _has(trace, need)), None)
    if need is None:
        return None
    lack: Lack = need
    if need == "ranks" and _merged(trace):
        lack = "devices"
    elif need == "allocated" and not _has(trace, "pytorch"):
        lack = "elsewhere"
    return note(_LACKS[lack], level="missing")


def _merged(trace: Trace) -> bool:
    """Whether the one rank may be several devices: XLA draws all CPU devices of a process as one where they are alike.

    Which it is tell only the events; the programs tell that they run on more devices than one.
    """
    on_cpu = trace.ranks["label"].str.starts_with("CPU").any()
    programs = (one for part in trace.parts for one in part.facts.programs)
    return bool(on_cpu) and any(one.devices > 1 for one in programs)


def of_memory_alone(name: str, formats: Collection[str]) -> Note | None:
    """Why what is no more than a memory timeline cannot answer an analysis; None where it may."""
    of_memory = name in _OF_ALL or NEEDS.get(name) == ("allocated",)
    return note("memory_alone", level="missing") if _all_memory(formats) and not of_memory else None


def tells_memory_alone(trace: Trace) -> bool:
    """Whether a trace is nothing but memory timelines."""
    return _all_memory([part.format for part in trace.parts])


def _all_memory(formats: Collection[str]) -> bool:
    return set(formats) == {"memory_timeline"}


_OF_ALL: Final = ("overview", "health")
"""What may be asked of whatever is open."""


def _has(trace: Trace, need: Need) -> bool:
    if need == "device":
        return bool(trace.lanes["work"].any())
    if need == "ranks":
        return trace.ranks.height > 1
    if need == "files":
        return len(trace.parts) > 1
    if need == "modules":  # told by the file when it was read; of what was made otherwise it is not known
        return any(part.facts.modules is not False for part in trace.parts if part.format == "kineto")
    if need in ("allocated", "held", "buffers"):
        return any(need in facets for facets in trace.facets)
    return ("PyTorch" if need == "pytorch" else "XLA") in {PROFILERS[part.format] for part in trace.parts}
