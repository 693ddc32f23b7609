"""How far the names of a tree's rows are moved in, on a line that has an end.

Owns that. Knows no result and no widget.
"""

from __future__ import annotations

from msgspec import Struct

STEP = 2
"""Cells for each level, where there is room for the deepest."""

LEAST = 6
"""Cells that names may be moved in however narrow the line is."""


class Indents(Struct, frozen=True):
    """`step` cells for each level, at most `most`: what lies deeper has the number of its level there."""

    step: int = STEP
    most: int = 1 << 30

    def of(self, depth: int | None) -> str:
        """What stands before the name of a row of that depth."""
        deep = max(0, depth or 0)
        if deep * self.step <= self.most:
            return " " * (deep * self.step)
        return f"{deep:>{self.most - 1}} "


def indents(deepest: int, width: int) -> Indents:
    """Indents for a line of `width` cells: at most a third of it, and one cell a level where two do not fit."""
    most = max(LEAST, width // 3)
    return Indents(STEP if deepest * STEP <= most else 1, most)
