"""Events on every lane, summed by name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import Setting, parse_pattern
from tracehound.analysis.hosts.host_threads import lane_batches
from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    counted_events_per_group,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_clock import measure_events
from tracehound.analysis.timing.row_groups import (
    category_codes,
    equal_value_group_numbers,
    group_rows,
    largest_row_per_group,
    value_change_rows,
)
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import union
from tracehound.numeric.trees import sum_groups

DEFINITION = """\
For every lane (a stream or line of a device, a host thread), the events that overlap the window, by name and kind:
total = sum of their lengths, clipped to the window, self = total - time of nested events, mean = total / count. busy
is the time in which anything ran on the lane; overlaps count once. share is self / sum of self over the lane; if
events of a lane overlap (asynchronous copies), that sum exceeds busy. Perfetto's table "Slices" of an area selection
has count, wall duration (our total) and average (our mean), and adds up nested events. Lanes are in the order of the
timeline, names by self time."""

COLUMNS = (
    Column("rank", "count", "rank; none for a thread of a host"),
    Column("lane", "text", "stream or line of the device, or thread of the host"),
    Column("name", "text", "name of the events"),
    Column("kind", "text", "what they are", brief=False),
    Column("count", "count", "events of which a part lies in the window"),
    Column("self", "time", "total - time of nested events"),
    Column("share", "share", "self time", "the self time of all events of the lane"),
    Column("total", "time", "sum of lengths"),
    Column("mean", "time", "total / count"),
    Column("busy", "time", "time in which anything ran on the lane, in the whole window", brief=False),
    Column("host", "text", "machine or process", brief=False),
    Column("event", "id", "the longest"),
)

LANE_SETTING = Setting("lane", "", "only lanes whose name matches this pattern (default: all)", parse_pattern)

_EVENT_COLUMNS = ("id", "lane", "start", "end", "name", "kind", "parent", "self", "device_start", "device_end")
_SLICE_KEY = ("id_of_lane", "name", "kind")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each name on each lane; ranks of one host give the same rows for its threads."""
    lane_pattern = LANE_SETTING.value_in(options.given)
    lanes = rank_trace.lanes.select("lane", "rank", "host", pl.col("name").alias("called"))
    lanes = lanes.filter(
        pl.Series([lane_pattern.search(name) is not None for name in lanes["called"]], dtype=pl.Boolean)
    )
    if lanes.is_empty():
        return pl.DataFrame()
    device = rank_trace.device.filter(pl.col("lane").is_in(lanes["lane"].to_list()))
    tables = [_slices_by_name(collect_frame(device.select(_EVENT_COLUMNS)), rank_trace, options)]
    host = rank_trace.with_host_window
    for threads in lane_batches(rank_trace, lanes.filter(pl.col("rank").is_null())["lane"].to_list()):
        thread_events = overlapping_events(threads, host.start, host.end) if rank_trace.windowed else threads
        tables.append(_slices_by_name(collect_frame(thread_events.select(_EVENT_COLUMNS)), host, options))
    rows = lanes.join(pl.concat(tables), on="lane", maintain_order="left_right")
    return rows.rename({"lane": "id_of_lane", "called": "lane"})


def _slices_by_name(events: pl.DataFrame, rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The events (sorted by id) of some lanes, by lane and name, the longest of each, and each lane's busy time."""
    rows = measure_events(events, rank_trace.start, rank_trace.end)
    lane, self_times, length = (rows[name].to_numpy() for name in ("lane", "own", "length"))
    group, first = group_rows(
        equal_value_group_numbers(lane), category_codes(rows["name"]), category_codes(rows["kind"])
    )
    group_count, longest = (
        len(first),
        largest_row_per_group(group, length, np.zeros_like(length), len(first)),
    )  # the first of several
    slices = rows[first].select(
        "lane",
        pl.col("name", "kind").cast(pl.String),
        pl.Series("count", np.bincount(group, minlength=group_count)),
        pl.Series("self", sum_groups(group, self_times, group_count)),
        pl.Series("total", sum_groups(group, length, group_count)),
        pl.Series("most", length[longest]),
        pl.Series("event", rows["id"].to_numpy()[longest]),
        **counted_events_per_group(options, group, rows["id"], group_count),
    )
    lane_bounds = [0, *value_change_rows(lane).tolist(), events.height] if events.height else []
    times = [np.clip(events[side].to_numpy(), rank_trace.start, rank_trace.end) for side in ("start", "end")]
    busy = [
        (lane[low], union(*(time[low:high] for time in times)).length) for low, high in itertools.pairwise(lane_bounds)
    ]
    busy_by_lane = pl.DataFrame(busy, schema={"lane": pl.Int64, "busy": pl.Int64}, orient="row")
    return slices.join(busy_by_lane, on="lane").with_columns(
        pl.lit(rank_trace.end - rank_trace.start, pl.Int64).alias("window")
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """Rows by lane; a note has the busy time of a single lane."""
    if not any(table.height for table in tables):
        has_lanes = any(table.width for table in tables)
        pattern = LANE_SETTING.value_in(options.given).pattern
        reason = note("nothing_on_lanes") if has_lanes else note("no_lane_called", pattern=pattern)
        return empty_result(ANALYSIS, context, options, reason)
    rows = pl.concat(table for table in tables if table.width).unique(_SLICE_KEY, keep="first", maintain_order=True)
    order = rows["id_of_lane"].unique(maintain_order=True)
    lanes = rows.select("id_of_lane", "lane", "busy", "window").unique("id_of_lane", maintain_order=True)
    names = {index: host.name for index, host in enumerate(context.hosts)}
    table = rows.with_columns(
        (pl.col("self") / pl.col("self").sum().over("id_of_lane")).fill_nan(0.0).alias("share"),
        (pl.col("total") / pl.col("count")).alias("mean"),
        pl.col("host").replace_strict(names, return_dtype=pl.String),
        pl.col("id_of_lane").replace_strict(order, pl.int_range(len(order), eager=True)).alias("place"),
    ).sort("place", "self", "total", "name", "kind", descending=[False, True, True, False, False])
    return make_result(ANALYSIS, table, context, options, [_total_note(rows, lanes)])


def _total_note(rows: pl.DataFrame, lanes: pl.DataFrame) -> Note:
    """A note with the number of lanes; for one lane its busy time."""
    if lanes.height != 1:
        return note("lanes_total", lanes=lanes.height)
    events, busy, window = int(rows["count"].sum()), int(lanes["busy"][0]), int(lanes["window"][0])
    return note("lane_busy", events=events, busy=busy, window=window)


ANALYSIS = Analysis(
    name="slices",
    title="Slices",
    question="What ran on every lane in this window, by name?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(LANE_SETTING,),
)
