"""Traces that workers of a cluster find, read and map, against those of this process."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jobs import Rank
from memory_bucket import MemoryBucket
from tracehound.analysis import ANALYSES, Options, get_analysis, run_analyses, run_analysis
from tracehound.analysis.rank_trace import deferred_ranks
from tracehound.errors import TracehoundError, path_text
from tracehound.model.trace import Trace, Window, collect_frame
from tracehound.store import CancelledError, load_trace, open_trace_files, worker_files
from tracehound.store.clock_choice import set_alignment
from tracehound.store.cluster_reader import ClusterTraceReader, open_cluster_trace
from tracehound.store.worker_files import WorkerSettings
from tracehound.system.cluster_executor import ClusterExecutor, current_worker

SAMPLES = Path(__file__).resolve().parents[2] / "traces"


class _PicklingExecutor(ThreadPoolExecutor):
    """Threads that get and give everything as other processes would."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        asked = pickle.dumps((fn, args, kwargs))
        return super().submit(_answer, asked)


def _answer(asked: bytes) -> Any:
    fn, args, kwargs = pickle.loads(asked)  # noqa: S301, ours
    return pickle.loads(pickle.dumps(fn(*args, **kwargs)))  # noqa: S301, ours


@pytest.fixture
def cluster() -> Iterator[ClusterExecutor]:
    with _PicklingExecutor(2) as executor:
        yield ClusterExecutor(executor, 2)


def job(folder: Path, ranks: int) -> list[Path]:
    """Ranks with a step, a kernel and a collective that the last rank reaches late."""
    paths = []
    for number in range(ranks):
        rank = Rank(number, world=ranks)
        late = 100 * (number == ranks - 1)
        rank.step(0, 0, 250)
        rank.kernel("gemm", 1, 5, 30 + late)
        rank.collective(2, 31 + late, 200, Seq=1)
        paths.append(folder / f"rank{number}.json")
        paths[-1].write_text(json.dumps(rank.document()))
    return paths


def read(cluster: ClusterExecutor, *paths: Path | str, **settings: Any) -> Trace:
    return load_trace(open_cluster_trace(paths, cluster, settings=WorkerSettings(**{"no_cache": True, **settings})))


@pytest.mark.parametrize("sample", ["torch_ddp_gloo", pytest.param("jax_cpu8_b128", marks=pytest.mark.thorough)])
def test_all_analyses_are_those_of_this_process(sample: str, cluster: ClusterExecutor) -> None:
    local, far = load_trace(open_trace_files([SAMPLES / sample])), read(cluster, SAMPLES / sample)
    asked = [(analysis, Options()) for analysis in ANALYSES]
    for window in (Window(), Window(ranks=(1,), steps=(1,))):
        for ours, theirs in zip(
            run_analyses(asked, local, window), run_analyses(asked, far, window, cluster), strict=True
        ):
            assert theirs.table.equals(ours.table), ours.analysis
            assert theirs.notes == ours.notes, ours.analysis


def test_what_travels_has_no_events(tmp_path: Path, cluster: ClusterExecutor) -> None:
    """Whatever the number of events."""
    sizes = []
    for many in (1, 500):
        rank = Rank(0)
        for at in range(many):
            rank.kernel(f"gemm {at}", 10 * at, 10 * at + 2, 10 * at + 9)
        path = tmp_path / "rank0.json"
        path.write_text(json.dumps(rank.document()))
        sizes.append(len(pickle.dumps(list(deferred_ranks(read(cluster, path), Window())))))
    assert sizes[1] < sizes[0] + 500


def test_events_are_read_here_when_they_are_asked_for(tmp_path: Path, cluster: ClusterExecutor) -> None:
    paths = job(tmp_path, 2)
    local, far = load_trace(open_trace_files(paths)), read(cluster, *paths)
    assert collect_frame(far.events()).equals(collect_frame(local.events()))


def test_a_cache_of_the_workers_is_used_again(tmp_path: Path, cluster: ClusterExecutor) -> None:
    paths = job(tmp_path, 3)
    for _ in range(2):
        read(cluster, *paths, no_cache=False, cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache" / "entries").iterdir())) == 3
    table = run_analysis(get_analysis("kernels"), read(cluster, *paths, no_cache=False, cache=tmp_path / "cache"),
                         executor=cluster).table  # fmt: skip
    assert table["count"].sum() == 6
    assert list((tmp_path / "cache" / "entries").glob("*/table-*"))  # kept beside the frames, where the worker is


def test_a_rank_that_cannot_be_read_is_a_note(tmp_path: Path, cluster: ClusterExecutor) -> None:
    paths = job(tmp_path, 3)
    reader = open_cluster_trace(paths, cluster, settings=WorkerSettings(no_cache=True))
    paths[1].unlink()
    trace = load_trace(reader)
    assert trace.ranks["rank"].to_list() == [0, 2]
    (note,) = [note for note in trace.notes if note.code == "file_not_read"]
    assert dict(note.values)["why"] == f"no such file or directory (on worker {current_worker()})"


def test_errors_name_the_worker(tmp_path: Path, cluster: ClusterExecutor) -> None:
    with pytest.raises(TracehoundError, match=rf"no such file \(on worker {current_worker()}\)"):
        read(cluster, tmp_path / "none.json")
    (path,) = job(tmp_path, 1)
    reader = open_cluster_trace([path], cluster, settings=WorkerSettings(no_cache=True))
    path.unlink()
    with pytest.raises(TracehoundError, match=r"rank0.json: no such file or directory \(on worker"):
        load_trace(reader)


class _DyingCluster(ClusterExecutor):
    """A cluster whose workers are killed by what mentions a word."""

    word = "rank1"

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.word not in str(args):
            return super().submit(fn, *args, **kwargs)
        broken = Future[Any]()
        broken.set_exception(BrokenExecutor("4 workers were killed by the same work"))
        return broken


def test_killed_workers_cost_their_files(tmp_path: Path) -> None:
    job(tmp_path, 3)
    with ThreadPoolExecutor(1) as executor:
        cluster = _DyingCluster(executor, 1, "Dask cluster tcp://there:1")
        trace = read(cluster, tmp_path)
        assert trace.ranks["rank"].to_list() == [0, 2]
        cluster.word = "breakdown"
        with pytest.raises(TracehoundError, match="Dask cluster tcp://there:1: 4 workers were killed by the same work"):
            run_analysis(get_analysis("breakdown"), trace, executor=cluster)


def test_reading_can_be_given_up(tmp_path: Path, cluster: ClusterExecutor) -> None:
    reader = open_cluster_trace([*job(tmp_path, 3)], cluster, settings=WorkerSettings(no_cache=True))
    with pytest.raises(CancelledError):
        list(reader.read_files(cancelled=lambda: True))


def test_clocks_are_compared_by_the_workers(tmp_path: Path, cluster: ClusterExecutor) -> None:
    paths = []
    for number, clock in enumerate((0, 5_000)):
        rank = Rank(number, clock=clock, machine=f"host{number}")
        for at in range(8):
            rank.collective(1000 * at, 1000 * at + 10, 1000 * at + 60, Seq=at)
        paths.append(tmp_path / f"rank{number}.json")
        paths[-1].write_text(json.dumps(rank.document()))
    local = load_trace(set_alignment(open_trace_files(paths), "collectives"))
    reader = set_alignment(open_cluster_trace(paths, cluster, settings=WorkerSettings(no_cache=True)), "collectives")
    assert isinstance(reader, ClusterTraceReader)
    far = load_trace(reader)
    assert far.lanes.equals(local.lanes)
    assert far.lanes["first"].to_list() != load_trace(open_trace_files(paths)).lanes["first"].to_list()


def test_each_worker_downloads_what_it_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: ClusterExecutor
) -> None:
    bucket = MemoryBucket()
    bucket.add_folder(SAMPLES / "torch_ddp_gloo", "ddp/")
    monkeypatch.setattr("tracehound.store.object_mirror.open_store", bucket.open)
    local = load_trace(open_trace_files([SAMPLES / "torch_ddp_gloo"]))
    trace = read(cluster, "s3://some/ddp/", no_cache=False, cache=tmp_path / "cache")
    monkeypatch.setattr(worker_files, "_contexts", worker_files._ReadContexts())  # another worker, with this cache
    steps = run_analysis(get_analysis("steps"), trace, executor=cluster)
    assert steps.table.equals(run_analysis(get_analysis("steps"), local).table)
    assert path_text(trace.parts[0].path).startswith("s3://some/ddp/")


def test_a_signed_url_is_in_nothing_that_a_cluster_logs() -> None:
    settings = WorkerSettings(("https://host/rank0.json?X-Amz-Signature=PLANTED", "https://u:PLANTED@host/b", "/data"))
    assert settings.signed_urls == list(settings.paths[:2])
    assert "PLANTED" not in repr(settings)


def test_old_contexts_of_a_worker_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_files, "_MAX_CONTEXTS", 2)
    contexts = worker_files._ReadContexts()
    settings = [WorkerSettings(no_cache=True) for _ in range(3)]
    roots = [contexts.open(each).cache.root for each in settings]  # type: ignore[union-attr]
    assert [root.exists() for root in roots] == [False, True, True]
    contexts._close_all()
    assert not any(root.exists() for root in roots)
