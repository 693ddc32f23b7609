"""Files of profilers that write Kineto's form with rows of their own: torch_npu (Ascend) and ONNX Runtime.

torch_npu's rows of devices have no category: the name of their process says what they are. ONNX Runtime writes kernels
under the process that launched them, and marks the runs of a model by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.formats.kineto.categories import kernel_kind
from tracehound.formats.kineto.json_events import RawId
from tracehound.formats.kineto.kineto_lanes import DeviceLane, HostThread, LaneKey, normalize_id
from tracehound.formats.kineto.segment_events import SpilledEvents
from tracehound.formats.spill import Spill
from tracehound.model.trace import KIND
from tracehound.numeric.intervals import Ints

LocatedEvents = tuple[SpilledEvents, Ints, int]
"""Events, the file's lane of each of their lane numbers, and the ordinal of their segment's first element."""

_KindOfName = Callable[[str], str]

ONNX_CATEGORIES: Final = frozenset({"Session", "Node"})
"""Categories that only ONNX Runtime writes."""

_MODEL_RUN: Final = "model_run"
"""ONNX Runtime's event around one run of a model."""

_HARDWARE: Final = re.compile(r"Ascend Hardware\b", re.IGNORECASE)
_COMMUNICATION: Final = re.compile(r"(?:Communication|HCCL)\b", re.IGNORECASE)
_RUNTIME: Final = re.compile(r"CANN\b")
_OVERLAP: Final = re.compile(r"Overlap Analysis\b", re.IGNORECASE)
_PLANE: Final = re.compile(r"Plane\b", re.IGNORECASE)
_WAIT_TASK: Final = re.compile(
    r"(?:EVENT|NOTIFY|MEM|CAPTURE)_?(?:WAIT|RECORD)|(?:Event|Notify)_?(?:Wait|Record)|^(?:PLACE_HOLDER|PROFILER)_SQE"
)
_COPY_TASK: Final = re.compile(r"^(?:MEMCPY|SDMA|Memcpy|TensorMove)", re.IGNORECASE)


class ForeignLanes(NamedTuple):
    """Lanes of a file as its writer means them.

    `moved` has the lane that takes the place of a recorded one, `kinds` the kind of an event by its name for those
    where categories do not tell. `family` is that of the devices; `writer` is the name of the profiler, "" for PyTorch.
    """

    writer: Literal["torch_npu", "ONNX Runtime", ""] = ""
    family: str = ""
    moved: Mapping[LaneKey, LaneKey] = {}
    kinds: Mapping[LaneKey, _KindOfName] = {}


def find_foreign_lanes(
    lanes: Collection[LaneKey], names: Mapping[tuple[str, RawId, RawId], str], categories: Collection[str]
) -> ForeignLanes:
    """The lanes of a file with these recorded lanes, names of processes and threads, and categories."""
    recorded = {(kind, normalize_id(pid), normalize_id(tid)): name.strip() for (kind, pid, tid), name in names.items()}
    processes = {pid: name for (kind, pid, _), name in recorded.items() if kind == "process_name"}
    if any(_HARDWARE.match(name) for name in processes.values()):
        threads = {(pid, tid): name for (kind, pid, tid), name in recorded.items() if kind == "thread_name"}
        return _npu_lanes(lanes, processes, threads)
    if not ONNX_CATEGORIES.isdisjoint(categories):
        return ForeignLanes(
            "ONNX Runtime", moved={lane: lane._replace(device=0) for lane in lanes if isinstance(lane, DeviceLane)}
        )
    return ForeignLanes()


def _npu_lanes(
    lanes: Collection[LaneKey], processes: Mapping[RawId, str], threads: Mapping[tuple[RawId, RawId], str]
) -> ForeignLanes:
    """Lanes of a file of torch_npu; it does not number its device."""
    moved, kinds = dict[LaneKey, LaneKey](), dict[LaneKey, _KindOfName]()
    for lane in lanes:
        if not isinstance(lane, HostThread):
            continue
        process, thread = processes.get(lane.pid, ""), threads.get(lane, "")
        stream = lane.tid if isinstance(lane.tid, int) and 0 <= lane.tid < 1 << 31 else -1
        if _HARDWARE.match(process):
            moved[lane], kinds[lane] = DeviceLane("stream", 0, stream, lane.pid), _npu_task_kind
        elif _COMMUNICATION.match(process) and _PLANE.match(thread):  # parts of the group's calls, shown again
            moved[lane] = DeviceLane("other", 0, stream, lane.pid, thread)
        elif _COMMUNICATION.match(process):
            title = thread or f"{process} {lane.tid}"
            moved[lane], kinds[lane] = DeviceLane("stream", 0, stream, lane.pid, title), lambda _: "collective"
        elif _OVERLAP.match(process):
            moved[lane] = DeviceLane("other", 0, stream, lane.pid, thread or f"{process} {lane.tid}")
        elif _RUNTIME.match(process):
            kinds[lane] = lambda _: "runtime"
    return ForeignLanes("torch_npu", "NPU", moved, kinds)


def _npu_task_kind(name: str) -> str:
    """Kind of a task on a stream of an NPU: waits and records of events keep nothing busy."""
    if _WAIT_TASK.search(name):
        return "sync"
    return "copy" if _COPY_TASK.match(name) else kernel_kind(name)


class KindAmendment(Struct):
    """Sets the kinds of events on the lanes of a foreign writer, and numbers the runs of a model as steps."""

    lanes: ForeignLanes
    spill: Spill

    def amend(self, located_events: Sequence[LocatedEvents], keys: Sequence[Sequence[LaneKey]]) -> list[LocatedEvents]:
        """The events with their kinds; `keys` has the recorded lanes of the lane numbers of each chunk."""
        if not self.lanes.writer:
            return list(located_events)
        amended = [
            (self._with_kinds(events, lanes_of_chunk, first, number), rows, first)
            for number, ((events, rows, first), lanes_of_chunk) in enumerate(zip(located_events, keys, strict=True))
        ]
        return list(self._with_steps(amended)) if self.lanes.writer == "ONNX Runtime" else amended

    def _with_kinds(self, events: SpilledEvents, keys: Sequence[LaneKey], first: int, number: int) -> SpilledEvents:
        kind_functions = {lane: self.lanes.kinds[key] for lane, key in enumerate(keys) if key in self.lanes.kinds}
        if not kind_functions:
            return events
        rows = events.spilled.read_frame()
        distinct = rows.select("lane", "name").unique().filter(pl.col("lane").is_in(list(kind_functions)))
        kinds = [kind_functions[lane](name or "") for lane, name in distinct.cast({"name": pl.String}).iter_rows()]
        if not kinds:
            return events
        named = distinct.with_columns(pl.Series("named", kinds, KIND))
        kind = rows.join(named, on=["lane", "name"], how="left", maintain_order="left")["named"]
        is_open = kind.is_not_null() & (rows["kind"] == "other")
        changed = rows.with_columns(pl.when(is_open).then(kind).otherwise("kind").alias("kind"))
        return events._replace(spilled=self.spill.spill_frame(changed, f"kinds-{first}-{number}"))

    def _with_steps(self, located_events: Iterable[LocatedEvents]) -> Iterator[LocatedEvents]:
        """The events, with the runs of a model numbered in order of time."""
        read = [(events.spilled.read_frame(), events, rows, first) for events, rows, first in located_events]
        is_run = [frame["name"].cast(pl.String).to_numpy() == _MODEL_RUN for frame, *_ in read]
        starts = [
            frame["start"].to_numpy()[mask] // 1000 + events.start
            for (frame, events, *_), mask in zip(read, is_run, strict=True)
        ]
        in_order = np.sort(np.concatenate([np.empty(0, np.int64), *starts]))
        for number, ((frame, events, rows, first), mask, start) in enumerate(zip(read, is_run, starts, strict=True)):
            if not mask.any():
                yield events, rows, first
                continue
            step = np.full(len(mask), -1, np.int64)
            step[mask] = np.searchsorted(in_order, start)
            marked = pl.Series(mask)
            changed = frame.with_columns(
                pl.when(marked).then(pl.Series(step)).cast(pl.Int32).alias("step"),
                pl.when(marked).then(pl.lit("step", KIND)).otherwise("kind").alias("kind"),
            )
            spilled = self.spill.spill_frame(changed, f"runs-{first}-{number}")
            yield events._replace(spilled=spilled), rows, first
