"""The columns of a Kineto file -> the frame of its events.

Owns which events are drawn, when they happened, and what kind they are. What is left out is counted in a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.json_columns import INVALID, MISSING, Codes, whole_number
from tracehound.formats.kineto_columns import Columns, Piece
from tracehound.formats.kineto_lanes import LEGACY_DEVICE, Placed
from tracehound.formats.kineto_names import call_kind, category, copy_kind, kernel_kind, step_number
from tracehound.intervals import Ints
from tracehound.trace import KIND, KINDS, Level, Note

Mask = npt.NDArray[np.bool_]

FARTHEST: Final = 50 * 24 * 3600 * 10**9
"""Events farther than this (ns) from the middle one are strays: Int64 picoseconds hold 106 days."""

ZERO_GAP: Final = 3600 * 10**9
"""An event at 0 whose fellows are more than this (ns) away was never given a time."""

UNIX: Final = 10**17
"""Times above this (ns) are a wall clock, of 1973 and later; below, a clock of unknown origin."""

_SAMPLE: Final = 10_000
_OWN_INSTANTS: Final = ("Record Window End", "Iteration Start")


@dataclass(frozen=True)
class RawEvents:
    """`events` has columns of `assemble.RAW`, times in ps from `wall_ns` (None: from an unknown instant).

    `span_ns` is start and length of the profiler's own span.
    """

    events: pl.DataFrame
    wall_ns: int | None
    span_ns: tuple[int, int] | None
    notes: tuple[Note, ...]


@dataclass
class _Notes:
    found: list[Note] = field(default_factory=list)

    def of(self, level: Level, text: str, rows: Mask) -> None:
        """Note the rows, if there are any, with the first."""
        if rows.any():
            first = f"event {int(np.argmax(rows)):,}"
            self.found.append(Note(level, text, int(np.count_nonzero(rows)), first if level != "info" else ""))


def raw_events(columns: Columns, events: Piece, placed: Placed, metadata: Mapping[str, Any]) -> RawEvents:
    """All events that are drawn, in the order of the file."""
    notes = _Notes()
    base = max(whole_number(metadata.get("baseTimeNanoseconds")), 0)
    drawn = _drawn(columns, events, notes)
    rows = np.flatnonzero(drawn & _in_time(events, drawn, base, notes))
    kept = events.at(rows)
    length = np.maximum(kept.length, 0)
    notes.of("repaired", "negative duration read as 0", _scattered(rows[kept.length < 0], len(drawn)))
    origin = int(kept.start.min()) if len(rows) else 0
    kind = _kinds(columns, kept, placed, placed.lane[rows])
    step = _step_numbers(columns, kept, kind)
    kind[step >= 0] = KINDS.index("step")
    frame = pl.DataFrame(
        {
            "lane": placed.lane[rows],
            "start": (kept.start - origin) * 1000,
            "end": (kept.start - origin + length) * 1000,
            "name": _words(columns.names).gather(kept.name),
            "kind": pl.Series(KINDS, dtype=KIND).gather(kind),
            "step": step,
            "correlation": kept.correlation,
            "external": kept.external,
            "bytes": _sizes(columns, kept, kind),
            "record": rows,
        }
    )
    ids = ("step", "correlation", "external", "bytes")
    return RawEvents(
        events=frame.with_columns(pl.when(pl.col(name) >= 0).then(pl.col(name)) for name in ids),
        wall_ns=base + origin if len(rows) and base + origin > UNIX else None,
        span_ns=_span(columns, events, base),
        notes=tuple(notes.found),
    )


def _words(codes: Codes) -> pl.Series:
    return pl.Series(list(codes), dtype=pl.String).cast(pl.Categorical)


def _which(codes: Codes, column: npt.NDArray[np.int32], test: Callable[[Any], bool]) -> Mask:
    """Where the value in a column passes the test."""
    passes: Mask = np.fromiter(map(test, codes), np.bool_, len(codes))
    return passes[column]


def _scattered(rows: Ints, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _drawn(columns: Columns, events: Piece, notes: _Notes) -> Mask:
    """The events that lie on a lane: complete ones and instants, without the profiler's own rows."""

    def phase(*which: str) -> Mask:
        return _which(columns.signatures, events.signature, lambda signature: signature[0] in which)

    complete, instant = phase("X"), phase("i", "I")
    memory = instant & _which(columns.names, events.name, lambda name: name == "[memory]")
    own = instant & _which(columns.names, events.name, lambda name: name.startswith(_OWN_INSTANTS))
    own |= _which(columns.signatures, events.signature, lambda signature: category(signature[1]).row == "none")
    notes.of("info", "counter samples, not drawn", phase("C"))
    notes.of("info", "memory allocations and frees, not drawn", memory)
    notes.of("info", "flow arrows, not drawn: launches are joined by correlation id", phase("s", "t", "f"))
    notes.of("dropped", "array element without a phase", phase(""))
    other = ~(complete | instant | phase("C", "s", "t", "f", "M", ""))
    notes.of("dropped", "event of a phase that PyTorch does not write", other)
    drawn: Mask = (complete | instant) & ~memory & ~own
    return drawn


def _in_time(events: Piece, drawn: Mask, base: int, notes: _Notes) -> Mask:
    """The events with a time that can be true."""
    timed: Mask = (events.start != INVALID) & (events.length != INVALID)
    notes.of("dropped", "event without a time, or with one that is no number", drawn & ~timed)
    if not (drawn & timed).any():
        return timed
    starts = events.start[drawn & timed]
    middle = int(np.median(starts[:: 1 + len(starts) // _SAMPLE]))
    zero = timed & (events.start <= 0) & (middle > ZERO_GAP) & (base > 0)
    notes.of("dropped", "event at time 0, far from all others", drawn & zero)
    low, high = middle - FARTHEST, middle + FARTHEST
    near = timed & (events.start > low) & (events.start < high)
    near[near] = events.length[near] < high - events.start[near]
    notes.of("dropped", "event more than 50 days from the others", drawn & timed & ~zero & ~near)
    inside: Mask = near & ~zero
    return inside


def _kinds(columns: Columns, events: Piece, placed: Placed, lane: Ints) -> npt.NDArray[np.uint8]:
    """What each event is, as a position in `KINDS`: by its category, then by its args, then by its name."""
    number = {name: position for position, name in enumerate(KINDS)}
    by_category = [number[category(cat).kind] for _, cat, *_ in columns.signatures]
    kind = np.array(by_category, np.uint8)[events.signature]
    if any(pid == LEGACY_DEVICE for *_, pid, _ in columns.signatures):
        on_stream = (placed.lanes["role"] == "stream").to_numpy()[lane]
        bare = _which(columns.signatures, events.signature, lambda signature: not signature[1])
        kind[bare] = np.where(on_stream[bare], number["kernel"], number["op"])
    names = list(columns.names)
    for which, by_name in (("kernel", kernel_kind), ("copy", copy_kind), ("runtime", call_kind)):
        rows = np.flatnonzero(kind == number[which])
        used, position = np.unique(events.name[rows], return_inverse=True)
        found = np.array([number[by_name(names[code])] for code in used], np.uint8)
        kind[rows] = found[position] if len(rows) else found
    told = events.collective | np.isin(events.external, [e for e in columns.messages if e >= 0])
    kind[told & (kind == number["kernel"])] = number["collective"]
    if placed.ranks["device"].is_null().all():
        gloo = _which(columns.names, events.name, lambda name: name.startswith("gloo:"))
        kind[gloo & (kind == number["annotation"])] = number["collective"]
    return kind


def _step_numbers(columns: Columns, events: Piece, kind: npt.NDArray[np.uint8]) -> Ints:
    """The step that each event marks, -1 for most: marks lie on threads; those on devices are their shadows."""
    of_name = np.array([step_number(name) for name in columns.names], np.int64)
    marking = np.isin(kind, [KINDS.index("annotation"), KINDS.index("op")])
    return np.where(marking & (events.device < 0), of_name[events.name], MISSING)


def _sizes(columns: Columns, events: Piece, kind: npt.NDArray[np.uint8]) -> Ints:
    """Bytes moved or sent, -1 where unknown; a collective kernel without any has those of its operator."""
    size = events.bytes.copy()
    silent = np.flatnonzero((kind == KINDS.index("collective")) & (size < 0) & (events.external >= 0))
    size[silent] = [columns.messages.get(external, MISSING) for external in events.external[silent].tolist()]
    return size


def _span(columns: Columns, events: Piece, base: int) -> tuple[int, int] | None:
    """Start and length (ns) of the profiler's own span."""
    rows = np.flatnonzero(
        _which(columns.signatures, events.signature, lambda signature: category(signature[1]).row == "none")
    )
    if not len(rows) or INVALID in (events.start[rows[0]], events.length[rows[0]]):
        return None
    return base + int(events.start[rows[0]]), int(events.length[rows[0]])
