"""What of a Kineto file's events was left out or repaired, counted.

Owns the words for it. Knows no columns of events.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field

from tracehound.formats.sizes import NO_SIZE
from tracehound.intervals import Ints, Mask
from tracehound.trace import Level, Note

What = tuple[Level, str]
"""A kind of note: its level and text."""

COUNTERS: Final[What] = ("info", "counter samples, drawn as graphs")
MEMORY: Final[What] = ("info", "memory allocations and frees, drawn as graphs of what is held")
NO_TOTALS: Final[What] = ("inferred", "memory events without totals: drawn is what was allocated since the start")
UNSAID: Final[What] = ("missing", "memory events without a size, or without a kind of device, which is then the host")
NO_ADDRESS: Final[What] = ("missing", "memory events without an address, of which others have one")
MINGLED: Final[What] = ("missing", "memory of several ranks in one file, which is not told apart")
STRAYS: Final[What] = (
    "info",
    "events of under 1 % of the time, on another device than that of the rank: drawn with it, not counted as its work",
)
NO_NUMBER: Final[What] = ("dropped", "counter sample without a time, or with a value that is not a number")
UNPLACED: Final[What] = ("dropped", "counter sample at time 0 or more than 50 days from the events")
FLOWS: Final[What] = ("info", "flow arrows, not drawn: ids tell what they tie, calls and kernels, forward and backward")
FOREIGN: Final[What] = (
    "info",
    "events of categories that PyTorch does not write (or of none), drawn on threads of the host: of another profiler?",
)
RANGES: Final[What] = (
    "info",
    "operators timed on devices by the autograd profiler: each has those inside it in its time, and totals count them"
    " again",
)
NAMELESS: Final[What] = ("info", "events without a name")
THREADLESS: Final[What] = ("info", "events of the host without a thread, drawn on one of their own")
NO_PHASE: Final[What] = ("dropped", "array element without a phase")
STRANGE: Final[What] = ("dropped", "event of a phase that PyTorch does not write")
UNTIMED: Final[What] = ("dropped", "event without a time, or with one that cannot be")
AT_ZERO: Final[What] = ("dropped", "event at time 0, far from all others")
FAR: Final[What] = ("dropped", "event more than 50 days from the others")
NEGATIVE: Final[What] = ("repaired", "negative duration read as 0")
ENDLESS: Final[What] = ("repaired", "complete event without a duration, read as 0")
TOO_LARGE: Final[What] = ("repaired", "id of more than 63 bits, read as none")
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
            Note(level, text, count, "" if level == "info" else f"event {first:,}")
            for (level, text), count, first in found
        )
