"""Results whose rows are parts of something -> bars that are divided as it is; and bars of two amounts.

Owns these charts and which columns they are made of. Knows no colours; lines are of exactly the width asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Result
from tracehound.draw import chart
from tracehound.draw.apart import filled
from tracehound.draw.bars import in_sight
from tracehound.draw.chart import Size
from tracehound.draw.labels import labels
from tracehound.draw.wrap import flowed
from tracehound.units import duration, share

GLYPHS: Final = "█▓▒░:"
"""What parts are drawn with, the largest first; the last one is for all others together."""

NARROWEST: Final = 24
LABEL: Final = 3
"""A label takes at most one part in so many of the width."""


class Division(NamedTuple):
    """What is divided (`of`: the columns that say which), by what, and by how much."""

    of: tuple[str, ...]
    by: str
    amount: str


DIVISIONS: Final[Mapping[str, Division]] = MappingProxyType(
    {
        "idle": Division(("rank", "stream"), "cause", "idle"),
        "kernel_types": Division(("rank",), "type", "time"),
        "critical_path": Division(("rank",), "class", "duration"),
    }
)
"""The analyses whose rows are parts of something."""


def divided(result: Result, cursor: int, size: Size) -> list[str]:
    """A bar for each thing that is divided, and below what its parts are, with the shares at the cursor's row."""
    width, height = size
    division = DIVISIONS[result.analysis]
    table = result.table.filter(pl.col(division.amount).is_not_null())
    if table.is_empty() or width < NARROWEST or height < 3:
        return []
    amount = pl.col(division.amount).cast(pl.Float64)
    sums = table.group_by(*division.of, division.by, maintain_order=True).agg(amount.sum().alias("sum"))
    order = sums.group_by(division.by).agg(pl.col("sum").sum()).sort("sum", division.by, descending=[True, False])
    parts = order[division.by].to_list()
    named = parts if len(parts) <= len(GLYPHS) else parts[: len(GLYPHS) - 1]
    glyphs = GLYPHS[: len(named)]
    things = list(sums.partition_by(*division.of, as_dict=True, maintain_order=True).items())
    here = tuple(result.table.select(division.of).row(min(cursor, result.table.height - 1)))
    at = next((index for index, (key, _) in enumerate(things) if key == here), 0)
    rows = [(_label(key, division.of), _fractions(frame, division.by, named)) for key, frame in things]
    if len(parts) > len(named):
        glyphs += GLYPHS[-1]
        rows = [(label, [*fractions, max(0.0, 1 - sum(fractions))]) for label, fractions in rows]
    legend = _legend(glyphs, named, rows[at][1], size)
    room = max(1, height - len(legend) - 1)
    first = max(0, min(at - room // 2, len(rows) - room))
    wide = min(max(cell_len(label) for label, _ in rows), width // LABEL)
    lines = [
        f"{filled(label, wide)} {chart.stacked(fractions, glyphs, width - wide - 1)}"
        for label, fractions in rows[first : first + room]
    ]
    more = f", {len(rows) - room:,} more" if len(rows) > room else ""
    words = f"{division.amount} by {division.by}; shares of {rows[at][0]}{more}"
    return [*lines, *(filled(line, width) for line in (*legend, words))]


def _fractions(frame: pl.DataFrame, by: str, named: Sequence[object]) -> list[float]:
    """What part of the whole each named part has."""
    amounts = dict(frame.select(by, "sum").rows())
    whole = sum(amounts.values()) or 1.0
    return [amounts.get(name, 0.0) / whole for name in named]


def _legend(glyphs: str, named: Sequence[object], fractions: Sequence[float], size: Size) -> list[str]:
    """Which glyph is which part, and its share; on as many lines as half of the height allows."""
    words = [*(str(name) for name in named), "other"]
    told = [f"{glyph} {word} {share(part)}" for glyph, word, part in zip(glyphs, words, fractions, strict=False)]
    return flowed(told, size[0])[: max(1, size[1] // 2)]


def _label(key: Sequence[object], names: Sequence[str]) -> str:
    """``rank 0 stream 7``; all ranks together where there is none."""
    words = []
    for name, value in zip(names, key, strict=True):
        if name == "rank":
            words.append("all ranks" if value is None else f"rank {value}")
        else:
            words.append(str(value))
    return " ".join(words)


def paired(result: Result, cursor: int, size: Size) -> list[str]:
    """For each operator about the cursor its self time on the host (left) and on the device (right), to one scale."""
    width, height = size
    table = result.table
    if table.is_empty() or width < NARROWEST + 8 or height < 3:
        return []
    room = height - 2
    first = in_sight(cursor, table.height, room)
    rows = table.slice(first, room)
    names = labels(result, rows, width)
    most = max(1, *(amount or 0 for row in table.select("host_self", "device_self").rows() for amount in row))
    wide = cell_len(names[0])
    side = (width - wide - 3) // 2
    lines = []
    for name, amounts in zip(names, rows.select("host_self", "device_self").iter_rows(), strict=True):
        left, right = (_bar(amount or 0, most, side) for amount in amounts)
        lines.append(f"{name} {left} {right}")
    head = f"{'':{wide}} {filled('self on the host', side)} {filled('on the device', side)}"
    words = f"self time of operators; the longest bar is {duration(int(most))}"
    return [*(filled(line, width) for line in (head, *lines)), filled(words, width)]


def _bar(amount: int, most: int, side: int) -> str:
    """A bar, and how long it is where that is not nothing."""
    word = duration(amount) if amount else ""
    room = max(0, side - 10)
    return f"{word:>9} {chart.bar(amount / most, room)}"[:side].ljust(side)
