"""Painter of timeline lines, and the regions that a change of the view changes.

Owns the layout of gutter, header and lane. Caches the cells of recent frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Region
from textual.strip import Strip

from tracehound.draw.counter_graph import draw_graph_line
from tracehound.draw.lane_cache import RowsNotReadError, TimelineRows
from tracehound.draw.lane_cells import (
    CriticalPathIntervals,
    EventNames,
    LaneCells,
    cell_bounds,
    decode_style,
    draw_lane_row,
    mark_event_path,
    mark_selected_event,
    shade_range,
)
from tracehound.draw.lane_layout import Viewport
from tracehound.draw.lane_rows import LaneRow, LaneRows
from tracehound.draw.name_shortening import shorten_names_distinctly
from tracehound.draw.ruler import build_steps_row, cells_of_range, draw_ruler, step_names
from tracehound.draw.timeline_outline import HOST_TITLE, LaneEntry, LaneGroup, TimelineLine, TimelineOutline
from tracehound.model.short_names import shorten_kernel_name
from tracehound.model.trace import Trace
from tracehound.model.units import count_noun, format_share
from tracehound.numeric.intervals import Ints
from tracehound.ui.background.lane_loader import EventSlot
from tracehound.ui.state import view_moves
from tracehound.ui.state.goto_targets import steps_of_rank
from tracehound.ui.state.view import View
from tracehound.ui.state.view_moves import rank_of_view
from tracehound.ui.widgets.timeline_styles import TimelineStyles

MIN_COUNTER_NAME = 8
"""Least width of a counter's name beside its value."""

NOT_READ = "not read yet"
"""Status of a rank whose file is not read yet."""


GUTTER_MARGIN = 3
"""Cells of the gutter beside a name: one before it, two behind."""


class FrameGeometry(Struct, frozen=True, dict=True):
    """Times and sizes of a frame: `width` cells of lanes beside `gutter` cells of names, over `[start, end)`."""

    start: int
    end: int
    gutter: int
    width: int
    focus: int | None
    selection: tuple[int, int] | None

    @property
    def total(self) -> int:
        """Width of a line."""
        return self.gutter + self.width

    @cached_property
    def bounds(self) -> Ints:
        """Times at the bounds of the cells."""
        return cell_bounds(self.start, self.end, self.width)

    def time(self, column: int) -> int:
        """Start time of a cell; the first or last bound for a column outside."""
        return int(self.bounds[min(max(column, 0), self.width)])

    @cached_property
    def selected_cells(self) -> tuple[int, int] | None:
        """Cells of the selected range."""
        return None if self.selection is None else cells_of_range(self.bounds, *self.selection)


def frame_geometry(view: View, gutter: int, width: int) -> FrameGeometry:
    """Geometry of a view on `width` cells, of which `gutter` are for names."""
    return FrameGeometry(view.start, view.end, gutter, max(1, width - gutter), view.focus, view.selection)


class TimelineFrame(Struct, frozen=True):
    """State from which all lines of a frame are drawn; `corner` is the text beside the ruler."""

    view: View
    sight: Viewport
    shown: FrameGeometry
    chosen: EventSlot | None
    corner: str


class TimelinePainter(Struct):
    """Painter of the lines of one trace."""

    rows: TimelineRows
    styles: TimelineStyles
    cell_cache: LRUCache[tuple[object, ...], LaneCells] = field(default_factory=lambda: LRUCache(1024))
    short_names: dict[tuple[int, int], str] = field(default_factory=dict)
    step_bands: dict[int | None, tuple[LaneRow, EventNames]] = field(default_factory=dict)
    reading_status: Mapping[str, str] = field(default_factory=dict)  # by path of each file that is being read
    critical_path: CriticalPathIntervals | None = None
    focused: bool = False

    def paint_line(self, y: int, of: TimelineFrame) -> Strip:
        """Strip of line `y` of the widget, in full width."""
        return self._content_line(y, of).adjust_cell_length(of.shown.total, self.styles.theme.ground)

    def _content_line(self, y: int, of: TimelineFrame) -> Strip:
        """Steps if there are any, ruler, then lanes under the header of their group."""
        sight, at = of.sight, y - of.sight.above
        if at < -1:
            return self.steps_line(rank_of_view(self.rows.trace, of.view), of.shown, "steps", title=at == -sight.above)
        if at == -1:
            return self.ruler_line(of.shown, of.corner, title=sight.above == 1)
        where = (sight.outline, sight.outline_index(at), of.shown, of.view.lane)
        return self.sticky_header(*where) if at == sight.pinned_line_count else self.outline_line(*where, of.chosen)

    def outline_line(
        self, sheet: TimelineOutline, index: int, shown: FrameGeometry, lane: int | None, chosen: EventSlot | None
    ) -> Strip:
        """Line `index` of an outline, with the cursor on `lane` and the row `chosen` selected."""
        if index >= len(sheet.lines):
            return Strip([])
        line = sheet.lines[index]
        if line.entry is None:
            return self.sticky_header(sheet, index, shown, lane)
        return self.lane_row(line, line.entry, shown, cursor=line.lane == lane, chosen=chosen)

    def sticky_header(self, sheet: TimelineOutline, index: int, shown: FrameGeometry, lane: int | None) -> Strip:
        """Header of the group of line `index`, shown as the first line while its lanes scroll."""
        if index >= len(sheet.lines):
            return Strip([])
        header = TimelineLine(sheet.lines[index].group)
        cursor = sheet.line_shows_lane(header, lane)
        return self.group_header(header.group, shown, folded=header.group.key in sheet.folded, cursor=cursor)

    def lane_row(
        self, line: TimelineLine, track: LaneEntry, shown: FrameGeometry, *, cursor: bool, chosen: EventSlot | None
    ) -> Strip:
        """Row of a lane; only its name while its events are not read."""
        if track.graph:
            return self.counter_row(line, track, shown, cursor=cursor)
        label = self._lane_label(line, track.name, shown.gutter - GUTTER_MARGIN)
        gutter = self._gutter_segments(label, shown.gutter, cursor=cursor, dim=not line.first)
        try:
            slices, row = self.rows.lane(track.lane), self.rows.row(track.lane, line.depth)
        except RowsNotReadError:
            return self._placeholder_line(gutter, shown)
        cells = self._cached_cells((track.lane, line.depth), row, shown, self._short_names_of(track.lane, slices, row))
        if self.critical_path is not None:
            stretches = self.critical_path.intervals_on_row(track.lane, row, slices.first)
            cells = mark_event_path(cells, stretches, shown.bounds, self.styles.glyphs)
        if chosen is not None and chosen[:2] == (track.lane, line.depth):
            cells = mark_selected_event(cells, row, chosen[2], shown.bounds, self.styles.glyphs)
        return Strip([*gutter, *self._cell_segments(cells, shown)], shown.total)

    def counter_row(self, line: TimelineLine, track: LaneEntry, shown: FrameGeometry, *, cursor: bool) -> Strip:
        """Line of a counter's graph; the gutter has its name and value at the focus, below them the scale."""
        graph, rows = self.rows.graph(track.lane), line.lines
        value = None if shown.focus is None else graph.value_at(shown.focus)
        here = "" if value is None else graph.format_value(value)
        bottom, top = map(graph.format_value, graph.scale)
        labels = (track.name, here, f"to {top}", f"from {bottom}")
        gutter = self._gutter_segments(labels[line.depth], shown.gutter, cursor=cursor, dim=not line.first)
        if rows == 1 and here and shown.gutter - 3 - len(here) >= MIN_COUNTER_NAME:
            name = self.styles.glyphs.cut(track.name, shown.gutter - 4 - len(here))
            said = name.ljust(shown.gutter - 3 - len(here)) + here
            gutter = self._gutter_segments(said, shown.gutter, cursor=cursor, dim=False)
        key = ("graph", track.lane, line.depth, rows, shown.start, shown.end, shown.width)
        if key not in self.cell_cache:
            self.cell_cache[key] = draw_graph_line(graph, shown.bounds, self.styles.glyphs, line.depth, rows)
        return Strip([*gutter, *self._cell_segments(self.cell_cache[key], shown)], shown.total)

    def group_header(self, group: LaneGroup, shown: FrameGeometry, *, folded: bool, cursor: bool) -> Strip:
        """Header of a group; a folded rank shows how busy its devices are over time."""
        rank = group.rank
        if folded and rank is not None and group.entries:
            return self._folded_group(group, rank, shown, cursor=cursor)
        glyphs, theme = self.styles.glyphs, self.styles.theme
        total = shown.total
        first, *rest = (glyphs.to_alphabet(part) for part in group.title)
        fold = glyphs.folded if folded or not group.entries else glyphs.unfolded
        head = f"{fold} {first}"
        between = f" {glyphs.dot} "
        said = self._busy_text(group, shown) if not group.is_unread else self._reading_status(group)
        pieces = [f"{' ' if first == HOST_TITLE and not at else between}{part}" for at, part in enumerate(rest)]
        tail = self._header_tail(pieces, max(0, total - cell_len(head) - len(said) - 4))
        rule = glyphs.rule * max(0, total - cell_len(head) - cell_len(tail) - len(said) - 2)
        style = theme.header + self._cursor_style if cursor else theme.header
        return Strip(
            [Segment(head, style + Style(bold=True)), Segment(f"{tail} ", style), Segment(rule, theme.dim),
             Segment(f" {said}", style if not group.is_unread else theme.dim)]
        )  # fmt: skip

    def _header_tail(self, pieces: Sequence[str], room: int) -> str:
        """Rest of a header in `room` cells; its last part, the changes to the lanes, is cut last."""
        *before, last = pieces or [""]
        spare = room - cell_len(last)
        if not before or spare < 1:
            return self.styles.glyphs.cut("".join(pieces), room)
        return self.styles.glyphs.cut("".join(before), spare) + last

    @property
    def _cursor_style(self) -> Style:
        """Style of the lane under the cursor, which is dim while another pane has the focus."""
        return self.styles.theme.cursor if self.focused else self.styles.theme.idle_cursor

    def ruler_line(self, shown: FrameGeometry, corner: str, *, title: bool = False) -> Strip:
        """Ruler with the selected range."""
        line = draw_ruler(shown.bounds, shown.focus, shown.selection, self.styles.glyphs)
        styles = self.styles.ruler_styles
        cells = [Segment(text, styles[decode_style(code).form]) for text, code in line.runs()]
        return Strip([*self._corner_segments(corner, shown.gutter, title=title), *cells], shown.total)

    def steps_line(self, rank: int | None, shown: FrameGeometry, corner: str, *, title: bool = False) -> Strip:
        """Band of the rank's steps."""
        if rank not in self.step_bands:
            steps = steps_of_rank(self.rows.trace, rank)
            self.step_bands[rank] = (
                build_steps_row(steps, self.styles.coloring),
                step_names(steps, self.styles.glyphs),
            )
        row, names = self.step_bands[rank]
        cells = self._cached_cells(("steps", rank), row, shown, names)
        corner_segments = self._corner_segments(corner, shown.gutter, title=title)
        return Strip([*corner_segments, *self._cell_segments(cells, shown)], shown.total)

    def _folded_group(self, group: LaneGroup, rank: int, shown: FrameGeometry, *, cursor: bool) -> Strip:
        head = f"{self.styles.glyphs.folded} {group.title[0]}"
        gutter = self._gutter_segments(head, shown.gutter, cursor=cursor, dim=False)
        try:
            row = self.rows.busy_row(rank)
        except RowsNotReadError:
            return self._placeholder_line(gutter, shown)
        cells = self._cached_cells(("busy", rank), row, shown, lambda indices: [""] * len(indices))
        return Strip([*gutter, *self._cell_segments(cells, shown)], shown.total)

    def _reading_status(self, group: LaneGroup) -> str:
        """Status of a rank whose file is not read yet."""
        return self.reading_status.get(str(self.rows.trace.parts[group.part].path), NOT_READ)

    def _placeholder_line(self, gutter: list[Segment], shown: FrameGeometry) -> Strip:
        """Dim line in place of rows that are not read yet."""
        theme = self.styles.theme
        text = set_cell_size(self.styles.glyphs.ellipsis, shown.width)
        return Strip([*gutter, Segment(text, theme.ground + theme.dim)])

    def _cached_cells(
        self, key: tuple[object, ...], row: LaneRow, shown: FrameGeometry, names: EventNames
    ) -> LaneCells:
        full = (*key, shown.start, shown.end, shown.width)
        cells = self.cell_cache.get(full)
        if cells is None:
            cells = draw_lane_row(row, shown.bounds, self.styles.glyphs, names)
            self.cell_cache[full] = cells
        return cells

    def _cell_segments(self, cells: LaneCells, shown: FrameGeometry) -> list[Segment]:
        if shown.selected_cells is not None:
            cells = shade_range(cells, *shown.selected_cells)
        return [Segment(text, self.styles.style(code)) for text, code in cells.runs()]

    def _short_names_of(self, lane: int, slices: LaneRows, row: LaneRow) -> EventNames:
        """Function for the short names of the row's events; each name of a lane is shortened once."""

        def names(indices: list[int]) -> list[str]:
            keys = [(lane, code) for code in row.name[indices].tolist()]
            for key in keys:
                if key not in self.short_names:
                    self.short_names[key] = self.styles.glyphs.to_alphabet(
                        shorten_kernel_name(slices.names.name_of_code(key[1]))
                    )
            return [self.short_names[key] for key in keys]

        return names

    def _lane_label(self, line: TimelineLine, name: str, room: int) -> str:
        """Name of a lane, cut so that it differs from others of its group, and the number of its hidden rows."""
        more = f"{self.styles.glyphs.ellipsis} +{count_noun(line.hidden, 'row')}" if line.hidden else ""
        if not line.first:
            return more
        room -= len(more) + 1 if more else 0
        if cell_len(name) > room:
            name = shorten_names_distinctly((track.name for track in line.group.entries), max(1, room))[name]
        return f"{name} {more}".rstrip()

    def _gutter_segments(self, label: str, width: int, *, cursor: bool, dim: bool) -> list[Segment]:
        glyphs, theme = self.styles.glyphs, self.styles.theme
        style = self._cursor_style if cursor else theme.dim if dim else theme.gutter
        lead = glyphs.cursor if cursor else " "
        text = glyphs.cut(label, width - GUTTER_MARGIN)
        return [Segment(set_cell_size(f"{lead}{text}", width - 1), style), Segment(glyphs.gutter, theme.dim)]

    def _corner_segments(self, text: str, width: int, *, title: bool) -> list[Segment]:
        """Text in the gutter above the lanes. The top one is the title of the timeline, which shows the focus."""
        glyphs, theme = self.styles.glyphs, self.styles.theme
        style = theme.title if title and self.focused else theme.ruler
        return [
            Segment(set_cell_size(f" {glyphs.cut(text, width - GUTTER_MARGIN)}", width - 1), style),
            Segment(glyphs.gutter, theme.dim),
        ]

    def _busy_text(self, group: LaneGroup, shown: FrameGeometry) -> str:
        rank = group.rank
        try:
            if rank is None or not len(self.rows.busy_row(rank).start):
                return ""
        except RowsNotReadError:
            return ""
        part = self.rows.busy_time(rank, shown.start, shown.end) / (shown.end - shown.start)
        return f"busy {format_share(part)} of view"


ViewChange = tuple[View, View]
"""View before and after."""


def changed_regions(
    trace: Trace, sight: Viewport, views: ViewChange, slots: set[EventSlot | None], gutter: int, width: int
) -> list[Region]:
    """Regions that change with the view; `slots` are the selected rows before and after."""
    return [
        *_changed_header_regions(trace, sight, views, width),
        *_changed_line_regions(sight, views, slots, gutter, width),
    ]


def _changed_header_regions(trace: Trace, sight: Viewport, views: ViewChange, width: int) -> Iterator[Region]:
    """The ruler if the focus has changed, and the steps if the cursor's rank has."""
    old, new = views
    if old.focus != new.focus:
        yield Region(0, sight.above - 1, width, 1)
    if sight.above > 1 and view_moves.rank_of_view(trace, old) != view_moves.rank_of_view(trace, new):
        yield Region(0, 0, width, 1)


def _changed_line_regions(
    sight: Viewport, views: ViewChange, slots: set[EventSlot | None], gutter: int, width: int
) -> Iterator[Region]:
    """Rows of the selected events, names of the cursor's lanes, and values of counters at the focus."""
    old, new = views
    rows = {slot[:2] for slot in slots if slot is not None} if len(slots) > 1 else set()
    lanes = {old.lane, new.lane} if old.lane != new.lane else set()
    for y, line in sight.numbered_lines:
        if (line.lane, line.depth) in rows:
            yield Region(0, y, width, 1)
        elif any(sight.outline.line_shows_lane(line, lane) for lane in lanes):
            yield Region(0, y, gutter if line.entry else width, 1)
        elif line.entry is not None and line.entry.graph and old.focus != new.focus:
            yield Region(0, y, gutter, 1)
