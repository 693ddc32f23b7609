"""Downloads into the cache: in ranges, resumed, in the order in which files are looked at, and refused in one line."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_bucket import MemoryBucket
from tracehound.errors import TracehoundError
from tracehound.remote.object_info import ObjectInfo
from tracehound.remote.remote_error import RemoteError
from tracehound.store import object_downloads
from tracehound.store.object_downloads import ObjectDownloads, RemoteObject
from tracehound.store.trace_cache import TraceCache, open_cache

CONTENT = random.Random(50).randbytes(1 << 20)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_downloads, "RANGE_BYTES", 200_000)
    monkeypatch.setattr(object_downloads, "BREAK_SECONDS", 0.001)
    monkeypatch.setattr(object_downloads, "POLL_SECONDS", 0.001)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[TraceCache]:
    opened = open_cache(tmp_path / "cache")
    yield opened
    opened.close()


def remote(bucket: MemoryBucket, key: str, folder: Path) -> RemoteObject:
    path = folder / key
    path.touch()
    return RemoteObject(path, bucket, bucket.head(key))


def download(objects: dict[int, RemoteObject], cache: TraceCache, first: tuple[int, ...] = ()) -> ObjectDownloads:
    downloads = ObjectDownloads(objects, cache, lambda: first)
    downloads.start()
    while not all(downloads.is_done(number) for number in objects):
        downloads.wait()
    downloads.close()
    return downloads


def test_ranges_make_the_object(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT})
    wanted = remote(bucket, "a", tmp_path)
    downloads = download({3: wanted}, cache)
    assert downloads.object(3) is wanted
    assert wanted.path.read_bytes() == CONTENT
    assert wanted.path.stat().st_mtime_ns == wanted.info.modified_ns
    assert sorted(bucket.reads) == [("a", at, min(at + 200_000, 1 << 20)) for at in range(0, 1 << 20, 200_000)]
    assert downloads.progress == (1 << 20, 1 << 20)
    assert downloads.is_done(7), "a file of this machine is there"


def test_what_is_in_the_cache_is_not_downloaded_again(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT})
    download({0: remote(bucket, "a", tmp_path)}, cache)
    bucket.reads.clear()
    again = remote(bucket, "a", tmp_path)
    download({0: again}, cache)
    assert bucket.reads == []
    assert again.path.read_bytes() == CONTENT


def test_a_connection_that_breaks_is_made_anew_where_it_broke(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT})
    bucket.breaks_after = 1 << 16
    wanted = remote(bucket, "a", tmp_path)
    download({0: wanted}, cache)
    assert wanted.path.read_bytes() == CONTENT
    assert ("a", 1 << 16, 200_000) in bucket.reads


def test_a_server_that_is_away_for_a_moment_is_asked_again(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT})

    def refuse(info: ObjectInfo) -> None:
        del info
        if len(bucket.reads) in (3, 4):
            raise RemoteError("no connection", reason="unreachable")

    bucket.before_read = refuse
    wanted = remote(bucket, "a", tmp_path)
    object_downloads.download_ranges(wanted, cache, [(0, 1000)], lambda: None)
    download({0: wanted}, cache)
    assert wanted.path.read_bytes() == CONTENT


def test_a_connection_that_breaks_at_once_each_time_is_given_up(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT[:5], "b": CONTENT})
    bucket.breaks_after = 0
    downloads = download({0: remote(bucket, "a", tmp_path)}, cache)
    with pytest.raises(RemoteError, match="the connection broke"):
        downloads.object(0)
    assert len(bucket.reads) == object_downloads.MAX_BREAKS + 1


def test_an_ended_download_is_resumed_by_the_next_one(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT})
    wanted = remote(bucket, "a", tmp_path)
    seen = list[int]()

    def stop_after_ten() -> None:
        seen.append(1)
        if len(seen) == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        object_downloads.download_ranges(wanted, cache, [(0, 1 << 20)], stop_after_ten)
    bucket.reads.clear()
    again = remote(bucket, "a", tmp_path)
    download({0: again}, cache)
    assert again.path.read_bytes() == CONTENT
    assert min(start for _, start, _ in bucket.reads) == 10 << 16


def test_an_object_that_changes_once_is_read_anew(tmp_path: Path, cache: TraceCache):
    bucket, changed = MemoryBucket({"a": CONTENT}), CONTENT[::-1]

    def change(info: ObjectInfo) -> None:
        del info
        if len(bucket.reads) == 3:
            bucket.objects["a"] = changed

    bucket.before_read = change
    wanted = remote(bucket, "a", tmp_path)
    before = wanted.version
    downloads = download({0: wanted}, cache)
    found = downloads.object(0)
    assert found is not None
    assert found.path.read_bytes() == changed
    assert found.version != before


def test_an_object_that_changes_all_the_time_is_refused(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT})

    def change(info: ObjectInfo) -> None:
        bucket.objects[info.key] += b"x"

    bucket.before_read = change
    downloads = download({0: remote(bucket, "a", tmp_path)}, cache)
    with pytest.raises(TracehoundError, match="the object changes while it is read; wait until it is written"):
        downloads.object(0)


def test_one_bad_object_does_not_end_the_others(tmp_path: Path, cache: TraceCache):
    bucket = MemoryBucket({"a": CONTENT, "b": CONTENT})
    objects = {0: remote(bucket, "a", tmp_path), 1: remote(bucket, "b", tmp_path)}
    del bucket.objects["a"]
    downloads = download(objects, cache)
    with pytest.raises(RemoteError, match="no such object"):
        downloads.object(0)
    assert objects[1].path.read_bytes() == CONTENT


def test_what_is_looked_at_first_comes_first(tmp_path: Path, cache: TraceCache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(object_downloads, "CONNECTIONS", 1)
    bucket = MemoryBucket(dict.fromkeys("abc", CONTENT))
    download({number: remote(bucket, key, tmp_path) for number, key in enumerate("abc")}, cache, first=(2,))
    assert list(dict.fromkeys(key for key, _, _ in bucket.reads)) == ["c", "a", "b"]


def test_servers_without_versions_are_never_taken_from_the_cache(tmp_path: Path):
    bucket = MemoryBucket({"a": CONTENT})
    info = ObjectInfo("a", len(CONTENT))
    one, other = RemoteObject(tmp_path / "a", bucket, info), RemoteObject(tmp_path / "a", bucket, info)
    assert one.version == one.version
    assert one.version != other.version


def test_a_full_disk_is_named(tmp_path: Path, cache: TraceCache, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    downloads = download({0: remote(MemoryBucket({"a": CONTENT}), "a", tmp_path)}, cache)
    with pytest.raises(TracehoundError, match="cannot be kept in the cache: no space left on device"):
        downloads.object(0)
