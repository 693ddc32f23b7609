"""What the trace holds, rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.absent import absent
from tracehound.analysis.result import Analysis, Column, OfHost, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import Given
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = """\
One row per rank: the device, the host that drives it, its lanes and events (in the window), and from when to when its
device worked. Events of a host's threads are counted on the first of its ranks."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("device", "text", "device as the file names it"),
    Column("model", "text", "model of the device"),
    Column("host", "text", "machine or process that drives it"),
    Column("lanes", "count", "streams and lines of the device", brief=False),
    Column("events", "count", "events on the device"),
    Column("threads", "count", "threads of its host"),
    Column("host_events", "count", "events on those threads"),
    Column("first", "instant", "start of the first device event", brief=False),
    Column("last", "instant", "end of the last device event", brief=False),
    Column("steps", "count", "steps", brief=False),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """One row of counts."""
    del options
    device, host = share.lanes.filter(pl.col("rank").is_not_null()), share.lanes.filter(pl.col("rank").is_null())
    extent = share.device.select(
        pl.len().cast(pl.Int64).alias("events"), pl.col("start").min().alias("first"), pl.col("end").max().alias("last")
    )
    counted = collected(extent)
    return counted.select(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(device.height, pl.Int64).alias("lanes"),
        "events",
        pl.lit(host.height, pl.Int64).alias("threads"),
        pl.lit(HOST_EVENTS.of(share), pl.Int64).alias("host_events"),
        "first",
        "last",
        pl.lit(share.steps.filter(share.chosen)["step"].n_unique(), pl.Int64).alias("steps"),
    )


def _host_events(share: Share, given: Given) -> int:
    del given
    inside = (pl.col("start") < share.end) & (pl.col("end") > share.start)
    return int(collected(share.threads.filter(inside).select(pl.len())).item())


HOST_EVENTS: Final = OfHost(_host_events)
"""How many events of a host's threads lie in the window."""


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per rank, in the order of ranks."""
    if not tables:
        return without(ANALYSIS, scene, options, *_notes(scene))
    names = {index: host.name for index, host in enumerate(scene.hosts)}
    ranks = scene.ranks.select(
        pl.col("rank").cast(pl.Int64),
        pl.col("label").alias("device"),
        "model",
        pl.col("host").replace_strict(names, return_dtype=pl.String),
    )
    table = pl.concat(tables).join(ranks, on="rank", how="left", maintain_order="left").sort("rank")
    return answer(ANALYSIS, table, scene, options, _notes(scene))


def _notes(scene: Scene) -> list[Note]:
    formats = tuple(sorted(set(scene.formats)))
    missing = absent(scene)
    return [
        note(
            "trace_total",
            formats=formats,
            files=tuple(map(scene.formats.count, formats)),
            hosts=tuple(host.name for host in scene.hosts),
            ranks=scene.ranks.height,
            time=scene.end - scene.start,
        ),
        *([missing.note] if missing else []),
        *_joined(scene),
    ]


def _joined(scene: Scene) -> list[Note]:
    """What had to be guessed to make one trace of several files: their clock, whose rank is whose."""
    if len(scene.formats) < 2:
        return []
    own = {each for notes in scene.read for each in notes}
    return [each for each in scene.notes if each.level == "inferred" and each not in own]


ANALYSIS = Analysis(
    name="overview",
    title="Overview",
    question="What is in this trace?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    of_host=(HOST_EVENTS,),
)
