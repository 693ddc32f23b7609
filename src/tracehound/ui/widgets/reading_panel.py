"""How far the reading is, where there is nothing to draw yet.

Owns the lines of that: a bar for every file, and below what there is to say of all. A line is sent again only when it
says something else, so that waiting costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.store import Reading
from tracehound.store.found import Found
from tracehound.ui.wording import words

NAMES = 36
"""Cells that names of files take at most."""

BAR = 30
"""Cells of a bar, at most."""


class ReadingPanel(Widget):
    """A line for each file, as many as there is room for."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"reading-panel--title", "reading-panel--done", "reading-panel--left"}
    DEFAULT_CSS = """
    ReadingPanel {
        height: 1fr; width: 1fr; padding: 1 2; color: $text-muted; background: $background;
        & > .reading-panel--title { color: $primary; text-style: bold; }
        & > .reading-panel--done { color: $primary; }
        & > .reading-panel--left { color: $foreground 30%; }
    }
    """

    reading: reactive[Reading | None] = reactive(None)
    """How far it is; None before it has begun."""
    stopped: reactive[str] = reactive("")
    """Why it goes no further; empty while it does."""

    def __init__(self, files: Sequence[Found], glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._files = tuple(files)
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """The title, the files, and what is true of all."""
        lines = self._lines()
        return (lines[y] if y < len(lines) else Strip([])).extend_cell_length(self.size.width, self.rich_style)

    def _lines(self) -> list[Strip]:
        title = self.get_component_rich_style("reading-panel--title", partial=False)
        room = max(1, self.size.height - 5)
        shown = self._in_sight(room)
        more = len(self._files) - len(shown)
        said = self.stopped or words.progress(self.reading, self._glyphs.dot)
        return [
            Strip([Segment("stopped" if self.stopped else "reading", title)]),
            Strip([]),
            *map(self._line, shown),
            *([self._plain(f"and {more:,} more")] if more else []),
            Strip([]),
            self._plain(said),
        ]

    def _in_sight(self, room: int) -> Sequence[Found]:
        """The files that are being read come first, where not all have room."""
        if len(self._files) <= room:
            return self._files
        running = self.reading.running if self.reading is not None else {}
        return sorted(self._files, key=lambda file: file.path not in running)[: room - 1]

    def _line(self, file: Found) -> Strip:
        """``worker0.json  ━━━━━━━───────  47 %  1.2 M events``."""
        done, left = (
            self.get_component_rich_style(f"reading-panel--{part}", partial=False) for part in ("done", "left")
        )
        width = min(NAMES, max(8, self.size.width // 3), max(cell_len(f.path.name) for f in self._files))
        name = set_cell_size(self._glyphs.cut(file.path.name, width), width)
        running = self.reading.running.get(file.path) if self.reading is not None else None
        if running is None:
            return self._plain(f"{name}  {file.format.title}")
        read, events = running
        bar = max(4, min(BAR, self.size.width - width - 28))
        full = bar * min(read, file.size) // max(1, file.size)
        solid, faint = ("=", "-") if self._glyphs.name == "ascii" else ("━", "─")
        percent = 100 * min(read, file.size) // max(1, file.size)
        said = f"  {percent:>3} %  {words.many_events(events)}"
        return Strip([
            Segment(f"{name}  ", self.rich_style), Segment(solid * full, done), Segment(faint * (bar - full), left),
            Segment(said, self.rich_style),
        ])  # fmt: skip

    def _plain(self, text: str) -> Strip:
        return Strip([Segment(self._glyphs.cut(text, self.size.width), self.rich_style)])
