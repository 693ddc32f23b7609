"""The two themes of the explorer.

Own their colours. On a terminal of sixteen colours its own palette is used instead, which its user chose.
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

SHORT = {"dark": DARK.name, "light": LIGHT.name}
"""Names that are easier to type."""

KNOWN = frozenset([*BUILTIN_THEMES, *(theme.name for theme in THEMES)])
"""All themes that there are before an app starts."""


def chosen(name: str | None, system: str | None, known: Collection[str]) -> str:
    """The theme called `name`, or the one to start with on a terminal whose colours rich calls `system`.

    Raises TracehoundError when it is none of those `known`.
    """
    if name is None:
        return "ansi-dark" if system in (None, "standard", "windows") else DARK.name
    return checked(name, known)


def checked(name: str, known: Collection[str] = KNOWN) -> str:
    """The whole name of a theme. Raises TracehoundError when it is none of those `known`."""
    theme = SHORT.get(name, name)
    if theme not in known:
        raise TracehoundError(f"no theme is called {name}", remedy=f"there are {', '.join([*SHORT, *sorted(known)])}")
    return theme
