"""Repairs, losses, missing records and inferences of reading a trace."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

from tracehound.analysis.devices.missing_data import (
    LAUNCHES_WITHOUT_WORK,
    count_concurrent_executions,
    count_launches,
    missing_devices,
    missing_work_notes,
    no_device_activity_reason,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks.process_groups import missing_job_ranks_notes
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_table, make_result
from tracehound.model.notes import PROFILER_ERROR, PROFILER_WARNING, Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import collect_frame

DEFINITION = """\
repaired = damaged input of which everything was kept. dropped = input that could not be kept. missing = data that the
profiler did not record and an analysis would have used. inferred = conclusions about what the file does not say. info
= data that was read and is not shown as an event. Always of the whole run: a window does not limit it. What
the profiler itself reports comes first. In text, in markdown and in the explorer a message of several files is one row:
the numbers in it are those of the first file, the counts are added up. csv and json have a row for each file.

Launches without device work (PyTorch): calls that launch kernels or graphs or start copies, that have a correlation id,
and that no kernel, copy or memset belongs to, though the file has device work with such ids. Not counted: memsets (one
of 0 bytes has no work), calls during the capture of a graph (between StreamBeginCapture and StreamEndCapture on any
thread; told apart), calls inside others, calls at the end of the recording whose work would have ended after it, and as
many calls as there are later events without a correlation id, or with that of another event's call. Above 1 % of a
rank's launches it is a warning; above 5 % all tables that rest on idle time or on launches (gaps, breakdown, steps,
launches and others) say it first.

Impossible ends (PyTorch): a stream of a GPU runs its kernels one after the other, and may begin the next one somewhat
early. A kernel that begins before another one of its stream and ends more than 1 us after it has an end that cannot be
true: it is cut at the next start on the stream, in all tables and on the timeline. So is a copy that takes at least a
millisecond and moves less than 0.1 GB/s; other copies may run beside kernels. The details of the event have the
recorded duration. Not cut is a kernel that contains only kernels of its own launch (branches of a graph), unless less
than 10 % with its name run beside the next one, nor any on a stream on which more kernels run beside others than have
such ends."""

COLUMNS = (
    Column("level", "text", "repaired, dropped, missing, inferred or info"),
    Column("count", "count", "how often"),
    Column("what", "note", "message"),
    Column("where", "text", "first position"),
)

LEVEL_ORDER = ("dropped", "repaired", "missing", "inferred", "info")

_FIRST_CODES = (PROFILER_ERROR, PROFILER_WARNING, LAUNCHES_WITHOUT_WORK)
"""Codes of warnings that come first: what they tell of makes most numbers of the trace doubtful."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """One row: device work, how much of it has no known launch, and how much overlaps itself; launches without work."""
    lanes = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())["lane"].to_list()
    counts = rank_trace.device.filter(pl.col("lane").is_in(lanes)).select(
        pl.len().cast(pl.Int64).alias("work"), pl.col("launch").null_count().cast(pl.Int64).alias("orphans")
    )
    threads = rank_trace.lanes.filter(pl.col("rank").is_null()).height
    return pl.concat([collect_frame(counts), count_launches(rank_trace, options)], how="horizontal").with_columns(
        pl.lit(threads, pl.Int64).alias("threads"),
        pl.lit(count_concurrent_executions(rank_trace), pl.Int64).alias("beside"),
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per note, the most serious first: what the profiler itself reports, and launches without work."""
    notes = [
        *context.notes,
        *missing_work_notes(tables),
        *_missing_launch_notes(tables),
        *_merged_device_notes(tables),
        *missing_job_ranks_notes(context),
    ]
    if (absent_devices := missing_devices(context)) is not None:
        notes.append(absent_devices.note)
    if (reason := no_device_activity_reason(context.facts)) is not None:
        notes.append(Note("missing", "no_device_activity", values=(("why", reason),)))
    if context.ranks.height and context.steps.is_empty():
        notes.append(Note("missing", "no_steps"))
    notes.sort(key=_note_order)
    rows = [(each.level, each.count, msgspec.json.encode(each).decode(), each.location_text) for each in notes]
    table = (
        pl.DataFrame(rows, schema=["level", "count", "what", "where"], orient="row") if rows else empty_table(COLUMNS)
    )
    return make_result(ANALYSIS, table, context, options, [] if rows else [note("nothing_to_report")])


def _note_order(each: Note) -> tuple[bool, int]:
    """The position of a note: first what makes most numbers doubtful, then by level."""
    return each.code not in _FIRST_CODES or each.level == "info", LEVEL_ORDER.index(each.level)


def _missing_launch_notes(tables: Sequence[pl.DataFrame]) -> list[Note]:
    if not tables:
        return []
    ranks = pl.concat(stacks_of(tables)).filter((pl.col("orphans") > 0) & (pl.col("threads") > 0))
    orphans, work = int(ranks["orphans"].sum()), int(ranks["work"].sum())
    if not orphans:
        return []
    where, values = f"first on rank {ranks['rank'][0]}", (("events", orphans), ("of", work))
    return [Note("missing", "device_events_without_launch", orphans, where=where, values=values)]


def _merged_device_notes(tables: Sequence[pl.DataFrame]) -> list[Note]:
    """A note on devices of one process that a file does not tell apart (PyTorch/XLA on CPUs, SPMD)."""
    ranks = pl.concat(stacks_of(tables)).filter(pl.col("beside") > 0) if tables else pl.DataFrame()
    if ranks.is_empty():
        return []
    where = f"first on rank {ranks['rank'][0]}"
    return [Note("missing", "devices_not_told_apart", int(ranks["beside"].sum()), where=where)]


ANALYSIS = Analysis(
    name="health",
    title="Health",
    question="What was repaired, dropped, missing or inferred?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
