"""Sequences of kernels that operators launch repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import Setting, parse_pattern, parse_whole_number
from tracehound.analysis.hosts.host_threads import classify_by_name
from tracehound.analysis.hosts.operator_tree import CallTree, launching_operators, read_call_tree
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    JOINED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    concat_tables,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import device_work
from tracehound.model.notes import Note, note
from tracehound.model.short_names import shorten_kernel_name
from tracehound.numeric.intervals import Ints, Mask

OPERATOR_SETTING: Final = Setting(
    "operator",
    ".",
    "the operators whose kernels are taken together: a regular expression; all: those at the top",
    parse_pattern,
)
LENGTH_SETTING: Final = Setting("length", "3", "shorter sequences are left out", parse_whole_number)

DEFINITION = """\
Instances are the operators whose names match the setting operator, but not those nested in another match; by default
every operator that is in no other. A sequence is the kernels, copies and memsets launched from inside an instance, in
the order in which they began, over all streams, by their short names; "x 3" stands for three in a row. A row has the
instances of one operator with one sequence, and count is their number. kernels is the time of the work, host the time
of the instances from call to return, span the time from the first start to the last end on the device, all summed over
instances. share is kernels / all device time. In a window, the work that runs in it counts, with the instances that
launched it; lengths are not clipped.

HolisticTraceAnalysis' frequent CUDA kernel sequences are these for names that contain a text, at the least depth at
which such a name occurs on any thread; it needs the text, and one rank. Its GPU kernel duration is our kernels, its
CPU op duration our host."""

COLUMNS = (
    Column("operator", "text", "operator that launched it"),
    Column("sequence", "text", "kernels in their order"),
    Column("length", "count", "kernels in the sequence"),
    Column("count", "count", "how often"),
    Column("kernels", "time", "of the work on the device, over all instances"),
    Column("share", "share", "kernels", "the time of all work on the devices"),
    Column("span", "time", "from the first start to the last end on the device", brief=False),
    Column("host", "time", "of the operator, from call to return", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("event", "id", "the instance with the most time of work"),
)

_SEQUENCE_KEY: Final = ("operator", "sequence", "length")
_SUM_COLUMNS: Final = ("count", "kernels", "span", "host")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each operator and sequence, in ps."""
    calls = read_call_tree(rank_trace)
    device = device_work(rank_trace, "launch", "external", "name").sort("start", "id")
    if not calls.operator.any() or device.is_empty():
        return pl.DataFrame()
    whole_time = int((device["end"] - device["start"]).sum())
    instance_rows = _outermost_instances(calls, _matching_operators(calls, options), launching_operators(calls, device))
    length = pl.col("end") - pl.col("start")
    instances = (
        device.with_columns(pl.Series("by", instance_rows), pl.col("name").to_physical().alias("code"))
        .filter(pl.col("by") >= 0)
        .group_by("by")
        .agg(
            pl.col("code", "name"),
            pl.len().cast(pl.Int64).alias("length"),
            length.sum().alias("kernels"),
            (pl.col("end").max() - pl.col("start").min()).alias("span"),
        )
        .filter(pl.col("length") >= LENGTH_SETTING.value_in(options.given))
    )
    ops = calls.events[instances["by"].to_numpy()]
    return (
        instances.with_columns(
            ops["name"].cast(pl.String).alias("operator"), ops["id"], (ops["end"] - ops["start"]).alias("host")
        )
        .group_by("operator", "code", "length")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("kernels", "span", "host").sum(),
            pl.col("id").sort_by("kernels", "id", descending=[True, False]).first().alias("event"),
            pl.col("kernels").max().alias("most"),
            pl.col("name").first(),
            *collect_counted_events(options),
        )
        .with_columns(
            pl.col("name").cast(pl.List(pl.String)).map_elements(_sequence_text, pl.String).alias("sequence"),
            pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
            pl.lit(whole_time, pl.Int64).alias("work"),
        )
        .drop("code", "name")
    )


def _matching_operators(calls: CallTree, options: Options) -> Mask:
    """The operators that match the setting `operator`."""
    operator_pattern = OPERATOR_SETTING.value_in(options.given)
    is_chosen: Mask = calls.operator & (
        classify_by_name(calls.events, lambda name, _: 1 if operator_pattern.search(name) else None) > 0
    )
    return is_chosen


def _outermost_instances(calls: CallTree, is_chosen: Mask, launching_operators: Ints) -> Ints:
    """For each launching operator the outermost chosen one at or around it, -1 where there is none."""
    caller = calls.caller
    instances, current = np.full(len(launching_operators), -1, np.int64), launching_operators.copy()
    remaining = np.flatnonzero(current >= 0)
    while len(remaining):
        current_rows = current[remaining]
        instances[remaining] = np.where(is_chosen[current_rows], current_rows, instances[remaining])
        current[remaining] = caller[current_rows]
        remaining = remaining[current[remaining] >= 0]
    return instances


def _sequence_text(names: Sequence[str]) -> str:
    """The names as text, repetitions merged."""
    phrases, count = [], 0
    names = [shorten_kernel_name(name) for name in names]
    for name, next_name in zip(names, [*names[1:], None], strict=True):
        count += 1
        if name != next_name:
            phrases.append(name if count == 1 else f"{name} x {count}")
            count = 0
    return " | ".join(phrases)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per operator and sequence over all ranks, the most frequent first, then the longest on the device."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, _why_empty(context, options))
    whole_time = int(rows.group_by("rank").agg(pl.col("work").first())["work"].sum())
    table = (
        rows.group_by(_SEQUENCE_KEY)
        .agg(
            pl.col(_SUM_COLUMNS).sum(),
            pl.col("event").sort_by("most", "rank", descending=[True, False]).first(),
            pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
            JOINED_EVENTS,
        )
        .with_columns((pl.col("kernels") / whole_time if whole_time else pl.lit(None, pl.Float64)).alias("share"))
        .sort("count", "kernels", *_SEQUENCE_KEY, descending=[True, True, False, False, False])
    )
    return make_result(ANALYSIS, table, context, options)


def _why_empty(context: RunContext, options: Options) -> Note:
    if context.is_xla:
        return note("no_sequences_in_xla_profile", level="missing")
    return note("no_sequences", length=LENGTH_SETTING.value_in(options.given))


ANALYSIS = Analysis(
    name="sequences",
    title="Sequences",
    question="Which sequences of kernels does an operator launch again and again?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(LENGTH_SETTING, OPERATOR_SETTING),
)
