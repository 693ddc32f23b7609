"""Finding, rule, and the evidence that rules draw on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import polars as pl
from msgspec import Struct

from tracehound.analysis.rank_trace import RunContext
from tracehound.analysis.ranks.lateness import LateRanks, group_late_ranks
from tracehound.analysis.result import Result


class FindingLocation(Struct, frozen=True):
    """Location in the timeline that shows a finding best: an interval (ps), an event, or both."""

    start: int | None = None
    duration: int | None = None
    event: int | None = None
    rank: int | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> FindingLocation:
        """The location of a row of a result."""
        return cls(row.get("start"), row.get("duration"), row.get("event"), row.get("rank"))


class Finding(Struct, frozen=True):
    """One thing that costs time, or may.

    `cost` is the time per step (of a run without steps: of the run) that it takes on an average rank, None where the
    possible gain is not known; `share` is its share of `base`, "" for an average step (else the run or window).
    """

    title: str
    evidence: str
    advice: str
    location: FindingLocation
    cost: int | None = None
    share: float | None = None
    base: str = ""


class Evidence(Struct, frozen=True, dict=True):
    """Input of all rules: `results` by the names of their analyses, and `rank_traits` (a row for each rank).

    `kernel_times` has the work of streams in whole steps (or the window, or the run), by rank and name.
    """

    results: Mapping[str, Result]
    rank_traits: pl.DataFrame
    kernel_times: pl.DataFrame
    context: RunContext
    steps: int
    """Whole steps of an average rank; 0 where the run, or the window, has none."""
    base_time: int
    """Length of an average step, else of the window or the run; ps, 0 where it is not known."""

    @cached_property
    def _findings(self) -> dict[FindFunction, tuple[Finding, ...]]:
        return {}

    def findings_of(self, find: FindFunction) -> tuple[Finding, ...]:
        """The findings of a rule. They are computed once, however many other rules depend on them."""
        if find not in self._findings:
            self._findings[find] = tuple(find(self))
        return self._findings[find]

    @cached_property
    def late_groups(self) -> list[LateRanks]:
        """The late ranks that others waited for, longest wait first."""
        return group_late_ranks(self.table("stragglers"), self.context.ranks)

    @cached_property
    def device_times(self) -> pl.DataFrame:
        """Time of each rank's device in its whole steps, else in the window or the run.

        The columns are rank, span, idle, communication and copy; the last two are exposed times, as in `breakdown`.
        """
        if not self.steps:
            return self.table("breakdown").select("rank", "span", "idle", "communication", "copy")
        steps = self.table("steps").filter(~pl.col("partial")).rename({"duration": "span"})
        return steps.select("rank", "span", "idle", "communication", "copy")

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Work of streams in the time of `device_times`, with its class and whether it uses tensor cores."""
        executed = self.kernel_times.filter(pl.col("rank").is_in(self.device_times["rank"].implode()))
        kernel_classes = (
            self.table("kernels").unique("name", maintain_order=True).select("name", "class", "tensor_cores")
        )
        return executed.join(kernel_classes, on="name", how="left", maintain_order="left")

    def table(self, name: str) -> pl.DataFrame:
        """The rows of a result."""
        return self.results[name].table

    def per_step(self, total: float, ranks: int) -> int:
        """A total over this many ranks, per step of one rank."""
        return round(total / max(ranks, 1) / max(self.steps, 1))

    def share_of_base(self, cost: float) -> float:
        """A time per step, as a share of `base_time`."""
        return cost / self.base_time if self.base_time else 0.0

    @property
    def is_xla(self) -> bool:
        """True if XLA recorded the run: PyTorch's terms mean nothing to its users."""
        return self.context.is_xla

    @property
    def is_pytorch_xla(self) -> bool:
        """True if PyTorch/XLA recorded the run: JAX's terms mean nothing to its users."""
        return self.is_xla and bool(self.rank_traits["lazy"].sum())

    @property
    def where_phrase(self) -> str:
        """``steps``, ``the window``, or ``the run``: the extent of the rules' measures."""
        return "steps" if self.steps else self.extent_phrase

    @property
    def base_phrase(self) -> str:
        """``an average step``, ``the window``, or ``the run``."""
        return "an average step" if self.steps else self.extent_phrase

    @property
    def time_phrase(self) -> str:
        """``the steps' time``, or ``the devices' time`` of the window or the run: the base of `device_times`."""
        return "the steps' time" if self.steps else "the devices' time"

    @property
    def base_word(self) -> str:
        """``step``, ``window``, or ``run``: the base of most shares."""
        return "step" if self.steps else self.extent_word

    @property
    def extent_word(self) -> str:
        """``window``, or ``run``."""
        return "window" if self.context.windowed else "run"

    @property
    def extent_phrase(self) -> str:
        """``the window``, or ``the run``: all that was analyzed."""
        return f"the {self.extent_word}"


FindFunction = Callable[[Evidence], Iterator[Finding]]
"""A function that finds the findings of a rule."""


class Rule(Struct, frozen=True):
    """A rule: its `condition` in words, with its source; `find` gives the findings in a trace.

    A finding of a rule `about_idle_time` may be lost work, where a file was cut short.
    """

    name: str
    condition: str
    find: FindFunction
    about_idle_time: bool = False
