"""Lines of the timeline -> strips.

Owns the layout of gutter, header and lane. Holds no state but the cells of the frames drawn last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from tracehound.draw.apart import apart
from tracehound.draw.graph import plot
from tracehound.draw.lanes import Cells, Names, choose, edges, ink, paint, shade
from tracehound.draw.outline import HOST, Group, Line, Outline, Track
from tracehound.draw.path import Path, marked
from tracehound.draw.rows import Row, Slices
from tracehound.draw.ruler import cells_of_range, ruler, step_names, steps_row
from tracehound.draw.shelf import NotReadError, Rows
from tracehound.draw.sight import Sight
from tracehound.intervals import Ints
from tracehound.ui.background.supply import Slot
from tracehound.ui.state.navigate import rank_of
from tracehound.ui.state.places import steps_of
from tracehound.ui.state.view import View
from tracehound.ui.widgets.looks import Looks
from tracehound.units import plural, share, short_name

LEAST_NAME = 8
"""Cells of a counter's name that stay beside its value."""

NOT_READ = "not read yet"
"""What the header says of a rank whose file has its turn later."""


MARGIN = 3
"""Cells of the gutter in which no name stands: one before it, two behind."""


class Shown(Struct, frozen=True, dict=True):
    """What a frame shows: `width` cells of lanes beside `gutter` cells of names, over `[start, end)`."""

    start: int
    end: int
    gutter: int
    width: int
    focus: int | None
    selection: tuple[int, int] | None

    @property
    def total(self) -> int:
        """Cells of a line."""
        return self.gutter + self.width

    @cached_property
    def bounds(self) -> Ints:
        """The bounds of the cells."""
        return edges(self.start, self.end, self.width)

    def time(self, column: int) -> int:
        """When a cell begins; the first or last bound for a column beside the cells."""
        return int(self.bounds[min(max(column, 0), self.width)])

    @cached_property
    def shaded(self) -> tuple[int, int] | None:
        """The cells of the selected range."""
        return None if self.selection is None else cells_of_range(self.bounds, *self.selection)


def shown(view: View, gutter: int, width: int) -> Shown:
    """The frame of a view on `width` cells, of which `gutter` are for names."""
    return Shown(view.start, view.end, gutter, max(1, width - gutter), view.focus, view.selection)


class Picture(Struct, frozen=True):
    """What all lines of a frame are drawn from; `corner` is said beside the times."""

    view: View
    sight: Sight
    shown: Shown
    chosen: Slot | None
    corner: str


class Artist(Struct):
    """Draws the lines of one trace."""

    rows: Rows
    looks: Looks
    cells: LRUCache[tuple[object, ...], Cells] = field(default_factory=lambda: LRUCache(1024))
    words: dict[tuple[int, int], str] = field(default_factory=dict)
    bands: dict[int | None, tuple[Row, Names]] = field(default_factory=dict)
    news: Mapping[str, str] = field(default_factory=dict)  # by the path of a file that is being read
    path: Path | None = None

    def draw(self, y: int, of: Picture) -> Strip:
        """Line `y` of the widget, over its whole width."""
        return self._drawn(y, of).adjust_cell_length(of.shown.total, self.looks.theme.ground)

    def _drawn(self, y: int, of: Picture) -> Strip:
        """The steps, where there are any, the times, then lanes under the header of a group."""
        sight, at = of.sight, y - of.sight.above
        if at < -1:
            return self.steps(rank_of(self.rows.trace, of.view), of.shown, "steps")
        if at == -1:
            return self.ruler(of.shown, of.corner)
        where = (sight.sheet, sight.index(at), of.shown, of.view.lane)
        return self.sticky(*where) if at == sight.stays else self.line(*where, of.chosen)

    def line(self, sheet: Outline, index: int, shown: Shown, lane: int | None, chosen: Slot | None) -> Strip:
        """Line `index` of an outline, with the cursor on `lane` and the slice `chosen` selected."""
        if index >= len(sheet.lines):
            return Strip([])
        line = sheet.lines[index]
        if line.track is None:
            return self.sticky(sheet, index, shown, lane)
        return self.lane(line, line.track, shown, cursor=line.lane == lane, chosen=chosen)

    def sticky(self, sheet: Outline, index: int, shown: Shown, lane: int | None) -> Strip:
        """The header of the group of line `index`: the first line on the screen always says where one is."""
        if index >= len(sheet.lines):
            return Strip([])
        header = Line(sheet.lines[index].group)
        cursor = sheet.stands_for(header, lane)
        return self.header(header.group, shown, folded=header.group.key in sheet.folded, cursor=cursor)

    def lane(self, line: Line, track: Track, shown: Shown, *, cursor: bool, chosen: Slot | None) -> Strip:
        """A row of a lane; its name alone where its slices have yet to be read."""
        if track.graph:
            return self.graph(line, track, shown, cursor=cursor)
        label = self._label(line, track.name, shown.gutter - MARGIN)
        gutter = self._gutter(label, shown.gutter, cursor=cursor, dim=not line.first)
        try:
            slices, row = self.rows.lane(track.lane), self.rows.row(track.lane, line.depth)
        except NotReadError:
            return self._waiting(gutter, shown)
        cells = self._cells((track.lane, line.depth), row, shown, self._names(track.lane, slices, row))
        if self.path is not None:
            stretches = self.path.within(track.lane, row, slices.first)
            cells = marked(cells, stretches, shown.bounds, self.looks.glyphs)
        if chosen is not None and chosen[:2] == (track.lane, line.depth):
            cells = choose(cells, row, chosen[2], shown.bounds, self.looks.glyphs)
        return Strip([*gutter, *self._segments(cells, shown)], shown.total)

    def graph(self, line: Line, track: Track, shown: Shown, *, cursor: bool) -> Strip:
        """A line of a counter's graph; beside it its name and value at the focus, on those below its scale."""
        graph, rows = self.rows.graph(track.lane), line.lines
        value = None if shown.focus is None else graph.at(shown.focus)
        here = "" if value is None else graph.words(value)
        bottom, top = map(graph.words, graph.scale)
        labels = (track.name, here, f"to {top}", f"from {bottom}")
        gutter = self._gutter(labels[line.depth], shown.gutter, cursor=cursor, dim=not line.first)
        if rows == 1 and here and shown.gutter - 3 - len(here) >= LEAST_NAME:
            name = self.looks.glyphs.cut(track.name, shown.gutter - 4 - len(here))
            said = name.ljust(shown.gutter - 3 - len(here)) + here
            gutter = self._gutter(said, shown.gutter, cursor=cursor, dim=False)
        key = ("graph", track.lane, line.depth, rows, shown.start, shown.end, shown.width)
        if key not in self.cells:
            self.cells[key] = plot(graph, shown.bounds, self.looks.glyphs, line.depth, rows)
        return Strip([*gutter, *self._segments(self.cells[key], shown)], shown.total)

    def header(self, group: Group, shown: Shown, *, folded: bool, cursor: bool) -> Strip:
        """The header of a group; folded, it shows how busy the rank is along the way."""
        rank = group.rank
        if folded and rank is not None and group.tracks:
            return self._folded(group, rank, shown, cursor=cursor)
        glyphs, theme = self.looks.glyphs, self.looks.theme
        total = shown.total
        first, *rest = (glyphs.words(part) for part in group.title)
        fold = glyphs.folded if folded or not group.tracks else glyphs.unfolded
        head = f"{fold} {first}"
        between = f" {glyphs.dot} "
        said = self._busy(group, shown) if not group.unread else self._news(group)
        pieces = [f"{' ' if first == HOST and not at else between}{part}" for at, part in enumerate(rest)]
        tail = self._tail(pieces, max(0, total - cell_len(head) - len(said) - 4))
        rule = glyphs.rule * max(0, total - cell_len(head) - cell_len(tail) - len(said) - 2)
        style = theme.header + theme.cursor if cursor else theme.header
        return Strip(
            [Segment(head, style + Style(bold=True)), Segment(f"{tail} ", style), Segment(rule, theme.dim),
             Segment(f" {said}", style if not group.unread else theme.dim)]
        )  # fmt: skip

    def _tail(self, pieces: Sequence[str], room: int) -> str:
        """What a header says, in so many cells; the last of it is what was done to the lanes, and is cut last."""
        *before, last = pieces or [""]
        spare = room - cell_len(last)
        if not before or spare < 1:
            return self.looks.glyphs.cut("".join(pieces), room)
        return self.looks.glyphs.cut("".join(before), spare) + last

    def ruler(self, shown: Shown, corner: str) -> Strip:
        """The line of times, with the selected range over it."""
        line = ruler(shown.bounds, shown.focus, shown.selection, self.looks.glyphs)
        styles = self.looks.ruler_styles
        cells = [Segment(text, styles[ink(code).form]) for text, code in line.runs()]
        return Strip([*self._corner(corner, shown.gutter), *cells], shown.total)

    def steps(self, rank: int | None, shown: Shown, corner: str) -> Strip:
        """The band of the rank's steps."""
        if rank not in self.bands:
            steps = steps_of(self.rows.trace, rank)
            self.bands[rank] = (steps_row(steps, self.looks.colouring), step_names(steps, self.looks.glyphs))
        row, names = self.bands[rank]
        cells = self._cells(("steps", rank), row, shown, names)
        return Strip([*self._corner(corner, shown.gutter), *self._segments(cells, shown)], shown.total)

    def _folded(self, group: Group, rank: int, shown: Shown, *, cursor: bool) -> Strip:
        head = f"{self.looks.glyphs.folded} {group.title[0]}"
        gutter = self._gutter(head, shown.gutter, cursor=cursor, dim=False)
        try:
            row = self.rows.busy(rank)
        except NotReadError:
            return self._waiting(gutter, shown)
        cells = self._cells(("busy", rank), row, shown, lambda indices: [""] * len(indices))
        return Strip([*gutter, *self._segments(cells, shown)], shown.total)

    def _news(self, group: Group) -> str:
        """What is known of a rank whose file is not read yet."""
        return self.news.get(str(self.rows.trace.parts[group.part].path), NOT_READ)

    def _waiting(self, gutter: list[Segment], shown: Shown) -> Strip:
        """A quiet line in place of what will come."""
        theme = self.looks.theme
        text = set_cell_size(self.looks.glyphs.ellipsis, shown.width)
        return Strip([*gutter, Segment(text, theme.ground + theme.dim)])

    def _cells(self, key: tuple[object, ...], row: Row, shown: Shown, names: Names) -> Cells:
        full = (*key, shown.start, shown.end, shown.width)
        cells = self.cells.get(full)
        if cells is None:
            cells = paint(row, shown.bounds, self.looks.glyphs, names)
            self.cells[full] = cells
        return cells

    def _segments(self, cells: Cells, shown: Shown) -> list[Segment]:
        if shown.shaded is not None:
            cells = shade(cells, *shown.shaded)
        return [Segment(text, self.looks.style(code)) for text, code in cells.runs()]

    def _names(self, lane: int, slices: Slices, row: Row) -> Names:
        """Short names of the row's slices; each name of a lane is shortened once."""

        def names(indices: list[int]) -> list[str]:
            keys = [(lane, code) for code in row.name[indices].tolist()]
            for key in keys:
                if key not in self.words:
                    self.words[key] = self.looks.glyphs.words(short_name(slices.names.word(key[1])))
            return [self.words[key] for key in keys]

        return names

    def _label(self, line: Line, name: str, room: int) -> str:
        """The name of a lane, cut so that those of its group are told apart, and how many rows have no line."""
        more = f"{self.looks.glyphs.ellipsis} +{plural(line.hidden, 'row')}" if line.hidden else ""
        if not line.first:
            return more
        room -= len(more) + 1 if more else 0
        if cell_len(name) > room:
            name = apart((track.name for track in line.group.tracks), max(1, room))[name]
        return f"{name} {more}".rstrip()

    def _gutter(self, label: str, width: int, *, cursor: bool, dim: bool) -> list[Segment]:
        glyphs, theme = self.looks.glyphs, self.looks.theme
        style = theme.cursor if cursor else theme.dim if dim else theme.gutter
        lead = glyphs.cursor if cursor else " "
        text = glyphs.cut(label, width - MARGIN)
        return [Segment(set_cell_size(f"{lead}{text}", width - 1), style), Segment(glyphs.gutter, theme.dim)]

    def _corner(self, text: str, width: int) -> list[Segment]:
        glyphs, theme = self.looks.glyphs, self.looks.theme
        return [
            Segment(set_cell_size(f" {glyphs.cut(text, width - MARGIN)}", width - 1), theme.ruler),
            Segment(glyphs.gutter, theme.dim),
        ]

    def _busy(self, group: Group, shown: Shown) -> str:
        rank = group.rank
        try:
            if rank is None or not len(self.rows.busy(rank).start):
                return ""
        except NotReadError:
            return ""
        part = self.rows.busy_time(rank, shown.start, shown.end) / (shown.end - shown.start)
        return f"busy {share(part)} of view"
