"""What colour and which letter a kind of event has, everywhere.

Owns the one palette: seven hues and a grey, each in true colour and in the sixteen of a terminal. Knows nothing of the
terminal toolkit. A hue stands for what a person would do about the time: computing, communicating, moving memory,
running operators on the host, calling the runtime, waiting, and what is only a name for a stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from tracehound.trace import KINDS

Hue = Literal["blue", "orange", "yellow", "green", "cyan", "red", "violet", "grey"]

HUES: Mapping[str, Hue] = MappingProxyType(
    {
        "kernel": "blue",
        "collective": "orange",
        "copy": "yellow",
        "memset": "yellow",
        "transfer": "yellow",
        "op": "green",
        "runtime": "cyan",
        "sync": "red",
        "compile": "red",
        "annotation": "violet",
        "step": "violet",
        "module": "violet",
        "python": "grey",
        "other": "grey",
    }
)
"""The hue of a kind."""

LETTERS: Mapping[str, str] = MappingProxyType(
    {
        "kernel": "K",
        "collective": "C",
        "copy": "Y",
        "memset": "M",
        "op": "O",
        "runtime": "R",
        "annotation": "A",
        "step": "S",
        "module": "D",
        "python": "P",
        "sync": "N",
        "transfer": "T",
        "compile": "L",
        "other": "E",
    }
)
"""The letter of a kind: one that its name contains, and no other kind has."""

TINTS = 3
"""Shades of one hue; slices of equal names have equal shades, so that a pattern that repeats can be seen."""


class Palette(Struct, frozen=True):
    """How hues look on one sort of terminal.

    `shades[hue]` are `TINTS` colours in any notation that rich parses, the first the one that is best seen, and `ink`
    is what is written on them, `quiet` on the greys. A palette without shades is for terminals without colour: there
    slices are drawn in reverse.
    """

    name: str
    shades: Mapping[Hue, tuple[str, str, str]]
    ink: str
    quiet: str

    def colour(self, kind: str, tint: int = 0) -> str | None:
        """The colour of a kind, or None on a terminal without colour."""
        return self.shade(HUES[kind], tint)

    def shade(self, hue: Hue, tint: int = 0) -> str | None:
        """The colour of a hue, or None on a terminal without colour."""
        return self.shades[hue][tint % TINTS] if self.shades else None

    def ink_on(self, hue: Hue) -> str:
        """The colour of words on a hue."""
        return self.quiet if hue == "grey" else self.ink


DARK = Palette(
    "dark",
    MappingProxyType(
        {
            "blue": ("#5b9cf5", "#7db4fb", "#4585e0"),
            "orange": ("#f5944b", "#fbb07a", "#e07c30"),
            "yellow": ("#e6c84f", "#f1da80", "#cfb038"),
            "green": ("#63bd7f", "#87d09d", "#4ca669"),
            "cyan": ("#4fbfcf", "#7dd3df", "#38a7b7"),
            "red": ("#ec6a6a", "#f49393", "#d75151"),
            "violet": ("#b08cf0", "#c7acf7", "#9873dc"),
            "grey": ("#5c677b", "#4b5567", "#3f4858"),
        }
    ),
    ink="#0d1117",
    quiet="#e6edf3",
)
"""True colour on a dark ground; rich brings it down to 256 colours where a terminal has no more."""

LIGHT = Palette(
    "light",
    MappingProxyType(
        {
            "blue": ("#5b94ea", "#78a8f0", "#4280df"),
            "orange": ("#ee8434", "#f39a58", "#dd6f1c"),
            "yellow": ("#cda71a", "#d9b93c", "#b8940a"),
            "green": ("#4aa868", "#66b981", "#339351"),
            "cyan": ("#2fa3b5", "#50b4c3", "#1a8fa1"),
            "red": ("#e25c5c", "#ea7b7b", "#d85050"),
            "violet": ("#9c76e6", "#ae8eee", "#9068de"),
            "grey": ("#a9b3c1", "#c3cad5", "#b6bfcb"),
        }
    ),
    ink="#0d1117",
    quiet="#0d1117",
)
"""True colour on a light ground."""

SIXTEEN = Palette(
    "sixteen",
    MappingProxyType(
        {
            "blue": ("bright_blue",) * 3,
            "orange": ("bright_magenta",) * 3,
            "yellow": ("bright_yellow",) * 3,
            "green": ("bright_green",) * 3,
            "cyan": ("bright_cyan",) * 3,
            "red": ("bright_red",) * 3,
            "violet": ("magenta",) * 3,
            "grey": ("bright_black",) * 3,
        }
    ),
    ink="black",
    quiet="bright_white",
)
"""The terminal's own sixteen colours, which its user chose."""

NO_COLOUR = Palette("none", MappingProxyType({}), ink="", quiet="")


def legend(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """(letter, kind) of the kinds given, in the order of legends."""
    present = set(kinds)
    return [(LETTERS[kind], kind) for kind in KINDS if kind in present]


def fitting(system: str | None, *, dark: bool) -> Palette:
    """The palette for a terminal whose colours rich calls `system` (None: no colour), on a dark or a light ground."""
    if system is None:
        return NO_COLOUR
    if system in ("standard", "windows"):
        return SIXTEEN
    return DARK if dark else LIGHT
