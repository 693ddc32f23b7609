"""How time and memory grow with the number of ranks: what each rank costs in jobs of more and more of them.

    python tests/benchmarks/ranks.py --ranks 64,256,1024
    python tests/benchmarks/ranks.py --ranks 64,256 --hta ENVIRONMENT/bin/python

A job is made of one real trace (`grow_ranks.py`), with a slow rank. Each question is asked by a process started anew,
`cold` with an empty cache, `cached` when it was asked before. `ms/rank` is the processor time of all
processes for a rank; `beyond` leaves out what the bytes of a rank cost in one file of many copies. `driver` is the most
memory that the first process had (VmHWM). Ratios compare with the smallest job: 1 is linear time, and flat memory.

With `--folder` the jobs, their caches and the figures stay there, and only what is missing is measured. With `--hta`
HolisticTraceAnalysis computes the same breakdown in a Python of its own (`pip install traceinsight==0.6.1`).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import grow_kineto
import grow_ranks
import measure
from measure import Program
from msgspec import Struct
from msgspec.json import decode, encode

from tracehound.store.worker_pool import default_jobs

REPOSITORY = Path(__file__).parents[2]

SOURCES = (
    REPOSITORY.parent / "shared" / "traces" / "kineto" / "hta_nccl_a100" / "nccl_data.json.gz",
    *(REPOSITORY / "traces" / "torch_ddp_gloo").glob("rank0*.json.gz"),
)
"""The first of these files that is there is the source."""

QUESTIONS = ("breakdown", "summary", "stragglers")
"""What is asked of each job from the cache."""

COPIES = 16
"""How often the file is there that says what bytes cost."""

PEAK = """
import os, sys
from tracehound.__main__ import prepare_environment
prepare_environment()
from tracehound.cli.main import main
status = main()
sys.stdout.flush()
print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')), flush=True)
os._exit(status)
"""
"""The program, which says in its last line how much memory its first process had at most."""

_PEAK_LINE = re.compile(r"^VmHWM:\s*(\d+) kB\s*\Z", re.MULTILINE)


class Figures(Struct):
    """What one run took: CPU seconds, and bytes of the driver and of all processes; the rank that it calls slow."""

    cpu: float
    driver: int
    processes: int
    named: int | None = None


class Bench(Struct):
    """The folder of the jobs, and what was measured there."""

    folder: Path
    asked: argparse.Namespace
    found: dict[str, Figures]

    def job(self, ranks: int) -> Path:
        """The job of so many ranks, written if it is not there."""
        job = self.folder / f"of{ranks}"
        if not job.is_dir():
            measure.say(f"writing {ranks} ranks")
            draft = self.folder / f"of{ranks}.part"
            grow_ranks.write_job(self.asked.source, draft, ranks, self.asked.events)
            draft.rename(job)
        return job

    def take(self, name: str, program: Program) -> Figures | None:
        """The figures of a program, measured unless they are known; None if it failed."""
        if name not in self.found:
            runs = [measure.once(program, measure.limits(self.asked)) for _ in range(self.asked.runs)]
            if trouble := next((run.trouble for run in runs if run.trouble), ""):
                measure.say(f"{name}: {trouble}")
                return None
            peaks = [int(line[1]) << 10 for run in runs if (line := _PEAK_LINE.search(run.output))]
            figures = Figures(
                measure.median(runs, "cpu"), min(peaks, default=0), int(measure.median(runs, "memory")),
                _first_rank(runs[0].output) if name.endswith("stragglers") else None,
            )  # fmt: skip
            self.found[name] = figures
            (self.folder / "figures.json").write_bytes(encode(self.found))
            measure.say(f"{name}: {figures.cpu:.1f} s")
        return self.found[name]

    def ask(self, ranks: int, question: str, *, cold: bool = False) -> Figures | None:
        """The figures of a question about a job, which was asked once before unless it is to be cold."""
        job, cache = self.job(ranks), self.folder / f"cache{ranks}"
        name = f"{ranks} {'cold' if cold else 'cached'} {question}"
        if not cold and name not in self.found:
            measure.once(self._program(job, cache, question), measure.limits(self.asked))
        prepare = partial(measure.emptied, cache) if cold else measure.nothing
        return self.take(name, self._program(job, cache, question, prepare))

    def cost_of_bytes(self) -> float:
        """CPU seconds for the bytes of one rank: what each more copy of them in a file costs."""
        first = next(iter(sorted(self.job(min(self.asked.ranks)).iterdir())))
        grown = self.folder / "grown.json.gz"
        size = len(gzip.decompress(first.read_bytes()))
        if not grown.exists():
            grow_kineto.grow(first, grown, COPIES * size)
        cache = self.folder / "cache-grown"
        prepare = partial(measure.emptied, cache)
        taken = [
            self.take(f"{name} of a rank's bytes", self._program(path, cache, "breakdown", prepare))
            for name, path in (("1 time", first), (f"{COPIES} times", grown))
        ]
        once, often = (figures.cpu if figures else 0.0 for figures in taken)
        return (often - once) / (COPIES - 1)

    def hta_breakdown(self) -> Figures | None:
        """The figures of HolisticTraceAnalysis for the breakdown of the smallest job."""
        ranks = min(self.asked.ranks)
        peer = Path(__file__).with_name("peers.py")
        command = (str(self.asked.hta), str(peer), "hta-breakdown", str(self.job(ranks)))
        return self.take(f"{ranks} cold hta", Program("hta", command))

    def _program(self, job: Path, cache: Path, question: str, prepare: Callable[[], None] = measure.nothing) -> Program:
        """The program that answers a question about a job."""
        words = ["summary", str(job)] if question == "summary" else ["report", str(job), question]
        asked = [*words, "--format", "csv", "--jobs", str(self.asked.jobs), "--cache", str(cache)]
        return Program(question, (sys.executable, "-c", PEAK, *asked), prepare=prepare)


def _first_rank(output: str) -> int | None:
    """The rank in the first row of a table of csv."""
    rows = list(csv.DictReader(io.StringIO(output)))
    return int(rows[0]["rank"]) if rows and "rank" in rows[0] else None


HEAD = f"{'ranks':>6}  {'question':26}{'ms/rank':>9}{'ratio':>7}{'beyond':>9}{'driver MB':>11}{'ratio':>7}{'all MB':>8}"


def table(bench: Bench, ranks: Sequence[int], questions: Sequence[str], cost_of_bytes: float) -> list[str]:
    """A line for each job and question."""
    lines, smallest = [HEAD], dict[str, tuple[float, int]]()
    for question, cold in [("breakdown", True), *((question, False) for question in questions)]:
        for number in ranks:
            label = f"{question}, {'cold' if cold else 'cached'}"
            figures = bench.ask(number, question, cold=cold)
            if figures is None:
                lines.append(f"{number:6,}  {label:26}  failed")
                continue
            each = 1000 * figures.cpu / number
            base = smallest.setdefault(label, (each, figures.driver))
            beyond = f"{each - 1000 * cost_of_bytes:9.2f}" if cold else " " * 9
            lines.append(
                f"{number:6,}  {label:26}{each:9.2f}{measure.ratio(each, base[0])}{beyond}{figures.driver / 1e6:11.0f}"
                f"{measure.ratio(figures.driver, base[1])}{figures.processes / 1e6:8.0f}"
            )
    return lines


def findings(bench: Bench, ranks: Sequence[int], questions: Sequence[str]) -> list[str]:
    """Whether the slow rank of each job is named."""
    if "stragglers" not in questions:
        return []
    named = {number: figures.named for number in ranks if (figures := bench.ask(number, "stragglers"))}
    right = [number for number, rank in named.items() if rank == grow_ranks.slow_rank(number)]
    wrong = [f"{number:,} (rank {rank})" for number, rank in named.items() if number not in right]
    return [f"stragglers names the slow rank: {', '.join(f'{number:,}' for number in right) or 'never'} ranks"] + (
        [f"it does not: {', '.join(wrong)}"] if wrong else []
    )


def hta_lines(bench: Bench, ranks: int) -> list[str]:
    """HolisticTraceAnalysis against the cold breakdown of the smallest job."""
    theirs, ours = bench.hta_breakdown(), bench.ask(ranks, "breakdown", cold=True)
    if theirs is None or ours is None:
        return ["HolisticTraceAnalysis: failed"]
    ratios = measure.ratio(theirs.cpu, ours.cpu).strip(), measure.ratio(theirs.processes, ours.processes).strip()
    return [f"HolisticTraceAnalysis, breakdown of {ranks} ranks: CPU {ratios[0]}, memory of all processes {ratios[1]}"]


def numbers(text: str) -> list[int]:
    """The numbers in a list with commas, in order."""
    return sorted(map(int, text.split(",")))


def main() -> None:
    """Make the jobs, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=numbers, default="64,256", help="numbers of ranks, comma-separated")
    parser.add_argument("--questions", type=lambda text: text.split(","), default=",".join(QUESTIONS))
    parser.add_argument("--source", type=Path, default=next(path for path in SOURCES if path.exists()))
    parser.add_argument("--events", type=int, default=4000, help="of the source for each rank")
    parser.add_argument("--hta", type=Path, help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--runs", type=int, default=1)
    measure.add_options(parser, default_jobs())
    asked = parser.parse_args()
    with nullcontext(asked.folder) if asked.folder else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / "figures.json"
        bench = Bench(folder, asked, decode(known.read_bytes(), type=dict[str, Figures]) if known.exists() else {})
        cost = bench.cost_of_bytes()
        lines = table(bench, asked.ranks, asked.questions, cost)
        lines += findings(bench, asked.ranks, asked.questions)
        lines += hta_lines(bench, asked.ranks[0]) if asked.hta else []
        size = sum(path.stat().st_size for path in bench.job(asked.ranks[0]).iterdir()) / asked.ranks[0]
    print(measure.machine("tracehound", "polars"))
    bytes_of_rank = f"{measure.size_text(size)} a rank, {1000 * cost:.1f} ms for its bytes"
    print(f"{asked.source.name}, {bytes_of_rank}, {asked.jobs} jobs")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
