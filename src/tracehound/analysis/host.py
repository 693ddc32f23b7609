"""Activity of every host thread in a window."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.devices.missing_data import nothing_recorded_note
from tracehound.analysis.hosts.host_threads import THREAD_COLUMNS, event_names, innermost_per_window, lane_batches
from tracehound.analysis.hosts.launch_calls import blocking_copy_calls
from tracehound.analysis.hosts.thread_activity import ASLEEP, LAZY_TENSOR_FILTER, activity_codes, activity_names
from tracehound.analysis.rank_trace import RankTrace, RunContext, SharedHostResult
from tracehound.analysis.result import (
    COUNTED_COLUMN,
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.model.notes import note
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import find_rows
from tracehound.numeric.intervals import Intervals

DEFINITION = """\
For every host thread, the events that ran in the window, each with the time in which it was the innermost. The rows of
a thread and the time in which it recorded nothing add up to the window; a thread on which nothing took any time has
only that row. If two events overlap in part (neither contains the other), the earlier one has the shared time,
including what is nested in the later one there, so no instant counts twice; events without any time left have no row.
share = time / length of the window. doing = what the thread does then, in words, by the names of the event and of
those around it. Threads are ordered by the time in which they recorded anything but waiting in Python, events by their
time."""

COLUMNS = (
    Column("thread", "text", "thread of the host"),
    Column("inside", "text", "the nearest annotation around the event"),
    Column("event", "text", "what ran there; (nothing recorded) for the rest of the window"),
    Column("doing", "text", "what the thread does, in words", brief=False),
    Column("time", "time", "as the innermost event"),
    Column("share", "share", "as the innermost event", "the window"),
    Column("count", "count", "events", brief=False),
    Column("host", "text", "machine or process", brief=False),
    Column("longest", "id", "the event with the most time"),
)

NOTHING_RECORDED = "(nothing recorded)"


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of the threads of the rank's host; ranks of one host give the same rows."""
    waits = blocking_copy_calls(rank_trace)
    return (
        _thread_rows(rank_trace.with_host_window, waits, options)
        if waits or options.members
        else HOST_ROWS.result_for(rank_trace)
    )


def _host_rows(rank_trace: RankTrace, given: ChosenSettings) -> pl.DataFrame:
    del given
    return _thread_rows(rank_trace, (), Options())


HOST_ROWS: Final = SharedHostResult(_host_rows)
"""The rows where no call waits for a copy of a rank's device."""


def _thread_rows(rank_trace: RankTrace, blocking_calls: Collection[int], options: Options) -> pl.DataFrame:
    """Innermost events of the threads within the bounds of the rank trace; `blocking_calls` wait for their copy.

    A thread on which nothing took any time has a row without a name.
    """
    start, end = rank_trace.start, rank_trace.end
    window = Intervals(np.array([start], np.int64), np.array([end], np.int64))
    names = event_names(rank_trace.threads, LAZY_TENSOR_FILTER)
    tables = [
        _describe_thread_time(collect_frame(some.select(*THREAD_COLUMNS)), names, blocking_calls, window, options)
        for some in lane_batches(rank_trace)
    ]
    if not tables:
        return pl.DataFrame()
    rows = pl.concat(tables)
    is_silent = pl.col("rank").is_null() & (pl.col("events") > 0) & ~pl.col("lane").is_in(rows["lane"].implode())
    rows = pl.concat([rows, rank_trace.lanes.filter(is_silent).select("lane")], how="diagonal").with_columns(
        pl.col("time", "count").fill_null(0)
    )
    return rows.join(rank_trace.lanes.select("lane", "host", pl.col("name").alias("thread")), on="lane").select(
        "lane",
        "host",
        "thread",
        pl.col("name").alias("what"),
        "inside",
        "doing",
        "time",
        "count",
        pl.col("event").alias("longest"),
        pl.lit(end - start, pl.Int64).alias("window"),
        COUNTED_COLUMN,
    )


def _describe_thread_time(
    threads: pl.DataFrame, names: Sequence[str], blocking_calls: Collection[int], window: Intervals, options: Options
) -> pl.DataFrame:
    """Innermost events of some threads, with their activity; `names` are all names on threads of the host."""
    rows = innermost_per_window(threads, window, options)
    code = activity_codes(threads, parent_rows(threads), names, blocking_calls)
    event = find_rows(threads["id"].to_numpy(), rows["event"].to_numpy())
    return rows.with_columns(activity_names(code[event]).alias("doing"))


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """Rows by thread, the most active first; the time in which nothing was recorded closes each thread."""
    rows = concat_tables(tables)
    if rows.is_empty() or rows["what"].is_null().all():
        reason = nothing_recorded_note(context, note("no_thread_recorded"), note("record_threads"))
        return empty_result(ANALYSIS, context, options, reason)
    rows = rows.unique(["lane", "what", "inside"], keep="first", maintain_order=True)
    busy = rows.group_by("lane", "host", "thread", "window", maintain_order=True).agg(
        pl.col("time").sum().alias("busy"),
        pl.col("time").filter(pl.col("doing").ne_missing(ASLEEP)).sum().alias("awake"),
    )
    unrecorded_rows = busy.filter(pl.col("busy") < pl.col("window")).select(
        "lane", "host", "thread", pl.lit(NOTHING_RECORDED).alias("what"), pl.lit(None, pl.String).alias("inside"),
        pl.lit(None, pl.String).alias("doing"),
        (pl.col("window") - pl.col("busy")).alias("time"),
        pl.lit(0, pl.Int64).alias("count"), pl.lit(None, pl.Int64).alias("longest"), "window",
    )  # fmt: skip
    names = {index: host.name for index, host in enumerate(context.hosts)}
    table = (
        pl.concat([rows.drop_nulls("what"), unrecorded_rows], how="diagonal")
        .join(busy.select("lane", "awake"), on="lane")
        .sort(
            "awake",
            "lane",
            pl.col("what") == NOTHING_RECORDED,
            "time",
            "what",
            "inside",
            descending=[True, False, False, True, False, False],
        )
        .select(
            "thread",
            pl.col("what").alias("event"),
            "doing",
            "time",
            (pl.col("time") / pl.col("window")).alias("share"),
            "inside",
            "count",
            pl.col("host").replace_strict(names, return_dtype=pl.String),
            "longest",
            COUNTED_COLUMN,
        )
    )
    return make_result(ANALYSIS, table, context, options)


ANALYSIS = Analysis(
    name="host",
    title="Host",
    question="What did every host thread do in this window?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    host_computations=(HOST_ROWS,),
)
