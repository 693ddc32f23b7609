"""Sentences of notes on the work of devices: parts of their time, overlap, utilization, clocks, gaps and executions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.analysis.breakdown import WORK_IN_PART_OF_RECORDING
from tracehound.errors import printable
from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import count_noun, format_count, format_duration, format_instant, format_ranks, format_share


def _ranks_of_several_devices(ranks: tuple[int, ...], measured: str) -> str:
    one = f"{format_ranks(ranks)} {'holds' if len(ranks) == 1 else 'each hold'} several devices"
    what = f"communication of one during computation of another counts as {measured}"
    return f"{one} (the file does not tell which of them ran an HLO op): {what}"


def _launches_without_work(
    missing: int, launches: int, ranks: tuple[int, ...], rank: int, step: int | None, at: int
) -> str:
    del missing, rank, step, at  # the note's count and position
    return (
        f"launches whose device work was not recorded, of {launches:,} on {format_ranks(ranks)}: idle time there may be"
        " work"
    )


def _launched_work_missing(
    missing: int, launches: int, ranks: tuple[int, ...], rank: int, step: int | None, at: int
) -> str:
    return (
        f"{format_share(missing / launches)} of the launches on {format_ranks(ranks)} have no recorded device work"
        f" ({missing:,} of {launches:,}): idle time here may be work that was not recorded; first"
        f" {_launch_position(rank, step, at)}"
    )


def _launch_position(rank: int, step: int | None, at: int) -> str:
    return f"{'' if step is None else f'in step {step}, '}at {format_instant(at)} on rank {rank}"


def _lengths_by_device_clock(what: str, other: int, of: int, shortest: int, longest: int) -> str:
    lengths = f"{format_duration(shortest)} to {format_duration(longest)}"
    return (
        f"lengths of {what} are on the device's own clock; {other:,} of {of:,} differ on the trace's clock ({lengths})"
    )


def _window_by_device_clock(shortest: int, longest: int, window: int) -> str:
    low, high = format_duration(shortest), format_duration(longest)
    lasts = low if low == high else f"{low} to {high}"
    return f"times are on the devices' own clocks, on which the window lasts {lasts}, not {format_duration(window)}"


def _exposed_total(exposed: int, of: int, ranks: int) -> str:
    device_time = f"{format_share(exposed / of)} of {format_duration(of)} device time"
    return f"exposed: {format_duration(exposed)}, {device_time} on {count_noun(ranks, 'rank')}"


def _breakdown_total(compute: float, communication: float, copy: float, idle: float) -> str:
    exposed = f"exposed communication {format_share(communication)}, exposed copy {format_share(copy)}"
    return f"overall: compute {format_share(compute)}, {exposed}, idle {format_share(idle)}"


def _hidden_parts_total(communication: float, copy: float) -> str:
    parts = {"communication": communication, "copies": copy}
    total = ", ".join(f"{name} {format_share(part)}" for name, part in parts.items() if part)
    return f"the table has exposed communication and copies; with the hidden parts: {total}"


def _work_in_part_of_recording(worked: int, recorded: int) -> str:
    part = format_share(worked / recorded)
    return f"device work spans {format_duration(worked)} of {format_duration(recorded)} recorded ({part})"


def _duty_cycle_total(on_duty: int, span: int) -> str:
    return f"overall: duty cycle {format_share(on_duty / span)} of {format_duration(span)}"


_PART_NAMES: Final = MappingProxyType({"collectives": "exposed collectives", "device_to_device": "device to device"})
"""Parts of device time whose names differ from their columns."""


def _device_time_total(time: int, **parts: int) -> str:
    shares = ", ".join(
        f"{_PART_NAMES.get(name, name)} {format_share(part / time)}" for name, part in parts.items() if part
    )
    return f"{format_duration(time)} device time: {shares}"


def _device_idle(idle: int, of: int, without_op: int | None = None) -> str:
    rest = "" if without_op is None else f"; no HLO op runs in {format_share(without_op / of)}"
    return f"idle {format_share(idle / of)} of {format_duration(of)} device time{rest}"


def _work_in_graphs(nodes: int, of: int, time: int, device_time: int) -> str:
    part = f" ({format_share(time / device_time)})" if device_time else ""
    which = f"{format_count(nodes)} of {format_count(of)} kernels, copies and memsets"
    return f"graphs launch {which}: {format_duration(time)}{part} of device time"


def _computation_on_tensor_cores(share: float, unknown: float) -> str:
    rest = f"; unknown for {format_share(unknown)} (kernel names do not tell)" if unknown else ""
    return f"{format_share(share)} of computation time runs on tensor cores{rest}"


def _xprof_device_time(idle: int, of: int) -> str:
    part = f"idle {format_share(idle / of)} of {format_duration(of)}"
    return f"XProf counts the whole Steps line as device time: {part}"


_OP_KINDS: Final = MappingProxyType(
    {"hlo_ops": "HLO ops", "kernels": "kernels, memcpy and memset", "operators": "host operators"}
)
"""The events that the analysis ops counts."""


def _ops_counted(what: tuple[str, ...], ranks: int) -> str:
    return f"rows are {', '.join(_OP_KINDS[each] for each in what)} on {count_noun(ranks, 'rank')}"


def _no_work_of_groups(first: str, second: str) -> str:
    return f"no {printable(first)} and no {printable(second)} ran on a device"


def _no_work_of_group(group: str) -> str:
    return f"no {printable(group)} ran on a device"


def _group_overlapped(share: float, group: str, by: str) -> str:
    return f"{format_share(share)} of {printable(group)} time overlaps with {printable(by)}"


def _steps_alone(time: int, of: int) -> str:
    return f"rows cover the steps only: {format_duration(time)} of {format_duration(of)}"


def _kernel_time_total(share: float) -> str:
    return f"overall: kernels run {format_share(share)} of the time"


def _kernels_without_length(kernels: int) -> str:
    return f"{count_noun(kernels, 'kernel')} of length 0 left out of averages over time"


def _kernel_values_impossible(values: int) -> str:
    examples = "such as an occupancy above 100 %, or of 0 % with many threads"
    return f"{count_noun(values, 'implausible value')} ignored ({examples})"


def _occupancy_of_part(share: float) -> str:
    part = f"occupancy is known for {format_share(share)} of kernel time"
    return f"{part}; it may exceed the limit, which covers all kernels"


def _occupancy_impossible(*, limited: bool) -> str:
    return f"no plausible occupancy was recorded{_limit_hint(limited=limited)}"


def _occupancy_not_recorded(*, limited: bool) -> str:
    return f"occupancy was not recorded (only CUDA's profiler records it){_limit_hint(limited=limited)}"


def _limit_hint(*, limited: bool) -> str:
    return "; see occupancy limit" if limited else ""


def _blocks_per_sm_derived(derived: int, kernels: int, multiprocessors: tuple[int, ...]) -> str:
    device = f"{', '.join(map(format_count, multiprocessors))} multiprocessors"
    return f"blocks per SM of {derived:,} of {kernels:,} kernels are computed from their grids and {device}"


def _kernels_without_grid(share: float, rows: int) -> str:
    part = f"{'up to ' if rows > 1 else ''}{format_share(share)} of kernel time"
    return f"SM efficiency is a lower bound: {part} has no grid (kernels of replayed graphs have none)"


def _stretches_of_length(length: int) -> str:
    return f"one row per {format_duration(length)}"


def _gaps_total(gaps: int, idle: int, short: int, span: int, ranks: int) -> str:
    """`short` is the idle time in intervals too short for a gap."""
    many = f"{ranks:,} ranks" if ranks > 1 else "one rank"
    time = idle - short
    part = f"{format_share(time / span)} of {format_duration(span)} (first to last work, or the window)"
    text = f"{count_noun(gaps, 'gap')} on {many}: {format_duration(time)} idle, {part}"
    if format_duration(time) == format_duration(idle):
        return text
    return f"{text}; {format_duration(short)} more in intervals of 1 ns, which do not count as gaps"


def _time_outside_gaps(before: int, after: int, ranks: int) -> str:
    part = f"{format_duration(before)} before the first work and {format_duration(after)} after the last"
    return f"not counted as gaps: {part}" + " (mean over ranks)" * (ranks > 1)


def _gaps_by_own_clock(idle: int, span: int) -> str:
    part = f"{format_share(idle / span)} of {format_duration(span)}"
    return (
        "gaps are on the trace's clock; on the devices' own clocks, as in breakdown, idle time is "
        f"{format_duration(idle)}, {part}"
    )


def _idle_by_cause(causes: tuple[str, ...], times: tuple[int, ...]) -> str:
    text = ", ".join(f"{cause} {format_duration(time)}" for cause, time in zip(causes, times, strict=True))
    return f"idle time of whole devices: {text}"


def _idle_at_edges(causes: tuple[str, ...], times: tuple[int, ...]) -> str:
    text = " and ".join(f"{format_duration(time)} {cause}" for cause, time in zip(causes, times, strict=True))
    return f"also idle: {text} (no row here; gaps and breakdown count it in a window)"


def _executions_total(executions: int, ranks: int, enqueued: int) -> str:
    known = f"the host's enqueue is known for {enqueued:,} of {executions:,}"
    return f"{count_noun(executions, 'execution')} on {count_noun(ranks, 'rank')}; {known}"


def _no_executions_on_gpu(flag: str) -> str:
    """`flag` makes XLA launch kernels one by one, if they may have run in command buffers."""
    hint = f"; kernels of command buffers do with {flag}" if flag else ""
    return f"no executions of XLA programs: no GPU kernel names an HLO op{hint}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "no_ranks": "no ranks",
    "no_device_work": "no device work was recorded",
    "ranks_of_several_devices": _ranks_of_several_devices,
    "lengths_by_device_clock": _lengths_by_device_clock,
    "window_by_device_clock": _window_by_device_clock,
    "exposed_total": _exposed_total,
    "no_hlo_ops_in_pytorch_profile": ("a PyTorch trace has no HLO ops; overlap shows what its streams hide"),
    "no_asynchronous_ops": (
        "no asynchronous HLO ops and no collectives on a core; on GPUs, overlap shows what streams hide"
    ),
    "breakdown_total": _breakdown_total,
    "hidden_parts_total": _hidden_parts_total,
    WORK_IN_PART_OF_RECORDING: _work_in_part_of_recording,
    "no_device_profiled": "no device work was recorded: were devices profiled?",
    "duty_cycle_total": _duty_cycle_total,
    "device_time_total": _device_time_total,
    "device_idle": _device_idle,
    "xprof_device_time": _xprof_device_time,
    "no_graph_launches": "no launch of a CUDA or HIP graph was recorded",
    "work_in_graphs": _work_in_graphs,
    "computation_on_tensor_cores": _computation_on_tensor_cores,
    "no_ops": "no kernels, HLO ops or operators were recorded",
    "no_ops_in_window": "no kernel, HLO op or operator in the window",
    "ops_counted": _ops_counted,
    "no_work_of_groups": _no_work_of_groups,
    "no_work_of_group": _no_work_of_group,
    "group_overlapped": _group_overlapped,
    "tpu_ops_in_sequence": (
        "a TPU runs its HLO ops one after another; async_overlap shows what hides its asynchronous collectives"
    ),
    "launches_without_work": _launches_without_work,
    "launched_work_missing": _launched_work_missing,
    "profiler_dropped_events": (
        "the profiler dropped {events:,} events (see health): idle time here may be work that was not recorded"
    ),
    "launch_ids_shared": (
        "device events with the correlation id of another event's launch: their own launch, and their delay, are not"
        " known"
    ),
    "launches_captured": "launches captured into graphs, which have no device work of their own",
    "no_kernels": "no kernels",
    "no_kernels_in_window": "no kernel runs in the window",
    "no_gpus": "only GPUs have SM efficiency and occupancy; these devices have utilization only",
    "steps_alone": _steps_alone,
    "kernel_time_total": _kernel_time_total,
    "kernels_without_length": _kernels_without_length,
    "kernel_values_impossible": _kernel_values_impossible,
    "occupancy_of_part": _occupancy_of_part,
    "occupancy_impossible": _occupancy_impossible,
    "occupancy_not_recorded": _occupancy_not_recorded,
    "blocks_per_sm_derived": _blocks_per_sm_derived,
    "blocks_per_sm_unknown": (
        "SM efficiency is unknown: neither blocks per SM nor grids with the number of SMs were recorded"
    ),
    "kernels_without_grid": _kernels_without_grid,
    "stretches_of_length": _stretches_of_length,
    "no_gaps": "no gaps: no device work was recorded, or the device never idles between two pieces of work",
    "gaps_total": _gaps_total,
    "time_outside_gaps": _time_outside_gaps,
    "gaps_end_before_launch": (
        "{ops:,} of the ops after these gaps begin before their launch: host and device clocks disagree"
    ),
    "gaps_by_own_clock": _gaps_by_own_clock,
    "no_pauses": "no gaps: no device work was recorded, or no stream idles between two pieces of work",
    "idle_by_cause": _idle_by_cause,
    "idle_at_window_edges": _idle_at_edges,
    "executions_total": _executions_total,
    "executions_without_enqueue": (
        "no enqueue is known for {executions:,} executions: it came before the recording, or no id leads to it"
    ),
    "executions_before_enqueue": (
        "{executions:,} executions begin before their enqueue (clocks or run ids disagree): ahead and dry are unknown"
    ),
    "no_programs_in_pytorch_trace": ("a PyTorch trace has no XLA programs; graphs lists what is launched as a whole"),
    "no_executions_on_gpu": _no_executions_on_gpu,
    "no_executions": (
        "no executions of XLA programs were recorded: none ran, or device tracing did not start; see health"
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
        "device_idle",
        "no_pauses",
        "idle_by_cause",
        "executions_total",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""
