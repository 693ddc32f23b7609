"""The events of a part, batch after batch: nested, linked to their launches, placed in steps.

Owns the order of the work: events of hosts, executions of modules, other events of devices; each needs those before.
Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.formats.ahead import ahead
from tracehound.formats.assembly.batches import Batch, Rows, Runs, Source, batches, joined
from tracehound.formats.assembly.executions import executions, from_parents
from tracehound.formats.assembly.handed import BEGIN, OPEN, STOP, Handed, handed
from tracehound.formats.assembly.links import RUNNING, HostCalls, consumed, untold
from tracehound.formats.assembly.nests import Containers, Course, Nested, Open, nest, survey
from tracehound.formats.assembly.recurring import GRAPHS, elsewhere
from tracehound.formats.assembly.runs import module_runs
from tracehound.formats.assembly.steps import Told, calendar, infer, mark
from tracehound.formats.sizes import possible
from tracehound.formats.spill import Column, Spill, frame_of
from tracehound.intervals import Ints, Mask
from tracehound.lookup import Members, distinct, members, united
from tracehound.nesting import lane_order
from tracehound.notes import Note
from tracehound.trace import KIND, KINDS, STEPS, schema

RAW = schema(
    {
        "lane": pl.Int64(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "name": pl.Categorical(),
        "kind": KIND,
        "step": pl.Int32(),  # the number that the event marks a step with; null on all others
        "correlation": pl.Int64(),
        "external": pl.Int64(),
        "run": pl.Int64(),
        "produces": pl.Int64(),  # an id that exactly one `consumes` repeats: the event enqueued that one
        "consumes": pl.Int64(),
        "op": pl.Int64(),
        "bytes": pl.Int64(),
        "device_start": pl.Int64(),
        "device_end": pl.Int64(),
        "record": pl.Int64(),
    }
)
"""What a format hands over, a row per event. Columns that a format lacks may be left out: they are null."""

_ALL: Final = tuple(name for name in RAW if name != "lane")
_MARK: Final = ("start", "end", "name", "step")
_LAUNCHED: Final = ("start", "end", "name", "kind", "correlation")
_EXECUTION: Final = ("start", "end", "name", "correlation", "consumes", "run")

HOSTS, MODULES, OTHERS = range(3)
"""Groups of lanes, in the order of their numbers: of hosts, of modules on devices, the others of devices."""


class Lanes(Struct, frozen=True, eq=False):
    """What there is to know of each lane, by its number."""

    group: Ints
    host: Ints
    rank: Ints  # -1: a host's lane
    containers: Containers


class Raw(Struct, frozen=True, eq=False):
    """All raw events of a file, whose lanes are numbered group by group; `size` is that of a batch."""

    runs: Runs
    sources: Sequence[Source]
    lanes: Lanes
    size: int

    def bounds(self, group: int) -> tuple[int, int]:
        """Which of the runs are of a group of lanes."""
        low, high = np.searchsorted(self.lanes.group[self.runs.lane], [group, group + 1])
        return int(low), int(high)

    def columns(self, *groups: int) -> set[str]:
        """The columns that pieces have which hold any event of these groups of lanes."""
        return {name for source in self.holding(*groups) for name in self.sources[source].kept.dtypes}

    def holding(self, *groups: int) -> list[int]:
        """The numbers of the pieces that hold any event of these groups of lanes."""
        bounds = [self.bounds(group) for group in groups]
        found: list[int] = np.unique(np.concatenate([self.runs.source[low:high] for low, high in bounds])).tolist()
        return found

    def batches(self, group: int) -> Iterator[list[Batch]]:
        """The batches of a group of lanes; those of one long lane come in one list."""
        low, high = self.bounds(group)
        first = self.runs.at(slice(0, low)).height
        return batches(self.runs.at(slice(low, high)), self.sources, first, self.size)


class Seen(Struct, frozen=True, eq=False):
    """What the events say of their lanes, the ids of those that mark steps, and the records of those of no size.

    Grows with every batch. `repeated` is how many correlation ids mean several calls, `twice` has the records of work
    that is like the one before it on its lane in all: name, times and the id of its launch.
    """

    rows: Ints
    first: Ints
    last: Ints
    marks: list[Ints]
    unsized: list[Ints]
    repeated: list[int]
    twice: list[Ints]

    def add(self, events: Rows, depth: Ints) -> None:
        """The events of a batch, drawn on these rows."""
        begins = events.lanes
        here = events.lane[begins]
        self.rows[here] = np.maximum(self.rows[here], np.maximum.reduceat(depth, begins) + 1)
        self.first[here] = np.minimum(self.first[here], events.start[begins])
        self.last[here] = np.maximum(self.last[here], np.maximum.reduceat(events.end, begins))
        self.marks.append(events.ids[events.valid("step")])

    def add_launched(self, events: Rows) -> None:
        """The events of a batch of devices."""
        told = events.valid("correlation")
        alike = told[1:] & told[:-1] & (events.end > events.start)[1:]
        for values in (events.lane, *(events.columns[name].values for name in _LAUNCHED if name in events.columns)):
            alike &= values[1:] == values[:-1]
        self.twice.append(_records(events)[1:][alike])


def nothing_seen(lanes: int) -> Seen:
    """For a file with so many lanes."""
    none = np.iinfo(np.int64)
    return Seen(np.zeros(lanes, np.int64), np.full(lanes, none.max), np.full(lanes, none.min), [], [], [], [])


Unmarked = Callable[[pl.DataFrame], pl.DataFrame]
"""What tells steps by the annotations and replays of graphs on hosts; see `recurring`."""


def steps_of(raw: Raw, ran: Rows, unmarked: Unmarked | None, repeating: str = "") -> Told:
    """The steps of the file: marked, else inferred from the modules that `ran`, else told by what is `unmarked`.

    `repeating` names the module that is the step, where the file does. The `event` of a mark is its place among the
    marks, the first being 0: `Seen.marks` has the ids. Those of steps that recur are not known yet.
    """
    marks = _marks(raw)
    if marks.height:
        return mark(marks)
    if len(ran.lane) or unmarked is None:
        return Told(infer(_placed(ran, raw.lanes), repeating))
    candidates = _candidates(raw)
    if candidates.is_empty():
        return Told(pl.DataFrame(schema=STEPS))
    steps = unmarked(candidates)
    others = elsewhere(steps, candidates)
    return Told(steps, (Note("inferred", "annotations_not_steps", others),) if others else ())


def _candidates(raw: Raw) -> pl.DataFrame:
    """The annotations and replays of graphs on hosts, in the order of their starts, with host and lane."""
    of_lane, found = _lane_of_rows(raw), [pl.DataFrame(schema=_CANDIDATES)]
    annotation = KINDS.index("annotation")
    for number, (kept, shift, *_) in enumerate(raw.sources):
        columns = kept.read(0, kept.height, ("name", "kind"))
        chosen = (columns["kind"].values == annotation) | _codes(columns["name"].values, GRAPHS)
        rows = np.flatnonzero(chosen)
        if not len(rows):
            continue
        lane = of_lane(number, rows)
        rows, lane = rows[raw.lanes.rank[lane] < 0], lane[raw.lanes.rank[lane] < 0]
        held = {name: column.at(rows) for name, column in kept.read(0, kept.height, _CANDIDATE).items()}
        frame = frame_of(held, {name: RAW[name] for name in _CANDIDATE}).with_columns(
            pl.Series("lane", lane), pl.Series("host", raw.lanes.host[lane]), pl.col("start", "end") + shift
        )
        found.append(frame.select(*_CANDIDATES).cast(_CANDIDATES))
    return pl.concat(found).sort("start", maintain_order=True)


_CANDIDATE: Final = ("start", "end", "name", "kind")
_CANDIDATES: Final = schema(
    {
        "host": pl.Int64(),
        "lane": pl.Int64(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "name": pl.String(),
        "kind": KIND,
    }
)


def _marks(raw: Raw) -> pl.DataFrame:
    """The events that mark steps, in order, with host and rank."""
    of_lane = _lane_of_rows(raw)
    lanes, found = list[Ints](), list[dict[str, Column]]()
    for number, (kept, shift, *_) in enumerate(raw.sources):
        if "step" not in kept.dtypes:
            continue
        valid = kept.read(0, kept.height, ["step"])["step"].valid
        rows = np.arange(kept.height) if valid is None else np.flatnonzero(valid)
        if len(rows):
            there = kept.read(0, kept.height, _MARK)
            held = {name: column.at(rows) for name, column in there.items()}
            found.append({**held, **{name: Column(held[name].values + shift) for name in ("start", "end")}})
            lanes.append(of_lane(number, rows))
    if not found:
        return pl.DataFrame()
    marks = Rows(np.concatenate(lanes), joined(found, list(map(len, lanes))), 0)
    order = lane_order(marks.lane, marks.start, marks.end)
    return _placed(marks if order is None else marks.at(order), raw.lanes)


def _codes(names: npt.NDArray[Any], called: Sequence[str]) -> Mask:
    """Which of these names, as they are kept, are among those in words."""
    codes = distinct(names)
    words = frame_of({"name": Column(codes)}, {"name": RAW["name"]})["name"].cast(pl.String)
    return np.isin(names, codes[words.is_in(called).to_numpy()])


def _lane_of_rows(raw: Raw) -> Callable[[int, npt.NDArray[np.intp]], Ints]:
    """What tells the lanes of rows of a source."""
    runs = raw.runs.at(np.lexsort((raw.runs.low, raw.runs.source)))

    def lane_of(source: int, rows: npt.NDArray[np.intp]) -> Ints:
        low, high = np.searchsorted(runs.source, [source, source + 1])
        lanes: Ints = runs.lane[low:high][np.searchsorted(runs.low[low:high], rows, side="right") - 1]
        return lanes

    return lane_of


def executed(raw: Raw) -> Rows:
    """The executions of modules on devices, in order."""
    low, high = raw.bounds(MODULES)
    first = raw.runs.at(slice(0, low)).height
    if low == high:
        nothing = np.empty(0, np.int64)
        return Rows(nothing, {"start": Column(nothing), "end": Column(nothing)}, first)
    return Batch(raw.runs.at(slice(low, high)), first, raw.sources).read(_EXECUTION)


def _placed(events: Rows, lanes: Lanes) -> pl.DataFrame:
    """Columns that steps need, with the events' ids (`event`) and the host and the rank (null: none) of their lanes."""
    rank = lanes.rank.take(events.lane)
    columns = {
        **events.columns,
        "event": Column(events.ids),
        "host": Column(lanes.host[events.lane]),
        "rank": Column(rank, rank >= 0),
    }
    return frame_of(columns, {"name": RAW["name"], **{name: pl.Int64() for name in _STEP_COLUMNS}})


_STEP_COLUMNS: Final = ("event", "host", "rank", "start", "end", "step", "run")


def finished(raw: Raw, ran: Rows, steps: pl.DataFrame, seen: Seen, spill: Spill) -> Iterator[dict[str, Column]]:
    """The events of the part, a batch at a time, in the order of their ids, with columns of `EVENTS`; `seen` grows."""
    lanes, when = raw.lanes, calendar(steps)

    def by_time(events: Rows) -> Ints:
        begins = events.lanes
        lane = events.lane[begins]
        return when.at(lanes.host[lane], lanes.rank[lane], begins, events.start)

    flow = _handed(raw, by_time) if when.of == "host" and len(when.step) else None

    def own_step(events: Rows) -> Ints:
        step = by_time(events)
        if flow is None:
            return step
        told = flow.at(events.lane, events.start)
        return np.where(told == OPEN, step, told)

    in_turn = untold(ran, lanes.rank[ran.lane])
    calls = HostCalls(raw.columns(MODULES, OTHERS), _meant(raw), consumed(ran), in_turn, lanes.host, spill)
    for batch in _nested(raw, HOSTS, _no_call):
        step = own_step(batch.events)
        calls.add(batch.events, batch.nested.inside, step)
        seen.add(batch.events, batch.nested.depth)
        yield _events(batch, lanes, step, batch.call) | _sizes(batch.events, seen)
    launches = calls.launches()
    seen.repeated.append(launches.repeated)
    runs = module_runs(ran, lanes.rank)
    called = launches.joined(ran)
    if in_turn and (called < 0).all():
        called = launches.in_turn(ran)
    modules = executions(ran, lanes.rank[ran.lane], called)

    def around(events: Rows, nested: Nested) -> Ints:
        """What may have launched an event along with itself: nothing, where that is of a run of its own."""
        return np.where(events.valid("run"), -1, nested.parent)

    def of_module(events: Rows, nested: Nested) -> Ints:
        low = events.first - ran.first
        return from_parents(modules.call[low : low + len(events.lane)], around(events, nested), nested.before.call)

    def of_device(events: Rows, nested: Nested) -> Ints:
        call = launches.joined(events)
        modules.give(call, events, lanes.rank[events.lane])
        return from_parents(call, around(events, nested), nested.before.call)

    for batch in chain(_nested(raw, MODULES, of_module), _nested(raw, OTHERS, of_device)):
        by_launch = launches.steps(batch.call)
        step = np.where(by_launch >= 0, by_launch, own_step(batch.events))
        seen.add(batch.events, batch.nested.depth)
        seen.add_launched(batch.events)
        run = runs.of(batch.events, lanes.rank)
        told = {} if run is None else {"run": run}
        yield _events(batch, lanes, step, launches.ids(batch.call)) | _sizes(batch.events, seen) | told


def _meant(raw: Raw) -> Members:
    """The ids of calls that events of devices have, whichever host's they are."""
    every = list[Members]()
    for low, high in (raw.bounds(group) for group in (MODULES, OTHERS)):
        for first in range(low, high, _RUNS):
            some = Batch(raw.runs.at(slice(first, min(first + _RUNS, high))), 0, raw.sources).column("correlation")
            if some is not None:
                every.append(members(some.values if some.valid is None else some.values[some.valid]))
    return united(every)


_RUNS: Final = 64
"""So many runs of events are looked at together where few columns of all are wanted."""


def _handed(raw: Raw, by_time: Callable[[Rows], Ints]) -> Handed | None:
    """What threads of hosts handed to one another; None where nothing tells of it."""
    if not {"produces", "consumes"} <= raw.columns(HOSTS):
        return None
    parts, own = list[dict[str, Column]](), list[Ints]()
    for batch in chain.from_iterable(raw.batches(HOSTS)):
        events = batch.read(_HANDING)
        name, kind = (events.columns[each].values for each in ("name", "kind"))
        begins, stops = (_codes(name, (each,)) for each in (BEGIN, STOP))
        rows = np.flatnonzero(events.valid("produces") | events.valid("consumes") | begins | stops)
        columns = {each: events.columns[each] for each in _HANDED if each in events.columns}
        columns |= {"lane": Column(events.lane), "step": Column(by_time(events).astype(np.int32))}
        columns |= {"begins": Column(begins), "stops": Column(stops), "op": Column(RUNNING[kind])}
        parts.append({each: column.at(rows) for each, column in columns.items()})
        own.append(distinct(events.lane[events.valid("step")]))
    columns, sizes = {}, [len(part["lane"].values) for part in parts]
    for each in (*_HANDED, "lane", "step", "begins", "stops", "op"):  # one by one, for parts and whole are large
        columns |= joined([{each: part.pop(each)} if each in part else {} for part in parts], sizes)
    return handed(Rows(columns.pop("lane").values, columns, 0), distinct(np.concatenate(own)))


_HANDED: Final = ("start", "end", "produces", "consumes")
_HANDING: Final = (*_HANDED, "name", "kind", "step")


class _Batch(NamedTuple):
    """Events of a batch, nested; `call` points at what launched each, -1 for nothing."""

    events: Rows
    nested: Nested
    call: Ints


def _no_call(events: Rows, _: Nested) -> Ints:
    """The calls of events of hosts, which nothing launched."""
    return np.full(len(events.lane), -1)


def _nested(raw: Raw, group: int, call_of: Callable[[Rows, Nested], Ints]) -> Iterator[_Batch]:
    """The batches of a group of lanes, nested, with the calls that `call_of` tells."""
    before = Open()
    for events, course in ahead(_surveyed(raw, group)):
        if course is None or events.first == course.first:
            before = Open()
        nested = nest(events, raw.lanes.containers, course, before)
        call = call_of(events, nested)
        if course is not None:
            before = nested.after(call)
        yield _Batch(events, nested, call)


def _surveyed(raw: Raw, group: int) -> Iterator[tuple[Rows, Course | None]]:
    """The events of the batches of a group of lanes, each with the course of its lane where that is a long one."""
    for together in raw.batches(group):
        batches, course = survey(together, raw.lanes.containers)
        for batch in batches:
            yield batch.read(_ALL), course


def _events(batch: _Batch, lanes: Lanes, step: Ints, launch: Ints) -> dict[str, Column]:
    """The events as the part has them: columns of `EVENTS`, and those of `RAW` that it has no use for."""
    events, nested = batch.events, batch.nested
    rank = lanes.rank.take(events.lane)
    return {
        **events.columns,
        "id": Column(events.ids),
        "lane": Column(events.lane),
        "rank": Column(rank, rank >= 0),
        "step": Column(step, step >= 0),
        "depth": Column(nested.depth),
        "parent": nested.parent_id,
        "self": Column(nested.own),
        "launch": Column(launch, launch >= 0),
    }


def _sizes(events: Rows, seen: Seen) -> dict[str, Column]:
    """The bytes of events, where they have any; those that cannot be true are seen."""
    if "bytes" not in events.columns:
        return {}
    sizes, beyond = possible(events.columns["bytes"])
    if beyond.any():
        seen.unsized.append(_records(events)[beyond])
    return {"bytes": sizes}


def _records(events: Rows) -> Ints:
    """Where in the file the events are."""
    records: Ints = events.columns.get("record", Column(events.ids)).values
    return records
