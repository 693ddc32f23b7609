"""The view in words."""

from __future__ import annotations

from building import US, Building, stream
from tracehound.ui.describe import describe
from tracehound.ui.view import View


def test_from_the_most_particular_to_the_run() -> None:
    b = Building()
    b.event(stream(), "bad\x1b[31mname", 1000, 1012.5)
    b.event(stream(), "k", 1020, 1030)
    trace = b.trace()
    lane = int(trace.lanes["lane"][0])
    assert describe(trace, View()) == "2 events on 1 lane · 30.00 us"
    assert describe(trace, View(lane=lane)) == "stream 7 · stream · 2 events"
    assert describe(trace, View(selection=(0, 2 * US))).startswith("2.000 us selected")
    words = describe(trace, View(event=0, selection=(0, US)))
    assert words == "bad␛[31mname · 12.50 us · at 0.000 us · kernel · stream 7"
