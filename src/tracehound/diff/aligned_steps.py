"""Two steps, one of either run, with matched ops in common slots: two small traces on one clock.

No time passes between slots, and a slot lasts as long as the longer of its two ops. Ops are matched by a longest common
subsequence: Myers' greedy algorithm ("An O(ND) difference algorithm and its variations", 1986), in which all diagonals
of a round are one array. Sequences that differ in almost everything are aligned as patience diff does, by the longest
chain of elements that occur for the same time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.rank_trace import rank_traces
from tracehound.diff.op_identity import IDENTITY_COLUMNS, compared_events, identify_ops
from tracehound.model.short_names import shorten_kernel_name
from tracehound.model.trace import (
    EVENTS,
    LANES,
    OPS,
    RANKS,
    FileFrames,
    Host,
    MergedFile,
    Trace,
    Window,
    collect_frame,
    small_frames,
)
from tracehound.numeric.intervals import Ints

MAX_EDITS: Final = 1_000
"""Up to so many differences, an optimal alignment is found in one search. Longer alignments are made of several
searches, each ending at the farthest point that so many differences reach: still a common subsequence, perhaps not a
longest one."""

MAX_PIECES: Final = 3
"""So many searches at most; the rest of the sequences is aligned by chains."""

UNALIGNED: Final = -1


class SequenceAlignment(NamedTuple):
    """Slots in order: the element of either sequence in each, `UNALIGNED` where only the other has one."""

    baseline: Ints
    candidate: Ints


def align_sequences(baseline: Ints, candidate: Ints) -> SequenceAlignment:
    """The alignment: equal elements share a slot, as many as possible; of others those of the baseline come first.

    Keys are less than 2**31. Up to `MAX_EDITS` differences no alignment matches more.
    """
    ours, theirs = (
        np.flatnonzero(np.isin(one, another)) for one, another in ((baseline, candidate), (candidate, baseline))
    )
    x, y = _common_subsequence(baseline[ours], candidate[theirs])
    return _slots_of_matches(ours[x], theirs[y], len(baseline), len(candidate))


def _slots_of_matches(x: Ints, y: Ints, baseline: int, candidate: int) -> SequenceAlignment:
    """The slots of matches (rising in both), and of all elements between them."""
    x, y = np.append(x, baseline), np.append(y, candidate)
    before_x, before_y = np.diff(x, prepend=-1) - 1, np.diff(y, prepend=-1) - 1
    at = np.cumsum(before_x + before_y + 1) - 1  # the slot of each match
    ours, theirs = np.full(int(at[-1]), UNALIGNED), np.full(int(at[-1]), UNALIGNED)
    ours[at[:-1]], theirs[at[:-1]] = x[:-1], y[:-1]
    alone = np.setdiff1d(np.arange(baseline), x)
    follows = np.searchsorted(x, alone)
    ours[at[follows] - before_y[follows] - (x[follows] - alone)] = alone
    alone = np.setdiff1d(np.arange(candidate), y)
    follows = np.searchsorted(y, alone)
    theirs[at[follows] - (y[follows] - alone)] = alone
    return SequenceAlignment(ours, theirs)


def _common_subsequence(baseline: Ints, candidate: Ints) -> tuple[Ints, Ints]:
    """Positions of a common subsequence in both."""
    found: list[_MatchRun] = []
    x, y = 0, 0
    for _ in range(MAX_PIECES):
        found += [
            _MatchRun(x + run.x, y + run.y, run.length) for run in _shortest_edit_runs(baseline[x:], candidate[y:])
        ]
        x, y = found[-1].x + found[-1].length, found[-1].y + found[-1].length
    start, along, length = np.array(found, np.int64).T
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    ours, theirs = _longest_chain(baseline[x:], candidate[y:])
    return (
        np.concatenate([np.repeat(start, length) + within, x + ours]),
        np.concatenate([np.repeat(along, length) + within, y + theirs]),
    )


def _longest_chain(baseline: Ints, candidate: Ints) -> tuple[Ints, Ints]:
    """The longest chain, rising in both, of elements that occur for the same time."""
    one, another = (baseline << 32) + _occurrence_numbers(baseline), (candidate << 32) + _occurrence_numbers(candidate)
    _, ours, theirs = np.intersect1d(one, another, assume_unique=True, return_indices=True)
    order = np.argsort(ours)
    ours, theirs = ours[order], theirs[order]
    ends: list[int] = []  # the least end of a chain of each length, and what it ends with
    last, before = list[int](), np.full(len(theirs), UNALIGNED)
    for at, place in enumerate(theirs.tolist()):
        length = bisect_left(ends, place)
        before[at] = last[length - 1] if length else UNALIGNED
        ends[length : length + 1], last[length : length + 1] = [place], [at]
    chain = np.zeros(len(last), np.int64)
    at = last[-1] if last else UNALIGNED
    for number in range(len(last) - 1, -1, -1):
        chain[number], at = at, int(before[at])
    return ours[chain], theirs[chain]


def _occurrence_numbers(keys: Ints) -> Ints:
    """The number of earlier occurrences of each element."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    times = np.empty(len(keys), np.int64)
    times[order] = np.arange(len(keys)) - np.repeat(first, np.diff(np.append(first, len(keys))))
    return times


class _MatchRun(NamedTuple):
    """Consecutive matches, from a position in both."""

    x: int
    y: int
    length: int


class _EditRound(NamedTuple):
    """The farthest points with a given number of differences, on each diagonal ``x - y``, from the lowest, by twos.

    `begin` is x behind the last difference, `end` x behind the matches that follow it; `_UNREACHABLE` where no path
    leads.
    """

    begin: Ints
    end: Ints

    @property
    def diagonal(self) -> Ints:
        """``x - y`` of each point."""
        return np.arange(-len(self.end) + 1, len(self.end), 2)


_UNREACHABLE: Final = -(1 << 40)


def _shortest_edit_runs(baseline: Ints, candidate: Ints) -> list[_MatchRun]:
    """Runs of matches from the beginning of both to their ends, or as far as `MAX_EDITS` differences lead."""
    start = np.zeros(1, np.int64)
    rounds = [_EditRound(start, _match_lengths(baseline, candidate, start, start))]
    while True:
        reach, diagonal = rounds[-1].end, rounds[-1].diagonal
        done = (reach >= len(baseline)) & (reach - diagonal >= len(candidate))
        if done.any():
            return _trace_runs_back(rounds, int(done.argmax()))
        if len(rounds) > MAX_EDITS:
            return _trace_runs_back(rounds, int((2 * reach - diagonal).argmax()))
        rounds.append(_next_edit_round(baseline, candidate, rounds[-1]))


def _next_edit_round(baseline: Ints, candidate: Ints, before: _EditRound) -> _EditRound:
    """One more difference, an element of the baseline (right) or of the candidate (down), and the matches behind it."""
    reach = before.end
    right = np.concatenate([[_UNREACHABLE], np.where(reach < len(baseline), reach + 1, _UNREACHABLE)])
    down = np.concatenate([np.where(reach - before.diagonal < len(candidate), reach, _UNREACHABLE), [_UNREACHABLE]])
    begin = np.maximum(right, down)
    diagonal = np.arange(-len(reach), len(reach) + 1, 2)
    inside = np.flatnonzero(begin >= 0)
    end = begin.copy()
    end[inside] += _match_lengths(baseline, candidate, begin[inside], begin[inside] - diagonal[inside])
    return _EditRound(begin, end)


def _trace_runs_back(rounds: list[_EditRound], at: int) -> list[_MatchRun]:
    """The runs on the path to index `at` of the last round, the first one first."""
    runs = list[_MatchRun]()
    for edits in range(len(rounds) - 1, -1, -1):
        begin, end = int(rounds[edits].begin[at]), int(rounds[edits].end[at])
        runs.append(_MatchRun(begin, begin - (2 * at - edits), end - begin))
        came_down = edits > at and rounds[edits - 1].end[at] == begin
        at = at if came_down else at - 1
    return runs[::-1]


def _match_lengths(baseline: Ints, candidate: Ints, x: Ints, y: Ints) -> Ints:
    """The number of equal elements from each of these pairs of positions on."""
    length = np.zeros(len(x), np.int64)
    left = np.flatnonzero((x < len(baseline)) & (y < len(candidate)))
    for _ in range(_VECTOR_ROUNDS):
        if not len(left):
            return length
        left = left[baseline[x[left] + length[left]] == candidate[y[left] + length[left]]]
        length[left] += 1
        left = left[(x[left] + length[left] < len(baseline)) & (y[left] + length[left] < len(candidate))]
    for at in left.tolist():
        length[at] += _match_length(baseline[x[at] + length[at] :], candidate[y[at] + length[at] :])
    return length


_VECTOR_ROUNDS: Final = 8
"""Longer runs are measured one by one, in growing blocks."""


def _match_length(baseline: Ints, candidate: Ints) -> int:
    """The number of equal elements from the beginning on."""
    size, done = 64, 0
    while True:
        one, another = baseline[done : done + size], candidate[done : done + size]
        both = min(len(one), len(another))
        unlike = np.flatnonzero(one[:both] != another[:both])
        if len(unlike):
            return done + int(unlike[0])
        done += both
        if both < size:
            return done
        size *= 4


SLOT_KINDS: Final = ("the same", "slower", "faster", "added", "removed")
"""States of an op, in the words of the tables; the `ops` frame has a row for each."""
_SAME, _SLOWER, _FASTER, _ADDED, _REMOVED = range(len(SLOT_KINDS))

_UNLIKE_KINDS: Final = ((_REMOVED,), (_SLOWER, _FASTER, _ADDED))
"""The run in which each changed op is visited: ops of both runs once, others in the run that has them."""

NOTICEABLE_CHANGE: Final = 0.1
"""An op is slower or faster if it takes this share of the shorter one more or less: single executions vary."""

SIDE_SIGNS: Final = ("- ", "+ ")
"""Signs in front of the names of ops that only one run has: the baseline, the candidate."""


class StepInterval(Struct, frozen=True):
    """An interval of one rank of a trace."""

    rank: int
    start: int
    end: int


class AlignedSteps(Struct, frozen=True, eq=False):
    """Both steps as traces on one clock, which is no wall clock; `origins` has the id of each event in its own trace.

    `counts` is the number of slots of each of `SLOT_KINDS`.
    """

    traces: tuple[Trace, Trace]
    origins: tuple[Ints, Ints]
    counts: tuple[int, ...]

    def next_changed_op(self, time: int, direction: int) -> tuple[int, int] | None:
        """The next (1) or previous (-1) changed op after an instant: its side and event; None for none.

        An op of both runs is found in the candidate. The instant of an op is its middle.
        """
        middle = (pl.col("start") + pl.col("end")) // 2
        sides = [
            collect_frame(
                trace.frames[0]
                .filter(pl.col("op").is_in(wanted))
                .select("id", middle.alias("at"), pl.lit(side).alias("side"))
            )
            for side, (trace, wanted) in enumerate(zip(self.traces, _UNLIKE_KINDS, strict=True))
        ]
        rows = pl.concat(sides).sort("at", "id")
        rows = rows.filter(pl.col("at") > time) if direction > 0 else rows.filter(pl.col("at") < time).reverse()
        found = rows.select("side", "id").head(1).rows()
        return (int(found[0][0]), int(found[0][1])) if found else None


def align_steps(
    traces: tuple[Trace, Trace], places: tuple[StepInterval, StepInterval], keys: tuple[pl.DataFrame, pl.DataFrame]
) -> AlignedSteps:
    """Two steps side by side, lane by lane; `keys` has the matches of ops (see `Comparison.keys`)."""
    ours, theirs = (_ops_of_step(*each) for each in zip(traces, places, keys, strict=True))
    lanes = _pair_lanes(_lanes_with_ops(traces[0], ours), _lanes_with_ops(traces[1], theirs))
    baseline, candidate = [_EMPTY_SLOTS], [_EMPTY_SLOTS]
    for number, (one, another) in enumerate(lanes):
        rows = _place_on_common_clock(ours.filter(lane=one), theirs.filter(lane=another))
        baseline.append(rows[0].with_columns(pl.lit(number, pl.Int64).alias("lane")))
        candidate.append(rows[1].with_columns(pl.lit(number, pl.Int64).alias("lane")))
    events = pl.concat(baseline), pl.concat(candidate)
    end = int(np.max([1, *(each["end"].to_numpy().max(initial=1) for each in events)]))
    names = [_lane_names(trace, [pair[side] for pair in lanes]) for side, trace in enumerate(traces)]
    kinds = pl.concat([events[0]["op"], events[1].filter(op=_ADDED)["op"]])
    return AlignedSteps(
        (
            _trace_of_slots(traces[0], places[0], events[0], names[0], end),
            _trace_of_slots(traces[1], places[1], events[1], names[1], end),
        ),
        (events[0]["origin"].to_numpy(), events[1]["origin"].to_numpy()),
        tuple(int((kinds == kind).sum()) for kind in range(len(SLOT_KINDS))),
    )


_SLOT_SCHEMA: Final = {
    "start": pl.Int64(), "end": pl.Int64(), "name": pl.String(), "kind": EVENTS["kind"], "op": pl.Int64(),
    "origin": pl.Int64(),
}  # fmt: skip
_EMPTY_SLOTS: Final = pl.DataFrame(schema={**_SLOT_SCHEMA, "lane": pl.Int64()})


def _ops_of_step(trace: Trace, place: StepInterval, keys: pl.DataFrame) -> pl.DataFrame:
    """The innermost ops that begin in an interval, in order: id, lane, length, name, kind, and key (the op's match)."""
    (rank_trace,) = rank_traces(trace, Window(place.start, place.end, (place.rank,)))
    every, _ = compared_events(rank_trace)
    events = every.filter(pl.col("start").is_between(place.start, place.end, closed="left"))
    found = identify_ops(events, rank_trace)
    key = found.ops.join(keys, on=IDENTITY_COLUMNS, how="left", maintain_order="left")["match"]
    unknown = -1 - pl.Series(np.arange(len(key)))
    shown = events.with_columns(
        key.fill_null(unknown).gather(pl.Series(found.row)).alias("key"),
        pl.col("name").cast(pl.String).fill_null(""),
        (pl.col("end") - pl.col("start")).alias("length"),
    )
    outer = shown["parent"].drop_nulls().unique().to_list()
    return shown.filter(~pl.col("id").is_in(outer)).sort("lane", "start", "id")


def _lanes_with_ops(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """The lanes that have ops, those with most time first: lane, name."""
    time = found.group_by("lane").agg(pl.col("length").sum())
    return time.join(trace.lanes, on="lane").sort("length", "lane", descending=[True, False]).select("lane", "name")


def _pair_lanes(baseline: pl.DataFrame, candidate: pl.DataFrame) -> list[tuple[int, int]]:
    """Pairs of lanes: those of one name, and of the rest the busiest; `UNALIGNED` for none."""
    ours, theirs = (dict(_numbered_lane_names(each)) for each in (baseline, candidate))
    named = [(ours.pop(name), theirs.pop(name)) for name in list(ours) if name in theirs]
    rest = [list(each.values()) for each in (ours, theirs)]
    size = max(map(len, rest))
    filled = [each + [UNALIGNED] * (size - len(each)) for each in rest]
    return [*named, *zip(*filled, strict=True)]


def _numbered_lane_names(lanes: pl.DataFrame) -> list[tuple[tuple[str, int], int]]:
    """Lanes by their names; lanes of one name are numbered."""
    number = pl.int_range(pl.len()).over("name").alias("number")
    return [((name or "", at), lane) for lane, name, at in lanes.with_columns(number).iter_rows()]


def _lane_names(trace: Trace, lanes: Sequence[int]) -> list[str]:
    """The names of lanes; "" for a missing one."""
    known = dict(trace.lanes.select("lane", "name").iter_rows())
    return [known.get(lane) or "" for lane in lanes]


def _place_on_common_clock(ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The ops of a pair of lanes, with their times on the common clock."""
    slots = align_sequences(ours["key"].to_numpy(), theirs["key"].to_numpy())
    sides, places = (ours, theirs), (slots.baseline, slots.candidate)
    there = [place != UNALIGNED for place in places]
    lengths = [
        np.where(has, np.append(np.maximum(side["length"].to_numpy(), 1), 0)[place], 0)
        for side, place, has in zip(sides, places, there, strict=True)
    ]
    size = np.maximum(*lengths)
    start = np.cumsum(size) - size
    least = np.minimum(*lengths)
    change = np.where(
        least * (1 + NOTICEABLE_CHANGE) >= size, _SAME, np.where(lengths[1] > lengths[0], _SLOWER, _FASTER)
    )
    kind = np.where(there[0], np.where(there[1], change, _REMOVED), _ADDED)
    rows = []
    for side, place, has, length, sign in zip(sides, places, there, lengths, SIDE_SIGNS, strict=True):
        picked = side[place[has]]
        alone = pl.Series(kind[has] >= _ADDED)
        signed = picked["name"].replace_strict(_signed_names(picked["name"].unique(), sign), return_dtype=pl.String)
        name = signed.zip_with(alone, picked["name"])
        columns = {"start": start[has], "end": start[has] + length[has], "name": name, "kind": picked["kind"]}
        rows.append(pl.DataFrame({**columns, "op": kind[has], "origin": picked["id"]}, schema=_SLOT_SCHEMA))
    return rows[0], rows[1]


def _signed_names(names: pl.Series, sign: str) -> dict[str, str]:
    """Short names behind a sign, which narrow views do not shorten further."""
    return {name: f"{sign}{shorten_kernel_name(name).rsplit('::', 1)[-1].rsplit(': ', 1)[-1]}" for name in names}


def _trace_of_slots(trace: Trace, place: StepInterval, rows: pl.DataFrame, names: Sequence[str], end: int) -> Trace:
    """A trace of these events on the lanes of a rank; every lane ends at `end`, so that both are as long."""
    rank = trace.ranks.filter(rank=place.rank).with_columns(pl.lit(0, pl.Int32).alias("host"))
    number = np.arange(len(names))
    lanes = pl.DataFrame(
        {"lane": number, "host": 0, "rank": place.rank, "role": "stream", "work": True, "name": names, "order": number,
         "rows": 1, "events": [rows.filter(lane=lane).height for lane in number.tolist()], "first": 0, "last": end,
         "unit": ""},
    )  # fmt: skip
    events = rows.with_row_index("id").with_columns(
        pl.lit(place.rank).alias("rank"),
        pl.lit(0).alias("depth"),
        pl.col("name").cast(pl.Categorical),
        (pl.col("end") - pl.col("start")).alias("self"),
    )
    ops = pl.DataFrame({"op": range(len(SLOT_KINDS)), "name": SLOT_KINDS, "category": SLOT_KINDS})
    scan = _cast_to_schema(events, EVENTS).lazy()
    part = FileFrames(
        Path(trace.name), "slots", lambda: scan,
        small_frames(
            lanes=_cast_to_schema(lanes, LANES), ranks=_cast_to_schema(rank, RANKS), ops=_cast_to_schema(ops, OPS)
        ),
        (trace.name,), None,
    )  # fmt: skip
    return Trace(
        trace.name, (part,), (Host(trace.name),), (MergedFile(part, 0, {place.rank: place.rank}),), part.lanes,
        part.ranks, part.steps, part.ops, origin_ns=None,
    )  # fmt: skip


def _cast_to_schema(rows: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The rows with the columns of a frame; null in columns that they lack."""
    given = [pl.col(name) if name in rows.columns else pl.lit(None).alias(name) for name in schema]
    return rows.select(given).cast(schema)
