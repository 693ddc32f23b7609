"""The explorer's state: one frozen value, which panes watch and none keeps a copy of."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tracehound.model.trace import Window


class View(Struct, frozen=True):
    """State of the explorer: what is shown and selected. Times are ps from the trace's origin; ids are the trace's.

    `start` and `end` bound what the timeline shows, `selection` the window that every table is narrowed to (None: the
    whole run). `lane` is the lane under the cursor, `event` the selected event, `ranks` the ranks shown (None: all),
    `needle` what was searched for last. `focus` is the instant that zooming keeps in place and at which moving to
    another lane looks; None is the middle of what is shown.
    """

    start: int = 0
    end: int = 1
    ranks: tuple[int, ...] | None = None
    lane: int | None = None
    event: int | None = None
    selection: tuple[int, int] | None = None
    needle: str = ""
    focus: int | None = None

    @property
    def window(self) -> Window:
        """The window of every analysis that a pane shows."""
        start, end = self.selection if self.selection is not None else (None, None)
        return Window(start, end, self.ranks)

    def elsewhere(self, other: View) -> bool:
        """True if it shows another interval than the other view, or selects another window."""
        return (self.start, self.end, self.selection) != (other.start, other.end, other.selection)

    def shown(self, start: int, end: int) -> View:
        """The view with other bounds; never shorter than 1 ps."""
        return replace(self, start=start, end=max(end, start + 1))
