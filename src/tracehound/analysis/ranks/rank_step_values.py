"""Values of ranks in steps: their means, the order of ranks by them, the worst rank, and what a map says first.

Sees the table of the analysis `rank_map`, which is shown as a map. Imported where that is drawn, so it imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings, Setting, choice_parser
from tracehound.analysis.result import SETTING_NOTE, Column, Result, Unit, empty_table
from tracehound.model.notes import Note, note

MapValue = str
"""One of `VALUES`."""

VALUES: Final = ("step_time", "busy", "late", "kernel")
"""The columns that the map can show."""

SMALLEST_IS_WORST: Final = ("busy",)
"""Values of which the smallest is the worst; of the others it is the largest."""

UNITS: Final[Mapping[MapValue, Unit]] = MappingProxyType(
    {"step_time": "time", "busy": "share", "late": "time", "kernel": "time"}
)

VALUE_SETTING: Final = Setting(
    "value",
    "step_time",
    "what the map shows: step_time, busy (share of the step), late (at collectives) or kernel (mean length)",
    choice_parser(*VALUES),
)
BY_SETTING: Final = Setting(
    "by",
    "rank",
    "order of the rows: by rank, by host, by process group, or by the mean of the value, worst first (value)",
    choice_parser("rank", "host", "group", "value"),
)
KERNEL_SETTING: Final = Setting(
    "kernel", "", "a part of the names of the kernels for the value kernel, in any case", str
)
NOTABLE: Final[Mapping[MapValue, float]] = MappingProxyType(
    {"step_time": 0.05, "busy": 0.05, "late": 0.01, "kernel": 0.05}
)
"""A rank is named if its mean is worse than the median by more than this: a share of the median, of busy 5 points, of
late a share of the step time.
"""

WORST_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("host", "text", "machine or process that drives it"),
    Column("device", "text", "what the rank runs on", brief=False),
    Column("step_time", "time", "mean step time"),
    Column("busy", "share", "device works", "the step"),
    Column("late", "time", "mean lateness in a step"),
    Column("kernel", "time", "mean length of the chosen kernels"),
    Column("worst_step", "number", "step with the worst value of the map"),
    Column("worst_value", "time", "the value in that step"),
)
"""Columns of `worst_ranks`."""


LATENESS_NOT_COMPUTED: Final = "lateness_not_computed"
"""Code of the note that there are too many calls to compute lateness unasked."""


def shown_value(given: ChosenSettings) -> MapValue:
    """The value that the map shows: the chosen one; if only a kernel is chosen, its length."""
    chosen = dict(given)
    if "value" not in chosen and chosen.get("kernel"):
        return "kernel"
    return VALUE_SETTING.value_in(given)


def settings_of(result: Result) -> ChosenSettings:
    """The settings that were chosen for a result."""
    chosen = [dict(each.values) for each in result.notes if each.code == SETTING_NOTE]
    return tuple((str(each["name"]), str(each["value"])) for each in chosen)


def order_rows(table: pl.DataFrame, value: MapValue, by: str) -> pl.DataFrame:
    """The rows in the order of the map: `order_ranks`, then by step."""
    place = order_ranks(rank_means(table, value), value, by).to_frame("rank").with_row_index("place")
    ordered = table.join(place, on="rank", how="left").sort("place", "step", "start", maintain_order=True)
    return ordered.drop("place")


def order_ranks(means: pl.DataFrame, value: MapValue, by: str) -> pl.Series:
    """The ranks of `rank_means` in the order of the map: by rank, by host, by group, or the worst mean first.

    Machines and groups come in the order of their lowest ranks; ranks without the value or a group come last.
    """
    if by == "value":
        falling = value not in SMALLEST_IS_WORST
        return means.sort("mean", "rank", descending=[falling, False], nulls_last=True)["rank"]
    if by == "host":
        machine = pl.col("host").map_elements(machine_name, pl.String)
        return means.sort(pl.col("rank").min().over(machine), machine, "rank")["rank"]
    if by == "group":
        return means.sort(
            pl.col("process_group").is_null(), pl.col("rank").min().over("process_group"), "process_group", "rank"
        )["rank"]
    return means["rank"].sort()


def machine_name(host: str) -> str:
    """The machine of a host, whose name may also have the process: ``node7: python (1234)``."""
    return host.partition(": ")[0]


def rank_means(table: pl.DataFrame, value: MapValue) -> pl.DataFrame:
    """The `mean` of a value for each `rank`, over its complete steps (if it has none, over all), by rank.

    Steps without the value do not count. Kernels count with their number.
    """
    weight = pl.col("count").cast(pl.Float64) if value == "kernel" else pl.lit(1.0)
    counted = counted_rows(table).select(
        "rank", "host", "process_group", value=pl.col(value).cast(pl.Float64), weight=weight
    )
    known = pl.col("value").is_not_null()
    mean = (pl.col("value") * pl.col("weight")).filter(known).sum() / pl.col("weight").filter(known).sum()
    return (
        counted.group_by("rank")
        .agg(pl.col("host", "process_group").first(), pl.when(known.any()).then(mean).alias("mean"))
        .sort("rank")
    )


def counted_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of complete steps; of a rank that has none all rows."""
    return table.filter(~pl.col("partial") | pl.col("partial").all().over("rank"))


class WorstRank(Struct, frozen=True):
    """The rank with the worst mean of a value. `nearby` counts other ranks that are at least half as far off."""

    rank: int
    host: str
    mean: float
    median: float
    ranks: int
    spread: float
    nearby: int


def find_worst_rank(table: pl.DataFrame, value: MapValue) -> WorstRank | None:
    """The rank with the worst mean, the median of all means, and their largest distance from it (`spread`).

    None if no rank has the value.
    """
    means = rank_means(table, value).drop_nulls("mean")
    if means.is_empty():
        return None
    sign = -1 if value in SMALLEST_IS_WORST else 1
    values = sign * means["mean"].to_numpy()
    at, median = int(values.argmax()), float(pl.Series(values).median())  # type: ignore[arg-type]  # there are values
    rank, host, mean = means.select("rank", "host", "mean").row(at)
    nearby = int((values >= (values[at] + median) / 2).sum()) - 1
    spread = max(float(values.max()) - median, median - float(values.min()))
    return WorstRank(rank, host, mean, sign * median, means.height, spread, nearby)


def headline_note(table: pl.DataFrame, value: MapValue) -> Note:
    """The map in one sentence: the worst rank, or how near all ranks are to each other."""
    found = find_worst_rank(table, value)
    if found is None:
        return note("rank_map_without_value", value=value)
    step_time = float(counted_rows(table)["step_time"].median() or 0)  # type: ignore[arg-type]  # a number
    base = {"busy": 1.0, "late": step_time}.get(value, found.median)
    if found.ranks == 1:
        return note("rank_map_of_one_rank", rank=found.rank, value=value, mean=found.mean)
    ranks, median = found.ranks, found.median
    if abs(found.mean - median) <= NOTABLE[value] * base:
        return note("rank_map_even", value=value, ranks=ranks, median=median, spread=found.spread, base=base)
    return note(
        "rank_map_worst",
        value=value,
        rank=found.rank,
        host=machine_name(found.host),
        mean=found.mean,
        nearby=found.nearby,
        ranks=ranks,
        median=median,
    )


def worst_ranks(table: pl.DataFrame, value: MapValue, top: int) -> Result:
    """The `top` ranks with the worst means of a value, with their means of all values and their worst step."""
    means = [rank_means(table, each).select("rank", pl.col("mean").alias(each)) for each in VALUES]
    sign = -1 if value in SMALLEST_IS_WORST else 1
    amount = pl.col(value)
    worst = (
        counted_rows(table)
        .group_by("rank")
        .agg(
            pl.col("host", "device").first(),
            pl.col("step").get((sign * amount).arg_max()).alias("worst_step"),
            amount.get((sign * amount).arg_max()).alias("worst_value"),
        )
    )
    rows = worst.drop_nulls("worst_value")
    for each in means:
        rows = rows.join(each, on="rank", how="left")
    rows = rows.sort(value, "rank", descending=[sign > 0, False], nulls_last=True)
    columns = tuple(
        replace(column, unit=UNITS[value]) if column.name == "worst_value" else column for column in WORST_COLUMNS
    )
    times = [pl.col(column.name).round() for column in columns if column.unit == "time"]
    shown = rows.with_columns(times).select(empty_table(columns).columns).cast(empty_table(columns).schema)
    return Result("rank_map", "Worst ranks", columns, shown.head(top), rows.height, all_rows=shown)
