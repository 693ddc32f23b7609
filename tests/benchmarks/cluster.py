"""How much a Dask cluster on this machine costs beyond the worker processes of the program, and how it grows.

    python tests/benchmarks/cluster.py --ranks 64 --runs 5 [FILE]

The job is made: links to FILE (a small Kineto trace) for each rank. Each line is one run of `breakdown` from the files
to the table, with caches that are new, or have the frames but not the table. `overhead` is the time of a rank on
the cluster beyond that of our own workers, `2 : 1` how many times as fast two workers are as one. The best of the runs
counts: what else the machine does only adds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

from distributed import LocalCluster

from tracehound.analysis import get_analysis, run_analysis
from tracehound.store import load_trace, make_read_context, open_trace_files, trace_cache
from tracehound.store.cluster_reader import open_cluster_trace
from tracehound.store.dask_cluster import DaskCluster, connect_cluster
from tracehound.store.worker_files import WorkerSettings

SAMPLE = Path(__file__).parents[2] / "traces" / "torch_ddp_gloo"


def own_workers(folder: Path, cache: Path, jobs: int) -> None:
    """The table by worker processes of the program, as `--jobs` starts them."""
    with make_read_context(jobs, lambda: trace_cache.open_cache(cache)) as context:
        trace = load_trace(open_trace_files([folder], None, context))
        run_analysis(get_analysis("breakdown"), trace, executor=context.pool.executor)


def on_cluster(folder: Path, cache: Path, cluster: DaskCluster) -> None:
    """The table by the workers of a cluster."""
    trace = load_trace(open_cluster_trace([folder], cluster, settings=WorkerSettings(cache=cache)))
    run_analysis(get_analysis("breakdown"), trace, executor=cluster)


def best_of(runs: int, work: Callable[[Path], None], *, cold: bool) -> float:
    """Seconds of the fastest run, from empty caches or from caches with the frames alone."""
    times = []
    with tempfile.TemporaryDirectory() as place:
        cache = Path(place) / "cache"
        for number in range(runs + (not cold)):
            if cold:
                rmtree(cache, ignore_errors=True)
            for table in cache.glob("entries/*/table-*"):
                table.unlink()
            begun = time.perf_counter()
            work(cache)
            if cold or number:
                times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=next(SAMPLE.glob("*rank0*")))
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for rank in range(options.ranks):
            (folder / f"rank{rank}{''.join(options.file.suffixes[-4:])}").symlink_to(options.file.resolve())
        for cold in (True, False):
            times = {"own 2": best_of(options.runs, lambda cache: own_workers(folder, cache, 2), cold=cold)}
            for workers in (1, 2):
                with LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
                ) as local:
                    cluster = connect_cluster(local.scheduler_address)
                    times[f"Dask {workers}"] = best_of(
                        options.runs, lambda cache, it=cluster: on_cluster(folder, cache, it), cold=cold
                    )
                    cluster.close()
            overhead = 1000 * (times["Dask 2"] - times["own 2"]) / options.ranks
            print(f"{'cold' if cold else 'from the cache'}, {options.ranks} ranks:")
            print("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items()))
            print(f"  overhead {overhead:.1f} ms a rank; 2 : 1 {times['Dask 1'] / times['Dask 2']:.2f}x")


if __name__ == "__main__":
    sys.exit(main())
