"""The columns of a segment of a Kineto file -> the raw events that are drawn, put aside, and a small account of them.

Owns which events are drawn and when they happened, as far as the segment alone can tell. What is left out is counted.
Runs where the segment is decoded; what needs the whole file is `kineto.whole`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.formats.assembly.counters import SampledAside
from tracehound.formats.assembly.finishing import RAW
from tracehound.formats.json.columns import INVALID, Answers, Numbers
from tracehound.formats.kineto.columns import Columns
from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.kinds import KnownKinds, kinds_and_steps, may_be_collective
from tracehound.formats.kineto.lanes import LaneKey, Use, lane_keys
from tracehound.formats.kineto.legacy import End, kind_of
from tracehound.formats.kineto.names import category, foreign
from tracehound.formats.kineto.piece import Piece, Signature, on_device
from tracehound.formats.kineto.tally import (
    FAR,
    FOREIGN,
    NAMELESS,
    NEGATIVE,
    NO_NUMBER,
    RANGES,
    THREADLESS,
    UNTIMED,
    Tally,
    What,
)
from tracehound.formats.spill import Column, Kept, Spill
from tracehound.formats.times import FARTHEST
from tracehound.intervals import Ints, Mask

_TOGETHER: Final = 6 * 24 * 3600 * 10**9
"""Events that start within this (ns) of each other, and last less than `FARTHEST`, fit a frame of Int64 ps."""

_SAMPLE: Final = 1_000


class Stretch(NamedTuple):
    """Events that are near each other in time: columns of `RAW`, with lanes by the segment's own numbers.

    Times in the frame are ps from `start`; `start`, `last` (the last start) and `end` are ns as in the file. `open`
    says that the rest of the file has a say in what these events are: whether they belong to a collective.
    """

    kept: Kept
    start: int
    last: int
    end: int
    open: bool


class Share(Struct, frozen=True):
    """What one segment has: its events, put aside, and what the whole file needs to know of them.

    `lanes` has the keys of the lanes in the order of their numbers, and how much there is on each; `named`, `messages`
    are those of `Columns`. `sample` has some of the starts (ns), `span` the start and length of the profiler's own span
    (`INVALID` where that is no time; None without a span). `samples` are of counters, and `facets` of the
    sorts of `FACETS`, with times in ns. `arrows` has the ends of arrows that tell who launched what.
    """

    stretches: tuple[Stretch, ...]
    lanes: dict[LaneKey, Use]
    named: dict[tuple[str, Id, Id], str]
    messages: dict[tuple[Id, int], int]
    tally: Tally
    sample: Ints
    span: tuple[int, int] | None
    family: str
    samples: SampledAside
    facets: Mapping[str, Kept]
    arrows: tuple[End, ...]


def share(columns: Columns, known: KnownKinds, spill: Spill, name: str) -> Share:
    """Put the events of a segment that are drawn aside, in files whose names start with `name`."""
    events, tally = columns.all(), Tally()
    tally.merge(columns.tally, 0)
    tally.add(NO_NUMBER, len(columns.samples.broken), min(columns.samples.broken, default=0))
    keys, lane = lane_keys(columns, events)
    own = Answers(columns.signatures, lambda signature: category(signature[0]).row == "none").of(events.signature) > 0
    drawn = ~own
    timed = (events.start != INVALID) & (events.length != INVALID)
    tally.rows(UNTIMED, drawn & ~timed, events.record)
    drawn &= timed
    starts = events.start[drawn]
    endless = drawn & (events.length >= FARTHEST)
    tally.rows(FAR, endless, events.record)
    drawn &= ~endless
    tally.rows(NEGATIVE, drawn & (events.length < 0), events.record)
    for what, question in _OF_SIGNATURES.items():
        which = Answers(columns.signatures, question).all() > 0
        if which.any():
            tally.rows(what, drawn & which[events.signature], events.record)
    if "" in columns.names:
        tally.rows(NAMELESS, drawn & (events.name == columns.names[""]), events.record)
    rows = np.flatnonzero(drawn)
    kept = events if len(rows) == len(drawn) else events.at(rows)
    kind, step = kinds_and_steps(columns, kept, known)
    names = pl.Series(list(columns.names), dtype=pl.Categorical())  # kept: polars frees categories that no series uses
    held = {
        **_columns(kept, names.to_physical().to_numpy(), kind, step),
        "lane": Column(lane[rows]),
        "record": Column(kept.record),
    }
    groups = _groups(kept.start, may_be_collective(columns, kept, kind))
    length, counts = np.maximum(kept.length, 0), np.bincount(lane[~own], minlength=len(keys))
    spent = np.bincount(lane[rows], weights=length, minlength=len(keys)).astype(np.int64)
    return Share(
        stretches=tuple(_stretches(held, kept.start, length, groups, spill, name)),
        lanes=dict(zip(keys, starmap(Use, np.column_stack([counts, spent]).tolist()), strict=True)),
        named=columns.metadata,
        messages=columns.messages,
        tally=tally,
        sample=starts[:: 1 + len(starts) // _SAMPLE].copy(),  # and not all of them, which a view keeps
        span=_span(events, own),
        family=next((found for cat, *_ in columns.signatures if (found := category(cat).family)), ""),
        samples=columns.samples.done().put(spill, f"{name}-samples"),
        facets=columns.facets.put(spill, name, tally),
        arrows=tuple(columns.arrows),
    )


def _foreign(signature: Signature) -> bool:
    """Whether it is not known what the events of a signature are."""
    return foreign(signature[0]) and kind_of(signature) is None


_OF_SIGNATURES: Final[Mapping[What, Callable[[Signature], bool]]] = {
    FOREIGN: _foreign,
    RANGES: lambda signature: kind_of(signature) == "kernel",
    THREADLESS: lambda signature: signature[2] is None and not on_device(signature),
}
"""What is said of events by their category, process and thread."""


def _columns(
    events: Piece, categories: npt.NDArray[np.uint32], kind: npt.NDArray[np.int8], step: npt.NDArray[np.int32]
) -> dict[str, Column]:
    """The events with all they have but lane, times and record; ids that none has are left out."""
    found = {"name": Column(categories[events.name]), "kind": Column(kind.view(np.uint8))}
    ids: dict[str, Ints | Numbers] = {
        "step": step,
        "correlation": events.correlation,
        "external": events.external,
        "bytes": events.bytes,
    }
    for name, values in ids.items():
        valid = values >= 0
        if valid.any():
            found[name] = Column(values, None if valid.all() else valid)
    return found


def _groups(start: Ints, collective: Mask) -> list[tuple[Ints | None, bool]]:
    """Rows (None: all) that are put aside together, and whether they are open."""
    if not len(start):
        return []
    if int(start.max()) - int(start.min()) < _TOGETHER:
        if not collective.any():
            return [(None, False)]
        parts = (np.flatnonzero(~collective), False), (np.flatnonzero(collective), True)
        return [(rows, is_open) for rows, is_open in parts if len(rows)]
    group = (start - start.min()) // _TOGETHER * 2 + collective
    return [(np.flatnonzero(group == number), bool(number % 2)) for number in np.unique(group).tolist()]


def _stretches(
    columns: Mapping[str, Column],
    start: Ints,
    length: Ints,
    groups: list[tuple[Ints | None, bool]],
    spill: Spill,
    name: str,
) -> Iterator[Stretch]:
    """The groups of events, put aside with their times."""
    end = start + length
    for number, (rows, is_open) in enumerate(groups):
        begin, until = (start, end) if rows is None else (start[rows], end[rows])
        origin = int(begin.min())
        stretch = {**columns, "start": Column((start - origin) * 1000), "end": Column((end - origin) * 1000)}
        kept = spill.put(stretch, {each: RAW[each] for each in stretch}, f"{name}-{number}", rows)
        yield Stretch(kept, origin, int(begin.max()), int(until.max()), is_open)


def _span(events: Piece, own: Mask) -> tuple[int, int] | None:
    """Start and length (ns) of the profiler's own span, without the file's base."""
    first = int(np.argmax(own)) if len(own) else 0
    return (int(events.start[first]), int(events.length[first])) if own.any() else None
