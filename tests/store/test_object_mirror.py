"""Traces of buckets, found and read through local files that stand for their URLs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from memory_bucket import MemoryBucket
from tracehound.errors import TracehoundError, path_text
from tracehound.model.notes import Note
from tracehound.model.trace import Trace
from tracehound.remote.object_info import ObjectInfo
from tracehound.store import CancelledError, ReadContext, load_trace, make_read_context, object_mirror, open_trace_files
from tracehound.store.object_mirror import url_path
from tracehound.store.trace_cache import open_cache

SAMPLES = Path(__file__).resolve().parents[2] / "traces"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    """A bucket that every URL leads to."""
    made = MemoryBucket()
    monkeypatch.setattr(object_mirror, "open_store", made.open)
    return made


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ReadContext]:
    with new_context(tmp_path) as made:
        yield made


def new_context(folder: Path) -> ReadContext:
    return make_read_context(1, partial(open_cache, folder / "cache"))


def read(context: ReadContext, *paths: str, run: str | None = None) -> Trace:
    return load_trace(open_trace_files(paths, run, context))


def assert_same(trace: Trace, other: Trace) -> None:
    assert_frame_equal(trace.events().collect(), other.events().collect(), categorical_as_str=True)
    for name in ("lanes", "ranks", "steps", "ops"):
        assert_frame_equal(getattr(trace, name), getattr(other, name))
    assert (trace.name, trace.hosts, trace.notes) == (other.name, other.hosts, other.notes)


PARTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), max_size=20)


@given(st.sampled_from(["s3", "gs", "az", "https"]), st.lists(PARTS, min_size=1, max_size=5))
def test_the_path_of_an_object_spells_its_url(scheme: str, parts: list[str]):
    url = f"{scheme}://bucket/{'/'.join(parts)}".rstrip("/")
    path = url_path(Path("/cache/work/7"), url)
    assert path_text(path) == url
    assert path.name.isprintable()
    assert ".." not in path.parts


def test_other_paths_are_shown_as_they_are():
    assert path_text(Path("/data/a.json")) == "/data/a.json"
    assert path_text("") == ""


@pytest.mark.parametrize("name", ["torch_ddp_gloo", "jax_cpu8_b128", "torch_xla_spmd4"])
def test_a_folder_of_a_bucket_is_read_as_one_of_the_disk(name: str, bucket: MemoryBucket, context: ReadContext):
    bucket.add_folder(SAMPLES, "runs/")
    assert_same(read(context, f"s3://traces/runs/{name}"), read(context, str(SAMPLES / name)))


def test_a_single_object_has_its_own_name_with_a_cache_of_any_name(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
):
    bucket.add_folder(SAMPLES / "torch_stacks", "")
    monkeypatch.chdir(tmp_path)
    with make_read_context(1, partial(open_cache, Path("relative"))) as context:
        assert read(context, f"s3://b/{min(bucket.objects)}").name == min(bucket.objects)


def test_keys_that_differ_after_a_question_mark_are_different_files(bucket: MemoryBucket, context: ReadContext):
    (content,) = (file.read_bytes() for file in (SAMPLES / "torch_stacks").iterdir())
    bucket.objects = {f"run/rank{number}.json?x={number}": content for number in range(2)}
    trace = read(context, "s3://b/run")
    assert [path_text(part.path) for part in trace.parts] == [f"s3://b/{key}" for key in sorted(bucket.objects)]


def test_a_key_that_no_file_can_have_is_named(bucket: MemoryBucket, context: ReadContext):
    bucket.objects[f"run/{'x' * 300}.json"] = b"{}"
    with pytest.raises(TracehoundError, match="a part of this name is too long; download it first"):
        open_trace_files(["s3://b/run"], None, context)


def test_objects_that_are_all_denied_are_no_folder_without_a_trace(bucket: MemoryBucket, context: ReadContext):
    def deny(info: ObjectInfo) -> None:
        raise TracehoundError(f"{info.key}: access denied", remedy="ask for it")

    bucket.add_folder(SAMPLES / "torch_ddp_gloo", "run/")
    bucket.before_read = deny
    with pytest.raises(TracehoundError, match=r"^run/rank0.*: access denied; ask for it$"):
        open_trace_files(["s3://b/run"], None, context)


def test_a_rank_whose_folder_is_denied_is_a_note(bucket: MemoryBucket, context: ReadContext):
    def deny(info: ObjectInfo) -> None:
        if "rank1" in info.key:
            raise TracehoundError("access denied")

    for number, file in enumerate(sorted((SAMPLES / "torch_ddp_gloo").iterdir())):
        bucket.objects[f"run/rank{number}/trace.json.gz"] = file.read_bytes()
    bucket.before_read = deny
    trace = read(context, "s3://b/run")
    assert trace.ranks.height == 1
    assert [(note.code, dict(note.values)["why"]) for note in trace.notes if note.level == "dropped"] == [
        ("path_refused", "access denied")
    ]


def test_files_of_buckets_and_of_the_disk_are_read_together(bucket: MemoryBucket, context: ReadContext):
    bucket.add_folder(SAMPLES / "torch_ddp_gloo", "")
    remote = sorted(f"gs://b/{key}" for key in bucket.objects)
    local = sorted(map(str, (SAMPLES / "torch_ddp_gloo").iterdir()))
    found = read(context, remote[0], local[1])
    assert_frame_equal(found.ranks, read(context, *local).ranks)
    assert [path_text(part.path) for part in found.parts] == [remote[0], local[1]]


def test_a_run_of_a_log_folder_is_chosen(bucket: MemoryBucket, context: ReadContext):
    for name, date in (("jax_cpu8_b128", "2020_01_01"), ("torch_xla_single", "2021_01_01")):
        (run,) = (SAMPLES / name / "plugins" / "profile").iterdir()
        bucket.add_folder(run, f"logs/plugins/profile/{date}/")
    bucket.objects["logs/checkpoint/0"] = b"x"
    newest = open_trace_files(["s3://b/logs"], None, context)
    assert [path_text(file.path).split("/")[6] for file in newest.files] == ["2021_01_01"]
    older = open_trace_files(["s3://b/logs/"], "2020_01_01", context)
    assert [file.path.name for file in older.files] == ["demo.xplane.pb"]
    with pytest.raises(TracehoundError, match="s3://b/logs: no run 'x'; there are 2021_01_01, 2020_01_01"):
        open_trace_files(["s3://b/logs"], "x", context)
    assert "logs/checkpoint/0" not in {key for key, _, _ in bucket.reads}


def test_only_what_may_be_a_trace_is_read(bucket: MemoryBucket, context: ReadContext):
    bucket.add_folder(SAMPLES / "torch_stacks", "run/")
    bucket.objects |= {"run/model.safetensors": b"x" * 100, "run/train.py": b"import torch", "run/empty.json": b""}
    bucket.objects["run/big.bin"] = b"\0" * (3 << 20)
    reader = open_trace_files(["s3://b/run"], None, context)
    assert len(reader.files) == 1
    read_bytes = dict[str, int]()
    for key, start, end in bucket.reads:
        read_bytes[key] = read_bytes.get(key, 0) + end - start
    assert "run/model.safetensors" not in read_bytes
    assert "run/train.py" not in read_bytes
    assert read_bytes["run/big.bin"] == object_mirror.START_BYTES + object_mirror.END_BYTES


def test_the_rest_of_a_large_object_comes_when_it_is_read(
    bucket: MemoryBucket, context: ReadContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(object_mirror, "SMALL_BYTES", 0)
    bucket.add_folder(SAMPLES / "jax_cpu8_b128", "")
    reader = open_trace_files(["s3://b/"], None, context)
    before = sum(end - start for _, start, end in bucket.reads)
    trace = load_trace(reader)
    key = next(key for key in bucket.objects if key.endswith(".xplane.pb"))
    assert before < sum(end - start for name, start, end in bucket.reads if name == key) == len(bucket.objects[key])
    assert_frame_equal(trace.ops, read(context, str(SAMPLES / "jax_cpu8_b128")).ops)


def test_a_second_run_downloads_nothing_until_the_object_changes(tmp_path: Path, bucket: MemoryBucket):
    bucket.add_folder(SAMPLES / "torch_ddp_gloo", "")
    with new_context(tmp_path) as first:
        read(first, "s3://b")
    bucket.reads.clear()
    with new_context(tmp_path) as second:
        trace = read(second, "s3://b")
        assert bucket.reads == []
        assert all(part.cache_folder for part in trace.parts)
    one, other = sorted(bucket.objects)
    bucket.objects[one] = bucket.objects[other]
    with new_context(tmp_path) as third:
        read(third, "s3://b")
    assert {key for key, _, _ in bucket.reads} == {one}


def test_an_object_that_changes_after_it_was_found_is_read_as_it_is_then(
    bucket: MemoryBucket, context: ReadContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(object_mirror, "SMALL_BYTES", 0)
    bucket.add_folder(SAMPLES / "jax_cpu8_b128", "")
    reader = open_trace_files(["s3://b/"], None, context)
    key = next(key for key in bucket.objects if key.endswith(".xplane.pb"))
    bucket.objects[key] += b"\n\x02\x12\x00"
    trace = load_trace(reader)
    state = trace.parts[0].state
    assert state is not None
    assert state.size == len(bucket.objects[key])


def test_one_object_that_is_denied_is_a_note(bucket: MemoryBucket, context: ReadContext):
    bucket.add_folder(SAMPLES / "torch_ddp_gloo", "run/")
    denied = min(bucket.objects)

    def deny(info: ObjectInfo) -> None:
        if info.key == denied:
            raise TracehoundError("access denied")

    bucket.before_read = deny
    trace = read(context, "s3://b/run")
    assert trace.ranks.height == 1
    (note,) = (note for note in trace.notes if note.level == "dropped")
    assert note == Note("dropped", "path_refused", file=f"s3://b/{denied}", values=(("why", "access denied"),))


def test_an_object_with_the_name_of_a_folder_is_a_note(bucket: MemoryBucket, context: ReadContext):
    bucket.add_folder(SAMPLES / "torch_stacks", "run/a.json/")
    bucket.objects["run/a.json"] = b"{}"
    trace = read(context, "s3://b/run")
    (note,) = (note for note in trace.notes if note.level == "dropped")
    assert note.file == "s3://b/run/a.json"


@pytest.mark.parametrize("url", ["s3://b/none", "s3://b/none/", "s3://b/ru", "s3://b/run/x.json"])
def test_nothing_at_a_url_is_an_error(url: str, bucket: MemoryBucket, context: ReadContext):
    bucket.objects["run/a.txt"] = b"text"
    with pytest.raises(TracehoundError, match="no such"):
        open_trace_files([url], None, context)


def test_a_folder_without_a_trace_is_named_by_its_url(bucket: MemoryBucket, context: ReadContext):
    bucket.objects["run/a.txt"] = b"text"
    with pytest.raises(TracehoundError, match=r"^s3://b/run: no trace in this folder$"):
        open_trace_files(["s3://b/run"], None, context)


def test_a_folder_with_too_many_objects_is_refused(
    bucket: MemoryBucket, context: ReadContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(object_mirror, "MAX_OBJECTS", 3)
    bucket.objects = {f"run/{number}": b"x" for number in range(6)}
    with pytest.raises(TracehoundError, match="holds more than 3 objects; name the folder of the trace"):
        open_trace_files(["s3://b/run"], None, context)


@pytest.mark.thorough
def test_one_trace_among_ten_thousand_objects(bucket: MemoryBucket, context: ReadContext):
    bucket.objects = {f"run/checkpoint/{number % 100}/{number}": b"0" for number in range(10_000)}
    bucket.add_folder(SAMPLES / "torch_ddp_gloo", "run/")
    assert read(context, "s3://b/run").ranks.height == 2
    assert len(bucket.reads) < 1_000, "the search in other folders ends early"


def test_reading_is_cancelled_while_it_waits_for_a_download(bucket: MemoryBucket, context: ReadContext):
    bucket.add_folder(SAMPLES / "torch_stacks", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_mirror, "SMALL_BYTES", 0)
        patch.setattr(object_mirror, "START_BYTES", 60_000)
        patch.setattr(object_mirror, "END_BYTES", 100)
        reader = open_trace_files(["s3://b"], None, context)
    released = threading.Event()

    def wait(info: ObjectInfo) -> None:
        del info
        released.wait(30)

    bucket.before_read = wait
    try:
        with pytest.raises(CancelledError):
            list(reader.read_files(cancelled=lambda: True))
    finally:
        released.set()
