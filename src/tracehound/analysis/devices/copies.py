"""The copies of a rank: from which memory to which each goes, and what of its time the device only waits for it.

Owns where copies are found: the ops that start and await them on a TPU's cores, and the streams of a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.devices.async_ops import exposed, flights_of
from tracehound.analysis.devices.directions import ends_of, kinds_of
from tracehound.analysis.events.busy import COPY, busy_of, work
from tracehound.analysis.result import Share
from tracehound.analysis.share import overlapping
from tracehound.formats.xla.copies import copied
from tracehound.intervals import EMPTY, Intervals, merge, subtract, union
from tracehound.trace import collected
from tracehound.units import PS_PER_S


class Copies(NamedTuple):
    """The copies of a rank, and the time in which its device only waits for them.

    `rows` has a row for each copy, `waits` for each stretch of a core that is spent on one (`own` of it by itself);
    both with the columns `KEY`. Where streams copy there are no such stretches, but `work` that hides copies. `start`
    and `end` bound the device's time, on the clock that all times are on: the device's own, if it has one; ps.
    """

    rows: pl.DataFrame
    waits: pl.DataFrame
    work: Intervals | None
    start: int
    end: int

    @property
    def flight(self) -> Intervals:
        """When a copy is under way."""
        return union(self.rows["start"].to_numpy(), self.rows["end"].to_numpy())

    @property
    def sized(self) -> Intervals:
        """When a copy that tells of a speed is under way."""
        rows = self.rows.drop_nulls("moved")
        return union(rows["start"].to_numpy(), rows["end"].to_numpy())

    def only(self, mine: pl.Expr) -> Copies:
        """Those of which the expression on columns of `KEY` is true."""
        return self._replace(rows=self.rows.filter(mine), waits=self.waits.filter(mine))

    def exposed(self) -> tuple[int, int]:
        """The time in which the device only waits for them, and what of their time in flight is not hidden; ps."""
        if self.work is not None:
            alone = subtract(self.flight, self.work).length
            return alone, alone
        return exposed(self.waits, self.start, self.end)


KEY: Final = ("source", "target", "name", "module")
_ROWS: Final = ("id", "start", "end", "bytes", "moved", *KEY)


def copies_of(share: Share) -> Copies:
    """The copies of a rank, as far as they lie in the window."""
    found = _on_cores(share)
    return found if found.rows.height else _on_streams(share)


def _on_cores(share: Share) -> Copies:
    """The copies that the cores' own ops start and wait for (TPU)."""
    cores = flights_of(share)
    if cores is None:
        return NONE
    said = said_of(cores.ops)
    return Copies(
        _served(cores.anytime.join(said, on="op"), cores.start, cores.end).select(_ROWS),
        cores.spent.join(said, on="op").select("id", "start", "end", "own", *KEY),
        None,
        cores.start,
        cores.end,
    )


def said_of(ops: pl.DataFrame) -> pl.DataFrame:
    """What the HLO lines of ops say of copies: `op`, `source`, `target`, `bytes` of one, `name`, `module`.

    Ops that wait for a copy have no row.
    """
    told = pl.concat_str("category", "text", separator=" ", ignore_nulls=True).str.contains(_COPYING)
    found = [
        (op, *copy, name, module or "")
        for op, name, category, module, text in ops.filter(told)
        .select("op", "name", "category", "module", "text")
        .iter_rows()
        if (copy := copied(name, category or "", text or "")) is not None
    ]
    names = ("op", "source", "target", "bytes", "name", "module")
    return pl.DataFrame(found, schema={name: _TYPES.get(name, pl.String()) for name in names}, orient="row")


_COPYING: Final = r"\b(copy|copy-start|async-start)\(|\b(infeed|outfeed|send|recv)\b"
"""What the category and line of an op that copies contain: most ops need no closer look."""

_TYPES: Final[Mapping[str, pl.DataType]] = {"op": pl.Int64(), "bytes": pl.Int64()}


def _on_streams(share: Share) -> Copies:
    """The copies on the device's streams (GPU)."""
    streams = share.lanes.filter(pl.col("rank").is_not_null() & pl.col("work") & (pl.col("role") == "stream"))
    events = work(share, "lane", "name", "bytes", "launch")
    mine = pl.col("lane").is_in(streams["lane"].to_list()) & pl.col("kind").is_in(COPY) & (pl.col("kind") != "memset")
    rows = events.filter(mine)
    if rows.is_empty():
        return NONE
    kinds = kinds_of(share, rows)
    told = [(kind, *ends_of(kind)) for kind in kinds.unique()]
    said = pl.DataFrame(told, schema=["told", "source", "target"], orient="row")
    state = busy_of(events, share)
    named = rows.with_columns(pl.col("name").cast(pl.String), kinds.alias("told"), pl.lit("").alias("module"))
    copies = named.join(said, on="told", maintain_order="left")
    inside = _evenly(copies, share.start, share.end).select(_ROWS)
    return Copies(inside, NONE.waits, merge(state.compute, state.communication), state.start, state.end)


FASTEST: Final = 8e12
"""No memory is faster, in bytes per second."""

_INSIDE: Final = (pl.col("high") - pl.col("low")) / (pl.col("end") - pl.col("start"))
"""Which part of a copy's time lies in the window, and so of its bytes, where nothing tells when it moves them."""


def _evenly(copies: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The parts of copies that lie in the window, with the bytes that they moved there."""
    return _inside(copies, start, end, _INSIDE)


def _served(copies: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The same of copies in two halves, most of which only queue in the time from the one to the other.

    Of those that are in flight from one memory to another at the same time the link moves that which ends first.
    """
    inside = collected(overlapping(copies.lazy(), start, end))
    if not ((inside["start"] < start) | (inside["end"] > end)).any():
        return _inside(inside, start, end, _INSIDE)
    beside = (pl.col("start") < inside["end"].max()) & (pl.col("end") > inside["start"].min())
    links = copies.filter(beside).partition_by("source", "target", maintain_order=True)
    parts = [link.with_columns(pl.Series("part", _parts(link, start, end), pl.Float64)) for link in links]
    return _inside(pl.concat(parts).sort("start", "id"), start, end, pl.coalesce("part", _INSIDE))


def _inside(copies: pl.DataFrame, start: int, end: int, part: pl.Expr) -> pl.DataFrame:
    """What of copies lies in the window, from `low` to `high`; `part` is which part of its bytes each moves there.

    `moved` are these bytes to the fraction, null of a copy that tells of no speed: of no length, or beyond `FASTEST`.
    """
    bounds = pl.col("start").clip(lower_bound=start).alias("low"), pl.col("end").clip(upper_bound=end).alias("high")
    length = pl.col("end") - pl.col("start")
    true = (length > 0) & (pl.col("bytes") * PS_PER_S <= FASTEST * length)
    moved = pl.when(true).then(pl.col("bytes") * part.clip(upper_bound=1)).alias("moved")
    whole = pl.when(part < 1).then((pl.col("bytes") * part).round().cast(pl.Int64)).otherwise("bytes").alias("bytes")
    return (
        collected(overlapping(copies.lazy(), start, end))
        .with_columns(bounds)
        .with_columns(pl.col("low").alias("start"), pl.col("high").alias("end"), moved, whole)
    )


def _parts(link: pl.DataFrame, low: int, high: int) -> list[float | None]:
    """Which part of the time for which a link moves each of its copies lies in `[low, high)`; None where it has none.

    `link` has start and end.
    """
    begins, ends = link["start"].to_list(), link["end"].to_list()
    time, inside = [0] * len(begins), [0] * len(begins)
    order = sorted(range(len(begins)), key=begins.__getitem__)
    waiting: list[tuple[int, int]] = []
    for row, until in zip(order, [*(begins[other] for other in order[1:]), max(ends)], strict=True):
        heappush(waiting, (ends[row], row))
        now = begins[row]
        while waiting and now < until:
            last, first = waiting[0]
            then = min(last, until)
            if now < then:
                time[first] += then - now
                inside[first] += max(min(then, high) - max(now, low), 0)
                now = then
            if last <= now:
                heappop(waiting)
    return [part / whole if whole else None for part, whole in zip(inside, time, strict=True)]


NONE: Final = Copies(
    pl.DataFrame(schema={**dict.fromkeys(_ROWS, pl.Int64()), "moved": pl.Float64(), **dict.fromkeys(KEY, pl.String())}),
    pl.DataFrame(
        schema={**dict.fromkeys(("id", "start", "end", "own"), pl.Int64()), **dict.fromkeys(KEY, pl.String())}
    ),
    EMPTY,
    0,
    0,
)
