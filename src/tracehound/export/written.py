"""What an export tells of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Tell = Callable[[float], None]
"""Told which share of the work is done, several times a second."""


@dataclass(frozen=True)
class Written:
    """How many events were written and how many curves (their points are no events), and what else there is to say."""

    events: int
    curves: int = 0
    notes: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """For people."""
        curves = f", {self.curves:,} counter track{'s' * (self.curves != 1)}" if self.curves else ""
        return f"{self.events:,} event{'s' * (self.events != 1)}{curves}"
