"""The cache: what it gives back, whom it lets in, and what dead processes leave."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copy, rmtree
from typing import IO

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from building import Building
from samples import NAMES
from short import first, some
from tracehound.cli.main import main
from tracehound.errors import TracehoundError
from tracehound.formats import detect_format
from tracehound.model.file_facts import (
    DeviceProperties,
    ExportedWindow,
    FileFacts,
    HloProgram,
    NoDeviceWork,
    PlaneStats,
    ProcessGroup,
)
from tracehound.model.trace import FileFrames
from tracehound.store import load_trace, make_read_context, open_trace_files
from tracehound.store import trace_cache as caches
from tracehound.store.saved_frames import FEW_ROWS_FILE, decode_places, save_frames
from tracehound.store.saved_frames import load_frames as read_back
from tracehound.store.trace_cache import TraceCache, open_cache, open_temporary_cache, stamp_file

COMMAND = [sys.executable, "-m", "tracehound"]


def trace_file(samples: Path) -> Path:
    return next((samples / "torch_ddp_gloo").glob("*.json*"))


def kept(cache: TraceCache, path: Path) -> FileFrames:
    """The file, read and put into the cache."""
    part = detect_format(path).read(path)
    folder = cache.create_work_folder()
    save_frames(part, folder)
    return cache.add_entry(folder, stamp_file(path))


def folders(root: Path) -> list[str]:
    return sorted(child.name for child in (root / "entries").iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.mark.parametrize("sample", some(NAMES, ("torch_ddp_gloo", "torch_xla_single")))
def test_a_part_comes_back_as_it_was(root: Path, samples: Path, sample: str) -> None:
    cache = open_cache(root)
    files = [path for path in sorted((samples / sample).rglob("*")) if path.suffix in (".gz", ".pb", ".json")]
    assert files
    for path in files:
        read = detect_format(path).read(path)
        kept(cache, path)
        back = cache.load_entry(stamp_file(path))
        assert back is not None
        assert_frame_equal(back.events, read.events, categorical_as_str=True)
        for name in ("lanes", "ranks", "steps", "ops"):
            assert_frame_equal(getattr(back, name), getattr(read, name))
        assert (back.path, back.format, back.hosts, back.wall_ns) == (read.path, read.format, read.hosts, read.wall_ns)
        assert back.notes == read.notes
        assert back.facts == read.facts
        records = read.events["record"].drop_nulls().gather_every(101).to_list()
        reader = detect_format(path).reader
        opened_again = decode_places(back, reader.places)
        assert [reader.args(opened_again, at) for at in records] == [reader.args(read, at) for at in records]
    cache.close()


def test_all_facts_come_back_as_they_were(tmp_path: Path) -> None:
    facts = FileFacts(
        versions={"jax_version": "0.10"},
        exported_window=ExportedWindow(-(2**63) + 1, None),
        rank=3,
        world_size=2**63 - 1,
        backend="nccl",
        groups=(ProcessGroup("0", (0, 3)),),
        machine="node1",
        devices=(DeviceProperties(0, "NVIDIA X", 132, 2048, 1 << 36, 9, 32, '{"id":0}'),),
        span_ns=(2**63, 5),
        modules=False,
        host_only=NoDeviceWork("launches", "CUDA", allocates=("GPU",), foreign=1, unread=2, severed=True),
        planes={"/device:TPU:0": PlaneStats(peak_teraflops_per_second=918.0, compute_cap_major=9)},
        programs=(HloProgram("jit_f", -5, 7, 9, 2, 4, damaged=True),),
    )
    save_frames(Building(facts=facts).part(), tmp_path)
    assert read_back(tmp_path, Path("built.json")).facts == facts


@pytest.mark.parametrize("sample", first(1, ("torch_ddp_gloo", "jax_cpu8_b128")))
def test_a_report_from_the_cache_is_the_same(
    sample: str, root: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for _ in range(2):
        assert main(["summary", "--cache", str(root), "--format", "json", str(samples / sample)]) == 0
        said.append(capsys.readouterr())
    assert folders(root)
    assert said[0] == said[1]


def test_nothing_is_left_of_looking_for_an_entry_that_is_gone(root: Path, samples: Path) -> None:
    cache = open_cache(root)
    kept(cache, trace_file(samples))
    assert not [*(root / "work").glob("*/*")]
    cache.close()


def test_a_file_that_changed_is_another(root: Path, samples: Path, tmp_path: Path) -> None:
    path = Path(copy(trace_file(samples), tmp_path / "t.json.gz"))
    cache = open_cache(root)
    kept(cache, path)
    assert cache.load_entry(stamp_file(path)) is not None
    os.utime(path, ns=(0, stamp_file(path).modified_ns + 1))
    assert cache.load_entry(stamp_file(path)) is None
    kept(cache, path)
    with path.open("ab") as file:
        file.write(b"\0")
    os.utime(path, ns=(0, 5))
    assert cache.load_entry(stamp_file(path)) is None
    kept(cache, path)
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(0, 5))
    assert cache.load_entry(stamp_file(path)) is None, "it may hold anything of that size by now"
    cache.close()
    with pytest.raises(TracehoundError, match="no such file"):
        stamp_file(tmp_path / "gone.json")


def test_a_file_is_one_however_its_folder_is_spelt(
    root: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    path = folder / "rank0.json"
    copy(trace_file(samples), path)
    (tmp_path / "latest").symlink_to(folder)
    (folder / "rank1.json").symlink_to(path)
    monkeypatch.chdir(folder)
    spelt = [path, Path("rank0.json"), Path("../runs/rank0.json"), tmp_path / "latest" / "rank0.json"]
    cache = open_cache(root)
    assert cache is not None
    kept(cache, path)
    assert all((found := cache.load_entry(stamp_file(one))) is not None and found.path == one for one in spelt)
    assert not cache.has_entry(stamp_file(folder / "rank1.json"))
    cache.close()


def test_another_schema_is_another_entry(root: Path, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = trace_file(samples), open_cache(root)
    kept(cache, path)
    monkeypatch.setattr(caches, "CACHE_SCHEMA", caches.CACHE_SCHEMA + 1)
    assert cache.load_entry(stamp_file(path)) is None
    cache.close()


def test_nobody_else_may_look(root: Path) -> None:
    open_cache(root).close()
    for folder in (root, *root.iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (root / "entries").chmod(0o777)
    with pytest.raises(PermissionError):
        open_cache(root)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def zero_tail(file: Path) -> None:
    """What a disk may hold after a power cut."""
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 3 // 4].ljust(len(content), b"\0"))


def flipped(at: float) -> Callable[[Path], None]:
    """One bit, at a place between the start of the file (0) and its end (1)."""

    def damage(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[round(at * (len(content) - 1))] ^= 1
        file.write_bytes(content)

    return damage


@pytest.mark.parametrize("name", ["head.msgpack", FEW_ROWS_FILE])
@pytest.mark.parametrize(
    "damage", first(3, (Path.unlink, zero_tail, flipped(0.5), cut, *map(flipped, (0, 1, 0.02, 0.98)), emptied))
)
def test_a_damaged_entry_is_read_again(
    root: Path, samples: Path, name: str, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["report", "--cache", str(root), str(trace_file(samples)), "ops", "--format", "csv"]
    assert main(asked) == 0
    before = capsys.readouterr()
    (entry,) = folders(root)
    for table in (root / "entries" / entry).glob("table-*"):
        table.unlink()
    damage(root / "entries" / entry / name)
    assert main(asked) == 0
    assert capsys.readouterr() == before
    cache = open_cache(root)
    assert cache.load_entry(stamp_file(trace_file(samples))) is not None
    cache.close()


def removed(file: Path) -> None:
    rmtree(file.parent)


@pytest.mark.parametrize("damage", [zero_tail, emptied, removed])
def test_an_entry_damaged_in_use_is_removed(damage: Callable[[Path], object], root: Path, samples: Path) -> None:
    path = trace_file(samples)
    with make_read_context(1, partial(open_cache, root)) as shop:
        load_trace(open_trace_files([path], None, shop))

    def looked_at() -> pl.DataFrame:
        with make_read_context(1, partial(open_cache, root)) as shop:
            trace = load_trace(open_trace_files([path], None, shop))
            damage(root / "entries" / stamp_file(path).entry_key / FEW_ROWS_FILE)
            return trace.events().collect()

    with pytest.raises(TracehoundError, match=f"{path.name}.*damaged, and is removed; run again"):
        looked_at()
    assert folders(root) == []


@pytest.mark.parametrize("number", first(2, (errno.EMFILE, errno.ESTALE, errno.EIO, errno.EACCES)))
def test_what_cannot_be_read_now_is_left_for_others(
    number: int, root: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace_file(samples)
    first, second = open_cache(root), open_cache(root)
    kept(first, path)
    read = Path.read_bytes

    def failing(file: Path) -> bytes:
        if root in file.parents:
            raise OSError(number, os.strerror(number), str(file))
        return read(file)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", failing)
        assert second.load_entry(stamp_file(path)) is None
        assert first.remove_damaged() == []
        with make_read_context(1, partial(open_cache, root)) as shop:
            assert load_trace(open_trace_files([path], None, shop)).events().collect().height
        assert any(os.strerror(number).lower() in trouble for trouble in shop.failures), "kept elsewhere meanwhile"
    assert folders(root) == [stamp_file(path).entry_key]
    assert second.load_entry(stamp_file(path)) is not None
    first.close()
    second.close()


def test_an_error_of_another_kind_is_not_the_caches(root: Path, samples: Path) -> None:
    def fail() -> None:
        with make_read_context(1, partial(open_cache, root)) as shop:
            load_trace(open_trace_files([trace_file(samples)], None, shop))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert folders(root)


def test_the_last_used_stay(root: Path, samples: Path, tmp_path: Path) -> None:
    paths = [Path(copy(trace_file(samples), tmp_path / f"{n}.json.gz")) for n in range(4)]
    first = open_cache(root)
    for age, path in enumerate(paths):
        kept(first, path)
        os.utime(root / "entries" / stamp_file(path).entry_key, ns=(0, (10 - age) * 10**9))
    assert [entry.source for entry in first.list_entries()] == [str(path) for path in paths]
    size = first.list_entries()[0].size
    second = open_cache(root, limit=2 * size + 1)
    second.trim()
    assert len(folders(root)) == 4, "another living process uses them"
    first.close()
    second.load_entry(stamp_file(paths[3]))
    second.trim()
    assert folders(root) == sorted(stamp_file(path).entry_key for path in (paths[0], paths[3])), (
        "the last used, and the one in use"
    )
    assert second.clear() == (1, 1)
    assert folders(root) == [stamp_file(paths[3]).entry_key]
    second.close()


def test_what_is_read_pushes_out_what_was_read_before(root: Path, samples: Path, tmp_path: Path) -> None:
    old, new = (Path(copy(trace_file(samples), tmp_path / f"{name}.json.gz")) for name in ("old", "new"))
    for path in (old, new):
        with make_read_context(1, partial(open_cache, root, limit=1)) as shop:
            load_trace(open_trace_files([path], None, shop))
            assert folders(root) == [stamp_file(path).entry_key], "one that is in use stays"


def test_a_trace_that_is_kept_opens_without_a_look_at_all_others(
    root: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for look in (TraceCache.list_entries, None):
        with make_read_context(1, partial(open_cache, root)) as shop:
            monkeypatch.setattr(TraceCache, "list_entries", look)
            load_trace(open_trace_files([trace_file(samples)], None, shop))


@pytest.mark.parametrize("between", ["list_entries", "create_work_folder"])
@pytest.mark.parametrize("action", [TraceCache.trim, TraceCache.clear])
def test_an_entry_that_another_begins_to_use_stays(
    action: Callable[[TraceCache], object], between: str, root: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace_file(samples)
    maker = open_cache(root)
    kept(maker, path)
    maker.close()
    first, second, parts = open_cache(root, limit=1), open_cache(root), list[FileFrames | None]()
    then = getattr(TraceCache, between)

    def meanwhile(cache: TraceCache) -> object:
        parts.append(second.load_entry(stamp_file(path)))
        return then(cache)

    with monkeypatch.context() as patch:
        patch.setattr(TraceCache, between, meanwhile)
        assert action(first) in (None, (0, 1))
    assert folders(root) == [stamp_file(path).entry_key]
    assert parts[0] is not None
    assert parts[0].events.height
    second.close()
    first.clear()
    assert folders(root) == []
    first.close()


@pytest.fixture(params=some(("local", "nfs"), ("nfs",)))
def locking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks as each kind of file system has them: NFS refuses an exclusive one on what is open only for reading."""
    local = fcntl.flock

    def nfs(file: IO[bytes], operation: int) -> None:
        if operation & fcntl.LOCK_EX and fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        local(file, operation)

    if request.param == "nfs":
        monkeypatch.setattr(fcntl, "flock", nfs)


@pytest.mark.usefixtures("locking")
def test_what_a_killed_process_left_is_swept(root: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from tracehound.store.trace_cache import open_cache\n"
        "cache = open_cache(Path(sys.argv[1]))\n"
        "folder = cache.create_work_folder(); (folder / 'events.arrow').write_bytes(bytes(1000))\n"
        "print('here', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(root)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"here\n"
        open_cache(root).close()
        assert list((root / "work").iterdir()), "it lives"
        other.kill()
    open_cache(root).close()
    assert not list((root / "work").iterdir())
    assert not list((root / "sessions").iterdir())


@pytest.mark.usefixtures("locking")
def test_what_a_killed_process_left_among_temporary_files_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import time; from tracehound.store.trace_cache import open_temporary_cache\n"
        "cache = open_temporary_cache(); (cache.create_work_folder() / 'events.arrow').write_bytes(bytes(1000))\n"
        "print(cache.root, flush=True); time.sleep(60)"
    )
    somebody = tmp_path / "tracehound-notes"
    somebody.mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        left = Path(os.fsdecode(other.stdout.readline().strip()))
        open_temporary_cache().close()
        assert left.is_dir(), "it lives"
        other.kill()
    open_temporary_cache().close()
    assert list(tmp_path.iterdir()) == [somebody]


@pytest.mark.thorough
def test_several_processes_share_it(root: Path, samples: Path) -> None:
    asked = [*COMMAND, "report", "--cache", str(root), str(samples / "torch_ddp_gloo"), "overview", "--format", "csv"]
    running = [subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    said = {process.communicate(timeout=600) for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(said) == 1
    assert len(folders(root)) == len(list((samples / "torch_ddp_gloo").glob("*.json*")))
    assert not list((root / "work").iterdir())


@pytest.mark.thorough
def test_killed_at_any_time_it_is_sound(root: Path, samples: Path) -> None:
    asked = [*COMMAND, "report", "--cache", str(root), str(samples / "torch_stacks"), "ops", "--format", "csv"]
    whole = subprocess.run([*asked[:4], "--no-cache", *asked[6:]], capture_output=True, check=True).stdout
    for wait in (0.3, 0.5, 0.7):
        with subprocess.Popen(asked, stdout=subprocess.DEVNULL) as process:
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
    assert subprocess.run(asked, capture_output=True, check=True).stdout == whole


def test_a_place_that_is_none_costs_only_speed(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    asked = ["report", str(trace_file(samples)), "ops", "--format", "csv"]
    said = []
    for where in (["--no-cache"], ["--cache", str(tmp_path / "file")], ["--cache", str(tmp_path / "file" / "below")]):
        assert main([*asked, *where]) == 0
        said.append(capsys.readouterr().out)
    assert len(set(said)) == 1
    assert main(["report", str(trace_file(samples)), "health", "--cache", str(tmp_path / "file")]) == 0
    assert "not cached: file exists (" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_full_disk_costs_only_speed(root: Path, samples: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    asked = [*COMMAND, "report", "--cache", str(root), str(samples / "torch_stacks"), "ops", "--format", "csv"]
    full = subprocess.run(asked, capture_output=True, check=False, preexec_fn=limit)
    free = subprocess.run(asked, capture_output=True, check=True)
    assert (full.returncode, full.stdout) == (0, free.stdout)


def test_without_a_cache_none_is_made(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TRACEHOUND_CACHE", str(tmp_path / "kept"))
    assert main(["report", "--no-cache", str(trace_file(samples)), "ops"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_no_cache_leaves_nothing(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TRACEHOUND_CACHE", str(tmp_path / "kept"))
    done = subprocess.run(
        [*COMMAND, "summary", "--no-cache", str(samples / "torch_ddp_gloo")], check=True, capture_output=True
    )
    assert done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_command_lists_and_clears(root: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace_file(samples)
    with make_read_context(1, lambda: open_cache(root)) as shop:
        assert load_trace(open_trace_files([path], None, shop)).events().select(pl.len()).collect().item()
    assert main(["cache", "list", "--cache", str(root)]) == 0
    listed = capsys.readouterr().out
    assert str(path) in listed
    assert "1 entries" not in listed
    assert main(["cache", "clear", "--cache", str(root)]) == 0
    assert "1 entry removed" in capsys.readouterr().err
    assert main(["cache", "list", "--cache", str(root)]) == 0
    assert capsys.readouterr().out.startswith("0 entries")


@pytest.mark.parametrize("action", ["list", "clear"])
def test_the_command_makes_no_cache(action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", action, "--cache", str(tmp_path / "nope")]) == 0
    assert main(["cache", action, "--cache", str(tmp_path)]) == 0
    assert "0 entries" in "".join(capsys.readouterr())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert main(["cache", action, "--cache", str(tmp_path / "file")]) == 2
    assert "no cache here: not a directory" in capsys.readouterr().err


def test_the_place_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRACEHOUND_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert caches.default_root() == tmp_path / ".cache" / "tracehound"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert caches.default_root() == tmp_path / "x" / "tracehound"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert caches.default_root() == tmp_path / ".cache" / "tracehound", "as the standard says"
    monkeypatch.setenv("TRACEHOUND_CACHE", "~/kept")
    assert caches.default_root() == tmp_path / "kept"
