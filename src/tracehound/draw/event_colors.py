"""Colors of events: hues and letters of kinds, and coloring by kind, name, HLO category, step or difference.

There is one palette: seven hues and a gray, each in true color and in the sixteen colors of a terminal. A hue stands
for an activity: computing, communicating, moving memory, running operators on the host, calling the runtime, waiting,
and naming an interval. Uses no terminal toolkit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.model.trace import KIND_CODES, KINDS, Trace
from tracehound.numeric.intervals import Ints

Hue = Literal["blue", "orange", "yellow", "green", "cyan", "red", "violet", "gray"]

KIND_HUES: Mapping[str, Hue] = MappingProxyType(
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
        "python": "gray",
        "other": "gray",
    }
)
"""The hue of each kind."""

KIND_LETTERS: Mapping[str, str] = MappingProxyType(
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
"""The letter of each kind: it occurs in the name of the kind and is unique."""

TINTS_PER_HUE = 3
"""Shades of one hue. Events with equal names have equal shades, which makes repeating patterns visible."""


ColorBy = Literal["kind", "name", "category", "step", "difference"]

CLASS_HUES: Final[tuple[Hue, ...]] = ("blue", "orange", "green", "violet", "yellow", "cyan", "red", "gray")
"""The hue of each class if classes are not kinds; the last is for events without a class."""

_NO_CLASS: Final = len(CLASS_HUES) - 1

_CLASS_LETTERS: Final[Mapping[ColorBy, str]] = {
    "name": "ABCDEFGH",
    "category": "ABCDEFGx",
    "step": "0123456x",
    "difference": "x+<-xx>=",
}

DIFFERENCE_CLASSES: Final[Mapping[str, int]] = MappingProxyType(
    {"the same": _NO_CLASS, "slower": 6, "faster": 2, "added": 1, "removed": 3}
)
"""The class of each difference between two runs. Traces that show differences have these as categories of ops."""

NAME_COLORS: Final = TINTS_PER_HUE * len(CLASS_HUES)
"""The number of different looks of names: a name's code modulo this number is its look."""

ColorClasses = npt.NDArray[np.uint8]

_CLASS_HUES: Final[Mapping[str, Hue]] = MappingProxyType(
    {kind: CLASS_HUES[min(code, _NO_CLASS)] for kind, code in KIND_CODES.items()}
)


class ColorPalette(Struct, frozen=True):
    """The colors of hues on one type of terminal.

    `shades[hue]` are `TINTS_PER_HUE` colors in any notation of rich, the most visible first. `text_color` is the color
    of text on them, `text_color_on_gray` on grays. A palette without shades is for terminals without color: events are
    drawn in reverse there.
    """

    name: str
    shades: Mapping[Hue, tuple[str, str, str]]
    text_color: str
    text_color_on_gray: str

    def kind_color(self, kind: str, tint: int = 0) -> str | None:
        """The color of a kind; None on a terminal without color."""
        return self.hue_color(KIND_HUES[kind], tint)

    def hue_color(self, hue: Hue, tint: int = 0) -> str | None:
        """The color of a hue; None on a terminal without color."""
        return self.shades[hue][tint % TINTS_PER_HUE] if self.shades else None

    def text_color_on(self, hue: Hue) -> str:
        """The color of text on a hue."""
        return self.text_color_on_gray if hue == "gray" else self.text_color


DARK_PALETTE = ColorPalette(
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
            "gray": ("#5c677b", "#4b5567", "#3f4858"),
        }
    ),
    text_color="#0d1117",
    text_color_on_gray="#e6edf3",
)
"""True color on a dark background. Rich reduces it to 256 colors if the terminal has no more."""

LIGHT_PALETTE = ColorPalette(
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
            "gray": ("#a9b3c1", "#c3cad5", "#b6bfcb"),
        }
    ),
    text_color="#0d1117",
    text_color_on_gray="#0d1117",
)
"""True color on a light background."""

SIXTEEN_COLOR_PALETTE = ColorPalette(
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
            "gray": ("bright_black",) * 3,
        }
    ),
    text_color="black",
    text_color_on_gray="bright_white",
)
"""The sixteen colors of the terminal, as its user configured them."""

NO_COLOR_PALETTE = ColorPalette("none", MappingProxyType({}), text_color="", text_color_on_gray="")


def kind_legend(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """(letter, kind) of the given kinds, in legend order."""
    present = set(kinds)
    return [(KIND_LETTERS[kind], kind) for kind in KINDS if kind in present]


def choose_palette(system: str | None, *, dark: bool) -> ColorPalette:
    """The palette for a terminal with a dark or light background.

    `system` is its color system as rich names it; None: no color.
    """
    if system is None:
        return NO_COLOR_PALETTE
    if system in ("standard", "windows"):
        return SIXTEEN_COLOR_PALETTE
    return DARK_PALETTE if dark else LIGHT_PALETTE


class EventColoring(Struct, frozen=True, eq=False):
    """The color classes of the events of one trace. `categories` are those with a class of their own, in order.

    `ops` are the ids of HLO ops, sorted, and `op_classes` the class of each.
    """

    by: ColorBy = "kind"
    categories: tuple[str, ...] = ()
    ops: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    op_classes: ColorClasses = field(default_factory=lambda: np.empty(0, np.uint8))

    @property
    def columns(self) -> tuple[str, ...]:
        """The event columns it needs besides kind and name."""
        return {"category": ("op",), "difference": ("op",), "step": ("step",)}.get(self.by, ())

    @property
    def hues(self) -> Mapping[str, Hue]:
        """The hue of each class; classes are keyed by the kinds with the same codes."""
        return KIND_HUES if self.by == "kind" else _CLASS_HUES

    @property
    def letters(self) -> Mapping[str, str]:
        """The letter of each class, keyed in the same way."""
        if self.by == "kind":
            return KIND_LETTERS
        letters = _CLASS_LETTERS[self.by]
        return {kind: letters[min(code, _NO_CLASS)] for kind, code in KIND_CODES.items()}

    @property
    def legend(self) -> tuple[tuple[int, str], ...]:
        """The named classes, as (class, name)."""
        if self.by == "category":
            return (*enumerate(self.categories), (_NO_CLASS, "other"))
        if self.by == "difference":
            return tuple((code, name) for name, code in DIFFERENCE_CLASSES.items())
        return ()

    @property
    def meaning(self) -> str:
        """The meaning of colors, as a phrase."""
        return {
            "kind": "by kind",
            "name": "by name: equal names have equal colors",
            "category": "by HLO category:",
            "step": "by step, as in the line of steps",
            "difference": "by difference:",
        }[self.by]

    def classes(self, frame: pl.DataFrame, name: npt.NDArray[np.uint32]) -> ColorClasses:
        """The class of each event of a lane; `name` has the codes of their names."""
        if self.by == "kind":
            kinds: ColorClasses = frame["kind"].to_physical().to_numpy()
            return kinds
        if self.by == "name":
            return (name % NAME_COLORS // TINTS_PER_HUE).astype(np.uint8)
        if self.by == "step":
            return color_classes_of_steps(frame["step"])
        ops = frame["op"].fill_null(-1).to_numpy()
        if not len(self.ops):
            return np.full(len(ops), _NO_CLASS, np.uint8)
        at = np.minimum(np.searchsorted(self.ops, ops), len(self.ops) - 1)
        return np.where(self.ops[at] == ops, self.op_classes[at], _NO_CLASS).astype(np.uint8)


COLORING_BY_KIND: Final = EventColoring()


def color_classes_of_steps(step: pl.Series) -> ColorClasses:
    """The classes of steps; neighbors differ."""
    return (step.cast(pl.Int64) % _NO_CLASS).fill_null(_NO_CLASS).cast(pl.UInt8).to_numpy()


def build_coloring(by: ColorBy, trace: Trace) -> EventColoring:
    """The coloring of this trace. The categories with the most ops have a class of their own."""
    if by == "difference":
        differences = trace.ops.select(
            "op", pl.col("category").replace_strict(DIFFERENCE_CLASSES, default=_NO_CLASS)
        ).sort("op")
        return EventColoring(by, (), differences["op"].to_numpy(), differences["category"].cast(pl.UInt8).to_numpy())
    if by != "category":
        return EventColoring(by)
    category_counts = (
        trace.ops["category"].drop_nulls().value_counts().sort(["count", "category"], descending=[True, False])
    )
    categories = category_counts["category"].head(_NO_CLASS).to_list()
    ops = trace.ops.select("op", "category").sort("op")
    classes = ops["category"].replace_strict(
        dict(zip(categories, range(len(categories)), strict=True)), default=_NO_CLASS, return_dtype=pl.UInt8
    )  # fmt: skip
    return EventColoring(by, tuple(categories), ops["op"].to_numpy(), classes.to_numpy())


def next_coloring(by: ColorBy, trace: Trace) -> ColorBy:
    """The next mode in the cycle. Modes without data in the trace (category, step) are skipped."""
    missing = {"difference"}
    if trace.ops["category"].null_count() == trace.ops.height:
        missing.add("category")
    if trace.steps.is_empty():
        missing.add("step")
    modes = [mode for mode in get_args(ColorBy) if mode not in missing]
    return modes[(modes.index(by) + 1) % len(modes)] if by in modes else "kind"
