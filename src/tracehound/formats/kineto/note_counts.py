"""Counts of the events of a Kineto file that were left out, repaired or are worth a note."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field

from tracehound.formats.value_bounds import SIZE_OUT_OF_RANGE
from tracehound.model.notes import Level, Note
from tracehound.numeric.intervals import Ints, Mask

NoteKind = tuple[Level, str]
"""Level and code of a note."""

COUNTER_SAMPLES: Final[NoteKind] = ("info", "counter_samples")
MEMORY_EVENTS: Final[NoteKind] = ("info", "memory_events")
MEMORY_WITHOUT_TOTALS: Final[NoteKind] = ("inferred", "memory_without_totals")
MEMORY_WITHOUT_SIZE: Final[NoteKind] = ("missing", "memory_without_size")
MEMORY_WITHOUT_ADDRESS: Final[NoteKind] = ("missing", "memory_without_address")
MEMORY_OF_SEVERAL_RANKS: Final[NoteKind] = ("missing", "memory_of_several_ranks")
EVENTS_ON_ANOTHER_DEVICE: Final[NoteKind] = ("info", "events_on_another_device")
COUNTER_WITHOUT_NUMBER: Final[NoteKind] = ("dropped", "counter_without_number")
COUNTER_FAR_AWAY: Final[NoteKind] = ("dropped", "counter_far_away")
FLOW_EVENTS_SKIPPED: Final[NoteKind] = ("info", "flow_events_skipped")
FOREIGN_CATEGORIES: Final[NoteKind] = ("info", "foreign_categories")
OPERATORS_TIMED_ON_DEVICES: Final[NoteKind] = ("info", "operators_timed_on_devices")
EVENTS_WITHOUT_NAME: Final[NoteKind] = ("info", "events_without_name")
EVENTS_WITHOUT_THREAD: Final[NoteKind] = ("info", "events_without_thread")
EVENT_WITHOUT_PHASE: Final[NoteKind] = ("dropped", "element_without_phase")
UNKNOWN_PHASE: Final[NoteKind] = ("dropped", "unknown_phase_pytorch")
EDGE_ALONE: Final[NoteKind] = ("dropped", "edge_alone")
EVENT_WITHOUT_TIME: Final[NoteKind] = ("dropped", "event_without_time")
EVENT_AT_ZERO: Final[NoteKind] = ("dropped", "event_at_zero")
EVENT_FAR_AWAY: Final[NoteKind] = ("dropped", "event_far_away")
NEGATIVE_DURATION: Final[NoteKind] = ("repaired", "negative_duration")
EVENT_WITHOUT_DURATION: Final[NoteKind] = ("repaired", "event_without_duration")
ID_TOO_LARGE: Final[NoteKind] = ("repaired", "id_too_large")
MEMORY_SIZE_OUT_OF_RANGE: Final[NoteKind] = ("repaired", SIZE_OUT_OF_RANGE)

_NOTE_ORDER: Final = (
    COUNTER_SAMPLES, MEMORY_EVENTS, FLOW_EVENTS_SKIPPED, FOREIGN_CATEGORIES, OPERATORS_TIMED_ON_DEVICES,
    EVENTS_ON_ANOTHER_DEVICE, EVENTS_WITHOUT_NAME, EVENTS_WITHOUT_THREAD, EVENT_WITHOUT_PHASE, UNKNOWN_PHASE,
    EDGE_ALONE, EVENT_WITHOUT_TIME, EVENT_AT_ZERO, EVENT_FAR_AWAY, COUNTER_WITHOUT_NUMBER, COUNTER_FAR_AWAY,
    NEGATIVE_DURATION, EVENT_WITHOUT_DURATION, ID_TOO_LARGE, MEMORY_SIZE_OUT_OF_RANGE, MEMORY_WITHOUT_SIZE,
    MEMORY_WITHOUT_ADDRESS, MEMORY_WITHOUT_TOTALS, MEMORY_OF_SEVERAL_RANKS,
)  # fmt: skip


class NoteCounts(Struct):
    """Number of events for each kind of note, and the ordinal of the first."""

    counts: dict[NoteKind, tuple[int, int]] = field(default_factory=dict)

    def add(self, kind: NoteKind, count: int, first: int) -> None:
        """Add `count` events, the first of which has the ordinal `first`; 0 events add nothing."""
        if count:
            known, before = self.counts.get(kind, (0, first))
            self.counts[kind] = (known + count, min(before, first))

    def add_mask(self, kind: NoteKind, mask: Mask, ordinals: Ints) -> None:
        """Add the rows that are true in a mask; `ordinals` has the ordinal of each row, ascending."""
        self.add(kind, int(np.count_nonzero(mask)), int(ordinals[np.argmax(mask)]) if len(mask) else 0)

    def merge(self, other: NoteCounts, first: int) -> None:
        """Add the counts of another, whose ordinals begin at `first`."""
        for kind, (count, first_ordinal) in other.counts.items():
            self.add(kind, count, first + first_ordinal)

    def drop_if_all(self, kind: NoteKind, whole: NoteKind) -> None:
        """Drop a kind whose count equals that of `whole`, the kind that it is a part of."""
        if kind in self.counts and self.counts[kind][0] == self.counts[whole][0]:
            del self.counts[kind]

    def notes(self) -> tuple[Note, ...]:
        """One note for each kind; notes of level info name no event."""
        found = [(kind, *self.counts[kind]) for kind in _NOTE_ORDER if kind in self.counts]
        return tuple(
            Note(level, code, count, where="" if level == "info" else f"event {first:,}")
            for (level, code), count, first in found
        )
