"""Sentences of notes on queries, searches and single HLO instructions.

Owns these sentences, but those of instructions, which `hlo.words` makes of their programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence


def _columns_without_value(columns: tuple[str, ...]) -> str:
    return f"no value: {', '.join(columns)}"


def _times_divided(by: str, columns: tuple[str, ...]) -> str:
    wanted = f"a time divided by {by} is a time, so much shorter and cut to whole picoseconds"
    return f"{wanted} ({', '.join(columns)}): divide by a unit to get a number, duration / 1ms"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "columns_without_value": _columns_without_value,
    "times_divided": _times_divided,
    "events_of_two_lengths": (
        "duration, start and end of events are on the trace's clock, to which the profiler aligned the device's piece"
        " by piece: {events:,} of {of:,} last otherwise on that, as device_duration and self say"
    ),
    "search_refused": "{why}",
    "hlo_sentence": "{text}",
}
