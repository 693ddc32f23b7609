"""Bars that are divided: a row's whole as long as it is, its parts beside each other in it.

Owns the charts of what steps are made of. Knows no colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Column, Result
from tracehound.draw import chart
from tracehound.draw.apart import filled
from tracehound.draw.bars import in_sight
from tracehound.draw.cells import cell
from tracehound.draw.labels import labels
from tracehound.draw.wrap import flowed

GLYPHS = MappingProxyType(
    {
        "kernel": "█",
        "copy": "░",
        "memset": "m",
        "communication": "▓",
        "runtime": "r",
        "data_loader": "d",
        "cpu": "c",
        "other": "∙",
    }
)
"""The parts of a step's time and what they are drawn with; in the order in which they stand in a bar."""

WHOLES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "overlap": {"exposed": "█", "both": "░"},
        "async_overlap": {"exposed": "█", "hidden": "░"},
        "transfers": {"exposed": "█", "hidden": "░"},
        "distributed": {"computation": "█", "overlap": "▒", "communication": "▓", "other": "∙"},
    }
)
"""Analyses of whose rows each is a whole with parts: the columns of these, and what they are drawn with."""

_WORDS = MappingProxyType({"both": "hidden", "communication": "exposed communication"})

QUEUE = MappingProxyType({"p50": "█", "to p99": "▒", "to max": "░"})
"""How long a queue is: no longer for half of the time, for 99 % of it, and at most."""

NARROWEST = 20
"""No bar is shorter than so many characters."""

_TIME = Column("duration", "time", "")


def step_parts(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each step, as long as the step, or a bar for each rank, divided as an average step is."""
    table = result.table
    if "part" in table.columns:
        table = table.pivot("part", index=["rank", "phase"], values="mean", maintain_order=True)
        names = [f"rank {rank} {phase or ''}".rstrip() for rank, phase in table.select("rank", "phase").iter_rows()]
        cursor //= max(1, len(GLYPHS))
    else:
        several = table["rank"].n_unique() > 1
        names = [
            f"step {step} rank {rank}" if several else f"step {step}"
            for step, rank in table.select("step", "rank").iter_rows()
        ]
    return divided(names, table.select([*GLYPHS]).to_numpy(), GLYPHS, cursor, size)


def whole(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each row, as long as its parts are together."""
    glyphs = WHOLES[result.analysis]
    parts = result.table.select(pl.col(name).fill_null(0) for name in glyphs).to_numpy()
    legend = {_WORDS.get(name, name): glyph for name, glyph in glyphs.items()}
    return divided(labels(result, result.table, size[0]), parts, legend, cursor, size)


def queue(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each stream, as long as its queue ever was, divided where it was for half and for 99 % of the time."""
    lengths = result.table.select(pl.col("p50", "p99", "max").fill_null(0)).to_numpy()
    mean, most = result.column("mean"), result.column("max")
    words = [
        f"mean {cell(mean, row['mean'])}, max {cell(most, row['max'])}" for row in result.table.iter_rows(named=True)
    ]
    parts = np.diff(lengths, axis=1, prepend=0)
    return divided(labels(result, result.table, size[0]), parts, QUEUE, cursor, size, words)


def divided(
    names: Sequence[str],
    parts: npt.NDArray[np.int64],
    glyphs: Mapping[str, str],
    cursor: int,
    size: tuple[int, int],
    told: Sequence[str] = (),
) -> list[str]:
    """A bar for each name, with its length in words; the longest fills the width. Those about the cursor, if not all.

    `parts` has a row for each name and a column for each glyph: times in ps, unless it is `told` in words what they
    are together. Empty where there is no room.
    """
    width, height = size
    lengths = parts.sum(axis=1)
    words = told or [cell(_TIME, int(length)) for length in lengths]
    room, beside = max(map(cell_len, names), default=0), max(map(cell_len, words), default=0)
    space = width - room - beside - 2
    most = int(lengths.max(initial=0))
    if space < NARROWEST or height < 2 or most <= 0:
        return []
    here = parts.sum(axis=0) > 0
    legend = [
        f"{glyph} {name.replace('_', ' ')}" for (name, glyph), some in zip(glyphs.items(), here, strict=True) if some
    ]
    below = _legend(legend, [], width, max(1, height // 3))
    shown = min(height - len(below), len(names))
    if shown < len(names):
        below = _legend(legend, [f"{len(names) - shown:,} more"], width, len(below))
    first = in_sight(cursor, len(names), shown)
    lines = []
    for row in range(first, min(len(names), first + shown)):
        bar = chart.stacked((parts[row] / most).tolist(), [*glyphs.values()], space)
        lines.append(f"{names[row]:<{room}} {bar} {words[row]:>{beside}}")
    return [*lines, *(filled(line, width) for line in below)]


def _legend(words: list[str], last: list[str], width: int, most: int) -> list[str]:
    """The words and the last ones on at most so many lines; those for which there is no room go from the end."""
    left, told = len(words), [*words, *last]
    while left and len(flowed(told, width)) > most:
        left -= 1
        told = [*words[:left], "…", *last]
    return flowed(told, width)[:most]
