"""Sentences of notes about HLO ops and the memory of XLA's programs.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.analysis.hlo.command_buffers import NAMING
from tracehound.draw.notes.sentence import Sentence
from tracehound.errors import printable
from tracehound.units import bytes_, duration, flops, number, plural
from tracehound.units import share as percent


def _buffer_assignment_damaged(program: str, more: int) -> str:
    others = f" and {plural(more, 'more program')}" if more else ""
    return f"no buffer assignment here: the HLO proto of {printable(program)}{others} is damaged and cannot be read"


def _program_peak(program: str, peak: int, space: str) -> str:
    return f"{program} needs {bytes_(peak)} of {space} memory at its peak"


def _host_memory_of_programs(peak: int) -> str:
    return f"programs keep up to {bytes_(peak)} in host memory: what is offloaded crosses the link to the host"


def _no_kernel_names_hlo_op(*, buffered: bool) -> str:
    return f"no kernel of the GPUs names an HLO op{_in_buffers(buffered=buffered)}"


def _kernels_without_hlo_op(kernels: int, time: int, of: int, *, buffered: bool) -> str:
    part = f": {duration(time)}, {percent(time / of)} of the kernels' time" if of else ""
    return f"{kernels:,} kernels name no HLO op and are in no row{part}{_in_buffers(buffered=buffered)}"


def _in_buffers(*, buffered: bool) -> str:
    """The remedy where kernels that name no op may have run in command buffers."""
    return f" (those of command buffers do, with {NAMING})" if buffered else ""


def _hlo_ops_total(ops: int, ranks: int) -> str:
    return f"{plural(ops, 'HLO op')} on {plural(ranks, 'rank')}"


def _hlo_ops_at_once(self_time: int, busy: int) -> str:
    return f"ops run at once: their self times sum up to {percent(self_time / busy)} of the time in which any runs"


def _hlo_ops_wait_for_host_memory(share: float) -> str:
    return f"{percent(share)} of the ops' self time waits for the host's memory"


def _hlo_ops_far_from_peaks(ops: int, share: float) -> str:
    which = f"{plural(ops, 'op')}, {percent(share)} of the self time"
    return f"less than a tenth of any peak: {which}; what such an op is bound by is only what it uses most, if little"


def _roofline_judged(
    time: int, of: int, beyond_peak: int, unknown_cost: int, bounds: tuple[str, ...], waits: tuple[int, ...]
) -> str:
    """`waits` are the times of ops that wait for one of `bounds`, of which the roof says nothing."""
    rest = [(wait, f"waits for the {bound}") for bound, wait in zip(bounds, waits, strict=True)]
    rest += [(beyond_peak, "counted beyond the peak"), (unknown_cost, "of unknown cost")]
    untold = ", ".join(f"{percent(part / of)} {why}" for part, why in sorted(rest, reverse=True) if part)
    return f"judged {percent(time / of)} of the ops' self time" + (f"; not: {untold}" if untold else "")


def _costs_estimated_from_shapes(share: float) -> str:
    return f"of {percent(share)} operations or bytes are estimated from shapes"


def _rate_of_all_ops(rate: float, intensity: float) -> str:
    rates = f"{flops(rate)} at {number(round(intensity, 3))} operations per byte"
    return f"all ops together: {rates}, idle time included"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "no_buffer_assignment": (
        "no buffer assignment here: XLA profiles (xplane.pb) have it in the HLO protos of their programs, recorded with"
        " enable_hlo_proto, the default of jax.profiler and of torch_xla's xp.trace"
    ),
    "buffer_assignment_damaged": _buffer_assignment_damaged,
    "no_temporary_buffers": "no program with temporary buffers; {why}",
    "no_program_called_so": "or no program is called so",
    "program_peak": _program_peak,
    "host_memory_of_programs": _host_memory_of_programs,
    "peaks_in_hlo_buffers_and_hlo_heap": "hlo_buffers lists what is there at the peak, hlo_heap the way to it",
    "no_hlo_ops": (
        "no HLO op here: XLA profiles have them (JAX's ProfileOptions: host_tracer_level of 2 or more for CPUs,"
        " device_tracer_level of 1 for GPUs); the kernels and operators of others are in the analysis ops"
    ),
    "no_hlo_ops_in_window": "no HLO op in the window",
    "no_kernel_names_hlo_op": _no_kernel_names_hlo_op,
    "kernels_without_hlo_op": _kernels_without_hlo_op,
    "hlo_ops_total": _hlo_ops_total,
    "hlo_ops_at_once": _hlo_ops_at_once,
    "hlo_ops_wait_for_host_memory": _hlo_ops_wait_for_host_memory,
    "bandwidth_includes_queueing": (
        "the bandwidth of a copy in two halves is over the time from start to end, in which it may only queue behind"
        " others: transfers has the speed of links"
    ),
    "hlo_ops_far_from_peaks": _hlo_ops_far_from_peaks,
    "roofline_judged": _roofline_judged,
    "costs_estimated_from_shapes": _costs_estimated_from_shapes,
    "rate_of_all_ops": _rate_of_all_ops,
}
