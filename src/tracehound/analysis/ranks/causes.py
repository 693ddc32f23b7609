"""What made a rank late at a collective: what it did longer before it than the other ranks did.

Owns the comparing of ranks. Sees the small tables of `matched` and `activities`, and no events.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.ranks.activities import PUT_TOGETHER, WAITS

DEFINITION: Final = f"""\
cause = what the rank did longer than the other ranks of the collective before it came: the host activity or the kernel
with the largest excess, its own time (without what is nested in it) less the median of the others', zero where they did
none of it. Compared is what was issued since the collective before that had ended when the rank came to this one; where
that explains less than half of the lateness, all of the step up to here (unless an excess there is more than three
times the lateness, and so was made good since).
Where a rank has collectives in between that others of its group here lack, not the same was recorded of all of them
(sampled traces, edges of captures), and no cause is named.
Of a rank that is late by little at each of many collectives, all of the step up to the last of these is compared.
Of a host that waits for its device, and a kernel that takes as long, the kernel is the cause. Where nothing took longer
there, but the collective began later after its launch than on the other ranks, that delay is the cause; of what one
launch enqueues (a program, a graph) only the first has one. took and usual are the times of what is compared alone.
{PUT_TOGETHER}"""

DELAY: Final = "delay from launch to start"
EVERY: Final = pl.lit(value=True)
_TIE: Final = 0.8
_WAITING: Final = 0.5
_TOO_LITTLE: Final = 0.1
_TOO_MUCH: Final = 3


class Cause(Struct, frozen=True):
    """What made a rank late. Times in ps, `usual` the median of the other ranks; `event` has most of it."""

    where: str
    name: str
    inside: str | None
    took: int
    usual: int
    event: int | None

    @property
    def excess(self) -> int:
        """How much longer it took than usual."""
        return self.took - self.usual


class Causes:
    """The causes of lateness, from all calls (of `matched`) and all activities of a trace.

    A question reads the activities of one rank, and the calls of all: some milliseconds, so few questions are asked.
    """

    def __init__(self, calls: pl.DataFrame, activities: pl.DataFrame) -> None:
        ordered = calls.sort("rank", "issued", "start", "event")
        place = pl.int_range(pl.len()).over("rank").alias("place")
        self._calls = ordered.with_columns(place)
        known = self._calls.select("event", "meeting", "place", "step", delay=pl.col("start") - pl.col("issued"))
        met = activities.join(known.select(call="event", meeting="meeting", place="place"), on="call")
        self._mine = met.partition_by("rank", as_dict=True)
        self._met = met.filter(pl.col("meeting").is_not_null()).partition_by("meeting", as_dict=True)
        self._apart = met.filter(pl.col("meeting").is_null())
        self._lacked = self._calls.filter("lacked").select("rank", "place")
        self._of_rank = self._calls.partition_by("rank", as_dict=True)

    def of(self, rank: int, event: int, late: int, others: list[int], delays: list[int]) -> Cause | None:
        """Why a rank was late by this much (ps) at the collective that its call `event` is part of.

        `others` are the ranks that were there too, `delays` their times from launch to start. None: nothing tells.
        """
        calls = self._of_rank[rank,]
        at = calls.row(by_predicate=pl.col("event") == event, named=True)
        before = calls.filter(pl.col("place") < at["place"])
        ended = before.filter((pl.col("end") <= at["start"]) & pl.col("meeting").is_not_null())
        since = int(ended["place"].max()) + 1 if ended.height else 0  # type: ignore[arg-type]  # of a column of Int64
        if not self._comparable(calls, since, at["place"], others):
            return None
        found = self._largest(calls, rank, since, at["place"], others)
        if found is None or found.excess < late / 2:
            same = before.filter(pl.col("step") == at["step"]) if at["step"] is not None else before
            begin = int(same["place"].min()) if same.height else since  # type: ignore[arg-type]  # as above
            first = min(begin, since)
            known = self._comparable(calls, first, at["place"], others)
            whole = self._largest(calls, rank, first, at["place"], others) if known else None
            if whole is not None and whole.excess <= _TOO_MUCH * late:
                found = max((cause for cause in (found, whole) if cause), key=lambda cause: cause.excess)
        delay = at["start"] - at["issued"]
        usual = round(float(np.median(delays))) if delays else delay
        least = max(found.excess if found else 0, _TOO_LITTLE * late)
        possible = at["leads"] and min(delay, *delays) >= 0  # else the clocks of host and device disagree by more
        if possible and (found is None or found.excess < late / 2) and delay - usual > least:
            return Cause("device", DELAY, None, delay, usual, event)
        return found if found is not None and found.excess >= _TOO_LITTLE * late else None

    def of_many(self, rank: int, events: list[int], late: int, others: list[int]) -> Cause | None:
        """Why a rank was late by little at each of many collectives (its calls `events`) of a step, in all by `late`.

        Counted from the first call of the step to the last of these; what happened only once makes no rank late often.
        """
        calls = self._of_rank[rank,]
        lates = calls.filter(pl.col("event").is_in(events))
        steps = pl.col("step").eq_missing(pl.lit(lates["step"][0], pl.Int64))
        first, last = (int(calls.filter(steps)["place"].to_numpy().min()), int(lates["place"].to_numpy().max()))
        if not self._comparable(calls, first, last, others):
            return None
        found = self._largest(calls, rank, first, last, others, pl.col("most") <= pl.col("time") / 2)
        plausible = found is not None and _TOO_LITTLE * late <= found.excess <= _TOO_MUCH * late
        return found if plausible else None

    def _largest(
        self, calls: pl.DataFrame, rank: int, first: int, last: int, others: list[int], kept: pl.Expr = EVERY
    ) -> Cause | None:
        """The activity of the rank before its calls `first` to `last` with the largest excess, of those `kept`."""
        mine = self._mine.get((rank,))
        if mine is None:
            return None
        here = mine.filter(pl.col("place").is_between(first, last))
        meetings = calls["meeting"].slice(first, last - first + 1).drop_nulls().to_list()
        theirs = [self._met[meeting,] for meeting in meetings if (meeting,) in self._met]
        theirs.append(self._between(self._apart, calls, first, last))
        done = (
            here.group_by("where", "name")
            .agg(
                pl.col("inside", "longest").get(pl.col("time").arg_max()),
                pl.col("time").max().alias("most"),
                pl.col("time").sum(),
            )
            .filter(kept)
        )
        usual = (
            pl.concat(theirs)
            .filter(pl.col("rank").is_in(others))
            .group_by("where", "name", "rank")
            .agg(pl.col("time").sum())
            .group_by("where", "name")
            .agg(pl.col("time").alias("theirs"))
        )
        held = done.join(usual, on=["where", "name"], how="left").cast(
            {"where": pl.String, "name": pl.String, "inside": pl.String}
        )
        causes = [
            Cause(
                row["where"], row["name"], row["inside"], row["time"], _median(row["theirs"] or [], len(others)),
                row["longest"] if row["longest"] >= 0 else None,
            )
            for row in held.sort("time", "name", descending=[True, False]).rows(named=True)
        ]  # fmt: skip
        return _chosen([cause for cause in causes if cause.excess > 0])

    def _comparable(self, calls: pl.DataFrame, first: int, last: int, others: list[int]) -> bool:
        """Whether these calls have no collective among them that one rank recorded and its fellows did not.

        Else what lies between two collectives is not the same part of the program, or not all of it was recorded.
        """
        mine = calls["lacked"].slice(first, last - first + 1).any()
        return not mine and not self._between(self._lacked, calls, first, last)["rank"].is_in(others).any()

    def _between(self, rows: pl.DataFrame, calls: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
        """Of rows with `rank` and `place` those between what their rank has of the meetings of these calls.

        That is after the last meeting of the calls before `first`, and up to that of the call `last`.
        """
        if rows.is_empty():
            return rows
        met = self._calls.select("rank", "meeting", "place")
        before, at = calls["meeting"].slice(0, first).drop_nulls(), calls["meeting"].slice(last, 1)
        after = met.filter(pl.col("meeting").is_in(before.implode())).group_by("rank").agg(after=pl.col("place").max())
        until = met.filter(pl.col("meeting").is_in(at.implode())).group_by("rank").agg(until=pl.col("place").max())
        known = rows.join(until, on="rank").join(after, on="rank", how="left")
        later = pl.col("place") > pl.col("after").fill_null(-1)
        return known.filter(later & (pl.col("place") < pl.col("until"))).select(rows.columns)


def _median(times: list[int], count: int) -> int:
    """The median of so many times, of which those not given are 0."""
    whole = np.zeros(max(count, 1))
    whole[: len(times)] = times
    return round(float(np.median(whole)))


def _chosen(causes: list[Cause]) -> Cause | None:
    """The cause with the largest excess; of a wait and what was waited for the latter."""
    if not causes:
        return None
    most = max(causes, key=lambda cause: cause.excess)
    waiting = pl.Series([cause.name for cause in causes]).str.contains(WAITS).to_list()
    active = [cause for cause, waits in zip(causes, waiting, strict=True) if not waits]
    if most not in active:
        rest = [cause for cause in active if cause.excess >= _WAITING * most.excess]
        return max(rest, key=lambda cause: cause.excess, default=most)
    kernels = [cause for cause in active if cause.where == "device" and cause.excess >= _TIE * most.excess]
    return max(kernels, key=lambda cause: cause.excess, default=most)
