"""What of an outline is on the screen.

Owns which lines those are, how far to scroll so that a lane is among them, and what has to be read to draw them.
"""

from __future__ import annotations

from functools import cached_property
from itertools import takewhile

from msgspec import Struct

from tracehound.draw.outline import Line, Outline
from tracehound.draw.shelf import Wish


class Sight(Struct, frozen=True, dict=True):
    """`room` lines of an outline, `top` lines further down, under `above` other lines of the screen.

    The first lines stay where they are when the group that they are of is `held`, as far as that leaves others room.
    """

    sheet: Outline
    top: int
    room: int
    above: int = 0
    held: str = ""

    @cached_property
    def stays(self) -> int:
        """How many lines stay at the top."""
        lines = takewhile(lambda line: line.group.key == self.held, self.sheet.lines)
        return min(sum(1 for _ in lines), max(0, self.room // 2))

    def index(self, at: int) -> int:
        """Which line of the outline is the one in sight that `at` others are above."""
        return at if at < self.stays else at + self.top

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines in sight, from the top."""
        first, room = self.stays, max(0, self.room)
        return self.sheet.lines[:first] + self.sheet.lines[self.top + first : self.top + room]

    @property
    def scrolled(self) -> tuple[Line, ...]:
        """The lines in sight that do not stay."""
        return self.lines[self.stays :]

    @property
    def placed(self) -> list[tuple[int, Line]]:
        """The lines in sight, with where on the screen they are."""
        return list(enumerate(self.lines, self.above))

    @property
    def tracks(self) -> frozenset[int]:
        """The lanes in sight."""
        return frozenset(line.track.lane for line in self.lines if line.track is not None)

    @property
    def lanes(self) -> int:
        """How many lanes are in sight."""
        return len(self.tracks)

    @property
    def unread(self) -> frozenset[int]:
        """The parts in sight of which nothing is read yet."""
        return frozenset(line.group.part for line in self.lines if line.group.unread)

    @property
    def wishes(self) -> list[Wish]:
        """What has to be read: the lanes first, then how busy the ranks are, also that of the group at the top."""
        lines = self.lines
        first = lines[self.stays : self.stays + 1]
        wishes = [wish for line in (*lines, *(Line(line.group) for line in first)) for wish in needs(line)]
        return sorted(dict.fromkeys(wishes), key=lambda wish: wish.of)

    def showing(self, lane: int | None, depth: int | None) -> int:
        """Where `top` has to be to show a lane, or one of its rows, with a line above it: as near as can be."""
        at = self.sheet.places(lane, depth)
        if not at or self.room <= 1:
            return self.top
        if at[-1] < self.stays:
            return self.top
        low, high = at[0] - 1 - self.stays, min(at[-1], at[0] + self.room - self.stays - 2)
        return max(0, min(self.top, low), high - self.room + 1)


def needs(line: Line) -> tuple[Wish, ...]:
    """What has to be read before a line can be drawn."""
    rank = line.group.rank
    if line.track is not None:
        return () if line.track.graph else (Wish("lane", line.track.lane),)
    return () if rank is None or not line.group.tracks else (Wish("rank", rank),)
