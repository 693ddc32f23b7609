"""Analyses on the workers of real Dask clusters, against those of this process; and clusters that do not answer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from test_cluster_reader import job

from tracehound.analysis import ANALYSES, Options, Result, run_analyses
from tracehound.cli.main import main
from tracehound.errors import TracehoundError
from tracehound.store import dask_cluster, load_trace, open_trace_files
from tracehound.store.cluster_reader import open_cluster_trace
from tracehound.store.dask_cluster import DaskCluster, connect_cluster
from tracehound.store.worker_files import WorkerSettings

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # sockets that Dask leaves open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ASKED = [(analysis, Options()) for analysis in ANALYSES]


@contextmanager
def local_cluster(workers: int) -> Iterator[str]:
    """The address of a scheduler on loopback with worker processes of one thread each."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50, memory_limit="4GB"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with local_cluster(2) as found:
        yield found


def require_equal(ours: list[Result], theirs: list[Result]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.table.equals(other.table), one.analysis
        assert one.notes == other.notes, one.analysis


def test_256_ranks_are_those_of_this_process(address: str, tmp_path: Path) -> None:
    """On two workers, and on four, which find the frames and tables of the first two in the cache."""
    paths = job(tmp_path, 256)
    ours = run_analyses(ASKED, load_trace(open_trace_files(paths)))
    with local_cluster(4) as of_four:
        for each in (address, of_four):
            cluster = connect_cluster(each)
            trace = load_trace(open_cluster_trace(paths, cluster, settings=WorkerSettings(cache=tmp_path / "cache")))
            require_equal(ours, run_analyses(ASKED, trace, executor=cluster))
            cluster.close()


def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    """Its ranks are read and mapped again; each worker has a cache of its own."""
    paths = job(tmp_path, 24)
    asked = ASKED[::4]
    ours = run_analyses(asked, load_trace(open_trace_files(paths)))
    with local_cluster(2) as found:
        cluster = connect_cluster(found)
        trace = load_trace(open_cluster_trace(paths, cluster, settings=WorkerSettings(no_cache=True)))
        killer = threading.Thread(target=_kill_a_busy_worker, args=(cluster,))
        killer.start()
        require_equal(ours, run_analyses(asked, trace, executor=cluster))
        killer.join()
        cluster.close()


def _kill_a_busy_worker(cluster: DaskCluster) -> None:
    client = cluster._client
    pids = client.run(os.getpid)
    while not any(client.processing().values()):
        time.sleep(0.01)
    busy = next(worker for worker, calls in client.processing().items() if calls)
    with suppress(ProcessLookupError):
        os.kill(pids[busy], signal.SIGKILL)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_work_that_kills_its_workers_is_given_up(address: str) -> None:
    cluster = connect_cluster(address)
    with pytest.raises(dask_cluster.BrokenExecutor, match="4 workers were killed by the same work"):
        cluster.result(cluster.submit(_die))
    cluster.close()


def test_a_report_of_a_cluster_is_that_of_this_machine(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job(tmp_path, 8)
    command = ["report", str(tmp_path), "stragglers", "--cache", str(tmp_path / "cache")]
    assert main(command) == 0
    ours = capsys.readouterr()
    assert main([*command, "--cluster", address]) == 0
    assert capsys.readouterr() == ours
    assert "rank 7" in ours.out


def test_a_scheduler_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)
    (path,) = job(tmp_path, 1)
    assert main(["summary", "--cluster", "tcp://127.0.0.1:9", str(path)]) == 2
    assert capsys.readouterr().err == (
        "tracehound: no Dask scheduler answers at tcp://127.0.0.1:9; is the scheduler running, and does this machine"
        " reach it?\n"
    )
    assert main(["summary", "--cluster", str(tmp_path / "none.json"), str(path)]) == 2
    assert "no scheduler file" in capsys.readouterr().err


def test_a_cluster_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "WORKER_SECONDS", 1)
    with local_cluster(0) as found, pytest.raises(TracehoundError, match="has no workers after 1 s; start some"):
        connect_cluster(found)


def test_workers_of_another_version(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "versions_here", lambda: {"no-such-package": "0.0.1"})
    with pytest.raises(TracehoundError, match=r"worker tcp://[\d.:]+: no-such-package is not installed there; pip"):
        connect_cluster(address)
    monkeypatch.setattr(dask_cluster, "versions_here", lambda: {"polars": "0.0.1"})
    with pytest.raises(TracehoundError, match=r"it has polars [\d.]+, this machine 0.0.1; install the same version"):
        connect_cluster(address)
