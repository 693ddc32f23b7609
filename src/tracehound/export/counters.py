"""What a viewer draws as curves above the events of a device: worked out from the trace, rank by rank.

Owns which curves there are, their units, and how their points are written as counter events. How they are defined is
the business of the analyses that make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from tracehound.analysis import bandwidth, queue
from tracehound.analysis.devices import filled
from tracehound.analysis.events.series import Series
from tracehound.analysis.result import Share
from tracehound.export.document import MARK, NEXT, us
from tracehound.formats.exported import COPIES, FILLED, QUEUE, called
from tracehound.formats.json.elements import encoded


class Counter(Struct, frozen=True):
    """One kind of curve: `series` makes those of a rank's share, whose values times `scale` are in `unit`."""

    title: str
    series: Callable[[Share], Sequence[Series]]
    unit: str
    scale: float = 1.0


COUNTERS: Final = (
    Counter(QUEUE, queue.series, "launches"),
    Counter(COPIES, bandwidth.series, "GB/s", 1e-9),
    Counter(FILLED, filled.series, "%", 1e-2),
)


class Place(NamedTuple):
    """Where the curves of a rank go: the process of its device, as JSON.

    `shift` (ps) makes a time of the document of one of the trace.
    """

    process: bytes
    shift: int


def drawn(share: Share, place: Place) -> Iterator[bytes]:
    """The curves of a rank, one after the other, each as events of a document."""
    for counter in COUNTERS:
        for series in counter.series(share):
            if texts := _points(series, counter, place):
                yield NEXT.join(texts)


def _points(series: Series, counter: Counter, place: Place) -> list[bytes]:
    """A counter of its own for each curve: viewers stack the values that one counter has."""
    head = b'{"ph":"C","name":%b,"pid":%b,"ts":' % (encoded(called(counter.title, series.name)), place.process)
    value = np.asarray(series.value, np.float64) * counter.scale
    unit = encoded(counter.unit)
    return [
        b'%b%b,%b,"args":{%b:%.9g}}' % (head, us(at + place.shift).encode(), MARK, unit, number)
        for at, number in zip(series.time.tolist(), value.tolist(), strict=True)
    ]
