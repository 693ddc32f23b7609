"""Whom the others waited for over all steps: a rank, or the ranks of a host that was late itself, and why.

Owns which ranks are late together. Sees the rows of `stragglers`, and no events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
from msgspec import Struct

from tracehound.analysis.ranks.causes import DELAY
from tracehound.errors import printable
from tracehound.intervals import union
from tracehound.trace import schema

WAITS: Final = schema(
    {
        "lates": pl.List(pl.Struct({"start": pl.Int64, "end": pl.Int64})),  # when it was late
        "waits": pl.List(
            pl.Struct({"rank": pl.Int64, "start": pl.Int64, "end": pl.Int64})
        ),  # who waited then with nothing to compute, and when
    }
)
"""What rows of `stragglers` tell beside the columns that are shown: stretches on the common clock, ps."""

_MUCH: Final = 0.1
"""Who waited for so much of what that rank did which waited longest is told to have waited."""


class Latecomer(Struct, frozen=True):
    """Ranks that were late together. Times in ps; `worst` is the row of their latest step.

    `late` is how long any of them was late, `stood` how long any other waited meanwhile with nothing to compute, and
    `waited` the same summed over ranks; `waiting` are those of the others that did so for long. `cause` is what they
    did longer than others by the most, `excess` by how much in all: of ranks of one host what their host did counts
    once in a step. `steps` are those in which others waited so, or where none did, those in which they were late.
    """

    ranks: tuple[int, ...]
    late: int
    stood: int
    waited: int
    waiting: tuple[int, ...]
    steps: int
    cause: str | None
    excess: int
    worst: Mapping[str, Any]

    @property
    def who(self) -> str:
        """``rank 2``, or ``ranks 2 and 3 of one host``."""
        return late_ranks(self.ranks)

    @property
    def why(self) -> str:
        """The cause in words; "" where none is known."""
        return quoted_cause(self.cause) if self.cause else ""


def late_ranks(ranks: Sequence[int]) -> str:
    """``rank 2``, or ``ranks 2 and 3 of one host``: ranks that were late together."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    *most, last = (str(rank) for rank in ranks)
    return f"ranks {', '.join(most)} and {last} of one host"


def quoted_cause(cause: str) -> str:
    """A cause in words: a name stands in quotes, since it may read as any word."""
    return cause if cause == DELAY else f"'{printable(cause)}'"


def latecomers(rows: pl.DataFrame, ranks: pl.DataFrame) -> list[Latecomer]:
    """Whom the others waited for, longest first; `rows` are of `stragglers` with `WAITS`, `ranks` those of the trace.

    Ranks of one host are late together where what the host did made up at least half of their lateness: which of them
    comes last to a collective is chance then.
    """
    known = rows.join(ranks.select("rank", "host").cast(pl.Int64), on="rank", how="left", maintain_order="left")
    of_host = 2 * pl.col("late").filter(pl.col("side") == "host").sum() >= pl.col("late").sum()
    whose = pl.when(of_host.over("host")).then(pl.struct("host", rank=None)).otherwise(pl.struct("host", "rank"))
    found = [_one(each) for each in known.with_columns(whose.alias("whose")).partition_by("whose", maintain_order=True)]
    return sorted(found, key=lambda each: (-each.stood, -each.late, each.ranks))


def _one(rows: pl.DataFrame) -> Latecomer:
    once = rows.drop_nulls("cause").group_by("step", "cause").agg(pl.col("excess").max())
    causes = once.group_by("cause").agg(pl.col("excess").sum()).sort("excess", "cause", descending=[True, False])
    cause, excess = causes.row(0) if causes.height else (None, 0)
    latest = rows.sort("late", descending=True, maintain_order=True).row(0, named=True)
    who = tuple(rows["rank"].unique().sort().to_list())
    late = _length(rows["lates"].explode().drop_nulls().struct.unnest())
    waits = rows["waits"].explode().drop_nulls().struct.unnest()
    times = _lengths(waits)
    much = _MUCH * max(times.values(), default=0)
    waiting = tuple(sorted(rank for rank, time in times.items() if time >= much and rank not in who))
    kept = rows.filter(pl.col("waits").list.len() > 0) if times else rows
    steps = kept["step"].drop_nulls().n_unique()
    return Latecomer(who, late, _length(waits), sum(times.values()), waiting, steps, cause, excess, latest)


def _length(stretches: pl.DataFrame) -> int:
    """How long any of these lasts: time that passes once counts once."""
    return union(stretches["start"].to_numpy(), stretches["end"].to_numpy()).length


def _lengths(stretches: pl.DataFrame) -> dict[int, int]:
    """The same of those of each rank: there may be as many ranks as latecomers."""
    passed = pl.col("end").cum_max().shift(1).over("rank")
    more = (pl.col("end") - pl.max_horizontal("start", passed)).clip(lower_bound=0)
    added = stretches.sort("start").select("rank", more.alias("more"))
    return dict(added.group_by("rank").agg(pl.col("more").sum()).iter_rows())
