"""How two timelines and the tables under them share the screen of a comparison.

Owns which of them are in sight and how many lines a timeline has. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from textual.widget import Widget

from tracehound.ui.panes.differences import Differences
from tracehound.ui.widgets.bars import TabBar
from tracehound.ui.widgets.side import Side

Part = Literal["base", "other", "tables"]

TIMELINES: Final[tuple[Part, ...]] = ("base", "other")
ALL: Final[tuple[Part, ...]] = (*TIMELINES, "tables")

BARS: Final = 3
"""Lines of the screen that are neither timelines nor tables."""

LEAST: Final = 5
"""Lines of a run, at least: which it is, its steps, the time, and lanes."""

LEAST_OF_TABLES: Final = 4
"""Lines of the tables, at least: what it is, the header, and rows."""


class Sharing:
    """Both timelines above the tables; on a small screen those, or the one of them, that have the keys.

    `sides` are the base and the other run, in this order whenever it is looked at.
    """

    def __init__(self, sides: Sequence[Side], differences: Differences) -> None:
        self.tabs = TabBar()
        self._sides = sides
        self._differences = differences
        self._wanted: Part = "base"
        self.alone = False
        """Whether the timelines have the screen alone."""

    @property
    def _boxes(self) -> dict[Part, Widget]:
        base, other = self._sides
        return {"base": base, "other": other, "tables": self._differences}

    @property
    def _room(self) -> int:
        return self.tabs.app.size.height - BARS

    @property
    def cramped(self) -> bool:
        """Whether there is room for one of them only: then the tables say most."""
        return self._room < 2 * LEAST

    def in_sight(self) -> tuple[Part, ...]:
        """What there is room for, of what is wanted."""
        if not self.alone and self._room >= 2 * LEAST + LEAST_OF_TABLES:
            return ALL
        wanted = "base" if self.alone and self._wanted == "tables" else self._wanted
        return TIMELINES if wanted != "tables" and not self.cramped else (wanted,)

    def want(self, part: Part) -> None:
        """Bring this into sight."""
        self._wanted = part
        self.alone = self.alone and part != "tables"
        self.lay()

    def follow(self, focused: Widget | None) -> None:
        """What has the keys stays in sight."""
        part = self._part_of(focused)
        if part is not None:
            self.want(part)

    def _part_of(self, widget: Widget | None) -> Part | None:
        around = [] if widget is None else widget.ancestors
        return next((part for part, box in self._boxes.items() if box in around), None)

    def switch(self) -> None:
        """Give the screen to the timelines, or share it again."""
        self.alone = not self.alone
        self.lay()

    def lay(self) -> None:
        """Share the lines: as much for either timeline, and a little more for the tables."""
        shown = self.in_sight()
        lines = max(LEAST, self._room * 3 // 10) if shown == ALL else "1fr"
        if self._part_of(self.tabs.screen.focused) not in (None, *shown):
            self.tabs.screen.set_focus(None)  # Textual does so when it is hidden, and takes it from who has it by then
        for part, box in self._boxes.items():
            box.display = part in shown
        for side in self._sides:
            side.styles.height = lines
        self.tabs.display = not self.alone

    def beside(self, by: int) -> Part:
        """What comes after what is wanted (1), or before it (-1), whether there is room for it now or not."""
        parts = TIMELINES if self.alone else ALL
        return parts[(parts.index(self._wanted) + by) % len(parts)] if self._wanted in parts else "base"
