"""The activities that a search for causes of lateness compares, chosen from those of all ranks.

Of thousands of ranks they are a small part: what took a late rank long, and the same on the other ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import polars as pl

from tracehound.analysis.ranks.work_before_collectives import ACTIVITY_SCHEMA
from tracehound.model.trace import schema

_RANGE_SCHEMA: Final = schema(
    {"rank": pl.Int64(), "first": pl.Int64(), "last": pl.Int64(), "least": pl.Float64(), "number": pl.Int64()}
)


def number_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of all ranks by rank and issue, with the `place` of each among those of its rank."""
    ordered = calls.sort("rank", "issued", "start", "event")
    return ordered.with_columns(pl.int_range(pl.len()).over("rank").alias("place"))


def first_compared_places(calls: pl.DataFrame, at: Mapping[str, Any]) -> tuple[int, int]:
    """The places of two calls of a rank from which on its activities before the call `at` are compared.

    The first one after the last collective that had ended then, and the first of the step or that one, if it is
    earlier.
    """
    before = calls.filter(pl.col("place") < at["place"])
    ended = before.filter((pl.col("end") <= at["start"]) & pl.col("meeting").is_not_null())
    since = int(ended["place"].max()) + 1 if ended.height else 0  # type: ignore[arg-type]  # of a column of Int64
    same = before.filter(pl.col("step") == at["step"]) if at["step"] is not None else before
    begin = int(same["place"].min()) if same.height else since  # type: ignore[arg-type]  # as above
    return since, min(begin, since)


class ComparedActivities(NamedTuple):
    """Activities of late ranks, in the schema `ACTIVITY_SCHEMA`, and the `times` (ps) of the same ones on all ranks.

    Both have the `pair` of where and name (a number); the first also have the `place` of the call. `times` is small,
    since it has a row for each activity of thousands of ranks: `call` is a row of the numbered calls.
    """

    of_late_ranks: pl.DataFrame
    times: pl.DataFrame


TIME_SCHEMA: Final = schema({"pair": pl.Int32(), "call": pl.Int32(), "time": pl.Int64()})


def compared_activities(
    late_rows: pl.DataFrame,
    numbered_calls: pl.DataFrame,
    activities: Callable[[], Iterable[pl.DataFrame]],
    least: float,
) -> ComparedActivities:
    """The activities that explain any of these rows of `last_arrivals`, and the same ones of other ranks.

    Those of a late rank below the fraction `least` of its lateness explain none of it. `activities` gives those of all
    ranks, in the schema `ACTIVITY_SCHEMA`, as frames of some ranks each; they are gone through twice.
    """
    ranges = _compared_ranges(late_rows, numbered_calls, least)
    is_late = pl.col("rank").is_in(ranges["rank"].unique().implode())
    places = numbered_calls.select("rank", "meeting", "place", call="event")
    of_late_ranks = places.filter(is_late).join(ranges, on="rank").filter(pl.col("place").is_between("first", "last"))
    long = pl.concat(
        [
            pl.DataFrame(schema=ACTIVITY_SCHEMA).select("where", "name"),
            *(_long_activities(rows.filter(is_late), of_late_ranks) for rows in activities()),
        ]
    ).unique()
    pairs = long.with_row_index("pair")
    meetings = of_late_ranks["meeting"].drop_nulls().unique().implode()
    is_compared = pl.col("meeting").is_null() | pl.col("meeting").is_in(meetings)
    compared = places.with_row_index("row").filter(is_compared).select("call", "place", "row")
    late, times = [], []
    for rows in chain([pl.DataFrame(schema=ACTIVITY_SCHEMA)], activities()):
        numbered = rows.join(pairs, on=["where", "name"]).join(compared, on="call")
        late.append(numbered.filter(is_late))
        times.append(numbered.select("pair", call="row", time="time").cast(TIME_SCHEMA))
    return ComparedActivities(pl.concat(late), pl.concat(times))


def _compared_ranges(late_rows: pl.DataFrame, numbered_calls: pl.DataFrame, least: float) -> pl.DataFrame:
    """For each row its `rank`, the `first` and `last` place that may be compared, and the `least` time (ps)."""
    is_late = pl.col("rank").is_in(late_rows["rank"].unique().implode())
    calls_of_rank = numbered_calls.filter(is_late).partition_by("rank", as_dict=True)
    ranges = []
    for number, (rank, call, all_calls, most) in enumerate(
        late_rows.select("rank", "call", "calls", "most").iter_rows()
    ):
        calls = calls_of_rank[rank,]
        at = calls.row(by_predicate=pl.col("event") == call, named=True)
        last = calls.filter(pl.col("event").is_in(all_calls))["place"].to_numpy().max(initial=at["place"])
        ranges.append((rank, first_compared_places(calls, at)[1], int(last), least * most, number))
    return pl.DataFrame(ranges, _RANGE_SCHEMA, orient="row")


def _long_activities(activities: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """The activities (`where`, `name`) that took a late rank at least the `least` time of a row, before its calls."""
    return (
        activities.join(ranges.select("call", "number", "least"), on="call")
        .group_by("number", "where", "name")
        .agg(pl.col("time").sum(), pl.col("least").first())
        .filter(pl.col("time") >= pl.col("least"))
        .select("where", "name")
    )
