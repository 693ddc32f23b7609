"""The two color themes of the explorer, and the glyphs and colors that a terminal can show.

Terminals with sixteen colors use their own palette instead.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from rich.style import Style
from textual.app import App
from textual.theme import BUILTIN_THEMES, Theme

from tracehound.draw.event_colors import KIND_HUES, ColorPalette, choose_palette
from tracehound.draw.glyphs import Glyphs
from tracehound.errors import TracehoundError

DARK = Theme(
    name="tracehound-dark",
    primary="#7db4fb",
    secondary="#b08cf0",
    accent="#f5b454",
    foreground="#d6dce6",
    background="#0d1117",
    surface="#11161f",
    panel="#171d28",
    boost="#1d2533",
    success="#63bd7f",
    warning="#e6c84f",
    error="#ec6a6a",
    dark=True,
    variables={
        "block-cursor-background": "#2b4a75",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "none",
        "scrollbar": "#2a3445",
        "scrollbar-background": "#11161f",
        "scrollbar-hover": "#3a4860",
        "scrollbar-active": "#4a5c7c",
    },
)

LIGHT = Theme(
    name="tracehound-light",
    primary="#1f5fbf",
    secondary="#6e49c9",
    accent="#a85a00",
    foreground="#1f2530",
    background="#fbfbf9",
    surface="#f4f4f1",
    panel="#e9eaec",
    boost="#e2e6ee",
    success="#2c7a47",
    warning="#8a6d00",
    error="#b83232",
    dark=False,
    variables={
        "block-cursor-background": "#cfe0fa",
        "block-cursor-foreground": "#0d1117",
        "block-cursor-text-style": "none",
        "scrollbar": "#c5cbd5",
        "scrollbar-background": "#f4f4f1",
    },
)

THEMES = (DARK, LIGHT)

THEME_ALIASES = {"dark": DARK.name, "light": LIGHT.name}
"""Short names of our themes."""

THEME_NAMES = frozenset([*BUILTIN_THEMES, *(theme.name for theme in THEMES)])
"""Names of all themes that exist before an application starts."""


def choose_theme(name: str | None, system: str | None, known: Collection[str]) -> str:
    """Full name of the theme `name`, or of the default for a terminal whose color system rich calls `system`.

    Raises TracehoundError when it is none of those `known`.
    """
    if name is None:
        return "ansi-dark" if system in (None, "standard", "windows") else DARK.name
    return resolve_theme_name(name, known)


def resolve_theme_name(name: str, known: Collection[str] = THEME_NAMES) -> str:
    """Full name of a theme. Raises TracehoundError when it is none of those `known`."""
    theme = THEME_ALIASES.get(name, name)
    if theme not in known:
        raise TracehoundError(
            f"no theme is called {name}", remedy=f"there are {', '.join([*THEME_ALIASES, *sorted(known)])}"
        )
    return theme


CATEGORY_KINDS = (
    ("collective", ("all-reduce", "all-gather", "reduce-scatter", "collective", "all-to-all", "nccl", "rccl")),
    ("copy", ("copy", "memcpy", "data formatting", "transpose")),
    ("memset", ("memset",)),
    ("transfer", ("infeed", "outfeed", "send", "recv", "transfer")),
    ("kernel", ("fusion", "convolution", "custom-call", "dot", "gemm", "while", "kernel")),
)
"""Kinds by what is in the name of an HLO category, so that a table has the colors of the timeline."""


class Appearance(Struct, frozen=True):
    """An alphabet and a palette."""

    glyphs: Glyphs
    palette: ColorPalette

    @property
    def rising_mark(self) -> str:
        """The mark of a column whose values rise from top to bottom."""
        return "^" if self.glyphs.name == "ascii" else "▲"

    @property
    def falling_mark(self) -> str:
        """The mark of a column whose values fall from top to bottom."""
        return "v" if self.glyphs.name == "ascii" else "▼"

    def words(self, text: str) -> str:
        """`text` on one line, safe to print, in characters that the alphabet has."""
        return self.glyphs.to_alphabet(text)

    def kind_style(self, category: str) -> Style:
        """The color of a kind, or of an HLO category like one."""
        color = self.palette.kind_color(kind_of_category(category))
        return Style(color=color) if color is not None else Style.null()


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
