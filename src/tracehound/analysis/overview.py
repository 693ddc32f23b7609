"""Contents of the trace, rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.devices.missing_data import missing_devices
from tracehound.analysis.rank_trace import RankTrace, RunContext, SharedHostResult
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import collect_frame

DEFINITION = """\
One row per rank: the device, the host that drives it, its lanes and events (in the window), and the start and end of
its device work. Events of host threads are counted on the host's first rank."""

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


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """One row of counts."""
    del options
    device, host = (
        rank_trace.lanes.filter(pl.col("rank").is_not_null()),
        rank_trace.lanes.filter(pl.col("rank").is_null()),
    )
    work_bounds = rank_trace.device.select(
        pl.len().cast(pl.Int64).alias("events"), pl.col("start").min().alias("first"), pl.col("end").max().alias("last")
    )
    counts = collect_frame(work_bounds)
    return counts.select(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(device.height, pl.Int64).alias("lanes"),
        "events",
        pl.lit(host.height, pl.Int64).alias("threads"),
        pl.lit(HOST_EVENTS.result_for(rank_trace), pl.Int64).alias("host_events"),
        "first",
        "last",
        pl.lit(rank_trace.steps.filter(rank_trace.is_chosen_step)["step"].n_unique(), pl.Int64).alias("steps"),
    )


def _count_host_events(rank_trace: RankTrace, given: ChosenSettings) -> int:
    del given
    inside = (pl.col("start") < rank_trace.end) & (pl.col("end") > rank_trace.start)
    return int(collect_frame(rank_trace.threads.filter(inside).select(pl.len())).item())


HOST_EVENTS: Final = SharedHostResult(_count_host_events)
"""Number of events of a host's threads in the window."""


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per rank, in the order of ranks."""
    if not tables:
        return empty_result(ANALYSIS, context, options, *_notes(context))
    names = {index: host.name for index, host in enumerate(context.hosts)}
    ranks = context.ranks.select(
        pl.col("rank").cast(pl.Int64),
        pl.col("label").alias("device"),
        "model",
        pl.col("host").replace_strict(names, return_dtype=pl.String),
    )
    table = pl.concat(stacks_of(tables)).join(ranks, on="rank", how="left", maintain_order="left").sort("rank")
    return make_result(ANALYSIS, table, context, options, _notes(context))


def _notes(context: RunContext) -> list[Note]:
    formats = tuple(sorted(set(context.formats)))
    missing = missing_devices(context)
    return [
        note(
            "trace_total",
            formats=formats,
            files=tuple(map(context.formats.count, formats)),
            hosts=tuple(host.name for host in context.hosts),
            ranks=context.ranks.height,
            time=context.end - context.start,
        ),
        *([missing.note] if missing else []),
        *_joining_notes(context),
    ]


def _joining_notes(context: RunContext) -> list[Note]:
    """Notes on what was inferred to join several files into one trace: their clock, the ranks of files."""
    if len(context.formats) < 2:
        return []
    file_notes = {each for notes in context.file_notes for each in notes}
    return [each for each in context.notes if each.level == "inferred" and each not in file_notes]


ANALYSIS = Analysis(
    name="overview",
    title="Overview",
    question="What is in this trace?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    host_computations=(HOST_EVENTS,),
)
