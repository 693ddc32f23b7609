"""Sentences of notes on device memory (peaks, allocators, blocks) and on copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import (
    count_noun,
    format_bandwidth,
    format_bytes,
    format_duration,
    format_instant,
    format_ranks,
    format_share,
    join_some,
)


def _allocator_peak(allocator: str, peak: int, share: float | None) -> str:
    full = "" if share is None else f" ({format_share(share)} of its capacity)"
    return f"{allocator} peaked at {format_bytes(peak)}{full}"


def _free_memory_fragmented(share: float, peaks: int) -> str:
    part = f"more than {format_share(share)} of free memory"
    return f"fragmentation: {part} was outside of the largest free block at {count_noun(peaks, 'peak')}"


def _device_memory_peak(device: str, rank: int, at: int, peak: int) -> str:
    return f"{device} of rank {rank} peaks at {format_bytes(peak)}, at {format_instant(at)}"


def _memory_nearly_full(device: str, rank: int, share: float, capacity: int) -> str:
    return f"{device} of rank {rank} is nearly full at its peak: {format_share(share)} of {format_bytes(capacity)}"


def _memory_totals_missing(devices: tuple[str, ...], *, every: bool) -> str:
    where = _device_scope(devices, every=every)
    return f"no totals {where}: allocated counts from the start of the recording, reserved is unknown"


def _memory_addresses_missing(devices: tuple[str, ...], *, every: bool) -> str:
    return f"no addresses {_device_scope(devices, every=every)}: held and never freed blocks are unknown"


def _device_scope(devices: tuple[str, ...], *, every: bool) -> str:
    """``in this file``, or the names of the devices if not all are concerned."""
    return "in this file" if every else f"of {join_some(devices, 4)} in this file"


def _no_memory_blocks(*, windowed: bool) -> str:
    where = " in the window" if windowed else ""
    return f"no such blocks{where}, or the file has no addresses (PyTorch records them since 1.10)"


def _smaller_blocks_left_out(blocks: int) -> str:
    return f"{count_noun(blocks, 'smaller block')} left out"


def _blocks_above_peak(most: int, devices: int, ranks: tuple[int, ...]) -> str:
    more = f"{_at_most_text(most, devices)} above the peak"
    return f"the blocks held at the peak add up to {more}: its total leaves some of them out ({format_ranks(ranks)})"


def _blocks_below_peak(most: int, devices: int, ranks: tuple[int, ...]) -> str:
    less = f"{_at_most_text(most, devices)} below the peak"
    return f"the blocks held at the peak add up to {less}: others are from before the recording ({format_ranks(ranks)})"


def _at_most_text(most: int, devices: int) -> str:
    return f"up to {format_bytes(most)}" if devices > 1 else format_bytes(most)


def _no_copies(*, hlo: bool) -> str:
    return f"no copies ran on a stream{_hlo_copies_hint(hlo=hlo)}"


def _no_copies_on_ranks(ranks: tuple[int, ...], *, hlo: bool) -> str:
    where = f"no copies on {format_ranks(ranks)}"
    return f"{where}: none were recorded on a stream or an asynchronous line{_hlo_copies_hint(hlo=hlo)}"


def _hlo_copies_hint(*, hlo: bool) -> str:
    return "; see ops for HLO ops that copy" if hlo else ""


def _copies_not_measured(copies: int, limit: int, kind: str, rank: int) -> str:
    of = f"length 0, unknown size, or above {limit // 10**9:,} GB/s"
    return f"{count_noun(copies, 'copy', 'copies')} without a bandwidth ({of}; first {kind} on rank {rank})"


def _copies_measured_roughly(copies: int, longest: int) -> str:
    short = f"{count_noun(copies, 'copy', 'copies')} of at most {format_duration(longest)}"
    return f"bandwidth of {short} is rough: durations are whole microseconds"


def _waits_for_host_copies(
    wait: int, of: int, sources: tuple[str, ...], targets: tuple[str, ...], rates: tuple[float, ...]
) -> str:
    waiting = (
        f"{format_share(wait / of)} of device time ({format_duration(wait)}) waits for copies from and to the host"
    )
    links = ", ".join(
        f"{source} to {target} {format_bandwidth(speed)} ({format_bytes(speed)}/s)"
        for source, target, speed in zip(sources, targets, rates, strict=True)
    )
    return f"{waiting}; {links}" if links else waiting


def _copies_too_fast(copies: int, limit: float) -> str:
    return f"left out of rates: {count_noun(copies, 'copy', 'copies')} above {format_bandwidth(limit)}"


def _rows_above_memory_bandwidth(rows: int, limit: float) -> str:
    return f"no rate in {count_noun(rows, 'row')}: above {format_bandwidth(limit)}, more than the memory can do"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "no_allocator_events": (
        "no allocator events: XLA records them on TPU and GPU with host_tracer_level of 2 or more (jax.profiler's"
        " default); for PyTorch see memory (profile_memory=True)"
    ),
    "allocator_peak": _allocator_peak,
    "free_memory_fragmented": _free_memory_fragmented,
    "no_memory_events": "no memory events: profile with profile_memory=True",
    "no_memory_events_in_xla_profile": (
        "no memory events in an XLA profile; see allocator, and hlo_memory for its programs"
    ),
    "no_memory_events_in_window": "no memory event in the window",
    "held_memory_unknown": "no memory events in the window or before it: held memory is unknown",
    "no_memory_categories": (
        "no categories: the profiler's export_memory_timeline('....raw.json.gz') writes a file that has them"
    ),
    "device_memory_peak": _device_memory_peak,
    "memory_nearly_full": _memory_nearly_full,
    "memory_peak_impossible": "implausible: the peak of {device} of rank {rank} is above its memory",
    "memory_totals_missing": _memory_totals_missing,
    "memory_addresses_missing": _memory_addresses_missing,
    "memory_levels_are_maxima": (
        "each value is the maximum within its interval, so unused is seldom reserved - allocated"
    ),
    "no_memory_blocks": _no_memory_blocks,
    "smaller_blocks_left_out": _smaller_blocks_left_out,
    "blocks_above_peak": _blocks_above_peak,
    "blocks_below_peak": _blocks_below_peak,
    "no_copies": _no_copies,
    "no_copies_on_ranks": _no_copies_on_ranks,
    "no_copies_on_streams": "no copies on a stream",
    "no_copies_between_memories": (
        "no copies between memories: CPU devices share the host's memory (see host for transfers by host threads); on"
        " TPUs the HLO of ops tells copies (xplane.pb has it)"
    ),
    "copies_queued": (
        "asynchronous copies count from start to done, which includes queueing, so several at once exceed the link;"
        " transfers has the speed of links"
    ),
    "copies_not_measured": _copies_not_measured,
    "copies_measured_roughly": _copies_measured_roughly,
    "waits_for_host_copies": _waits_for_host_copies,
    "bound_by_host_link": "the limit is the link to host memory, not device memory or compute",
    "copies_too_fast": _copies_too_fast,
    "no_copy_sizes": "no copy has a recorded size: bytes and rates are empty",
    "copies_without_size": ("{copies:,} of {of:,} copies have no recorded size: bytes and rates are of the others"),
    "rows_above_memory_bandwidth": _rows_above_memory_bandwidth,
}

HEADLINES: Final = frozenset(
    {
        "allocator_peak",
        "device_memory_peak",
        "memory_nearly_full",
        "waits_for_host_copies",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""

WARNINGS: Final = frozenset(
    {
        "memory_peak_impossible",
    }
)
"""Codes of notes on lost or doubtful data, whatever their level."""
