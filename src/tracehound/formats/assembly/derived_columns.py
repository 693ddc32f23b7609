"""The columns of events that are derived batch by batch: nesting, launches, steps and runs.

The order of the work is: events of hosts, executions of modules, other events of devices; each needs those before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.formats.assembly.async_handoff import (
    REGION_START,
    REGION_STOP,
    STEP_UNKNOWN,
    HandoffIntervals,
    find_handoff_steps,
)
from tracehound.formats.assembly.event_batches import (
    RECORDED_END,
    EventBatch,
    EventRows,
    RowRanges,
    ShiftedChunk,
    concat_column_sets,
    cut_impossible_ends,
    split_into_batches,
    survey_queue,
)
from tracehound.formats.assembly.inherited_ids import index_executions, index_module_runs, inherit_calls
from tracehound.formats.assembly.lane_nesting import (
    ContainerRules,
    LaneSurvey,
    NestedEvents,
    OpenEvents,
    nest_events,
    survey_lane,
)
from tracehound.formats.assembly.launch_links import IS_PART_OF_RUN, HostCallCollector, consumed_ids, lacks_call_ids
from tracehound.formats.assembly.step_detection import (
    GRAPH_LAUNCHES,
    DetectedSteps,
    count_similar_annotations,
    step_calendar,
    steps_from_executions,
    steps_from_marks,
)
from tracehound.formats.inflate import prefetch
from tracehound.formats.spill import MaskedColumn, Spill, columns_to_frame
from tracehound.formats.value_bounds import drop_impossible_sizes
from tracehound.model.notes import Note
from tracehound.model.trace import KIND, KINDS, STEPS, schema
from tracehound.numeric.id_set import IdSet, make_id_set, sorted_distinct, union_id_sets
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import lane_sort_order

RAW_EVENTS = schema(
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
"""The columns that a format returns, a row per event. Columns that a format lacks may be left out: they are null."""

_EVENT_COLUMNS: Final = tuple(name for name in RAW_EVENTS if name != "lane")
_MARK_COLUMNS: Final = ("start", "end", "name", "step")
_LAUNCH_IDENTITY_COLUMNS: Final = ("start", "end", "name", "kind", "correlation")
_EXECUTION_COLUMNS: Final = ("start", "end", "name", "correlation", "consumes", "run")

HOST_LANES, MODULE_LANES, OTHER_LANES = range(3)
"""Groups of lanes, in the order of their numbers: of hosts, of modules on devices, the others of devices."""


class LaneProperties(Struct, frozen=True, eq=False):
    """Properties of each lane, by its number. `queues` are streams that run their kernels one after the other."""

    group: Ints
    host: Ints
    rank: Ints  # -1: a host's lane
    containers: ContainerRules
    queues: Mask


class RawEvents(Struct, frozen=True, eq=False):
    """All raw events of a file, whose lanes are numbered group by group; `size` is that of a batch."""

    runs: RowRanges
    sources: Sequence[ShiftedChunk]
    lanes: LaneProperties
    size: int

    def bounds(self, group: int) -> tuple[int, int]:
        """Return the bounds of the row ranges of a group of lanes."""
        low, high = np.searchsorted(self.lanes.group[self.runs.lane], [group, group + 1])
        return int(low), int(high)

    def columns(self, *groups: int) -> set[str]:
        """Return the columns of the chunks that hold events of these groups of lanes."""
        return {name for source in self.chunks_with(*groups) for name in self.sources[source].spilled.dtypes}

    def chunks_with(self, *groups: int) -> list[int]:
        """Return the numbers of the chunks that hold events of these groups of lanes."""
        bounds = [self.bounds(group) for group in groups]
        found: list[int] = np.unique(np.concatenate([self.runs.source[low:high] for low, high in bounds])).tolist()
        return found

    def batches(self, group: int) -> Iterator[list[EventBatch]]:
        """Yield the batches of a group of lanes; those of one long lane come in one list."""
        low, high = self.bounds(group)
        first = self.runs.take(slice(0, low)).height
        return split_into_batches(self.runs.take(slice(low, high)), self.sources, first, self.size)


class FileEventSummary(Struct, frozen=True, eq=False):
    """Depth and time bounds of each lane, ids of events that mark steps, and records of events with impossible sizes.

    It grows with every batch. `repeated` has the number of correlation ids that refer to several calls, `twice` the
    records of work that equals the one before it on its lane in all: name, times and the id of its launch. `cut` has
    the records and recorded lengths of kernels whose impossible ends were cut, `unmatched` the number of launches whose
    correlation id no device event has.
    """

    rows: Ints
    first: Ints
    last: Ints
    marks: list[Ints]
    unsized: list[Ints]
    repeated: list[int]
    twice: list[Ints]
    cut: list[tuple[Ints, Ints]]
    unmatched: list[int]

    def add(self, events: EventRows, depth: Ints) -> None:
        """Add the events of a batch, with their depths."""
        begins = events.lane_start_rows
        lane = events.lane[begins]
        self.rows[lane] = np.maximum(self.rows[lane], np.maximum.reduceat(depth, begins) + 1)
        self.first[lane] = np.minimum(self.first[lane], events.start[begins])
        self.last[lane] = np.maximum(self.last[lane], np.maximum.reduceat(events.end, begins))
        self.marks.append(events.ids[events.has_value("step")])

    def add_launched(self, events: EventRows) -> None:
        """Add the records of doubled work among the events of a batch of devices."""
        has_id = events.has_value("correlation")
        is_equal = has_id[1:] & has_id[:-1] & (events.end > events.start)[1:]
        for values in (
            events.lane,
            *(events.columns[name].values for name in _LAUNCH_IDENTITY_COLUMNS if name in events.columns),
        ):
            is_equal &= values[1:] == values[:-1]
        self.twice.append(_event_records(events)[1:][is_equal])
        if RECORDED_END in events.columns:
            cut = events.has_value(RECORDED_END)
            lengths = events.columns[RECORDED_END].values[cut] - events.start[cut]
            self.cut.append((_event_records(events)[cut], lengths))


def empty_totals(lanes: int) -> FileEventSummary:
    """Return the totals of a file with so many lanes, before any event."""
    none = np.iinfo(np.int64)
    return FileEventSummary(
        np.zeros(lanes, np.int64), np.full(lanes, none.max), np.full(lanes, none.min), [], [], [], [], [], []
    )


StepInference = Callable[[pl.DataFrame], pl.DataFrame]
"""Function that infers steps from the annotations and graph replays of hosts; see `step_detection`."""


def find_steps(
    raw: RawEvents, executions: EventRows, unmarked: StepInference | None, repeating: str = ""
) -> DetectedSteps:
    """Find the steps of the file: from marks, else from executions of modules, else by `unmarked`.

    `repeating` names the module that is the step, where the file does. The `event` of a mark is its position among the
    marks, from 0: `FileEventSummary.marks` has the ids. The events of recurring steps are not known yet.
    """
    marks = _find_step_marks(raw)
    if marks.height:
        return steps_from_marks(marks)
    if len(executions.lane) or unmarked is None:
        return DetectedSteps(steps_from_executions(_with_host_and_rank(executions, raw.lanes), repeating))
    candidates = _find_step_candidates(raw)
    if candidates.is_empty():
        return DetectedSteps(pl.DataFrame(schema=STEPS))
    steps = unmarked(candidates)
    others = count_similar_annotations(steps, candidates)
    return DetectedSteps(steps, (Note("inferred", "annotations_not_steps", others),) if others else ())


def _find_step_candidates(raw: RawEvents) -> pl.DataFrame:
    """Find the annotations and graph replays on hosts, in the order of their starts, with host and lane."""
    of_lane, found = _lane_finder(raw), [pl.DataFrame(schema=_CANDIDATE_SCHEMA)]
    annotation = KINDS.index("annotation")
    for number, (spilled, shift, *_) in enumerate(raw.sources):
        columns = spilled.read(0, spilled.height, ("name", "kind"))
        chosen = (columns["kind"].values == annotation) | _name_mask(columns["name"].values, GRAPH_LAUNCHES)
        rows = np.flatnonzero(chosen)
        if not len(rows):
            continue
        lane = of_lane(number, rows)
        rows, lane = rows[raw.lanes.rank[lane] < 0], lane[raw.lanes.rank[lane] < 0]
        columns_of_rows = {
            name: column.take(rows) for name, column in spilled.read(0, spilled.height, _CANDIDATE_COLUMNS).items()
        }
        frame = columns_to_frame(columns_of_rows, {name: RAW_EVENTS[name] for name in _CANDIDATE_COLUMNS}).with_columns(
            pl.Series("lane", lane), pl.Series("host", raw.lanes.host[lane]), pl.col("start", "end") + shift
        )
        found.append(frame.select(*_CANDIDATE_SCHEMA).cast(_CANDIDATE_SCHEMA))
    return pl.concat(found).sort("start", maintain_order=True)


_CANDIDATE_COLUMNS: Final = ("start", "end", "name", "kind")
_CANDIDATE_SCHEMA: Final = schema(
    {
        "host": pl.Int64(),
        "lane": pl.Int64(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "name": pl.String(),
        "kind": KIND,
    }
)


def _find_step_marks(raw: RawEvents) -> pl.DataFrame:
    """Find the events that mark steps, in order, with host and rank."""
    of_lane = _lane_finder(raw)
    lanes, found = list[Ints](), list[dict[str, MaskedColumn]]()
    for number, (spilled, shift, *_) in enumerate(raw.sources):
        if "step" not in spilled.dtypes:
            continue
        valid = spilled.read(0, spilled.height, ["step"])["step"].valid
        rows = np.arange(spilled.height) if valid is None else np.flatnonzero(valid)
        if len(rows):
            columns = spilled.read(0, spilled.height, _MARK_COLUMNS)
            columns_of_rows = {name: column.take(rows) for name, column in columns.items()}
            found.append(
                {
                    **columns_of_rows,
                    **{name: MaskedColumn(columns_of_rows[name].values + shift) for name in ("start", "end")},
                }
            )
            lanes.append(of_lane(number, rows))
    if not found:
        return pl.DataFrame()
    marks = EventRows(np.concatenate(lanes), concat_column_sets(found, list(map(len, lanes))), 0)
    order = lane_sort_order(marks.lane, marks.start, marks.end)
    return _with_host_and_rank(marks if order is None else marks.take(order), raw.lanes)


def _name_mask(names: npt.NDArray[Any], texts: Sequence[str]) -> Mask:
    """Mask of the names (as codes) that are among the given texts."""
    codes = sorted_distinct(names)
    known_texts = columns_to_frame({"name": MaskedColumn(codes)}, {"name": RAW_EVENTS["name"]})["name"].cast(pl.String)
    return np.isin(names, codes[known_texts.is_in(texts).to_numpy()])


def _lane_finder(raw: RawEvents) -> Callable[[int, npt.NDArray[np.intp]], Ints]:
    """Return a function that finds the lanes of rows of a source."""
    runs = raw.runs.take(np.lexsort((raw.runs.low, raw.runs.source)))

    def lane_of(source: int, rows: npt.NDArray[np.intp]) -> Ints:
        low, high = np.searchsorted(runs.source, [source, source + 1])
        lanes: Ints = runs.lane[low:high][np.searchsorted(runs.low[low:high], rows, side="right") - 1]
        return lanes

    return lane_of


def read_module_executions(raw: RawEvents) -> EventRows:
    """Read the executions of modules on devices, in order."""
    low, high = raw.bounds(MODULE_LANES)
    first = raw.runs.take(slice(0, low)).height
    if low == high:
        nothing = np.empty(0, np.int64)
        return EventRows(nothing, {"start": MaskedColumn(nothing), "end": MaskedColumn(nothing)}, first)
    return EventBatch(raw.runs.take(slice(low, high)), first, raw.sources).read(_EXECUTION_COLUMNS)


def _with_host_and_rank(events: EventRows, lanes: LaneProperties) -> pl.DataFrame:
    """Return the columns that steps need, with ids (`event`) and the host and rank (null: none) of the lanes."""
    rank = lanes.rank.take(events.lane)
    columns = {
        **events.columns,
        "event": MaskedColumn(events.ids),
        "host": MaskedColumn(lanes.host[events.lane]),
        "rank": MaskedColumn(rank, rank >= 0),
    }
    return columns_to_frame(columns, {"name": RAW_EVENTS["name"], **{name: pl.Int64() for name in _STEP_COLUMNS}})


_STEP_COLUMNS: Final = ("event", "host", "rank", "start", "end", "step", "run")


def derive_event_columns(
    raw: RawEvents, executions: EventRows, steps: pl.DataFrame, totals: FileEventSummary, spill: Spill
) -> Iterator[dict[str, MaskedColumn]]:
    """Yield the events with columns of `EVENTS`, a batch at a time, in the order of their ids; `totals` grows."""
    lanes, calendar = raw.lanes, step_calendar(steps)

    def by_time(events: EventRows) -> Ints:
        begins = events.lane_start_rows
        lane = events.lane[begins]
        return calendar.steps_at(lanes.host[lane], lanes.rank[lane], begins, events.start)

    handoffs = _find_handoffs(raw, by_time) if calendar.of == "host" and len(calendar.step) else None

    def own_step(events: EventRows) -> Ints:
        step = by_time(events)
        if handoffs is None:
            return step
        run_column = handoffs.labels_at(events.lane, events.start)
        return np.where(run_column == STEP_UNKNOWN, step, run_column)

    by_order = lacks_call_ids(executions, lanes.rank[executions.lane])
    calls = HostCallCollector(
        raw.columns(MODULE_LANES, OTHER_LANES),
        _device_correlation_ids(raw),
        consumed_ids(executions),
        by_order,
        lanes.host,
        spill,
    )
    for batch in _nest_batches(raw, HOST_LANES, _no_calls):
        step = own_step(batch.events)
        calls.add(batch.events, batch.nested.parent_row, step)
        totals.add(batch.events, batch.nested.depth)
        yield _output_columns(batch, lanes, step, batch.call) | _checked_sizes(batch.events, totals)
    launches = calls.build_launch_table()
    totals.repeated.append(launches.repeated_id_count)
    totals.unmatched.append(calls.unmatched_launches)
    runs = index_module_runs(executions, lanes.rank)
    calls_of_executions = launches.match_by_id(executions)
    if by_order and (calls_of_executions < 0).all():
        calls_of_executions = launches.match_by_order(executions)
    modules = index_executions(executions, lanes.rank[executions.lane], calls_of_executions)

    def possible_launcher(events: EventRows, nested: NestedEvents) -> Ints:
        """Return the parent from which an event may inherit its launch: none where the event has a run of its own."""
        return np.where(events.has_value("run"), -1, nested.parent)

    def of_module(events: EventRows, nested: NestedEvents) -> Ints:
        low = events.first - executions.first
        return inherit_calls(
            modules.call[low : low + len(events.lane)], possible_launcher(events, nested), nested.before.call
        )

    def of_device(events: EventRows, nested: NestedEvents) -> Ints:
        call = launches.match_by_id(events)
        modules.fill_missing_calls(call, events, lanes.rank[events.lane])
        return inherit_calls(call, possible_launcher(events, nested), nested.before.call)

    for batch in chain(_nest_batches(raw, MODULE_LANES, of_module), _nest_batches(raw, OTHER_LANES, of_device)):
        by_launch = launches.steps(batch.call)
        step = np.where(by_launch >= 0, by_launch, own_step(batch.events))
        totals.add(batch.events, batch.nested.depth)
        totals.add_launched(batch.events)
        run = runs.runs_of_events(batch.events, lanes.rank)
        run_column = {} if run is None else {"run": run}
        yield (
            _output_columns(batch, lanes, step, launches.ids(batch.call))
            | _checked_sizes(batch.events, totals)
            | run_column
        )


def _device_correlation_ids(raw: RawEvents) -> IdSet:
    """Return the correlation ids of device events, whichever host they refer to."""
    id_sets = list[IdSet]()
    for low, high in (raw.bounds(group) for group in (MODULE_LANES, OTHER_LANES)):
        for first in range(low, high, _RANGES_AT_ONCE):
            column = EventBatch(raw.runs.take(slice(first, min(first + _RANGES_AT_ONCE, high))), 0, raw.sources).column(
                "correlation"
            )
            if column is not None:
                id_sets.append(make_id_set(column.values if column.valid is None else column.values[column.valid]))
    return union_id_sets(id_sets)


_RANGES_AT_ONCE: Final = 64
"""The row ranges that are read together where few columns of all events are needed."""


def _find_handoffs(raw: RawEvents, by_time: Callable[[EventRows], Ints]) -> HandoffIntervals | None:
    """Find the work that threads of hosts handed to one another; None where nothing records it."""
    if not {"produces", "consumes"} <= raw.columns(HOST_LANES):
        return None
    parts, marked_lanes = list[dict[str, MaskedColumn]](), list[Ints]()
    for batch in chain.from_iterable(raw.batches(HOST_LANES)):
        events = batch.read(_HANDOFF_INPUT_COLUMNS)
        name, kind = (events.columns[column_name].values for column_name in ("name", "kind"))
        begins, stops = (_name_mask(name, (column_name,)) for column_name in (REGION_START, REGION_STOP))
        rows = np.flatnonzero(events.has_value("produces") | events.has_value("consumes") | begins | stops)
        columns = {
            column_name: events.columns[column_name]
            for column_name in _HANDOFF_COLUMNS
            if column_name in events.columns
        }
        columns |= {"lane": MaskedColumn(events.lane), "step": MaskedColumn(by_time(events).astype(np.int32))}
        columns |= {
            "begins": MaskedColumn(begins),
            "stops": MaskedColumn(stops),
            "op": MaskedColumn(IS_PART_OF_RUN[kind]),
        }
        parts.append({column_name: column.take(rows) for column_name, column in columns.items()})
        marked_lanes.append(sorted_distinct(events.lane[events.has_value("step")]))
    columns, sizes = {}, [len(part["lane"].values) for part in parts]
    for column_name in (
        *_HANDOFF_COLUMNS,
        "lane",
        "step",
        "begins",
        "stops",
        "op",
    ):  # one by one, to save memory
        columns |= concat_column_sets(
            [{column_name: part.pop(column_name)} if column_name in part else {} for part in parts], sizes
        )
    return find_handoff_steps(
        EventRows(columns.pop("lane").values, columns, 0), sorted_distinct(np.concatenate(marked_lanes))
    )


_HANDOFF_COLUMNS: Final = ("start", "end", "produces", "consumes")
_HANDOFF_INPUT_COLUMNS: Final = (*_HANDOFF_COLUMNS, "name", "kind", "step")


class _NestedBatch(NamedTuple):
    """Events of a batch, nested; `call` is the call that launched each, -1 for none."""

    events: EventRows
    nested: NestedEvents
    call: Ints


def _no_calls(events: EventRows, _: NestedEvents) -> Ints:
    """Return no calls: nothing launched the events of hosts."""
    return np.full(len(events.lane), -1)


def _nest_batches(
    raw: RawEvents, group: int, call_of: Callable[[EventRows, NestedEvents], Ints]
) -> Iterator[_NestedBatch]:
    """Yield the batches of a group of lanes, nested, with the calls that `call_of` finds."""
    open_events, batches = OpenEvents(), _read_batches_with_survey(raw, group)
    for events, survey in prefetch(batches) if raw.runs.height > raw.size else batches:
        if survey is None or events.first == survey.first:
            open_events = OpenEvents()
        nested = nest_events(events, raw.lanes.containers, survey, open_events)
        call = call_of(events, nested)
        if survey is not None:
            open_events = nested.open_events(call)
        yield _NestedBatch(events, nested, call)


def _read_batches_with_survey(raw: RawEvents, group: int) -> Iterator[tuple[EventRows, LaneSurvey | None]]:
    """Yield the events of each batch of a group of lanes, with the survey of its lane where that is long.

    Impossible ends of kernels are cut.
    """
    queues = raw.lanes.queues
    for group_batches in raw.batches(group):
        batches, survey = survey_lane(group_batches, raw.lanes.containers)
        later = survey_queue(batches, queues) if queues.any() else {}
        for batch in batches:
            events = batch.read(_EVENT_COLUMNS)
            if queues.any() and (later or survey is None):
                events = cut_impossible_ends(events, queues, later.get(batch.first))
            yield events, survey


def _output_columns(batch: _NestedBatch, lanes: LaneProperties, step: Ints, launch: Ints) -> dict[str, MaskedColumn]:
    """Return the events' columns of `EVENTS`, and those of `RAW_EVENTS` that are not stored."""
    events, nested = batch.events, batch.nested
    rank = lanes.rank.take(events.lane)
    return {
        **events.columns,
        "id": MaskedColumn(events.ids),
        "lane": MaskedColumn(events.lane),
        "rank": MaskedColumn(rank, rank >= 0),
        "step": MaskedColumn(step, step >= 0),
        "depth": MaskedColumn(nested.depth),
        "parent": nested.parent_id,
        "self": MaskedColumn(nested.own),
        "launch": MaskedColumn(launch, launch >= 0),
    }


def _checked_sizes(events: EventRows, totals: FileEventSummary) -> dict[str, MaskedColumn]:
    """Return the bytes of events, if any; those that cannot be true are recorded in `totals`."""
    if "bytes" not in events.columns:
        return {}
    sizes, beyond = drop_impossible_sizes(events.columns["bytes"])
    if beyond.any():
        totals.unsized.append(_event_records(events)[beyond])
    return {"bytes": sizes}


def _event_records(events: EventRows) -> Ints:
    """Return the records of events in the file."""
    records: Ints = events.columns.get("record", MaskedColumn(events.ids)).values
    return records
