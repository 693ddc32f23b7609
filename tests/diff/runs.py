"""Runs made for comparing: steps of kernels with noise, and changes planted in them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from building import Building, stream, thread
from tracehound.diff import RunProfile, profile_run
from tracehound.model.trace import Trace, Window


class Kernel(Struct, frozen=True):
    """A kernel of every step: its operator, its length in us, and a pause before it."""

    name: str
    operator: str = "aten::mm"
    length: float = 100
    pause: float = 5
    kind: str = "kernel"
    number: int = 7


MODEL = (
    Kernel("gemm_nt", "aten::linear", 200),
    Kernel("softmax_warp", "aten::softmax", 50),
    Kernel("gemm_nn", "aten::bmm", 120),
    Kernel("ncclDevKernel_AllReduce", "c10d::allreduce_", 80, kind="collective", number=9),
    Kernel("elementwise_add", "aten::add", 30),
    Kernel("layer_norm", "aten::layer_norm", 40),
    Kernel("Memcpy HtoD", "aten::to", 20, kind="copy"),
)
"""A small step; the collective has a stream of its own and hides nothing."""


def run(
    model: Sequence[Kernel] = MODEL,
    steps: int = 8,
    noise: float = 0.01,
    seed: int = 0,
    stretch: tuple[int, float] = (-1, 0),
) -> Trace:
    """A run of so many steps; `stretch` is a step and how many us longer it idles."""
    rng, built, now = random.Random(seed), Building(f"run {seed}"), 0.0
    main, count = thread(), 0
    for step in range(steps):
        begin, host = now, now
        now += 10
        for kernel in model:
            count += 1
            length = kernel.length * (1 + rng.gauss(0, noise))
            now += kernel.pause
            built.event(main, kernel.operator, host, host + 2, "op")
            built.event(main, "cudaLaunchKernel", host + 0.5, host + 1, "runtime", correlation=count)
            built.event(stream(0, kernel.number), kernel.name, now, now + length, kernel.kind, correlation=count)
            host += 3
            now += length
        now += stretch[1] if step == stretch[0] else 0
        now = max(now, host) + 5
        built.event(thread("marks"), f"ProfilerStep#{step}", begin, now, "step", step=step)
    return built.trace()


def measured(trace: Trace) -> RunProfile:
    return profile_run(trace, Window())


def changed(at: int, model: Sequence[Kernel] = MODEL, **what: object) -> tuple[Kernel, ...]:
    """The model with one kernel made otherwise."""
    return (*model[:at], replace(model[at], **what), *model[at + 1 :])  # type: ignore[arg-type]
