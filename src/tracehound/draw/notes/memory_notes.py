"""Sentences of notes on device memory (peaks, allocators, blocks) and on copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence_template import SentenceTemplate
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
    full = "" if share is None else f", {format_share(share)} of what it has"
    return f"{allocator} held {format_bytes(peak)} at most{full}"


def _free_memory_fragmented(share: float, peaks: int) -> str:
    part = f"over {format_share(share)} of the free memory"
    return f"{part} was outside of its largest piece at {count_noun(peaks, 'peak')}"


def _device_memory_peak(device: str, rank: int, at: int, peak: int) -> str:
    return f"at its peak, {format_instant(at)}, {device} of rank {rank} holds {format_bytes(peak)}"


def _memory_nearly_full(device: str, rank: int, share: float, capacity: int) -> str:
    return f"nearly full: {device} of rank {rank} at its peak, {format_share(share)} of {format_bytes(capacity)}"


def _memory_totals_missing(devices: tuple[str, ...], *, every: bool) -> str:
    where = _device_scope(devices, every=every)
    return f"no totals {where}: allocated is counted from the start of the recording, reserved not known"


def _memory_addresses_missing(devices: tuple[str, ...], *, every: bool) -> str:
    return f"no addresses {_device_scope(devices, every=every)}: which blocks are held or never freed is not known"


def _device_scope(devices: tuple[str, ...], *, every: bool) -> str:
    """``in this file``, or the names of the devices if not all are concerned."""
    return "in this file" if every else f"of {join_some(devices, 4)} in this file"


def _no_memory_blocks(*, windowed: bool) -> str:
    where = "in the window" if windowed else "here"
    return f"no such block {where}, or the file has no addresses (PyTorch tells them since 1.10)"


def _smaller_blocks_left_out(blocks: int) -> str:
    return f"{count_noun(blocks, 'smaller block')} left out"


def _blocks_above_peak(most: int, devices: int, ranks: tuple[int, ...]) -> str:
    more = f"{_at_most_text(most, devices)} more than the peak, whose total leaves some of them out"
    return f"the blocks held at the peak are {more} ({format_ranks(ranks)})"


def _blocks_below_peak(most: int, devices: int, ranks: tuple[int, ...]) -> str:
    less = f"{_at_most_text(most, devices)} less than the peak: others were given before the recording"
    return f"the blocks held at the peak are {less} ({format_ranks(ranks)})"


def _at_most_text(most: int, devices: int) -> str:
    return f"up to {format_bytes(most)}" if devices > 1 else format_bytes(most)


def _no_copies(*, hlo: bool) -> str:
    return f"no copy: none ran on a stream here{_hlo_copies_hint(hlo=hlo)}"


def _no_copies_on_ranks(ranks: tuple[int, ...], *, hlo: bool) -> str:
    where = f"no copy on {format_ranks(ranks)}"
    return f"{where}: none is recorded on a stream or an asynchronous line there{_hlo_copies_hint(hlo=hlo)}"


def _hlo_copies_hint(*, hlo: bool) -> str:
    return "; HLO ops that copy are among the ops" if hlo else ""


def _copies_not_measured(copies: int, limit: int, kind: str, rank: int) -> str:
    of = f"of no length or unknown size, or above {limit // 10**9:,} GB/s"
    return f"not measured, {of}: {copies:,} (first {kind} on rank {rank})"


def _copies_measured_roughly(copies: int, longest: int) -> str:
    short = f"{count_noun(copies, 'copy', 'copies')} of at most {format_duration(longest)}"
    return f"rough: {short}; durations are whole microseconds here"


def _waits_for_host_copies(
    wait: int, of: int, sources: tuple[str, ...], targets: tuple[str, ...], rates: tuple[float, ...]
) -> str:
    waiting = (
        f"waiting for copies from and to the host: {format_share(wait / of)} of device time, {format_duration(wait)}"
    )
    links = ", ".join(
        f"{source} to {target} {format_bandwidth(speed)} ({speed / (1 << 30):.1f} GiB/s)"
        for source, target, speed in zip(sources, targets, rates, strict=True)
    )
    return f"{waiting}; {links}" if links else waiting


def _copies_too_fast(copies: int, limit: float) -> str:
    return f"in no rate: {count_noun(copies, 'copy', 'copies')} above {format_bandwidth(limit)}"


def _rows_above_memory_bandwidth(rows: int, limit: float) -> str:
    return f"no rate of {count_noun(rows, 'row')}: above {format_bandwidth(limit)}, more than the device's memory gives"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "no_allocator_events": (
        "no allocator events here: XLA's runtime records them on TPU and GPU with the host tracer at level 2 or above"
        " (jax.profiler's default); for PyTorch see its memory counters (profile_memory=True)"
    ),
    "allocator_peak": _allocator_peak,
    "free_memory_fragmented": _free_memory_fragmented,
    "no_memory_events": "no memory events: profile with profile_memory=True",
    "no_memory_events_in_xla_profile": (
        "no memory events: those are PyTorch's; an XLA profile has allocator, and hlo_memory for its programs"
    ),
    "no_memory_events_in_window": "no memory event in the window",
    "held_memory_unknown": "no memory event in the window, nor before it: what is held there is not known",
    "no_memory_categories": (
        "no categories here: export_memory_timeline('....raw.json.gz') of the profiler writes a file that has them"
    ),
    "device_memory_peak": _device_memory_peak,
    "memory_nearly_full": _memory_nearly_full,
    "memory_peak_impossible": "not to be believed: the peak of {device} of rank {rank} is above its memory",
    "memory_totals_missing": _memory_totals_missing,
    "memory_addresses_missing": _memory_addresses_missing,
    "memory_levels_are_maxima": (
        "allocated, reserved and unused are each the most in a stretch, maybe at different times of it: unused is"
        " seldom the difference of the others"
    ),
    "no_memory_blocks": _no_memory_blocks,
    "smaller_blocks_left_out": _smaller_blocks_left_out,
    "blocks_above_peak": _blocks_above_peak,
    "blocks_below_peak": _blocks_below_peak,
    "no_copies": _no_copies,
    "no_copies_on_ranks": _no_copies_on_ranks,
    "no_copies_on_streams": "no copies on a stream",
    "no_copies_between_memories": (
        "no copies between memories here: the CPU's devices share the host's memory, and what host threads transfer is"
        " in the report host; on TPUs the HLO lines of ops tell of copies (xplane.pb has them)"
    ),
    "copies_queued": (
        "copies of asynchronous lines last as long as they are in flight, where most may only queue: several at once"
        " add up to more than a link gives; transfers has the speed of links"
    ),
    "copies_not_measured": _copies_not_measured,
    "copies_measured_roughly": _copies_measured_roughly,
    "waits_for_host_copies": _waits_for_host_copies,
    "bound_by_host_link": "bound by the link to the host's memory, not by the device's own memory or its units",
    "copies_too_fast": _copies_too_fast,
    "no_copy_sizes": "no size is recorded of any copy: there are no bytes and no rates",
    "copies_without_size": (
        "no size is recorded of {copies:,} of {of:,} copies: bytes and rates are those of the others"
    ),
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
