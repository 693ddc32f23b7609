"""What of a Kineto file's events was left out or repaired, counted.

Owns the codes for it. Knows no columns of events.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field

from tracehound.formats.sizes import NO_SIZE
from tracehound.intervals import Ints, Mask
from tracehound.notes import Level, Note

What = tuple[Level, str]
"""A kind of note: its level and code."""

COUNTERS: Final[What] = ("info", "counter_samples")
MEMORY: Final[What] = ("info", "memory_events")
NO_TOTALS: Final[What] = ("inferred", "memory_without_totals")
UNSAID: Final[What] = ("missing", "memory_without_size")
NO_ADDRESS: Final[What] = ("missing", "memory_without_address")
MINGLED: Final[What] = ("missing", "memory_of_several_ranks")
STRAYS: Final[What] = ("info", "events_on_another_device")
NO_NUMBER: Final[What] = ("dropped", "counter_without_number")
UNPLACED: Final[What] = ("dropped", "counter_far_away")
FLOWS: Final[What] = ("info", "flow_events_skipped")
FOREIGN: Final[What] = ("info", "foreign_categories")
RANGES: Final[What] = ("info", "operators_timed_on_devices")
NAMELESS: Final[What] = ("info", "events_without_name")
THREADLESS: Final[What] = ("info", "events_without_thread")
NO_PHASE: Final[What] = ("dropped", "element_without_phase")
STRANGE: Final[What] = ("dropped", "unknown_phase_pytorch")
UNTIMED: Final[What] = ("dropped", "event_without_time")
AT_ZERO: Final[What] = ("dropped", "event_at_zero")
FAR: Final[What] = ("dropped", "event_far_away")
NEGATIVE: Final[What] = ("repaired", "negative_duration")
ENDLESS: Final[What] = ("repaired", "event_without_duration")
TOO_LARGE: Final[What] = ("repaired", "id_too_large")
UNSIZED: Final[What] = ("repaired", NO_SIZE)

_ORDER: Final = (
    COUNTERS, MEMORY, FLOWS, FOREIGN, RANGES, STRAYS, NAMELESS, THREADLESS, NO_PHASE, STRANGE, UNTIMED, AT_ZERO, FAR,
    NO_NUMBER, UNPLACED, NEGATIVE, ENDLESS, TOO_LARGE, UNSIZED, UNSAID, NO_ADDRESS, NO_TOTALS, MINGLED,
)  # fmt: skip


class Tally(Struct):
    """For each kind how often it was met, and the ordinal of the first event."""

    counts: dict[What, tuple[int, int]] = field(default_factory=dict)

    def add(self, what: What, count: int, first: int) -> None:
        """Count some, of which `first` is the first; none is nothing."""
        if count:
            known, before = self.counts.get(what, (0, first))
            self.counts[what] = (known + count, min(before, first))

    def rows(self, what: What, rows: Mask, ordinals: Ints) -> None:
        """Count the rows of a mask; `ordinals` has that of each, in order."""
        self.add(what, int(np.count_nonzero(rows)), int(ordinals[np.argmax(rows)]) if len(rows) else 0)

    def merge(self, other: Tally, first: int) -> None:
        """Count what another counted, whose ordinals begin at `first`."""
        for what, (count, at) in other.counts.items():
            self.add(what, count, first + at)

    def unless_all(self, what: What, of: What) -> None:
        """Forget something that was met as often as what it is some of."""
        if what in self.counts and self.counts[what][0] == self.counts[of][0]:
            del self.counts[what]

    def notes(self) -> tuple[Note, ...]:
        """One note for each kind; what is merely said has no place."""
        found = [(what, *self.counts[what]) for what in _ORDER if what in self.counts]
        return tuple(
            Note(level, code, count, where="" if level == "info" else f"event {first:,}")
            for (level, code), count, first in found
        )
