"""Sentences of notes on the work of devices: parts of their time, overlap, utilization, clocks, gaps and executions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.analysis.breakdown import WORK_IN_PART_OF_RECORDING
from tracehound.draw.notes.sentence_template import SentenceTemplate
from tracehound.errors import printable
from tracehound.model.units import count_noun, format_count, format_duration, format_ranks, format_share


def _ranks_of_several_devices(ranks: tuple[int, ...], measured: str) -> str:
    one = f"{format_ranks(ranks)} {'is' if len(ranks) == 1 else 'are each'} several devices in one"
    what = f"what one communicates while another computes is {measured} here"
    return f"{one}: which of them ran an HLO op is not recorded: {what}"


def _lengths_by_device_clock(what: str, other: int, of: int, shortest: int, longest: int) -> str:
    lengths = f"{format_duration(shortest)} to {format_duration(longest)}"
    return (
        f"the device's own clock measures {what}; the trace's, to which the profiler aligned it piece by piece, gives "
        f"{other:,} of {of:,} another length: {lengths}"
    )


def _window_by_device_clock(shortest: int, longest: int, window: int) -> str:
    low, high = format_duration(shortest), format_duration(longest)
    lasts = low if low == high else f"{low} to {high}"
    return (
        f"on the devices' own clocks, which these times are on, the window lasts {lasts}, not {format_duration(window)}"
    )


def _exposed_total(exposed: int, of: int, ranks: int) -> str:
    device_time = f"{format_share(exposed / of)} of {format_duration(of)} device time"
    return f"exposed in all: {format_duration(exposed)}, {device_time} on {count_noun(ranks, 'rank')}"


def _breakdown_total(compute: float, communication: float, copy: float, idle: float) -> str:
    exposed = f"exposed communication {format_share(communication)}, exposed copy {format_share(copy)}"
    return f"overall: compute {format_share(compute)}, {exposed}, idle {format_share(idle)}"


def _hidden_parts_total(communication: float, copy: float) -> str:
    parts = {"communication": communication, "copies": copy}
    in_all = ", ".join(f"{name} {format_share(part)}" for name, part in parts.items() if part)
    return f"communication and copies are exposed parts; in all {in_all}"


def _work_in_part_of_recording(worked: int, recorded: int) -> str:
    part = format_share(worked / recorded)
    return f"first to last work: {format_duration(worked)} of {format_duration(recorded)} recorded ({part})"


def _duty_cycle_total(on_duty: int, span: int) -> str:
    return f"all together: duty cycle {format_share(on_duty / span)} of {format_duration(span)}"


_PART_NAMES: Final = MappingProxyType({"collectives": "exposed collectives", "device_to_device": "device to device"})
"""Parts of device time whose names differ from their columns."""


def _device_time_total(time: int, **parts: int) -> str:
    shares = ", ".join(
        f"{_PART_NAMES.get(name, name)} {format_share(part / time)}" for name, part in parts.items() if part
    )
    return f"of {format_duration(time)} device time: {shares}"


def _device_idle(idle: int, of: int, without_op: int | None = None) -> str:
    rest = "" if without_op is None else f"; no HLO op runs in {format_share(without_op / of)}"
    return f"idle {format_share(idle / of)} of {format_duration(of)} device time{rest}"


def _work_in_graphs(nodes: int, of: int, time: int, device_time: int) -> str:
    part = f" ({format_share(time / device_time)})" if device_time else ""
    which = f"{format_count(nodes)} of {format_count(of)} kernels, copies and memsets"
    return f"in graphs: {which}, {format_duration(time)}{part} of device time"


def _computation_on_tensor_cores(share: float, unknown: float) -> str:
    rest = f"; {format_share(unknown)} is of kernels whose names do not tell" if unknown else ""
    return f"tensor cores: {format_share(share)} of the time of computation{rest}"


_OP_KINDS: Final = MappingProxyType(
    {"hlo_ops": "HLO ops", "kernels": "kernels, copies and memsets", "operators": "operators on the host"}
)
"""The events that the analysis ops counts."""


def _ops_counted(what: tuple[str, ...], ranks: int) -> str:
    return f"counted: {', '.join(_OP_KINDS[each] for each in what)}, on {count_noun(ranks, 'rank')}"


def _no_work_of_groups(first: str, second: str) -> str:
    return f"no {printable(first)} and no {printable(second)} on a device here"


def _no_work_of_group(group: str) -> str:
    return f"no {printable(group)} ran here"


def _group_overlapped(share: float, group: str, by: str) -> str:
    return f"{format_share(share)} of the {printable(group)} runs at the same time as {printable(by)}"


def _steps_alone(time: int, of: int) -> str:
    return f"of the steps alone: {format_duration(time)} of {format_duration(of)}"


def _kernel_time_total(share: float) -> str:
    return f"all together: kernels run {format_share(share)} of the time"


def _kernels_without_length(kernels: int) -> str:
    weightless = "without a length, which weigh nothing in averages over time"
    return f"not counted: {count_noun(kernels, 'kernel')} {weightless}"


def _occupancy_of_part(share: float) -> str:
    part = f"occupancy is that of {format_share(share)} of the kernels' time"
    return f"{part}, and may be above the limit, which is of all: the rest tells none that can be true"


def _occupancy_impossible(*, limited: bool) -> str:
    return f"no occupancy that is recorded here can be true{_limit_hint(limited=limited)}"


def _occupancy_not_recorded(*, limited: bool) -> str:
    text = "CUDA's profiler tells it, ROCm's and others do not"
    return f"occupancy is not recorded here: {text}{_limit_hint(limited=limited)}"


def _limit_hint(*, limited: bool) -> str:
    return "; see occupancy limit" if limited else ""


def _blocks_per_sm_derived(derived: int, kernels: int, multiprocessors: tuple[int, ...]) -> str:
    device = f"{', '.join(map(format_count, multiprocessors))} multiprocessors"
    return f"blocks per SM of {derived:,} of {kernels:,} kernels are derived from grids and {device}"


def _kernels_without_grid(share: float, rows: int) -> str:
    part = f"{'up to ' if rows > 1 else ''}{format_share(share)} of the kernels' time"
    return f"SM efficiency is at least this: {part} has no grid; kernels of replayed graphs tell none"


def _stretches_of_length(length: int) -> str:
    return f"stretches of {format_duration(length)}"


def _gaps_total(gaps: int, idle: int, short: int, span: int, ranks: int) -> str:
    """`short` is the idle time in intervals too short for a gap."""
    many = f"{ranks} ranks" if ranks > 1 else "one rank"
    time = idle - short
    part = f"{format_share(time / span)} of {format_duration(span)} (first to last work, or the window)"
    text = f"{count_noun(gaps, 'gap')} on {many}: {format_duration(time)} idle, {part}"
    if format_duration(time) == format_duration(idle):
        return text
    return f"{text}; {format_duration(short)} more in intervals of 1 ns, which do not count as gaps"


def _time_outside_gaps(before: int, after: int, ranks: int) -> str:
    part = f"{format_duration(before)} before the first work and {format_duration(after)} after the last are in no gap"
    return part + " (on average)" * (ranks > 1)


def _gaps_by_own_clock(idle: int, span: int) -> str:
    part = f"{format_share(idle / span)} of {format_duration(span)}"
    return (
        "gaps are on the trace's clock, to which the profiler aligned the devices piece by piece; by the devices' own, "
        f"which breakdown shows, they idle {format_duration(idle)}, {part}"
    )


def _idle_by_cause(causes: tuple[str, ...], times: tuple[int, ...]) -> str:
    text = ", ".join(f"{cause} {format_duration(time)}" for cause, time in zip(causes, times, strict=True))
    return f"devices idle as a whole: {text}"


def _idle_at_edges(causes: tuple[str, ...], times: tuple[int, ...]) -> str:
    text = " and ".join(f"{format_duration(time)} {cause}" for cause, time in zip(causes, times, strict=True))
    return f"devices idle {text}, too: no pause, but gaps and breakdown count it in a window"


def _executions_total(executions: int, ranks: int, enqueued: int) -> str:
    known = f"the enqueue on the host is known of {enqueued:,} of {executions:,}"
    return f"{count_noun(executions, 'execution')} on {count_noun(ranks, 'rank')}; {known}"


def _no_executions_on_gpu(flag: str) -> str:
    """`flag` makes XLA launch kernels one by one, if they may have run in command buffers."""
    hint = f" (in command buffers: {flag})" if flag else ""
    return f"no execution of an XLA program here: no kernel of the GPUs names an HLO op{hint}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "no_ranks": "no rank here",
    "no_device_work": "no device work was recorded here",
    "ranks_of_several_devices": _ranks_of_several_devices,
    "lengths_by_device_clock": _lengths_by_device_clock,
    "window_by_device_clock": _window_by_device_clock,
    "exposed_total": _exposed_total,
    "no_hlo_ops_in_pytorch_profile": (
        "no HLO ops: a PyTorch Profiler file has none; overlap has what its streams hide"
    ),
    "no_asynchronous_ops": (
        "no asynchronous HLO op and no collective on a core here; on GPUs overlap has what streams hide"
    ),
    "breakdown_total": _breakdown_total,
    "hidden_parts_total": _hidden_parts_total,
    WORK_IN_PART_OF_RECORDING: _work_in_part_of_recording,
    "no_device_profiled": "no work of a device here: were devices profiled?",
    "duty_cycle_total": _duty_cycle_total,
    "device_time_total": _device_time_total,
    "device_idle": _device_idle,
    "no_graph_launches": "no launch of a CUDA or HIP graph is recorded here",
    "work_in_graphs": _work_in_graphs,
    "computation_on_tensor_cores": _computation_on_tensor_cores,
    "no_ops": "no kernel, HLO op or operator here",
    "no_ops_in_window": "no kernel, HLO op or operator in the window",
    "ops_counted": _ops_counted,
    "no_work_of_groups": _no_work_of_groups,
    "no_work_of_group": _no_work_of_group,
    "group_overlapped": _group_overlapped,
    "tpu_ops_in_sequence": (
        "the HLO ops of a TPU follow one another: what runs between the start and the done of an asynchronous"
        " collective, and hides it, is in async_overlap"
    ),
    "no_kernels": "no kernels",
    "no_kernels_in_window": "no kernel runs in the window",
    "no_gpus": "SM efficiency and occupancy are measures of GPUs: there are none here, only utilization",
    "steps_alone": _steps_alone,
    "kernel_time_total": _kernel_time_total,
    "kernels_without_length": _kernels_without_length,
    "kernel_values_impossible": (
        "not counted: {values:,} recorded values that cannot be true, such as an occupancy above 100 %, or of 0 % where"
        " many threads run: averages are of the other kernels"
    ),
    "occupancy_of_part": _occupancy_of_part,
    "occupancy_impossible": _occupancy_impossible,
    "occupancy_not_recorded": _occupancy_not_recorded,
    "blocks_per_sm_derived": _blocks_per_sm_derived,
    "blocks_per_sm_unknown": (
        "blocks per SM are not recorded here, nor a grid and the number of SMs: SM efficiency is not known"
    ),
    "kernels_without_grid": _kernels_without_grid,
    "stretches_of_length": _stretches_of_length,
    "no_gaps": "no gap: no device work here, or no pause in it",
    "gaps_total": _gaps_total,
    "time_outside_gaps": _time_outside_gaps,
    "gaps_end_before_launch": (
        "{ops:,} of the ops after these gaps begin before their launch: the clocks of host and device disagree"
    ),
    "gaps_by_own_clock": _gaps_by_own_clock,
    "no_pauses": "no pause: no device work here, or none in it",
    "idle_by_cause": _idle_by_cause,
    "idle_at_window_edges": _idle_at_edges,
    "executions_total": _executions_total,
    "executions_without_enqueue": (
        "of {executions:,} no enqueue is known: it lies before the profile, or no id leads to it"
    ),
    "executions_before_enqueue": (
        "{executions:,} begin before their enqueue: clocks or run ids disagree, so no ahead and dry are told"
    ),
    "no_programs_in_pytorch_trace": (
        "no XLA programs: a PyTorch Profiler file knows none; graphs has what is launched as a whole there"
    ),
    "no_executions_on_gpu": _no_executions_on_gpu,
    "no_executions": (
        "no execution of an XLA program here: were devices profiled (ProfileOptions.device_tracer_level)?"
    ),
}

HEADLINES: Final = frozenset(
    {
        "exposed_total",
        "breakdown_total",
        "duty_cycle_total",
        "work_in_graphs",
        "computation_on_tensor_cores",
        "group_overlapped",
        "no_work_of_groups",
        "no_work_of_group",
        "kernel_time_total",
        "no_gaps",
        "gaps_total",
        "no_pauses",
        "idle_by_cause",
        "executions_total",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""
