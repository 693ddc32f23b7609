"""Upper part of the explorer: the timeline, or the progress of the reading before there is one.

Owns its height.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.app import ComposeResult
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.store import ReadingProgress
from tracehound.store.trace_files import TraceFile
from tracehound.ui.widgets.boxes_and_scroll_bars import VerticalBox, simplify_scroll_bars
from tracehound.ui.widgets.status_bars import header_lines
from tracehound.ui.widgets.timeline_panel import TimelinePanel
from tracehound.ui.wording import messages

BAR_LINES = 2
"""Lines of the screen that are neither header, timeline nor panes."""

MIN_AREA_LINES = 4
"""Least lines of the timeline and of the panes."""


class TimelineArea(VerticalBox):
    """Timeline, about as high as the panes below it."""

    DEFAULT_CSS = """
    TimelineArea { height: 11; }
    """

    def __init__(self, panel: ReadingPanel, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.panel = panel
        self.timeline_panel = TimelinePanel(glyphs)
        self.timeline = self.timeline_panel.timeline
        self.timeline_panel.display = False
        self._glyphs = glyphs
        self._wanted_extra = 0

    def compose(self) -> ComposeResult:
        """Yield timeline and progress, one of them visible."""
        yield self.timeline_panel
        yield self.panel

    def on_mount(self) -> None:
        """Adapt the scroll bars to the alphabet."""
        simplify_scroll_bars(self.timeline, self._glyphs)

    def show_timeline(self) -> None:
        """Show the timeline instead of the progress."""
        self.panel.display = False
        self.timeline_panel.display = True

    def show_progress(self, reading: ReadingProgress, shares: dict[str, str]) -> None:
        """Show the progress of each file; a file whose rank is in the timeline shows it there."""
        self.panel.reading = reading
        if shares != self.timeline.news and self.timeline.unread:
            self.timeline.news.clear()
            self.timeline.news.update(shares)
            self.timeline.refresh()

    def use_half_screen(self) -> None:
        """Use half of the screen, and as many of the extra lines that the user asked for as possible."""
        self.styles.height = self._shared_lines // 2 + self._limit_extra(self._wanted_extra)

    def grow(self, lines: int) -> None:
        """Take this many lines from the panes, or give them back if negative. Does nothing at the limits."""
        now = self._limit_extra(self._wanted_extra)
        wanted = self._limit_extra(now + lines)
        if wanted != now:
            self._wanted_extra = wanted
            self.use_half_screen()

    @property
    def _shared_lines(self) -> int:
        """Lines that timeline and panes share."""
        return self.app.size.height - BAR_LINES - header_lines(self.app.size.height)

    def _limit_extra(self, lines: int) -> int:
        """Limit the extra lines beyond half of the screen, so that both parts keep their least.

        The requested number is kept for a larger screen.
        """
        half = self._shared_lines // 2
        return max(MIN_AREA_LINES - half, min(lines, self._shared_lines - half - MIN_AREA_LINES))

    def fill(self) -> None:
        """Use the whole screen."""
        self.styles.height = "1fr"


MAX_NAME_WIDTH = 36
"""Most cells of a file name."""

MAX_BAR_WIDTH = 30
"""Most cells of a progress bar."""


class ReadingPanel(Widget):
    """Progress of each file, as many as fit."""

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

    reading: reactive[ReadingProgress | None] = reactive(None)
    """Progress of the reading; None before it has begun."""
    stopped: reactive[str] = reactive("")
    """Reason why the reading has stopped; empty while it goes on."""

    def __init__(self, files: Sequence[TraceFile], glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._files = tuple(files)
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """Draw the title, a file, or the total."""
        lines = self._panel_lines()
        return (lines[y] if y < len(lines) else Strip([])).extend_cell_length(self.size.width, self.rich_style)

    def _panel_lines(self) -> list[Strip]:
        title = self.get_component_rich_style("reading-panel--title", partial=False)
        room = max(1, self.size.height - 5)
        shown = self._visible_files(room)
        more = len(self._files) - len(shown)
        said = self.stopped or messages.reading_progress_text(self.reading, self._glyphs.dot)
        return [
            Strip([Segment("stopped" if self.stopped else "reading", title)]),
            Strip([]),
            *map(self._file_line, shown),
            *([self._text_line(f"and {more:,} more")] if more else []),
            Strip([]),
            self._text_line(said),
        ]

    def _visible_files(self, room: int) -> Sequence[TraceFile]:
        """Files that fit; those that are being read come first."""
        if len(self._files) <= room:
            return self._files
        running = self.reading.running if self.reading is not None else {}
        return sorted(self._files, key=lambda file: file.path not in running)[: room - 1]

    def _file_line(self, file: TraceFile) -> Strip:
        """Name, progress bar and events, as in ``worker0.json  ━━━━━━━───────  47 %  1.2 M events``."""
        done, left = (
            self.get_component_rich_style(f"reading-panel--{part}", partial=False) for part in ("done", "left")
        )
        width = min(MAX_NAME_WIDTH, max(8, self.size.width // 3), max(cell_len(f.path.name) for f in self._files))
        name = set_cell_size(self._glyphs.cut(file.path.name, width), width)
        running = self.reading.running.get(file.path) if self.reading is not None else None
        if running is None:
            return self._text_line(f"{name}  {file.format.title}")
        read, events = running
        bar = max(4, min(MAX_BAR_WIDTH, self.size.width - width - 28))
        full = bar * min(read, file.size) // max(1, file.size)
        solid, faint = ("=", "-") if self._glyphs.name == "ascii" else ("━", "─")
        percent = 100 * min(read, file.size) // max(1, file.size)
        said = f"  {percent:>3} %  {messages.event_count_text(events)}"
        return Strip([
            Segment(f"{name}  ", self.rich_style), Segment(solid * full, done), Segment(faint * (bar - full), left),
            Segment(said, self.rich_style),
        ])  # fmt: skip

    def _text_line(self, text: str) -> Strip:
        return Strip([Segment(self._glyphs.cut(text, self.size.width), self.rich_style)])
