"""Sentences of notes about the memory of devices: peaks, allocators, blocks, and what was not recorded of them.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import bytes_, instant, plural, several, which_ranks
from tracehound.units import share as percent


def _allocator_peak(allocator: str, peak: int, share: float | None) -> str:
    full = "" if share is None else f", {percent(share)} of what it has"
    return f"{allocator} held {bytes_(peak)} at most{full}"


def _free_memory_fragmented(share: float, peaks: int) -> str:
    part = f"over {percent(share)} of the free memory"
    return f"{part} was outside of its largest piece at {plural(peaks, 'peak')}"


def _device_memory_peak(device: str, rank: int, at: int, peak: int) -> str:
    return f"at its peak, {instant(at)}, {device} of rank {rank} holds {bytes_(peak)}"


def _memory_nearly_full(device: str, rank: int, share: float, capacity: int) -> str:
    return f"nearly full: {device} of rank {rank} at its peak, {percent(share)} of {bytes_(capacity)}"


def _memory_totals_missing(devices: tuple[str, ...], *, every: bool) -> str:
    where = _of_which(devices, every=every)
    return f"no totals {where}: allocated is counted from the start of the recording, reserved not known"


def _memory_addresses_missing(devices: tuple[str, ...], *, every: bool) -> str:
    return f"no addresses {_of_which(devices, every=every)}: which blocks are held or never freed is not known"


def _of_which(devices: tuple[str, ...], *, every: bool) -> str:
    """``in this file``, or of which of the devices, where only some are meant."""
    return "in this file" if every else f"of {several(devices, 4)} in this file"


def _no_memory_blocks(*, windowed: bool) -> str:
    where = "in the window" if windowed else "here"
    return f"no such block {where}, or the file has no addresses (PyTorch tells them since 1.10)"


def _smaller_blocks_left_out(blocks: int) -> str:
    return f"{plural(blocks, 'smaller block')} left out"


def _blocks_above_peak(most: int, devices: int, ranks: tuple[int, ...]) -> str:
    more = f"{_up_to(most, devices)} more than the peak, whose total leaves some of them out"
    return f"the blocks held at the peak are {more} ({which_ranks(ranks)})"


def _blocks_below_peak(most: int, devices: int, ranks: tuple[int, ...]) -> str:
    less = f"{_up_to(most, devices)} less than the peak: others were given before the recording"
    return f"the blocks held at the peak are {less} ({which_ranks(ranks)})"


def _up_to(most: int, devices: int) -> str:
    return f"up to {bytes_(most)}" if devices > 1 else bytes_(most)


SENTENCES: Final[Mapping[str, Sentence]] = {
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
}
