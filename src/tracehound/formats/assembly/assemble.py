"""Raw events in a file's order -> a `Part`.

Owns what every format needs after decoding: the order of events, how they nest, which host event launched which device
event, and which step an event belongs to. Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.file_facts import FileFacts
from tracehound.formats.assembly.batches import SIZE, Runs, Source, all_runs
from tracehound.formats.assembly.counters import Counters
from tracehound.formats.assembly.finishing import (
    HOSTS,
    MODULES,
    OTHERS,
    RAW,
    Lanes,
    Raw,
    Unmarked,
    executed,
    finished,
    nothing_seen,
    steps_of,
)  # fmt: skip
from tracehound.formats.assembly.links import SEVERAL
from tracehound.formats.assembly.nests import CONCURRENT, Containers
from tracehound.formats.assembly.packed import written
from tracehound.formats.assembly.recurring import source_of, with_events
from tracehound.formats.sizes import NO_SIZE
from tracehound.formats.spill import Kept, Spill
from tracehound.intervals import Ints
from tracehound.notes import Note
from tracehound.trace import LANES, ON_CPU, OPS, RANKS, ROLE, Part, schema

__all__ = ["RAW", "RAW_LANES", "Decoded", "Piece", "held", "part"]

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
        "unit": pl.String(),
    }
)
"""The lanes a format hands over; `RAW.lane` is a row of them, `host` and `rank` rows of hosts and ranks."""


class Piece(Struct, frozen=True, eq=False):
    """Some of a file's raw events, in any order, with columns of `RAW`.

    `lanes` maps the lane numbers in the piece to rows of the file's lanes (None: they are the same), `ops` likewise its
    ops; `shift` (ps) is added to `start` and `end`, `first` to `record`.
    """

    kept: Kept
    lanes: Ints | None = None
    shift: int = 0
    first: int = 0
    ops: Ints | None = None


TWICE: Final = "device_events_doubled"

HOLDING: Final = ("while", "conditional", "cond", "call")
"""Categories of ops that run other ops; by their names alone conditionals are ``cond``."""


class Decoded(Struct, frozen=True):
    """One file, decoded: `pieces` in the order of the file.

    Times are ps from `wall_ns`, or from any instant when that is unknown. `unmarked` tells the steps of a file that
    marks none and runs no modules, where the format knows what does; `repeating` is the module whose executions are the
    steps, where the file names it. `counted` is what records count, for people.
    """

    path: Path
    format: str
    pieces: Sequence[Piece]
    lanes: pl.DataFrame
    ranks: pl.DataFrame
    hosts: tuple[str, ...]
    wall_ns: int | None
    ops: pl.DataFrame | None = None
    facts: FileFacts = FileFacts()
    notes: Sequence[Note] = ()
    places: Any = None
    counters: Counters = field(default_factory=Counters)
    unmarked: Unmarked | None = None
    repeating: str = ""
    counted: str = "event"
    facets: Mapping[str, pl.LazyFrame] = field(default_factory=dict)


def held(frame: pl.DataFrame) -> tuple[Piece, ...]:
    """All raw events of a file as one piece in memory."""
    return (Piece(Spill().keep(frame, "")),)


def part(decoded: Decoded, spill: Spill = Spill(), size: int = SIZE) -> Part:  # noqa: B008, frozen
    """Sort, nest, link and step the events, about `size` at a time; lanes without events are dropped.

    The events of the part lie in the spill's folder, or in memory where it has none. Of equal events of a lane, the
    earlier piece's goes first.
    """
    lanes, runs = _numbered(
        all_runs([piece.kept for piece in decoded.pieces], [piece.lanes for piece in decoded.pieces]),
        _complete(decoded.lanes, RAW_LANES),
    )
    sources = [Source(piece.kept, piece.shift, piece.first, piece.ops) for piece in decoded.pieces]
    raw = Raw(runs, sources, _by_number(lanes, decoded), size)
    seen, ran = nothing_seen(lanes.height), executed(raw)
    steps, told = steps_of(raw, ran, decoded.unmarked, decoded.repeating)
    scan = written(finished(raw, ran, steps, seen, spill), spill.folder)
    marks = np.concatenate([np.empty(0, np.int64), *seen.marks])
    if len(marks):
        steps = steps.with_columns(pl.Series("event", marks[steps["event"].to_numpy()]))
    notes = [*decoded.notes, *told]
    if seen.unsized:
        unsized = np.concatenate(seen.unsized)
        notes.append(Note("repaired", NO_SIZE, len(unsized), where=f"{decoded.counted} {unsized.min():,}"))
    twice = np.concatenate([np.empty(0, np.int64), *seen.twice])
    if len(twice):
        notes.append(Note("info", TWICE, len(twice), where=f"{decoded.counted} {twice.min():,}"))
    if again := sum(seen.repeated):
        notes.append(Note("inferred", SEVERAL, again))
    if steps.height and steps["inferred"].all():
        source = "module" if len(ran.lane) else source_of(steps)
        values = (("source", source), ("name", str(steps["name"][0])))
        notes.append(Note("inferred", "steps_inferred", steps["step"].n_unique(), values=values))
        steps = steps if len(ran.lane) else with_events(steps, scan)
    timed = lanes.with_columns(
        pl.Series("rows", seen.rows), pl.Series("first", seen.first), pl.Series("last", seen.last)
    )
    return Part(
        path=decoded.path,
        format=decoded.format,
        scan=scan,
        lanes=pl.concat([timed.select(*LANES).cast(LANES), _lanes_of_counters(decoded.counters, lanes.height)]),
        ranks=_complete(decoded.ranks, RANKS),
        steps=steps,
        ops=_complete(decoded.ops, OPS) if decoded.ops is not None else pl.DataFrame(schema=OPS),
        hosts=decoded.hosts,
        wall_ns=decoded.wall_ns,
        facts=decoded.facts,
        notes=tuple(notes),
        places=decoded.places,
        counters=decoded.counters.samples.with_columns(pl.col("lane") + lanes.height),
        facets=decoded.facets,
    )


def _lanes_of_counters(counters: Counters, first: int) -> pl.DataFrame:
    """The lanes of counters, numbered from `first` in the order of the samples' lanes; names are their own."""
    if not counters.lanes:
        return pl.DataFrame(schema=LANES)
    lanes = pl.DataFrame(counters.lanes, schema=RAW_LANES)
    times = counters.samples.group_by("lane").agg(
        pl.len().alias("samples"), pl.col("time").first().alias("first"), pl.col("time").last().alias("last")
    )
    known = lanes.with_row_index("lane").cast({"lane": pl.Int64}).join(times, on="lane", maintain_order="left")
    distinct = _distinct(known.drop("samples"), known["samples"].to_numpy())
    return distinct.select(
        pl.lit(value, LANES[name]).alias(name) if (value := _OF_COUNTERS.get(name)) is not None else pl.col(name)
        for name in LANES
    ).with_columns(pl.col("lane") + first).cast(LANES)  # fmt: skip


_OF_COUNTERS: Final = {"role": "counter", "work": False, "events": 0, "rows": 1}


def _complete(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The frame with exactly the columns of the schema; missing ones are null."""
    have = [
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    ]
    return frame.select(have)


def _numbered(runs: Runs, lanes: pl.DataFrame) -> tuple[pl.DataFrame, Runs]:
    """Drop lanes without events and number the rest anew: the hosts', the modules' of devices, the others of devices.

    Device events refer to host events and to executions of modules, which therefore come first.
    """
    used, of_run = np.unique(runs.lane, return_inverse=True)
    count = np.zeros(len(used), np.int64)
    np.add.at(count, of_run, runs.high - runs.low)
    kept = _distinct(lanes[used], count).with_columns(pl.Series("events", count))
    order = np.argsort(_group(kept), kind="stable")
    number = np.empty(len(used), np.int64)
    number[order] = np.arange(len(used))
    runs = runs._replace(lane=number[of_run])
    numbered = kept[order].select(pl.int_range(pl.len(), dtype=pl.Int64).alias("lane"), pl.all())
    return numbered, runs.at(np.argsort(runs.lane, kind="stable"))


def _group(lanes: pl.DataFrame) -> Ints:
    of_module = pl.when(pl.col("role") == "modules").then(MODULES).otherwise(OTHERS)
    group = pl.when(pl.col("rank").is_null()).then(HOSTS).otherwise(of_module)
    return lanes.select(group.cast(pl.Int64)).to_series().to_numpy()


def _by_number(lanes: pl.DataFrame, decoded: Decoded) -> Lanes:
    labels = _complete(decoded.ranks, RANKS)["label"]
    on_cpu = labels.str.starts_with(ON_CPU).fill_null(value=False).arg_true()
    ops = pl.DataFrame(schema=OPS) if decoded.ops is None else _complete(decoded.ops, OPS)
    return Lanes(
        group=_group(lanes),
        host=lanes["host"].cast(pl.Int64).to_numpy(),
        rank=lanes["rank"].cast(pl.Int64).fill_null(-1).to_numpy(),
        containers=Containers(
            concurrent=lanes["role"].is_in(list(CONCURRENT)).to_numpy(),
            mingled=((lanes["role"] == "ops") & lanes["rank"].is_in(on_cpu.implode()))
            .fill_null(value=False)
            .to_numpy(),
            holders=ops.select(pl.col("category").is_in(HOLDING).fill_null(value=False)).to_series().to_numpy(),
        ),
    )


def _distinct(lanes: pl.DataFrame, count: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Lanes of one rank or host with names of their own.

    Of those that share a name the fullest keeps it and comes first; the others follow it, numbered. What nothing tells
    apart stays in its order. `count` has the number of events of each lane.
    """
    alike = ["host", "rank", "name"]
    row = pl.int_range(pl.len())
    return (
        lanes.with_columns(pl.Series("fewer", -count))
        .with_columns(
            pl.struct(pl.col("order").min().over(alike), "fewer", row.alias("row"))
            .rank("ordinal")
            .cast(pl.Int32)
            .alias("order"),
            pl.col("fewer").rank("ordinal").over(alike).alias("again"),
        )
        .with_columns(
            pl.when(pl.col("again") > 1).then(pl.format("{} #{}", "name", "again")).otherwise("name").alias("name")
        )
        .drop("fewer", "again")
    )
