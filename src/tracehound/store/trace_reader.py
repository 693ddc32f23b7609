"""Reading of the files of a trace: their order, cancellation, one bad file among many, and the alignment of clocks.

`ReadContext` has the resources: worker processes, and a place for the frames of files (the cache, else a folder for
temporary files, else memory).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, wait
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace
from polars.exceptions import PanicException

from tracehound.errors import TracehoundError, is_out_of_memory, is_url_path, printable_file_name
from tracehound.model.file_facts import PeekedFacts
from tracehound.model.notes import Note
from tracehound.model.trace import EVENTS, RANKS, FileFrames, Trace, small_frames
from tracehound.store.common_clock import WALL_CLOCK, ClockAlignment
from tracehound.store.file_repeats import leave_out_repeats
from tracehound.store.file_stack import FileStack
from tracehound.store.find_files import (
    SearchListener,
    fetch_nothing,
    find_trace_files,
    ignore_search,
    may_be_trace,
)
from tracehound.store.ingest import (
    MAX_IN_MEMORY_BYTES,
    POLL_SECONDS,
    FileIngest,
    copy_to_cache,
    estimate_inflated_size,
    ingest_on_disk,
    stamp_trace_file,
    start_ingest,
)
from tracehound.store.merge_files import merge_file_frames
from tracehound.store.reading_progress import ProgressCounter, ProgressListener, ignore_progress
from tracehound.store.trace_cache import TraceCache, open_temporary_cache
from tracehound.store.trace_files import TraceFile, peek
from tracehound.store.worker_pool import WorkerPool
from tracehound.system.cluster_executor import ClusterExecutor
from tracehound.system.malloc import keep_freed_memory

if TYPE_CHECKING:
    from tracehound.remote.object_info import AccessOptions
    from tracehound.store.object_downloads import ObjectDownloads, RemoteObject
    from tracehound.store.object_mirror import ObjectMirror

_EXPECTED_ERRORS: Final = (
    TracehoundError, BrokenPipeError, BrokenExecutor, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit,
)  # fmt: skip
"""Errors that end a run and do not mean damaged events. Polars may raise anything for damaged events, even panics."""


_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(word: Path | str) -> bool:
    """True if a word that names a trace is a URL, of whatever kind, and not a path of this machine."""
    return isinstance(word, str) and _URL.match(word) is not None and not os.access(word, os.F_OK)


class ReadContext(Struct):
    """A context in which files are read.

    `cache_openers` are tried in order; `failures` has the errors of those that failed. `access` is how buckets are
    read; None for the usual way.
    """

    pool: WorkerPool = field(default_factory=lambda: WorkerPool(1))
    cache_openers: list[Callable[[], TraceCache]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    access: AccessOptions | None = None
    mirror: ObjectMirror | None = None
    """The local files that stand for URLs; made for the first one."""
    cluster: ClusterExecutor | None = None
    """Workers that find, read and map files in place of this process."""
    _cache: TraceCache | None = None
    _opened: list[TraceCache] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Starts nothing: workers and caches start on first use."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the workers and close the caches.

        Raises TracehoundError instead of an error that was caused by an entry damaged while it was in use.
        """
        damaged = self._damaged_files(error)
        self.close()
        if damaged:
            why = "what the cache held of it was damaged, and is removed"
            raise TracehoundError(why, damaged[0], remedy="run again to read the file anew") from error

    @property
    def cache(self) -> TraceCache | None:
        """The first cache that works; None if there is none, and everything stays in memory."""
        while self._cache is None and self.cache_openers:
            try:
                self._cache = self.cache_openers[0]()
            except OSError as error:
                self._drop_current(error)
            else:
                self._opened.append(self._cache)
        return self._cache

    def local_path(self, word: Path | str, look: SearchListener = ignore_search) -> Path:
        """The local path of a trace, which for a URL stands for its objects.

        Raises TracehoundError if there is nothing at the URL, and as `look` does.
        """
        if not is_url(word):
            return Path(word)
        if self.mirror is None:
            # Imported only for a URL: other runs start faster.
            from tracehound.remote.object_info import AccessOptions  # noqa: PLC0415
            from tracehound.store.object_mirror import ObjectMirror  # noqa: PLC0415

            if self.cache is None:
                raise TracehoundError("no folder to download to", remedy="name one: --cache DIR")
            self.mirror = ObjectMirror(self.cache, self.access or AccessOptions(), may_be_trace)
        return self.mirror.add(str(word), look)

    def drop_cache(self, failed: TraceCache, error: OSError) -> None:
        """Give up a cache that failed; if it is the one in use, the next one is used from now on.

        All files that were being read into the failed cache fail.
        """
        if failed is self._cache:
            self._drop_current(error)

    def _drop_current(self, error: OSError) -> None:
        where = f" ({error.filename})" if error.filename else ""
        self.failures.append(f"{(error.strerror or str(error)).lower()}{where}")
        self._cache = None
        del self.cache_openers[:1]

    def _damaged_files(self, error: BaseException | None) -> list[Path]:
        """The files whose damaged entries may have caused the error."""
        if error is None or isinstance(error, _EXPECTED_ERRORS):
            return []
        with suppress(OSError):
            return [path for cache in self._opened for path in cache.remove_damaged()]
        return []

    def close(self) -> None:
        """Kill the workers; their unfinished entries are removed. Those of a cluster are left."""
        self.pool.close()
        if self.cluster is not None:
            self.cluster.close()
        for cache in self._opened:
            with suppress(OSError):
                cache.close()
        self._opened.clear()
        self._cache = None
        self.cache_openers.clear()


def make_read_context(jobs: int, cache: Callable[[], TraceCache] | None) -> ReadContext:
    """A context with workers, the cache if one is wanted, and a temporary folder as its replacement."""
    return ReadContext(WorkerPool(jobs), [*([cache] if cache else []), open_temporary_cache])


def make_memory_context() -> ReadContext:
    """A context without workers and caches."""
    return ReadContext()


SLOW_TO_FINISH: Final = ("xplane",)
"""Formats for which most of the time goes to finishing the decoded shards, which one process does."""


class CancelledError(Exception):
    """Reading was cancelled because nobody needs it any more."""


def _keep_clock(trace: Trace, executor: Executor | None) -> None:
    """A clock choice that changes nothing."""


class TraceReader(Struct):
    """The files of one trace; `read_files` reads them.

    `notes` grows by a note for each file that cannot be read.
    """

    name: str
    files: tuple[TraceFile, ...]
    notes: list[Note] = field(default_factory=list)
    context: ReadContext = field(default_factory=make_memory_context)
    wanted_files: frozenset[int] = frozenset()
    """Numbers of files that are visible on the screen: they are read first."""
    alignment: ClockAlignment = WALL_CLOCK
    """The alignment of the clocks of all files."""
    choose_clock: Callable[[Trace, Executor | None], ClockAlignment | None] = _keep_clock
    """Returns the final alignment once all files are read; None keeps the present one."""
    devices_only: bool = False
    """Only device events will be needed: the rest of large files is skipped if possible."""
    objects: Mapping[int, RemoteObject] = field(default_factory=dict)
    """The objects of buckets among the files, by number: they are downloaded before they are read."""
    listed: frozenset[Path] = frozenset()
    """The files that were found in folders: of several recordings of their processes one is shown."""
    executor: Executor | None = None
    """Where ranks are mapped to choose the clock; None: in this process."""
    trims_cache: bool = True

    def merge_frames(self, parts: Sequence[FileFrames]) -> Trace:
        """The trace of the files read so far."""
        return merge_file_frames(self.name, leave_out_repeats(parts, self.listed), self.notes, self.alignment)

    def merge_on_final_clock(self, parts: Sequence[FileFrames]) -> Trace:
        """The trace of all files, on its final clock."""
        trace = self.merge_frames(parts)
        return self.move_to_final_clock(trace) or trace

    def move_to_final_clock(self, trace: Trace) -> Trace | None:
        """The trace on its final clock; None if it is on that already."""
        self.alignment = self.choose_clock(trace, self.executor) or self.alignment
        return self.merge_frames(trace.parts) if self.alignment.shifts else None

    @property
    def size(self) -> int:
        """Bytes of all files on disk."""
        return sum(file.size for file in self.files)

    def start_workers(self) -> None:
        """Start the workers if they will be needed: stamp the explorer starts threads, which would slow it down."""
        cache = self.context.cache
        sizes = [estimate_inflated_size(file) for file in self.files]
        large = [file for file, size in zip(self.files, sizes, strict=True) if size >= MAX_IN_MEMORY_BYTES]
        first = self.files[:1] if sum(sizes) >= MAX_IN_MEMORY_BYTES else ()  # it tells whether many small ones are read
        with suppress(OSError, TracehoundError):  # a missing file is reported when it is read
            if cache is not None and any(not cache.has_entry(stamp_trace_file(file)) for file in (*large, *first)):
                self.context.pool.start()

    def placeholder(self, number: int) -> FileFrames:
        """Empty frames for a file that is not read yet, with the ranks that its ends record, else one rank."""
        file = self.files[number]
        peeked = peek(file)
        ranks = [{"host": 0, **rank} for rank in _placeholder_ranks(peeked)]
        return FileFrames(
            path=file.path,
            format=file.format.name,
            make_scan=partial(pl.LazyFrame, schema=EVENTS),
            small_frames=small_frames(ranks=pl.DataFrame(ranks, schema=RANKS)),
            hosts=(peeked.host or printable_file_name(file.path),),
            wall_ns=None,
        )

    def read_files(
        self,
        listen: ProgressListener = ignore_progress,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        idle: bool = False,
    ) -> Iterator[tuple[int, FileFrames]]:
        """Read all files; yields the number of a file and its frames, in the order in which they are done.

        A bad file is skipped with a note; if no file can be read, its error is raised. Raises CancelledError soon after
        `cancelled()` becomes true. `idle` says that this process has nothing else to do.
        """
        read = _FileReader(self, ProgressCounter(len(self.files), self.size, listen), cancelled, idle)
        good = 0
        for number, frames in read.read_all():
            good += 1
            yield number, frames
        self.notes.extend(Note("info", "not_cached", values=(("why", why),)) for why in self.context.failures)
        if not good and read.failure is not None:
            raise read.failure
        cache = self.context.cache
        if self.trims_cache and cache is not None and cache.grown:  # trimming looks at all entries, which takes time
            cache.trim()


class _FileReader(Struct):
    """One pass over the files of a trace."""

    reader: TraceReader
    counter: ProgressCounter
    cancelled: Callable[[], bool]
    idle: bool
    failure: TracehoundError | None = None
    _waiting: list[int] = field(default_factory=list)
    _running: dict[int, FileIngest] = field(default_factory=dict)
    _downloads: ObjectDownloads | None = None
    _stack: FileStack = field(default_factory=FileStack)

    def read_all(self) -> Iterator[tuple[int, FileFrames]]:
        """Yield every file that can be read."""
        self._waiting = list(range(len(self.reader.files)))
        self._downloads = self._start_downloads()
        try:
            while self._waiting or self._running:
                self._raise_if_cancelled()
                number = self._next_number()
                if number is not None and len(self._running) < max(1, self.reader.context.pool.jobs):
                    yield from self._start_file(number)
                elif self._running:
                    yield from self._advance_running()
                else:
                    self._wait_for_download()
        finally:
            for ingest in self._running.values():
                ingest.abandon()
            if self._downloads is not None:
                self._downloads.close()

    def _start_downloads(self) -> ObjectDownloads | None:
        """The downloads of the objects among the files, under way; None without objects."""
        cache = self.reader.context.cache if self.reader.objects else None
        if cache is None:
            return None
        from tracehound.store.object_downloads import ObjectDownloads  # noqa: PLC0415, only for URLs

        downloads = ObjectDownloads(self.reader.objects, cache, lambda: self.reader.wanted_files)
        downloads.start()
        return downloads

    def _wait_for_download(self) -> None:
        if self._downloads is not None:
            self._downloads.wait()
            self.counter.update_download(self.reader.files[self._waiting[0]].path, *self._downloads.progress)

    def _next_number(self) -> int | None:
        """The file to read next, of those that are here: a visible one, else the first; None if none is here yet."""
        wanted = [number for number in self.reader.wanted_files if number in self._waiting]
        order = chain(sorted(wanted), self._waiting)
        return next((number for number in order if self._downloads is None or self._downloads.is_done(number)), None)

    def _raise_if_cancelled(self) -> None:
        if self.cancelled():
            raise CancelledError

    def _start_file(self, number: int) -> Iterator[tuple[int, FileFrames]]:
        """Start to read a file; yields it if it is available at once."""
        self._waiting.remove(number)
        file, context = self.reader.files[number], self.reader.context
        self.counter.update_file(file.path, 0, 0)
        try:
            file = self._downloaded_version(number)
            frames = self._load_cached(file)
            if frames is None and self.reader.devices_only and estimate_inflated_size(file) >= MAX_IN_MEMORY_BYTES:
                without_hosts = replace(file, devices=True)
                frames = self._load_cached(without_hosts)
                file = without_hosts if frames is not None or file.format.reader.separable(file.path) else file
            if frames is None:
                self._start_workers_early(file)
            if frames is None and not self._is_better_read_here(file):
                executor, cache = context.pool.executor, context.cache
                if executor is not None and cache is not None:
                    self._running[number] = start_ingest(file, cache, executor, context.pool.jobs)
                    return
            if frames is None:
                frames = self._read_in_this_process(file)
        except (CancelledError, KeyboardInterrupt):
            raise
        except (Exception, PanicException) as error:  # noqa: BLE001, one bad file must not end the others
            self._handle_failure(number, error, context.cache)
        else:
            yield self._count_as_done(number, frames)

    def _downloaded_version(self, number: int) -> TraceFile:
        """A file as it was downloaded, which may be a later version than was found. Raises the download's error."""
        file = self.reader.files[number]
        wanted = self._downloads.object(number) if self._downloads is not None else None
        return file if wanted is None else replace(file, size=wanted.info.size, etag=wanted.version)

    def _read_in_this_process(self, file: TraceFile) -> FileFrames:
        """Read a file in this process: in memory if it is small or there is no cache, else on disk."""
        context, cache, report = self.reader.context, self.reader.context.cache, self._progress_listener(file)
        if cache is not None and estimate_inflated_size(file) >= MAX_IN_MEMORY_BYTES:
            return ingest_on_disk(file, cache, report, context.pool)
        stamp = stamp_trace_file(file)
        frames = replace(file.format.read(file.path, report), state=stamp.file_state)
        if cache is not None and cache.keeps_entries:
            try:
                return copy_to_cache(frames, cache, file, stamp)
            except OSError as error:
                context.drop_cache(cache, error)
        return frames

    def _start_workers_early(self, file: TraceFile) -> None:
        """Start the workers that the other files will need, before this process reads one.

        Until then they can be forks of it, which have all modules: a new process takes half a second to import them.
        """
        pool = self.reader.context.pool
        if self.reader.context.cache is not None and not pool.started and self._size_of_rest() >= MAX_IN_MEMORY_BYTES:
            file.format.reader  # noqa: B018, imports it
            import_module("numpy.ma")  # polars imports it for the first column of numbers, here once for all workers
            pool.start()

    def _size_of_rest(self) -> int:
        """Estimated bytes of the files that wait, after inflation."""
        return sum(estimate_inflated_size(self.reader.files[number]) for number in self._waiting)

    def _is_better_read_here(self, file: TraceFile) -> bool:
        """True if the file is better read in this process: it is small, or slow to finish."""
        if self.idle and len(self.reader.files) == 1 and file.format.name in SLOW_TO_FINISH:
            return True
        if self._running or estimate_inflated_size(file) >= MAX_IN_MEMORY_BYTES:
            return False
        if len(self._waiting) == len(self.reader.files) - 1:  # nothing is read yet
            return True
        return self._size_of_rest() < MAX_IN_MEMORY_BYTES

    def _load_cached(self, file: TraceFile) -> FileFrames | None:
        cache = self.reader.context.cache
        return cache.load_entry(stamp_trace_file(file)) if cache is not None and cache.keeps_entries else None

    def _progress_listener(self, file: TraceFile) -> Callable[[int, int], None]:
        def report(read: int, events: int) -> None:
            self._raise_if_cancelled()
            self.counter.update_file(file.path, read, events)

        return report

    def _advance_running(self) -> Iterator[tuple[int, FileFrames]]:
        """Wait a moment for the workers, report their progress, and yield the finished files."""
        pending = [future for ingest in self._running.values() for future in ingest.pending if not future.done()]
        wait(pending, POLL_SECONDS, FIRST_COMPLETED)  # a worker that is done gets the next file
        for number, ingest in list(self._running.items()):
            self.counter.update_file(ingest.file.path, *ingest.progress)
            try:
                ingest.advance()
            except (Exception, PanicException) as error:  # noqa: BLE001, one bad file must not end the others
                del self._running[number]
                ingest.abandon()
                self._handle_failure(number, error, ingest.cache)
                continue
            if ingest.frames is not None:
                del self._running[number]
                yield self._count_as_done(number, ingest.frames)

    def _count_as_done(self, number: int, frames: FileFrames) -> tuple[int, FileFrames]:
        file = self.reader.files[number]
        self.counter.finish_file(file.path, file.size, int(frames.lanes["events"].sum()))
        return number, self._stack.add(give_rank(frames, file))

    def _handle_failure(self, number: int, error: BaseException, cache: TraceCache | None) -> None:
        """Retry a file if its cache has failed; else skip it with a note."""
        file = self.reader.files[number]
        if isinstance(error, OSError) and cache is not None:
            self.reader.context.drop_cache(cache, error)
            self._waiting.insert(0, number)
            return
        self.failure, note = unread_file_note(file, error)
        self.reader.notes.append(note)
        self.counter.finish_file(file.path, file.size, 0)


def open_trace_files(
    paths: Sequence[Path | str],
    run: str | None = None,
    context: ReadContext | None = None,
    look: Callable[[int], None] = ignore_search,
) -> TraceReader:
    """Find the files of the trace under `paths`; nothing is decoded yet.

    `look` is called with the number of files looked at, and may end the search by raising. Without a context everything
    is read in this process and held in memory. Raises TracehoundError if there is no trace.
    """
    context = context or make_memory_context()
    named = [context.local_path(path, look) for path in paths]
    mirror = context.mirror
    found_files = find_trace_files(named, run, look, mirror.fetch_ends if mirror else fetch_nothing)
    used = {path.resolve(): path for path in named if path not in found_files.empty}
    name, files, notes = _trace_name(list(used.values())), found_files.files, list(found_files.notes)
    if mirror is None:
        return TraceReader(name, files, notes, context, listed=found_files.listed)
    objects = {number: mirror.objects[file.path] for number, file in enumerate(files) if file.path in mirror.objects}
    versions = {number: each.version for number, each in objects.items()}
    files = tuple(replace(file, etag=versions.get(number, "")) for number, file in enumerate(files))
    all_notes = [*notes, *mirror.take_notes()]
    return TraceReader(name, files, all_notes, context, objects=objects, listed=found_files.listed)


def load_trace(reader: TraceReader, listen: ProgressListener = ignore_progress) -> Trace:
    """Read every file and put them on one clock."""
    if len(reader.files) > 1:
        keep_freed_memory()  # for the next file
    parts = dict(reader.read_files(listen, idle=True))
    return reader.merge_on_final_clock([parts[number] for number in sorted(parts)])


def unread_file_note(file: TraceFile, error: BaseException) -> tuple[TracehoundError, Note]:
    """The error of a file that could not be read, in words for the user, and the note on it."""
    if isinstance(error, BrokenExecutor):
        why = "a worker process was killed while it read this; is there enough memory? --jobs 1 takes less"
        error = TracehoundError(why, file.path)
    elif is_out_of_memory(error):
        why = "not enough memory to read it; --jobs 1 takes less, and ulimit -v says whether it is limited"
        error = TracehoundError(why, file.path)
    elif not isinstance(error, TracehoundError):
        error = TracehoundError(f"cannot be read: {type(error).__name__}: {error}", file.path)
    return error, Note("dropped", "file_not_read", file=str(file.path), values=(("why", error.message),))


def give_rank(frames: FileFrames, file: TraceFile) -> FileFrames:
    """The frames of a file with the rank that is recorded beside it, unless it records one itself."""
    if file.rank is None or frames.ranks.height != 1 or frames.ranks["rank"][0] is not None:
        return frames
    ranks = frames.ranks.with_columns(pl.lit(file.rank, pl.Int32).alias("rank"))
    return replace(frames.with_frames(ranks=ranks), facts=replace(frames.facts, rank=file.rank))


_DEVICE_LABEL = re.compile(r"[A-Z]+:(\d{1,9})")


def _placeholder_ranks(peeked: PeekedFacts) -> list[dict[str, object]]:
    """The ranks of a file from its ends: one for each labeled device, else the rank that it records."""
    labeled = [(name, int(match[1])) for name in peeked.devices if (match := _DEVICE_LABEL.fullmatch(name))]
    if labeled:
        return [{"label": name, "device": device} for name, device in labeled]
    return [{"rank": peeked.rank, "model": peeked.devices[0] if len(set(peeked.devices)) == 1 else None}]


def _trace_name(paths: Sequence[Path]) -> str:
    first = paths[0] if is_url_path(paths[0]) else paths[0].resolve()
    name = first.name or str(first)
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"
