"""Files that were read once, kept as Arrow so that opening them again takes no time.

Owns the cache folder: where it is, what an entry is called, which entries are in use, and which go when there are too
many. An entry is a folder of its own, made beside and renamed into place, so that it is there whole or not at all.

    ROOT/entries/KEY/           a part (see `head`)
    ROOT/sessions/NAME          locked while a process lives; lists the keys that it uses
    ROOT/work/NAME/             what that process is making

What belongs to a process that has died is removed by the next one that opens the cache. Several processes may share a
cache; a cache that cannot be written is one that is not there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound import home
from tracehound.errors import TracehoundError
from tracehound.store.head import DamagedError, load
from tracehound.trace import FileState, Part

SCHEMA: Final = 51
"""Raised whenever what a part holds, or how a format is read, changes: older entries are not found any more."""

LIMIT: Final = 10 << 30
"""Bytes that the entries may take when the user says nothing."""

_FOLDERS: Final = ("entries", "sessions", "work")
_SOURCE: Final = "source"
_DEVICES: Final = "\0devices"
_TEMPORARY: Final = "tracehound-"


class Stamp(Struct, frozen=True):
    """A file as it was when it was read: what changes when the file does. `path` is as the user named it.

    `modified_ns` is said by whoever wrote the file, as copies keep it; `changed_ns` is the file system's own. With
    `devices` it stands for what devices did in it, without what hosts did.
    """

    path: Path
    size: int
    modified_ns: int
    changed_ns: int
    devices: bool = False

    @property
    def place(self) -> Path:
        """Where it lies, however its folder is spelt. A link to a file is one of its own: names tell ranks."""
        return self.path.parent.resolve() / self.path.name

    @property
    def state(self) -> FileState:
        """By which the file is known again when something in it is read once more."""
        return FileState(self.size, self.modified_ns)

    @property
    def key(self) -> str:
        """The name of its entry."""
        said = f"{SCHEMA}\0{self.place}\0{self.size}\0{self.modified_ns}\0{self.changed_ns}{_DEVICES * self.devices}"
        return blake2b(os.fsencode(said), digest_size=16).hexdigest()


def stamp(path: Path, *, devices: bool = False) -> Stamp:
    """The file as it is now. Raises TracehoundError where it is gone."""
    try:
        found = path.stat()
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path) from error
    return Stamp(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, devices)


class Entry(Struct, frozen=True):
    """What the cache holds of one file: the file's path, bytes in the cache, and when it was last used (Unix, ns)."""

    key: str
    source: str
    size: int
    used_ns: int


class Cache(Struct):
    """An open cache, made by `opened` or `temporary`.

    `limit` is the most bytes that entries take; a `fleeting` one is removed when it is closed. It has `grown` while
    something was kept that may be too much.
    """

    root: Path
    limit: int
    fleeting: bool
    _lock: FileIO
    grown: bool = False
    _made: int = 0
    _used: dict[str, Path] = field(default_factory=dict)

    @property
    def _session(self) -> str:
        return Path(os.fsdecode(self._lock.name)).name

    def has(self, of: Stamp) -> bool:
        """Whether there is an entry of the file, sound or not."""
        return (self.root / "entries" / of.key).is_dir()

    def part(self, of: Stamp) -> Part | None:
        """What the cache holds of the file; None where that is nothing, nothing sound, or cannot be read now."""
        if not self.has(of):
            return None
        folder = self.root / "entries" / of.key
        self._use(of.key)
        try:
            part = load(folder, of.path, of.state)
        except DamagedError:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        except OSError:  # nothing is known of what cannot be read now, and others may be using it
            return None
        self._used[of.key] = of.path
        with suppress(OSError):
            os.utime(folder)
        return part

    def distrust(self) -> list[Path]:
        """Look at the entries in use once more and remove those that were damaged since.

        The files that those, and the ones that are gone, were of.
        """
        return [path for key, path in self._used.items() if self._damaged(self.root / "entries" / key, path)]

    def bench(self) -> Path:
        """A new empty folder to make an entry in. Raises OSError."""
        self._made += 1
        folder = self.root / "work" / self._session / str(self._made)
        folder.mkdir(parents=True, mode=0o700)
        return folder

    def keep(self, folder: Path, of: Stamp) -> Part:
        """Make an entry of a folder with a saved part; the part as it lies in the cache.

        Raises OSError and DamagedError. Where another process was faster, its entry counts.
        """
        (folder / _SOURCE).write_text(str(of.place), "utf-8", "surrogateescape")
        final, ours = self.root / "entries" / of.key, True
        self._use(of.key)
        try:
            folder.rename(final)
        except OSError:
            if not final.is_dir():
                raise
            shutil.rmtree(folder, ignore_errors=True)
            ours = False
        part = load(final, of.path, of.state, fresh=ours)
        self._used[of.key] = of.path
        self.grown = True
        if not of.devices:
            self._remove(replace(of, devices=True).key)
        return part

    def entries(self) -> list[Entry]:
        """What the cache holds, the last used first."""
        found = [entry for folder in _folders(self.root / "entries") if (entry := _entry(folder)) is not None]
        return sorted(found, key=lambda entry: -entry.used_ns)

    def trim(self) -> None:
        """Remove the entries that were not used for longest until the rest fits; those in use stay."""
        self.grown = False
        total = 0
        for entry in self.entries():
            total += entry.size
            if total > self.limit and self._remove(entry.key):
                total -= entry.size

    def clear(self) -> tuple[int, int]:
        """Remove all entries but those in use; how many went, and how many stayed."""
        gone = [self._remove(entry.key) for entry in self.entries()]
        return sum(gone), len(gone) - sum(gone)

    def close(self) -> None:
        """Nothing here is in use by this process any more."""
        shutil.rmtree(self.root / "work" / self._session, ignore_errors=True)
        with suppress(OSError):
            (self.root / "sessions" / self._session).unlink()
        self._lock.close()
        if self.fleeting:
            shutil.rmtree(self.root, ignore_errors=True)

    def _damaged(self, folder: Path, path: Path) -> bool:
        """Whether the entry of a file is not as it was; it is gone then. What cannot be read now stays."""
        try:
            with suppress(OSError):
                load(folder, path)
        except DamagedError:
            shutil.rmtree(folder, ignore_errors=True)
            return True
        return False

    def _use(self, key: str) -> None:
        with suppress(OSError):
            self._lock.write(f"{key}\n".encode())

    def _remove(self, key: str) -> bool:
        """Remove an entry, unless it is in use; whether it is gone.

        It is moved away first, so that nobody finds half of it, and back where somebody has begun to use it by then:
        who says so later does not find it any more.
        """
        folder = self.root / "entries" / key
        if key not in self._in_use():
            with suppress(OSError):
                bench = self.bench()
                try:
                    folder.rename(bench / key)
                    if key in self._in_use():
                        (bench / key).rename(folder)
                finally:
                    shutil.rmtree(bench, ignore_errors=True)
        return not folder.exists()

    def _in_use(self) -> set[str]:
        """The keys that living processes use."""
        keys: set[str] = set()
        for file in _files(self.root / "sessions"):
            with suppress(OSError):
                keys.update(file.read_text("ascii", "replace").split())
        return keys

    def sweep(self) -> None:
        """Remove what processes left behind that have died."""
        for file in _files(self.root / "sessions"):
            with suppress(OSError), file.open("r+b") as left:  # NFS locks for one alone what is open for writing
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self.root / "work" / file.name, ignore_errors=True)
                file.unlink()


def default_root() -> Path:
    """Where the cache is when the user says nothing, by the XDG base directories.

    Raises FileNotFoundError where there is no home directory.
    """
    said = os.environ.get("TRACEHOUND_CACHE")
    if said:
        return Path(os.path.expanduser(said))  # noqa: PTH111, pathlib raises where there is no such user
    own = home.folder("XDG_CACHE_HOME", ".cache")
    if own is None:
        raise FileNotFoundError(errno.ENOENT, "there is no home directory")
    return own / "tracehound"


def opened(root: Path, limit: int = LIMIT) -> Cache:
    """The cache at `root`, made where there is none, readable by its owner alone. Raises OSError where it is no use."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in _FOLDERS:
        folder = root / name
        folder.mkdir(exist_ok=True, mode=0o700)
        owned = folder.lstat()
        if owned.st_uid != os.geteuid() or owned.st_mode & 0o077:
            raise PermissionError(errno.EACCES, "it is open to others", str(folder))
    cache = Cache(root, limit, fleeting=False, _lock=_session(root / "sessions"))
    cache.sweep()
    return cache


def existing(root: Path) -> Cache | None:
    """The cache at `root`; None, and nothing is made, where there is none yet. Raises OSError where none can be."""
    if root.exists() and not root.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))
    return opened(root) if (root / "entries").is_dir() else None


def _session(folder: Path) -> FileIO:
    """A new file in the folder, locked as long as this process lives."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=folder)
        os.close(handle)
        lock = FileIO(name, "a")
        with suppress(OSError):  # a file system without locks: then nobody knows who lives, and nothing is swept
            fcntl.flock(lock, fcntl.LOCK_EX)
        if Path(name).exists():  # else another process took it for a dead one's before it was locked
            return lock
        lock.close()


def temporary() -> Cache:
    """A cache for this process alone, in the folder for temporary files, removed when it is closed. Raises OSError."""
    _sweep_temporary()
    return replace(opened(Path(tempfile.mkdtemp(prefix=_TEMPORARY))), fleeting=True)


def _sweep_temporary() -> None:
    """Remove the temporary caches of this user whose process was killed: a trace may take gigabytes there."""
    for root in _folders(Path(tempfile.gettempdir())):
        with suppress(OSError):
            if root.name.startswith(_TEMPORARY) and root.lstat().st_uid == os.geteuid() and not root.is_symlink():
                for left in [file for file in _files(root / "sessions") if (root / "work" / file.name).is_dir()]:
                    with left.open("r+b") as lock:  # what has been worked in was locked: it is no cache that begins
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(root, ignore_errors=True)


def _entry(folder: Path) -> Entry | None:
    """None for what is vanishing just now."""
    try:
        with os.scandir(folder) as files:
            size = sum(file.stat().st_size for file in files)
        source = (folder / _SOURCE).read_text("utf-8", "surrogateescape")
        return Entry(folder.name, source, size, folder.stat().st_mtime_ns)
    except OSError:
        return None


def _folders(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (child for child in folder.iterdir() if child.is_dir())


def _files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (child for child in folder.iterdir() if child.is_file())
