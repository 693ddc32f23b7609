"""How long it takes to compare two traces of many events: files never seen, and files that the cache has.

    python tests/benchmarks/diff.py BASELINE CANDIDATE --events 1M

Both are made of a real trace each, its events again and again (see `grow_kineto`), so that they have as many steps as
copies. Whole processes are timed, from the shell's side: `tracehound diff` with a cache of its own, first an empty one,
then the same again. Each is run a few times; the least counts, since nothing makes a program faster than it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from explorer import made
from measure import machine, say, size_of, size_text

BUDGET = 5.0
"""Seconds that comparing two traces of a million events each may take when both have been read before."""


def timed(baseline: Path, candidate: Path, cache: Path) -> float:
    """Seconds of one comparison, a process of its own."""
    began = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "tracehound",
        "diff",
        str(baseline),
        str(candidate),
        "--format",
        "json",
        "--cache",
        str(cache),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
    return time.perf_counter() - began


def main() -> None:
    """Make, measure, and say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("candidate", type=Path)
    parser.add_argument("--events", type=size_of, default=1_000_000, help="of either trace, as in 200K or 1M")
    parser.add_argument("--runs", type=int, default=3, help="of which the least counts")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source, target in ((asked.baseline, "base.json"), (asked.candidate, "other.json")):
            grown = made(source, folder / target, asked.events)
            say(f"{target}: {size_text(grown.size)}, {grown.copies} x {source.name}")
        first, *again = (
            timed(folder / "base.json", folder / "other.json", folder / "cache") for _ in range(asked.runs + 1)
        )
    least = min(again)
    print(machine("polars", "numpy"))
    print(f"never seen: {first:.2f} s")
    print(f"from the cache: {least:.2f} s, {'within' if least <= BUDGET else 'beyond'} {BUDGET:.0f} s")


if __name__ == "__main__":
    main()
