"""What an export tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tracehound.notes import Note
from tracehound.units import plural

Tell = Callable[[float], None]
"""Told which share of the work is done, several times a second."""


class Written(Struct, frozen=True):
    """How many events were written and how many curves (their points are no events), and what else there is to say."""

    events: int
    curves: int = 0
    notes: tuple[Note, ...] = ()


def said(written: Sequence[Written]) -> str:
    """What was written to one file, or to several, for people."""
    files, events, curves = len(written), sum(one.events for one in written), sum(one.curves for one in written)
    counted = [plural(files, "file")] * (files != 1) + [plural(events, "event")]
    return ", ".join(counted + [plural(curves, "counter track")] * (curves > 0))
