"""Late ranks at collectives, and the cause of their lateness: what they did longer than the other ranks.

Compares ranks by the small tables of `collective_matching` and `work_before_collectives`, and groups late ranks of one
host. Sees no events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.ranks.compared_activities import ComparedActivities, first_compared_places
from tracehound.analysis.ranks.looked_up_columns import add_columns_of
from tracehound.analysis.ranks.work_before_collectives import MERGING_DEFINITION, WAITING_NAMES
from tracehound.errors import printable
from tracehound.model.trace import schema
from tracehound.model.units import format_ranks
from tracehound.numeric.intervals import Ints, Mask, union
from tracehound.numeric.trees import sum_groups

CAUSE_DEFINITION: Final = f"""\
cause = the activity that took longer on this rank than on the other ranks of the collective before it came: the host
activity or kernel with the largest excess. excess = its self time minus the median self time on the other ranks (0 if
they have none of it). What is compared was launched after the last collective that had ended when the rank came to
this one. If that explains less than half of the lateness, the whole step up to here is compared, unless an excess
there is more than three times the lateness, and so was made up for since. If a rank has collectives in between that
others of its group here lack, the ranks did not record the same (sampled traces, edges of recordings), and no cause is
named. If a rank is a little late at each of many collectives, the whole step up to the last of these is compared. If
the host waits for a kernel that takes as long, the kernel is the cause. If nothing took longer, but the collective
began later after its launch than on the other ranks, that delay is the cause; of the work of one launch (a program, a
graph) only the first has such a delay. took and usual are the times of what was compared. {MERGING_DEFINITION}"""

LAUNCH_DELAY: Final = "delay from launch to start"
_ANY_ROW: Final = pl.lit(value=True)
_TIE_SHARE: Final = 0.8
_WAITED_FOR_SHARE: Final = 0.5
_MIN_EXPLAINED: Final = 0.1
_MAX_EXPLAINED: Final = 3

LEAST_COMPARED: Final = min(_TIE_SHARE, _WAITED_FOR_SHARE) * _MIN_EXPLAINED
"""Activities of a late rank below this fraction of its lateness are not compared: they explain none of it."""


class LatenessCause(Struct, frozen=True):
    """The cause of a rank's lateness. Times in ps, `usual` is the median of the other ranks.

    `event` has most of the time.
    """

    where: str
    name: str
    inside: str | None
    took: int
    usual: int
    event: int | None

    @property
    def excess(self) -> int:
        """Time above usual."""
        return self.took - self.usual


class LatenessCauses:
    """The causes of lateness, from all calls and `compared_activities` of the rows whose causes are asked.

    Each search reads the calls of all ranks, which takes some milliseconds, so callers make few.
    """

    def __init__(self, numbered_calls: pl.DataFrame, compared: ComparedActivities) -> None:
        self._calls = numbered_calls
        self._compared = compared
        self._pairs = pl.int_range(int(compared.times["pair"].to_numpy().max(initial=-1)) + 1, eager=True)
        self._unmatched = numbered_calls.with_row_index("row").filter(pl.col("meeting").is_null())
        self._lacked = numbered_calls.filter("lacked").select("rank", "place")

    def find_cause(
        self, rank: int, event: int, late: int, others: list[int], delays: list[int]
    ) -> LatenessCause | None:
        """The cause of a rank's lateness (`late`, ps) at the collective of its call `event`.

        `others` are the other ranks of the collective, `delays` their times from launch to start. None: no cause found.
        """
        calls = self._calls.filter(pl.col("rank") == rank)
        at = calls.row(by_predicate=pl.col("event") == event, named=True)
        since, first = first_compared_places(calls, at)
        if not self._is_comparable(calls, since, at["place"], others):
            return None
        found = self._largest_excess(calls, rank, since, at["place"], others, late)
        if found is None or found.excess < late / 2:
            known = self._is_comparable(calls, first, at["place"], others)
            in_step = self._largest_excess(calls, rank, first, at["place"], others, late) if known else None
            if in_step is not None and in_step.excess <= _MAX_EXPLAINED * late:
                found = max((cause for cause in (found, in_step) if cause), key=lambda cause: cause.excess)
        delay = at["start"] - at["issued"]
        usual = round(float(np.median(delays))) if delays else delay
        least = max(found.excess if found else 0, _MIN_EXPLAINED * late)
        possible = at["leads"] and min(delay, *delays) >= 0  # else the clocks of host and device disagree
        if possible and (found is None or found.excess < late / 2) and delay - usual > least:
            return LatenessCause("device", LAUNCH_DELAY, None, delay, usual, event)
        return found if found is not None and found.excess >= _MIN_EXPLAINED * late else None

    def find_repeated_cause(self, rank: int, events: list[int], late: int, others: list[int]) -> LatenessCause | None:
        """The cause of a rank's small lateness at each of many collectives of a step.

        `events` are its calls there, `late` is the total lateness. Counts from the first call of the step to the last
        of these; an activity that happened once makes no rank late often.
        """
        calls = self._calls.filter(pl.col("rank") == rank)
        lates = calls.filter(pl.col("event").is_in(events))
        steps = pl.col("step").eq_missing(pl.lit(lates["step"][0], pl.Int64))
        first, last = (int(calls.filter(steps)["place"].to_numpy().min()), int(lates["place"].to_numpy().max()))
        if not self._is_comparable(calls, first, last, others):
            return None
        found = self._largest_excess(calls, rank, first, last, others, late, pl.col("most") <= pl.col("time") / 2)
        plausible = found is not None and _MIN_EXPLAINED * late <= found.excess <= _MAX_EXPLAINED * late
        return found if plausible else None

    def _largest_excess(
        self,
        calls: pl.DataFrame,
        rank: int,
        first: int,
        last: int,
        others: list[int],
        late: int,
        selected: pl.Expr = _ANY_ROW,
    ) -> LatenessCause | None:
        """The activity of the rank before its calls `first` to `last` with the largest excess, among those selected.

        Activities that are too short to explain any of the lateness are not compared with those of thousands of ranks.
        """
        here = self._compared.of_late_ranks.filter(pl.col("rank") == rank, pl.col("place").is_between(first, last))
        meetings = calls["meeting"].slice(first, last - first + 1).drop_nulls()
        done = (
            here.group_by("pair")
            .agg(
                pl.col("where", "name").first(),
                pl.col("inside", "longest").get(pl.col("time").arg_max()),
                pl.col("time").max().alias("most"),
                pl.col("time").sum(),
            )
            .filter(selected, pl.col("time") >= LEAST_COMPARED * late)
            .cast({"where": pl.String, "name": pl.String, "inside": pl.String})
        )
        is_chosen = self._calls["meeting"].is_in(meetings.implode()).fill_null(value=False).to_numpy(writable=True)
        is_chosen[self._rows_between(self._unmatched, calls, first, last)["row"].to_numpy()] = True
        usual = self._median_times(done["pair"], is_chosen, others)
        causes = [
            LatenessCause(
                row["where"], row["name"], row["inside"], row["time"],
                row["usual"],
                row["longest"] if row["longest"] >= 0 else None,
            )
            for row in done.with_columns(usual).sort("time", "name", descending=[True, False]).rows(named=True)
        ]  # fmt: skip
        return _choose_cause([cause for cause in causes if cause.excess > 0])

    def _median_times(self, pairs: pl.Series, is_chosen: Mask, ranks: list[int]) -> pl.Series:
        """For each pair the median of the ranks' total times before the chosen calls, as `usual`.

        A rank without the activity has 0.
        """
        times = self._compared.times.filter(pl.Series(is_chosen).gather(self._compared.times["call"]))
        row = _positions(pairs, self._pairs)[times["pair"].to_numpy()]
        column = _positions(pl.Series(ranks, dtype=pl.Int64), self._calls["rank"])[times["call"].to_numpy()]
        group = np.where((row < 0) | (column < 0), -1, row * len(ranks) + column)
        sums = sum_groups(group, times["time"].to_numpy(), len(pairs) * len(ranks)).reshape(len(pairs), len(ranks))
        medians = np.median(sums, axis=1) if sums.size else np.zeros(len(pairs))
        return pl.Series("usual", np.rint(medians).astype(np.int64), pl.Int64)

    def _is_comparable(self, calls: pl.DataFrame, first: int, last: int, others: list[int]) -> bool:
        """True if no collective among these calls was recorded by one rank and not by its peers.

        Else the work between two collectives is not the same part of the program, or not all of it was recorded.
        """
        mine = calls["lacked"].slice(first, last - first + 1).any()
        return not mine and not self._rows_between(self._lacked, calls, first, last)["rank"].is_in(others).any()

    def _rows_between(self, rows: pl.DataFrame, calls: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
        """Rows (with `rank` and `place`) between the same collectives as these calls.

        They are after the last matched collective before the call `first`, and up to that of the call `last`.
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


def _positions(wanted: pl.Series, values: pl.Series) -> Ints:
    """The position of each value among the wanted ones, which differ; -1 where it is none of them."""
    known = pl.DataFrame({"value": wanted.cast(values.dtype)}).with_row_index("position")
    found = add_columns_of(known, values.to_frame("value"), "value")["position"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy()


def _choose_cause(causes: list[LatenessCause]) -> LatenessCause | None:
    """The cause with the largest excess; of a wait and the awaited work the latter."""
    if not causes:
        return None
    most = max(causes, key=lambda cause: cause.excess)
    waiting = pl.Series([cause.name for cause in causes]).str.contains(WAITING_NAMES).to_list()
    active = [cause for cause, waits in zip(causes, waiting, strict=True) if not waits]
    if most not in active:
        rest = [cause for cause in active if cause.excess >= _WAITED_FOR_SHARE * most.excess]
        return max(rest, key=lambda cause: cause.excess, default=most)
    kernels = [cause for cause in active if cause.where == "device" and cause.excess >= _TIE_SHARE * most.excess]
    return max(kernels, key=lambda cause: cause.excess, default=most)


WAIT_SCHEMA: Final = schema(
    {
        "lates": pl.List(pl.Struct({"start": pl.Int64, "end": pl.Int64})),  # intervals of lateness
        "waits": pl.List(
            pl.Struct({"rank": pl.Int64, "start": pl.Int64, "end": pl.Int64})
        ),  # ranks that waited meanwhile with nothing to compute
    }
)
"""Columns of `stragglers` rows beside the shown ones: intervals on the common clock, ps."""

_LONG_WAIT_SHARE: Final = 0.1
"""Ranks that waited for at least this share of the longest wait are named."""


class LateRanks(Struct, frozen=True):
    """Ranks that were late together. Times in ps; `latest_row` is the row of their latest step.

    `late` is the time in which any of them was late, `time_lost` the time in which any other waited meanwhile with
    nothing to compute, and `waited` that time summed over ranks, with the intervals `waits`; `waiting` are the others
    that waited long. `cause` is the activity with the largest excess over the other ranks, `excess` its total: for
    ranks of one host the host's activity counts once in a step. `steps` counts those in which others waited, or if
    none did, those in which they were late.
    """

    ranks: tuple[int, ...]
    late: int
    time_lost: int
    waited: int
    waiting: tuple[int, ...]
    steps: int
    cause: str | None
    excess: int
    latest_row: Mapping[str, Any]
    waits: pl.DataFrame

    @property
    def ranks_text(self) -> str:
        """``rank 2``, or ``ranks 2 and 3 of one host``."""
        return late_ranks_text(self.ranks)

    @property
    def cause_text(self) -> str:
        """The cause in words; "" if none is known."""
        return quote_cause(self.cause) if self.cause else ""


def late_ranks_text(ranks: Sequence[int]) -> str:
    """``rank 2``, ``ranks 2 and 3 of one host``, or ``ranks 8-15 of one host``: ranks that were late together."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _NAMED_RANKS:
        return f"{format_ranks(ranks)} of one host"
    *most, last = (str(rank) for rank in ranks)
    return f"ranks {', '.join(most)} and {last} of one host"


_NAMED_RANKS: Final = 3


def quote_cause(cause: str) -> str:
    """A cause in words: a name stands in quotes, because it may read as any word."""
    return cause if cause == LAUNCH_DELAY else f"'{printable(cause)}'"


def group_late_ranks(rows: pl.DataFrame, ranks: pl.DataFrame) -> list[LateRanks]:
    """Late ranks that others waited for, longest wait first.

    `rows` are of `stragglers` with `WAIT_SCHEMA`, `ranks` those of the trace. Ranks of one host are late together if
    the host's activity made up at least half of their lateness: then it is chance which of them comes last to a
    collective.
    """
    known = rows.join(ranks.select("rank", "host").cast(pl.Int64), on="rank", how="left", maintain_order="left")
    of_host = 2 * pl.col("late").filter(pl.col("side") == "host").sum() >= pl.col("late").sum()
    whose = pl.when(of_host.over("host")).then(pl.struct("host", rank=None)).otherwise(pl.struct("host", "rank"))
    found = [
        _summarize_late_ranks(each)
        for each in known.with_columns(whose.alias("whose")).partition_by("whose", maintain_order=True)
    ]
    return sorted(found, key=lambda each: (-each.time_lost, -each.late, each.ranks))


def _summarize_late_ranks(rows: pl.DataFrame) -> LateRanks:
    once = rows.drop_nulls("cause").group_by("step", "cause").agg(pl.col("excess").max())
    causes = once.group_by("cause").agg(pl.col("excess").sum()).sort("excess", "cause", descending=[True, False])
    cause, excess = causes.row(0) if causes.height else (None, 0)
    latest = rows.sort("late", descending=True, maintain_order=True).row(0, named=True)
    who = tuple(rows["rank"].unique().sort().to_list())
    late = _union_length(rows["lates"].explode().drop_nulls().struct.unnest())
    waits = rows["waits"].explode().drop_nulls().struct.unnest()
    times = _union_length_per_rank(waits)
    much = _LONG_WAIT_SHARE * max(times.values(), default=0)
    waiting = tuple(sorted(rank for rank, time in times.items() if time >= much and rank not in who))
    counted_rows = rows.filter(pl.col("waits").list.len() > 0) if times else rows
    steps = counted_rows["step"].drop_nulls().n_unique()
    return LateRanks(who, late, _union_length(waits), sum(times.values()), waiting, steps, cause, excess, latest, waits)


def time_waited_for(groups: Sequence[LateRanks]) -> int:
    """The time that ranks waited for any of these, summed over the waiting ranks.

    A rank that waits for several, as where these come at the same time, waits once.
    """
    return sum(_union_length_per_rank(pl.concat([group.waits for group in groups])).values()) if groups else 0


def _union_length(intervals: pl.DataFrame) -> int:
    """The length of the union of these intervals."""
    return union(intervals["start"].to_numpy(), intervals["end"].to_numpy()).length


def _union_length_per_rank(intervals: pl.DataFrame) -> dict[int, int]:
    """The length of the union of the intervals of each rank; there may be as many ranks as late ones."""
    passed = pl.col("end").cum_max().shift(1).over("rank")
    more = (pl.col("end") - pl.max_horizontal("start", passed)).clip(lower_bound=0)
    added = intervals.sort("start").select("rank", more.alias("more"))
    return dict(added.group_by("rank").agg(pl.col("more").sum()).iter_rows())
