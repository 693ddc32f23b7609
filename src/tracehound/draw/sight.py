"""What of an outline is on the screen.

Owns which lines those are, how far to scroll so that a lane is among them, and what has to be read to draw them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracehound.draw.outline import Line, Outline
from tracehound.draw.shelf import Wish


@dataclass(frozen=True)
class Sight:
    """`room` lines of an outline, from line `top` on, under `above` other lines of the screen."""

    sheet: Outline
    top: int
    room: int
    above: int = 0

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines in sight, from the top."""
        return self.sheet.lines[self.top : self.top + max(0, self.room)]

    @property
    def placed(self) -> list[tuple[int, Line]]:
        """The lines in sight, with where on the screen they are."""
        return list(enumerate(self.lines, self.above))

    @property
    def lanes(self) -> int:
        """How many lanes are in sight."""
        return len({line.lane for line in self.lines if line.track is not None})

    @property
    def unread(self) -> frozenset[int]:
        """The parts in sight of which nothing is read yet."""
        return frozenset(line.group.part for line in self.lines if not line.group.tracks)

    @property
    def wishes(self) -> list[Wish]:
        """What has to be read: the lanes first, then how busy the ranks are, also that of the group at the top."""
        lines = self.lines
        wishes = [wish for line in (*lines, *(Line(line.group) for line in lines[:1])) for wish in needs(line)]
        return sorted(dict.fromkeys(wishes), key=lambda wish: wish.of)

    def showing(self, lane: int | None, depth: int | None) -> int:
        """Where `top` has to be to show a lane, or one of its rows, with a line above it: as near as can be."""
        at = self.sheet.places(lane, depth)
        if not at or self.room <= 1:
            return self.top
        low, high = at[0] - 1, min(at[-1], at[0] + self.room - 2)
        return max(0, min(self.top, low), high - self.room + 1)


def needs(line: Line) -> tuple[Wish, ...]:
    """What has to be read before a line can be drawn."""
    rank = line.group.key[1]
    if line.track is not None:
        return () if line.track.graph else (Wish("lane", line.track.lane),)
    return () if rank is None or not line.group.tracks else (Wish("rank", rank),)
