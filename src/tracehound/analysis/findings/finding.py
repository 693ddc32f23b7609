"""What a finding is, and what rules may draw on.

Knows no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import polars as pl
from msgspec import Struct

from tracehound.analysis.ranks.latecomers import Latecomer, latecomers
from tracehound.analysis.result import Result, Scene


class Place(Struct, frozen=True):
    """Where in the timeline a finding is seen best: a stretch of time (ps), an event of it, or both."""

    start: int | None = None
    duration: int | None = None
    event: int | None = None
    rank: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Place:
        """What a row of a result says of its place."""
        return cls(row.get("start"), row.get("duration"), row.get("event"), row.get("rank"))


class Finding(Struct, frozen=True):
    """One thing that costs time, or may.

    `cost` is the time per step (of a run without steps: of the run) that goes to it on an average rank, None where it
    is not known how much would be gained; `share` is that of `base`, "" for an average step (else the run or window).
    """

    what: str
    evidence: str
    advice: str
    place: Place
    cost: int | None = None
    share: float | None = None
    base: str = ""


class Evidence(Struct, frozen=True, dict=True):
    """What rules may draw on: `results` by the names of their analyses, and `traits` (a row for each rank).

    `executed` has what streams carried out in whole steps (or the window, or the run), by rank and name.
    """

    results: Mapping[str, Result]
    traits: pl.DataFrame
    executed: pl.DataFrame
    scene: Scene
    steps: int
    """Whole steps of an average rank; 0 where the run, or the window, has none."""
    stretch: int
    """Length of an average step, else of the window or the run; ps, 0 where nothing is known."""

    @cached_property
    def _found(self) -> dict[Find, tuple[Finding, ...]]:
        return {}

    def found(self, find: Find) -> tuple[Finding, ...]:
        """What a rule finds, which is worked out once, however many others depend on it."""
        if find not in self._found:
            self._found[find] = tuple(find(self))
        return self._found[find]

    @cached_property
    def late(self) -> list[Latecomer]:
        """Whom the others waited for, longest first."""
        return latecomers(self.table("stragglers"), self.scene.ranks)

    @cached_property
    def spans(self) -> pl.DataFrame:
        """How each rank's device spent its whole steps, else the window or the run.

        There are rank, span, idle, communication and copy: of the latter two what is exposed, as in `breakdown`.
        """
        if not self.steps:
            return self.table("breakdown").select("rank", "span", "idle", "communication", "copy")
        steps = self.table("steps").filter(~pl.col("partial")).rename({"duration": "span"})
        return steps.select("rank", "span", "idle", "communication", "copy")

    @cached_property
    def ran(self) -> pl.DataFrame:
        """What streams carried out in the time of `spans`, with the class of each and whether it uses tensor cores."""
        mine = self.executed.filter(pl.col("rank").is_in(self.spans["rank"].implode()))
        told = self.table("kernels").unique("name", maintain_order=True).select("name", "class", "tensor_cores")
        return mine.join(told, on="name", how="left", maintain_order="left")

    def table(self, name: str) -> pl.DataFrame:
        """The rows of a result."""
        return self.results[name].table

    def per_step(self, total: float, ranks: int) -> int:
        """What of a total over so many ranks falls to a step of one."""
        return round(total / max(ranks, 1) / max(self.steps, 1))

    def share(self, cost: float) -> float:
        """A time per step, as a share of the step."""
        return cost / self.stretch if self.stretch else 0.0

    @property
    def xla(self) -> bool:
        """Whether the run is one of XLA, to whose users PyTorch's words say nothing."""
        return self.scene.xla

    @property
    def lazy(self) -> bool:
        """Whether it is one of PyTorch/XLA, to whose users JAX's words say nothing."""
        return self.xla and bool(self.traits["lazy"].sum())

    @property
    def where(self) -> str:
        """``steps``, ``the window``, or ``the run``: where that happens which is told of."""
        return "steps" if self.steps else self.extent

    @property
    def whose(self) -> str:
        """``an average step``, ``the window``, or ``the run``."""
        return "an average step" if self.steps else self.extent

    @property
    def time(self) -> str:
        """``the steps' time``, or ``the devices' time``, of the window or the run: what `spans` has."""
        return "the steps' time" if self.steps else "the devices' time"

    @property
    def base(self) -> str:
        """``step``, ``window``, or ``run``: of what most shares are."""
        return "step" if self.steps else self.looked_at

    @property
    def looked_at(self) -> str:
        """``window``, or ``run``."""
        return "window" if self.scene.windowed else "run"

    @property
    def extent(self) -> str:
        """All that was looked at: ``the window``, or ``the run``."""
        return f"the {self.looked_at}"


Find = Callable[[Evidence], Iterator[Finding]]
"""What looks for the findings of a rule."""


class Rule(Struct, frozen=True):
    """When something is a finding: `when` in words, with its source; `find` gives those of a trace.

    What a rule `of_idleness` finds may be work that was lost, where a file was cut short.
    """

    name: str
    when: str
    find: Find
    of_idleness: bool = False
