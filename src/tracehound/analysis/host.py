"""What every host thread did in a window."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.silence import nothing
from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.hosts.threads import THREADS, batches, during, names_of
from tracehound.analysis.hosts.waits import blocking
from tracehound.analysis.hosts.words import ASLEEP, doing_codes, in_words
from tracehound.analysis.members import CARRIED
from tracehound.analysis.result import Analysis, Column, OfHost, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Given
from tracehound.intervals import Intervals
from tracehound.lookup import rows_with
from tracehound.notes import note
from tracehound.trace import collected

DEFINITION = """\
For every host thread, the events that ran on it in the window, each with the time in which it was the innermost: a
thread's rows and the time in which it recorded nothing add up to the window; one on which nothing took any time in it
has that row alone. Of two that overlap in part (neither holds the other) the earlier has all that they share, what is
nested in the later one there included: no instant counts twice, and what has no time of its own left has no row.
share = time / length of the window.
doing = what a thread is at then, in words, by the names of the event and of those around it. Threads are ordered by the
time for which anything but waiting in Python was recorded on them, events by their time."""

COLUMNS = (
    Column("thread", "text", "thread of the host"),
    Column("inside", "text", "the nearest annotation around the event"),
    Column("event", "text", "what ran there; (nothing recorded) for the rest of the window"),
    Column("doing", "text", "what that means, in words", brief=False),
    Column("time", "time", "as the innermost event"),
    Column("share", "share", "as the innermost event", "the window"),
    Column("count", "count", "events", brief=False),
    Column("host", "text", "machine or process", brief=False),
    Column("longest", "id", "the event with the most time"),
)

NOTHING = "(nothing recorded)"


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of the threads of the rank's host; ranks of one host give the same rows."""
    waits = blocking(share)
    return _rows(share.on_host, waits, options) if waits or options.members else ROWS.of(share)


def _of_host(share: Share, given: Given) -> pl.DataFrame:
    del given
    return _rows(share, (), Options())


ROWS: Final = OfHost(_of_host)
"""The rows where no call waits for a copy of a rank's device."""


def _rows(share: Share, waits: Collection[int], options: Options) -> pl.DataFrame:
    """What ran on the threads between the bounds of the share; `waits` are calls that wait for their copy.

    A thread on which nothing took any time then has a row without a name.
    """
    start, end = share.start, share.end
    window = Intervals(np.array([start], np.int64), np.array([end], np.int64))
    names = names_of(share.threads)
    found = [_told(collected(some.select(*THREADS)), names, waits, window, options) for some in batches(share)]
    if not found:
        return pl.DataFrame()
    rows = pl.concat(found)
    silent = pl.col("rank").is_null() & (pl.col("events") > 0) & ~pl.col("lane").is_in(rows["lane"].implode())
    rows = pl.concat([rows, share.lanes.filter(silent).select("lane")], how="diagonal").with_columns(
        pl.col("time", "count").fill_null(0)
    )
    return rows.join(share.lanes.select("lane", "host", pl.col("name").alias("thread")), on="lane").select(
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
        CARRIED,
    )


def _told(
    threads: pl.DataFrame, names: Sequence[str], waits: Collection[int], window: Intervals, options: Options
) -> pl.DataFrame:
    """What ran on some of the threads, and what they were at then; `names` are those that occur on any of the host."""
    rows = during(threads, window, options)
    code = doing_codes(threads, local_parent(threads), names, waits)
    event = rows_with(threads["id"].to_numpy(), rows["event"].to_numpy())
    return rows.with_columns(in_words(code[event]).alias("doing"))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """Rows by thread, the one that does most first, each closed by the time in which it recorded nothing."""
    rows = stacked(tables)
    if rows.is_empty() or rows["what"].is_null().all():
        why = nothing(scene, note("no_thread_recorded"), note("record_threads"))
        return without(ANALYSIS, scene, options, why)
    rows = rows.unique(["lane", "what", "inside"], keep="first", maintain_order=True)
    busy = rows.group_by("lane", "host", "thread", "window", maintain_order=True).agg(
        pl.col("time").sum().alias("busy"),
        pl.col("time").filter(pl.col("doing").ne_missing(ASLEEP)).sum().alias("awake"),
    )
    rest = busy.filter(pl.col("busy") < pl.col("window")).select(
        "lane", "host", "thread", pl.lit(NOTHING).alias("what"), pl.lit(None, pl.String).alias("inside"),
        pl.lit(None, pl.String).alias("doing"),
        (pl.col("window") - pl.col("busy")).alias("time"),
        pl.lit(0, pl.Int64).alias("count"), pl.lit(None, pl.Int64).alias("longest"), "window",
    )  # fmt: skip
    names = {index: host.name for index, host in enumerate(scene.hosts)}
    table = (
        pl.concat([rows.drop_nulls("what"), rest], how="diagonal")
        .join(busy.select("lane", "awake"), on="lane")
        .sort(
            "awake",
            "lane",
            pl.col("what") == NOTHING,
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
            CARRIED,
        )
    )
    return answer(ANALYSIS, table, scene, options)


ANALYSIS = Analysis(
    name="host",
    title="Host",
    question="What did every host thread do in this window?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    of_host=(ROWS,),
)
