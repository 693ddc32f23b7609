"""Glyphs and colors that this terminal can show.

Owns the choice of alphabet and palette, made from the terminal's abilities and the theme. Knows no widget.
"""

from __future__ import annotations

from msgspec import Struct
from rich.style import Style
from textual.app import App

from tracehound.draw.event_colors import KIND_HUES, ColorPalette, choose_palette
from tracehound.draw.glyphs import Glyphs

CATEGORY_KINDS = (
    ("collective", ("all-reduce", "all-gather", "reduce-scatter", "collective", "all-to-all", "nccl", "rccl")),
    ("copy", ("copy", "memcpy", "data formatting", "transpose")),
    ("memset", ("memset",)),
    ("transfer", ("infeed", "outfeed", "send", "recv", "transfer")),
    ("kernel", ("fusion", "convolution", "custom-call", "dot", "gemm", "while", "kernel")),
)
"""Kinds by what is in the name of an HLO category, so that a table has the colours of the timeline."""


class Appearance(Struct, frozen=True):
    """An alphabet and a palette."""

    glyphs: Glyphs
    palette: ColorPalette

    @property
    def rising(self) -> str:
        """The mark of a column whose values rise from top to bottom."""
        return "^" if self.glyphs.name == "ascii" else "▲"

    @property
    def falling(self) -> str:
        """The mark of a column whose values fall from top to bottom."""
        return "v" if self.glyphs.name == "ascii" else "▼"

    def words(self, text: str) -> str:
        """`text` on one line, safe to print, in characters that the alphabet has."""
        return self.glyphs.words(text)

    def kind(self, category: str) -> Style:
        """The colour of a kind, or of an HLO category like one."""
        colour = self.palette.kind_color(kind_of_category(category))
        return Style(color=colour) if colour is not None else Style.null()


def kind_of_category(category: str) -> str:
    """The kind that a category of ops belongs to; the kind itself where it is one."""
    if category in KIND_HUES:
        return category
    low = category.lower()
    return next((kind for kind, parts in CATEGORY_KINDS if any(part in low for part in parts)), "other")


def appearance_of(app: App[object], glyphs: Glyphs) -> Appearance:
    """Glyphs and palette for this terminal and the current theme."""
    system = None if app.no_color else app.console.color_system or "truecolor"
    return Appearance(glyphs, choose_palette(system, dark=app.current_theme.dark))
