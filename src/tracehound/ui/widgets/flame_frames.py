"""Frames of a flame graph, made from a result, with their names, numbers and matches.

Knows no widget, no width and no colors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Result, indented_column
from tracehound.draw.cell_text import column_heading, format_cell
from tracehound.draw.charts.flame_graph import ROOT_BAR, FlameGraph, build_flame_graph, split_frame_name
from tracehound.errors import printable
from tracehound.formats.torch_names import MODULE_PREFIX
from tracehound.model.units import count_noun, format_duration, format_share
from tracehound.numeric.intervals import Mask
from tracehound.ui.source_files import parse_source_line
from tracehound.ui.themes import kind_of_category


class FlameWeight(Struct, frozen=True):
    """Column that gives frames their weight, and its name for users."""

    column: str
    words: str


class FlameFrames(Struct, frozen=True, eq=False):
    """Frames of a `result`, weighted by one of its columns.

    `found` marks those that a search found; it is empty without a search.
    """

    result: Result
    flame: FlameGraph
    weight: FlameWeight
    found: Mask

    def row(self, frame: int) -> dict[str, Any] | None:
        """Raw values of a frame; None for the bar around all."""
        return None if frame == ROOT_BAR else self.result.table.row(frame, named=True)

    def search(self, needle: str) -> FlameFrames:
        """Copy with the matches of a search. Raises TracehoundError for an invalid pattern."""
        none = np.zeros(0, np.bool_)
        return replace(self, found=self.flame.rows_matching(needle.strip()) if needle.strip() else none)

    def is_found(self, bar: int) -> bool:
        """True if the search found a frame of this bar."""
        return (
            bool(len(self.found))
            and bar != ROOT_BAR
            and any(self.found[frame] for frame in self.flame.merged_rows(bar))
        )

    def kind(self, frame: int) -> str:
        """Kind of a frame; modules of a model have their own."""
        if frame == ROOT_BAR:
            return "other"
        if "kind" not in self.result.table.columns or self.flame.names[frame].startswith(MODULE_PREFIX):
            return "module"
        return kind_of_category(self.result.table["kind"][frame] or "other")

    def path(self, frame: int) -> tuple[str, ...]:
        """Names of the frames from the root to this one."""
        return (
            () if frame == ROOT_BAR else tuple(self.flame.names[at] for at in self.flame.trees.ancestors(frame))[::-1]
        )

    def frame_at(self, path: Sequence[str]) -> int:
        """Frame at the end of this path, or the last one on it that exists."""
        here = ROOT_BAR
        for name in path:
            below = np.flatnonzero(self.flame.trees.parent == here)
            frame = next((int(row) for row in below if self.flame.names[row] == name), None)
            if frame is None:
                break
            here = frame
        return here

    def source(self, frame: int) -> str:
        """Name of the frame, or of the nearest one around it that names a source line; empty if none does."""
        around = self.path(frame)[::-1]
        return next((name for name in around if parse_source_line(name) is not None), "")

    def title(self, zoom: int, below: int, dot: str) -> str:
        """Title with weight, zoomed frame, matches and number of lines below the screen."""
        parts = [f"{self.result.title} by {self.weight.words}", format_duration(self.flame.total)]
        if zoom != ROOT_BAR:
            parts.append(f"in {split_frame_name(self.flame.names[zoom])[0]}, {format_share(self.flame.share(zoom))}")
        if len(self.found):
            outer = self.found & ~self.flame.trees.below_closed(self.found)
            weight = int(self.flame.weight[outer].sum())
            part = format_share(weight / self.flame.total) if self.flame.total else "nothing"
            parts.append(f"{int(self.found.sum()):,} found, {part}")
        parts += [f"{count_noun(below, 'line')} below"] if below > 0 else []
        return f" {dot} ".join(parts)

    def facts(self, frame: int, zoom: int) -> tuple[str, list[str]]:
        """Full name of a frame, and its numbers, the most important first."""
        row = self.row(frame)
        if row is None:
            return "all", [f"{self.weight.words} {format_duration(self.flame.total)}"]
        passed = len(self.flame.merged_rows(frame)) - 1
        name = printable(self.flame.names[frame]) + (f", and {passed} more that it passes on to" if passed else "")
        told = [f"{format_share(self.flame.share(frame))} of all"]
        if zoom != ROOT_BAR and frame not in self.flame.ancestors(zoom):
            told.append(f"{format_share(self.flame.share(frame, zoom))} of what is shown")
        columns = [column for unit in ("time", "count") for column in self.result.columns if column.unit == unit]
        told += [f"{column_heading(c)} {format_cell(c, row[c.name])}" for c in columns if row[c.name]]
        return name, told


def build_flame_frames(
    result: Result, weights: Sequence[FlameWeight], first: int, least: float
) -> tuple[FlameFrames | None, int]:
    """Frames weighted by the `first` of the weights, or by the next one that has values, and the index of that.

    None where the result is no tree. `least` as for `flame`.
    """
    table = result.table
    tried = [(first + step) % len(weights) for step in range(len(weights))]
    number = next((at for at in tried if table[weights[at].column].drop_nulls().len()), tried[0])
    shape = (
        build_flame_graph(result, weights[number].column, least)
        if indented_column(result.columns) is not None
        else None
    )
    if shape is None:
        return None, number
    return FlameFrames(result, shape, weights[number], np.zeros(0, np.bool_)), number
