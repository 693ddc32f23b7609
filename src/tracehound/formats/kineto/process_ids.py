"""Process ids of Kineto files: marks of runs in merged files, and the processes of the older autograd profiler.

Files of PyTorch's autograd profiler before Kineto have no categories, one process for all devices, and no ids but those
of flow events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from tracehound.formats.kineto.event_columns import EventSignature
from tracehound.formats.kineto.json_events import RawId
from tracehound.numeric.intervals import Ints

_RUN_MARK: Final = re.compile(
    r"\[(?P<bracketed>[^\[\]]{1,80})\]\s*+(?=\S)|(?P<ranked>ranks?[ _.-]?\d{1,6}(?:[,-]\d{1,6})*)"
    r"(?:\s*+[:|/_-]\s*+|[^\S ]*+ \s*+)(?=\S)",
    re.IGNORECASE,
)
"""Mark before the id or the name of a process: ``[TP03] 4711``, ``[DP00-TP01] 0``, ``rank 3: python``."""

_NUMBER: Final = re.compile(r"\d+")

_NOT_A_RANK_DIGITS: Final = 8
"""A number of this many digits is a date, or an id of something else."""


class MergedRuns(Struct, frozen=True):
    """Runs whose files were merged into one, as their marks in order, and the run of each process.

    A file that was not merged has one run without a mark; a piece of a merged file may have one run with a mark.
    """

    marks: tuple[str, ...] = ("",)
    run_of_process: Mapping[RawId, int] | None = None

    @property
    def is_merged(self) -> bool:
        """True if the file was merged: what it records of its run need not hold for all of it."""
        return self.run_of_process is not None

    @property
    def has_several_runs(self) -> bool:
        """True if there is more than one run."""
        return len(self.marks) > 1

    def run_of(self, process: RawId) -> int:
        """Number of the run of a process; the first run for a process without events and without a mark in its id."""
        if self.run_of_process is None:
            return 0
        mark = _run_mark_of(process)
        return self.run_of_process.get(process, self.marks.index(mark) if mark in self.marks else 0)

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """Rank of each run: the only number in its mark, if every mark has one and all differ; else unknown."""
        numbers_in_marks = [_NUMBER.findall(mark) for mark in self.marks]
        numbers = [
            int(found[0]) for found in numbers_in_marks if len(found) == 1 and len(found[0]) < _NOT_A_RANK_DIGITS
        ]
        return tuple(numbers) if len(set(numbers)) == len(numbers_in_marks) else (None,) * len(numbers_in_marks)


def find_merged_runs(processes: Iterable[RawId], names: Mapping[RawId, str]) -> MergedRuns:
    """Runs of these processes, all of which have events; `names` are the process names in the file.

    There are several runs if every process has a mark, in its id or before its name, and the marks differ. A single run
    counts as one of a merged file only if every id has a mark with a number: a name may be the title that a program
    gave itself.
    """
    marks = {process: _run_mark_of(process) or _run_mark_of(names.get(process)) for process in processes}
    distinct_marks = sorted(set(marks.values()), key=_mark_sort_key)
    runs = MergedRuns(tuple(distinct_marks), {process: distinct_marks.index(mark) for process, mark in marks.items()})
    is_single_run = len(distinct_marks) == 1 and (runs.ranks == (None,) or not all(map(_run_mark_of, marks)))
    return MergedRuns() if not distinct_marks or "" in distinct_marks or is_single_run else runs


def without_run_mark(process: RawId) -> RawId:
    """Id of a process without the mark that merging added."""
    if not isinstance(process, str) or not (match := _RUN_MARK.match(process)):
        return process
    rest = process[match.end() :]
    return int(rest) if rest.isdecimal() and rest.isascii() and len(rest) < _NOT_AN_ID_DIGITS else rest


def has_run_mark(process: RawId) -> bool:
    """True if merging added a mark to the id of a process."""
    return bool(_run_mark_of(process))


_NOT_AN_ID_DIGITS: Final = 19
"""A number of this many digits is not a process id."""


def _run_mark_of(text: RawId) -> str:
    match = _RUN_MARK.match(text) if isinstance(text, str) else None
    return "" if match is None else match["bracketed"] or match["ranked"]


def _mark_sort_key(mark: str) -> tuple[str | int, ...]:
    """Sort key that orders marks by the numbers in them."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", mark))


_DEVICE_PROCESS: Final = "CUDA functions"
_KIND_BY_PROCESS: Final[Mapping[RawId, str]] = {_DEVICE_PROCESS: "kernel", "CPU functions": "op"}
"""Kind of the events of each process; each thread of the device process is a device."""

LAUNCH_FLOW_CATEGORIES: Final = ("cpu_to_cuda", "async_npu")
"""Categories of flow events from operators to the kernels that they launched: of the autograd profiler, torch_npu."""


def is_device_process(pid: RawId) -> bool:
    """True if all events of a process run on devices, which are its threads."""
    return without_run_mark(pid) == _DEVICE_PROCESS


def process_of_device_curves(pid: RawId, tid: RawId) -> RawId:
    """Process for the curves of an event's device: its own process, unless that holds all devices."""
    return f"{pid.removesuffix(_DEVICE_PROCESS)}GPU {tid}" if isinstance(pid, str) and is_device_process(pid) else pid


def autograd_event_kind(signature: EventSignature) -> str | None:
    """Kind of an event of the autograd profiler by its process; None for events of other profilers."""
    cat, pid, _ = signature
    return None if cat else _KIND_BY_PROCESS.get(without_run_mark(pid))


class LaunchFlowEndpoint(NamedTuple):
    """Start or finish of a flow from an operator to a kernel: its ordinal in the file, its id, and its event.

    `begins` is true for the start. The event has the process and the thread of the flow event, and starts (ns) at its
    time.
    """

    record: int
    begins: bool
    id: RawId
    pid: RawId
    tid: RawId
    start: int


def launch_flow_ends(elements: Sequence[msgspec.Raw], records: Ints, starts: Ints) -> list[LaunchFlowEndpoint]:
    """Starts and finishes of launch flows among these flow events in JSON; unreadable ones are left out."""
    ends = list[LaunchFlowEndpoint]()
    for element, record, start in zip(elements, records.tolist(), starts.tolist(), strict=True):
        with suppress(msgspec.MsgspecError, RecursionError):
            flow = _decode_flow(element)
            if flow.cat in LAUNCH_FLOW_CATEGORIES:
                ends.append(LaunchFlowEndpoint(record, flow.ph == "s", flow.id, flow.pid, flow.tid, start))
    return ends


class _FlowJson(msgspec.Struct, gc=False):
    ph: str
    id: RawId
    pid: RawId
    tid: RawId = None
    cat: Any = ""


_decode_flow: Final = msgspec.json.Decoder(_FlowJson).decode
