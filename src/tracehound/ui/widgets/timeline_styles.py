"""Styles of the timeline on this terminal.

Owns the timeline's stylesheet, and the style of each cell code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace
from rich.style import Style
from textual.widget import Widget

from tracehound.draw.event_colors import COLORING_BY_KIND, ColorPalette, EventColoring, choose_palette
from tracehound.draw.glyphs import MONO, UNICODE, Glyphs
from tracehound.draw.lane_cells import CellForm, decode_style

TIMELINE_PARTS = (
    "gutter",
    "cursor",
    "idle-cursor",
    "title",
    "header",
    "dim",
    "ruler",
    "focus",
    "range",
    "chosen",
    "shade",
    "graph",
    "peak",
    "faded",
)
"""Parts of a timeline that the stylesheet colors; fields of `TimelineTheme`."""

TIMELINE_CSS = """
Timeline {
    overflow-x: hidden;
    scrollbar-size-vertical: 1;
    background: $background;
    color: $foreground;
    & > .timeline--gutter { color: $foreground 80%; }
    & > .timeline--cursor { color: $accent; text-style: bold; }
    & > .timeline--idle-cursor { color: $foreground; }
    & > .timeline--title { background: $accent; color: $background; text-style: bold; }
    & > .timeline--header { color: $foreground; }
    & > .timeline--dim { color: $foreground 35%; }
    & > .timeline--ruler { color: $foreground 65%; }
    & > .timeline--focus { color: $accent; text-style: bold; }
    & > .timeline--range { color: $accent; text-style: bold; background: $accent 20%; }
    & > .timeline--chosen { color: $background; background: $foreground; text-style: bold; }
    & > .timeline--shade { background: $accent 14%; }
    & > .timeline--graph { color: $primary; }
    & > .timeline--peak { color: $primary 65%; }
    & > .timeline--faded { color: $foreground 38%; background: $foreground 9%; }
    &:ansi > .timeline--title { background: ansi_default; color: ansi_default; text-style: bold reverse; }
    &:nocolor > .timeline--title { text-style: bold reverse; }
    &:nocolor > .timeline--idle-cursor { text-style: underline; }
    &:ansi > .timeline--faded { color: ansi_bright_black; background: ansi_default; }
    &:nocolor > .timeline--faded { text-style: dim; }
    &:ansi > .timeline--range { background: ansi_default; }
    &:ansi > .timeline--shade { background: ansi_default; text-style: underline; }
    &:nocolor > .timeline--chosen { text-style: bold underline; }
    &:nocolor > .timeline--cursor { text-style: bold reverse; }
    &:nocolor > .timeline--shade { text-style: underline; }
}
"""


class TimelineTheme(Struct, frozen=True):
    """Styles of everything but events, from the stylesheet."""

    ground: Style
    gutter: Style
    cursor: Style
    idle_cursor: Style
    title: Style
    header: Style
    dim: Style
    ruler: Style
    focus: Style
    range: Style
    chosen: Style
    shade: Style
    graph: Style
    peak: Style
    faded: Style


class TimelineStyles(Struct, dict=True):
    """Glyphs, palette, theme and coloring of a timeline."""

    glyphs: Glyphs
    palette: ColorPalette
    theme: TimelineTheme
    coloring: EventColoring = COLORING_BY_KIND
    styles: dict[int, Style] = field(default_factory=dict)

    def style(self, code: int) -> Style:
        """Style of a cell code."""
        if code not in self.styles:
            self.styles[code] = self._resolve_style(code)
        return self.styles[code]

    def _resolve_style(self, code: int) -> Style:
        form, kind, tint, shaded, faded = decode_style(code)
        ground = self.theme.shade if shaded else self.theme.ground
        if form is CellForm.EMPTY:
            return ground
        if form is CellForm.CHOSEN:
            return self.theme.chosen
        if form is CellForm.GRAPH:
            return ground + Style.from_color((self.theme.peak if tint else self.theme.graph).color)
        if faded:
            return (
                self.theme.faded
                if form is CellForm.BAR
                else ground + Style(color=self.theme.faded.color, dim=self.theme.faded.dim)
            )
        hue = self.coloring.hues[kind]
        color = self.palette.hue_color(hue, tint)
        if form is CellForm.BAR:
            return Style(color=self.palette.text_color_on(hue), bgcolor=color) if color else Style(reverse=True)
        return ground + Style(color=color) if color else ground

    @cached_property
    def ruler_styles(self) -> Mapping[CellForm, Style]:
        """Styles of the ruler's cells: words, the focus, the selected range."""
        return {CellForm.EMPTY: self.theme.ruler, CellForm.CHOSEN: self.theme.focus, CellForm.BAR: self.theme.range}


def resolve_styles(widget: Widget, glyphs: Glyphs, coloring: EventColoring = COLORING_BY_KIND) -> TimelineStyles:
    """Styles of a widget that has a component class for each of `TIMELINE_PARTS`."""
    app = widget.app
    system = None if app.no_color else app.console.color_system or "truecolor"
    ground = Style(bgcolor=widget.rich_style.bgcolor)
    theme = TimelineTheme(ground, *(widget.get_component_rich_style(f"timeline--{name}") for name in TIMELINE_PARTS))
    alphabet = MONO if app.no_color and glyphs is UNICODE else glyphs
    alphabet = replace(alphabet, letters=coloring.letters)
    return TimelineStyles(alphabet, choose_palette(system, dark=app.current_theme.dark), theme, coloring)
