"""A document of Chrome trace events while it is written, as every viewer reads it, and counter tracks for it.

Owns its commas and brackets, the form of times (microseconds with all their digits, which never pass through a float),
and the list of counter tracks with their units. The tracks are defined by the analyses that make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from msgspec import Struct

from tracehound.analysis import bandwidth, queue
from tracehound.analysis.devices import occupancy
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.time_series import TimeSeries
from tracehound.formats.export_metadata import COPY_BANDWIDTH_TITLE, QUEUE_TITLE, UTILIZATION_TITLE, counter_name
from tracehound.formats.json.json_document import encode_json
from tracehound.model.units import PS_PER_US

COMPUTED_MARK: Final = b'"by":"tracehound"'
"""Marks events that are no part of the trace but computed from it."""

EVENT_SEPARATOR: Final = b",\n"

_EVENTS_START: Final = b'"traceEvents": ['


class ChromeDocument:
    """Write it with `begin`, then `add` as often as needed, then `end`; facts stand around the events.

    The `known` facts go behind all others, and replace others of their names.
    """

    def __init__(self, file: BinaryIO, known: Mapping[str, Any]) -> None:
        self._file = file
        self._known = known
        self._begun = False
        self._empty = True

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Open the list of events, unless it is open."""
        if self._begun:
            return
        self._begun = True
        facts = {name: value for name, value in facts.items() if name not in self._known}
        self._file.write(
            b"{\n"
            + b"".join(_fact_json(name, value) + EVENT_SEPARATOR for name, value in facts.items())
            + _EVENTS_START
        )

    def add(self, texts: bytes) -> None:
        """Add events, each as JSON, with `EVENT_SEPARATOR` between them; an empty text adds none."""
        if texts:
            self._file.write(b"\n" if self._empty else EVENT_SEPARATOR)
            self._file.write(texts)
            self._empty = False

    def end(self, facts: Mapping[str, Any]) -> None:
        """Close the list; further facts go behind it."""
        behind = {**facts, **self._known}
        self._file.write(
            b"\n]" + b"".join(EVENT_SEPARATOR + _fact_json(name, value) for name, value in behind.items()) + b"\n}\n"
        )


def _fact_json(name: str, value: object) -> bytes:
    """A fact as JSON: name and value."""
    return encode_json(name) + b": " + encode_json(value)


def format_us(ps: int) -> str:
    """A time in microseconds: to the nanosecond, or to the picosecond where it has any."""
    sign, ps = ("-", -ps) if ps < 0 else ("", ps)
    whole, rest = divmod(ps, PS_PER_US)
    return f"{sign}{whole}.{rest // 1000:03}" if rest % 1000 == 0 else f"{sign}{whole}.{rest:06}"


class CounterTrackKind(Struct, frozen=True):
    """One kind of counter track: `series` makes those of a rank's trace, whose values times `scale` are in `unit`."""

    title: str
    series: Callable[[RankTrace], Sequence[TimeSeries]]
    unit: str
    scale: float = 1.0


COUNTER_TRACKS: Final = (
    CounterTrackKind(QUEUE_TITLE, queue.queue_series, "launches"),
    CounterTrackKind(COPY_BANDWIDTH_TITLE, bandwidth.bandwidth_series, "GB/s", 1e-9),
    CounterTrackKind(UTILIZATION_TITLE, occupancy.occupancy_series, "%", 1e-2),
)


class CounterTrackProcess(NamedTuple):
    """The process of the document for a rank's counter tracks, as JSON.

    `shift` (ps) is added to times of the trace.
    """

    process: bytes
    shift: int


def counter_events(rank_trace: RankTrace, place: CounterTrackProcess) -> Iterator[bytes]:
    """The counter tracks of a rank, one after the other, each as events of a document."""
    for counter in COUNTER_TRACKS:
        for series in counter.series(rank_trace):
            if texts := _counter_points(series, counter, place):
                yield EVENT_SEPARATOR.join(texts)


def _counter_points(series: TimeSeries, counter: CounterTrackKind, place: CounterTrackProcess) -> list[bytes]:
    """The points of one track. Each track is a counter of its own: viewers stack the values of one counter."""
    head = b'{"ph":"C","name":%b,"pid":%b,"ts":' % (
        encode_json(counter_name(counter.title, series.name)),
        place.process,
    )
    value = np.asarray(series.value, np.float64) * counter.scale
    unit = encode_json(counter.unit)
    return [
        b'%b%b,%b,"args":{%b:%.9g}}' % (head, format_us(at + place.shift).encode(), COMPUTED_MARK, unit, number)
        for at, number in zip(series.time.tolist(), value.tolist(), strict=True)
    ]
