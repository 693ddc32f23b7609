"""The columns of a segment of a Kineto file -> the raw events that are drawn, put aside, and a small account of them.

Owns which events are drawn, when they happened, and what kind they are, as far as the segment alone can tell. What is
left out is counted. Runs where the segment is decoded; what needs the whole file is `kineto_whole`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.json_columns import INVALID, MISSING, Answers, Numbers
from tracehound.formats.kineto_columns import GLOO, Columns, Id, Piece, Signature
from tracehound.formats.kineto_lanes import LEGACY_DEVICE, LaneKey, lane_keys
from tracehound.formats.kineto_names import call_kind, category, copy_kind, kernel_kind, step_number
from tracehound.formats.kineto_tally import (
    COUNTERS,
    FAR,
    FLOWS,
    MEMORY,
    NEGATIVE,
    NO_PHASE,
    STRANGE,
    UNTIMED,
    Tally,
)  # fmt: skip
from tracehound.formats.spill import Kept, Spill
from tracehound.intervals import Ints
from tracehound.trace import KIND, KINDS

Mask = npt.NDArray[np.bool_]
FARTHEST: Final = 50 * 24 * 3600 * 10**9
"""Events farther than this (ns) from the middle one are strays: Int64 picoseconds hold 106 days."""

_TOGETHER: Final = 6 * 24 * 3600 * 10**9
"""Events that start within this (ns) of each other, and last less than twice `FARTHEST`, fit a frame of Int64 ps."""

_SAMPLE: Final = 1_000
_OWN_INSTANTS: Final = ("Record Window End", "Iteration Start")
_LEGACY: Final[dict[Id, str]] = {LEGACY_DEVICE: "kernel", "CPU functions": "op"}
"""The processes of the autograd profiler before Kineto, which writes no categories: what runs on each."""

_COMPLETE, _INSTANT, _SILENT, _COUNTER, _FLOW, _NO_PHASE, _STRANGE = range(7)
_PHASES: Final = {
    "X": _COMPLETE, "i": _INSTANT, "I": _INSTANT, "M": _SILENT, "C": _COUNTER, "s": _FLOW, "t": _FLOW, "f": _FLOW,
    "": _NO_PHASE,
}  # fmt: skip
_NOT_DRAWN: Final = {_COUNTER: COUNTERS, _FLOW: FLOWS, _NO_PHASE: NO_PHASE, _STRANGE: STRANGE}
_NUMBER: Final = {name: position for position, name in enumerate(KINDS)}
_NAMED: Final = (("kernel", kernel_kind), ("copy", copy_kind), ("runtime", call_kind))


class Stretch(NamedTuple):
    """Events that are near each other in time: columns of `assemble.RAW`, with lanes by the segment's own numbers.

    Times in the frame are ps from `start`; `start`, `last` (the last start) and `end` are ns as in the file.
    """

    kept: Kept
    start: int
    last: int
    end: int


@dataclass(frozen=True)
class Share:
    """What one segment has: its events, put aside, and what the whole file needs to know of them.

    `lanes` has the keys of the lanes in the order of their numbers, and how many elements each has; `named`, `messages`
    are those of `Columns`. `sample` has some of the starts (ns), `span` the start and length of the profiler's own span
    (`INVALID` where that is no time; None without a span), `gloo` whether Gloo's collectives are among the annotations.
    """

    stretches: tuple[Stretch, ...]
    lanes: dict[LaneKey, int]
    named: dict[tuple[str, Id, Id], str]
    messages: dict[int, int]
    tally: Tally
    sample: Ints
    span: tuple[int, int] | None
    family: str
    gloo: bool


def share(columns: Columns, spill: Spill, name: str) -> Share:
    """Put the events of a segment that are drawn aside, in files whose names start with `name`."""
    events, tally = columns.all(), Tally()
    keys, lane = lane_keys(columns, events)
    drawn = _drawn(columns, events, tally)
    timed = (events.start != INVALID) & (events.length != INVALID)
    tally.rows(UNTIMED, drawn & ~timed)
    drawn &= timed
    starts = events.start[drawn]
    endless = drawn & (events.length >= 2 * FARTHEST)
    tally.rows(FAR, endless)
    drawn &= ~endless
    tally.rows(NEGATIVE, drawn & (events.length < 0))
    rows = np.flatnonzero(drawn)
    kept = events.at(rows)
    frame = _frame(columns, kept, lane[rows], rows)
    return Share(
        stretches=tuple(_stretches(frame, kept.start, np.maximum(kept.length, 0), spill, name)),
        lanes=dict(zip(keys, np.bincount(lane, minlength=len(keys)).tolist(), strict=True)),
        named=columns.metadata,
        messages=columns.messages,
        tally=tally,
        sample=starts[:: 1 + len(starts) // _SAMPLE],
        span=_span(columns, events),
        family=next((found for _, cat, *_ in columns.signatures if (found := category(cat).family)), ""),
        gloo=any(name.startswith(GLOO) for name in columns.names),
    )


def _drawn(columns: Columns, events: Piece, tally: Tally) -> Mask:
    """The events that lie on a lane: complete ones and instants, without the profiler's own rows."""
    phase = Answers(columns.signatures, _phase).of(events.signature)
    instant = phase == _INSTANT
    drawn: Mask = (phase == _COMPLETE) | instant
    for number, what in _NOT_DRAWN.items():
        tally.rows(what, phase == number)
    if instant.any():
        memory = instant & (Answers(columns.names, lambda name: name == "[memory]").of(events.name) > 0)
        own = instant & (Answers(columns.names, lambda name: name.startswith(_OWN_INSTANTS)).of(events.name) > 0)
        tally.rows(MEMORY, memory)
        drawn &= ~memory & ~own
    return drawn


def _phase(signature: Signature) -> int:
    phase = _PHASES.get(signature[0], _STRANGE)
    return _SILENT if phase <= _INSTANT and category(signature[1]).row == "none" else phase


def _frame(columns: Columns, events: Piece, lane: Numbers, rows: Ints) -> pl.DataFrame:
    """The events with all they have but times; ids that none has are left out."""
    kind = _kinds(columns, events)
    step = _step_numbers(columns, events, kind)
    kind[step >= 0] = _NUMBER["step"]
    frame = pl.DataFrame(
        {
            "lane": lane,
            "name": pl.Series(list(columns.names), dtype=pl.String).cast(pl.Categorical).gather(events.name),
            "kind": pl.Series(KINDS, dtype=KIND).gather(kind),
            "record": rows.astype(np.int32),
        }
    )
    ids = {"correlation": events.correlation, "external": events.external, "bytes": events.bytes}
    known = [pl.Series(name, _narrow(values)) for name, values in ids.items() if (values >= 0).any()]
    known += [pl.Series("step", step)] * bool((step >= 0).any())
    return frame.with_columns(known).with_columns(
        pl.when(pl.col(values.name) >= 0).then(pl.col(values.name)) for values in known
    )


def _narrow(values: Ints) -> Ints | Numbers:
    """The same in half the bytes, where they fit."""
    return values.astype(np.int32) if values.max() < 2**31 else values


def _kinds(columns: Columns, events: Piece) -> npt.NDArray[np.int8]:
    """What each event is, as a position in `KINDS`: by its category, then by its args, then by its name."""
    kind = Answers(columns.signatures, _kind).of(events.signature)
    names = list(columns.names)
    for which, by_name in _NAMED:
        rows = np.flatnonzero(kind == _NUMBER[which])
        found = np.full(len(names), _NUMBER[which], np.int8)
        for code in _used(events.name[rows], len(names)):
            found[code] = _NUMBER[by_name(names[code])]
        kind[rows] = found[events.name[rows]]
    kind[events.collective & (kind == _NUMBER["kernel"])] = _NUMBER["collective"]
    return kind


def _kind(signature: Signature) -> int:
    _, cat, pid, _ = signature
    legacy = None if cat else _LEGACY.get(pid)
    return _NUMBER[legacy or category(cat).kind]


def _used(column: Numbers, size: int) -> list[int]:
    """Which of the numbers below `size` are in the column."""
    seen = np.zeros(size, np.bool_)
    seen[column] = True
    return np.flatnonzero(seen).tolist()


def _step_numbers(columns: Columns, events: Piece, kind: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """The step that each event marks, -1 for most: marks lie on threads; those on devices are their shadows."""
    of_name = np.fromiter(map(step_number, columns.names), np.int32, len(columns.names))
    marking = ((kind == _NUMBER["annotation"]) | (kind == _NUMBER["op"])) & (events.device < 0)
    return np.where(marking, of_name[events.name], np.int32(MISSING))


def _stretches(frame: pl.DataFrame, start: Ints, length: Ints, spill: Spill, name: str) -> Iterator[Stretch]:
    """The events, put aside with their times; those that are far from the others by themselves."""
    since = (start - start.min()) // _TOGETHER if len(start) else start
    groups = np.unique(since).tolist() if since.any() else [0] * bool(len(start))
    for number, group in enumerate(groups):
        rows = np.flatnonzero(since == group)
        begin, end = start[rows], start[rows] + length[rows]
        origin = int(begin.min())
        part = frame if len(groups) == 1 else frame[rows]
        timed = part.with_columns(pl.Series("start", (begin - origin) * 1000), pl.Series("end", (end - origin) * 1000))
        yield Stretch(spill.keep(timed, f"{name}-{number}"), origin, int(begin.max()), int(end.max()))


def _span(columns: Columns, events: Piece) -> tuple[int, int] | None:
    """Start and length (ns) of the profiler's own span, without the file's base."""
    own = Answers(columns.signatures, lambda signature: category(signature[1]).row == "none").of(events.signature)
    first = int(np.argmax(own)) if len(own) else 0
    return (int(events.start[first]), int(events.length[first])) if own.any() else None
