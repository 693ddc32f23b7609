"""The shares of all segments of a Kineto file -> the file, decoded.

Owns what only the whole file tells: when its events happened, which of them are out of time, what its lanes are, and
which kernels are collectives that another segment's operators describe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.file_facts import ExportedWindow
from tracehound.formats.assembly.assemble import Piece
from tracehound.formats.assembly.counters import Counters, Sampled, joined
from tracehound.formats.assembly.facets import Piece as OfFacet
from tracehound.formats.assembly.facets import pieces as of_facets
from tracehound.formats.assembly.links import of_host
from tracehound.formats.exported import exported_window
from tracehound.formats.json.columns import INVALID, whole_number
from tracehound.formats.kineto.arrows import tied
from tracehound.formats.kineto.counters import drawn, mingled, tells_no_totals
from tracehound.formats.kineto.elements import Id
from tracehound.formats.kineto.events import Share, Stretch
from tracehound.formats.kineto.lanes import UNUSED, LaneKey, Placed, Use, place, tidy
from tracehound.formats.kineto.piece import GLOO
from tracehound.formats.kineto.tally import (
    AT_ZERO,
    FAR,
    MEMORY,
    MINGLED,
    NO_ADDRESS,
    NO_TOTALS,
    STRAYS,
    UNPLACED,
    Tally,
)
from tracehound.formats.spill import Spill
from tracehound.formats.times import FARTHEST, NO_CLOCK, wall_clock
from tracehound.intervals import Ints, Mask
from tracehound.lookup import distinct
from tracehound.notes import Note
from tracehound.trace import KIND

_BASE: Final = "baseTimeNanoseconds"
"""The key of the wall clock (ns) at time 0."""

ZERO_GAP: Final = 3600 * 10**9
"""An event at 0 whose fellows are more than this (ns) away was never given a time."""


class Whole(Struct, frozen=True):
    """All events of a file; times in ps from `wall_ns` (None: from an unknown instant).

    `span_ns` is start and length of the profiler's own span, and `exported_window` what the file is an export of.
    Pieces of `facets` are made as they are asked for.
    """

    pieces: tuple[Piece, ...]
    placed: Placed
    wall_ns: int | None
    span_ns: tuple[int, int] | None
    notes: tuple[Note, ...]
    counters: Counters
    facets: Iterator[OfFacet]
    exported_window: ExportedWindow | None


class _Times(NamedTuple):
    """The times (ns) that can be true lie between `after` and `before`; `unset` is a start (or below) that is none."""

    after: int
    before: int
    unset: int | None

    def sampled(self, time: Ints) -> Mask:
        """Which samples are in time."""
        unset = np.zeros(len(time), np.bool_) if self.unset is None else time <= self.unset
        return (time > self.after) & (time < self.before) & ~unset

    def hold(self, stretch: Stretch) -> bool:
        """Whether all events of a stretch are in time."""
        early = stretch.start <= self.after or (self.unset is not None and stretch.start <= self.unset)
        return not early and max(stretch.last, stretch.end) < self.before


def whole(shares: Sequence[Share], firsts: Sequence[int], metadata: Mapping[str, Any], spill: Spill) -> Whole:
    """Put the segments of a file together; `firsts` is the ordinal of the first element of each."""
    base = max(whole_number(metadata.get(_BASE)), 0)
    lanes, named, tally = dict[LaneKey, Use](), dict[tuple[str, Id, Id], str](), Tally()
    messages = dict[tuple[Id, int], int]()
    for share, first in zip(shares, firsts, strict=True):
        named.update(share.named)
        messages.update(share.messages)
        for key, use in share.lanes.items():
            lanes[key] = lanes.get(key, UNUSED).with_(use)
        tally.merge(share.tally, first)
    placed = place(lanes, named, next((share.family for share in shares if share.family), ""), metadata)
    times, found = _times(shares, base), list[tuple[Stretch, Ints, int]]()
    amendments, of_lane = _amendments(messages, placed), placed.lanes["host"].cast(pl.Int64).to_numpy()
    for share, first in zip(shares, firsts, strict=True):
        rows = np.array([placed.row[key] for key in share.lanes], np.int64)
        for stretch in share.stretches:
            held = stretch if times.hold(stretch) else _sifted(stretch, times, first, tally, spill)
            if held is not None:
                found.append((_amended(held, amendments, of_lane[rows], first, spill), rows, first))
    found = tied(found, shares, firsts, placed, spill)
    samples = _samples(shares, times, firsts, tally)
    tally.add(STRAYS, placed.strays, 0)
    tally.unless_all(NO_ADDRESS, MEMORY)  # PyTorch did not write them until 2021
    if placed.members.several:
        tally.add(MINGLED, mingled(samples, placed.ranks), 0)
    origin = min((stretch.start for stretch, *_ in found), default=int(samples.time.min(initial=2**62)))
    origin = 0 if origin == 2**62 else origin
    pieces = tuple(Piece(stretch.kept, rows, (stretch.start - origin) * 1000, first) for stretch, rows, first in found)
    wall_ns = wall_clock(base + origin) if pieces else None
    unusable = bool(pieces) and wall_ns is None and metadata.get(_BASE) not in (None, 0)
    return Whole(
        pieces=pieces,
        placed=placed,
        wall_ns=wall_ns,
        span_ns=_span(shares, 0 if unusable else base),
        notes=(*([Note("dropped", NO_CLOCK, where=_BASE)] if unusable else []), *tally.notes()),
        facets=of_facets([share.facets for share in shares], firsts, lambda ns: _placed(ns, times, origin), spill),
        counters=drawn(samples, origin, placed.ranks, placed.members),
        exported_window=exported_window(metadata, origin * 1000),
    )


def _times(shares: Sequence[Share], base: int) -> _Times:
    starts = np.concatenate([np.empty(0, np.int64), *(share.sample for share in shares)])
    if not len(starts):
        starts = joined([share.samples for share in shares], [0] * len(shares)).time
    middle = int(np.median(starts)) if len(starts) else 0
    return _Times(middle - FARTHEST, middle + FARTHEST, 0 if base and middle > ZERO_GAP else None)


def _samples(shares: Sequence[Share], times: _Times, firsts: Sequence[int], tally: Tally) -> Sampled:
    """The samples of counters that are in time; the rest is counted."""
    samples = joined([share.samples for share in shares], firsts)
    good = times.sampled(samples.time)
    lost = distinct(samples.ordinal[~good])
    tally.add(UNPLACED, len(lost), int(lost[0]) if len(lost) else 0)
    tally.add(NO_TOTALS, tells_no_totals(samples), 0)
    return samples if good.all() else samples.at(np.flatnonzero(good))


def _placed(ns: Ints, times: _Times, origin: int) -> tuple[Mask, Ints]:
    """Which of these times are in time, and all of them in ps from the origin."""
    good = times.sampled(ns)
    return good, np.where(good, ns - origin, 0) * 1000


def _sifted(stretch: Stretch, times: _Times, first: int, tally: Tally, spill: Spill) -> Stretch | None:
    """What of a stretch is in time; the rest is counted."""
    rows = stretch.kept.rows()
    start, end, record = (rows[name].to_numpy() for name in ("start", "end", "record"))
    start, end = start // 1000 + stretch.start, end // 1000 + stretch.start
    unset = np.zeros(len(start), np.bool_) if times.unset is None else start <= times.unset
    far = ~unset & ~((start > times.after) & (start < times.before) & (end < times.before))
    for what, left_out in ((AT_ZERO, unset), (FAR, far)):
        tally.add(what, int(np.count_nonzero(left_out)), first + int(record[left_out].min(initial=2**31 - 1)))
    kept = np.flatnonzero(~unset & ~far)
    if not len(kept):
        return None
    begin = int(start[kept].min())
    moved = (pl.col(name) - (begin - stretch.start) * 1000 for name in ("start", "end"))
    frame = rows[kept].with_columns(moved)
    name = f"sifted-{first}-{stretch.start}-{int(stretch.open)}"
    return Stretch(spill.keep(frame, name), begin, int(start[kept].max()), int(end[kept].max()), stretch.open)


def _amendments(messages: Mapping[tuple[Id, int], int], placed: Placed) -> tuple[pl.Expr, ...]:
    """Kernels that run for an operator that started a collective are that collective and have its bytes.

    So are Gloo's annotations on the host, where no device works. External ids are those of `of_host`.
    """
    known = [(placed.members.member(tidy(pid)), external, size) for (pid, external), size in messages.items()]
    known = [(host, external, size) for host, external, size in known if external >= 0]
    host, external = (np.array([each[part] for each in known], np.int64) for part in (0, 1))
    operators = of_host(external, host).tolist()
    collective = pl.col("kind") == "collective"
    collective |= (pl.col("kind") == "kernel") & pl.col("external").is_in(operators)
    if placed.ranks["device"].is_null().all():
        collective |= (pl.col("kind") == "annotation") & pl.col("name").cast(pl.String).str.starts_with(GLOO)
    elif not operators:
        return ()
    sizes = {operator: size for operator, (_, _, size) in zip(operators, known, strict=True) if size >= 0}
    size = pl.col("external").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    return (
        pl.when(collective).then(pl.lit("collective", KIND)).otherwise("kind").alias("kind"),
        pl.when(collective & pl.col("bytes").is_null()).then(size).otherwise("bytes").alias("bytes"),
    )


def _amended(stretch: Stretch, amendments: tuple[pl.Expr, ...], host: Ints, first: int, spill: Spill) -> Stretch:
    """A stretch whose events the rest of the file had a say in; `host` is that of each of its lanes."""
    if not (stretch.open and amendments):
        return stretch
    rows = stretch.kept.rows(columns=[name for name in _SAID if name in stretch.kept.dtypes])
    absent = [pl.lit(None, pl.Int64).alias(name) for name in ("external", "bytes") if name not in rows.columns]
    said = rows.with_columns(absent)
    amended = _on_hosts(said, stretch, host).with_columns(amendments).with_columns(said["external"])
    if amended.equals(said):  # the kernels of collectives said it all themselves
        return stretch
    kept = spill.keep(stretch.kept.rows().with_columns(amended.get_columns()), f"amended-{first}-{stretch.start}")
    return stretch._replace(kept=kept)


def _on_hosts(rows: pl.DataFrame, stretch: Stretch, host: Ints) -> pl.DataFrame:
    """The rows of a stretch with External ids that tell hosts apart."""
    runs = stretch.kept.runs
    if runs is None or not host.any():
        return rows
    of_row = np.repeat(host[runs.lane], np.diff(runs.bounds))
    external = of_host(rows["external"].fill_null(-1).to_numpy(), of_row)
    return rows.with_columns(pl.Series("external", external).set(rows["external"].is_null(), None))


_SAID: Final = ("kind", "name", "external", "bytes")
"""The columns that the rest of the file has a say in, or by which it has one."""


def _span(shares: Sequence[Share], base: int) -> tuple[int, int] | None:
    start, length = next((share.span for share in shares if share.span), (INVALID, INVALID))
    return None if INVALID in (start, length) else (base + start, length)
