"""How long each analysis takes on a big trace that was read before, beside what reading its events takes at least.

    python tests/benchmarks/analyses.py
    python tests/benchmarks/analyses.py --events 1M --from gpu.json.gz --only gaps,idle

The trace is made of a real one (see `grow_kineto`) and read into a cache first. Then every analysis is asked for the
whole run, in this process, with no table of it kept, and for as many rows as the explorer shows; `ms` is the time until
its result, `cpu` that of all threads, medians of all runs. "x" is how many times the first line it takes: the columns
that most analyses need, of all events, out of the cache and into memory, and nothing done with them. An analysis whose
question the trace has no answer to says so in its notes; it is marked here, for it measures nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import as_started  # noqa: F401, before polars is imported
import measure
from explorer import add_options, prepared
from msgspec.structs import replace
from ours import loaded

from tracehound.analysis import ANALYSES
from tracehound.analysis.analysis_run import run_analysis
from tracehound.analysis.result import Options, Result
from tracehound.model.trace import Trace, Window, collect_frame
from tracehound.system.malloc import keep_large_freed_memory

PACKAGES = ("tracehound", "polars", "numpy")

SHOWN = 1_000
"""Rows that the explorer asks for."""

COLUMNS = ("id", "lane", "start", "end", "name", "kind", "parent", "launch")


def alone(trace: Trace) -> Trace:
    """The same trace with no place where tables are kept."""
    parts = tuple(replace(part, cache_folder=None) for part in trace.parts)
    files = tuple(replace(file, source=part) for file, part in zip(trace.files, parts, strict=True))
    return replace(trace, parts=parts, files=files)


def timed(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Medians of the time and of the processor's time that it takes, in ms."""
    walls, works = [], []
    for _ in range(runs):
        wall, busy = time.perf_counter(), time.process_time()
        work()
        walls.append(1000 * (time.perf_counter() - wall))
        works.append(1000 * (time.process_time() - busy))
    return statistics.median(walls), statistics.median(works)


def table(trace: Trace, names: list[str], runs: int) -> list[str]:
    """A line for the reading alone, and one for each of these analyses, the slowest last."""
    base = timed(lambda: collect_frame(trace.events().select(COLUMNS)), runs)
    lines = [
        f"{'':24}{'ms':>9}{'cpu':>9}{'x':>8}{'rows':>10}",
        f"{'events read':24}{base[0]:9.0f}{base[1]:9.0f}{1:8.1f}",
    ]
    taken = []
    for analysis in (analysis for analysis in ANALYSES if analysis.name in names):
        results = list[Result]()

        def ask() -> None:
            results.append(run_analysis(analysis, trace, Window(), Options(SHOWN)))  # noqa: B023, called before the next one

        wall, busy = timed(ask, runs)
        rows = f"{results[0].total:10,}" if results[0].total else f"{'nothing':>10}"
        taken.append((wall, f"{analysis.name:24}{wall:9.0f}{busy:9.0f}{wall / base[0]:8.1f}{rows}"))
        measure.say(taken[-1][1])
    return [*lines, *(line for _, line in sorted(taken))]


def main() -> None:
    """Make a trace, read it, and ask."""
    asked = _asked()
    keep_large_freed_memory()  # as the program does
    names = [one.name for one in ANALYSES if not asked.only or one.name in asked.only.split(",")]
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        path, cache = prepared(asked, Path(name))
        trace = alone(loaded(path, asked.jobs, cache))
        events = int(trace.lanes["events"].sum())
        lines = [measure.machine(*PACKAGES), f"{events:,} events, {asked.runs} runs of each", ""]
        print(*lines, *table(trace, names, asked.runs), sep="\n")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--only", default="", help="analyses, comma-separated; else all")
    parser.add_argument("--runs", type=int, default=3, help="of each analysis")
    return parser.parse_args()


if __name__ == "__main__":
    main()
