"""Late ranks by step: how late they are, and what made them late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, parse_time_length
from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.packed_tables import pack_tables, unpack_ranks
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks.collective_matching import (
    MATCHING_DEFINITION,
    NO_COLLECTIVES_NOTE,
    WAITS_DEFINITION,
    match_collectives,
    no_shared_collectives_notes,
)
from tracehound.analysis.ranks.compared_activities import compared_activities, number_calls
from tracehound.analysis.ranks.last_arrivals import (
    LATENESS_DEFINITION,
    is_send_or_receive,
    last_arrivals,
    sends_and_receives_notes,
)
from tracehound.analysis.ranks.lateness import CAUSE_DEFINITION as CAUSES
from tracehound.analysis.ranks.lateness import (
    LEAST_COMPARED,
    WAIT_SCHEMA,
    LatenessCause,
    LatenessCauses,
    group_late_ranks,
)
from tracehound.analysis.ranks.process_groups import missing_rank_notes
from tracehound.analysis.ranks.rank_collectives import (
    CALLS_OF_STEPS_DEFINITION,
    intervals_without_compute,
    rank_calls_in_steps,
)
from tracehound.analysis.ranks.work_before_collectives import ACTIVITY_SCHEMA, activities_before_collectives
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_table, make_result
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import schema

DEFINITION = f"""\
A row for each step and rank that came last at a collective of the step, the latest first. {MATCHING_DEFINITION}
{CALLS_OF_STEPS_DEFINITION}

{LATENESS_DEFINITION} most = the same at the collective where it is longest, and at = that collective. lasts = number
of collectives to which it came last by more than nothing. Rows that are late by less than the setting least are left
out. The waiting in the headline is the part in which any of the others had nothing to compute: while they compute, as
with the buckets of a backward pass, nobody waits yet. Sends and receives are left out: a receiver depends on its
sender, and pipeline stages take turns.

{WAITS_DEFINITION}

{CAUSES}

HolisticTraceAnalysis' stragglers are ranks that start the last large NCCL kernel of a step late; it names no cause,
and misses all kernels since NCCL 2.19. TraceLens counts how often each rank came last."""

LEAST_SETTING: Final = Setting("least", "20us", "a rank that is less late in a step is left out", parse_time_length)

_MANY_LATE_CALLS: Final = 3
"""Lateness that is this many times its longest part has many calls as its cause."""

MOST_EXPLAINED: Final = 200
"""Most rows for which a cause is searched; the rest have none."""

COLUMNS = (
    Column("step", "number", "step"),
    Column("rank", "number", "rank that came last"),
    Column("late", "time", "time from the median arrival of the others to its own, over the step; overlaps count once"),
    Column("cause", "text", "activity before that which took longer than on the others"),
    Column("excess", "time", "extra time of the cause"),
    Column("took", "time", "self time of the cause on the rank", brief=False),
    Column("usual", "time", "median self time of the cause on the other ranks", brief=False),
    Column("side", "text", "host or device"),
    Column("inside", "text", "event around the cause", brief=False),
    Column("at", "text", "collective at which it was latest"),
    Column("most", "time", "lateness there", brief=False),
    Column("lasts", "count", "collectives of the step to which it came last"),
    Column("start", "instant", "start of the longest wait for it", brief=False),
    Column("duration", "time", "length of that wait", brief=False),
    Column("event", "id", "the cause; without one the call of the collective"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """Two packed tables: the calls of the rank, and its activities before each, where others may wait for it.

    Then the calls also have the intervals in which they are `exposed`.
    """
    del options
    calls = rank_calls_in_steps(rank_trace)
    if rank_trace.is_only_rank or calls.is_empty():
        return pack_tables([calls, pl.DataFrame(schema=ACTIVITY_SCHEMA)])
    exposed_calls = calls.join(
        intervals_without_compute(rank_trace, calls), on="event", how="left", maintain_order="left"
    )
    return pack_tables([exposed_calls, activities_before_collectives(rank_trace, calls)])


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per step and rank, the latest first."""
    table, notes = _late_rows(tables, context, options)
    return make_result(ANALYSIS, table, context, options, notes)


def combine_with_waits(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The result of `combine`, whose table also has the columns of `WAIT_SCHEMA`."""
    table, notes = _late_rows(tables, context, options)
    return replace(make_result(ANALYSIS, table, context, options, notes), table=table)


_LATE_SCHEMA: Final = schema({**empty_table(COLUMNS).schema, **WAIT_SCHEMA})


def _late_rows(
    tables: Sequence[pl.DataFrame], context: RunContext, options: Options
) -> tuple[pl.DataFrame, list[Note]]:
    calls, activities = unpack_ranks(tables) or ((), ())
    if not any(table.height for table in stacks_of(calls)):
        return pl.DataFrame(schema=_LATE_SCHEMA), [note(NO_COLLECTIVES_NOTE)]
    matching = match_collectives(calls, context)
    matched_calls = matching.multi_rank_calls
    if matched_calls.is_empty():
        return pl.DataFrame(schema=_LATE_SCHEMA), no_shared_collectives_notes(matching, context)
    left_out = is_send_or_receive(matched_calls)
    late_rows = last_arrivals(matched_calls.filter(~left_out))
    exposed_calls = pl.concat([table.select("event", "exposed") for table in stacks_of(calls) if table.height])
    notable_rows = _add_waits(
        late_rows.filter(pl.col("late") >= LEAST_SETTING.value_in(options.given)), matched_calls, exposed_calls
    )
    numbered_calls = number_calls(matching.calls)
    compared = compared_activities(
        notable_rows.head(MOST_EXPLAINED), numbered_calls, lambda: stacks_of(activities), LEAST_COMPARED
    )
    table = _add_causes(notable_rows, matched_calls, LatenessCauses(numbered_calls, compared))
    short, least = late_rows.height - notable_rows.height, LEAST_SETTING.value_in(options.given)
    jitter = [note("short_latenesses_left_out", latenesses=short, least=least)] if short else []
    return table, [
        *_notes(table, matched_calls, context),
        *offset_notes(matching.clocks),
        *jitter,
        *sends_and_receives_notes(left_out),
        *missing_rank_notes(matched_calls, context),
        *matching.notes,
    ]


def _add_waits(late_rows: pl.DataFrame, matched_calls: pl.DataFrame, exposed_calls: pl.DataFrame) -> pl.DataFrame:
    """Add `WAIT_SCHEMA`: when each rank was late, and which ranks waited then with nothing to compute.

    `exposed_calls` has the intervals in which calls are `exposed`.
    """
    calls = late_rows.select("step", "rank", event="calls").explode("event")
    late_intervals = calls.join(matched_calls.select("event", "meeting", end="arrived", length="late"), on="event")
    late_intervals = late_intervals.with_columns((pl.col("end") - pl.col("length")).alias("start"))
    other_calls = matched_calls.select("meeting", "arrived", "wait", call="event", other="rank")
    pairs = late_intervals.join(other_calls, on="meeting").filter(pl.col("rank") != pl.col("other"))
    exposed_intervals = exposed_calls.explode("exposed").drop_nulls().unnest("exposed")
    waits = pairs.join(exposed_intervals, left_on="call", right_on="event").with_columns(
        pl.max_horizontal("start", pl.col("arrived") + pl.col("after")).alias("start"),
        (pl.col("arrived") + pl.min_horizontal("wait", "until")).alias("end"),
    )
    waits = waits.filter(pl.col("start") < pl.col("end"))
    interval_lists = [
        late_intervals.group_by("step", "rank").agg(pl.struct("start", "end").alias("lates")),
        waits.group_by("step", "rank").agg(pl.struct(pl.col("other").alias("rank"), "start", "end").alias("waits")),
    ]
    for each in interval_lists:
        late_rows = late_rows.join(each, on=["step", "rank"], how="left", nulls_equal=True, maintain_order="left")
    return late_rows.cast(pl.Schema({**late_rows.schema, **WAIT_SCHEMA}))


def _add_causes(late_rows: pl.DataFrame, matched_calls: pl.DataFrame, causes: LatenessCauses) -> pl.DataFrame:
    """Add what made each rank late."""
    explained_rows = late_rows.head(MOST_EXPLAINED)
    is_explained = pl.col("meeting").is_in(explained_rows["meeting"].implode())
    explained_calls = matched_calls.select("meeting", "rank", "start", "issued").filter(is_explained)
    calls_of_collective = explained_calls.partition_by("meeting", as_dict=True)
    causes_found: list[LatenessCause | None] = []
    for row in explained_rows.select("meeting", "rank", "call", "calls", "late", "most").iter_rows(named=True):
        other_calls = calls_of_collective[row["meeting"],].filter(pl.col("rank") != row["rank"])
        delays, ranks = (other_calls["start"] - other_calls["issued"]).to_list(), other_calls["rank"].to_list()
        if row["late"] > _MANY_LATE_CALLS * row["most"]:
            causes_found.append(causes.find_repeated_cause(row["rank"], row["calls"], row["late"], ranks))
        else:
            causes_found.append(causes.find_cause(row["rank"], row["call"], row["most"], ranks, delays))
    cause_columns = pl.DataFrame([_cause_fields(cause) for cause in causes_found], schema=_CAUSE_TYPES)
    with_causes = pl.concat([explained_rows, cause_columns], how="horizontal")
    all_rows = pl.concat([with_causes, late_rows.slice(explained_rows.height)], how="diagonal")
    return all_rows.with_columns(pl.coalesce("event", "call").alias("event"))


_CAUSE_TYPES: Final = {
    "cause": pl.String, "excess": pl.Int64, "took": pl.Int64, "usual": pl.Int64, "side": pl.String,
    "inside": pl.String, "event": pl.Int64,
}  # fmt: skip


def _cause_fields(cause: LatenessCause | None) -> dict[str, Any]:
    if cause is None:
        return dict.fromkeys(_CAUSE_TYPES)
    return {
        "cause": cause.name, "excess": cause.excess, "took": cause.took, "usual": cause.usual, "side": cause.where,
        "inside": cause.inside, "event": cause.event,
    }  # fmt: skip


def _notes(table: pl.DataFrame, matched_calls: pl.DataFrame, context: RunContext) -> list[Note]:
    """Notes on the ranks that others waited for most, the number of steps, and the cause."""
    if table.is_empty():
        return [note("no_late_rank")]
    worst = group_late_ranks(table, context.ranks)[0]
    step_count = matched_calls["step"].drop_nulls().n_unique()
    causes = table.head(MOST_EXPLAINED)["cause"]
    unknown_count = causes.null_count()
    unknown = [note("causes_unknown", level="missing", rows=unknown_count, of=causes.len())] if unknown_count else []
    ranks, steps, late_time, waited_time = worst.ranks, worst.steps, worst.late, worst.time_lost
    if not waited_time:
        return [note("late_without_waits", ranks=ranks, time=late_time, steps=steps, of=step_count), *unknown]
    cause, excess = worst.cause, worst.excess
    wait_note = note(
        "waited_for_ranks", ranks=ranks, time=waited_time, steps=steps, of=step_count, cause=cause, excess=excess
    )
    return [wait_note, *unknown, note("waited_for_counted_once")]


ANALYSIS = Analysis(
    name="stragglers",
    title="Stragglers",
    question="Which rank is late, by how much in each step, and what made it late?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(LEAST_SETTING,),
)
