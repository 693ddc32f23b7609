"""Jobs of several ranks as PyTorch's profiler writes them: a file for each rank, times in whole microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

WALL = 1_700_000_000_000_000_000


class Rank(Struct):
    """The file of one rank, whose clock is fast by `clock` us."""

    rank: int
    world: int = 2
    clock: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0
    groups: list[dict[str, Any]] = field(default_factory=list)
    machine: str = ""

    def host(self, name: str, start: int, end: int, cat: str = "cpu_op", **args: Any) -> None:
        """One event of the thread that drives the rank."""
        self._add(cat, name, 100 + self.rank, 1, start, end, args)

    def gloo(self, what: str, start: int, end: int, size: int = 1000) -> None:
        """A collective of gloo, of so many floats, of which the profiler records no group."""
        args = {"Input Dims": [[size]], "Input type": ["float"]}
        self.host(f"gloo:{what}", start, end, "user_annotation", **args)

    def step(self, number: int, start: int, end: int) -> None:
        self.host(f"ProfilerStep#{number}", start, end, "user_annotation")

    def kernel(self, name: str, called: int, start: int, end: int, stream: int = 7, **args: Any) -> None:
        """A kernel, and the call that launched it, of 1 us."""
        self.correlation += 1
        link = {"correlation": self.correlation}
        self._add("cuda_runtime", "cudaLaunchKernel", 100 + self.rank, 1, called, called + 1, link)
        self._add("kernel", name, 0, stream, start, end, {**args, **link, "device": 0, "stream": stream})

    def collective(self, called: int, start: int, end: int, what: str = "allreduce", **args: Any) -> None:
        """A collective of NCCL; `args` are those that the profiler records, their blanks as underscores."""
        said = {"Collective name": what, "dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000}
        named_ = {name.replace("_", " "): value for name, value in args.items()}
        group = {"Process Group Name": "0", "Group size": self.world}
        self.kernel("ncclDevKernel_Generic", called, start, end, 20, **{**said, **group, **named_})

    def bare(
        self, called: int, start: int, end: int, name: str = "ncclDevKernel_AllReduce_Sum_f32", stream: int = 20
    ) -> None:
        """A collective of which the profiler recorded no more than the kernel."""
        self.kernel(name, called, start, end, stream)

    def _add(self, cat: str, name: str, pid: int, tid: int, start: int, end: int, args: dict[str, Any]) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "args": args}
        self.events.append({**event, "ts": start + self.clock, "dur": end - start})

    def document(self) -> dict[str, Any]:
        about = {"backend": "nccl", "rank": self.rank, "world_size": self.world, "pg_config": self.groups}
        devices = [{"id": 0, "name": "Test GPU"}]
        whole = {"schemaVersion": 1, "distributedInfo": about, "deviceProperties": devices}
        named_ = {"host_name": self.machine} if self.machine else {}
        return {**whole, **named_, "baseTimeNanoseconds": WALL, "traceEvents": self.events}


def sized() -> list[Rank]:
    """Two ranks with three collectives of one name, 100 us apart: two of 4 kB and one of 20 kB."""
    ranks = [Rank(0), Rank(1)]
    for rank in ranks:
        for number, size in enumerate((1000, 1000, 5000)):
            start = 100 * number + 10 * (rank.rank == number % 2)
            rank.collective(
                100 * number, start + 5, 100 * number + 60, Seq=number, In_msg_nelems=size, Out_msg_nelems=size
            )
    return ranks


def files(folder: Path, *ranks: Rank) -> list[Path]:
    """The files of these ranks."""
    paths = [folder / f"rank{rank.rank}.pt.trace.json" for rank in ranks]
    for path, rank in zip(paths, ranks, strict=True):
        path.write_text(json.dumps(rank.document()), encoding="utf-8")
    return paths


def job(folder: Path, *ranks: Rank) -> Trace:
    """The trace of these ranks."""
    return load_trace(open_trace_files(files(folder, *ranks)))


def asked(analysis: str, trace: Trace, window: Window | None = None, **given: str) -> Result:
    """An analysis with these settings."""
    return run_analysis(get_analysis(analysis), trace, window, Options(None, tuple(sorted(given.items()))))


def rows(analysis: str, trace: Trace, window: Window | None = None, **given: str) -> list[dict[str, Any]]:
    """Its rows."""
    return asked(analysis, trace, window, **given).table.rows(named=True)
