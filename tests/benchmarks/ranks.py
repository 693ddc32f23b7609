"""How time and memory grow with the number of ranks: the summary of jobs of more and more files.

    python tests/benchmarks/ranks.py --ranks 64,256,1024

The files of a job are links to one real trace under names of their own, so that each is found, read and kept as a file.
Every job is summed up cold, with an empty cache, and again from the cache, by a process started anew. A ratio compares
with the smallest job: where that of time is that of the ranks and that of memory is 1, time is linear and memory flat.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import measure
from measure import Program

from tracehound.store.worker_pool import default_jobs

SOURCE = next((Path(__file__).parents[2] / "traces" / "torch_ddp_gloo").glob("rank0*.json.gz"))


def jobs_of(numbers: list[int], source: Path, folder: Path, jobs: int) -> list[Program]:
    """The jobs as folders of links, and the two programs of each."""
    programs = []
    for number in numbers:
        job, kept = folder / f"of{number}", folder / f"cache{number}"
        job.mkdir()
        for rank in range(number):
            (job / f"rank{rank}.pt.trace.json{'.gz' if source.suffix == '.gz' else ''}").symlink_to(source.resolve())
        command = (sys.executable, "-m", "tracehound", "summary", str(job), "--jobs", str(jobs), "--cache", str(kept))
        for how, prepare in (("cold", partial(measure.emptied, kept)), ("cached", measure.nothing)):
            against = "" if number == numbers[0] else f"{numbers[0]} ranks, {how}"
            programs.append(Program(f"{number} ranks, {how}", command, against, prepare))
    return programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="64,256,1024", help="numbers of files, comma-separated")
    parser.add_argument("--from", dest="source", type=Path, default=SOURCE, help="the trace that every rank has")
    parser.add_argument("--runs", type=int, default=1)
    measure.add_options(parser, default_jobs())
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        numbers = sorted(map(int, asked.ranks.split(",")))
        programs = jobs_of(numbers, asked.source, Path(name), asked.jobs)
        taken = measure.take_turns(programs, lambda _: asked.runs, measure.limits(asked), [asked.source])
        print(measure.machine("tracehound", "polars"))
        print(f"{asked.source.name}, {measure.size_text(asked.source.stat().st_size)} a rank, {asked.jobs} jobs")
        print(f"medians of {asked.runs} runs; {measure.quiet(taken)}")
        print(*measure.table(measure.grouped(programs), taken), sep="\n")


if __name__ == "__main__":
    main()
