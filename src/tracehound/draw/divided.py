"""Bars that are divided: a row's whole as long as it is, its parts beside each other in it.

Owns the charts of what steps are made of. Knows no colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

from tracehound.analysis.result import Column, Result
from tracehound.draw import chart
from tracehound.draw.apart import fitted
from tracehound.draw.cells import cell

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

NARROWEST = 20
"""No bar is shorter than so many characters."""

_TIME = Column("duration", "time", "")


def step_parts(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each step, as long as the step, or a bar for each rank, divided as an average step is."""
    table = result.table
    if "part" in table.columns:
        table = table.pivot("part", index=["rank", "phase"], values="mean", maintain_order=True)
        labels = [f"rank {rank} {phase or ''}".rstrip() for rank, phase in table.select("rank", "phase").iter_rows()]
        cursor //= max(1, len(GLYPHS))
    else:
        several = table["rank"].n_unique() > 1
        labels = [
            f"step {step} rank {rank}" if several else f"step {step}"
            for step, rank in table.select("step", "rank").iter_rows()
        ]
    return divided(labels, table.select([*GLYPHS]).to_numpy(), GLYPHS, cursor, size)


def divided(
    labels: Sequence[str],
    parts: npt.NDArray[np.int64],
    glyphs: Mapping[str, str],
    cursor: int,
    size: tuple[int, int],
) -> list[str]:
    """A bar for each label, with its length in words; the longest fills the width. Those about the cursor, if not all.

    `parts` (times in ps) has a row for each label and a column for each glyph. Empty where there is no room.
    """
    width, height = size
    lengths = parts.sum(axis=1)
    words = [cell(_TIME, int(length)) for length in lengths]
    room, beside = max(map(cell_len, labels), default=0), max(map(cell_len, words), default=0)
    space = width - room - beside - 2
    most = int(lengths.max(initial=0))
    if space < NARROWEST or height < 2 or most <= 0:
        return []
    first = max(0, min(cursor - (height - 1) // 2, len(labels) - (height - 1)))
    lines = []
    for row in range(first, min(len(labels), first + height - 1)):
        bar = chart.stacked((parts[row] / most).tolist(), [*glyphs.values()], space)
        lines.append(f"{labels[row]:<{room}} {bar} {words[row]:>{beside}}")
    here = parts.sum(axis=0) > 0
    told = [
        f"{glyph} {name.replace('_', ' ')}" for (name, glyph), some in zip(glyphs.items(), here, strict=True) if some
    ]
    more = len(labels) - len(lines)
    legend = fitted("  ".join([*told, *([f"{more:,} more"] if more > 0 else [])]), width)
    return [*lines, legend + " " * (width - cell_len(legend))]
