"""What a summary takes where each event has a name of its own, as a ratio to an ordinary trace of the same bytes.

    python tests/benchmarks/many_names.py --names 200K
    python tests/benchmarks/many_names.py --names 2M --runs 1

Both traces are made: Python frames, operators, launches and kernels in 20 steps. The names of one carry request ids and
pointers, those of the other repeat. Nothing is in the cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import measure

STEPS = 20
WORDS = ("gemm", "layer_norm", "softmax", "flash_attn", "elementwise", "reduce", "conv2d", "embedding", "rotary")
FILLER = "bf16_tn_align8_stages3_warpgroup_void_at_native_vectorized"
ORDINARY_NAMES = 200
"""Number of names of each kind in the ordinary trace."""

HEAD = """{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
"baseTimeNanoseconds": 1700000000000000000,
"traceEvents": [
{"ph": "M", "ts": 0, "pid": 0, "tid": 0, "name": "process_labels", "args": {"labels": "GPU 0"}}"""


def write_trace(target: Path, names: int, distinct: int) -> int:
    """Write a trace of so many events with names, `distinct` of them by kind; returns its bytes."""
    with target.open("w", encoding="ascii") as file:
        file.write(HEAD)
        for number in range(names // 4):
            file.writelines(_call(number, number % distinct))
        length = 11 * (names // 4) / STEPS
        for step in range(STEPS):
            file.write(_event("user_annotation", f"ProfilerStep#{step}", 100, step * length, length - 1, ""))
        file.write("\n]}\n")
    return target.stat().st_size


def _call(number: int, name: int) -> Iterator[str]:
    """A Python frame, two operators in it, a launch, and its kernel."""
    word, start, ids = WORDS[name % len(WORDS)], 11.0 * number, f'"External id": {number + 1}'
    linked = f'{ids}, "correlation": {number + 1}'
    frame = f"model/{word}.py({name % 900 + 10}): forward_request_{name:09d}_{FILLER[: name % 27]}"
    kernel = f"triton_{word}_{name:09d}_0x{name * 2654435761 % 2**44:012x}_{FILLER[: name % 25]}"
    yield _event("python_function", frame, 100, start, 9, f'"Python id": {number}')
    for inner in (1, 2):
        operator = f"{word}::request_{name:09d}_call_{inner}_{FILLER[: name % 31]}"
        yield _event("cpu_op", operator, 100, start + inner, 9 - 2 * inner, ids)
    yield _event("cuda_runtime", "cudaLaunchKernel", 100, start + 3, 2, linked)
    yield _event("kernel", kernel, 0, start + 6, 4, f'{linked}, "device": 0, "context": 1, "stream": 7')


def _event(category: str, name: str, process: int, start: float, length: float, args: str) -> str:
    place = f'"pid": {process}, "tid": {process or 7}, "ts": {start:.3f}, "dur": {length:.3f}'
    return f',\n{{"ph": "X", "cat": "{category}", "name": "{name}", {place}, "args": {{{args}}}}}'


def main() -> None:
    """Make the traces, summarize them in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=measure.size_of, default=measure.size_of("200K"), help="distinct names")
    parser.add_argument("--runs", type=int, default=3, help="runs of each")
    measure.add_options(parser, 2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracehound-", dir=asked.folder) as name:
        folder = Path(name)
        ordinary = summary(folder, "ordinary names", asked.names, ORDINARY_NAMES, asked.jobs)
        distinct = summary(folder, "a name per event", asked.names, asked.names, asked.jobs)
        programs = (ordinary, replace(distinct, against=ordinary.name))
        taken = measure.take_turns(programs, lambda _: asked.runs, measure.limits(asked), ())
        print("\n".join(measure.table(programs, taken)))


def summary(folder: Path, title: str, names: int, distinct: int, jobs: int) -> measure.Program:
    """The summary of a new trace in the folder, with nothing in the cache."""
    path, cache = folder / f"{distinct}.json", folder / f"cache-{distinct}"
    measure.say(f"{title}: {measure.size_text(write_trace(path, names, distinct))}")
    words = ("summary", str(path), "--cache", str(cache), "--jobs", str(jobs))
    return measure.Program(title, (sys.executable, "-m", "tracehound", *words), prepare=partial(measure.emptied, cache))


if __name__ == "__main__":
    main()
