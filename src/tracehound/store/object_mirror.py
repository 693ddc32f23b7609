"""A tree of local files that stands for folders of buckets, so that traces are found and read there as on a disk.

Each object is an empty file of its size at first. What recognizes files reads their two ends, so these are downloaded
when a folder is looked at; the rest when the file is read (`object_downloads`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from tracehound.errors import EMPTY_URL_PART, URL_FOLDER, TracehoundError
from tracehound.formats.file_signatures import BASELINE_START
from tracehound.model.notes import Note
from tracehound.remote.object_url import ObjectUrl, parse_url
from tracehound.remote.remote_store import AccessOptions, ObjectInfo, RemoteError, RemoteStore, open_store
from tracehound.store.object_downloads import RemoteObject, download_ranges
from tracehound.store.trace_cache import TraceCache

START_BYTES: Final = 256 << 10
"""Bytes at the beginning of an object that are downloaded to recognize it."""

END_BYTES: Final = 64 << 10
"""Bytes at the end of an object in which a writer may have left facts of the run."""

SMALL_BYTES: Final = 1 << 20
"""An object up to this size is downloaded as a whole at once."""

MAX_OBJECTS: Final = 200_000
"""The most objects that are listed below one URL; more is an error."""

_CONNECTIONS: Final = 32
"""Beginnings of objects that are downloaded at once."""

_WAIT_SECONDS: Final = 0.1
"""Seconds between two calls of a listener while nothing arrives."""

_MAX_NAME_BYTES: Final = 255
"""The longest name of a file on usual disks."""

_PROFILE_FOLDER: Final = "plugins/profile/"

Listener = Callable[[int], None]
"""Called with the number of objects looked at so far; an exception that it raises ends the search."""


class ObjectMirror:
    """The local files that stand for the objects below some URLs, in a folder of this process in the cache."""

    def __init__(self, cache: TraceCache, access: AccessOptions, may_be_trace: Callable[[str], bool]) -> None:
        self._cache = cache
        self._access = access
        self._may_be_trace = may_be_trace
        self._root = cache.create_work_folder()
        self._stores: dict[tuple[str, str, str], RemoteStore] = {}
        self._named: dict[str, Path] = {}
        self.objects: dict[Path, RemoteObject] = {}
        """The objects by their local paths."""
        self._notes: list[Note] = []

    def add(self, text: str, listen: Listener) -> Path:
        """The local path that stands for a URL, of an object or a folder; listed at the first call.

        Raises TracehoundError if there is nothing at the URL, or nothing that may be seen.
        """
        if text not in self._named:
            url = parse_url(text)
            known = self._local_path(url)
            self._named[text] = known if known in self.objects else self._add_url(url, listen)
        return self._named[text]

    def take_notes(self) -> list[Note]:
        """Notes about objects that have no local path, once."""
        notes, self._notes = self._notes, []
        return notes

    def fetch_ends(self, paths: Sequence[Path], listen: Listener) -> dict[Path, TracehoundError]:
        """Download both ends of those of the files that are objects; the errors by path."""
        objects = [each for path in paths if (each := self.objects.get(path)) is not None and each.cached is None]
        failures: dict[Path, TracehoundError] = {}
        for each, error in _run_in_threads(self._fetch_ends, objects, listen):
            if isinstance(error, TracehoundError):
                failures[each.path] = error
            elif error is not None:
                raise error
        return failures

    def fetch_baseline(self, path: Path) -> None:
        """Download all of an object if it is a saved baseline. Raises TracehoundError."""
        wanted = self.objects[path]
        self._fetch_ends(wanted)
        with path.open("rb") as file:
            if BASELINE_START.match(file.read(START_BYTES)):
                download_ranges(wanted, self._cache, [(0, wanted.info.size)], _do_nothing)

    def _add_url(self, url: ObjectUrl, listen: Listener) -> Path:
        store = self._open_store(url)
        missing: TracehoundError | None = None
        if url.key and not url.key.endswith("/"):
            try:
                return self._add_object(url, store, store.head(url.key))
            except RemoteError as error:
                if error.reason not in ("no_object", "denied") or url.is_web:
                    raise
                missing = error  # a folder is no object
        prefix = f"{url.key.rstrip('/')}/" if url.key else ""
        folder = self._local_path(url)
        listed, notes_before = _list_objects(store, prefix, listen), len(self._notes)
        if not listed:
            raise missing or TracehoundError("no such folder in the bucket", folder)
        folder.mkdir(parents=True, exist_ok=True)
        folders = {f"{info.key.rpartition('/')[0]}/" for info in listed}
        for info in listed:
            if info.size and self._may_be_trace(info.key.rpartition("/")[2]):
                if f"{info.key}/" in folders:
                    self._notes.append(_refused_object_note(url.join(info.key), "a folder has the same name"))
                else:
                    self._add_listed(url.join(info.key), store, info)
        refused = self._notes[notes_before:]
        if refused and not any(path.is_relative_to(folder) for path in self.objects):
            first = refused[0]
            raise TracehoundError(f"{first.file}: {dict(first.values)['why']}", remedy="download it first")
        return folder

    def _open_store(self, url: ObjectUrl) -> RemoteStore:
        bucket = (url.scheme, url.account, url.bucket)
        if url.query or bucket not in self._stores:
            self._stores[bucket] = open_store(url, self._access)
        return self._stores[bucket]

    def _local_path(self, url: ObjectUrl) -> Path:
        try:
            return url_path(self._root, str(replace(url, query="", login="")))
        except ValueError as error:
            raise TracehoundError(f"{url}: a part of this name is too long", remedy="download it first") from error

    def _add_object(self, url: ObjectUrl, store: RemoteStore, info: ObjectInfo) -> Path:
        """The local path of an object, with an empty file of its size. Raises TracehoundError if it cannot have one."""
        path = self._local_path(url)
        if path not in self.objects:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.truncate(info.size)
            except OSError as error:
                raise TracehoundError((error.strerror or str(error)).lower(), path) from error
            self.objects[path] = RemoteObject(path, store, info)
        return path

    def _add_listed(self, url: ObjectUrl, store: RemoteStore, info: ObjectInfo) -> None:
        """Add an object of a folder; a note if it has no local path."""
        try:
            self._add_object(url, store, info)
        except TracehoundError as error:
            self._notes.append(_refused_object_note(url, error.message))

    def _fetch_ends(self, wanted: RemoteObject) -> None:
        size = wanted.info.size
        whole = size <= SMALL_BYTES or not wanted.info.has_ranges
        ends = [(0, size)] if whole else [(0, START_BYTES), (size - END_BYTES, size)]
        try:
            download_ranges(wanted, self._cache, ends, _do_nothing)
        except RemoteError as error:
            if error.reason != "changed":
                raise
            wanted.renew()
            self._fetch_ends(wanted)


def _run_in_threads(
    work: Callable[[RemoteObject], None], objects: Sequence[RemoteObject], listen: Listener
) -> Iterator[tuple[RemoteObject, Exception | None]]:
    """Do the work on each object; yields the objects in the order in which they are done, with the error if any.

    `listen` is called again and again, also while nothing arrives: connections that hang hold nobody up who gives up.
    """
    waiting, done = deque(objects), SimpleQueue[tuple[RemoteObject, Exception | None]]()

    def run() -> None:
        with suppress(IndexError):
            while True:
                each = waiting.popleft()
                try:
                    work(each)
                except Exception as error:  # noqa: BLE001, it is raised where it is awaited
                    done.put((each, error))
                else:
                    done.put((each, None))

    for _ in range(min(_CONNECTIONS, len(objects))):
        threading.Thread(target=run, name="tracehound ends", daemon=True).start()
    try:
        for count, _ in enumerate(objects):
            while True:
                listen(count)
                with suppress(Empty):
                    yield done.get(timeout=_WAIT_SECONDS)
                    break
    finally:
        waiting.clear()


def url_path(folder: Path, url: str) -> Path:
    """The path below `folder` that spells a URL, which `errors.path_text` reads again.

    Raises ValueError if a part of the URL is longer than a name of a file may be.
    """
    scheme, _, rest = url.partition("://")
    path = folder / URL_FOLDER / scheme
    for part in rest.rstrip("/").split("/"):
        name = _part_name(part)
        if len(name.encode()) > _MAX_NAME_BYTES:
            raise ValueError(part)
        path /= name
    return path


def _part_name(part: str) -> str:
    """One part of a URL as the name of a file: none is empty, leads to another folder, or has control characters."""
    if part in ("", ".", ".."):
        return "%2E" * len(part) or EMPTY_URL_PART
    return "".join(c if c.isprintable() and c != "%" else quote(c) for c in part)


def _list_objects(store: RemoteStore, prefix: str, listen: Listener) -> list[ObjectInfo]:
    """The objects below a folder; of a TensorBoard log folder only its profiles. Raises TracehoundError."""
    folders, objects = store.list_folder(prefix)
    below = prefix
    if f"{prefix}plugins/" in folders and store.list_folder(f"{prefix}{_PROFILE_FOLDER}")[0]:
        below = f"{prefix}{_PROFILE_FOLDER}"
    listed = list[ObjectInfo]()
    for page in store.list_objects(below) if folders else [objects]:
        listed.extend(page)
        listen(len(listed))
        if len(listed) > MAX_OBJECTS:
            raise TracehoundError(f"holds more than {MAX_OBJECTS:,} objects", remedy="name the folder of the trace")
    return listed


def _refused_object_note(url: ObjectUrl, why: str) -> Note:
    return Note("dropped", "path_refused", file=str(url), values=(("why", why),))


def _do_nothing() -> None:
    """A listener of downloads that does nothing."""
