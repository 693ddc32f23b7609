"""Where reading keeps what it reads when places fail, one file at a time or several at once."""

from __future__ import annotations

import errno
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path

import pytest
from polars.exceptions import PanicException

from tracehound.draw.notes import note_text
from tracehound.formats.spill import WAITING
from tracehound.store import ingest, load, open_paths, opening, workshop
from tracehound.store.board import Board, StoppedError
from tracehound.store.cache import Cache, opened
from tracehound.store.found import Found
from tracehound.store.ingest import Ingest
from tracehound.store.pool import Pool
from tracehound.store.workshop import Workshop
from tracehound.trace import Part


def full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", str(path))


def test_a_place_that_cannot_be_opened_is_followed_by_the_next(tmp_path: Path) -> None:
    def refused() -> Cache:
        raise full(tmp_path / "one")

    with Workshop(Pool(1), [refused, partial(opened, tmp_path / "two")]) as shop:
        assert shop.cache is not None
        assert shop.cache.root == tmp_path / "two"
        assert shop.troubles == [f"no space left on device ({tmp_path / 'one'})"]


def test_a_place_that_fails_for_several_files_is_given_up_once(tmp_path: Path) -> None:
    with Workshop(Pool(1), [partial(opened, tmp_path / name) for name in ("one", "two")]) as shop:
        first = shop.cache
        assert first is not None
        for _ in range(3):
            shop.give_up(first, full(tmp_path))
        second = shop.cache
        assert second is not None
        assert second.root == tmp_path / "two"
        assert len(shop.troubles) == 1
        shop.give_up(second, full(tmp_path))
        assert shop.cache is None
        assert len(shop.troubles) == 2


def broken(error: BaseException, found: Found, cache: Cache, executor: Executor, jobs: int) -> Ingest:
    """A file whose reading ends with an error, where it is read into the user's cache."""
    made = ingest.begin(found, cache, executor, jobs)
    if not cache.fleeting:
        made.abandon()
        failed = Future[None]()
        failed.set_exception(error)
        made.pending = [failed]
    return made


def test_files_that_were_read_when_the_disk_was_full_are_read_elsewhere(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "SMALL", 0)
    monkeypatch.setattr(opening, "begin", partial(broken, full(tmp_path)))
    with workshop(2, partial(opened, tmp_path / "kept")) as shop:
        trace = load(open_paths([samples / "torch_ddp_gloo"], None, shop))
        assert trace.ranks["rank"].to_list() == [0, 1]
        assert len(shop.troubles) == 1
        assert shop.cache is not None
        assert shop.cache.fleeting


@pytest.mark.parametrize(("small", "step"), [(0, "finished"), (0, "keep"), (1 << 30, "save"), (1 << 30, "keep")])
def test_what_was_made_on_a_full_disk_is_removed_at_once(
    small: int, step: str, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fails(*given: object) -> Part:
        (folder,) = (made for made in given if isinstance(made, Path))
        tried.append(folder)
        if step != "finished":
            assert any(folder.iterdir()) == (step == "keep")
        raise full(tmp_path)

    monkeypatch.setattr(opening, "SMALL", small)
    monkeypatch.setattr(ingest, step, fails)
    with workshop(1, partial(opened, tmp_path / "kept")) as shop:
        shop.places[1:] = []
        trace = load(open_paths([samples / "torch_stacks"], None, shop))
        assert trace.lanes.height
        assert shop.cache is None
        assert len(tried) == 1
        assert not list((tmp_path / "kept" / "work").glob("*/*"))
        assert not list((tmp_path / "kept" / "entries").iterdir())


def test_a_folder_stays_as_long_as_a_worker_may_write_there(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    board = Board(folder / "board", 3)
    board.clear()
    waits, *runs = (Future[None]() for _ in range(3))
    for each in runs:
        each.set_running_or_notify_cancel()
    ingest.abandon(folder, board, [waits, *runs])
    assert waits.cancelled()
    with pytest.raises(StoppedError):
        board.desk(0)(1, 1)
    runs[0].set_exception(StoppedError())
    assert folder.is_dir()
    runs[1].set_result(None)
    assert not folder.exists()


def test_a_panic_costs_its_file_alone(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second_panics(found: Found, cache: Cache, executor: Executor, jobs: int) -> Ingest:
        if "rank1" in found.path.name:
            return broken(PanicException("index out of bounds"), found, cache, executor, jobs)
        return ingest.begin(found, cache, executor, jobs)

    monkeypatch.setattr(opening, "SMALL", 0)
    monkeypatch.setattr(opening, "begin", second_panics)
    with workshop(2, partial(opened, tmp_path / "kept")) as shop:
        trace = load(open_paths([samples / "torch_ddp_gloo"], None, shop))
    assert trace.ranks["rank"].to_list() == [0]
    assert [note_text(note) for note in trace.notes if note.level == "dropped"] == [
        "file not read: cannot be read: PanicException: index out of bounds"
    ]


def test_what_waited_while_a_file_was_read_is_gone(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "SMALL", 0)
    with workshop(1, partial(opened, tmp_path)) as shop:
        load(open_paths([samples / "torch_ddp_gloo"], workshop=shop))
        kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert any(name.startswith("events-") for name in kept)
    assert not any(name.endswith(WAITING) for name in kept)
