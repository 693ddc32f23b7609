"""Two steps, one of either run, with the ops that are the same in the same slots: two small traces of one clock.

Owns that clock, on which no time passes between slots and a slot lasts as long as the longer of its two ops, and what
is said of an op there. Knows no drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.share import shares
from tracehound.diff.alignment import ALONE, aligned
from tracehound.diff.identity import IDENTITY, counted, identified
from tracehound.intervals import Ints
from tracehound.trace import EVENTS, LANES, OPS, RANKS, STEPS, Host, Part, Trace, Window, collected
from tracehound.units import short_name

KINDS: Final = ("the same", "slower", "faster", "added", "removed")
"""What may be true of an op, in the words of the tables; the `ops` frame has a row for each."""
_SAME, _SLOWER, _FASTER, _ADDED, _REMOVED = range(len(KINDS))

_TOLD: Final = ((_REMOVED,), (_SLOWER, _FASTER, _ADDED))
"""On which side an op that is not the same is gone to: it is on both, or on one alone."""

NOTICED: Final = 0.1
"""An op that takes so much more or less of the shorter of both is slower or faster here: single executions vary."""

SIGNS: Final = ("- ", "+ ")
"""In front of the names of ops that one side has alone: of the base, of the other run."""


class Place(Struct, frozen=True):
    """A stretch of one rank of a trace."""

    rank: int
    start: int
    end: int


class Slotted(Struct, frozen=True, eq=False):
    """Both steps as traces of one clock, which is no wall clock; `origins` has the id of each event in its own trace.

    `counts` says how many slots are of which of `KINDS`.
    """

    traces: tuple[Trace, Trace]
    origins: tuple[Ints, Ints]
    counts: tuple[int, ...]

    def unlike(self, time: int, direction: int) -> tuple[int, int] | None:
        """The next (1) or previous (-1) op after an instant that is not the same: its side and event; None for none.

        Of an op that both sides have it is that of the other run. An instant is in the op that it is the middle of.
        """
        middle = (pl.col("start") + pl.col("end")) // 2
        sides = [
            collected(
                trace.frames[0]
                .filter(pl.col("op").is_in(wanted))
                .select("id", middle.alias("at"), pl.lit(side).alias("side"))
            )
            for side, (trace, wanted) in enumerate(zip(self.traces, _TOLD, strict=True))
        ]
        rows = pl.concat(sides).sort("at", "id")
        rows = rows.filter(pl.col("at") > time) if direction > 0 else rows.filter(pl.col("at") < time).reverse()
        found = rows.select("side", "id").head(1).rows()
        return (int(found[0][0]), int(found[0][1])) if found else None


def slotted(
    traces: tuple[Trace, Trace], places: tuple[Place, Place], keys: tuple[pl.DataFrame, pl.DataFrame]
) -> Slotted:
    """Two steps side by side, lane by lane; `keys` says which ops are the same (see `Comparison.keys`)."""
    ours, theirs = (_ops(*each) for each in zip(traces, places, keys, strict=True))
    lanes = _lane_pairs(_lanes(traces[0], ours), _lanes(traces[1], theirs))
    base, other = [_NOTHING], [_NOTHING]
    for number, (one, another) in enumerate(lanes):
        rows = _timed(ours.filter(lane=one), theirs.filter(lane=another))
        base.append(rows[0].with_columns(pl.lit(number, pl.Int64).alias("lane")))
        other.append(rows[1].with_columns(pl.lit(number, pl.Int64).alias("lane")))
    events = pl.concat(base), pl.concat(other)
    end = int(np.max([1, *(each["end"].to_numpy().max(initial=1) for each in events)]))
    names = [_names(trace, [pair[side] for pair in lanes]) for side, trace in enumerate(traces)]
    kinds = pl.concat([events[0]["op"], events[1].filter(op=_ADDED)["op"]])
    return Slotted(
        (
            _trace(traces[0], places[0], events[0], names[0], end),
            _trace(traces[1], places[1], events[1], names[1], end),
        ),
        (events[0]["origin"].to_numpy(), events[1]["origin"].to_numpy()),
        tuple(int((kinds == kind).sum()) for kind in range(len(KINDS))),
    )


_ROWS: Final = {
    "start": pl.Int64(), "end": pl.Int64(), "name": pl.String(), "kind": EVENTS["kind"], "op": pl.Int64(),
    "origin": pl.Int64(),
}  # fmt: skip
_NOTHING: Final = pl.DataFrame(schema={**_ROWS, "lane": pl.Int64()})


def _ops(trace: Trace, place: Place, keys: pl.DataFrame) -> pl.DataFrame:
    """The innermost ops that begin in a place, in order: id, lane, length, name, kind, and key: which op it is."""
    (share,) = shares(trace, Window(place.start, place.end, (place.rank,)))
    every, _ = counted(share)
    events = every.filter(pl.col("start").is_between(place.start, place.end, closed="left"))
    found = identified(events, share)
    key = found.ops.join(keys, on=IDENTITY, how="left", maintain_order="left")["match"]
    unknown = -1 - pl.Series(np.arange(len(key)))
    shown = events.with_columns(
        key.fill_null(unknown).gather(pl.Series(found.row)).alias("key"),
        pl.col("name").cast(pl.String).fill_null(""),
        (pl.col("end") - pl.col("start")).alias("length"),
    )
    outer = shown["parent"].drop_nulls().unique().to_list()
    return shown.filter(~pl.col("id").is_in(outer)).sort("lane", "start", "id")


def _lanes(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """The lanes that have any, those with most time first: lane, name."""
    time = found.group_by("lane").agg(pl.col("length").sum())
    return time.join(trace.lanes, on="lane").sort("length", "lane", descending=[True, False]).select("lane", "name")


def _lane_pairs(base: pl.DataFrame, other: pl.DataFrame) -> list[tuple[int, int]]:
    """Lanes that are held against each other: those of one name, and of the rest the busiest; `ALONE` for none."""
    ours, theirs = (dict(_told_apart(each)) for each in (base, other))
    named = [(ours.pop(name), theirs.pop(name)) for name in list(ours) if name in theirs]
    rest = [list(each.values()) for each in (ours, theirs)]
    size = max(map(len, rest))
    filled = [each + [ALONE] * (size - len(each)) for each in rest]
    return [*named, *zip(*filled, strict=True)]


def _told_apart(lanes: pl.DataFrame) -> list[tuple[tuple[str, int], int]]:
    """Lanes by their names; those of one name are numbered."""
    number = pl.int_range(pl.len()).over("name").alias("number")
    return [((name or "", at), lane) for lane, name, at in lanes.with_columns(number).iter_rows()]


def _names(trace: Trace, lanes: Sequence[int]) -> list[str]:
    """What lanes are called; nothing for one that is not there."""
    known = dict(trace.lanes.select("lane", "name").iter_rows())
    return [known.get(lane) or "" for lane in lanes]


def _timed(ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The ops of a pair of lanes, where they are on the common clock."""
    slots = aligned(ours["key"].to_numpy(), theirs["key"].to_numpy())
    sides, places = (ours, theirs), (slots.base, slots.other)
    there = [place != ALONE for place in places]
    lengths = [
        np.where(has, np.append(np.maximum(side["length"].to_numpy(), 1), 0)[place], 0)
        for side, place, has in zip(sides, places, there, strict=True)
    ]
    size = np.maximum(*lengths)
    start = np.cumsum(size) - size
    least = np.minimum(*lengths)
    change = np.where(least * (1 + NOTICED) >= size, _SAME, np.where(lengths[1] > lengths[0], _SLOWER, _FASTER))
    kind = np.where(there[0], np.where(there[1], change, _REMOVED), _ADDED)
    rows = []
    for side, place, has, length, sign in zip(sides, places, there, lengths, SIGNS, strict=True):
        picked = side[place[has]]
        alone = pl.Series(kind[has] >= _ADDED)
        signed = picked["name"].replace_strict(_signed(picked["name"].unique(), sign), return_dtype=pl.String)
        name = signed.zip_with(alone, picked["name"])
        columns = {"start": start[has], "end": start[has] + length[has], "name": name, "kind": picked["kind"]}
        rows.append(pl.DataFrame({**columns, "op": kind[has], "origin": picked["id"]}, schema=_ROWS))
    return rows[0], rows[1]


def _signed(names: pl.Series, sign: str) -> dict[str, str]:
    """Names as people say them, behind a sign: of these no part is left out where there is little room."""
    return {name: f"{sign}{short_name(name).rsplit('::', 1)[-1].rsplit(': ', 1)[-1]}" for name in names}


def _trace(trace: Trace, place: Place, rows: pl.DataFrame, names: Sequence[str], end: int) -> Trace:
    """A trace of these events on the lanes of a rank; every lane lasts to the `end`, so that both are as long."""
    rank = trace.ranks.filter(rank=place.rank).with_columns(pl.lit(0, pl.Int32).alias("host"))
    number = np.arange(len(names))
    lanes = pl.DataFrame(
        {"lane": number, "host": 0, "rank": place.rank, "role": "stream", "work": True, "name": names, "order": number,
         "rows": 1, "events": [rows.filter(lane=lane).height for lane in number.tolist()], "first": 0, "last": end,
         "unit": ""},
    )  # fmt: skip
    events = rows.with_row_index("id").with_columns(
        pl.lit(place.rank).alias("rank"),
        pl.lit(0).alias("depth"),
        pl.col("name").cast(pl.Categorical),
        (pl.col("end") - pl.col("start")).alias("self"),
    )
    ops = pl.DataFrame({"op": range(len(KINDS)), "name": KINDS, "category": KINDS})
    scan = _typed(events, EVENTS).lazy()
    part = Part(
        Path(trace.name), "slots", scan, _typed(lanes, LANES), _typed(rank, RANKS), pl.DataFrame(schema=STEPS),
        _typed(ops, OPS), (trace.name,), None,
    )  # fmt: skip
    return Trace(
        trace.name, (part,), (Host(trace.name),), (scan,), part.lanes, part.ranks, part.steps, part.ops, origin_ns=None
    )


def _typed(rows: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The rows with the columns of a frame; without a value where there is none."""
    given = [pl.col(name) if name in rows.columns else pl.lit(None).alias(name) for name in schema]
    return rows.select(given).cast(schema)
