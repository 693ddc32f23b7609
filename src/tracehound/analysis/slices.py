"""What ran on every lane, by name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import polars as pl

from tracehound.analysis.events.measured import measured
from tracehound.analysis.events.numbering import alike, codes, most, stretch, turns
from tracehound.analysis.hosts.threads import batches
from tracehound.analysis.members import grouped
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import Setting, pattern
from tracehound.analysis.share import overlapping
from tracehound.intervals import union
from tracehound.notes import Note, note
from tracehound.sums import summed
from tracehound.trace import collected

DEFINITION = """\
For every lane (a stream or line of a device, a thread of a host), the events that overlap the window, by name and kind:
total = sum of their lengths, clipped to the window, self = total less the time that events nested inside them cover,
mean = total / count. busy is the time in which anything ran on the lane, overlaps once. share is self / sum of self
over the lane: of a lane whose events overlap one another (asynchronous copies) the sum is more than busy.
Perfetto's table "Slices" of an area selection has count, wall duration (our total) and average (our mean), and adds up
what is nested. Lanes in the order of the timeline, names by self time."""

COLUMNS = (
    Column("rank", "count", "rank; none for a thread of a host"),
    Column("lane", "text", "stream or line of the device, or thread of the host"),
    Column("name", "text", "name of the events"),
    Column("kind", "text", "what they are", brief=False),
    Column("count", "count", "events of which a part lies in the window"),
    Column("self", "time", "length less the time of events nested inside"),
    Column("share", "share", "self time", "the self time of all events of the lane"),
    Column("total", "time", "sum of lengths"),
    Column("mean", "time", "total / count"),
    Column("busy", "time", "when anything ran on the lane, in the whole window", brief=False),
    Column("host", "text", "machine or process", brief=False),
    Column("event", "id", "the longest"),
)

LANE = Setting("lane", "", "only lanes whose name has this pattern (default: all)", pattern)

_EVENTS = ("id", "lane", "start", "end", "name", "kind", "parent", "self", "device_start", "device_end")
_KEY = ("id_of_lane", "name", "kind")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each name on each lane; ranks of one host give the same rows for its threads."""
    wanted = LANE.of(options.given)
    lanes = share.lanes.select("lane", "rank", "host", pl.col("name").alias("called"))
    lanes = lanes.filter(pl.Series([wanted.search(name) is not None for name in lanes["called"]], dtype=pl.Boolean))
    if lanes.is_empty():
        return pl.DataFrame()
    device = share.device.filter(pl.col("lane").is_in(lanes["lane"].to_list()))
    tables = [_by_name(collected(device.select(_EVENTS)), share, options)]
    host = share.on_host
    for threads in batches(share, lanes.filter(pl.col("rank").is_null())["lane"].to_list()):
        seen = overlapping(threads, host.start, host.end) if share.windowed else threads
        tables.append(_by_name(collected(seen.select(_EVENTS)), host, options))
    rows = lanes.join(pl.concat(tables), on="lane", maintain_order="left_right")
    return rows.rename({"lane": "id_of_lane", "called": "lane"})


def _by_name(events: pl.DataFrame, share: Share, options: Options) -> pl.DataFrame:
    """The events (sorted by id) of some lanes, by lane and name, the longest of each, and when the lane was busy."""
    rows = measured(events, share.start, share.end)
    lane, own, length = (rows[name].to_numpy() for name in ("lane", "own", "length"))
    group, first = alike(stretch(lane), codes(rows["name"]), codes(rows["kind"]))
    many, longest = len(first), most(group, length, np.zeros_like(length), len(first))  # of several the first
    named = rows[first].select(
        "lane",
        pl.col("name", "kind").cast(pl.String),
        pl.Series("count", np.bincount(group, minlength=many)),
        pl.Series("self", summed(group, own, many)),
        pl.Series("total", summed(group, length, many)),
        pl.Series("most", length[longest]),
        pl.Series("event", rows["id"].to_numpy()[longest]),
        **grouped(options, group, rows["id"], many),
    )
    edges = [0, *turns(lane).tolist(), events.height] if events.height else []
    times = [np.clip(events[side].to_numpy(), share.start, share.end) for side in ("start", "end")]
    busy = [(lane[low], union(*(time[low:high] for time in times)).length) for low, high in itertools.pairwise(edges)]
    of_lane = pl.DataFrame(busy, schema={"lane": pl.Int64, "busy": pl.Int64}, orient="row")
    return named.join(of_lane, on="lane").with_columns(pl.lit(share.end - share.start, pl.Int64).alias("window"))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """Rows by lane; of one lane the notes say how long it was busy."""
    if not any(table.height for table in tables):
        found = any(table.width for table in tables)
        pattern = LANE.of(options.given).pattern
        why = note("nothing_on_lanes") if found else note("no_lane_called", pattern=pattern)
        return without(ANALYSIS, scene, options, why)
    rows = pl.concat(table for table in tables if table.width).unique(_KEY, keep="first", maintain_order=True)
    order = rows["id_of_lane"].unique(maintain_order=True)
    lanes = rows.select("id_of_lane", "lane", "busy", "window").unique("id_of_lane", maintain_order=True)
    names = {index: host.name for index, host in enumerate(scene.hosts)}
    table = rows.with_columns(
        (pl.col("self") / pl.col("self").sum().over("id_of_lane")).fill_nan(0.0).alias("share"),
        (pl.col("total") / pl.col("count")).alias("mean"),
        pl.col("host").replace_strict(names, return_dtype=pl.String),
        pl.col("id_of_lane").replace_strict(order, pl.int_range(len(order), eager=True)).alias("place"),
    ).sort("place", "self", "total", "name", "kind", descending=[False, True, True, False, False])
    return answer(ANALYSIS, table, scene, options, [_in_all(rows, lanes)])


def _in_all(rows: pl.DataFrame, lanes: pl.DataFrame) -> Note:
    """The number of lanes; of one lane the time for which it was busy."""
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
    counts="count",
    settings=(LANE,),
)
