"""Sentences of notes on HLO ops, the memory of XLA programs, and the peaks of devices."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.errors import printable
from tracehound.formats.xla.xla_names import NO_COMMAND_BUFFERS_FLAG
from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import (
    SENTENCE_DIGITS,
    count_noun,
    format_bandwidth,
    format_bytes,
    format_duration,
    format_flops,
    format_number,
    format_share,
)


def _buffer_assignment_damaged(program: str, more: int) -> str:
    others = f" and {count_noun(more, 'more program')}" if more else ""
    return f"no buffer assignment: the HLO proto of {printable(program)}{others} is damaged"


def _program_peak(program: str, peak: int, space: str) -> str:
    return f"{program} needs {format_bytes(peak)} of {space} memory at its peak"


def _host_memory_of_programs(peak: int) -> str:
    return f"programs keep up to {format_bytes(peak)} in host memory; offloaded data crosses the link to the host"


def _no_kernel_names_hlo_op(*, buffered: bool) -> str:
    return f"no GPU kernel names an HLO op: see ops and kernels{_command_buffer_hint(buffered=buffered)}"


def _kernels_without_hlo_op(kernels: int, time: int, of: int, *, buffered: bool) -> str:
    part = f": {format_duration(time)}, {format_share(time / of)} of kernel time" if of else ""
    return (
        f"{count_noun(kernels, 'kernel')} without an HLO op, in no row{part}{_command_buffer_hint(buffered=buffered)}"
    )


def _command_buffer_hint(*, buffered: bool) -> str:
    """The remedy if kernels without an op may have run in command buffers."""
    return f" (kernels of command buffers name theirs with {NO_COMMAND_BUFFERS_FLAG})" if buffered else ""


def _hlo_ops_total(ops: int, ranks: int) -> str:
    return f"{count_noun(ops, 'HLO op')} on {count_noun(ranks, 'rank')}"


def _hlo_ops_at_once(self_time: int, busy: int) -> str:
    return f"ops overlap: their self times add up to {format_share(self_time / busy)} of the time in which any runs"


def _hlo_ops_wait_for_host_memory(share: float) -> str:
    return f"{format_share(share)} of the ops' self time waits for host memory"


def _hlo_ops_far_from_peaks(ops: int, share: float) -> str:
    which = f"{count_noun(ops, 'op')}, {format_share(share)} of the self time"
    return f"below a tenth of every peak: {which}; their bound is only the resource that they use most"


def _roofline_judged(
    time: int, of: int, beyond_peak: int, unknown_cost: int, bounds: tuple[str, ...], waits: tuple[int, ...]
) -> str:
    """`waits` are the times of ops that wait for one of `bounds`, which the roofline does not model."""
    rest = [(wait, f"waits for the {bound}") for bound, wait in zip(bounds, waits, strict=True)]
    rest += [(beyond_peak, "above the peak"), (unknown_cost, "of unknown cost")]
    unjudged = ", ".join(f"{format_share(part / of)} {why}" for part, why in sorted(rest, reverse=True) if part)
    return f"covers {format_share(time / of)} of the ops' self time" + (f"; the rest: {unjudged}" if unjudged else "")


def _costs_estimated_from_shapes(share: float) -> str:
    return f"operations or bytes of {format_share(share)} are estimated from shapes"


def _rate_of_all_ops(rate: float, intensity: float) -> str:
    rates = f"{format_flops(rate)} at {format_number(intensity, SENTENCE_DIGITS)} operations per byte"
    return f"all ops: {rates} (device time, idle included)"


def _peak_of_device(device: str, compute: float | None, memory: float | None, source: str) -> str:
    figures = [format_flops(compute)] if compute else []
    figures += [format_bandwidth(memory)] if memory else []
    return f"peak of {device}: {' and '.join(figures)} ({source})"


def _peaks_of_device(device: str, compute: float | None, memory: float | None, source: str) -> str:
    figures = [f"{format_flops(compute)} on 16 bits"] if compute else []
    figures += [format_bandwidth(memory)] if memory else []
    return f"peaks of {device}: {', '.join(figures)} ({source})"


_TABLE_SOURCES: Final = MappingProxyType(
    {
        "tpu": "Google Cloud TPU documentation, system architecture, per chip",
        "tpu core": "Google Cloud TPU documentation, system architecture, per core: half a chip",
        "nvidia": "NVIDIA's data sheet of the product, dense",
        "amd": "AMD's data sheet of the product, dense",
        "gcd": "AMD's data sheet of the product, dense, per GCD: half a card",
    }
)
"""Sources of the figures in the table of devices."""


def _peaks_from_table(table: str) -> str:
    return f"table: {_TABLE_SOURCES[table]}"


def _peaks_from_capability(capability: str, cores: float, hertz: float, *, halved: bool) -> str:
    device = f"compute capability {capability}, {cores:.0f} cores at {hertz / 1e6:,.0f} MHz in the profile"
    if not halved:
        return device
    return f"{device}; some such devices multiply matrices twice as fast: name yours with --peak"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "no_buffer_assignment": (
        "no buffer assignment: xplane.pb has it in the HLO protos of programs, recorded with enable_hlo_proto (the"
        " default of jax.profiler and of torch_xla's xp.trace)"
    ),
    "buffer_assignment_damaged": _buffer_assignment_damaged,
    "no_temporary_buffers": "no program has temporary buffers; {why}",
    "no_program_called_so": "or no program has that name",
    "program_peak": _program_peak,
    "host_memory_of_programs": _host_memory_of_programs,
    "peaks_in_hlo_buffers_and_hlo_heap": "hlo_buffers lists the buffers at the peak, hlo_heap the memory over time",
    "no_hlo_ops": (
        "no HLO ops: XLA profiles record them (on CPUs with ProfileOptions.host_tracer_level=2 or more); see ops for"
        " kernels and operators"
    ),
    "no_hlo_ops_in_window": "no HLO ops in the window",
    "no_kernel_names_hlo_op": _no_kernel_names_hlo_op,
    "kernels_without_hlo_op": _kernels_without_hlo_op,
    "hlo_ops_total": _hlo_ops_total,
    "hlo_ops_at_once": _hlo_ops_at_once,
    "hlo_ops_wait_for_host_memory": _hlo_ops_wait_for_host_memory,
    "bandwidth_includes_queueing": (
        "bandwidth of asynchronous copies is over the time from start to done, which includes queueing; transfers has"
        " the speed of links"
    ),
    "hlo_ops_far_from_peaks": _hlo_ops_far_from_peaks,
    "roofline_judged": _roofline_judged,
    "costs_estimated_from_shapes": _costs_estimated_from_shapes,
    "rate_of_all_ops": _rate_of_all_ops,
    "no_peak_known": (
        "the peaks of the device are unknown, so bounds are empty: set them with --peak (v6e, H100, 989T,3.35TB/s)"
    ),
    "peak_of_device": _peak_of_device,
    "peaks_of_device": _peaks_of_device,
    "peaks_of_ranks_differ": "the ranks have different devices: all are compared with the first one's peaks",
    "peaks_from_table": _peaks_from_table,
    "peaks_from_table_by_capability": (
        "{source}; recognized by compute capability {capability}, {cores:.0f} cores and memory bandwidth"
    ),
    "peaks_from_capability": _peaks_from_capability,
    "peaks_stated_in_profile": "stated in the profile",
    "peaks_given_by_setting": "set with --peak",
}

HEADLINES: Final = frozenset(
    {
        "program_peak",
        "hlo_ops_total",
        "rate_of_all_ops",
        "roofline_judged",
        "hlo_ops_wait_for_host_memory",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""
