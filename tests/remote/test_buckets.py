"""Buckets of the three clouds, in emulators: everything that a store does, the same everywhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bucket_emulators import Emulator
from tracehound.remote.object_info import AccessOptions, ObjectInfo
from tracehound.remote.object_url import parse_url
from tracehound.remote.remote_error import RemoteError
from tracehound.remote.remote_store import RemoteStore, open_store

pytestmark = pytest.mark.thorough

BIG = bytes(range(256)) * 20_000

OBJECTS = {
    "runs/a.json": b"12345",
    "runs/big.bin": BIG,
    "runs/odd/a b#c?d%2F+~[x].json": b"odd",
    "runs/odd/ünï.json": b"letters",
    "runs/sub/deep/x.json": b"{}",
    "runsother/y.json": b"{}",
    "top.json": b"top",
}


@pytest.fixture(scope="module", params=["s3", "gcs", "azure"])
def emulator(request: pytest.FixtureRequest) -> Emulator:
    """One of the clouds, with a bucket `traces`."""
    pytest.importorskip("obstore", reason="obstore is not installed (extra `buckets`)")
    started: Emulator = request.getfixturevalue(request.param)
    started.fill("traces", OBJECTS)
    return started


def open_bucket(emulator: Emulator, bucket: str = "traces", **access: bool) -> RemoteStore:
    return open_store(parse_url(f"{emulator.scheme}://{bucket}"), AccessOptions(**access), emulator.environ)


def failure(request: Any) -> RemoteError:
    with pytest.raises(RemoteError) as raised:
        request()
    assert "\n" not in str(raised.value)
    return raised.value


def test_listings(emulator: Emulator, bare_user: Path) -> None:
    del bare_user
    store = open_bucket(emulator)
    everything = [info for page in store.list_objects("") for info in page]
    assert {info.key: info.size for info in everything} == {key: len(content) for key, content in OBJECTS.items()}
    for prefix in ("runs", "runs/"):
        keys = {info.key for page in store.list_objects(prefix) for info in page}
        assert keys == {key for key in OBJECTS if key.startswith("runs/")}
        folders, objects = store.list_folder(prefix)
        assert sorted(folders) == ["runs/odd/", "runs/sub/"]
        assert {info.key for info in objects} == {"runs/a.json", "runs/big.bin"}
    folders, objects = store.list_folder("")
    assert (sorted(folders), [info.key for info in objects]) == (["runs/", "runsother/"], ["top.json"])
    assert [info for page in store.list_objects("nothing/") for info in page] == []
    assert store.list_folder("nothing/") == ([], [])


@pytest.mark.parametrize("key", list(OBJECTS))
def test_an_object_is_found_and_read(emulator: Emulator, bare_user: Path, key: str) -> None:
    del bare_user
    store = open_bucket(emulator)
    info = store.head(key)
    assert (info.key, info.size) == (key, len(OBJECTS[key]))
    assert info.etag.startswith('"')
    assert info.modified_ns > 1_700_000_000_000_000_000
    assert b"".join(store.read_range(info, 0, info.size)) == OBJECTS[key]
    assert b"".join(store.read_range(info, 1, 3)) == OBJECTS[key][1:3]
    assert b"".join(store.read_range(info, info.size - 1, info.size + 9)) == OBJECTS[key][-1:]
    assert list(store.read_range(info, 2, 2)) == []


def test_a_listing_and_a_head_agree(emulator: Emulator, bare_user: Path) -> None:
    del bare_user
    store = open_bucket(emulator)
    (listed,) = (info for info in store.list_folder("runs")[1] if info.key == "runs/big.bin")
    assert listed == store.head("runs/big.bin")
    pieces = list(store.read_range(listed, 0, listed.size))
    assert b"".join(pieces) == BIG
    assert len(pieces) >= 4


def test_an_object_that_changed_is_not_read_on(emulator: Emulator, bare_user: Path) -> None:
    del bare_user
    store = open_bucket(emulator)
    emulator.put("traces", "changing.json", b"before")
    before = store.head("changing.json")
    emulator.put("traces", "changing.json", b"after")
    error = failure(lambda: list(store.read_range(before, 0, 3)))
    assert error.reason == "changed"
    assert str(error).endswith("changing.json: the object changed while it was read; read it again")
    emulator.put("traces", "changing.json", b"")
    assert failure(lambda: list(store.read_range(before, 0, 3))).reason == "changed"


@pytest.mark.parametrize("size", [0, 3, 20 << 20])
def test_a_file_is_uploaded(emulator: Emulator, bare_user: Path, tmp_path: Path, size: int) -> None:
    del bare_user
    (tmp_path / "file").write_bytes(bytes(size))
    store = open_bucket(emulator)
    store.write_file("written/a b.bin", tmp_path / "file")
    info = store.head("written/a b.bin")
    assert info.size == size
    assert sum(len(piece) for piece in store.read_range(info, 0, size)) == size
    with pytest.raises(FileNotFoundError):
        store.write_file("written/nothing", tmp_path / "nothing")


def test_no_such_object(emulator: Emulator, bare_user: Path) -> None:
    del bare_user
    store = open_bucket(emulator)
    error = failure(lambda: store.head("runs/nope.json"))
    assert error.reason == "no_object"
    assert str(error).endswith("traces/runs/nope.json: no such object")
    gone = ObjectInfo("runs/nope.json", 10)
    assert failure(lambda: list(store.read_range(gone, 0, 10))).reason == "no_object"


def test_no_such_bucket(emulator: Emulator, bare_user: Path, tmp_path: Path) -> None:
    del bare_user
    (tmp_path / "file").write_bytes(b"x")
    store = open_bucket(emulator, "missing")
    host = emulator.address.partition("://")[2].partition("/")[0]
    kind = "container" if emulator.scheme == "az" else "bucket"
    assert failure(lambda: store.write_file("x", tmp_path / "file")).reason == "no_bucket"
    if emulator.scheme == "gs":
        return  # the emulator says of other requests that it failed
    for request in (lambda: list(store.list_objects("")), lambda: store.list_folder("runs"), lambda: store.head("x")):
        error = failure(request)
        assert error.reason == "no_bucket"
        assert str(error) == f"{emulator.scheme}://missing: no such {kind} at {host}"


def test_keys_that_obstore_does_not_read(emulator: Emulator, bare_user: Path) -> None:
    del bare_user
    error = failure(lambda: open_bucket(emulator).head("a//b"))
    assert error.reason == "refused"
    assert str(error).endswith(
        "a key with an empty part (//) is there, which is not read: name a folder or an object without it"
    )


def test_a_store_shows_no_secret(emulator: Emulator, bare_user: Path) -> None:
    del bare_user
    shown = repr(open_bucket(emulator))
    assert "testing" not in shown
    assert "Eby8" not in shown


def test_a_listing_of_s3_goes_on_after_its_first_page(s3: Emulator, bare_user: Path, tmp_path: Path) -> None:
    del bare_user
    pytest.importorskip("obstore", reason="obstore is not installed (extra `buckets`)")
    s3.make_bucket("many")
    (tmp_path / "file").write_bytes(b"{}")
    store = open_bucket(s3, "many")
    keys = {f"runs/rank_{number:05}.json" for number in range(1_100)}
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda key: store.write_file(key, tmp_path / "file"), keys))
    assert {info.key for page in store.list_objects("runs/") for info in page} == keys
