"""Reading many files: alone, with workers, in any order, and when some are bad."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace
from polars.testing import assert_frame_equal

from short import first, some
from tracehound.analysis import ANALYSES, Options, run_analyses
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.formats.xplane import xplane_reader
from tracehound.model.trace import Trace, Window
from tracehound.report.summary_page import summarize_trace
from tracehound.store import (
    CancelledError,
    ReadContext,
    ReadingProgress,
    ingest,
    load_trace,
    make_read_context,
    open_trace_files,
    trace_reader,
    worker_processes,
)
from tracehound.store.ingest import MAX_IN_MEMORY_BYTES
from tracehound.store.trace_cache import open_cache

WAYS = ("shared by workers", "a file each", "here, on disk")


@pytest.fixture(params=some(WAYS, ["here, on disk"]))
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadContext]:
    """Each way in which a large file is read."""
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(ingest, "MIN_SHARED_BYTES", 0 if request.param == "shared by workers" else 1 << 40)
    jobs = 1 if request.param == "here, on disk" else 2
    with make_read_context(jobs, partial(open_cache, tmp_path / "kept")) as made:
        yield made


def same(one: Trace, other: Trace) -> None:
    assert_frame_equal(one.events().collect(), other.events().collect(), categorical_as_str=True)
    for name in ("lanes", "ranks", "steps", "ops"):
        assert_frame_equal(getattr(one, name), getattr(other, name))
    assert (one.hosts, one.origin_ns, one.notes, one.span) == (other.hosts, other.origin_ns, other.notes, other.span)


@pytest.mark.parametrize(
    ("sample", "shop"),
    some(
        product(("torch_ddp_gloo", "torch_xla_single", "jax_cpu8_b128", "torch_stacks"), WAYS),
        [("torch_ddp_gloo", "shared by workers"), *product(("torch_xla_single",), WAYS[1:])],
    ),
    indirect=["shop"],
)
def test_every_way_of_reading_gives_the_same(sample: str, shop: ReadContext, samples: Path) -> None:
    same(load_trace(open_trace_files([samples / sample], None, shop)), load_trace(open_trace_files([samples / sample])))


def test_workers_are_ready_for_what_they_will_read(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    asked = partial(open_trace_files, [samples / "torch_stacks"], None)
    for ready in (True, False):  # the second time there is nothing to read
        with make_read_context(2, partial(open_cache, tmp_path / "kept")) as shop:
            one = asked(shop)
            one.start_workers()
            assert shop.pool.started == ready
            load_trace(one)
    one = asked(ReadContext())
    one.start_workers()
    assert not one.context.pool.started


@pytest.mark.thorough
def test_a_file_that_is_gone_before_the_workers_are_ready_is_told_of(samples: Path, tmp_path: Path) -> None:
    for sample in (samples / "torch_ddp_gloo").glob("*.gz"):
        (tmp_path / sample.name).write_bytes(sample.read_bytes())
    with make_read_context(2, partial(open_cache, tmp_path / "kept")) as shop:
        opening = open_trace_files([tmp_path], None, shop)
        opening.files = tuple(replace(file, size=MAX_IN_MEMORY_BYTES) for file in opening.files)
        opening.files[0].path.unlink()
        opening.start_workers()
        trace = load_trace(opening)
    assert len(trace.parts) == 1
    assert [note_text(note) for note in trace.notes if note.level == "dropped"] == [
        "file not read: no such file or directory"
    ]


def links(folder: Path, real: Path, count: int) -> None:
    for rank in range(count):
        (folder / f"rank{rank}.json.gz").symlink_to(real)


def test_links_to_one_file_are_files(samples: Path, tmp_path: Path) -> None:
    links(tmp_path, min((samples / "torch_ddp_gloo").glob("*.gz")), 12)
    assert load_trace(open_trace_files([tmp_path])).ranks["rank"].to_list() == list(range(12))


@pytest.mark.thorough
def test_workers_summarise_links_to_one_file_as_one_process_does(samples: Path, tmp_path: Path) -> None:
    (real,) = (samples / "torch_stacks").glob("*.gz")
    links(tmp_path, real, 12)
    with make_read_context(2, partial(open_cache, tmp_path / "kept")) as shop:
        trace = load_trace(open_trace_files([tmp_path], None, shop))
        assert trace.ranks["rank"].to_list() == list(range(12))
        alone = summarize_trace(trace, Window())
        helped = summarize_trace(trace, Window(), None, shop.pool.executor)
    for one, other in zip(alone.results, helped.results, strict=True):
        assert_frame_equal(one.table, other.table)


@pytest.mark.parametrize("every", some((1, 4), (4,)))
def test_any_executor_runs_the_maps(every: int, samples: Path) -> None:
    trace = load_trace(open_trace_files([samples / "torch_ddp_gloo"]))
    asked = [(analysis, Options()) for analysis in ANALYSES[::every]]
    with ThreadPoolExecutor(2) as executor:
        for one, other in zip(run_analyses(asked, trace), run_analyses(asked, trace, None, executor), strict=True):
            assert_frame_equal(one.table, other.table)


def test_a_bad_file_is_passed_over(shop: ReadContext, samples: Path, tmp_path: Path) -> None:
    good = sorted((samples / "torch_ddp_gloo").glob("*.gz"))
    for number, path in enumerate(good):
        (tmp_path / f"rank{number}.json.gz").symlink_to(path)
    (tmp_path / "rank9.json").write_text('{"schemaVersion": 1, "deviceProperties": [], "other": 3}')
    asked = open_trace_files([tmp_path], None, shop)
    assert len(asked.files) == len(good) + 1
    trace = load_trace(asked)
    assert len(trace.parts) == len(good)
    assert [note for note in trace.notes if note.level == "dropped" and "rank9.json" in note.location_text]


def test_with_nothing_but_bad_files_the_error_is_raised(shop: ReadContext, tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text('{"schemaVersion": 1, "deviceProperties": [], "other": 3}')
    with pytest.raises(TracehoundError, match="holds no trace events"):
        load_trace(open_trace_files([tmp_path], None, shop))


def test_a_gzip_that_ends_before_its_events_is_said_to_end_there(shop: ReadContext, tmp_path: Path) -> None:
    cut = tmp_path / "rank0.json.gz"
    cut.write_bytes(gzip.compress(b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}', 0)[:60])
    with pytest.raises(TracehoundError, match="byte 60: gzip ends early, before any trace event; copy it again"):
        load_trace(open_trace_files([cut], None, shop))


def test_a_file_that_went_away_is_told(shop: ReadContext, samples: Path, tmp_path: Path) -> None:
    (real,) = (samples / "torch_stacks").glob("*.gz")
    path = tmp_path / "t.json.gz"
    path.write_bytes(real.read_bytes())
    asked = open_trace_files([path], None, shop)
    path.unlink()
    with pytest.raises(TracehoundError, match="no such file"):
        load_trace(asked)


@pytest.mark.parametrize("sample", first(1, ("torch_stacks", "jax_cpu8_b128")))
def test_a_worker_that_is_killed_costs_its_file(
    sample: str, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(ingest, "MIN_SHARED_BYTES", 0)
    killed: list[int | None] = []
    real_call = worker_processes._WorkerProcess.call

    def kill_first(worker: worker_processes._WorkerProcess, asked: bytes) -> bytes:
        if not killed:
            killed.append(worker.process.pid)
            worker.process.kill()
        return real_call(worker, asked)

    monkeypatch.setattr(worker_processes._WorkerProcess, "call", kill_first)
    with make_read_context(2, partial(open_cache, tmp_path / "kept")) as shop:
        with pytest.raises(TracehoundError, match=r"worker process was killed.*--jobs 1"):
            load_trace(open_trace_files([samples / sample], None, shop))
        assert len(killed) == 1
        assert load_trace(open_trace_files([samples / sample], None, shop)).lanes.height
    assert not list((tmp_path / "kept" / "work").iterdir())


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 965. KiB"), RuntimeError("can't start new thread")])
def test_too_little_memory_is_said_in_our_words(
    error: Exception, shop: ReadContext, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starved(_: object) -> None:
        raise error

    monkeypatch.setattr(trace_reader, "stamp_trace_file", starved)
    with pytest.raises(TracehoundError, match="not enough memory to read it; --jobs 1 takes less, and ulimit -v"):
        load_trace(open_trace_files([samples / "torch_stacks"], None, shop))


def test_what_is_wanted_comes_first(samples: Path, tmp_path: Path) -> None:
    (real,) = (samples / "torch_stacks").glob("*.gz")
    for rank in range(8):
        (tmp_path / f"rank{rank}.json.gz").symlink_to(real)
    asked = open_trace_files([tmp_path])
    order = []
    for number, _ in asked.read_files():
        order.append(number)
        asked.wanted_files = frozenset({5, 6})
    assert order == [0, 5, 6, 1, 2, 3, 4, 7]


def left(kept: Path) -> list[Path]:
    """The files where entries are made, once who made it has had the time to stop."""
    for _ in range(2000):
        if not (found := [Path(folder, name) for folder, _, names in os.walk(kept / "work") for name in names]):
            break
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(
    ("sample", "shop"),
    some(
        product(("torch_ddp_gloo", "torch_xla_spmd4", "jax_cpu8_b128"), WAYS),
        [("torch_ddp_gloo", "here, on disk"), *product(("torch_xla_spmd4",), WAYS)],
    ),
    indirect=["shop"],
)
def test_reading_can_be_given_up(
    sample: str, shop: ReadContext, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xplane_reader, "_BYTES_PER_REPORT", 1)
    asked = open_trace_files([samples / sample], None, shop)
    told: list[ReadingProgress] = []
    with pytest.raises(CancelledError):
        list(asked.read_files(told.append, lambda: len(told) > 0, idle=True))
    assert told
    assert not list((tmp_path / "kept" / "entries").iterdir())
    assert left(tmp_path / "kept") == []


def test_what_was_made_of_a_bad_file_goes_at_once(shop: ReadContext, samples: Path, tmp_path: Path) -> None:
    (real,) = (samples / "torch_stacks").glob("*.gz")
    (tmp_path / "a.json.gz").symlink_to(real)
    (tmp_path / "b.json").write_text('{"schemaVersion": 1, "deviceProperties": [], "other": 3}')
    trace = load_trace(open_trace_files([tmp_path / "a.json.gz", tmp_path / "b.json"], None, shop))
    assert len(trace.parts) == 1
    assert left(tmp_path / "kept") == []


@pytest.mark.parametrize(
    ("sample", "shop"),
    some(
        product(("torch_ddp_gloo", "torch_xla_single", "jax_cpu8_b128"), WAYS),
        [("torch_ddp_gloo", "here, on disk"), *product(("torch_xla_single",), WAYS)],
    ),
    indirect=["shop"],
)
def test_progress_ends_with_everything(
    sample: str, shop: ReadContext, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xplane_reader, "_BYTES_PER_REPORT", 1)
    told: list[ReadingProgress] = []
    asked = open_trace_files([samples / sample], None, shop)
    trace = load_trace(asked, told.append)
    assert [reading.done for reading in told] == sorted(reading.done for reading in told)
    assert {reading.files for reading in told} == {len(asked.files)}
    assert max(reading.events for reading in told) <= trace.lanes["events"].sum() * 3
    assert all(reading.read <= asked.size == reading.size for reading in told)


def test_a_blank_stands_for_a_file(samples: Path) -> None:
    asked = open_trace_files([samples / "torch_ddp_gloo"])
    parts = dict(asked.read_files())
    blank = asked.placeholder(0)
    assert (blank.path, blank.lanes.height, blank.ranks.height) == (parts[0].path, 0, 1)
    assert blank.scan.select(pl.len()).collect().item() == 0
