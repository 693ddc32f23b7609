"""The walk of the critical path: from the end of a window back to its start, each time to the awaited event.

Knows the dependencies between host threads, streams and waits, but no frames, names or settings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import Struct

BEFORE_ALL_TIMES: Final = -(1 << 62)
"""A time before all others."""

PATH_CLASSES: Final = (
    "CPU", "data loading", "launch", "compute", "communication", "copy", "kernel-kernel delay", "sync", "unknown",
)  # fmt: skip
CPU, LOADING, LAUNCH, COMPUTE, COMMUNICATION, COPY, DELAY, SYNC, UNKNOWN = range(len(PATH_CLASSES))

_MAX_LAUNCH_DELAY: Final = 300_000_000
"""Work that begins more than this many ps after its launch returned waited for something else."""

HOST_LEG: Final = -1
"""In place of a class: this leg is on a thread, and has the classes of its events."""


class PathLeg(NamedTuple):
    """An interval of the path: its class (or `HOST_LEG`), its lane, and its event (-1: none)."""

    start: int
    end: int
    what: int
    lane: int
    event: int


class StreamWork(Struct, frozen=True):
    """Work on a device's streams, sorted by (lane, start, -end): columns of equal length.

    `launched` is the start of the launching call and `returned` its end (`BEFORE_ALL_TIMES`: unknown), `call` its
    event, `thread` its lane; `latest` is the latest time of its launch, by the work that ran later. `before` is the
    earlier row of the lane that ended last, -1 for the first.
    """

    event: Sequence[int]
    lane: Sequence[int]
    start: Sequence[int]
    end: Sequence[int]
    path_class: Sequence[int]
    launched: Sequence[int]
    returned: Sequence[int]
    latest: Sequence[int]
    call: Sequence[int]
    thread: Sequence[int]
    before: Sequence[int]
    by_end: Sequence[int]
    ends: Sequence[int]
    """The rows by their ends, and these ends."""


class DeviceWait(NamedTuple):
    """A wait that began at `start`: for the work on a lane (None: on any) that was launched by the time `by`."""

    start: int
    lane: int | None
    by: int


class WaitingCall(NamedTuple):
    """A call in which a thread may wait, until its end: for `wait`, or for the rows of `own` (a copy)."""

    event: int
    end: int
    wait: DeviceWait
    own: tuple[int, ...] | None = None


class ThreadHandover(NamedTuple):
    """A gap of a thread at whose end it took over from another thread, which had stopped meanwhile."""

    end: int
    stopped: int
    lane: int


class RequestedTask(NamedTuple):
    """A task that a thread began at `start` for the call `event` on another `lane`, requested at `asked`.

    `free` is the time at which the thread had finished all earlier tasks: `BEFORE_ALL_TIMES` for the first, `start` if
    it is busy.
    """

    start: int
    free: int
    asked: int
    lane: int
    event: int


class ThreadWaits(Struct, frozen=True):
    """Events that may have made a host thread wait: calls and handovers ordered by end, tasks by start."""

    first: int
    calls: Sequence[WaitingCall]
    call_ends: Sequence[int]
    handovers: Sequence[ThreadHandover]
    handover_ends: Sequence[int]
    tasks: Sequence[RequestedTask]
    task_starts: Sequence[int]


class PathPosition(NamedTuple):
    """Position of the walk: a time on a thread's lane, or (`row` not -1) a row of the work."""

    time: int
    lane: int
    row: int = -1


class CriticalWalk(Struct, frozen=True):
    """All inputs of the walk. `waits` has, by lane of the work, the waits for events put there, ordered by start.

    None: such waits are not recorded. Then, and if no launch is known, and among nodes of one graph, work that begins
    at most `near` after work on another lane ended, although its own lane was free and it was launched, is assumed to
    have waited for that.
    """

    work: StreamWork
    threads: Mapping[int, ThreadWaits]
    waits: Mapping[int, Sequence[DeviceWait]] | None
    near: int

    def path_legs(self, place: PathPosition | None, start: int) -> list[PathLeg]:
        """The legs of the path that ends at a position, back to `start` or to where nothing is known.

        In the order of time.
        """
        found: list[PathLeg] = []
        while place is not None and place.time > start:
            legs, place = self._trace_back_work(place) if place.row >= 0 else self._trace_back_thread(place, start)
            found += legs
        return [
            leg if leg.start >= start else leg._replace(start=start)
            for leg in reversed(found)
            if leg.end > leg.start and leg.end > start
        ]

    def _trace_back_work(self, place: PathPosition) -> tuple[list[PathLeg], PathPosition | None]:
        """The work itself, and the event it waited for: its launch, earlier work on its lane, or work on another.

        At the position it may not have begun yet.
        """
        work, row = self.work, place.row
        begin, launched, before = work.start[row], work.launched[row], work.before[row]
        until = min(begin, place.time)
        ran = PathLeg(until, place.time, work.path_class[row], work.lane[row], work.event[row])
        free = BEFORE_ALL_TIMES if before < 0 else min(work.end[before], begin)
        since = max(free, launched)
        other = self._awaited_row(row, since, until) if since < until else -1
        if other >= 0:
            before, free = other, work.end[other]
        if launched >= free and launched > BEFORE_ALL_TIMES:
            thread = work.thread[row]
            return [ran, *self._launch_legs(row, until)], PathPosition(launched, thread)
        if before < 0:
            return [ran], None
        why = UNKNOWN if launched == BEFORE_ALL_TIMES and other < 0 and work.latest[row] > free else DELAY
        pause = PathLeg(free, until, why, ran.lane, ran.event)
        if work.returned[row] >= begin > free + self.near:  # the call launches the nodes of a graph one by one
            pause = PathLeg(free, until, LAUNCH, work.thread[row], work.call[row])
        return [ran, pause], PathPosition(free, work.lane[before], before)

    def _launch_legs(self, row: int, until: int) -> list[PathLeg]:
        """From the start of the launching call to the work, or to its return if the work began long after that."""
        work, thread, call = self.work, self.work.thread[row], self.work.call[row]
        back = max(work.returned[row], work.launched[row])
        if work.start[row] - back <= _MAX_LAUNCH_DELAY or until <= back:
            return [PathLeg(work.launched[row], until, LAUNCH, thread, call)]
        waiting_leg = PathLeg(back, until, UNKNOWN, work.lane[row], work.event[row])
        return [waiting_leg, PathLeg(work.launched[row], back, LAUNCH, thread, call)]

    def _awaited_row(self, row: int, since: int, until: int) -> int:
        """The row of the work on another lane that this one waited for, if it ended in this interval; else -1."""
        work, begin, launched = self.work, self.work.start[row], self.work.launched[row]
        close = max(since, begin - self.near - 1)
        if self.waits is None or launched == BEFORE_ALL_TIMES:
            by = launched if launched > BEFORE_ALL_TIMES else begin
            return self._last_awaited_row(row, (close, until), lambda other: work.launched[other] <= by)
        if waits := self._waits_before(row, self.waits):
            other = self._last_awaited_row(
                row, (since, until), lambda other: any(self._is_awaited(wait, other) for wait in waits)
            )
            if other >= 0:
                return other
        call = work.call[row]
        return self._last_awaited_row(
            row, (close, until), lambda other: work.call[other] == call and work.launched[other] <= launched
        )

    def _last_awaited_row(self, row: int, between: tuple[int, int], awaited: Callable[[int], bool]) -> int:
        """The last awaited work on another lane that ended in this interval; else -1."""
        work, (since, until) = self.work, between
        for other in self._rows_that_end_between(until, since):
            if work.lane[other] != work.lane[row] and work.start[other] < until and awaited(other):
                return other
        return -1

    def _waits_before(self, row: int, waits: Mapping[int, Sequence[DeviceWait]]) -> Sequence[DeviceWait]:
        """The waits that were put on the lane before the row and after the previous work."""
        work, put, before = self.work, waits.get(self.work.lane[row], ()), self.work.before[row]
        low = bisect_left(put, work.launched[before], key=attrgetter("start")) if before >= 0 else 0
        return put[low : bisect_right(put, work.launched[row], key=attrgetter("start"))]

    def _is_awaited(self, wait: DeviceWait, row: int) -> bool:
        """True if the wait is for this work."""
        return wait.lane in (None, self.work.lane[row]) and self.work.launched[row] <= wait.by

    def _rows_that_end_between(self, until: int, since: int) -> Iterator[int]:
        """The rows that ended after `since` and at `until` at the latest, the last first."""
        low, high = bisect_right(self.work.ends, since), bisect_right(self.work.ends, until)
        return (self.work.by_end[at] for at in range(high - 1, low - 1, -1))

    def _trace_back_thread(self, place: PathPosition, start: int) -> tuple[list[PathLeg], PathPosition | None]:
        """The thread's activity since it last waited, and the event it waited for."""
        thread = self.threads.get(place.lane)
        if thread is None:
            return [], None
        at = bisect_right(thread.handover_ends, place.time) - 1
        taken = thread.handovers[at] if at >= 0 else None
        low = max(start, thread.first if taken is None else taken.end)
        at = bisect_left(thread.task_starts, place.time) - 1
        errand = thread.tasks[at] if at >= 0 and thread.task_starts[at] >= low else None
        low = low if errand is None else errand.start
        for number in range(bisect_right(thread.call_ends, place.time) - 1, -1, -1):
            call = thread.calls[number]
            if call.end < low:
                break
            row = self._row_ended_in_call(call)
            if row >= 0:
                since = self.work.end[row]
                did = PathLeg(call.end, place.time, HOST_LEG, place.lane, -1)
                waited = PathLeg(since, call.end, SYNC, place.lane, call.event)
                return [did, waited], PathPosition(since, self.work.lane[row], row)
        if errand is not None:
            return self._trace_back_task(errand, place)
        if taken is None:
            return [PathLeg(low, place.time, HOST_LEG, place.lane, -1)], None
        return [PathLeg(taken.stopped, place.time, HOST_LEG, place.lane, -1)], PathPosition(taken.stopped, taken.lane)

    def _trace_back_task(self, errand: RequestedTask, place: PathPosition) -> tuple[list[PathLeg], PathPosition]:
        """The thread's task since another requested it; if it was busy then, since it was free."""
        if errand.asked < errand.free:
            return [PathLeg(errand.free, place.time, HOST_LEG, place.lane, -1)], PathPosition(errand.free, place.lane)
        did = PathLeg(errand.start, place.time, HOST_LEG, place.lane, -1)
        return [did, PathLeg(errand.asked, errand.start, LAUNCH, errand.lane, errand.event)], PathPosition(
            errand.asked, errand.lane
        )

    def _row_ended_in_call(self, call: WaitingCall) -> int:
        """The row of the work whose end the call waited for, -1 for none.

        The work began before the call returned, so that the walk goes back in time with every call.
        """
        work = self.work
        if call.own is not None:
            row = max(call.own, key=lambda each: work.end[each], default=-1)
            ended = row >= 0 and call.wait.start < work.end[row] <= call.end and work.start[row] < call.end
            return row if ended else -1
        for row in self._rows_that_end_between(call.end, call.wait.start):
            if work.start[row] < call.end and self._is_awaited(call.wait, row):
                return row
        return -1
