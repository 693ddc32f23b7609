"""The events of a part, batch after batch: nested, linked to their launches, placed in steps.

Owns the order of the work: events of hosts, executions of modules, other events of devices; each needs those before.
Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.batches import Batch, Runs, Source, batches
from tracehound.formats.links import HostCalls, executions, from_parents
from tracehound.formats.nests import Nested, Open, nest, survey
from tracehound.formats.steps import calendar, infer, mark
from tracehound.intervals import Ints, lane_order
from tracehound.trace import EVENTS, KIND, schema

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

_MARKS: Final = schema({name: RAW[name] for name in ("lane", "start", "end", "name", "step")})
_EXECUTIONS: Final = schema(
    {name: RAW[name] for name in ("lane", "start", "end", "name", "correlation", "consumes", "run")}
)

HOSTS, MODULES, OTHERS = range(3)
"""Groups of lanes, in the order of their numbers: of hosts, of modules on devices, the others of devices."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """What there is to know of each lane, by its number."""

    group: Ints
    host: Ints
    rank: Ints  # -1: a host's lane
    concurrent: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Raw:
    """All raw events of a file, whose lanes are numbered group by group; `size` is that of a batch."""

    runs: Runs
    sources: Sequence[Source]
    lanes: Lanes
    size: int

    def batches(self, group: int) -> Iterator[list[Batch]]:
        """The batches of a group of lanes; those of one long lane come in one list."""
        low, high = np.searchsorted(self.lanes.group[self.runs.lane], [group, group + 1])
        first = self.runs.at(slice(0, low)).height
        return batches(self.runs.at(slice(low, high)), self.sources, first, self.size)


@dataclass(frozen=True, eq=False)
class Seen:
    """What the events say of their lanes, and the ids of those that mark steps; grows with every batch."""

    rows: Ints
    first: Ints
    last: Ints
    marks: list[Ints]

    def add(self, raw: pl.DataFrame, depth: Ints, first: int) -> None:
        """The events of a batch, of which the first has the id `first`."""
        lane, start, end = (raw[name].to_numpy() for name in ("lane", "start", "end"))
        begins = np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))
        here = lane[begins]
        self.rows[here] = np.maximum(self.rows[here], np.maximum.reduceat(depth, begins) + 1)
        self.first[here] = np.minimum(self.first[here], start[begins])
        self.last[here] = np.maximum(self.last[here], np.maximum.reduceat(end, begins))
        if "step" in raw.columns and raw["step"].null_count() < len(raw):
            self.marks.append(np.flatnonzero(raw["step"].is_not_null().to_numpy()) + first)


def nothing_seen(lanes: int) -> Seen:
    """For a file with so many lanes."""
    none = np.iinfo(np.int64)
    return Seen(np.zeros(lanes, np.int64), np.full(lanes, none.max), np.full(lanes, none.min), [])


def steps_of(raw: Raw, ran: pl.DataFrame) -> pl.DataFrame:
    """The steps of the file: marked, else inferred from the modules that `ran`.

    The `event` of a mark is its place among the marks, the first being 0: `Seen.marks` has the ids.
    """
    marks = _marks(raw)
    return mark(marks) if marks.height else infer(ran)


def _marks(raw: Raw) -> pl.DataFrame:
    """The events that mark steps, in order, with host and rank."""
    found = [pl.DataFrame(schema=_MARKS)]
    of_lane = _lane_of_rows(raw)
    for number, source in enumerate(raw.sources):
        kept = source.kept
        if "step" not in kept.columns:
            continue
        rows = np.flatnonzero(kept.rows(columns=["step"])["step"].is_not_null().to_numpy())
        if len(rows):
            marks = kept.rows(columns=[name for name in _MARKS if name != "lane"])[rows].with_columns(
                pl.Series("lane", of_lane(number, rows)), pl.col("start", "end") + source.shift
            )
            found.append(marks.select(*_MARKS).cast(_MARKS))
    marks = pl.concat(found)
    order = lane_order(*(marks[name].to_numpy() for name in ("lane", "start", "end")))
    return _placed(marks if order is None else marks[order], raw.lanes).with_row_index("event")


def _lane_of_rows(raw: Raw) -> Callable[[int, npt.NDArray[np.intp]], Ints]:
    """What tells the lanes of rows of a source."""
    runs = raw.runs.at(np.lexsort((raw.runs.low, raw.runs.source)))

    def lane_of(source: int, rows: npt.NDArray[np.intp]) -> Ints:
        low, high = np.searchsorted(runs.source, [source, source + 1])
        lanes: Ints = runs.lane[low:high][np.searchsorted(runs.low[low:high], rows, side="right") - 1]
        return lanes

    return lane_of


def executed(raw: Raw) -> pl.DataFrame:
    """The executions of modules on devices, in order, with their id (`event`), host and rank."""
    found = [
        batch.read(_EXECUTIONS).with_columns(pl.int_range(pl.len()).alias("event") + batch.first)
        for group in raw.batches(MODULES)
        for batch in group
    ]
    ran = pl.concat(found, how="diagonal") if found else pl.DataFrame(schema={**_EXECUTIONS, "event": pl.Int64()})
    return _placed(ran, raw.lanes)


def _placed(events: pl.DataFrame, lanes: Lanes) -> pl.DataFrame:
    """The events with the host and the rank (null: none) of their lanes."""
    lane = events["lane"].to_numpy()
    rank = pl.Series("rank", lanes.rank[lane])
    return events.with_columns(pl.Series("host", lanes.host[lane]), rank.set(rank < 0, None))


def finished(raw: Raw, ran: pl.DataFrame, steps: pl.DataFrame, seen: Seen) -> Iterator[pl.DataFrame]:
    """The events of the part, a batch at a time, in the order of their ids; schema `EVENTS`. `seen` grows by them."""
    lanes, when, calls = raw.lanes, calendar(steps), HostCalls()

    def own_step(events: pl.DataFrame) -> Ints:
        lane = events["lane"].to_numpy()
        return when.at(lanes.host[lane], lanes.rank[lane], events["start"].to_numpy())

    for batch in _nested(raw, HOSTS, lambda _, nested, __: np.full(len(nested.parent), -1)):
        step = own_step(batch.events)
        calls.add(batch.events, batch.first, step)
        seen.add(batch.events, batch.nested.depth, batch.first)
        yield _events(batch, lanes, step, batch.call)
    launches = calls.launches()
    lane, rank, start, end = (ran[name].to_numpy() for name in ("lane", "rank", "start", "end"))
    modules = executions(lane, rank, start, end, launches.joined(ran))
    first = int(ran["event"][0]) if ran.height else 0

    def of_module(events: pl.DataFrame, nested: Nested, at: int) -> Ints:
        call = modules.call[at - first : at - first + len(events)].copy()
        return from_parents(call, nested.parent, nested.before.call)

    def of_device(events: pl.DataFrame, nested: Nested, _: int) -> Ints:
        call = launches.joined(events)
        modules.give(call, lanes.rank[events["lane"].to_numpy()], events["start"].to_numpy())
        return from_parents(call, nested.parent, nested.before.call)

    for batch in chain(_nested(raw, MODULES, of_module), _nested(raw, OTHERS, of_device)):
        by_launch = launches.steps(batch.call)
        step = np.where(by_launch >= 0, by_launch, own_step(batch.events))
        seen.add(batch.events, batch.nested.depth, batch.first)
        yield _events(batch, lanes, step, launches.ids(batch.call))


class _Batch(NamedTuple):
    """Events of a batch, nested; `call` points at what launched each, -1 for nothing."""

    events: pl.DataFrame
    nested: Nested
    call: Ints
    first: int


def _nested(raw: Raw, group: int, call_of: Callable[[pl.DataFrame, Nested, int], Ints]) -> Iterator[_Batch]:
    """The batches of a group of lanes, nested, with the calls that `call_of` tells."""
    for together in raw.batches(group):
        some, course = survey(together, raw.lanes.concurrent)
        before = Open()
        for batch in some:
            events = batch.read(RAW)
            nested = nest(events, batch.first, raw.lanes.concurrent, course, before)
            call = call_of(events, nested, batch.first)
            if course is not None:
                before = nested.after(call)
            yield _Batch(events, nested, call, batch.first)


def _events(batch: _Batch, lanes: Lanes, step: Ints, launch: Ints) -> pl.DataFrame:
    """The events as the part has them; schema `EVENTS`."""
    raw, nested = batch.events, batch.nested
    lane = raw["lane"].to_numpy()
    made = [
        pl.Series("id", np.arange(batch.first, batch.first + len(raw))),
        _nullable("rank", lanes.rank[lane]),
        _nullable("step", step),
        pl.Series("depth", np.minimum(nested.depth, np.iinfo(np.uint16).max)),
        _nullable("parent", nested.parent_id),
        pl.Series("self", nested.own),
        _nullable("launch", launch),
    ]
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in EVENTS.items() if name not in raw.columns]
    return raw.with_columns(missing).with_columns(made).select(*EVENTS).cast(EVENTS)


def _nullable(name: str, values: Ints) -> pl.Series:
    """The values, of which those below 0 are none."""
    column = pl.col(name)
    return pl.DataFrame({name: values}).select(pl.when(column >= 0).then(column)).to_series()
