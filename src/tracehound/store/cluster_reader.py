"""Reading of a trace by workers of a cluster: each file is found, read and kept where the worker is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, wait
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import field
from msgspec.structs import replace
from polars.exceptions import PanicException

from tracehound.errors import TracehoundError
from tracehound.model.trace import FileFrames
from tracehound.store.file_stack import FileStack
from tracehound.store.find_files import SearchListener, ignore_search
from tracehound.store.reading_progress import ProgressCounter, ProgressListener, ignore_progress
from tracehound.store.trace_reader import CancelledError, TraceReader, give_rank, is_url, unread_file_note
from tracehound.store.worker_files import WorkerSettings, find_on_worker, read_on_worker
from tracehound.system.cluster_executor import ClusterExecutor

_WAIT_SECONDS: Final = 0.1
"""Seconds between two calls of a listener while a worker looks for files."""


class ClusterTraceReader(TraceReader, kw_only=True):
    """The files of one trace, which the workers of a cluster read."""

    cluster: ClusterExecutor
    settings: WorkerSettings = WorkerSettings()
    given: Mapping[Path, Path] = field(default_factory=dict)
    """The paths as the user named them, by the absolute ones that workers are given."""

    def read_files(
        self,
        listen: ProgressListener = ignore_progress,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        idle: bool = False,
    ) -> Iterator[tuple[int, FileFrames]]:
        """Read all files, as `TraceReader.read_files` does; the frames have no events and ops.

        Raises TracehoundError if the cluster is gone.
        """
        del idle
        try:
            yield from self._read_files(listen, cancelled)
        except BrokenExecutor as error:
            raise TracehoundError(f"{self.cluster.name}: {error}", remedy="look at its logs") from error

    def _read_files(self, listen: ProgressListener, cancelled: Callable[[], bool]) -> Iterator[tuple[int, FileFrames]]:
        counter, failure, good = ProgressCounter(len(self.files), self.size, listen), None, 0
        stack = FileStack()
        calls = (
            (number, partial(self.cluster.submit, read_on_worker, file, self.settings, self.devices_only))
            for number, file in enumerate(self.files)
        )
        for number, future in self.cluster.run_all(calls, partial(_raise_if, cancelled)):
            file, events = self.files[number], 0
            try:
                frames = self.cluster.result(future)
            except (Exception, PanicException) as error:  # noqa: BLE001, one bad file must not end the others
                self.cluster.check_alive()
                failure, note = unread_file_note(file, error)
                self.notes.append(replace(note, file=_as_given(note.file, self.given)))
            else:
                events = int(frames.lanes["events"].sum())
                good += 1
                named = replace(frames, path=Path(_as_given(file.path, self.given)))
                yield number, stack.add(give_rank(named, file))
            counter.update_file(file.path, file.size, events)
            counter.finish_file(file.path, file.size, events)
        if not good and failure is not None:
            raise failure


def _raise_if(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise CancelledError


def open_cluster_trace(
    paths: Sequence[Path | str],
    cluster: ClusterExecutor,
    run: str | None = None,
    settings: WorkerSettings | None = None,
    look: SearchListener = ignore_search,
) -> ClusterTraceReader:
    """Let a worker find the files of the trace under `paths`; nothing is decoded yet.

    Paths are made absolute here, and mean the same files on all workers. `look` is called now and then, and may end the
    search by raising. Raises TracehoundError if the worker finds no trace.
    """
    given = {Path(path).absolute(): Path(path) for path in paths if not is_url(path)}
    words = tuple(str(path) if is_url(path) else str(Path(path).absolute()) for path in paths)
    settings = replace(settings or WorkerSettings(), paths=words)
    future = cluster.submit(find_on_worker, settings, run)
    while wait([future], _WAIT_SECONDS).not_done:
        look(0)
    try:
        found = cluster.result(future)
    except BrokenExecutor as error:
        raise TracehoundError(f"{cluster.name}: {error}", remedy="look at its logs") from error
    notes = [replace(note, file=_as_given(note.file, given)) for note in found.notes]
    listed = frozenset(Path(_as_given(path, given)) for path in found.listed)
    return ClusterTraceReader(
        found.name, found.files, notes, listed=listed, executor=cluster, cluster=cluster, settings=settings, given=given
    )


def _as_given(path: Path | str, given: Mapping[Path, Path]) -> str:
    """A path that a worker found, as the user named it."""
    for absolute, named in given.items():
        if str(path) == str(absolute):
            return str(named)
        if str(path).startswith(f"{absolute}{os.sep}"):
            return str(named / Path(path).relative_to(absolute))
    return str(path)
