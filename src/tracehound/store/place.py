"""Parts -> one Trace: one clock, one numbering of hosts, ranks, lanes and ids.

Owns the placing. Knows no format and reads no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from tracehound.errors import printable
from tracehound.facets import FACETS
from tracehound.ids import id_of
from tracehound.notes import Note
from tracehound.store.clock import WALL, Alignment, clocked
from tracehound.store.ranks import Numbering, number
from tracehound.store.step_numbers import later
from tracehound.trace import COUNTERS, EVENTS, LANES, OPS, RANKS, STEPS, Host, Part, Trace

_IDS = ("id", "lane", "parent", "launch", "op")


def place(name: str, parts: Sequence[Part], notes: Sequence[Note] = (), alignment: Alignment = WALL) -> Trace:
    """The trace of these parts. Any subset of a trace's parts can be placed: that is how a trace fills in."""
    clock = clocked(parts, alignment)
    numbering = number(parts)
    first_host = _first_hosts(parts)
    hosts = tuple(Host(host, index) for index, part in enumerate(parts) for host in part.hosts)
    apart = _apart([part.path for part in parts])
    steps = _stack([_steps(p, i, first_host[i], numbering, clock.shift[i]) for i, p in enumerate(parts)], STEPS)
    from_later = later(steps)
    lanes = [_lanes(p, i, first_host[i], numbering, clock.shift[i]) for i, p in enumerate(parts)]
    all_notes = [
        *(_printable(note) for note in notes),
        *(_located(note, name) for part, name in zip(parts, apart, strict=True) for note in part.notes),
        *_of_files([*clock.notes, *numbering.notes], parts, apart),
    ]
    return Trace(
        name=name,
        parts=tuple(parts),
        hosts=hosts,
        frames=tuple(_events(p, i, numbering, clock.shift[i], from_later) for i, p in enumerate(parts)),
        lanes=_in_order(pl.concat(lanes)) if lanes else pl.DataFrame(schema=LANES),
        ranks=_stack([_ranks(p, i, first_host[i], numbering) for i, p in enumerate(parts)], RANKS).sort("rank"),
        steps=steps.with_columns(_counted_on(from_later)) if from_later else steps,
        ops=_stack([p.ops.with_columns(_wide("op", i)) for i, p in enumerate(parts)], OPS),
        origin_ns=clock.origin_ns,
        notes=tuple(all_notes),
        counters=_stack([_counters(p, i, clock.shift[i]) for i, p in enumerate(parts)], COUNTERS),
        facets=tuple(_facets(p, clock.shift[i]) for i, p in enumerate(parts)),
    )


def _first_hosts(parts: Sequence[Part]) -> list[int]:
    first, total = [], 0
    for part in parts:
        first.append(total)
        total += len(part.hosts)
    return first


def _wide(column: str, part: int) -> pl.Expr:
    """A local row as an id of the trace."""
    return id_of(part, pl.col(column))


def _rank(column: str, numbers: Sequence[int]) -> pl.Expr:
    """A row of the part's ranks as the number of that rank."""
    return pl.col(column).replace_strict(dict(enumerate(numbers)), default=None, return_dtype=pl.Int32)


def _counted_on(from_later: Mapping[int, int]) -> pl.Expr:
    """Numbers of inferred steps, from those on with which ranks begin: only events of devices have such a step."""
    return pl.col("step") + pl.col("rank").replace_strict(from_later, default=0, return_dtype=pl.Int32)


def _events(part: Part, index: int, numbering: Numbering, shift: int, from_later: Mapping[int, int]) -> pl.LazyFrame:
    numbers = numbering.numbers[index]
    counted = {row: from_later[number] for row, number in enumerate(numbers) if number in from_later}
    return part.scan.with_columns(
        *([_counted_on(counted)] if counted else []),
        *(_wide(column, index) for column in _IDS),
        pl.col("start") + shift,
        pl.col("end") + shift,
        _rank("rank", numbers),
    ).cast(EVENTS)


def _lanes(part: Part, index: int, first_host: int, numbering: Numbering, shift: int) -> pl.DataFrame:
    return part.lanes.with_columns(
        _wide("lane", index),
        pl.col("host") + first_host,
        _rank("rank", numbering.numbers[index]),
        pl.col("first") + shift,
        pl.col("last") + shift,
    ).cast(LANES)


def _in_order(lanes: pl.DataFrame) -> pl.DataFrame:
    """Host by host: the lanes of its ranks, device by device, then its threads."""
    return lanes.sort("host", pl.col("rank").is_null(), "rank", "role", "order", "lane")


def _ranks(part: Part, index: int, first_host: int, numbering: Numbering) -> pl.DataFrame:
    return part.ranks.with_columns(
        pl.Series("rank", numbering.numbers[index], pl.Int32),
        pl.col("host") + first_host,
        pl.Series("inferred", numbering.inferred[index], pl.Boolean),
    ).cast(RANKS)


def _steps(part: Part, index: int, first_host: int, numbering: Numbering, shift: int) -> pl.DataFrame:
    return part.steps.with_columns(
        _wide("event", index),
        pl.col("host") + first_host,
        _rank("rank", numbering.numbers[index]),
        pl.col("start") + shift,
        pl.col("end") + shift,
    ).cast(STEPS)


def _counters(part: Part, index: int, shift: int) -> pl.DataFrame:
    return part.counters.with_columns(_wide("lane", index), pl.col("time") + shift).cast(COUNTERS)


def _facets(part: Part, shift: int) -> dict[str, pl.LazyFrame]:
    return {
        name: facet.with_columns(pl.col("time") + shift) if "time" in FACETS[name] else facet
        for name, facet in part.facets.items()
    }


def _stack(frames: Sequence[pl.DataFrame], schema: pl.Schema) -> pl.DataFrame:
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _apart(paths: Sequence[Path]) -> list[str]:
    """The name of each file, with as many of the folders that it is in as tell it from the others."""
    tails = [path.parts for path in paths]
    unsettled, size = list(range(len(paths))), 1
    while unsettled:
        shared = Counter(paths[at].parts[-size:] for at in unsettled)
        for at in unsettled:
            tails[at] = paths[at].parts[-size:]
        unsettled = [at for at in unsettled if shared[tails[at]] > 1 and size < len(paths[at].parts)]
        size += 1
    return [printable(str(Path(*tail))) for tail in tails]


def _of_files(notes: Sequence[Note], parts: Sequence[Part], names: Sequence[str]) -> list[Note]:
    """Notes of paths of the parts, with the names of these files, as all others have."""
    name_of = {str(part.path): name for part, name in zip(parts, names, strict=True)}
    return [replace(_printable(note), file=name_of.get(note.file) or printable(note.file)) for note in notes]


def _located(note: Note, name: str) -> Note:
    """The note with the file's name, which tells it from others."""
    return replace(_printable(note), file=note.file or name)


def _printable(note: Note) -> Note:
    return replace(note, file=printable(note.file), where=printable(note.where))
