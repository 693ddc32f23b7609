"""What is measured of Tracehound where no command does just that.

python tests/benchmarks/ours.py columns FILE --jobs N --folder EMPTY    decode the file's events, and no more
python tests/benchmarks/ours.py load FILE --jobs N --folder EMPTY       open it as a trace, in a cache in EMPTY
python tests/benchmarks/ours.py tables FILE --jobs N --folder EMPTY     the same; the tables of `peers.py hta-tables`
python tests/benchmarks/ours.py sums FILE --jobs N --folder EMPTY       the same; prints events and their time in ps
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tracehound.formats.format import ALL, Portion
from tracehound.store import cache, load, open_paths, workshop
from tracehound.store.board import Board
from tracehound.store.find import find
from tracehound.store.ingest import SHARED, decode, guessed_size
from tracehound.store.pool import Pool, default_jobs
from tracehound.trace import Trace

if TYPE_CHECKING:
    from tracehound.analysis import Result


def columns(path: Path, jobs: int, folder: Path) -> None:
    """Decode a file as reading it does, and stop before its events are sorted and linked."""
    (found,) = find([path]).files
    portions = jobs if guessed_size(found) >= SHARED else 1
    (folder / "pieces").mkdir(parents=True)
    board = Board(folder / "board", portions)
    board.clear()
    pool = Pool(portions)
    if pool.executor is None:
        decode(found, ALL, folder, board)
        return
    running = [pool.executor.submit(decode, found, Portion(n, portions), folder, board) for n in range(portions)]
    for future in running:
        future.result()
    pool.close()


def loaded(path: Path, jobs: int, folder: Path) -> Trace:
    """Open a file as a trace, its events in the cache."""
    with workshop(jobs, partial(cache.opened, folder)) as shop:
        return load(open_paths([path], workshop=shop))


def tables(path: Path, jobs: int, folder: Path) -> list[Result]:
    """Temporal and kernel breakdown, overlap, idle time."""
    from tracehound.analysis import Options, named, run_all  # noqa: PLC0415, reading alone needs none of it

    with workshop(jobs, partial(cache.opened, folder)) as shop:
        trace = load(open_paths([path], workshop=shop))
        shop.pool.close()
        return run_all([(named(name), Options()) for name in ("breakdown", "kernels", "overlap", "idle")], trace)


def sums(path: Path, jobs: int, folder: Path) -> None:
    """Print how many events the trace has, and how long they are together."""
    events = loaded(path, jobs, folder).events()
    (row,) = (
        events.select(pl.len().alias("events"), (pl.col("end") - pl.col("start")).sum().alias("time"))
        .collect()
        .rows(named=True)
    )
    print(json.dumps(row))


WAYS = {"columns": columns, "load": loaded, "tables": tables, "sums": sums}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--jobs", type=int, default=default_jobs())
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    WAYS[asked.way](asked.file, asked.jobs, asked.folder)


if __name__ == "__main__":
    main()
