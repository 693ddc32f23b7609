"""Small traces, built by hand: a line per event, the rest as the formats would do it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.counter_samples import FileCounters
from tracehound.formats.assembly.event_batches import BATCH_SIZE
from tracehound.formats.assembly.file_assembly import RAW_EVENTS, RAW_LANES, DecodedFile, assemble_file, single_chunk
from tracehound.formats.assembly.step_detection import steps_from_recurrence
from tracehound.formats.kineto.kineto_facts import read_device_properties
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.file_facts import FileFacts
from tracehound.model.notes import Note
from tracehound.model.trace import OPS, RANKS, FileFrames, Trace
from tracehound.store import merge_file_frames

US = 1_000_000
"""Picoseconds in a microsecond."""


class Lane(Struct, frozen=True):
    """A lane to be built: `rank` None for a host's thread."""

    name: str
    rank: int | None = None
    role: str = "thread"
    work: bool = False
    host: int = 0


def stream(rank: int = 0, number: int = 7) -> Lane:
    return Lane(f"stream {number}", rank, "stream", work=True)


def thread(name: str = "python") -> Lane:
    return Lane(name)


def listing(*devices: dict[str, object]) -> FileFacts:
    """The facts of a file that lists these devices, each as PyTorch writes it."""
    return FileFacts(devices=read_device_properties({"deviceProperties": [*devices]}))


class Building(Struct):
    """Collects lanes and events; times are given in whole microseconds unless `unit` says otherwise."""

    name: str = "built"
    unit: int = US
    lanes: list[Lane] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)
    claim: int | None = None
    notes: Sequence[Note] = ()
    facts: FileFacts = FileFacts()
    ops: list[dict[str, object]] = field(default_factory=list)
    wall_ns: int | None = None
    path: Path = Path("built.json")
    format: str = "kineto"
    counters: FileCounters = field(default_factory=FileCounters)
    facets: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    has_queues: bool = False
    """Impossible ends of kernels are cut, as of Kineto's files."""

    def event(self, lane: Lane, name: str, start: float, end: float, kind: str = "kernel", **more: object) -> None:
        """One event of a lane; the lane is added when it is new."""
        if lane not in self.lanes:
            self.lanes.append(lane)
        times = {"start": round(start * self.unit), "end": round(end * self.unit)}
        self.rows.append({"lane": self.lanes.index(lane), "name": name, "kind": kind, **times, **more})

    def part(self, batch_size: int = BATCH_SIZE) -> FileFrames:
        ranks = sorted({lane.rank for lane in self.lanes if lane.rank is not None})
        claimed = [
            {"rank": self.claim, "host": 0, "device": r, "label": f"GPU {r}", "model": "Test GPU"} for r in ranks
        ]
        if not ranks:
            claimed = [{"rank": self.claim, "host": 0, "device": None, "label": "CPU", "model": "CPU"}]
        lanes = [
            {"host": lane.host, "rank": None if lane.rank is None else ranks.index(lane.rank), "role": lane.role,
             "work": lane.work, "name": lane.name, "order": order}
            for order, lane in enumerate(self.lanes)
        ]  # fmt: skip
        return assemble_file(
            DecodedFile(
                path=self.path,
                format=self.format,
                chunks=single_chunk(
                    pl.DataFrame(self.rows, schema={k: v for k, v in RAW_EVENTS.items() if self._has(k)})
                ),
                lanes=pl.DataFrame(lanes, schema={k: v for k, v in RAW_LANES.items() if k not in _UNSET}),
                ranks=pl.DataFrame(claimed, schema={k: v for k, v in RANKS.items() if k != "inferred"}),
                hosts=("host",),
                wall_ns=self.wall_ns,
                ops=pl.DataFrame(self.ops, schema=OPS) if self.ops else None,
                facts=self.facts,
                notes=self.notes,
                counters=self.counters,
                unmarked=steps_from_recurrence if self.format == "kineto" else None,
                has_queues=self.has_queues,
                facets={
                    name: pl.DataFrame(rows, schema=FACET_SCHEMAS[name]).lazy() for name, rows in self.facets.items()
                },
            ),
            size=batch_size,
        )

    def trace(self) -> Trace:
        return merge_file_frames(self.name, [self.part()])

    def _has(self, column: str) -> bool:
        return column in _ALWAYS or any(column in row for row in self.rows)


def copied_by(*calls: str | None) -> Building:
    """Copies of 1 MB whose own name tells no way, of 10 us each and 10 us apart, and the calls that launched them."""
    b = Building(format="xplane")
    for number, call in enumerate(calls):
        start = 20 * number + 5
        b.event(stream(), "__amd_rocclr_copyBuffer.kd", start, start + 10, "copy", correlation=number, bytes=1_000_000)
        if call is not None:
            b.event(thread(), call, start - 5, start - 4, "transfer", correlation=number)
    return b


def beside(begun: int) -> Building:
    """A lane of HLO ops, of several devices if a dot has `begun` before the other ends at 10; an all-reduce runs."""
    named = [("dot.0", "dot"), ("all-reduce.1", "all-reduce")]
    ops: list[dict[str, object]] = [{"op": at, "name": name, "category": kind} for at, (name, kind) in enumerate(named)]
    b = Building(format="xplane", ops=ops)
    lane = Lane("XLA Ops", 0, "ops", work=True)
    b.event(lane, "dot.0", 0, 10, op=0)
    b.event(lane, "all-reduce.1", 0, 10, "collective", op=1)
    b.event(lane, "dot.0", begun, begun + 10, op=0)
    return b


_ALWAYS = ("lane", "start", "end", "name", "kind")
_UNSET = ("process", "thread", "stream")
