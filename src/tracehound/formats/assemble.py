"""Raw events in a file's order -> a `Part`.

Owns what every format needs after decoding: the order of events, how they nest, which host event launched which device
event, and which step an event belongs to. Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.links import launches
from tracehound.formats.spill import Kept, Spill
from tracehound.formats.steps import infer, mark
from tracehound.intervals import Ints, nesting, self_time
from tracehound.trace import EVENTS, KIND, LANES, OPS, RANKS, ROLE, Note, Part, schema

RAW = schema(
    {
        "lane": pl.Int64(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "name": pl.Categorical(),
        "kind": KIND,
        "step": pl.Int32(),  # the number that the event marks a step with; null on all others
        "correlation": pl.Int64(),
        "external": pl.Int64(),
        "run": pl.Int64(),
        "produces": pl.Int64(),  # an id that exactly one `consumes` repeats: the event enqueued that one
        "consumes": pl.Int64(),
        "op": pl.Int64(),
        "bytes": pl.Int64(),
        "device_start": pl.Int64(),
        "device_end": pl.Int64(),
        "record": pl.Int64(),
    }
)
"""What a format hands over, a row per event. Columns that a format lacks may be left out: they are null."""

RAW_LANES = schema(
    {
        "host": pl.Int32(),
        "rank": pl.Int32(),
        "role": ROLE,
        "work": pl.Boolean(),
        "name": pl.String(),
        "process": pl.String(),
        "thread": pl.String(),
        "stream": pl.Int64(),
        "order": pl.Int32(),
    }
)
"""The lanes a format hands over; `RAW.lane` is a row of them, `host` and `rank` rows of hosts and ranks."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of a file's raw events, in any order, with columns of `RAW`.

    `lanes` maps the lane numbers in the piece to rows of the file's lanes (None: they are the same); `shift` (ps) is
    added to `start` and `end`, `first` to `record`. `amend` are columns of `RAW` that replace those of the piece: what
    only the whole file tells of its events.
    """

    kept: Kept
    lanes: Ints | None = None
    shift: int = 0
    first: int = 0
    amend: tuple[pl.Expr, ...] = ()


@dataclass(frozen=True)
class Decoded:
    """One file, decoded: `pieces` in the order of the file.

    Times are ps from `wall_ns`, or from any instant when that is unknown.
    """

    path: Path
    format: str
    pieces: Sequence[Piece]
    lanes: pl.DataFrame
    ranks: pl.DataFrame
    hosts: tuple[str, ...]
    wall_ns: int | None
    ops: pl.DataFrame | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Note] = ()
    places: Any = None


def held(frame: pl.DataFrame) -> tuple[Piece, ...]:
    """All raw events of a file as one piece in memory."""
    return (Piece(Spill().keep(frame, "")),)


def part(decoded: Decoded, spill: Spill = Spill()) -> Part:  # noqa: B008, frozen
    """Sort, nest, link and step the events; lanes without events are dropped.

    The events of the part lie in the spill's folder, or in memory where it has none.
    """
    raw = pl.concat([_rows(piece) for piece in decoded.pieces] or [pl.DataFrame(schema=RAW)]).sort(
        "lane", "start", -pl.col("end"), maintain_order=True
    )
    raw, lanes = _used_lanes(raw, _complete(decoded.lanes, RAW_LANES))
    parent, depth, own = _nest(raw, lanes)
    lanes = _measure(lanes, raw, depth)
    launch = launches(raw, lanes, parent)
    marks = mark(raw, lanes)
    steps = marks if marks.height else infer(raw, lanes)
    events = raw.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("id"),
        "lane", "start", "end", "name", "kind",
        _per_lane(lanes, "rank", raw).alias("rank"),
        _step_of(raw, lanes, steps, launch).alias("step"),
        pl.Series("depth", depth.astype(np.uint16)),
        _nullable("parent", parent),
        pl.Series("self", own),
        _nullable("launch", launch),
        "correlation", "external", "run", "op", "bytes", "device_start", "device_end", "record",
    )  # fmt: skip
    notes = list(decoded.notes)
    if steps.height and steps["inferred"].all():
        count, name = steps["step"].n_unique(), steps["name"][0]
        notes.append(Note("inferred", f"no step marks; steps inferred from the repeating module {name}", count))
    return Part(
        path=decoded.path,
        format=decoded.format,
        scan=spill.keep(events.cast(EVENTS), "events").scan,
        lanes=lanes,
        ranks=_complete(decoded.ranks, RANKS),
        steps=steps,
        ops=_complete(decoded.ops, OPS) if decoded.ops is not None else pl.DataFrame(schema=OPS),
        hosts=decoded.hosts,
        wall_ns=decoded.wall_ns,
        facts=decoded.facts,
        notes=tuple(notes),
        places=decoded.places,
    )


def _rows(piece: Piece) -> pl.DataFrame:
    """The events of a piece with the numbers and times of the file."""
    raw = (
        _complete(piece.kept.rows(), RAW)
        .with_columns(pl.col("start") + piece.shift, pl.col("end") + piece.shift, pl.col("record") + piece.first)
        .with_columns(piece.amend)
    )
    if piece.lanes is None:
        return raw
    return raw.with_columns(pl.Series("lane", piece.lanes[raw["lane"].to_numpy()]))


def _complete(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The frame with exactly the columns of the schema; missing ones are null."""
    have = [
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    ]
    return frame.select(have)


def _used_lanes(raw: pl.DataFrame, lanes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Drop lanes without events and number the rest anew, in the order of the events."""
    used = raw["lane"].unique().sort()
    renumber = np.zeros(lanes.height, np.int64)
    renumber[used.to_numpy()] = np.arange(len(used))
    kept = lanes[used.to_numpy()].select(pl.int_range(pl.len(), dtype=pl.Int64).alias("lane"), pl.all())
    lane = renumber[raw["lane"].to_numpy()]
    count = np.bincount(lane, minlength=kept.height)
    return raw.with_columns(pl.Series("lane", lane)), _distinct(kept, count)


def _distinct(lanes: pl.DataFrame, count: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Lanes of one rank or host with names of their own.

    Of those that share a name the fullest keeps it and comes first; the others follow it, numbered. `count` has the
    number of events of each lane.
    """
    alike = ["host", "rank", "name"]
    return (
        lanes.with_columns(pl.Series("fewer", -count))
        .with_columns(
            pl.struct(pl.col("order").min().over(alike), "fewer").rank("ordinal").cast(pl.Int32).alias("order"),
            pl.col("fewer").rank("ordinal").over(alike).alias("again"),
        )
        .with_columns(
            pl.when(pl.col("again") > 1).then(pl.format("{} #{}", "name", "again")).otherwise("name").alias("name")
        )
        .drop("fewer", "again")
    )


def _runs(lane: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Bounds of the runs of equal lanes."""
    if len(lane) == 0:
        return []
    first = np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))
    return list(zip(first.tolist(), np.append(first[1:], len(lane)).tolist(), strict=True))


CONCURRENT = ("stream", "async")
"""Roles of lanes on which an event that lies inside another is no part of it: both run at once."""


def _nest(
    raw: pl.DataFrame, lanes: pl.DataFrame
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Parent (row or -1), depth and self time of every event.

    Where a lane has the device's own clock, that tells what contains what: the host's clock jumps inside ops.
    """
    start, end = raw["start"].to_numpy(), raw["end"].to_numpy()
    own_clock = raw["device_start"].is_not_null().to_numpy()
    own_start, own_end = (raw[name].fill_null(0).to_numpy() for name in ("device_start", "device_end"))
    parent, depth = np.full(len(start), -1, np.int64), np.zeros(len(start), np.int64)
    nests = (~lanes["role"].is_in(list(CONCURRENT))).to_list()
    lane = raw["lane"].to_numpy()
    for low, high in _runs(lane):
        nest = nesting(start[low:high], end[low:high])
        depth[low:high] = nest.depth
        if not nests[lane[low]]:
            continue
        inside = nest.parent
        if own_clock[low:high].all():
            inside = _parents(own_start[low:high], own_end[low:high])
        parent[low:high] = np.where(inside < 0, -1, inside + low)
    length = raw.select(
        pl.coalesce(pl.col("device_end") - pl.col("device_start"), pl.col("end") - pl.col("start"))
    ).to_series()
    return parent, depth, self_time(length.to_numpy(), parent)


def _parents(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The parent (-1: none) of each interval, in any order."""
    order = np.lexsort((-end, start))
    found = nesting(start[order], end[order]).parent
    parent = np.empty(len(order), np.int64)
    parent[order] = np.where(found < 0, -1, order[found])
    return parent


def _measure(lanes: pl.DataFrame, raw: pl.DataFrame, depth: npt.NDArray[np.int64]) -> pl.DataFrame:
    """The lanes with what their events say of them: rows, count, first, last."""
    seen = raw.select("lane", "start", "end", pl.Series("depth", depth)).group_by("lane").agg(
        (pl.col("depth").max() + 1).alias("rows"),
        pl.len().alias("events"),
        pl.col("start").min().alias("first"),
        pl.col("end").max().alias("last"),
    )  # fmt: skip
    return lanes.join(seen, on="lane", how="left", maintain_order="left").select(*LANES).cast(LANES)


def _per_lane(lanes: pl.DataFrame, column: str, raw: pl.DataFrame) -> pl.Series:
    return lanes[column].gather(raw["lane"])


def _nullable(name: str, rows: npt.NDArray[np.int64]) -> pl.Series:
    return pl.Series(name, rows).to_frame().select(pl.when(pl.col(name) >= 0).then(pl.col(name))).to_series()


def _step_of(raw: pl.DataFrame, lanes: pl.DataFrame, steps: pl.DataFrame, launch: npt.NDArray[np.int64]) -> pl.Series:
    """The step of every event: that of its launch, else the one in which it starts."""
    step = np.full(raw.height, -1, np.int64)
    start = raw["start"].to_numpy()
    host, rank = _per_lane(lanes, "host", raw).to_numpy(), _per_lane(lanes, "rank", raw).fill_null(-1).to_numpy()
    for (of_host, of_rank), rows in steps.partition_by("host", "rank", as_dict=True).items():
        ordered = rows.sort("start")
        mine = host == of_host if of_rank is None else rank == of_rank
        index = np.searchsorted(ordered["start"].to_numpy(), start[mine], side="right") - 1
        number, until = ordered["step"].to_numpy(), ordered["end"].to_numpy()
        inside = (index >= 0) & (start[mine] < until[np.maximum(index, 0)])
        step[np.flatnonzero(mine)[inside]] = number[index[inside]]
    launched = np.flatnonzero(launch >= 0)
    by_launch = step[launch[launched]]
    known = by_launch >= 0
    step[launched[known]] = by_launch[known]
    return pl.DataFrame({"step": step}).select(pl.when(pl.col("step") >= 0).then("step")).to_series()
