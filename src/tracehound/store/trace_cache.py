"""The cache of files that were read: their frames as Arrow, so that opening them again takes no time.

Each entry is a folder, made elsewhere and renamed into place, so that frames are always complete:

    ROOT/entries/KEY/           the frames of a file (see `saved_frames`), or an object of a bucket, whole or in part
                                (see `cached_object`)
    ROOT/sessions/NAME          locked while a process lives; lists the keys that it uses
    ROOT/work/NAME/             unfinished entries of that process

Leftovers of dead processes are removed by the next process that opens the cache. Several processes may share a cache. A
cache that cannot be written is treated as missing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from hashlib import blake2b
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.errors import TracehoundError, path_text
from tracehound.model.trace import FileFrames, FileState
from tracehound.store.saved_frames import DamagedFramesError, load_frames
from tracehound.system import user_dirs

CACHE_SCHEMA: Final = 61
"""Increase it whenever the content of frames, or the reading of a format, changes: older entries are then ignored."""

DEFAULT_LIMIT_BYTES: Final = 10 << 30
"""Default limit on the bytes of all entries."""

_FOLDER_NAMES: Final = ("entries", "sessions", "work")
SOURCE_FILE: Final = "source"
"""The file of an entry with the path or the URL that it was made from."""

OBJECT_FILE: Final = "data"
"""The file of an entry with an object of a bucket."""

_DEVICES_SUFFIX: Final = "\0devices"
_TEMPORARY_PREFIX: Final = "tracehound-"


class FileStamp(Struct, frozen=True, dict=True):
    """The state of a file when it was read, which differs after any change. `path` is as the user named it.

    `modified_ns` comes from the writer of the file and is kept by copies; `changed_ns` is the file system's own time.
    With `devices` the stamp stands for the device events of the file only. A downloaded object has an `etag`, which
    says more than the times of its local file.
    """

    path: Path
    size: int
    modified_ns: int
    changed_ns: int
    devices: bool = False
    etag: str = ""

    @cached_property
    def source(self) -> str:
        """The URL, or the path with its folder resolved. A link is not followed: its name may give a rank."""
        return path_text(self.path) if self.etag else str(_resolve_links(self.path.parent.absolute()) / self.path.name)

    @property
    def file_state(self) -> FileState:
        """The state that must be unchanged when something in the file is read again."""
        return FileState(self.size, self.modified_ns)

    @cached_property
    def entry_key(self) -> str:
        """The name of its cache entry."""
        times = self.etag or f"{self.modified_ns}\0{self.changed_ns}"
        state = f"{self.size}\0{times}{_DEVICES_SUFFIX * self.devices}"
        return _hash_text(f"{CACHE_SCHEMA}\0{self.source}\0{state}")


@lru_cache(64)
def _resolve_links(folder: Path) -> Path:
    """The folder without links, resolved once for its files: it takes longer than the rest of a key."""
    return folder.resolve()


def _hash_text(text: str) -> str:
    return blake2b(os.fsencode(text), digest_size=16).hexdigest()


def stamp_file(path: Path, *, devices: bool = False) -> FileStamp:
    """The stamp of the file as it is now. Raises TracehoundError if it is gone."""
    try:
        found = path.stat()
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path) from error
    return FileStamp(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, devices)


class CacheEntry(Struct, frozen=True):
    """A cache entry: path or URL of the file, bytes in the cache, and time of the last use (Unix, ns).

    With `is_object` it is the file itself, downloaded from the URL.
    """

    key: str
    source: str
    size: int
    used_ns: int
    is_object: bool = False


class TraceCache(Struct):
    """An open cache, made by `open_cache` or `open_temporary_cache`.

    `limit` is the largest number of bytes of all entries. A `temporary` cache is removed when it is closed. If it does
    not keep entries, files are read into it for one use. `grown` says that entries were added since the last trim.
    """

    root: Path
    limit: int
    temporary: bool
    _lock: FileIO
    keeps_entries: bool = True
    grown: bool = False
    _folder_numbers: Iterator[int] = field(default_factory=count)
    _used: dict[str, Path] = field(default_factory=dict)

    @property
    def _session_name(self) -> str:
        return Path(os.fsdecode(self._lock.name)).name

    def entry_folder(self, of: FileStamp) -> Path:
        """The folder of the file's entry, if there is one."""
        return self.root / "entries" / of.entry_key

    def has_entry(self, of: FileStamp) -> bool:
        """True if there is an entry for the file, damaged or not."""
        return self.entry_folder(of).is_dir()

    def load_entry(self, of: FileStamp) -> FileFrames | None:
        """The cached frames of the file; None if there are none, if they are damaged, or if they cannot be read now."""
        folder = self.entry_folder(of)
        if not folder.is_dir():
            return None
        self._mark_used(folder.name)
        try:
            part = load_frames(folder, of.path, of.file_state)
        except DamagedFramesError:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        except OSError:  # it may be sound, and others may be using it
            return None
        self._used[folder.name] = of.path
        with suppress(OSError):
            os.utime(folder)
        return part

    def remove_damaged(self) -> list[Path]:
        """Check the entries in use again and remove the damaged ones.

        Returns the files of the removed and missing entries.
        """
        return [path for key, path in self._used.items() if self._remove_if_damaged(self.root / "entries" / key, path)]

    def create_work_folder(self) -> Path:
        """A new empty folder for making an entry. Raises OSError."""
        folder = self.root / "work" / self._session_name / str(next(self._folder_numbers))
        folder.mkdir(parents=True, mode=0o700)
        return folder

    def add_entry(self, folder: Path, of: FileStamp) -> FileFrames:
        """Make an entry of a folder with saved frames; returns the frames in the cache.

        If another process was faster, its entry is used. Raises OSError and DamagedFramesError.
        """
        ours = self.add_folder(folder, of)
        return load_frames(self.entry_folder(of), of.path, of.file_state, fresh=ours)

    def add_folder(self, folder: Path, of: FileStamp) -> bool:
        """Make an entry of a folder with saved frames; False if another process was faster. Raises OSError."""
        (folder / SOURCE_FILE).write_text(of.source, "utf-8", "surrogateescape")
        final, ours = self.entry_folder(of), True
        self._mark_used(final.name)
        try:
            folder.rename(final)
        except OSError:
            if not final.is_dir():
                raise
            shutil.rmtree(folder, ignore_errors=True)
            ours = False
        self._used[final.name] = of.path
        self.grown = True
        if not of.devices and self.has_entry(devices := replace(of, devices=True)):
            self._remove_entry(devices.entry_key)
        return ours

    def open_object_folder(self, url: str, etag: str, size: int) -> Path:
        """The folder of an object of a bucket, in use by this process from now on; made if needed. Raises OSError."""
        key = _hash_text(f"object\0{url}\0{etag}\0{size}")
        final = self.root / "entries" / key
        self._mark_used(key)
        if not final.is_dir():
            folder = self.create_work_folder()
            (folder / SOURCE_FILE).write_text(url, "utf-8")
            try:
                folder.rename(final)
            except OSError:  # another process may have been faster
                shutil.rmtree(folder, ignore_errors=True)
                if not final.is_dir():
                    raise
            self.grown = True
        with suppress(OSError):
            os.utime(final)
        return final

    def list_entries(self) -> list[CacheEntry]:
        """All entries, the most recently used first."""
        found = [entry for folder in _list_folders(self.root / "entries") if (entry := _read_entry(folder)) is not None]
        return sorted(found, key=lambda entry: -entry.used_ns)

    def trim(self) -> None:
        """Remove the least recently used entries until the rest fits; entries in use stay."""
        self.grown = False
        total = 0
        for entry in self.list_entries():
            total += entry.size
            if total > self.limit and self._remove_entry(entry.key):
                total -= entry.size

    def clear(self) -> tuple[int, int]:
        """Remove all entries that are not in use; returns how many were removed and how many stayed."""
        gone = [self._remove_entry(entry.key) for entry in self.list_entries()]
        return sum(gone), len(gone) - sum(gone)

    def close(self) -> None:
        """End the session of this process, and remove its unfinished entries."""
        shutil.rmtree(self.root / "work" / self._session_name, ignore_errors=True)
        with suppress(OSError):
            (self.root / "sessions" / self._session_name).unlink()
        self._lock.close()
        if self.temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    def _remove_if_damaged(self, folder: Path, path: Path) -> bool:
        """Remove the entry of a file if it is damaged or gone; True then. An entry that cannot be read now stays."""
        try:
            with suppress(OSError):
                load_frames(folder, path)
        except DamagedFramesError:
            shutil.rmtree(folder, ignore_errors=True)
            return True
        return False

    def _mark_used(self, key: str) -> None:
        with suppress(OSError):
            self._lock.write(f"{key}\n".encode())

    def _remove_entry(self, key: str) -> bool:
        """Remove an entry unless it is in use; True if it is gone.

        The entry is first moved away, so that nobody finds half of it. It is moved back if a process has marked it as
        used meanwhile; a process that marks it later no longer finds it.
        """
        folder = self.root / "entries" / key
        if key not in self._keys_in_use():
            with suppress(OSError):
                bench = self.create_work_folder()
                try:
                    folder.rename(bench / key)
                    if key in self._keys_in_use():
                        (bench / key).rename(folder)
                finally:
                    shutil.rmtree(bench, ignore_errors=True)
        return not folder.exists()

    def _keys_in_use(self) -> set[str]:
        """The keys that living processes use."""
        keys: set[str] = set()
        for file in _list_files(self.root / "sessions"):
            with suppress(OSError):
                keys.update(file.read_text("ascii", "replace").split())
        return keys

    def remove_leftovers(self) -> None:
        """Remove the files of dead processes."""
        for file in _list_files(self.root / "sessions"):
            with suppress(OSError), file.open("r+b") as left:  # NFS needs a file open for writing for an exclusive lock
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self.root / "work" / file.name, ignore_errors=True)
                file.unlink()


def default_root() -> Path:
    """The default folder of the cache: TRACEHOUND_CACHE, else a folder by the XDG base directories.

    Raises FileNotFoundError without a home directory.
    """
    said = os.environ.get("TRACEHOUND_CACHE")
    if said:
        return Path(os.path.expanduser(said))  # noqa: PTH111, pathlib raises for an unknown user
    own = user_dirs.xdg_dir("XDG_CACHE_HOME", ".cache")
    if own is None:
        raise FileNotFoundError(errno.ENOENT, "there is no home directory")
    return own / "tracehound"


def open_cache(root: Path, limit: int = DEFAULT_LIMIT_BYTES) -> TraceCache:
    """The cache at `root`, created if needed, readable by its owner only. Raises OSError if it cannot be used."""
    root = root.absolute()  # links to downloads work from any folder
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in _FOLDER_NAMES:
        folder = root / name
        folder.mkdir(exist_ok=True, mode=0o700)
        owned = folder.lstat()
        if owned.st_uid != os.geteuid() or owned.st_mode & 0o077:
            raise PermissionError(errno.EACCES, "it is open to others", str(folder))
    cache = TraceCache(root, limit, temporary=False, _lock=_create_session_lock(root / "sessions"))
    cache.remove_leftovers()
    return cache


def open_existing_cache(root: Path) -> TraceCache | None:
    """The cache at `root`; None if there is none yet, without creating it. Raises OSError if there can be none."""
    if root.exists() and not root.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))
    return open_cache(root) if (root / "entries").is_dir() else None


def _create_session_lock(folder: Path) -> FileIO:
    """A new file in the folder, locked as long as this process lives."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=folder)
        os.close(handle)
        lock = FileIO(name, "a")
        with suppress(OSError):  # without locks, living processes are unknown and nothing is removed
            fcntl.flock(lock, fcntl.LOCK_EX)
        if Path(name).exists():  # else another process removed it before it was locked
            return lock
        lock.close()


def open_temporary_cache() -> TraceCache:
    """A cache for this process only, in the folder for temporary files; removed when it is closed. Raises OSError."""
    _remove_dead_temporary_caches()
    return replace(open_cache(Path(tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX))), temporary=True, keeps_entries=False)


def open_private_cache() -> TraceCache:
    """A cache like a temporary one, whose entries are found again by this process. Raises OSError."""
    return replace(open_temporary_cache(), keeps_entries=True)


def _remove_dead_temporary_caches() -> None:
    """Remove the temporary caches of this user whose process was killed: they may take gigabytes."""
    for root in _list_folders(Path(tempfile.gettempdir())):
        with suppress(OSError):
            if (
                root.name.startswith(_TEMPORARY_PREFIX)
                and root.lstat().st_uid == os.geteuid()
                and not root.is_symlink()
            ):
                for left in [file for file in _list_files(root / "sessions") if (root / "work" / file.name).is_dir()]:
                    with left.open(
                        "r+b"
                    ) as lock:  # with a work folder it was locked before, so it is not just starting
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(root, ignore_errors=True)


def _read_entry(folder: Path) -> CacheEntry | None:
    """The entry in a folder; None if it is just being removed."""
    try:
        with os.scandir(folder) as files:
            size = sum(_size_on_disk(file.stat()) for file in files)
        source = (folder / SOURCE_FILE).read_text("utf-8", "surrogateescape")
        return CacheEntry(folder.name, source, size, folder.stat().st_mtime_ns, (folder / OBJECT_FILE).exists())
    except OSError:
        return None


def _size_on_disk(found: os.stat_result) -> int:
    """The bytes of a file that take room: an object that is downloaded in part has holes."""
    return min(found.st_size, found.st_blocks * 512)


def _list_folders(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (child for child in folder.iterdir() if child.is_dir())


def _list_files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (child for child in folder.iterdir() if child.is_file())
