"""A trace that is being opened: its files are known, their events are read when someone asks.

Owns the order of reading, its cancelling, and what happens when one file of many is bad.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace
from polars.exceptions import PanicException

from tracehound.errors import TracehoundError, file_name, starved
from tracehound.file_facts import Claims
from tracehound.formats import FORMATS
from tracehound.formats.inflate import Section, section
from tracehound.ids import part_of
from tracehound.notes import Note
from tracehound.store.cache import Cache, stamp
from tracehound.store.clock import WALL, Alignment
from tracehound.store.find import find, silent
from tracehound.store.found import Found
from tracehound.store.head import unsealed
from tracehound.store.ingest import SMALL, TICK, Ingest, begin, copy, guessed_size, on_disk, stamp_of
from tracehound.store.place import place
from tracehound.store.reading import Count, Listener, ignore
from tracehound.store.workshop import Workshop, in_memory
from tracehound.trace import EVENTS, LANES, OPS, RANKS, STEPS, Part, Trace

FINISHED_LONG: Final = ("xplane",)
"""Formats of which most of the work is to finish what was decoded, which one process does."""


class CancelledError(Exception):
    """Reading was given up because nobody waits for it any more."""


def _as_it_is(trace: Trace) -> None:
    """Leaves the clock of a trace."""


class Opening(Struct):
    """The files of one trace. Iterate `parts` to read them.

    `notes` grows by what was wrong with files that could not be read at all.
    """

    name: str
    files: tuple[Found, ...]
    notes: list[Note] = field(default_factory=list)
    workshop: Workshop = field(default_factory=in_memory)
    wanted: frozenset[int] = frozenset()
    """Files that somebody looks at, by number: they are read before the others."""
    alignment: Alignment = WALL
    """How what is read is put on one clock."""
    settle: Callable[[Trace], Alignment | None] = _as_it_is
    """What has the last word on the clock when all is read: another alignment, or None."""
    devices: bool = False
    """Nobody will ask for more than what devices did: of large files the rest is left out, where that is possible."""

    def placed(self, parts: Sequence[Part]) -> Trace:
        """The trace of these parts, while it is being read."""
        return place(self.name, parts, self.notes, self.alignment)

    def settled(self, parts: Sequence[Part]) -> Trace:
        """The trace of all its parts, on the clock on which it stays."""
        trace = self.placed(parts)
        return self.moved(trace) or trace

    def moved(self, trace: Trace) -> Trace | None:
        """A trace of this opening on the clock on which it stays; None where it is on that already."""
        self.alignment = self.settle(trace) or self.alignment
        return self.placed(trace.parts) if self.alignment.moves else None

    @property
    def size(self) -> int:
        """Bytes of all files on disk."""
        return sum(file.size for file in self.files)

    def staff(self) -> None:
        """Have workers ready where they will read: called before a face starts threads, for they start slower then."""
        cache = self.workshop.cache
        large = (found for found in self.files if guessed_size(found) >= SMALL)
        with suppress(OSError, TracehoundError):  # of a file that is gone: whoever reads it says so
            if cache is not None and any(not cache.has(stamp(found.path)) for found in large):
                self.workshop.pool.start()

    def blank(self, number: int) -> Part:
        """What stands for a file until it is read: the ranks that its ends claim, else one; without events."""
        found = self.files[number]
        try:
            claims = found.format.reader.glance(found.path)
        except TracehoundError:
            claims = Claims()
        ranks = [{"host": 0, **rank} for rank in _claimed(claims)]
        return Part(
            path=found.path,
            format=found.format.name,
            scan=pl.LazyFrame(schema=EVENTS),
            lanes=pl.DataFrame(schema=LANES),
            ranks=pl.DataFrame(ranks, schema=RANKS),
            steps=pl.DataFrame(schema=STEPS),
            ops=pl.DataFrame(schema=OPS),
            hosts=(claims.host or file_name(found.path),),
            wall_ns=None,
        )

    def parts(
        self, listen: Listener = ignore, cancelled: Callable[[], bool] = lambda: False, *, idle: bool = False
    ) -> Iterator[tuple[int, Part]]:
        """Read all files: the number of a file and its part, in the order in which they are done.

        A bad file is noted and passed over, unless no file could be read: then its error is raised. Ends early with
        CancelledError soon after `cancelled()` becomes true. `idle` says that this process has nothing else to do.
        """
        read = _Reader(self, Count(len(self.files), self.size, listen), cancelled, idle)
        good = 0
        for number, part in read.all():
            good += 1
            yield number, part
        self.notes.extend(Note("info", "not_cached", values=(("why", why),)) for why in self.workshop.troubles)
        if not good and read.failure is not None:
            raise read.failure
        if self.workshop.cache is not None and self.workshop.cache.grown:  # looking at all entries takes its time
            self.workshop.cache.trim()


class _Reader(Struct):
    """One pass over the files of an opening."""

    opening: Opening
    count: Count
    cancelled: Callable[[], bool]
    idle: bool
    failure: TracehoundError | None = None
    _waiting: list[int] = field(default_factory=list)
    _running: dict[int, Ingest] = field(default_factory=dict)

    def all(self) -> Iterator[tuple[int, Part]]:
        """Every file that can be read."""
        self._waiting = list(range(len(self.opening.files)))
        try:
            while self._waiting or self._running:
                self._check()
                if self._waiting and len(self._running) < max(1, self.opening.workshop.pool.jobs):
                    yield from self._next()
                else:
                    yield from self._advance()
        finally:
            for ingest in self._running.values():
                ingest.abandon()

    def _check(self) -> None:
        if self.cancelled():
            raise CancelledError

    def _next(self) -> Iterator[tuple[int, Part]]:
        """Begin the next file, or have it at once."""
        number = next((n for n in self._waiting if n in self.opening.wanted), self._waiting[0])
        self._waiting.remove(number)
        found, workshop = self.opening.files[number], self.opening.workshop
        self.count.tell(found.path, 0, 0)
        try:
            part = self._cached(found)
            if part is None and self.opening.devices and guessed_size(found) >= SMALL:
                alone = replace(found, devices=True)
                part = self._cached(alone)
                found = alone if part is not None or found.format.reader.apart(found.path) else found
            if part is None and not self._alone(found):
                executor, cache = workshop.pool.executor, workshop.cache
                if executor is not None and cache is not None:
                    self._running[number] = begin(found, cache, executor, workshop.pool.jobs)
                    return
            if part is None:
                part = self._read(found)
        except (CancelledError, KeyboardInterrupt):
            raise
        except (Exception, PanicException) as error:  # noqa: BLE001, one bad file must not end the others
            self._failed(number, error, workshop.cache)
        else:
            yield self._done(number, part)

    def _read(self, found: Found) -> Part:
        """Read a file in this process: in memory when it is small or there is no other place, else on disk."""
        workshop, cache, tell = self.opening.workshop, self.opening.workshop.cache, self._listener(found)
        if cache is not None and guessed_size(found) >= SMALL:
            return on_disk(found, cache, tell, workshop.pool)
        before = stamp_of(found)
        part = replace(found.format.read(found.path, tell), state=before.state)
        if cache is not None and not cache.fleeting:
            try:
                return copy(part, cache, found, before)
            except OSError as error:
                workshop.give_up(cache, error)
        return part

    def _alone(self, found: Found) -> bool:
        """Whether the file is better read here: it is small and there are no others, or must be finished here."""
        left = sum(guessed_size(self.opening.files[number]) for number in self._waiting)
        first = len(self._waiting) == len(self.opening.files) - 1
        if self.idle and len(self.opening.files) == 1 and found.format.name in FINISHED_LONG:
            return True
        return guessed_size(found) < SMALL and (first or left < SMALL) and not self._running

    def _cached(self, found: Found) -> Part | None:
        cache = self.opening.workshop.cache
        return cache.part(stamp_of(found)) if cache is not None and not cache.fleeting else None

    def _listener(self, found: Found) -> Callable[[int, int], None]:
        def tell(read: int, events: int) -> None:
            self._check()
            self.count.tell(found.path, read, events)

        return tell

    def _advance(self) -> Iterator[tuple[int, Part]]:
        """Wait a moment for the workers, tell how far they are, and take what is done."""
        pending = [future for ingest in self._running.values() for future in ingest.pending]
        wait(pending, TICK)
        for number, ingest in list(self._running.items()):
            self.count.tell(ingest.found.path, *ingest.board.read())
            try:
                ingest.advance()
            except (Exception, PanicException) as error:  # noqa: BLE001, one bad file must not end the others
                del self._running[number]
                ingest.abandon()
                self._failed(number, error, ingest.cache)
                continue
            if ingest.part is not None:
                del self._running[number]
                yield self._done(number, ingest.part)

    def _done(self, number: int, part: Part) -> tuple[int, Part]:
        found = self.opening.files[number]
        self.count.finish(found.path, found.size, int(part.lanes["events"].sum()))
        return number, part

    def _failed(self, number: int, error: BaseException, cache: Cache | None) -> None:
        """Try a file again elsewhere when the disk of this cache is to blame; else pass it over, with a note."""
        found = self.opening.files[number]
        if isinstance(error, OSError) and cache is not None:
            self.opening.workshop.give_up(cache, error)
            self._waiting.insert(0, number)
            return
        if isinstance(error, BrokenExecutor):
            why = "a worker process was killed while it read this; is there enough memory? --jobs 1 takes less"
            error = TracehoundError(why, found.path)
        elif starved(error):
            why = "not enough memory to read it; --jobs 1 takes less, and ulimit -v says whether it is limited"
            error = TracehoundError(why, found.path)
        elif not isinstance(error, TracehoundError):
            error = TracehoundError(f"cannot be read: {type(error).__name__}: {error}", found.path)
        self.failure = error
        self.opening.notes.append(
            Note("dropped", "file_not_read", file=str(found.path), values=(("why", error.message),))
        )
        self.count.finish(found.path, found.size, 0)


def open_paths(
    paths: Sequence[Path | str],
    run: str | None = None,
    workshop: Workshop | None = None,
    look: Callable[[int], None] = silent,
) -> Opening:
    """Find the files of the trace under `paths`; nothing is decoded yet.

    `look` is told how many files were looked at so far, and may end that by raising. Without a workshop all is read in
    this process and held in memory. Raises TracehoundError when there is no trace.
    """
    named = [Path(path) for path in paths]
    found = find(named, run, look)
    used = {path.resolve(): path for path in named if path not in found.empty}
    return Opening(_name(list(used.values())), found.files, list(found.notes), workshop or in_memory())


def load(opening: Opening, listen: Listener = ignore) -> Trace:
    """Read every file and place them on one clock."""
    parts = dict(opening.parts(listen, idle=True))
    return opening.settled([parts[number] for number in sorted(parts)])


_LABEL = re.compile(r"[A-Z]+:(\d{1,9})")


def _claimed(claims: Claims) -> list[dict[str, object]]:
    """The ranks of a file by its `glance`: one for each labelled device, else the one that it claims to be."""
    labelled = [(name, int(match[1])) for name in claims.devices if (match := _LABEL.fullmatch(name))]
    if labelled:
        return [{"label": name, "device": device} for name, device in labelled]
    return [{"rank": claims.rank, "model": claims.devices[0] if len(set(claims.devices)) == 1 else None}]


def args(trace: Trace, event: int, read: Section = section) -> dict[str, Any]:
    """Everything that the event carries in its file, decoded now: the values are as untrusted as the file.

    `read` gives bytes of files; that of `Sections` is fast for large gzip files. Raises TracehoundError where the file
    is gone, or has changed since it was read.
    """
    part = trace.parts[part_of(event)]
    for candidate in FORMATS:
        if candidate.name == part.format:
            record, reader = trace.event(event)["record"], candidate.reader
            return reader.args(unsealed(part, reader.places), record, read) if record is not None else {}
    raise KeyError(part.format)


def _name(paths: Sequence[Path]) -> str:
    first = paths[0].resolve()
    name = first.name or str(first)
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"
