"""How this terminal shows a timeline: the styles of its parts, and how inks become styles.

Owns the timeline's stylesheet. Knows no line and no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace
from rich.style import Style
from textual.widget import Widget

from tracehound.draw.colouring import BY_KIND, Colouring
from tracehound.draw.glyphs import MONO, UNICODE, Glyphs
from tracehound.draw.lanes import Form, ink
from tracehound.draw.palette import Palette, fitting

PARTS = ("gutter", "cursor", "header", "dim", "ruler", "focus", "range", "chosen", "shade", "graph", "peak", "faded")
"""The parts of a timeline that the stylesheet colours; the fields of `Theme`."""

CSS = """
Timeline {
    overflow-x: hidden;
    scrollbar-size-vertical: 1;
    background: $background;
    color: $foreground;
    & > .timeline--gutter { color: $foreground 80%; }
    & > .timeline--cursor { color: $accent; text-style: bold; }
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
    &:ansi > .timeline--faded { color: ansi_bright_black; background: ansi_default; }
    &:nocolor > .timeline--faded { text-style: dim; }
    &:ansi > .timeline--range { background: ansi_default; }
    &:ansi > .timeline--shade { background: ansi_default; text-style: underline; }
    &:nocolor > .timeline--chosen { text-style: bold underline; }
    &:nocolor > .timeline--cursor { text-style: bold reverse; }
    &:nocolor > .timeline--shade { text-style: underline; }
}
"""


class Theme(Struct, frozen=True):
    """The styles of everything but slices; the widget takes them from its stylesheet."""

    ground: Style
    gutter: Style
    cursor: Style
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


class Looks(Struct, dict=True):
    """How this terminal shows a timeline."""

    glyphs: Glyphs
    palette: Palette
    theme: Theme
    colouring: Colouring = BY_KIND
    styles: dict[int, Style] = field(default_factory=dict)

    def style(self, code: int) -> Style:
        """The style of an ink."""
        if code not in self.styles:
            self.styles[code] = self._style(code)
        return self.styles[code]

    def _style(self, code: int) -> Style:
        form, kind, tint, shaded, faded = ink(code)
        ground = self.theme.shade if shaded else self.theme.ground
        if form is Form.EMPTY:
            return ground
        if form is Form.CHOSEN:
            return self.theme.chosen
        if form is Form.GRAPH:
            return ground + Style.from_color((self.theme.peak if tint else self.theme.graph).color)
        if faded:
            return (
                self.theme.faded
                if form is Form.BAR
                else ground + Style(color=self.theme.faded.color, dim=self.theme.faded.dim)
            )
        hue = self.colouring.hues[kind]
        colour = self.palette.shade(hue, tint)
        if form is Form.BAR:
            return Style(color=self.palette.ink_on(hue), bgcolor=colour) if colour else Style(reverse=True)
        return ground + Style(color=colour) if colour else ground

    @cached_property
    def ruler_styles(self) -> Mapping[Form, Style]:
        """The styles of the ruler's cells: words, the focus, the selected range."""
        return {Form.EMPTY: self.theme.ruler, Form.CHOSEN: self.theme.focus, Form.BAR: self.theme.range}


def looks(widget: Widget, glyphs: Glyphs, colouring: Colouring = BY_KIND) -> Looks:
    """The looks of a widget that has a component class for each of `PARTS`."""
    app = widget.app
    system = None if app.no_color else app.console.color_system or "truecolor"
    ground = Style(bgcolor=widget.rich_style.bgcolor)
    theme = Theme(ground, *(widget.get_component_rich_style(f"timeline--{name}") for name in PARTS))
    alphabet = MONO if app.no_color and glyphs is UNICODE else glyphs
    alphabet = replace(alphabet, letters=colouring.letters)
    return Looks(alphabet, fitting(system, dark=app.current_theme.dark), theme, colouring)
