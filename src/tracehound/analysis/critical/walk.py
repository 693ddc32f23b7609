"""The walk back through what happened: from the end of a window to its start, each time to what was waited for.

Owns the edges between host threads, streams and waits. Knows no frames, names or settings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import Struct

LONG_AGO: Final = -(1 << 62)
"""Before everything that has a time."""

CLASSES: Final = (
    "CPU", "data loading", "launch", "compute", "communication", "copy", "kernel-kernel delay", "sync", "unknown",
)  # fmt: skip
CPU, LOADING, LAUNCH, COMPUTE, COMMUNICATION, COPY, DELAY, SYNC, UNKNOWN = range(len(CLASSES))

_SLOW: Final = 300_000_000
"""Work that begins more than so many ps after its launch returned waited for something else than that."""

HOST: Final = -1
"""In place of a class: this stretch is on a thread, and is what that did."""


class Leg(NamedTuple):
    """A stretch of the path: its class (or `HOST`), on which lane, and the event that it is put down to (-1: none)."""

    start: int
    end: int
    what: int
    lane: int
    event: int


class Work(Struct, frozen=True):
    """What ran on a device's streams, sorted by (lane, start, -end): columns of equal length.

    `launched` is the start of the launching call and `returned` its end (`LONG_AGO`: none is known), `call` its event,
    `thread` its lane; `latest` is when it had been launched at the latest, by what ran later.
    `before` is, of those before on the lane, the row of the one that ended last, -1 for the first.
    """

    event: Sequence[int]
    lane: Sequence[int]
    start: Sequence[int]
    end: Sequence[int]
    what: Sequence[int]
    launched: Sequence[int]
    returned: Sequence[int]
    latest: Sequence[int]
    call: Sequence[int]
    thread: Sequence[int]
    before: Sequence[int]
    by_end: Sequence[int]
    ends: Sequence[int]
    """The rows by their ends, and these ends."""


class Wait(NamedTuple):
    """A wait that began at an instant: for the work on a lane (None: on any) that had been launched `by` then."""

    start: int
    lane: int | None
    by: int


class Call(NamedTuple):
    """A call in which a thread may wait, until its end: as `wait` says, or for the rows of `own` (a copy)."""

    event: int
    end: int
    wait: Wait
    own: tuple[int, ...] | None = None


class Handover(NamedTuple):
    """A pause of a thread at whose end it took over from another, which had stopped meanwhile."""

    end: int
    stopped: int
    lane: int


class Errand(NamedTuple):
    """What a thread began at `start` because the call `event` on another `lane` asked for it, at `asked`.

    `free` is when the thread had done all before: `LONG_AGO` for the first, `start` where it is in the midst of it.
    """

    start: int
    free: int
    asked: int
    lane: int
    event: int


class Thread(Struct, frozen=True):
    """What may have made a host thread wait, by when it went on: calls and handovers in order of their ends, errands.

    Errands are in order of their starts.
    """

    first: int
    calls: Sequence[Call]
    call_ends: Sequence[int]
    handovers: Sequence[Handover]
    handover_ends: Sequence[int]
    errands: Sequence[Errand]
    errand_starts: Sequence[int]


class Place(NamedTuple):
    """Where the walk is: at an instant on a thread's lane, or (`row` not -1) in a row of the work."""

    time: int
    lane: int
    row: int = -1


class Walk(Struct, frozen=True):
    """All there is to walk on. `waits` has, by lane of the work, the waits for events put there, in order of starts.

    None: such waits are not recorded. Then, where no launch is known, and among nodes of one graph, work that begins at
    most `near` after work on another lane ended, although its own lane was free and it had been launched, is taken to
    have waited for that.
    """

    work: Work
    threads: Mapping[int, Thread]
    waits: Mapping[int, Sequence[Wait]] | None
    near: int

    def legs(self, place: Place | None, start: int) -> list[Leg]:
        """The legs of the path that ends at a place, back to `start` or to where nothing is known; in order of time."""
        found: list[Leg] = []
        while place is not None and place.time > start:
            legs, place = self._from_work(place) if place.row >= 0 else self._from_thread(place, start)
            found += legs
        return [
            leg if leg.start >= start else leg._replace(start=start)
            for leg in reversed(found)
            if leg.end > leg.start and leg.end > start
        ]

    def _from_work(self, place: Place) -> tuple[list[Leg], Place | None]:
        """The work itself, and what it waited for: its launch, the work before on its lane, or work on another.

        At the place it may be still to begin.
        """
        work, row = self.work, place.row
        begin, launched, before = work.start[row], work.launched[row], work.before[row]
        until = min(begin, place.time)
        ran = Leg(until, place.time, work.what[row], work.lane[row], work.event[row])
        free = LONG_AGO if before < 0 else min(work.end[before], begin)
        since = max(free, launched)
        other = self._waited_for(row, since, until) if since < until else -1
        if other >= 0:
            before, free = other, work.end[other]
        if launched >= free and launched > LONG_AGO:
            thread = work.thread[row]
            return [ran, *self._launching(row, until)], Place(launched, thread)
        if before < 0:
            return [ran], None
        why = UNKNOWN if launched == LONG_AGO and other < 0 and work.latest[row] > free else DELAY
        pause = Leg(free, until, why, ran.lane, ran.event)
        if work.returned[row] >= begin > free + self.near:  # the call puts a graph on the device piece by piece
            pause = Leg(free, until, LAUNCH, work.thread[row], work.call[row])
        return [ran, pause], Place(free, work.lane[before], before)

    def _launching(self, row: int, until: int) -> list[Leg]:
        """From the start of the launching call to the work, or to its return where the work began long after that."""
        work, thread, call = self.work, self.work.thread[row], self.work.call[row]
        back = max(work.returned[row], work.launched[row])
        if work.start[row] - back <= _SLOW or until <= back:
            return [Leg(work.launched[row], until, LAUNCH, thread, call)]
        kept = Leg(back, until, UNKNOWN, work.lane[row], work.event[row])
        return [kept, Leg(work.launched[row], back, LAUNCH, thread, call)]

    def _waited_for(self, row: int, since: int, until: int) -> int:
        """The row of the work on another lane that this one waited for, where it ended between these; else -1."""
        work, begin, launched = self.work, self.work.start[row], self.work.launched[row]
        close = max(since, begin - self.near - 1)
        if self.waits is None or launched == LONG_AGO:
            by = launched if launched > LONG_AGO else begin
            return self._elsewhere(row, (close, until), lambda other: work.launched[other] <= by)
        if waits := self._put(row, self.waits):
            other = self._elsewhere(row, (since, until), lambda other: any(self._for(wait, other) for wait in waits))
            if other >= 0:
                return other
        call = work.call[row]
        return self._elsewhere(
            row, (close, until), lambda other: work.call[other] == call and work.launched[other] <= launched
        )

    def _elsewhere(self, row: int, between: tuple[int, int], awaited: Callable[[int], bool]) -> int:
        """The last awaited work on another lane that ended between these instants; else -1."""
        work, (since, until) = self.work, between
        for other in self._ended(until, since):
            if work.lane[other] != work.lane[row] and work.start[other] < until and awaited(other):
                return other
        return -1

    def _put(self, row: int, waits: Mapping[int, Sequence[Wait]]) -> Sequence[Wait]:
        """The waits that were put on the lane before the row and after the work before it."""
        work, put, before = self.work, waits.get(self.work.lane[row], ()), self.work.before[row]
        low = bisect_left(put, work.launched[before], key=attrgetter("start")) if before >= 0 else 0
        return put[low : bisect_right(put, work.launched[row], key=attrgetter("start"))]

    def _for(self, wait: Wait, row: int) -> bool:
        """Whether this work is of that which is waited for."""
        return wait.lane in (None, self.work.lane[row]) and self.work.launched[row] <= wait.by

    def _ended(self, until: int, since: int) -> Iterator[int]:
        """The rows that ended at `until` at the latest and after `since`, the last first."""
        low, high = bisect_right(self.work.ends, since), bisect_right(self.work.ends, until)
        return (self.work.by_end[at] for at in range(high - 1, low - 1, -1))

    def _from_thread(self, place: Place, start: int) -> tuple[list[Leg], Place | None]:
        """What the thread did since it last waited, and what it waited for."""
        thread = self.threads.get(place.lane)
        if thread is None:
            return [], None
        at = bisect_right(thread.handover_ends, place.time) - 1
        taken = thread.handovers[at] if at >= 0 else None
        low = max(start, thread.first if taken is None else taken.end)
        at = bisect_left(thread.errand_starts, place.time) - 1
        errand = thread.errands[at] if at >= 0 and thread.errand_starts[at] >= low else None
        low = low if errand is None else errand.start
        for number in range(bisect_right(thread.call_ends, place.time) - 1, -1, -1):
            call = thread.calls[number]
            if call.end < low:
                break
            row = self._ended_in(call)
            if row >= 0:
                since = self.work.end[row]
                did = Leg(call.end, place.time, HOST, place.lane, -1)
                waited = Leg(since, call.end, SYNC, place.lane, call.event)
                return [did, waited], Place(since, self.work.lane[row], row)
        if errand is not None:
            return self._from_errand(errand, place)
        if taken is None:
            return [Leg(low, place.time, HOST, place.lane, -1)], None
        return [Leg(taken.stopped, place.time, HOST, place.lane, -1)], Place(taken.stopped, taken.lane)

    def _from_errand(self, errand: Errand, place: Place) -> tuple[list[Leg], Place]:
        """What the thread did for another since that asked for it; where it was busy by then, since it was free."""
        if errand.asked < errand.free:
            return [Leg(errand.free, place.time, HOST, place.lane, -1)], Place(errand.free, place.lane)
        did = Leg(errand.start, place.time, HOST, place.lane, -1)
        return [did, Leg(errand.asked, errand.start, LAUNCH, errand.lane, errand.event)], Place(
            errand.asked, errand.lane
        )

    def _ended_in(self, call: Call) -> int:
        """The row of the work whose end the call waited for, -1 if for none.

        It began before the call returned, so that the walk goes back in time with every call.
        """
        work = self.work
        if call.own is not None:
            row = max(call.own, key=lambda each: work.end[each], default=-1)
            ended = row >= 0 and call.wait.start < work.end[row] <= call.end and work.start[row] < call.end
            return row if ended else -1
        for row in self._ended(call.end, call.wait.start):
            if work.start[row] < call.end and self._for(call.wait, row):
                return row
        return -1
