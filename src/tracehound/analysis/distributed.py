"""Computation, communication and their overlap on each rank; and the transfer and waiting within communication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import RUN_OR_STEP
from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.devices.missing_data import count_concurrent_executions, merged_devices_notes, no_steps_note
from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.ranks.collective_matching import (
    MATCHING_DEFINITION,
    NO_COLLECTIVES_NOTE,
    WAITS_DEFINITION,
    MatchedCalls,
    match_collectives,
)
from tracehound.analysis.ranks.process_groups import missing_rank_notes
from tracehound.analysis.ranks.rank_collectives import CALL_SCHEMA, rank_calls
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.analysis.timing.device_busy import busy_intervals, device_work
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    clock_difference_notes,
    device_clock,
    has_device_clock,
    steps_in_window,
    window_length_notes,
    work_on_device_clock,
)
from tracehound.analysis.timing.other_step_work import (
    NO_WORK_OUTSIDE,
    STEP_COLUMNS,
    outside_marks_notes,
    work_outside_marks,
)
from tracehound.formats.torch_names import COLLECTIVE_PARAMS
from tracehound.model.notes import Note, note
from tracehound.model.row_slices import RowSlices
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Intervals, clip, covered_lengths, intersect, subtract, union

DEFINITION = f"""\
Per rank, and with by=step per rank and step: computation = computation runs and no communication, overlap = both run
at once, communication = communication runs and no computation, other = the rest of the span. The four add up to the
span. All are lengths of unions of intervals over all streams. So computation + overlap is the compute of breakdown and
the second group of overlap; communication is the exposed communication of breakdown; communication + overlap is all
communication. If nothing works on a device (CPU, gloo), computation is the time in host operators outside of
collectives. If a file does not tell several devices apart, they are one rank, and a note says so. Times of a device
with a clock of its own (TPU), and the bounds of steps and of a window, are on that clock, as in breakdown.

transfer and synchronizing divide the time in which communication runs, hidden or not. The last part of each call, as
long as the shortest call of that collective on any rank, is transfer; the part before is synchronizing, which is
waiting for the last rank. For a TPU's asynchronous collective only its start and its done count, as in breakdown;
async_overlap shows the time in between, which other ops hide. This needs no common clock. It is a lower bound if the
calls of a collective end at different times (gloo): by arrival times, as in arrivals and stragglers, a rank may have
waited longer, and a note says so. Both are unions: a wait is hidden while another collective transfers. unmatched is
the rest: communication that no other rank here has.

{WAITS_DEFINITION}

{MATCHING_DEFINITION}

The PyTorch TensorBoard plugin has the same computation, overlapping, communication and other, and data transfer and
synchronizing. It also counts the host's range around a collective as communication (and as transfer); it matches the
i-th collective of every rank, and shows nothing if their numbers differ; since PyTorch 2.0 it takes NCCL's kernels for
computation. Its steps last until the last kernel that was launched in them, as in step_parts; here they end at their
marks, and a note tells how much of their work ran outside."""

_TIME_COLUMNS: Final = (
    Column("computation", "time", "computation runs and no communication (compute of breakdown - overlap)"),
    Column("overlap", "time", "computation and communication run at once (hidden communication)"),
    Column("communication", "time", "communication runs and no computation (exposed, as in breakdown)"),
    Column("other", "time", "neither runs", brief=False),
    Column(
        "transfer",
        "time",
        "communication that moves data (as long as the shortest call of the collective)",
        brief=False,
    ),
    Column("synchronizing", "time", "communication that only waits for the last rank"),
    Column("waiting", "share", "synchronizing", "the span"),
    Column("unmatched", "time", "communication that no other rank here has", brief=False),
)

COLUMNS = (
    Column("rank", "number", "rank"),
    Column("span", "time", "from first to last work, or the window"),
    *_TIME_COLUMNS,
)

BY_STEP_COLUMNS: Final = (
    Column("step", "number", "number of the step"),
    Column("rank", "number", "rank"),
    Column("start", "instant", "start of the step, or of the part in the window", brief=False),
    Column("span", "time", "length of the step, or of the part in the window"),
    *_TIME_COLUMNS,
    Column("event", "id", "the mark of the step"),
)

_PART_COLUMNS: Final = (
    "step", "event", "start", "end", "from", "until", "computation", "overlap", "communication", "other", "works",
    "clocked", "beside", "stepped", "outside",
)  # fmt: skip


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The calls of the rank, its run or steps with their parts, and its communication, as rows told apart by `what`.

    `from` and `until` are the bounds of a row on the clock of its parts: the device's own where it is `clocked`. In
    rows `runs` they bound an interval in which communication runs. All in ps.
    """
    on_device = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height > 0
    by_step = RUN_OR_STEP.value_in(options.given) == "step"
    events = device_work(rank_trace, "lane", *DEVICE_TIMES, *(STEP_COLUMNS if by_step else ()))
    clocked = on_device and has_device_clock(events)
    computing, communicating, low, high = (
        _device_intervals(rank_trace, events) if on_device else _host_intervals(rank_trace)
    )
    if by_step:
        intervals = steps_in_window(rank_trace, device_clock(rank_trace) if clocked else None).drop("inferred")
    else:
        intervals = _run_as_interval(low, high)
    start, end = intervals["from"].to_numpy(), intervals["until"].to_numpy()
    overlapping = intersect(computing, communicating)
    times = {
        "computation": covered_lengths(subtract(computing, communicating), start, end),
        "overlap": covered_lengths(overlapping, start, end),
        "communication": covered_lengths(subtract(communicating, computing), start, end),
    }
    outside_marks = work_outside_marks(rank_trace, events) if by_step else NO_WORK_OUTSIDE
    parts = intervals.with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"), *(pl.Series(name, values) for name, values in times.items())
    ).with_columns(
        (pl.col("until") - pl.col("from") - pl.sum_horizontal(*times)).alias("other"),
        pl.lit(on_device).alias("works"),
        pl.lit(clocked).alias("clocked"),
        pl.lit(0 if clocked else count_concurrent_executions(rank_trace), pl.Int64).alias("beside"),
        pl.lit(outside_marks.work, pl.Int64).alias("stepped"),
        pl.lit(outside_marks.outside, pl.Int64).alias("outside"),
    )
    sides = (communicating.start, communicating.end)
    communicating_rows = pl.DataFrame(
        {name: pl.Series(side, dtype=pl.Int64) for name, side in zip(_INTERVAL_COLUMNS, sides, strict=True)}
    )
    rows = {
        "call": rank_calls(rank_trace),
        "part": parts,
        "runs": communicating_rows.with_columns(pl.lit(rank_trace.rank, pl.Int64).alias("rank")),
    }
    return pl.concat([each.with_columns(pl.lit(what).alias("what")) for what, each in rows.items()], how="diagonal")


_INTERVAL_COLUMNS: Final = ("from", "until")


def _device_intervals(rank_trace: RankTrace, events: pl.DataFrame) -> tuple[Intervals, Intervals, int, int]:
    """Intervals in which the rank's device computes and communicates, and the bounds of its work."""
    device_clock_work = work_on_device_clock(events, rank_trace)
    state = busy_intervals(
        device_clock_work.events, replace(rank_trace, start=device_clock_work.start, end=device_clock_work.end)
    )
    return state.compute, state.communication, state.start, state.end


def _host_intervals(rank_trace: RankTrace) -> tuple[Intervals, Intervals, int, int]:
    """Intervals of the operators and collectives of the host, where nothing works on a device; and their bounds."""
    kinds = pl.col("kind").is_in(["op", "collective"])
    rows = collect_frame(
        overlapping_events(rank_trace.threads, rank_trace.start, rank_trace.end)
        .filter(kinds)
        .select("start", "end", "kind", "name")
    )
    is_communication = pl.col("name").cast(pl.String).str.contains(rf"^c10d::|^{COLLECTIVE_PARAMS}$|^gloo:|^nccl:")
    ops, collectives = (
        rows.filter((pl.col("kind") == "op") & ~is_communication),
        rows.filter(pl.col("kind") == "collective"),
    )
    computing, communicating = (
        clip(union(each["start"].to_numpy(), each["end"].to_numpy()), rank_trace.start, rank_trace.end)
        for each in (ops, collectives)
    )
    if rank_trace.windowed or rows.is_empty():
        return computing, communicating, rank_trace.start, rank_trace.end if rank_trace.windowed else rank_trace.start
    return computing, communicating, int(rows["start"].to_numpy().min()), int(rows["end"].to_numpy().max())


def _run_as_interval(low: int, high: int) -> pl.DataFrame:
    bounds = {"start": low, "end": high, "from": low, "until": high}
    columns = ("step", "event", *bounds)
    return pl.DataFrame([{"step": None, "event": None, **bounds}], schema=dict.fromkeys(columns, pl.Int64))


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per rank, or per step and rank."""
    by_step = RUN_OR_STEP.value_in(options.given) == "step"
    analysis = ANALYSIS.with_shown_columns(options.given)
    rank_tables = [table for table in stacks_of(tables) if table.height]
    parts = [table.filter(pl.col("what") == "part").select("rank", *_PART_COLUMNS) for table in rank_tables]
    rows = pl.concat(parts) if parts else pl.DataFrame()
    if rows.is_empty():
        return empty_result(
            analysis, context, options, no_steps_note(context) if by_step else note("no_ranks", level="missing")
        )
    matching = match_collectives(
        [table.filter(pl.col("what") == "call").select(CALL_SCHEMA.names()) for table in rank_tables], context
    )
    matched_calls = _move_to_device_clocks(matching.calls, rows.filter("clocked")["rank"].unique())
    communicating_rows = pl.concat(
        [table.filter(pl.col("what") == "runs").select("rank", *_INTERVAL_COLUMNS) for table in rank_tables]
    )
    calls_by_rank, runs_by_rank, rows_by_rank = (
        RowSlices(frame, pl.col("rank")) for frame in (matched_calls, communicating_rows, rows)
    )
    split_rows = pl.concat(
        [
            _split_communication(calls_by_rank.rows(rank), runs_by_rank.rows(rank), rows_by_rank.rows(rank))
            for rank in rows["rank"].unique(maintain_order=True)
        ]
    )
    table = split_rows.with_columns((pl.col("until") - pl.col("from")).alias("span")).with_columns(
        (pl.col("synchronizing") / pl.col("span")).fill_nan(None).alias("waiting")
    )
    order = ("step", "rank", "start") if by_step else ("rank",)
    notes = [
        *_notes(table, matching),
        *_overlap_notes(table),
        *merged_devices_notes(table, "overlap"),
        *(
            outside_marks_notes(table)
            if by_step
            else []
            if context.windowed
            else _arrival_wait_notes(matching.calls, table)
        ),
        *_host_only_notes(table),
        *offset_notes(matching.clocks),
        *missing_rank_notes(matching.calls, context),
        *matching.notes,
        *_clock_notes(table, context, by_step=by_step),
    ]
    return make_result(analysis, table.sort(order), context, options, notes)


def _move_to_device_clocks(calls: pl.DataFrame, clocked: pl.Series) -> pl.DataFrame:
    """The matched calls, on the device's own clock for ranks in `clocked`, with `transfer` measured there."""
    on_device_clock = pl.col("rank").is_in(clocked.implode())
    moved_calls = calls.with_columns(
        pl.when(on_device_clock).then(f"device_{side}").otherwise(side).alias(side) for side in _CALL_BOUNDS
    )
    timed_calls = moved_calls.drop_nulls(_CALL_BOUNDS)
    return timed_calls.with_columns((pl.col("end") - pl.col("start")).min().over("meeting").alias("transfer"))


_CALL_BOUNDS: Final = ("start", "end")


def _split_communication(rank_calls: pl.DataFrame, runs: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one rank with their communication split into transferring, waiting and unmatched.

    `waited` is all the waiting of its calls, also where no communication runs on the device.
    """
    matched_calls = rank_calls.filter(pl.col("meeting").is_not_null())
    start, end, transfer = (matched_calls[name].to_numpy() for name in ("start", "end", "transfer"))
    transferring, matched = union(end - transfer, end), union(start, end)
    communicating = union(rank_calls["start"].to_numpy(), rank_calls["end"].to_numpy())
    low, high = rows["from"].to_numpy(), rows["until"].to_numpy()
    waiting, communicating_on_device = (
        subtract(matched, transferring),
        union(runs["from"].to_numpy(), runs["until"].to_numpy()),
    )
    lengths = {
        "transfer": covered_lengths(intersect(transferring, communicating_on_device), low, high),
        "synchronizing": covered_lengths(intersect(waiting, communicating_on_device), low, high),
        "unmatched": covered_lengths(intersect(subtract(communicating, matched), communicating_on_device), low, high),
        "waited": covered_lengths(waiting, low, high),
    }
    has_matches = len(start) > 0
    return rows.with_columns(
        *(pl.Series(name, values if has_matches or name == "unmatched" else [None] * len(values), pl.Int64)
          for name, values in lengths.items())
    )  # fmt: skip


def _overlap_notes(table: pl.DataFrame) -> list[Note]:
    """A note with the shares of all computation and all communication, where they overlap."""
    overlap, span = int(table["overlap"].sum()), int(table["span"].sum())
    if not overlap:
        return []
    computing, communicating = ((int(table[name].sum()) + overlap) / span for name in ("computation", "communication"))
    return [note("overlap_included", computation=computing, communication=communicating)]


def _clock_notes(table: pl.DataFrame, context: RunContext, *, by_step: bool) -> list[Note]:
    if by_step:
        return clock_difference_notes("steps", table["span"], table["end"] - table["start"])
    return window_length_notes(table.filter("clocked")["span"], context)


def _notes(table: pl.DataFrame, matching: MatchedCalls) -> list[Note]:
    """A note with the share of communication that only waits."""
    waiting, transferring = int(table["synchronizing"].sum()), int(table["transfer"].sum())
    if waiting + transferring:
        all_matched = not table["unmatched"].sum()
        return [note("communication_waits", waiting=waiting / (waiting + transferring), every=all_matched)]
    if matching.calls.is_empty() and not matching.notes:
        return [note(NO_COLLECTIVES_NOTE)]
    if table["rank"].n_unique() > 1:
        return [note("communication_not_matched", level="missing")]
    return [note("waiting_needs_several_ranks", level="missing")]


_NOTABLE_FACTOR: Final = 1.25
"""A wait that is so many times longer by arrivals than by durations has a note."""


def _arrival_wait_notes(calls: pl.DataFrame, table: pl.DataFrame) -> list[Note]:
    """A note where ranks waited much longer by the arrival of the last one, on the trace's clock."""
    matched_calls = calls.filter(pl.col("meeting").is_not_null())
    with_last_arrival = matched_calls.with_columns(
        pl.min_horizontal("end", pl.col("start").max().over("meeting")).alias("came")
    )
    waited = sum(
        union(rank_calls["start"].to_numpy(), rank_calls["came"].to_numpy()).length
        for rank_calls in with_last_arrival.partition_by("rank", maintain_order=True)
    )
    return [note("waited_by_arrivals", time=waited)] if waited > _NOTABLE_FACTOR * int(table["waited"].sum()) else []


def _host_only_notes(table: pl.DataFrame) -> list[Note]:
    """A note on ranks of which only the host is known."""
    ranks = table.filter(~pl.col("works"))["rank"].unique().sort().to_list()
    return [note("computation_of_host", level="missing", ranks=tuple(ranks))] if ranks else []


ANALYSIS = Analysis(
    name="distributed",
    title="Distributed",
    question="How much does each rank compute, communicate and wait for others, and what do they overlap?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(RUN_OR_STEP,),
    columns_by_setting={"step": BY_STEP_COLUMNS},
)
