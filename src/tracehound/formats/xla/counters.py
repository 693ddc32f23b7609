"""The counters of an XLA profile: the lines called ``_counters_``.

Owns what their events are: samples without a length, each named after its counter, with a number among its stats. What
a plane's name means is `xla.planes`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.formats.assembly.counters import Counters, Sampled, Series, counters, titled
from tracehound.formats.wire import BYTES, Bytes, Rows, rounds, varints
from tracehound.formats.xla.names import role_of_line
from tracehound.formats.xla.planes import DEVICE, Shown
from tracehound.formats.xla.rows import PlaneRows
from tracehound.formats.xla.xevents import EVENT_STAT, Stretched
from tracehound.formats.xla.xspace import Line
from tracehound.formats.xla.xstats import DOUBLE, SIGNED, UNSIGNED, Stats, joined, stats
from tracehound.notes import Note

SCHEMA: Final = pl.Schema(
    {
        "record": pl.Int64(), "plane": pl.Int64(), "name": pl.String(), "arg": pl.String(), "time": pl.Int64(),
        "value": pl.Float64(),
    }
)  # fmt: skip
"""Samples: `arg` is the stat that has the value."""

_NAMELESS: Final = ("counter_value", "value")
"""Stats whose names say nothing of what is counted."""

_OF_GROUP: Final = "group_id"
"""A number that profilers give to events of one step: it counts nothing."""


def counts(line: Line) -> bool:
    """Whether the events of a line are samples."""
    return role_of_line(line.name) == "counter"


def sampled(rows: PlaneRows, stretches: Sequence[Stretched]) -> list[pl.DataFrame]:
    """The samples on these stretches of one plane, a frame for each."""
    return [_of_stretch(rows, one) for one in stretches]


def _of_stretch(rows: PlaneRows, stretch: Stretched) -> pl.DataFrame:
    here = rows.portioning
    piece = here.file.piece((stretch.start, stretch.end))
    record, time, position = list[Rows](), list[Rows](), list[Rows]()
    for part, _, sound in rows.parts([stretch]):
        kept = sound & part.timed
        here.tick(part.piece.size, len(kept))
        here.untimed += int((sound & ~part.timed).sum())
        here.broken += int((~sound).sum())
        record.append(part.record[kept])
        time.append(part.start[kept])
        position.append(rows.plane.metadata.positions(part.metadata[kept]))
    empty = np.empty(0, np.int64)
    records, times, positions = (np.concatenate([empty, *column]) for column in (record, time, position))
    table = _stats(piece, records - stretch.start)
    names, args = [*rows.shown, None], rows.plane.stat_names
    return pl.DataFrame(
        {
            "record": records[table.owner],
            "plane": np.full(len(table.owner), rows.number),
            "name": [names[at] for at in positions[table.owner].tolist()],
            "arg": [args.get(id_) for id_ in table.id.tolist()],
            "time": times[table.owner],
            "value": _values(table),
        },
        schema=SCHEMA,
    ).filter(pl.col("value").is_finite(), ~pl.col("arg").str.starts_with("_"), pl.col("arg") != _OF_GROUP)


def _stats(piece: Bytes, head: Rows) -> Stats:
    """The numbers among the stats of the events that begin there."""
    length, size = varints(piece.words, head + 1)
    body, carried = head + 1 + size, list[Stats]()
    for now in rounds(piece.words, body, body + length.view(np.int64)):
        held = now.where(EVENT_STAT, BYTES)
        low = now.at[held]
        carried.append(stats(piece, now.message[held], low, low + now.value[held].view(np.int64)))
    table = joined(carried)
    return table.take((table.field == DOUBLE) | (table.field == UNSIGNED) | (table.field == SIGNED))


def _values(table: Stats) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    whole = np.where(
        table.field == SIGNED, table.value.view(np.int64).astype(np.float64), table.value.astype(np.float64)
    )
    return np.where(table.field == DOUBLE, table.value.view(np.float64), whole)


def counted(
    pieces: Iterable[pl.DataFrame], planes: Sequence[Shown], ranks: pl.DataFrame
) -> tuple[Counters, tuple[Note, ...]]:
    """A counter for each name and stat of each plane, of the rank whose device it is, else of the host."""
    found = list(pieces)
    if not found:
        return Counters(), ()
    samples = pl.concat(found).drop_nulls("name").sort("record")
    samples = samples.with_columns(
        pl.when(pl.col("arg").is_in(_NAMELESS)).then(pl.lit("")).otherwise("arg").alias("arg")
    )
    each = samples.select("plane", "name", "arg").unique(maintain_order=True)
    number = samples.join(each.with_row_index("number"), on=each.columns, maintain_order="left")["number"]
    keys = [Series(*row) for row in each.iter_rows()]
    titles, of_label = titled(keys), {label: row for row, label in enumerate(ranks["label"].to_list())}

    def lane(series: Series) -> dict[str, object]:
        process = planes[int(series.process or 0)].name
        device = DEVICE.match(process)
        rank = None if device is None else of_label.get(f"{device[1]}:{int(device[2])}")
        name, unit = titles[series]
        return {"host": 0, "rank": rank, "name": name, "unit": unit, "process": process}

    time, value, record = (samples[name].to_numpy() for name in ("time", "value", "record"))
    read = Sampled(tuple(keys), number.cast(pl.Int32).to_numpy(), time, value, record)
    return counters(read, lambda ps: ps, lane), (Note("info", "counter_samples", samples.height),)
