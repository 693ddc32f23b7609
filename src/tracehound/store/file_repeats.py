"""Files that repeat others, told by their events once they are read, and left out before anything is counted.

A copy, a file made from another one (with counters, an overlay, some of its events) and a file merged of several ranks'
have events of the same processes at the same times. Other recordings of a process have its later or earlier events. An
XLA host that recorded neither events nor devices is no rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.model.notes import Note
from tracehound.model.trace import CPU_LABEL, EVENTS, FileFrames, collect_frame, small_frames
from tracehound.store.file_copies import is_link
from tracehound.store.file_names import name_different_processes, original_sort_key, process_words
from tracehound.store.recordings import RecordedFile, find_recordings, left_out_paths
from tracehound.store.trace_files import RANK_PER_FILE_FORMAT

MIN_COMPARED, MAX_COMPARED, MAX_SEARCHED = 4, 256, 1 << 16
"""Events of a lane that are compared, and events of the other file among which they are looked for."""

MAX_ROUNDING: Final = 1_000_000
"""Times that differ by less (ps) are equal: a program that writes a file anew rounds them."""

MIN_SHARED: Final = 0.9
"""Of the compared events of a file this fraction is in the file that it repeats."""


def leave_out_repeats(parts: Sequence[FileFrames], listed: Collection[Path]) -> list[FileFrames]:
    """The files, those that repeat others without their events and with a note instead; the order stays.

    Only files `listed` in folders are left out as other recordings: a user who names several wants all of them.
    """
    kept = list(parts)
    if len(parts) > 1:
        for at, note in (*_find_copies(parts), *_find_empty_hosts(parts)):
            kept[at] = _without_events(parts[at], [note])
        left, notes = _find_other_recordings([part for part in kept if part.path in listed])
        for at, part in enumerate(kept):
            if part.path in left:
                kept[at] = _without_events(part, notes)
                notes = []
    return kept


def _without_events(part: FileFrames, notes: Sequence[Note]) -> FileFrames:
    """A file without anything but its path, its size and these notes."""
    return FileFrames(
        path=part.path,
        format=part.format,
        make_scan=partial(pl.LazyFrame, schema=EVENTS),
        small_frames=small_frames(),
        hosts=(),
        wall_ns=None,
        notes=tuple(notes),
        state=part.state,
    )


def _find_empty_hosts(parts: Sequence[FileFrames]) -> Iterator[tuple[int, Note]]:
    """XLA files without events and devices, beside files with some."""
    for at, part in enumerate(parts):
        empty = part.format == "xplane" and part.lanes.is_empty() and part.state is not None
        labels = part.ranks["label"].drop_nulls() if empty else ()
        if empty and all(label.startswith(CPU_LABEL) for label in labels) and any(len(one.lanes) for one in parts):
            yield at, Note("missing", "host_without_events")


def _find_other_recordings(parts: Sequence[FileFrames]) -> tuple[Mapping[Path, None], list[Note]]:
    """The files of other recordings than the one to open, and notes about them."""
    single = [part for part in parts if part.facts.processes and len(part.hosts) == 1]
    if len({_process_of(part) for part in single}) == len(single):
        return {}, []
    recordings = find_recordings([_recorded_file(part) for part in single])
    return left_out_paths(recordings, None) if recordings else ({}, [])


def _process_of(part: FileFrames) -> Hashable:
    """A key that files of one process have in common."""
    return part.path.parent, part.facts.rank, part.hosts, process_words(part.path)


def _recorded_file(part: FileFrames) -> RecordedFile:
    process, span = _process_of(part), part.time_range
    if span is None or part.wall_ns is None:
        return RecordedFile(part.path, process)
    start, end = (part.wall_ns + time // 1000 for time in span)
    return RecordedFile(part.path, process, start, end, wall=True)


class _RankWork(Struct, frozen=True):
    """The work of one rank in a file: its busiest lanes' events and lengths, by stream or thread."""

    part: int
    rank: int | None
    device: int | None
    lanes: pl.DataFrame
    lengths: Counter[tuple[object, ...]]


def _find_copies(parts: Sequence[FileFrames]) -> Iterator[tuple[int, Note]]:
    """Files all of whose ranks are in other files, with a note each; of equal files all but the original."""
    work = {at: list(_work_of_ranks(at, parts[at])) for at in _possible_copies(parts)}
    left = set[int]()
    for at in sorted(work, key=lambda at: _originality(parts[at])):
        others = [one for other, each in work.items() if other != at and other not in left for one in each]
        originals = [next((other for other in others if _repeats(one, other, parts)), None) for one in work[at]]
        if originals and all(originals):
            left.add(at)
            original = next(one for one in originals if one is not None)
            yield at, Note("info", "copies_left_out", values=(("original", parts[original.part].path.name),))


def _possible_copies(parts: Sequence[FileFrames]) -> list[int]:
    """The files of a process that is in several files, and merged files with those of their processes."""
    files = [at for at, part in enumerate(parts) if part.format == RANK_PER_FILE_FORMAT and len(part.lanes)]
    processes = {at: parts[at].facts.processes for at in files}
    merged = [at for at in files if _is_merged(parts[at])]
    count = Counter((parts[at].facts.rank, process) for at in files for process in processes[at])
    return [
        at
        for at in files
        if at in merged
        or any(count[parts[at].facts.rank, process] > 1 for process in processes[at])
        or any(_share_a_process(processes[at], processes[other], merged=True) for other in merged)
    ]


def _originality(part: FileFrames) -> tuple[bool, bool, int, int, str]:
    """A sort key by which copies come before their originals."""
    derived, length, name = original_sort_key(part.path)
    events = int(part.lanes["events"].sum())
    return not _is_merged(part), not derived, events, -length, name


def _is_merged(part: FileFrames) -> bool:
    """True if a file is of several processes, or of several devices without any process."""
    return len(part.hosts) > 1 or (len(part.facts.processes) != 1 and part.ranks.height > 1)


def _work_of_ranks(at: int, part: FileFrames) -> Iterator[_RankWork]:
    """The work of each rank of a file: lanes of its device, else of the threads of its host."""
    for row, (rank, host, device) in enumerate(part.ranks.select("rank", "host", "device").iter_rows()):
        busy = part.lanes.filter(pl.col("events") > 0)
        lanes = busy.filter("work", pl.col("rank") == row)
        lanes = lanes if lanes.height else busy.filter(pl.col("host") == host, pl.col("role") == "thread")
        lanes = lanes.with_columns(length=pl.col("last") - pl.col("first"))
        lengths = Counter(lanes.select("stream", "events", "length").iter_rows())
        if lengths:
            yield _RankWork(at, rank, device, lanes, lengths)


def _repeats(one: _RankWork, other: _RankWork, parts: Sequence[FileFrames]) -> bool:
    """True if the work of one rank is in the work of another one, of the same process."""
    first, second = parts[one.part], parts[other.part]
    if not _may_be_one_rank(one, other, parts) or is_link(first.path, second.path):
        return False
    walls = (first.wall_ns, second.wall_ns)
    shift = None if walls[0] is None or walls[1] is None else (walls[0] - walls[1]) * 1000
    if one.lengths <= other.lengths and first.facts.processes and second.facts.processes:
        return shift is None or abs(_first_time(one) + shift - _first_time(other, of=one)) <= MAX_ROUNDING
    return _has_events_of(one, other, parts, shift)


def _may_be_one_rank(one: _RankWork, other: _RankWork, parts: Sequence[FileFrames]) -> bool:
    """True unless what two files record, or their names, tell ranks apart. Merging changes names and drops facts."""
    first, second = parts[one.part], parts[other.part]
    merged = _is_merged(first) or _is_merged(second)
    known = ((one.rank, other.rank), (one.device, other.device))
    if any(None not in pair and pair[0] != pair[1] for pair in known):
        return False
    if not merged and (one.rank, first.facts.machine) != (other.rank, second.facts.machine):
        return False
    named_apart = not merged and name_different_processes(first.path, second.path)
    return not named_apart and _share_a_process(first.facts.processes, second.facts.processes, merged=merged)


def _first_time(work: _RankWork, of: _RankWork | None = None) -> int:
    """The first start on the lanes of a rank, of those that another one has, too."""
    lanes = work.lanes if of is None else work.lanes.join(of.lanes, on=["stream", "events", "length"], nulls_equal=True)
    return int(lanes["first"].to_numpy().min())


def _share_a_process(one: Sequence[str], other: Sequence[str], *, merged: bool) -> bool:
    """True if a process is in both files; merging may put digits before its id, or leave out events of processes."""
    if not merged:
        return not set(one).isdisjoint(other)
    return not one or not other or any(a.endswith(b) or b.endswith(a) for a in one for b in other)


def _has_events_of(one: _RankWork, other: _RankWork, parts: Sequence[FileFrames], shift: int | None) -> bool:
    """True if the first events of the busiest lane of one rank are in the same lane of another rank.

    The names and lengths of events must be equal, and their starts with this `shift` (ps) if it is known, else with any
    shift that is the same for all.
    """
    row = one.lanes.sort("events", descending=True).row(0, named=True)
    same = other.lanes.filter(pl.col("stream").eq_missing(row["stream"]), pl.col("events") >= row["events"])
    if row["events"] < MIN_COMPARED or same.is_empty():
        return False
    events = _first_events(parts[one.part], row["lane"], MAX_COMPARED)
    found = _first_events(parts[other.part], same["lane"][0], MAX_SEARCHED)
    matches = events.join(found, on=["name", "length"], suffix="_other")
    if matches.is_empty():
        return False
    shifts = matches.select((pl.col("start_other") - pl.col("start")).alias("shift"), "start").unique()
    if shift is not None:
        shifts = shifts.filter((pl.col("shift") - shift).abs() <= MAX_ROUNDING)
    return (
        shifts.height > 0 and int(shifts.group_by("shift").len()["len"].to_numpy().max()) >= MIN_SHARED * events.height
    )


def _first_events(part: FileFrames, lane: int, count: int) -> pl.DataFrame:
    rows = part.scan.filter(pl.col("lane") == lane).select("name", "start", "end").head(count)
    return collect_frame(rows).select(pl.col("name").cast(pl.String), "start", length=pl.col("end") - pl.col("start"))
