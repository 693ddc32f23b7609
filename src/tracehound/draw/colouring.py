"""What the colour of a slice says: its kind, its name, its op's category, or its step.

Owns how slices fall into classes for each of these, and which hue and letter a class has. Knows no terminal toolkit.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.draw.palette import HUES, LETTERS, TINTS, Hue
from tracehound.intervals import Ints
from tracehound.trace import KIND_CODES, Trace

By = Literal["kind", "name", "category", "step", "difference"]

CLASS_HUES: Final[tuple[Hue, ...]] = ("blue", "orange", "green", "violet", "yellow", "cyan", "red", "grey")
"""The hue of each class where the classes are no kinds; the last is of what belongs to none."""

_NONE: Final = len(CLASS_HUES) - 1
_LETTERS: Final[Mapping[By, str]] = {
    "name": "ABCDEFGH",
    "category": "ABCDEFGx",
    "step": "0123456x",
    "difference": "x+<-xx>=",
}

DIFFERENCES: Final[Mapping[str, int]] = MappingProxyType(
    {"the same": _NONE, "slower": 6, "faster": 2, "added": 1, "removed": 3}
)
"""The class of what is true of an op of two runs; the ops of a trace that tells of that have these categories."""

SHADES: Final = TINTS * len(CLASS_HUES)
"""The code of a name tells so many names apart by its rest."""

Classes = npt.NDArray[np.uint8]


class Colouring(Struct, frozen=True, eq=False):
    """How the slices of one trace are coloured. `categories` has those that have a class of their own, the first first.

    `ops` are the ids of HLO ops, sorted, and `of_op` the class of each.
    """

    by: By = "kind"
    categories: tuple[str, ...] = ()
    ops: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    of_op: Classes = field(default_factory=lambda: np.empty(0, np.uint8))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that it looks at, besides kind and name."""
        return {"category": ("op",), "difference": ("op",), "step": ("step",)}.get(self.by, ())

    @property
    def hues(self) -> Mapping[str, Hue]:
        """The hue of a class; classes go by the kinds of the same codes."""
        return HUES if self.by == "kind" else _CLASS_HUES

    @property
    def letters(self) -> Mapping[str, str]:
        """The letter of a class, in the same way."""
        if self.by == "kind":
            return LETTERS
        letters = _LETTERS[self.by]
        return {kind: letters[min(code, _NONE)] for kind, code in KIND_CODES.items()}

    @property
    def legend(self) -> tuple[tuple[int, str], ...]:
        """What is said of it: classes with their names."""
        if self.by == "category":
            return (*enumerate(self.categories), (_NONE, "other"))
        if self.by == "difference":
            return tuple((code, name) for name, code in DIFFERENCES.items())
        return ()

    @property
    def meaning(self) -> str:
        """What a colour stands for, in words."""
        return {
            "kind": "by kind",
            "name": "by name: equal names have equal colours",
            "category": "by HLO category:",
            "step": "by step, as in the line of steps",
            "difference": "by difference:",
        }[self.by]

    def classes(self, frame: pl.DataFrame, name: npt.NDArray[np.uint32]) -> Classes:
        """The class of each event of a lane; `name` has the codes of their names."""
        if self.by == "kind":
            kinds: Classes = frame["kind"].to_physical().to_numpy()
            return kinds
        if self.by == "name":
            return (name % SHADES // TINTS).astype(np.uint8)
        if self.by == "step":
            return of_steps(frame["step"])
        ops = frame["op"].fill_null(-1).to_numpy()
        if not len(self.ops):
            return np.full(len(ops), _NONE, np.uint8)
        at = np.minimum(np.searchsorted(self.ops, ops), len(self.ops) - 1)
        return np.where(self.ops[at] == ops, self.of_op[at], _NONE).astype(np.uint8)


_CLASS_HUES: Final[Mapping[str, Hue]] = MappingProxyType(
    {kind: CLASS_HUES[min(code, _NONE)] for kind, code in KIND_CODES.items()}
)

BY_KIND: Final = Colouring()


def of_steps(step: pl.Series) -> Classes:
    """The classes of steps: neighbours differ."""
    return (step.cast(pl.Int64) % _NONE).fill_null(_NONE).cast(pl.UInt8).to_numpy()


def colouring(by: By, trace: Trace) -> Colouring:
    """Colours for this trace. The categories with most ops have a class of their own."""
    if by == "difference":
        told = trace.ops.select("op", pl.col("category").replace_strict(DIFFERENCES, default=_NONE)).sort("op")
        return Colouring(by, (), told["op"].to_numpy(), told["category"].cast(pl.UInt8).to_numpy())
    if by != "category":
        return Colouring(by)
    counted = trace.ops["category"].drop_nulls().value_counts().sort(["count", "category"], descending=[True, False])
    named = counted["category"].head(_NONE).to_list()
    ops = trace.ops.select("op", "category").sort("op")
    classes = ops["category"].replace_strict(
        dict(zip(named, range(len(named)), strict=True)), default=_NONE, return_dtype=pl.UInt8
    )  # fmt: skip
    return Colouring(by, tuple(named), ops["op"].to_numpy(), classes.to_numpy())


def following(by: By, trace: Trace) -> By:
    """The next way to colour; by category or by step only where the trace has any."""
    without = {"difference"}
    if trace.ops["category"].null_count() == trace.ops.height:
        without.add("category")
    if trace.steps.is_empty():
        without.add("step")
    ways = [way for way in get_args(By) if way not in without]
    return ways[(ways.index(by) + 1) % len(ways)] if by in ways else "kind"
