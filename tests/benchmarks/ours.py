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

from tracehound.formats import WHOLE_FILE, WorkerShard
from tracehound.model.trace import Trace
from tracehound.store import load_trace, make_read_context, open_trace_files, trace_cache
from tracehound.store.find_files import find_trace_files
from tracehound.store.ingest import MIN_SHARED_BYTES, decode_shard, estimate_inflated_size
from tracehound.store.reading_progress import SharedProgress
from tracehound.store.worker_pool import WorkerPool, default_jobs

if TYPE_CHECKING:
    from tracehound.analysis import Result


def columns(path: Path, jobs: int, folder: Path) -> None:
    """Decode a file as reading it does, and stop before its events are sorted and linked."""
    (found,) = find_trace_files([path]).files
    portions = jobs if estimate_inflated_size(found) >= MIN_SHARED_BYTES else 1
    (folder / "pieces").mkdir(parents=True)
    board = SharedProgress(folder / "board", portions)
    board.create()
    pool = WorkerPool(portions)
    if pool.executor is None:
        decode_shard(found, WHOLE_FILE, folder, board)
        return
    running = [
        pool.executor.submit(decode_shard, found, WorkerShard(n, portions), folder, board) for n in range(portions)
    ]
    for future in running:
        future.result()
    pool.close()


def loaded(path: Path, jobs: int, folder: Path) -> Trace:
    """Open a file as a trace, its events in the cache."""
    with make_read_context(jobs, partial(trace_cache.open_cache, folder)) as shop:
        return load_trace(open_trace_files([path], context=shop))


def tables(path: Path, jobs: int, folder: Path) -> list[Result]:
    """Temporal and kernel breakdown, overlap, idle time."""
    from tracehound.analysis import Options, get_analysis, run_analyses  # noqa: PLC0415, reading alone needs none of it

    with make_read_context(jobs, partial(trace_cache.open_cache, folder)) as shop:
        trace = load_trace(open_trace_files([path], context=shop))
        shop.pool.close()
        return run_analyses(
            [(get_analysis(name), Options()) for name in ("breakdown", "kernels", "overlap", "idle")], trace
        )


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
