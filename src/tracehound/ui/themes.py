"""The two color themes of the explorer.

Terminals with sixteen colors use their own palette instead.
"""

from __future__ import annotations

from collections.abc import Collection

from textual.theme import BUILTIN_THEMES, Theme

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
