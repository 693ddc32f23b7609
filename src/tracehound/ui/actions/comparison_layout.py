"""Layout of a comparison: two timelines, and the tables under them.

Owns which of them are visible and how many lines each timeline has. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from textual.widget import Widget

from tracehound.ui.panes.comparison_panes import ComparisonPanes
from tracehound.ui.widgets.run_panel import RunPanel
from tracehound.ui.widgets.status_bars import TabBar

VisiblePart = Literal["base", "other", "tables"]

TIMELINES: Final[tuple[VisiblePart, ...]] = ("base", "other")
EVERYTHING: Final[tuple[VisiblePart, ...]] = (*TIMELINES, "tables")

BAR_LINES: Final = 3
"""Lines of the screen that are neither timelines nor tables."""

MIN_TIMELINE_LINES: Final = 5
"""Lines of a run, at least: which it is, its steps, the time, and lanes."""

MIN_TABLE_LINES: Final = 4
"""Lines of the tables, at least: what it is, the header, and rows."""


class ComparisonLayout:
    """Both timelines above the tables; on a small screen those, or the one of them, that have the keys.

    `sides` are the base and the other run, in this order whenever it is looked at.
    """

    def __init__(self, sides: Sequence[RunPanel], differences: ComparisonPanes) -> None:
        self.tabs = TabBar()
        self._sides = sides
        self._differences = differences
        self._wanted: VisiblePart = "base"
        self.alone = False
        """Whether the timelines have the screen alone."""

    @property
    def _boxes(self) -> dict[VisiblePart, Widget]:
        base, other = self._sides
        return {"base": base, "other": other, "tables": self._differences}

    @property
    def _room(self) -> int:
        return self.tabs.app.size.height - BAR_LINES

    @property
    def cramped(self) -> bool:
        """True if only one of them fits on the screen: then the tables are shown, since they say most."""
        return self._room < 2 * MIN_TIMELINE_LINES

    def in_sight(self) -> tuple[VisiblePart, ...]:
        """The wanted parts that fit on the screen."""
        if not self.alone and self._room >= 2 * MIN_TIMELINE_LINES + MIN_TABLE_LINES:
            return EVERYTHING
        wanted = "base" if self.alone and self._wanted == "tables" else self._wanted
        return TIMELINES if wanted != "tables" and not self.cramped else (wanted,)

    def want(self, part: VisiblePart) -> None:
        """Bring this into sight."""
        self._wanted = part
        self.alone = self.alone and part != "tables"
        self.lay()

    def follow(self, focused: Widget | None) -> None:
        """Keep the part that has the focus visible."""
        part = self._part_of(focused)
        if part is not None:
            self.want(part)

    def _part_of(self, widget: Widget | None) -> VisiblePart | None:
        around = [] if widget is None else widget.ancestors
        return next((part for part, box in self._boxes.items() if box in around), None)

    def switch(self) -> None:
        """Give the screen to the timelines, or share it again."""
        self.alone = not self.alone
        self.lay()

    def lay(self) -> None:
        """Share the lines: as much for either timeline, and a little more for the tables."""
        shown = self.in_sight()
        lines = max(MIN_TIMELINE_LINES, self._room * 3 // 10) if shown == EVERYTHING else "1fr"
        if self._part_of(self.tabs.screen.focused) not in (None, *shown):
            self.tabs.screen.set_focus(None)  # Textual does so when it is hidden, and takes it from who has it by then
        for part, box in self._boxes.items():
            box.display = part in shown
        for side in self._sides:
            side.styles.height = lines
        self.tabs.display = not self.alone

    def beside(self, by: int) -> VisiblePart:
        """The part after the wanted one (1) or before it (-1), whether or not it fits now."""
        parts = TIMELINES if self.alone else EVERYTHING
        return parts[(parts.index(self._wanted) + by) % len(parts)] if self._wanted in parts else "base"
