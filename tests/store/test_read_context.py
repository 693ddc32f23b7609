"""Where reading keeps what it reads when places fail, one file at a time or several at once."""

from __future__ import annotations

import errno
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path

import pytest
from polars.exceptions import PanicException

from tracehound.draw.notes import note_text
from tracehound.formats.spill import SPILL_SUFFIX
from tracehound.model.trace import FileFrames
from tracehound.store import ingest, load_trace, make_read_context, open_trace_files, trace_reader
from tracehound.store.ingest import FileIngest
from tracehound.store.reading_progress import SharedProgress, StoppedError
from tracehound.store.trace_cache import TraceCache, open_cache
from tracehound.store.trace_files import TraceFile
from tracehound.store.trace_reader import ReadContext
from tracehound.store.worker_pool import WorkerPool


def full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", str(path))


def test_a_place_that_cannot_be_opened_is_followed_by_the_next(tmp_path: Path) -> None:
    def refused() -> TraceCache:
        raise full(tmp_path / "one")

    with ReadContext(WorkerPool(1), [refused, partial(open_cache, tmp_path / "two")]) as shop:
        assert shop.cache is not None
        assert shop.cache.root == tmp_path / "two"
        assert shop.failures == [f"no space left on device ({tmp_path / 'one'})"]


def test_a_place_that_fails_for_several_files_is_given_up_once(tmp_path: Path) -> None:
    with ReadContext(WorkerPool(1), [partial(open_cache, tmp_path / name) for name in ("one", "two")]) as shop:
        first = shop.cache
        assert first is not None
        for _ in range(3):
            shop.drop_cache(first, full(tmp_path))
        second = shop.cache
        assert second is not None
        assert second.root == tmp_path / "two"
        assert len(shop.failures) == 1
        shop.drop_cache(second, full(tmp_path))
        assert shop.cache is None
        assert len(shop.failures) == 2


def broken(error: BaseException, found: TraceFile, cache: TraceCache, executor: Executor, jobs: int) -> FileIngest:
    """A file whose reading ends with an error, where it is read into the user's cache."""
    made = ingest.start_ingest(found, cache, executor, jobs)
    if not cache.temporary:
        made.abandon()
        failed = Future[None]()
        failed.set_exception(error)
        made.pending = [failed]
    return made


def test_files_that_were_read_when_the_disk_was_full_are_read_elsewhere(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(trace_reader, "start_ingest", partial(broken, full(tmp_path)))
    with make_read_context(2, partial(open_cache, tmp_path / "kept")) as shop:
        trace = load_trace(open_trace_files([samples / "torch_ddp_gloo"], None, shop))
        assert trace.ranks["rank"].to_list() == [0, 1]
        assert len(shop.failures) == 1
        assert shop.cache is not None
        assert shop.cache.temporary


@pytest.mark.parametrize(
    ("small", "step"),
    [(0, "save_frames_of_shards"), (0, "move_to_cache"), (1 << 30, "save_frames"), (1 << 30, "move_to_cache")],
)
def test_what_was_made_on_a_full_disk_is_removed_at_once(
    small: int, step: str, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fails(*given: object) -> FileFrames:
        (folder,) = (made for made in given if isinstance(made, Path))
        tried.append(folder)
        if step != "save_frames_of_shards":
            assert any(folder.iterdir()) == (step == "move_to_cache")
        raise full(tmp_path)

    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", small)
    monkeypatch.setattr(ingest, step, fails)
    with make_read_context(1, partial(open_cache, tmp_path / "kept")) as shop:
        shop.cache_openers[1:] = []
        trace = load_trace(open_trace_files([samples / "torch_stacks"], None, shop))
        assert trace.lanes.height
        assert shop.cache is None
        assert len(tried) == 1
        assert not list((tmp_path / "kept" / "work").glob("*/*"))
        assert not list((tmp_path / "kept" / "entries").iterdir())


def test_a_folder_stays_as_long_as_a_worker_may_write_there(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    board = SharedProgress(folder / "board", 3)
    board.create()
    waits, *runs = (Future[None]() for _ in range(3))
    for each in runs:
        each.set_running_or_notify_cancel()
    ingest.abandon_ingest(folder, board, [waits, *runs])
    assert waits.cancelled()
    with pytest.raises(StoppedError):
        board.for_worker(0)(1, 1)
    runs[0].set_exception(StoppedError())
    assert folder.is_dir()
    runs[1].set_result(None)
    assert not folder.exists()


def test_a_panic_costs_its_file_alone(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second_panics(found: TraceFile, cache: TraceCache, executor: Executor, jobs: int) -> FileIngest:
        if "rank1" in found.path.name:
            return broken(PanicException("index out of bounds"), found, cache, executor, jobs)
        return ingest.start_ingest(found, cache, executor, jobs)

    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(trace_reader, "start_ingest", second_panics)
    with make_read_context(2, partial(open_cache, tmp_path / "kept")) as shop:
        trace = load_trace(open_trace_files([samples / "torch_ddp_gloo"], None, shop))
    assert trace.ranks["rank"].to_list() == [0]
    assert [note_text(note) for note in trace.notes if note.level == "dropped"] == [
        "file not read: cannot be read: PanicException: index out of bounds"
    ]


def test_what_waited_while_a_file_was_read_is_gone(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    with make_read_context(1, partial(open_cache, tmp_path)) as shop:
        load_trace(open_trace_files([samples / "torch_ddp_gloo"], context=shop))
        kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert any(name.startswith("events-") for name in kept)
    assert not any(name.endswith(SPILL_SUFFIX) for name in kept)
