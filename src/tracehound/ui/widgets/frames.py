"""A result as the frames of a flame graph, and what is said of them.

Owns which column weighs them, what was found among them, and the words beside the bars. Knows no widget, no width and
no colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.analysis.trees import stem
from tracehound.draw.cells import cell, heading
from tracehound.draw.flame import ALL, Flame, called, flame
from tracehound.errors import printable
from tracehound.formats.torch_names import MODULE
from tracehound.intervals import Mask
from tracehound.ui.source.lines import named
from tracehound.ui.wording.tones import kind_of
from tracehound.units import duration, plural, share


class Weight(Struct, frozen=True):
    """A column that frames are weighed by, and what people call it."""

    column: str
    words: str


class Frames(Struct, frozen=True, eq=False):
    """The frames of a `result` by one of its columns; `found` has those that a search found, empty without one."""

    result: Result
    flame: Flame
    weight: Weight
    found: Mask

    def row(self, frame: int) -> dict[str, Any] | None:
        """The raw values of a frame; None for the bar around all."""
        return None if frame == ALL else self.result.table.row(frame, named=True)

    def searched(self, needle: str) -> Frames:
        """The same after a search; TracehoundError for what cannot be searched for."""
        none = np.zeros(0, np.bool_)
        return replace(self, found=self.flame.matching(needle.strip()) if needle.strip() else none)

    def is_found(self, bar: int) -> bool:
        """Whether the search found a frame of this bar."""
        return bool(len(self.found)) and bar != ALL and any(self.found[frame] for frame in self.flame.chain(bar))

    def kind(self, frame: int) -> str:
        """The kind of a frame; modules of a model have one of their own."""
        if frame == ALL:
            return "other"
        if "kind" not in self.result.table.columns or self.flame.names[frame].startswith(MODULE):
            return "module"
        return kind_of(self.result.table["kind"][frame] or "other")

    def path(self, frame: int) -> tuple[str, ...]:
        """The names that lead to a frame, its own last."""
        return () if frame == ALL else tuple(self.flame.names[at] for at in self.flame.trees.climb(frame))[::-1]

    def at(self, path: Sequence[str]) -> int:
        """The frame on this path, or the last one on it that is there."""
        here = ALL
        for name in path:
            below = np.flatnonzero(self.flame.trees.parent == here)
            frame = next((int(row) for row in below if self.flame.names[row] == name), None)
            if frame is None:
                break
            here = frame
        return here

    def source(self, frame: int) -> str:
        """The name of the frame, or of the nearest one around it that names a source line; empty where none does."""
        around = self.path(frame)[::-1]
        return next((name for name in around if named(name) is not None), "")

    def title(self, zoom: int, below: int, dot: str) -> str:
        """What is shown: by which weight, of which frame, what was found, and how many lines lie below the screen."""
        parts = [f"{self.result.title} by {self.weight.words}", duration(self.flame.total)]
        if zoom != ALL:
            parts.append(f"in {called(self.flame.names[zoom])[0]}, {share(self.flame.share(zoom))}")
        if len(self.found):
            outer = self.found & ~self.flame.trees.hidden(self.found)
            weight = int(self.flame.weight[outer].sum())
            part = share(weight / self.flame.total) if self.flame.total else "nothing"
            parts.append(f"{int(self.found.sum()):,} found, {part}")
        parts += [f"{plural(below, 'line')} below"] if below > 0 else []
        return f" {dot} ".join(parts)

    def facts(self, frame: int, zoom: int) -> tuple[str, list[str]]:
        """The whole name of a frame, and its numbers, what one asks for most first."""
        row = self.row(frame)
        if row is None:
            return "all", [f"{self.weight.words} {duration(self.flame.total)}"]
        passed = len(self.flame.chain(frame)) - 1
        name = printable(self.flame.names[frame]) + (f", and {passed} more that it passes on to" if passed else "")
        told = [f"{share(self.flame.share(frame))} of all"]
        if zoom != ALL and frame not in self.flame.around(zoom):
            told.append(f"{share(self.flame.share(frame, zoom))} of what is shown")
        columns = [column for unit in ("time", "count") for column in self.result.columns if column.unit == unit]
        told += [f"{heading(c)} {cell(c, row[c.name])}" for c in columns if row[c.name]]
        return name, told


def frames(result: Result, weights: Sequence[Weight], first: int, least: float) -> tuple[Frames | None, int]:
    """The frames by the `first` of the weights, or the next one that has values, and which that is.

    None where the result is no tree. `least` as for `flame`.
    """
    table = result.table
    tried = [(first + step) % len(weights) for step in range(len(weights))]
    number = next((at for at in tried if table[weights[at].column].drop_nulls().len()), tried[0])
    shape = flame(result, weights[number].column, least) if stem(result.columns) is not None else None
    if shape is None:
        return None, number
    return Frames(result, shape, weights[number], np.zeros(0, np.bool_)), number
