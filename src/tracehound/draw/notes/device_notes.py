"""Sentences of notes about the work of devices: kernels and ops, the parts of their time, overlap, and clocks.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.analysis.breakdown import WORKING
from tracehound.draw.notes.sentence import Sentence
from tracehound.errors import printable
from tracehound.units import count, duration, plural, which_ranks
from tracehound.units import share as percent


def _ranks_of_several_devices(ranks: tuple[int, ...], measured: str) -> str:
    one = f"{which_ranks(ranks)} {'is' if len(ranks) == 1 else 'are each'} several devices in one"
    what = f"what one communicates while another computes is {measured} here"
    return f"{one}: which of them ran an HLO op is not recorded: {what}"


def _lengths_by_device_clock(what: str, other: int, of: int, shortest: int, longest: int) -> str:
    lengths = f"{duration(shortest)} to {duration(longest)}"
    return (
        f"the device's own clock measures {what}; the trace's, to which the profiler aligned it piece by piece, gives "
        f"{other:,} of {of:,} another length: {lengths}"
    )


def _window_by_device_clock(shortest: int, longest: int, window: int) -> str:
    low, high = duration(shortest), duration(longest)
    lasts = low if low == high else f"{low} to {high}"
    return f"on the devices' own clocks, which these times are on, the window lasts {lasts}, not {duration(window)}"


def _exposed_total(exposed: int, of: int, ranks: int) -> str:
    device_time = f"{percent(exposed / of)} of {duration(of)} device time"
    return f"exposed in all: {duration(exposed)}, {device_time} on {plural(ranks, 'rank')}"


def _breakdown_total(compute: float, communication: float, copy: float, idle: float) -> str:
    exposed = f"exposed communication {percent(communication)}, exposed copy {percent(copy)}"
    return f"all together: compute {percent(compute)}, {exposed}, idle {percent(idle)}"


def _hidden_parts_total(communication: float, copy: float) -> str:
    parts = {"communication": communication, "copies": copy}
    in_all = ", ".join(f"{name} {percent(part)}" for name, part in parts.items() if part)
    return f"communication and copies are exposed parts; in all {in_all}"


def _work_in_part_of_recording(worked: int, recorded: int) -> str:
    part = percent(worked / recorded)
    return f"first to last work: {duration(worked)} of {duration(recorded)} recorded ({part})"


def _duty_cycle_total(on_duty: int, span: int) -> str:
    return f"all together: duty cycle {_thousandths(on_duty, span)} of {duration(span)}"


_PARTS: Final = MappingProxyType({"collectives": "exposed collectives", "device_to_device": "device to device"})
"""Parts of device time whose names are not those of their columns."""


def _device_time_total(time: int, **parts: int) -> str:
    shares = ", ".join(f"{_PARTS.get(name, name)} {_thousandths(part, time)}" for name, part in parts.items() if part)
    return f"of {duration(time)} device time: {shares}"


def _device_idle(idle: int, of: int, without_op: int | None = None) -> str:
    rest = "" if without_op is None else f"; no HLO op runs in {_thousandths(without_op, of)}"
    return f"idle {_thousandths(idle, of)} of {duration(of)} device time{rest}"


def _thousandths(part: int, of: int) -> str:
    """A share to a thousandth of a percent, as people hold it against XProf's."""
    return f"{part / of * 100:.3f} %"


def _work_in_graphs(nodes: int, of: int, time: int, device_time: int) -> str:
    part = f" ({percent(time / device_time)})" if device_time else ""
    which = f"{count(nodes)} of {count(of)} kernels, copies and memsets"
    return f"in graphs: {which}, {duration(time)}{part} of device time"


def _computation_on_tensor_cores(share: float, unknown: float) -> str:
    rest = f"; {percent(unknown)} is of kernels whose names do not tell" if unknown else ""
    return f"tensor cores: {percent(share)} of the time of computation{rest}"


_COUNTED: Final = MappingProxyType(
    {"hlo_ops": "HLO ops", "kernels": "kernels, copies and memsets", "operators": "operators on the host"}
)
"""What the analysis ops counts."""


def _ops_counted(what: tuple[str, ...], ranks: int) -> str:
    return f"counted: {', '.join(_COUNTED[each] for each in what)}, on {plural(ranks, 'rank')}"


def _no_work_of_groups(first: str, second: str) -> str:
    return f"no {printable(first)} and no {printable(second)} on a device here"


def _no_work_of_group(group: str) -> str:
    return f"no {printable(group)} ran here"


def _group_overlapped(share: float, group: str, by: str) -> str:
    return f"{percent(share)} of the {printable(group)} runs at the same time as {printable(by)}"


SENTENCES: Final[Mapping[str, Sentence]] = {
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
    WORKING: _work_in_part_of_recording,
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
}
