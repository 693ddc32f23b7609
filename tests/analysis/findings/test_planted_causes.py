"""Planted causes: the first finding names each, at the time that the run would gain without it.

Runs are simulated with a cause and without it: the difference is its true cost. Small runs are made here; larger ones
come from recorded traces, by the tools beside the checkout.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct, field

from building import US, Building, stream, thread
from finding_runs import Row, find_rows, read_rows
from short import some
from tracehound.model.trace import Trace
from tracehound.store import merge_file_frames

STEPS: Final = 5
OPERATORS: Final = 40
LATENCY: Final = 4
"""From a launch to the start of its kernel, us."""

KERNELS: Final = ("volta_fp16_s884gemm_fp16_128x64", "vectorized_add", "softmax", "layer_norm", "gelu")
COMMUNICATION: Final = stream(0, 20)


class Replay(Struct):
    """The host of one rank, and the streams of its device: events get the times at which they would happen, in us."""

    b: Building
    now: float = 0
    free: dict[int, float] = field(default_factory=dict)

    def call(self, name: str, length: float, kind: str = "runtime") -> None:
        """The host is in a call, a frame or an annotation for so long."""
        self.b.event(thread(), name, self.now, self.now + length, kind)
        self.now += length

    def launch(self, name: str, length: float, kind: str = "kernel", number: int = 7, after: float = 0) -> float:
        """Launch work, in a call of 5 us, onto a stream; it ends at this time."""
        correlation = len(self.b.rows)
        call = "cudaLaunchKernel" if kind != "copy" else "cudaMemcpyAsync"
        start = max(self.now + LATENCY, self.free.get(number, 0), after)
        self.b.event(stream(0, number), name, start, start + length, kind, correlation=correlation)
        self.b.event(thread(), call, self.now, self.now + 5, "runtime", correlation=correlation)
        self.now, self.free[number] = self.now + 5, start + length
        return start + length

    def operator(self, name: str, length: float, inside: Callable[[], object]) -> None:
        """An operator of this length at least, which does something inside."""
        start = self.now
        self.now += length / 2
        inside()
        self.now = max(self.now, start + length)
        self.b.event(thread(), name, start, self.now, "op")

    def synchronize(self, name: str) -> None:
        """Wait until the device has nothing left to do."""
        start, self.now = self.now, max(self.now + 5, max(self.free.values(), default=0))
        self.b.event(thread(), name, start, self.now, "sync")


Plant = Callable[[Replay, int, int], object]
"""Does something before an operator; gets the numbers of the step and the operator."""

Length = Callable[[int, str], float]
"""The length of a kernel (us) in a step, or on a rank."""


def usual_length(step_or_rank: int, name: str) -> float:
    del step_or_rank, name
    return 200


def replay(plant: Plant, length: Length = usual_length) -> tuple[Trace, float]:
    """A run of one rank, and its length in us: the host needs nine tenths of the time of the kernels."""
    run = Replay(Building())
    for step in range(STEPS):
        start = run.now
        for number in range(OPERATORS):
            plant(run, step, number)
            name = KERNELS[number % len(KERNELS)]
            run.operator("aten::mm", 180, partial(run.launch, name, length(step, name)))
        run.b.event(thread(), f"ProfilerStep#{step}", start, run.now, "step", step=step)
    return run.b.trace(), max(run.free.values())


def at(number: int, do: Callable[[Replay], object], step: int | None = None) -> Plant:
    """Do something before one operator of each step, or of one."""

    def plant(run: Replay, of_step: int, operator: int) -> None:
        if operator == number and step in (None, of_step):
            do(run)

    return plant


def no_plant(run: Replay, step: int, number: int) -> None:
    del run, step, number


def read_value(run: Replay) -> None:
    def read() -> None:
        run.launch("Memcpy DtoH (Device -> Pageable)", 2, "copy")
        run.synchronize("cudaStreamSynchronize")

    run.operator("aten::item", 10, read)


def allocate(run: Replay) -> None:
    def free_and_allocate() -> None:
        run.synchronize("cudaDeviceSynchronize")
        run.call("cudaFree", 2000)
        run.call("cudaMalloc", 1500)

    run.operator("aten::empty", 20, free_and_allocate)


def copy_pageable(run: Replay) -> None:
    def copy() -> None:
        start = run.now
        end = run.launch("Memcpy HtoD (Pageable -> Device)", 4000, "copy")
        run.b.rows[-1]["end"] = round(end * US)  # the call returns when the copy has ended
        run.now = max(end, start)

    run.operator("aten::to", 20, copy)


def launch_tiny_kernels(run: Replay) -> None:
    for _ in range(400):
        run.operator("aten::add_", 12, lambda: run.launch("vectorized_add_tiny", 2))


def load_module(run: Replay) -> None:
    run.operator("aten::cudnn_convolution", 20, lambda: run.call("cuModuleLoadData", 4000))


def wait_for_loader(run: Replay) -> None:
    start = run.now
    run.call("train.py(40): __getitem__", 6000, "python")
    run.b.event(thread(), "enumerate(DataLoader)#X.__next__", start, run.now, "annotation")


def wait_unrecorded(run: Replay) -> None:
    run.now += 6000


PLANTS: Final[Mapping[str, tuple[Plant, Length, tuple[str, ...]]]] = {
    "loader": (at(0, wait_for_loader), usual_length, ("data loading", "train.py(40): __getitem__")),
    "unmarked wait": (at(0, wait_unrecorded), usual_length, ("unrecorded host time",)),
    "item": (
        lambda run, _, number: read_value(run) if number % 4 == 0 else None,
        usual_length,
        ("reading a value", "aten::item", "10 a step"),
    ),
    "malloc": (at(20, allocate), usual_length, ("memory allocation", "cudaFree", "aten::empty")),
    "tiny": (at(39, launch_tiny_kernels), usual_length, ("CPU-bound", "aten::add_")),
    "h2d": (at(0, copy_pageable), usual_length, ("pageable host memory", "aten::to")),
    "gc": (
        at(20, lambda run: run.call("Python GC", 12_000, "python"), 2), usual_length, ("Python GC", "12.0", "step 2"),
    ),
    "recompile": (
        at(20, lambda run: run.call("_compile.compile_inner (dynamo_timed)", 30_000, "compile"), 2),
        usual_length,
        ("compiling", "compile_inner", "step 2"),
    ),
    "warm-up": (
        lambda run, step, number: load_module(run) if step == 0 and number % 8 == 4 else None,
        usual_length,
        ("loading GPU modules", "cuModuleLoadData", "step 0"),
    ),
    "throttled step": (no_plant, lambda step, _: 360 if step == 2 else 200, ("step 2", "1.8 times")),
}  # fmt: skip


@pytest.mark.parametrize("case", some(PLANTS, ("loader", "item", "tiny", "gc", "throttled step")))
def test_a_planted_cause_is_the_first_finding_at_its_cost(case: str) -> None:
    plant, length, words = PLANTS[case]
    (trace, planted), (_, healthy) = replay(plant, length), replay(no_plant)
    check_first(find_rows(trace), words, (planted - healthy) * US / STEPS)


def check_first(rows: list[Row], words: tuple[str, ...], cost: float) -> None:
    """The first finding has these words and this cost, and no other tells of the same."""
    assert rows
    assert [word for word in words if word not in rows[0]["finding"]] == [], rows[0]["finding"]
    assert rows[0]["cost"] == pytest.approx(cost, rel=0.1)
    assert [row["finding"] for row in rows[1:]] == []


def test_a_run_without_a_planted_cause_has_no_finding() -> None:
    assert find_rows(replay(no_plant)[0]) == []


def replay_ranks(plant: Plant = no_plant, length: Length = usual_length, *, late: bool = False) -> tuple[Trace, float]:
    """A run of three ranks, which reduce gradients four times a step, or `late` after all kernels; and its length.

    Collectives end at once, so long after the last rank has come; the next step waits for them.
    """
    runs = [Replay(Building(claim=rank, path=Path(f"rank{rank}.json"), wall_ns=10**18)) for rank in range(3)]
    for step in range(STEPS):
        begun = [run.now for run in runs]
        collectives = [replay_rank_step(run, rank, step, plant, length, late=late) for rank, run in enumerate(runs)]
        for number, rows in enumerate(zip(*collectives, strict=True)):
            begins = [max(run.free.get(20, 0), row["begin"]) for run, row in zip(runs, rows, strict=True)]
            for run, row, begin in zip(runs, rows, begins, strict=True):
                end = max(begins) + (40 if number == 3 else 900)
                run.b.event(COMMUNICATION, "ncclDevKernel_AllReduce", begin, end, "collective", correlation=row["id"])
                run.free[20] = end
        for run, start in zip(runs, begun, strict=True):
            run.free[7] = max(run.free[7], run.free[20])
            run.b.event(thread(), f"ProfilerStep#{step}", start, run.now, "step", step=step)
    return merge_file_frames("job", [run.b.part() for run in runs]), max(run.free[7] for run in runs)


def replay_rank_step(
    run: Replay, rank: int, step: int, plant: Plant, length: Length, *, late: bool
) -> list[dict[str, float]]:
    """One step of a rank without its collectives: for each its correlation id, and the earliest time of its start."""
    collectives = list[dict[str, float]]()
    plant(run, rank, step)
    for number in range(OPERATORS):
        name = KERNELS[number % len(KERNELS)]
        run.operator("aten::mm", 180, partial(run.launch, name, length(rank, name)))
        if number == OPERATORS - 1 or (number % 10 == 9 and not late):
            for _ in range(4 if late else 1):
                collectives.append({"id": len(run.b.rows), "begin": max(run.now + LATENCY, run.free[7])})
                run.b.event(thread(), "cudaLaunchKernel", run.now, run.now + 5, "runtime", correlation=len(run.b.rows))
                run.call("nccl:all_reduce", 10, "annotation")
    return collectives


RANK_PLANTS: Final = {
    "loader of a rank": (
        {"plant": lambda run, rank, _: wait_for_loader(run) if rank == 2 else None},
        ("rank 2", "data loading", "train.py(40): __getitem__"),
    ),
    "slow GEMM of a rank": (
        {"length": lambda rank, name: 500 if rank == 1 and "gemm" in name else 200},
        ("rank 1", "volta_fp16_s884gemm"),
    ),
    "throttled rank": (
        {"length": lambda rank, _: 240 if rank == 1 else 200},
        ("rank 1", "all kernels", "1.2 times"),
    ),
    "late communication": ({"late": True}, ("all_reduce", "only after")),
}


@pytest.mark.parametrize("case", RANK_PLANTS)
def test_a_cause_that_is_planted_on_a_rank_is_the_first_finding_at_its_cost(case: str) -> None:
    plants, words = RANK_PLANTS[case]
    (trace, planted), (_, healthy) = replay_ranks(**plants), replay_ranks()  # type: ignore[arg-type]
    check_first(find_rows(trace), words, (planted - healthy) * US / STEPS)


def test_ranks_without_a_planted_cause_have_no_finding() -> None:
    assert find_rows(replay_ranks()[0]) == []


FIRST_WORDS: Final = {
    "cuda_loader": ("data loading", "DataLoader"),
    "cuda_unmarked_wait": ("unrecorded",),
    "cuda_item": ("aten::item", "36 a step"),
    "cuda_malloc": ("cudaFree", "cudaMalloc", "aten::empty"),
    "cuda_tiny": ("CPU-bound", "aten::add_"),
    "cuda_h2d": ("copies", "pageable", "aten::to"),
    "cuda_gc_event": ("Python GC", "step 103"),
    "cuda_throttle_step": ("step 103", "all kernels", "1.8 times"),
    "cuda_recompile": ("compil", "step 103"),
    "cuda_warmup": ("modules", "cuModuleLoadData", "step 101"),
    "rocm_loader": ("data loading", "train.py(40): __getitem__"),
    "ddp4_throttled_rank": ("rank 2", "all kernels", "1.15 times"),
    "ddp4_slow_gemm_rank": ("rank 2", "gemm"),
    "ddp4_loader_rank": ("rank 3", "data loading"),
    "ddp4_late_comm": ("all_reduce", "only after the backward pass"),
}
"""What the first finding must name in each case that is made of recorded traces."""


@pytest.fixture(scope="session")
def causes(shared: Path) -> Path:
    """The folder of the planted causes beside the checkout."""
    folder = shared / "causes"
    if not folder.is_dir():
        pytest.skip("no folder of planted causes beside the checkout")
    return folder


@pytest.fixture(scope="session")
def planted_runs(causes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with the traces of all cases."""
    folder = tmp_path_factory.mktemp("causes")
    subprocess.run([sys.executable, "-B", str(causes / "make_gpu.py"), str(folder)], check=True, capture_output=True)
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("case", FIRST_WORDS)
def test_a_cause_planted_in_a_recorded_run_is_the_first_finding(case: str, causes: Path, planted_runs: Path) -> None:
    with (causes / "truth.tsv").open(encoding="utf-8") as file:
        cost = {row["case"]: row["true cost ms per step"] for row in csv.DictReader(file, delimiter="\t")}
    rows = read_rows(planted_runs / case)
    if case == "rocm_loader":
        rows = [row for row in rows if row is rows[0] or not is_true_of_rocm(row)]
    check_first(rows, FIRST_WORDS[case], float(cost[case]) * 1000 * US)


def is_true_of_rocm(row: Row) -> bool:
    """True if a finding is of the recorded run itself: of its copies within the device, or its short gaps."""
    return row["share"] < 0.07 and ("copies within" in row["finding"] or "short gaps" in row["finding"])


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["cuda_healthy", "ddp4_healthy", "rocm_healthy"])
def test_a_recorded_run_without_a_planted_cause_has_no_finding(case: str, planted_runs: Path) -> None:
    rows = read_rows(planted_runs / case)
    assert [row["finding"] for row in rows if not (case == "rocm_healthy" and is_true_of_rocm(row))] == []
    assert [row["advice"] for row in rows if "pinned" in row["advice"]] == []
