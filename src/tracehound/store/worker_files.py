"""Files in the workers of a cluster, which find them, read them into caches of their own, and open them again.

A worker reads from the shared file system, or downloads from the buckets. Frames that leave it have no events.
"""

from __future__ import annotations

import atexit
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.errors import TracehoundError, is_url_path, path_text
from tracehound.model.deferred_frames import DeferredFacets
from tracehound.model.notes import Note
from tracehound.model.trace import OPS, FileFrames
from tracehound.store import trace_cache
from tracehound.store.trace_files import TraceFile
from tracehound.store.trace_reader import ReadContext, TraceReader, is_url, open_trace_files
from tracehound.system.cluster_executor import current_worker

if TYPE_CHECKING:
    from tracehound.remote.object_info import AccessOptions


class WorkerSettings(Struct, frozen=True):
    """The paths that workers read, and how: the folder of their caches (None: the usual one), or no lasting cache.

    `paths` are those that the user named, absolute, and URLs. `access` is how buckets are read; None for the usual way.
    `run_id` tells the runs of the program apart: each looks at buckets anew.
    """

    paths: tuple[str, ...] = ()
    cache: Path | None = None
    no_cache: bool = False
    access: AccessOptions | None = None
    run_id: str = field(default_factory=lambda: uuid4().hex)

    def __repr__(self) -> str:
        """Without paths: a signed URL is a password, and a cluster may log what calls are given."""
        return f"{type(self).__name__}(cache={self.cache!r}, no_cache={self.no_cache})"

    @property
    def signed_urls(self) -> list[str]:
        """The URLs that cannot be read without what stands beside the names in them."""
        return [path for path in self.paths if is_url(path) and ("?" in path or "@" in path)]


class FilesOfTrace(Struct, frozen=True):
    """The files that a worker found, as `TraceReader` has them."""

    name: str
    files: tuple[TraceFile, ...]
    notes: tuple[Note, ...]
    listed: frozenset[Path]


def find_on_worker(settings: WorkerSettings, run: str | None) -> FilesOfTrace:
    """Find the files of a trace, in a worker. Raises TracehoundError, which names the worker, without any."""
    context = _contexts.open(settings)
    with _contexts.lock:
        try:
            reader = open_trace_files(settings.paths, run, context)
        except TracehoundError as error:
            raise _add_worker(error) from None
    return FilesOfTrace(reader.name, reader.files, tuple(reader.notes), reader.listed)


def read_on_worker(file: TraceFile, settings: WorkerSettings, devices_only: bool = False) -> FileFrames:  # noqa: FBT001, FBT002
    """The frames of a file without its events and ops, read in a worker. Raises TracehoundError."""
    opened = OpenedOnWorker(file, settings, devices_only)
    frames = opened()
    return replace(
        frames.with_frames(ops=pl.DataFrame(schema=OPS)),
        make_scan=partial(_scan, opened),
        facets=DeferredFacets(frames.facets, partial(_scan_facet, opened)),
        make_counters=partial(_read_counters, opened),
        places=None,
        cache_folder=None,
        reopen=opened,
        worker=current_worker(),
    )


class OpenedOnWorker(Struct, frozen=True):
    """Gives the frames of a file in the process that calls it, from the cache of that process if it holds them.

    `devices_only` is that of `TraceReader`.
    """

    file: TraceFile
    settings: WorkerSettings
    devices_only: bool = False

    def __call__(self) -> FileFrames:
        """The frames with their events. Raises TracehoundError if the file cannot be read here."""
        context = _contexts.open(self.settings)
        try:
            with _contexts.lock:
                reader = _local_reader(self.file, context, self.settings)
            reader.devices_only = self.devices_only
            ((_, frames),) = reader.read_files()
            _contexts.trim_now_and_then(context)
        except TracehoundError as error:
            raise _add_worker(error) from None
        return replace(frames, path=self.file.path)


def _local_reader(file: TraceFile, context: ReadContext, settings: WorkerSettings) -> TraceReader:
    """A reader of one file, which is downloaded by this worker if it lies in a bucket."""
    if not is_url_path(file.path):
        return TraceReader(file.path.name, (file,), context=context, trims_cache=False)
    for url in settings.signed_urls:
        context.local_path(url)
    path = context.local_path(path_text(file.path))
    if context.mirror is None:
        raise TracehoundError("cannot be downloaded", file.path)
    wanted = context.mirror.objects[path]
    if file.etag != wanted.version:
        raise TracehoundError("the object changes while it is read", path, remedy="wait until it is written")
    return TraceReader(path.name, (replace(file, path=path),), context=context, objects={0: wanted}, trims_cache=False)


def _add_worker(error: TracehoundError) -> TracehoundError:
    """The error, which also names the worker that cannot read what others may."""
    error.message = f"{error.message} (on worker {current_worker()})"
    return error


def _scan(opened: OpenedOnWorker) -> pl.LazyFrame:
    return opened().scan


def _read_counters(opened: OpenedOnWorker) -> pl.DataFrame:
    return opened().counters


def _scan_facet(opened: OpenedOnWorker, name: str) -> pl.LazyFrame:
    return opened().facets[name]


class _ReadContexts:
    """The latest contexts of this process, one for each run of the program; the threads of a worker share them."""

    def __init__(self) -> None:
        self._opened: dict[WorkerSettings, ReadContext] = {}
        self.lock = threading.RLock()
        self._files_read = 0
        atexit.register(self._close_all)

    def open(self, settings: WorkerSettings) -> ReadContext:
        """The context for these settings."""
        with self.lock:
            context = self._opened.pop(settings, None) or _make_context(settings)
            self._opened[settings] = context
            if len(self._opened) > _MAX_CONTEXTS:
                self._opened.pop(next(iter(self._opened))).close()
            return context

    def trim_now_and_then(self, context: ReadContext) -> None:
        """Keep the cache of a context below its limit, after every so many files: that looks at all entries."""
        with self.lock:
            self._files_read += 1
            cache = context.cache
            if cache is not None and cache.grown and self._files_read % _FILES_PER_TRIM == 0:
                cache.trim()

    def _close_all(self) -> None:
        while self._opened:
            self._opened.popitem()[1].close()


_MAX_CONTEXTS: Final = 16
_FILES_PER_TRIM: Final = 100


def _make_context(settings: WorkerSettings) -> ReadContext:
    """A context without worker processes, whose cache keeps what it reads at least until it is closed."""
    openers = [] if settings.no_cache else [partial(_open_cache, settings)]
    return ReadContext(cache_openers=[*openers, trace_cache.open_private_cache], access=settings.access)


def _open_cache(settings: WorkerSettings) -> trace_cache.TraceCache:
    return trace_cache.open_cache(settings.cache or trace_cache.default_root())


_contexts = _ReadContexts()
