"""Frames of several files merged into one Trace: one clock, and one numbering of hosts, ranks, lanes and steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.errors import path_text, printable
from tracehound.model.ids import MAX_ROWS
from tracehound.model.notes import Note, note, other_files_text
from tracehound.model.stacked_frames import StackedFrames
from tracehound.model.trace import (
    LANES,
    OPS,
    RANKS,
    STEPS,
    FileFrames,
    Host,
    MergedFile,
    Trace,
    shift_step_numbers,
)
from tracehound.numeric.intervals import Ints
from tracehound.store.common_clock import FILES_APART, WALL_CLOCK, ClockAlignment, are_near_in_time, make_common_clock
from tracehound.store.data_parallel import ranks_of_engines
from tracehound.store.rank_numbers import (
    DEVICES_DIFFER,
    RANKS_CLAIMED_TWICE,
    RANKS_NOT_RECORDED,
    RankNumbers,
    number_ranks,
)


def merge_file_frames(
    name: str, parts: Sequence[FileFrames], notes: Sequence[Note] = (), alignment: ClockAlignment = WALL_CLOCK
) -> Trace:
    """The trace of these files. Any subset of a trace's files can be merged: a trace grows while it is read."""
    parts, host_notes = _drop_ranks_without_device(parts)
    clock = make_common_clock(parts, alignment)
    numbering = number_ranks(parts)
    hosts = tuple(Host(host, index) for index, part in enumerate(parts) for host in part.hosts)
    names = _distinct_file_names([part.path for part in parts])
    merge = _FrameMerge.prepare(parts, numbering, clock.shifts)
    steps = merge.steps()
    first_steps = first_step_numbers(steps)
    all_notes = [
        *(_printable_note(note) for note in notes),
        *(_add_note_file(note, name) for part, name in zip(parts, names, strict=True) for note in part.notes),
        *_name_note_files([*host_notes, *clock.notes, *numbering.notes], parts, names),
    ]
    return Trace(
        name=name,
        parts=tuple(parts),
        hosts=hosts,
        files=tuple(
            MergedFile(
                part, index, dict(enumerate(numbers)), shift, {n: first_steps[n] for n in numbers if n in first_steps}
            )
            for index, (part, numbers, shift) in enumerate(zip(parts, numbering.numbers, clock.shifts, strict=True))
        ),
        lanes=_sort_lanes(merge.lanes()),
        ranks=merge.ranks().sort("rank"),
        steps=steps.with_columns(shift_step_numbers(first_steps)) if first_steps else steps,
        ops=merge.ops(),
        origin_ns=clock.origin_ns,
        notes=tuple(all_notes),
        engine_ranks=ranks_of_engines(parts, numbering.numbers),
    )


def _drop_ranks_without_device(parts: Sequence[FileFrames]) -> tuple[list[FileFrames], list[Note]]:
    """The files, without ranks where a host of XLA recorded no device and other files have devices; and a note on it.

    A file alone has a rank without a device, so that its host can be shown.
    """
    lacking = [part.format in _XLA_FORMATS and part.ranks["device"].null_count() == part.ranks.height for part in parts]
    if all(lacking) or not any(lacking):
        return list(parts), []
    no_ranks = pl.DataFrame(schema=RANKS)
    kept = [part.with_frames(ranks=no_ranks) if lacks else part for part, lacks in zip(parts, lacking, strict=True)]
    files = [str(part.path) for part, lacks in zip(parts, lacking, strict=True) if lacks]
    return kept, [Note("missing", "hosts_without_device", len(files), files[0], other_files_text(len(files)))]


_XLA_FORMATS: Final = ("xplane", "chrome")


class _FrameMerge(Struct, frozen=True):
    """The small frames of all files as frames of the trace: each kind at once, since a query costs more than its rows.

    By file: `shifts` to the common clock, `first_hosts`, and `first_ranks`, the position of its first rank in
    `numbers`, which has the number of each rank of all files; `inferred` says which of these are inferred.
    """

    parts: Sequence[FileFrames]
    shifts: Ints
    first_hosts: Ints
    first_ranks: Ints
    numbers: Ints
    inferred: Sequence[bool]

    @classmethod
    def prepare(cls, parts: Sequence[FileFrames], numbering: RankNumbers, shifts: Sequence[int]) -> _FrameMerge:
        """The merge of these files, with the numbers of their ranks and the shifts of their clocks."""
        return cls(
            parts,
            np.array(shifts, np.int64),
            _starts([len(part.hosts) for part in parts]),
            _starts([len(numbers) for numbers in numbering.numbers]),
            np.array([number for numbers in numbering.numbers for number in numbers], np.int64),
            [inferred for each in numbering.inferred for inferred in each],
        )

    def lanes(self) -> pl.DataFrame:
        """The lanes of all files."""
        return self._merge("lanes", LANES, ids=("lane",), times=("first", "last"))

    def steps(self) -> pl.DataFrame:
        """The steps of all files, as these number them."""
        return self._merge("steps", STEPS, ids=("event",), times=("start", "end"))

    def ops(self) -> pl.DataFrame:
        """The ops of all files."""
        return self._merge("ops", OPS, ids=("op",))

    def ranks(self) -> pl.DataFrame:
        """The ranks of all files."""
        frames = StackedFrames((part.ranks for part in self.parts), RANKS)
        if not frames:
            return pl.DataFrame(schema=RANKS)
        hosts = np.repeat(self.first_hosts, frames.heights)
        return (
            pl.concat(frames.stacks())
            .with_columns(
                pl.Series("rank", self.numbers, pl.Int32),
                pl.col("host") + hosts,
                pl.Series("inferred", self.inferred, pl.Boolean),
            )
            .cast(RANKS)
        )

    def _merge(self, name: str, schema: pl.Schema, *, ids: Sequence[str], times: Sequence[str] = ()) -> pl.DataFrame:
        """The rows of all files in one of their frames, with ids, times, hosts and ranks of the trace."""
        frames = StackedFrames((part.small_frames[name] for part in self.parts), schema)
        if not frames:
            return pl.DataFrame(schema=schema)
        files = np.repeat(np.arange(len(frames), dtype=np.int64), frames.heights)
        columns = [pl.col(name) + pl.Series(files * MAX_ROWS) for name in ids]
        columns += [pl.col(name) + pl.Series(self.shifts[files]) for name in times]
        if "host" in schema:
            columns.append(pl.col("host") + pl.Series(self.first_hosts[files]))
        if "rank" in schema:
            row = pl.col("rank").cast(pl.Int64) + pl.Series(self.first_ranks[files])
            columns.append(pl.lit(pl.Series(self.numbers, dtype=pl.Int64)).gather(row).alias("rank"))
        return pl.concat(frames.stacks()).with_columns(columns).cast(schema)


def _starts(counts: Sequence[int]) -> Ints:
    """The position of the first of each group of items, of groups that follow one another."""
    return np.cumsum([0, *counts[:-1]]) if counts else np.zeros(0, np.int64)


def _sort_lanes(lanes: pl.DataFrame) -> pl.DataFrame:
    """The lanes sorted by host: first those of its ranks, device by device, then its threads."""
    return lanes.sort("host", pl.col("rank").is_null(), "rank", "role", "order", "lane")


def _distinct_file_names(paths: Sequence[Path]) -> list[str]:
    """The name of each file, with as many parent folders as make it distinct."""
    tails = [path.parts for path in paths]
    unsettled, size = list(range(len(paths))), 1
    while unsettled:
        shared = Counter(paths[at].parts[-size:] for at in unsettled)
        for at in unsettled:
            tails[at] = paths[at].parts[-size:]
        unsettled = [at for at in unsettled if shared[tails[at]] > 1 and size < len(paths[at].parts)]
        size += 1
    return [printable(str(Path(*tail))) for tail in tails]


def _name_note_files(notes: Sequence[Note], parts: Sequence[FileFrames], names: Sequence[str]) -> list[Note]:
    """Notes about paths of the trace, with the distinct names of these files."""
    name_of = {str(part.path): name for part, name in zip(parts, names, strict=True)}
    return [_printable_note(replace(note, file=name_of.get(note.file, note.file))) for note in notes]


def _add_note_file(note: Note, name: str) -> Note:
    """The note with the distinct name of its file."""
    return _printable_note(replace(note, file=note.file or name))


def _printable_note(note: Note) -> Note:
    return replace(note, file=printable(path_text(note.file)), where=printable(note.where))


MIN_NEAR_SHARE: Final = 0.5
"""Of the executions that two ranks share, this fraction must start within half a step of each other."""

_RUN_COLUMNS: Final = ("name", "run")


def first_step_numbers(steps: pl.DataFrame) -> dict[int, int]:
    """The number of the first inferred step of each rank, if that is not 0; `steps` is the frame of the trace.

    Hosts may begin to record some steps apart. Steps of two ranks match if they are executions of one program with one
    run_id; the rank that begins first gives the numbers. A rank keeps its own numbers if its matches imply different
    offsets, or if the matching executions are at different times. The first step of all is step 0.
    """
    executions = steps.filter(pl.col("rank").is_not_null(), pl.col("run").is_not_null())
    unique = executions.filter(pl.len().over("rank", *_RUN_COLUMNS) == 1)
    if unique["rank"].n_unique() < 2:
        return {}
    earliest_rank = unique.filter(pl.col("start") == pl.col("start").min())["rank"].min()
    first = unique.filter(pl.col("rank") == earliest_rank)
    same = unique.join(first.select(*_RUN_COLUMNS, "step", "start", "end"), on=_RUN_COLUMNS, suffix="_first")
    near = 2 * (pl.col("start") - pl.col("start_first")).abs() < pl.col("end_first") - pl.col("start_first")
    behind = (pl.col("step_first") - pl.col("step")).cast(pl.Int64)
    found = same.group_by("rank").agg(
        behind.first().alias("behind"), (behind.n_unique() == 1).alias("agrees"), near.mean().alias("near")
    )
    known = dict(found.filter("agrees", pl.col("near") >= MIN_NEAR_SHARE).select("rank", "behind").rows())
    before = min(known.values(), default=0)
    return {rank: behind - before for rank, behind in known.items() if behind != before}


def not_one_run_note(trace: Trace, ranks: Sequence[int] | None = None) -> Note | None:
    """A note that the files of these ranks (None: all) are probably not of one run, and why; None if they may be.

    Their times do not overlap, or their devices differ, and at least one of them has no rank recorded, or that of
    another one.
    """
    chosen = trace.ranks if ranks is None else trace.ranks.filter(pl.col("rank").is_in(list(ranks)))
    parts = [trace.parts[at] for at in {trace.hosts[host].part for host in chosen["host"]}]
    codes = {note.code for note in trace.notes}
    apart = FILES_APART in codes and not _wall_clocks_near(parts)
    unlike = DEVICES_DIFFER in codes and chosen["model"].drop_nulls().n_unique() > 1
    doubtful = chosen["inferred"].any() and not codes.isdisjoint((RANKS_NOT_RECORDED, *RANKS_CLAIMED_TWICE))
    if not (apart or unlike) or not doubtful:
        return None
    return note("hardly_one_run", apart=apart, unlike=unlike)


def _wall_clocks_near(parts: Sequence[FileFrames]) -> bool:
    """True if the chosen files are near in time by the wall clock that they all have."""
    spans = [(span, wall * 1000) for part in parts if (span := part.time_range) and (wall := part.wall_ns) is not None]
    return len(spans) < 2 or are_near_in_time(sorted((low + wall, high + wall) for (low, high), wall in spans))
