"""Causes of idle time of devices on the host, summed over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
from msgspec import Struct

from tracehound.analysis.hosts.gap_causes import JOINED, name_key
from tracehound.analysis.hosts.main_activities import LAUNCHES
from tracehound.analysis.idle import EDGES


class HostCause(Struct, frozen=True):
    """Idle time of devices with one cause on the host. Times in ps, summed over ranks.

    `edges` is the part of `idle` before the first work of steps, or after the last. `short_work` is the length of short
    work that ended gaps, `by_step` and `by_rank` have the idle time of each step and rank, `parts` that of each part of
    the host's time for an XLA program. `longest` is the row of the longest gap. The other fields are those of
    `CAUSE_SCHEMA`; `calls_by_name` has the number of gaps of each name.
    """

    doing: str
    name: str
    calls_by_name: Mapping[str, int]
    inside: str | None
    frame: str | None
    host_time: int | None
    idle: int
    edges: int
    short_work: int
    count: int
    calls: int
    by_step: Mapping[int, int]
    by_rank: Mapping[int, int]
    parts: Mapping[str, int]
    longest: Mapping[str, Any]

    @property
    def gain(self) -> int:
        """The time that could be won: the gaps; of launches that can't keep up also the short work that they launch."""
        return self.idle + (self.short_work if self.doing == LAUNCHES else 0)


def collect_host_causes(rows: pl.DataFrame, part_names: Sequence[str]) -> list[HostCause]:
    """The causes in rows of idle time, those with most of it first; equal causes of several ranks are one."""
    named = rows.filter(pl.col("doing").fill_null("") != "")
    if named.is_empty():
        return []
    key = name_key()
    joined = pl.when(pl.col("doing").is_in(JOINED)).then(pl.lit(""))
    summed = [name for name in (*_SUMMED_COLUMNS, *part_names) if name in named.columns]
    groups = (
        named.with_columns(joined.otherwise(key).alias("key"))
        .select("doing", "key", *summed)
        .with_row_index("row")
        .partition_by("doing", "key", maintain_order=True)
    )
    causes = (_sum_rows(group, named, part_names) for group in groups)
    return sorted(causes, key=lambda cause: (-cause.idle, cause.doing, cause.name))


_SUMMED_COLUMNS: Final = (
    "rank", "cause", "duration", "idle", "short_work", "count", "calls", "names", "by_step",
)  # fmt: skip
"""Columns of which a cause has sums; a row has many more."""


def _sum_parts(rows: pl.DataFrame, part_names: Sequence[str]) -> dict[str, int]:
    """The idle time in each part of the host's time; "other" is in none."""
    parts = {name: int(rows[name].sum()) for name in part_names}
    return {**parts, "other": int(rows["idle"].sum()) - sum(parts.values())}


def _sum_rows(rows: pl.DataFrame, every: pl.DataFrame, part_names: Sequence[str]) -> HostCause:
    """The cause of some rows, which are numbered (`row`) among all."""
    longest = every.row(rows["row"][rows["duration"].arg_max() or 0], named=True)
    edges = rows.filter(pl.col("cause").is_in(EDGES)) if "cause" in rows.columns else rows.clear()
    names, steps, ranks = dict[str, int](), dict[int, int](), dict[int, int]()
    # rows of one rank and cause share names and calls, whatever class their gaps are of
    for (calls_by_name,) in rows.unique("rank", maintain_order=True).select("names").iter_rows():
        for each in calls_by_name or ():
            names[each["name"]] = names.get(each["name"], 0) + each["count"]
    for rank, idle, by_step in rows.select("rank", "idle", "by_step").iter_rows():
        ranks[rank] = ranks.get(rank, 0) + idle
        for each in by_step or ():
            steps[each["step"]] = steps.get(each["step"], 0) + each["time"]
    return HostCause(
        doing=longest["doing"],
        name=longest["name"],
        calls_by_name=names,
        inside=longest["inside"],
        frame=longest["frame"],
        host_time=longest["host_time"],
        idle=int(rows["idle"].sum()),
        edges=int(edges["idle"].sum()),
        short_work=int(rows["short_work"].sum()) if "short_work" in rows.columns else 0,
        count=int(rows["count"].sum()),
        calls=int(rows.unique("rank")["calls"].sum() or 0),
        by_step=steps,
        by_rank=ranks,
        parts=_sum_parts(rows, part_names),
        longest=longest,
    )
