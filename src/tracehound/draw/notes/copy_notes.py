"""Sentences of notes about copies: those without a rate, and the time that devices wait for them.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import duration, plural, rate, share, which_ranks


def _no_copies(*, hlo: bool) -> str:
    return f"no copy: none ran on a stream here{_hlo_copies(hlo=hlo)}"


def _no_copies_on_ranks(ranks: tuple[int, ...], *, hlo: bool) -> str:
    where = f"no copy on {which_ranks(ranks)}"
    return f"{where}: none is recorded on a stream or an asynchronous line there{_hlo_copies(hlo=hlo)}"


def _hlo_copies(*, hlo: bool) -> str:
    return "; HLO ops that copy are among the ops" if hlo else ""


def _copies_not_measured(copies: int, limit: int, kind: str, rank: int) -> str:
    of = f"of no length or unknown size, or above {limit // 10**9:,} GB/s"
    return f"not measured, {of}: {copies:,} (first {kind} on rank {rank})"


def _copies_measured_roughly(copies: int, longest: int) -> str:
    short = f"{plural(copies, 'copy', 'copies')} of at most {duration(longest)}"
    return f"rough: {short}; durations are whole microseconds here"


def _waits_for_host_copies(
    wait: int, of: int, sources: tuple[str, ...], targets: tuple[str, ...], rates: tuple[float, ...]
) -> str:
    waiting = f"waiting for copies from and to the host: {share(wait / of)} of device time, {duration(wait)}"
    links = ", ".join(
        f"{source} to {target} {rate(speed)} ({speed / (1 << 30):.1f} GiB/s)"
        for source, target, speed in zip(sources, targets, rates, strict=True)
    )
    return f"{waiting}; {links}" if links else waiting


def _copies_too_fast(copies: int, limit: float) -> str:
    return f"in no rate: {plural(copies, 'copy', 'copies')} above {rate(limit)}"


def _rows_above_memory_bandwidth(rows: int, limit: float) -> str:
    return f"no rate of {plural(rows, 'row')}: above {rate(limit)}, more than the device's memory gives"


SENTENCES: Final[Mapping[str, Sentence]] = {
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
